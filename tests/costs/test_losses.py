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


@pytest.mark.parametrize(
    ("loss", "parameter", "is_square", "nonnegative"),
    [
        (rf.Loss.named("square"), 0.0, True, True),
        (rf.Loss.named("logistic"), 0.0, False, True),
        (rf.Loss.named("huber"), 1.0, False, True),
        (rf.Loss.named("poisson"), 0.0, False, False),
        (rf.Loss.named("squared_hinge"), 0.0, False, True),
        (rf.Loss.huber(3), 3.0, False, True),
        (rf.Loss(one_number), 0.0, False, False),
    ],
)
def test_what_a_loss_is_known_for(loss, parameter, is_square, nonnegative):
    assert (loss.parameter, loss.is_square, loss.nonnegative) == (parameter, is_square, nonnegative)
    assert isinstance(loss.parameter, float)


def test_built_in_losses_are_known_to_kernels_by_numbers():
    names = "square", "logistic", "huber", "poisson", "squared_hinge"
    assert sorted(rf.Loss.named(name).kernel_key for name in names) == list(range(5))
    assert rf.Loss.huber(2.5).kernel_key == rf.Loss.named("huber").kernel_key


@pytest.mark.parametrize("delta", [0.0, -1.0, np.inf, np.nan])
def test_a_limit_of_huber_s_loss_is_positive_and_finite(delta):
    with pytest.raises(ValueError, match="delta must be positive and finite; got"):
        rf.Loss.huber(delta)


@pytest.mark.parametrize(
    ("name", "good", "bad", "words"),
    [
        ("logistic", [0, 1, True], [1, 0, -1], r"values\[2\] is -1.0, but the logistic loss wants 0 or 1"),
        (
            "squared_hinge",
            [0, 1],
            [1, 0.5, 2],
            r"values\[1\] is 0.5, but the squared_hinge loss wants 0 or 1",
        ),
        ("poisson", [0, 2.5], [3, 0, -0.5, -1], r"values\[2\] is -0.5, but the poisson loss wants counts"),
    ],
)
def test_the_first_datum_that_a_loss_is_not_made_for_is_named(name, good, bad, words):
    loss = rf.Loss.named(name)
    assert loss.check_values(np.array(good, float)) is None
    with pytest.raises(ValueError, match=words):
        loss.check_values(np.array(bad, float))


@pytest.mark.parametrize("name", ["square", "huber"])
def test_other_losses_are_made_for_any_number(name):
    rf.Loss.named(name).check_values(np.array([-3.0, 0.5, 1e9]))


def test_what_is_too_large_for_a_float_is_expected_to_be_the_largest_one():
    largest = np.finfo(float).max
    found = rf.Loss.named("poisson").expected(np.array([709.0, 709.7, 710.0, 1e6]))
    np.testing.assert_allclose(found, [np.exp(709.0), np.exp(709.7), largest, largest], rtol=1e-12)
    assert np.isfinite(found).all()
    assert rf.Loss.named("square").expected(1e300) == 1e300
