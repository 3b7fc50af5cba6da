"""Reduced-rank regression: against the dense function of W, and against the closed form on every geometry."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import rankfold as rf
from costs.suite import agrees_with_dense, factors, polynomial_is_exact
from geometry.variants import VARIANTS

SHAPES = {"n > q": (30, 6, 5), "n < q": (8, 12, 5), "k = 1": (20, 4, 1), "n = q": (7, 7, 9)}


def draw(n, q, k, seed=0, missing=0.0, density=1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, q)) * (rng.uniform(size=(n, q)) < density)
    Y = X @ rng.standard_normal((q, k)) + rng.standard_normal((n, k))
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return X, Y


def dense_square(X, Y):
    X, known = torch.from_numpy(X), torch.from_numpy(~np.isnan(Y))
    Y = torch.from_numpy(np.nan_to_num(Y))
    return lambda W: (known * (X @ W - Y) ** 2).sum() / known.sum()


def best_value(X, Y, rank):
    """The least mean square by plain NumPy: least-squares fit, truncated."""
    fit = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    U, s, Vt = np.linalg.svd(fit, full_matrices=False)
    return np.mean((Y - (U[:, :rank] * s[:rank]) @ Vt[:rank]) ** 2)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("density", [1.0, 0.5])
@pytest.mark.parametrize("sizes", SHAPES.values(), ids=SHAPES)
def test_agrees_with_dense(sizes, density, missing):
    X, Y = draw(*sizes, missing=missing, density=density)
    for form in (X, sparse.csr_array(X)):
        agrees_with_dense(rf.Regression(form, Y), dense_square(X, Y), rank=1)
    polynomial_is_exact(rf.Regression(X, Y), rank=1)


# Every geometry on one of the shapes, and every shape on one geometry.
CLOSED = {(list(SHAPES)[k % len(SHAPES)], variant) for k, variant in enumerate(VARIANTS)}


@pytest.mark.parametrize(
    ("sizes", "variant"), sorted(CLOSED | {(shape, "GH-preconditioned") for shape in SHAPES})
)
def test_every_geometry_reaches_the_closed_form(sizes, variant):
    sizes = SHAPES[sizes]
    X, Y = draw(*sizes)
    cost = rf.Regression(X, Y)
    n, q, k = sizes
    for rank in range(1, min(n, q, k) + 1):
        problem = VARIANTS[variant].problem(cost, rank)
        best = best_value(X, Y, rank)
        enough = best + 1e-10 * max(best, 1e-6 * cost.value_at_zero)
        result = rf.minimize(
            problem,
            rf.TrustRegion(),
            problem.geometry.random_point(1),
            tolerance=0.0,
            callback=lambda progress, enough=enough: progress.value <= enough,
        )
        assert result.value <= enough, (rank, result.stop_reason)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 14),
    st.integers(1, 14),
    st.integers(1, 9),
    st.integers(0, 10**6),
    st.sampled_from([1, 0.5]),
)
def test_closed_form_is_the_minimum(n, q, k, seed, density):
    X, Y = draw(n, q, k, seed, density=density)
    if not X.any():
        return
    for form in (X, sparse.csr_array(X)):
        cost = rf.Regression(form, Y)
        for rank in range(1, min(q, k) + 1):
            U, s, V = cost.closed_form(rank)
            assert (s > 0).all()
            for Q in (U, V):
                assert_allclose(Q.T @ Q, np.eye(rank), atol=1e-10)
            assert_allclose(cost.value(U * s, V), best_value(X, Y, rank), rtol=1e-8, atol=1e-11)
            assert_allclose(cost.start(rank)[1], s)


def test_closed_form_of_ridge():
    for sizes in SHAPES.values():
        plain = rf.Regression(*draw(*sizes))
        cost = plain + rf.Frobenius(0.05)
        U, s, V = plain.closed_form(1, ridge=0.05)
        _, f_L, f_R = cost.evaluate(U * s, V)
        assert_allclose(f_L, 0, atol=1e-12)
        assert_allclose(f_R, 0, atol=1e-11)
        geometry = rf.Polar(cost.shape, 1)
        x0 = geometry.random_point(0)
        result = rf.minimize(rf.Problem(cost, geometry), rf.TrustRegion(), x0, tolerance=0.0)
        assert_allclose(cost.value(U * s, V), result.value, rtol=1e-10)


def test_time_does_not_depend_on_the_number_of_observations():
    cost = rf.Regression(*draw(5000, 6, 5))
    assert cost.X.matrix.shape == (6, 6)
    assert cost.core.Y.shape == (6, 5)
    assert rf.Regression(sparse.csr_array(draw(500, 6, 5)[0]), draw(500, 6, 5)[1]).X.matrix.shape == (6, 6)


@pytest.mark.parametrize("sizes", [(4, 9, 3), (9, 4, 3)])
@pytest.mark.parametrize("limit", [3, 4])
def test_the_closed_form_is_the_start_where_the_smaller_side_is_small_enough(sizes, limit, monkeypatch):
    monkeypatch.setattr("rankfold.costs.regression.MAX_SPECTRUM", limit)
    cost = rf.Regression(*draw(*sizes))
    best = np.allclose(cost.start(2)[1], cost.closed_form(2)[1])
    assert best == (limit == 4)


def test_float32():
    X, Y = draw(20, 6, 5)
    cost = rf.Regression(X.astype(np.float32), Y.astype(np.float32))
    L, R = (A.astype(np.float32) for A in factors(cost.shape, 2, count=1))
    assert cost.evaluate(L, R).f_L.dtype == np.float32
    assert_allclose(cost.value(L, R), rf.Regression(X, Y).value(L, R), rtol=1e-5)


def test_errors():
    X, Y = draw(6, 3, 2)
    for match, arguments in {
        r"Y must be a matrix with 6 rows, as X has; got shape \(6,\)": (X, Y[:, 0]),
        "Y must be finite, with NaN for unknown": (X, Y * np.inf),
        "Y must hold real numbers": (X, Y.astype(complex)),
        "X has entries that are NaN": (X * np.nan, Y),
    }.items():
        with pytest.raises((ValueError, TypeError), match=match):
            rf.Regression(*arguments)
    with pytest.raises(ValueError, match="closed form needs the square loss"):
        rf.Regression(X, Y, "huber").closed_form(1)


def test_a_regression_of_large_counts_starts_below_zero():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 4)), rng.integers(0, 3000, (30, 3))
    cost = rf.Regression(X, Y, loss="poisson")
    U, s, V = cost.start(2)
    assert cost.value(U * s, V) < cost.value_at_zero
