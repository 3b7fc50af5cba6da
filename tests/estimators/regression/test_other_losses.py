"""ReducedRankRegression with other losses than the square, against SciPy and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import rankfold as rf
from rankfold.estimators.regression.free_offsets import FreeOffsets

LOSSES = "logistic", "poisson", "huber", "squared_hinge"


def draw(loss, n=60, q=4, k=3, rank=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, q)) + 1.0
    W = 0.6 * X @ rng.standard_normal((q, rank)) @ rng.standard_normal((rank, k)) - 0.5
    if loss == "poisson":
        return X, rng.poisson(np.exp(W)).astype(float)
    if loss == "huber":
        return X, W + rng.standard_t(2, W.shape)
    return X, (rng.random(W.shape) < 1 / (1 + np.exp(-2 * W))).astype(float)


def objective(z, X, Y, loss, weight, intercept=True):
    k = Y.shape[1]
    b, B = z[:k] * intercept, z[k:].reshape(-1, k)
    known = ~np.isnan(Y)
    return np.sum(rf.Loss.named(loss)((X @ B + b)[known], Y[known])[0]) + weight * np.sum(B**2)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_fit_of_full_rank_is_the_convex_minimum(loss, intercept):
    X, Y = draw(loss)
    Y[::7, 1] = np.nan
    model = rf.ReducedRankRegression(3, regularization=0.7, loss=loss, fit_intercept=intercept).fit(X, Y)
    found = np.concatenate([np.broadcast_to(model.intercept_, 3), model.coef_.T.ravel()])
    best = minimize(objective, np.zeros(15), (X, Y, loss, 0.7, intercept), method="BFGS", tol=1e-8)
    assert objective(found, X, Y, loss, 0.7, intercept) <= best.fun + 1e-6 * abs(best.fun)
    assert model.converged_


def test_predictions_are_what_the_loss_expects():
    for loss, expected in (
        ("logistic", lambda w: 1 / (1 + np.exp(-w))),
        ("poisson", np.exp),
        ("huber", np.array),
    ):
        X, Y = draw(loss)
        model = rf.ReducedRankRegression(1, regularization=1.0, loss=loss).fit(X, Y)
        assert_allclose(model.predict(X), expected(X @ model.coef_.T + model.intercept_))
        assert model.rank_ == 1


@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_with_offsets_the_means_are_those_of_the_responses(loss):
    """The equation of an offset that pays no penalty, for a loss that is a log-likelihood."""
    X, Y = draw(loss)
    model = rf.ReducedRankRegression(2, regularization=3.0, loss=loss).fit(X, Y)
    assert_allclose(model.predict(X).mean(axis=0), Y.mean(axis=0), rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_offsets_are_best_and_the_derivatives_follow_them(loss):
    _, Y = draw(loss, n=12, k=5)
    weights = np.random.default_rng(1).uniform(0.5, 2, Y.shape)
    rows, cols = np.nonzero(np.ones(Y.shape))
    cost = FreeOffsets(rf.Completion(rows, cols, Y.ravel(), Y.shape, weights=weights.ravel(), loss=loss))
    L, R = (np.random.default_rng(2).standard_normal((d, 2)) for d in Y.shape)

    def pays(c, j):
        return np.sum(weights[:, j] * rf.Loss.named(loss)((L @ R.T)[:, j] + c, Y[:, j])[0]) / Y.size

    best = [minimize(pays, [0.0], (j,), tol=1e-10).fun for j in range(5)]
    assert_allclose(cost.value(L, R), np.sum(best), rtol=1e-8)
    problem = rf.Problem(cost, rf.Embedded(Y.shape, 2))
    assert rf.check_gradient(problem)
    if loss in ("logistic", "poisson"):  # the others have no third derivative to fit a slope of 3 to
        assert rf.check_hessian(problem)


def test_responses_that_never_vary_have_finite_coefficients():
    X, Y = draw("poisson")
    Y[:, 0] = 0.0
    model = rf.ReducedRankRegression(1, regularization=1.0, loss="poisson").fit(X, Y)
    assert np.isfinite(model.coef_).all()
    assert model.predict(X)[:, 0].max() < 1e-6


def test_rank_and_penalty_are_chosen_by_the_loss_of_unseen_responses():
    X, Y = draw("logistic", n=80)
    model = rf.ReducedRankRegression(loss="logistic", cv=2, random_state=0, regularization=2.0).fit(X, Y)
    assert model.rank_path_.scores.shape == (3, 1)
    fits = rf.ReducedRankRegression(model.rank_, loss="logistic", regularization=2.0, tol=1e-7)
    from sklearn.model_selection import KFold

    total = 0.0
    for train, test in KFold(2, shuffle=True, random_state=0).split(X):
        p = fits.fit(X[train], Y[train]).predict(X[test])
        total -= np.sum(Y[test] * np.log(p) + (1 - Y[test]) * np.log(1 - p))
    assert_allclose(model.rank_path_.scores.min(), total / Y.size, rtol=1e-4)


def test_what_a_loss_cannot_take_is_said():
    X, Y = draw("huber")
    with pytest.raises(ValueError, match="the logistic loss wants 0 or 1"):
        rf.ReducedRankRegression(loss="logistic").fit(X, Y)
    with pytest.raises(ValueError, match="criterion='bic' is for the square loss: set criterion='cv'"):
        rf.ReducedRankRegression(loss="huber", criterion="bic").fit(X, Y)


def test_the_path_of_the_penalty_ends_after_three_in_vain():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = (rng.random((60, 2)) < 1 / (1 + np.exp(-X[:, :1]))).astype(float)
    fitted = rf.ReducedRankRegression(1, loss="logistic", cv=2, random_state=0).fit(X, y)
    scores = fitted.regularization_path_.scores[0]
    best = int(np.argmin(scores))
    assert fitted.regularization_ == fitted.regularization_path_.regularizations[best]
    assert 3 < best < scores.size - 1
    assert np.isfinite(scores[best - 3 :]).all()  # from the largest down
    assert np.isinf(scores[: best - 3]).all()
