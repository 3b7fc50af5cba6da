"""What is fitted to responses with weights, some of which are missing: sums, starts, trials, summaries."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.estimators.regression import reduced_rank
from rankfold.estimators.regression.free_offsets import FreeOffsets
from rankfold.estimators.regression.observations import Fit, Observations, fits

Model = rf.ReducedRankRegression


def draw(n=12, q=4, k=3, missing=0.2, seed=0):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, q)) + 2.0, rng.standard_normal((n, k)) + np.arange(k)
    Y += X @ rng.standard_normal((q, 1)) @ rng.standard_normal((1, k))
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return X, Y, rng.uniform(0.01, 0.09, n)  # whose sums are below 1


def observations(fit_intercept=True, loss="square", **options):
    X, Y, weights = draw(**options)
    weights[3] = 0.0
    return Observations(X, Y, weights, fit_intercept, rf.Loss.named(loss))


def test_sums_over_responses_are_by_weight():
    data = observations()
    w, known = data.weights, ~np.isnan(data.Y)
    assert data.shape == (4, 3)
    assert_array_equal(data.used, known & (np.arange(12) != 3)[:, None])
    for j in range(3):
        here = known[:, j]
        mean = np.average(data.Y[here, j], weights=w[here])
        assert_allclose(data.y_mean[j], mean)
        assert_allclose(data.variances[j], np.average((data.Y[here, j] - mean) ** 2, weights=w[here]))
    centred = np.sqrt(w)[:, None] * (data.X - np.average(data.X, axis=0, weights=w))
    assert_allclose(data.centred_X, centred)
    assert_allclose(data.scale, np.mean(np.linalg.svd(centred, compute_uv=False) ** 2))
    some = data.take(np.array([5, 1]))
    assert_array_equal(some.X, data.X[[5, 1]])
    assert_array_equal(some.Y, data.Y[[5, 1]])
    assert_array_equal(some.weights, w[[5, 1]])


def test_constant_predictors_have_a_scale_of_one():
    assert Observations(np.full((3, 2), 7.0), np.ones((3, 1)), np.ones(3), True).scale == 1.0


def test_responses_are_fitted_in_closed_form_if_all_are_known_and_the_loss_is_the_square():
    assert observations(missing=0.0).closed_form
    assert not observations().closed_form
    assert not observations(missing=0.0, loss="huber").closed_form
    assert Observations(np.ones((2, 1)), np.ones((2, 1)), np.ones(2), True).closed_form  # by default


def test_losses_are_by_weight_and_infinite_counts_cost_what_they_do():
    data = observations(loss="huber")
    rng = np.random.default_rng(1)
    fit = Fit(rng.standard_normal((4, 2)), rng.standard_normal((3, 2)), rng.standard_normal(3), None)
    errors = abs(data.X @ fit.L @ fit.R.T + fit.intercept - data.Y)
    due = np.where(errors <= 1, errors**2, 2 * errors - 1)
    assert_allclose(data.losses(fit), np.nansum(data.weights[:, None] * due))
    counts = Observations(data.X, np.abs(np.round(data.Y)), data.weights, True, rf.Loss.named("poisson"))
    with np.errstate(over="raise"):
        assert counts.losses(fit._replace(intercept=np.full(3, 800.0))) == np.inf


def test_a_closed_form_is_told_as_one_step_per_response():
    data = observations(missing=0.0)
    rng = np.random.default_rng(1)
    fit = Fit(rng.standard_normal((4, 2)), rng.standard_normal((3, 2)), rng.standard_normal(3), None)
    trace, stop = data.run_of(fit, 0.7)
    squares = np.sum(data.weights[:, None] * (data.X @ fit.L @ fit.R.T + fit.intercept - data.Y) ** 2)
    begin = np.sum(data.weights[:, None] * (data.Y - data.y_mean) ** 2)
    end = squares + 0.7 * np.sum((fit.L @ fit.R.T) ** 2)
    assert_allclose(trace["value"], np.array([begin, end]) / 36)
    assert stop.converged
    run = SimpleNamespace(trace=trace, stop="why")
    assert data.run_of(fit._replace(run=run), 0.7) == (trace, "why")


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_fits_with_missing_responses_start_from_those_with_means_in_their_place(fit_intercept):
    data, starts = observations(fit_intercept), []

    def run(problem, start):
        starts.append(problem.geometry.factors(start))
        raise InterruptedError

    for rank in (1, 2):
        with pytest.raises(InterruptedError):
            next(fits(data, [rank], 0.3, "auto", run))
        X = data.centred_X
        Y = np.sqrt(data.weights)[:, None] * np.nan_to_num(data.Y - data.y_mean)
        A = np.vstack([X, np.sqrt(0.3) * np.eye(4)])
        B = np.linalg.lstsq(A, np.vstack([Y, np.zeros((4, 3))]), rcond=None)[0]
        V = np.linalg.svd(A @ B, full_matrices=False)[2][:rank].T
        L, R = starts[-1]
        assert_allclose(L @ R.T, B @ V @ V.T, atol=1e-8)


def test_other_losses_start_anywhere():
    starts = []

    def run(problem, start):
        starts.append(start)
        raise StopIteration

    with pytest.raises(RuntimeError):
        next(fits(observations(loss="huber"), [1], 0.3, "auto", run))
    assert starts == [None]


def test_trials_are_looser_than_the_last_fit_and_computed_in_the_same_way(monkeypatch):
    tolerances, options, own = [], [], reduced_rank.fits
    done = Fit(np.ones((4, 1)), np.ones((3, 1)), np.zeros(3), None)

    def tried(model, problem, x0, tol):
        tolerances.append(tol)
        geometry = problem.geometry
        return SimpleNamespace(x=geometry.random_point(0) if x0 is None else x0)

    def watched(*given, **named):
        if named:
            options.append((named["geometry"], named["device"]))
            named["device"] = "cpu"
            return own(*given, **named)
        return iter([done])

    monkeypatch.setattr(reduced_rank, "try_model", tried)
    monkeypatch.setattr(reduced_rank, "fits", watched)
    X, Y, weights = draw()
    for tol, due in ((1e-10, 1e-7), (1e-3, 1e-3)):
        model = Model(regularization=0.5, cv=2, tol=tol, geometry="polar", device="auto", random_state=0)
        data = Observations(X, Y, weights, True)
        model._chosen(data)
        assert set(tolerances) == {due}
        tolerances.clear()
    assert set(options) == {("polar", "auto")}


def test_a_fit_of_responses_that_do_not_vary_has_rank_0():
    X, _, _ = draw()
    model = Model(2, regularization=0.5, warm_start=True).fit(X, np.tile([1.0, 2.0, 4.0], (12, 1)))
    assert model.rank_ == 0
    assert [part.shape for part in (model.components_, model.x_rotations_)] == [(0, 3), (4, 0)]
    assert model.explained_variance_.size == model.explained_variance_ratio_.size == 0
    Y = np.random.default_rng(0).standard_normal((12, 3))
    Y[0, 0] = np.nan
    again = model.fit(X, Y)  # from there is nowhere to go on from
    assert_array_equal(again.coef_, Model(2, regularization=0.5).fit(X, Y).coef_)


def test_without_a_warm_start_a_second_fit_is_the_first():
    X, Y, _ = draw()
    model = Model(1, regularization=0.5).fit(X, Y)
    values = model.trace_["value"]
    assert_array_equal(model.fit(X, Y).trace_["value"], values)


def test_the_rank_is_that_of_the_fit_beyond_rounding(monkeypatch):
    X, Y, _ = draw(missing=0.0)
    limit = 12 * np.finfo(float).eps  # of the larger side of X, times the largest singular value
    values = np.array([4.0, 4.1 * limit, 3.9 * limit])
    monkeypatch.setattr(reduced_rank, "thin_svd", lambda A: (None, values, np.eye(3)))
    model = Model(3, regularization=0.5).fit(X, Y)
    assert model.rank_ == 2
    assert_allclose(model.explained_variance_, values[:2] ** 2 / 12)


@pytest.mark.parametrize("loss", ["square", "huber"])
def test_variances_of_the_fit_are_by_weight(loss):
    X, Y, weights = draw(n=30, missing=0.0)
    model = Model(2, regularization=0.01, loss=loss, tol=1e-8).fit(X, Y, sample_weight=weights)
    w = weights / weights.sum()
    fit = X @ model.coef_.T
    fit -= w @ fit
    assert_allclose(model.explained_variance_, np.linalg.eigvalsh(fit.T @ (w[:, None] * fit))[::-1][:2])
    whole = w @ (Y - w @ Y) ** 2 if loss == "square" else w @ fit**2
    assert_allclose(model.explained_variance_ratio_, model.explained_variance_ / whole.sum())


def test_one_response_as_a_vector_is_that_of_a_table_with_one_column():
    X, Y, weights = draw(missing=0.0)
    vector = Model(1, regularization=0.5).fit(X, Y[:, 0], weights)
    table = Model(1, regularization=0.5).fit(X, Y[:, :1], weights)
    assert (vector.coef_.shape, table.coef_.shape) == ((4,), (1, 4))
    assert_array_equal(vector.coef_, table.coef_[0])
    assert vector.intercept_ == table.intercept_[0]
    assert_allclose(vector.predict(X), table.predict(X)[:, 0])
    assert type(vector.intercept_) is float


def test_a_response_without_a_value_that_counts_is_named():
    X, Y, weights = draw(missing=0.0)
    Y[1:, 2], weights[0] = np.nan, 0.0
    with pytest.raises(ValueError, match=r"^y\[:, 2\] has no known value \(of positive weight\)"):
        Model(1).fit(X, Y, weights)
    with pytest.raises(ValueError, match=r"^column c of y has no known value"):
        Model(1).fit(X, pd.DataFrame(Y, columns=list("abc")), weights)


def test_the_digest_knows_weights_and_responses():
    X, Y, weights = draw(missing=0.0)
    found = {
        Model(1, regularization=0.5).fit(*data).data_fingerprint_
        for data in ((X, Y), (X, Y, weights), (X, Y + 1), (X + 1, Y), (X, Y))
    }
    assert len(found) == 4


def test_offsets_of_columns_with_little_or_no_curvature():
    """Weights far below 1; and errors beyond Huber's limit, where its slope is the same everywhere."""
    rng = np.random.default_rng(0)
    Y = rng.integers(0, 2, (6, 3)).astype(float)
    rows, cols = np.nonzero(np.ones(Y.shape))
    weights = rng.uniform(0.01, 0.02, Y.size)
    L, R, dL, dR = (rng.standard_normal((d, 2)) for d in (6, 3) * 2)
    cost, h = FreeOffsets(rf.Completion(rows, cols, Y.ravel(), Y.shape, weights, "logistic")), 1e-5
    ahead, behind = (cost.evaluate(L + t * dL, R + t * dR) for t in (h, -h))
    for k, change in enumerate(cost.derivative(L, R, dL, dR)):
        differences = (ahead[k + 1] - behind[k + 1]) / (2 * h)
        assert_allclose(change, differences, atol=1e-5 * abs(differences).max())
    far = rf.Completion([0, 1], [0, 0], [-50.0, 50.0], (2, 1), None, "huber")
    changes = FreeOffsets(far).derivative(*(np.ones((d, 1)) for d in (2, 1) * 2))
    assert [np.isfinite(change).all() for change in changes] == [True, True]


def test_values_that_a_loss_cannot_take_are_refused_where_they_count_for_nothing_too():
    X, Y, weights = draw(missing=0.0)
    Y, weights[4] = (Y > 0).astype(float), 0.0
    Y[4, 1] = 2.0
    with pytest.raises(ValueError, match="the logistic loss wants 0 or 1"):
        Model(1, regularization=1.0, loss="logistic").fit(X, Y, weights)
