"""What a regression makes of its data: directions that are not there, rows without responses, precisions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import rankfold as rf
from costs.suite import all_close, close, factors

FORMS = {"dense": np.asarray, "sparse": sparse.csr_array}
form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


def drawn(n, q, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, q)), rng.standard_normal((n, k))


def ridge_fit(X, Y, ridge):
    return np.linalg.pinv(X.T @ X + ridge * Y.size * np.eye(X.shape[1])) @ X.T @ Y


@form
@pytest.mark.parametrize("n", [4, 5, 6, 20])
@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_predictors_that_depend_on_each_other_are_no_matter(form, n, ridge):
    """Of five, one is twice another, and one nothing."""
    X, Y = drawn(n, 5, 3)
    X[:, 4], X[:, 2] = 2 * X[:, 0], 0.0
    cost = rf.Regression(form(X), Y)
    L, R = factors(cost.shape, 2, count=1)
    E = X @ L @ R.T - Y
    close(cost.value(L, R), np.mean(E**2))
    all_close(cost.evaluate(L, R)[1:], [2 * X.T @ E @ R / Y.size, 2 * E.T @ X @ L / Y.size])
    close(cost.value_at_zero, np.mean(Y**2))
    U, s, V = cost.closed_form(3, ridge)
    assert_allclose((U * s) @ V.T, ridge_fit(X, Y, ridge), atol=1e-6)


@form
def test_a_rank_beyond_what_there_is_is_filled_up(form):
    X, Y = drawn(9, 4, 2)
    U, s, V = rf.Regression(form(X), np.hstack([Y, Y])).closed_form(4)
    assert_allclose((U * s) @ V.T, ridge_fit(X, np.hstack([Y, Y]), 0.0), atol=1e-6)
    assert_allclose(s[2:], 1e-8 * s[0], rtol=1e-3)
    for Q in (U, V):
        assert_allclose(Q.T @ Q, np.eye(4), atol=1e-10)


@form
def test_rows_without_a_known_response_are_not_held(form):
    X, Y = drawn(7, 3, 2)
    Y[[1, 4]], Y[0, 1] = np.nan, np.nan
    cost = rf.Regression(form(X), Y)
    assert not cost.complete
    assert cost.X.matrix.shape == (5, 3)
    assert cost.core.shape == (5, 2)
    L, R = factors(cost.shape, 1, count=1)
    close(cost.value(L, R), np.nanmean((X @ L @ R.T - Y) ** 2))
    close(cost.value_at_zero, np.nanmean(Y**2))


@form
def test_observations_no_more_than_predictors_are_held_as_they_are(form):
    for n, reduced in ((3, False), (4, False), (5, True)):
        X, Y = drawn(n, 4, 2)
        cost = rf.Regression(form(X), Y)
        assert cost.X.matrix.shape == (min(n, 4), 4)
        assert (cost.core.shape, cost.shape) == ((min(n, 4), 2), (4, 2))
        assert (cost.core.rest > 0) == reduced


def test_a_wide_sparse_matrix_is_held_as_it_is(monkeypatch):
    X, Y = drawn(9, 4, 2)
    for limit, rows in ((3, 9), (4, 4)):
        monkeypatch.setattr("rankfold.costs.regression.MAX_SPECTRUM", limit)
        cost = rf.Regression(sparse.csr_array(X), Y)
        assert cost.X.matrix.shape == (rows, 4)
        assert rf.Regression(X, Y).X.matrix.shape == (4, 4)
        L, R = factors(cost.shape, 2, count=1)
        close(cost.value(L, R), np.mean((X @ L @ R.T - Y) ** 2))


@form
@pytest.mark.parametrize(
    ("of_X", "of_Y", "found"),
    [
        ("f4", "f4", "f4"), ("f4", "f8", "f8"), ("f8", "f4", "f8"), ("f4", "i4", "f8"), ("i2", "?", "f8"),
    ],
)  # fmt: skip
def test_the_better_precision_of_both_is_computed_in(form, of_X, of_Y, found):
    X, Y = drawn(9, 3, 2)
    X, Y = np.round(4 * X).astype(of_X), np.round(2 * Y).astype(of_Y)
    for rows in (slice(None), slice(2)):  # more observations than predictors, and fewer
        cost = rf.Regression(form(X[rows]), Y[rows])
        assert cost.core.Y.dtype == (found if rows == slice(None) or of_Y != "f4" else of_Y)
        L, R = factors(cost.shape, 2, count=1)
        exact = np.mean((X[rows].astype(float) @ L @ R.T - Y[rows].astype(float)) ** 2)
        assert_allclose(cost.value(L, R), exact, rtol=1e-5 if of_X == "f4" else 1e-12)


@pytest.mark.parametrize(
    ("Y", "error", "words"),
    [
        (np.ones((4, 2)), ValueError, r"Y must be a matrix with 3 rows, as X has; got shape \(4, 2\)"),
        (np.ones((3, 0)), ValueError, r"got shape \(3, 0\)"),
        (np.ones((3, 2, 1)), ValueError, r"got shape \(3, 2, 1\)"),
        (np.full((3, 2), "a"), TypeError, "Y must hold real numbers; got <U1"),
        (np.full((3, 2), np.nan), ValueError, "have at least one known"),
        (np.full((3, 2), 1e-80), ValueError, "Y holds no number beyond 1e-80"),
        ([[np.nan, 1e70], [1, 2], [3, 4]], ValueError, r"Y\[0, 1\] is 1e\+70"),
        ([[np.nan, 1.0], [1, -np.inf], [3, 4]], ValueError, "Y must be finite"),
    ],
)
def test_responses_that_are_refused(Y, error, words):
    with pytest.raises(error, match=words):
        rf.Regression(np.ones((3, 2)), Y)


def test_masked_responses_are_unknown():
    X, Y = drawn(5, 2, 2)
    mask = np.zeros(Y.shape, bool)
    mask[1, 0] = mask[3, 1] = True
    holes = np.where(mask, np.nan, Y)
    L, R = factors((2, 2), 1, count=1)
    one, two = (rf.Regression(X, each).value(L, R) for each in (np.ma.MaskedArray(Y, mask), holes))
    assert one == two
