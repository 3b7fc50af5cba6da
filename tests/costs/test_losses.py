"""What losses expect, and closed forms along the rank."""

import numpy as np
import pytest

import rankfold as rf


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("square", lambda w: w),
        ("huber", lambda w: w),
        ("squared_hinge", lambda w: w),
        ("logistic", lambda w: 1 / (1 + np.exp(-w))),
        ("poisson", np.exp),
    ],
)
def test_what_is_expected_of_a_matrix(name, expected):
    w = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(rf.Loss.named(name).expected(w), expected(w), rtol=1e-14)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_the_path_of_closed_forms_holds_that_of_every_rank(ridge):
    """Each is the best of its rank: no step of the dense gradient, projected to rank r, goes lower."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 5)), rng.standard_normal((30, 4))
    cost = rf.Regression(X, Y)
    C, V = cost.path(ridge)
    np.testing.assert_allclose(V.T @ V, np.eye(4), atol=1e-12)

    def value(W):
        return np.mean((X @ W - Y) ** 2) + ridge * np.sum(W**2)

    for r in (1, 2, 3, 4):
        U, s, Vr = cost.closed_form(r, ridge)
        W = C[:, :r] @ V[:, :r].T
        np.testing.assert_allclose(U * s @ Vr.T, W, atol=1e-10)
        slope = 2 * X.T @ (X @ W - Y) / Y.size + 2 * ridge * W
        for step in (1e-1, 1e-2, 1e-3):
            P, d, Qt = np.linalg.svd(W - step * slope)
            assert value(P[:, :r] * d[:r] @ Qt[:r]) >= value(W) * (1 - 1e-12)


def imports(w, y, _):
    import scipy.special

    return scipy.special.erf(w), w, w


def unknown(w, y, _):
    return w.foo, w, w


def one_number(w, y, _):
    return (w - y) ** 2


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (imports, "the loss formula imports cannot be compiled by numba.*use plain arithmetic"),
        (unknown, "the loss formula unknown cannot be compiled by numba.*attribute 'foo'"),
        (
            lambda w, y: (w, y, w),
            "loss formula <lambda> cannot be .* on three numbers, w, y and parameter",
        ),
        (3, r"a Loss is made of a function, formula\(w, y, parameter\), not of 3"),
        (one_number, r"the loss formula one_number must return the tuple \(loss, .*it returns float64"),
    ],
)
def test_a_loss_that_numba_cannot_compile_is_explained(formula, words):
    cost = rf.Completion([0, 1], [0, 1], [1.0, 2.0], shape=(2, 2), loss=rf.Loss(formula))
    with pytest.raises(TypeError, match=words):
        cost.value(np.ones((2, 1)), np.ones((2, 1)))
