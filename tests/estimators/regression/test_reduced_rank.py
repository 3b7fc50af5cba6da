"""ReducedRankRegression: scikit-learn's contract, and against dense formulas written from scratch."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankfold as rf
from rankfold.estimators.regression.criteria import degrees_of_freedom, information
from rankfold.estimators.regression.observations import Observations

Model = rf.ReducedRankRegression


@parametrize_with_checks(
    [
        Model(),
        Model(rank=1, regularization=0.5, fit_intercept=False),
        Model(regularization="auto", criterion="bic"),
    ]
)
def test_the_contract(estimator, check):
    check(estimator)


def draw(n=40, q=6, k=5, rank=2, noise=0.3, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, q)) + 3.0
    B = rng.standard_normal((q, rank)) @ rng.standard_normal((rank, k))
    Y = X @ B + 5.0 + noise * rng.standard_normal((n, k))
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return X, Y


def dense_closed_form(X, Y, rank, ridge):
    """Reduced-rank ridge by added rows, least squares, truncated SVD of the fit (Mukherjee and Zhu 2011)."""
    x, y = X.mean(axis=0), Y.mean(axis=0)
    A = np.vstack([X - x, np.sqrt(ridge) * np.eye(X.shape[1])])
    T = np.vstack([Y - y, np.zeros((X.shape[1], Y.shape[1]))])
    B = np.linalg.lstsq(A, T, rcond=None)[0]
    V = np.linalg.svd(A @ B, full_matrices=False)[2][:rank].T
    B = B @ V @ V.T
    return B.T, y - x @ B


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(3, 30), q=st.integers(1, 12), k=st.integers(1, 8),
    rank=st.integers(1, 9), ridge=st.sampled_from([0.0, 0.1, 10.0]), seed=st.integers(0, 999),
)  # fmt: skip
def test_equals_the_closed_form(n, q, k, rank, ridge, seed):
    if n <= q and not ridge:
        ridge = 0.1  # the minimiser is not unique without
    X, Y = draw(n, q, k, seed=seed)
    rank = min(rank, q, k)
    model = Model(rank, regularization=ridge).fit(X, Y)
    coef, intercept = dense_closed_form(X, Y, rank, ridge)
    assert_allclose(model.coef_, coef, rtol=0, atol=1e-8 * (1 + abs(coef).max()))
    assert_allclose(model.intercept_, intercept, rtol=0, atol=1e-8 * (1 + abs(intercept).max()))
    assert_allclose(model.predict(X), X @ coef.T + intercept, atol=1e-8 * (1 + abs(Y).max()))
    assert model.rank_ == min(rank, q, k, n - 1)


@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_of_full_rank_it_is_linear_regression(weight):
    X, Y = draw()
    peer = (Ridge(weight) if weight else LinearRegression()).fit(X, Y)
    model = Model(rank=5, regularization=weight).fit(X, Y)
    assert_allclose(model.coef_, peer.coef_, atol=1e-10)
    assert_allclose(model.intercept_, peer.intercept_, atol=1e-9)
    vector = Model(regularization=weight).fit(X, Y[:, 0])
    assert vector.coef_.shape == (6,)
    assert isinstance(vector.intercept_, float)
    assert_allclose(vector.coef_, peer.coef_[0], atol=1e-10)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_weights_are_repetitions(missing):
    X, Y = draw(missing=missing)
    weights = np.random.default_rng(1).integers(0, 4, len(X))
    model = Model(2, regularization=0.5).fit(X, Y, sample_weight=weights)
    again = Model(2, regularization=0.5).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    assert_allclose(model.coef_, again.coef_, atol=1e-7)
    assert_allclose(model.intercept_, again.intercept_, atol=1e-6)


def test_single_precision_is_computed_with_in_double():
    single = [data.astype(np.float32) for data in draw()]
    double = [data.astype(np.float64) for data in single]
    one, two = (Model(2, regularization=0.1).fit(*data) for data in (single, double))
    assert one.coef_.dtype == np.float64
    assert one.data_fingerprint_ == two.data_fingerprint_
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.predict(single[0]), two.predict(double[0]))


def test_components_describe_the_fit():
    X, Y = draw(n=200)
    model = Model(rank=3, regularization=2.0).fit(X, Y)
    fit = model.predict(X)
    centred = fit - fit.mean(axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / len(X))
    assert_allclose(model.explained_variance_, values[::-1][:3], rtol=1e-9)
    assert_allclose(abs(model.components_ @ vectors[:, ::-1][:, :3]), np.eye(3), atol=1e-8)
    assert_allclose((X - X.mean(axis=0)) @ model.x_rotations_ @ model.components_, centred, atol=1e-9)
    assert_allclose(
        model.explained_variance_ratio_.sum(), centred.var(axis=0).sum() / Y.var(axis=0).sum(), rtol=1e-9
    )


def test_of_two_signs_a_component_has_the_one_that_its_largest_entry_is_positive_for():
    for seed in range(4):
        found = Model(rank=3, regularization=2.0).fit(*draw(rank=3, seed=seed)).components_
        assert found.shape == (3, 5)
        assert (found.max(axis=1) == abs(found).max(axis=1)).all()
        assert (found < 0).any()


def value(model, X, Y, ridge):
    errors = np.nan_to_num(Y - model.predict(X))
    return np.sum(errors**2) + ridge * np.sum(model.coef_**2)


@pytest.mark.parametrize("geometry", ["auto", "polar", "embedded"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_missing_responses_are_left_out(fit_intercept, geometry):
    X, Y = draw(missing=0.3)
    model = Model(2, regularization=0.5, fit_intercept=fit_intercept, geometry=geometry).fit(X, Y)
    assert model.n_iter_ > 0
    assert model.rank_ == 2
    # Stationary in the offsets and along every rank-2 direction: no nearby fit is better.
    best = value(model, X, Y, 0.5)
    rng = np.random.default_rng(0)
    L, R = model.x_rotations_, model.components_.T
    moved = clone(model).set_params(rank=1).fit(X, np.nan_to_num(Y))
    for size in (1e-1, 1e-3):
        for _ in range(5):
            dL, dR = size * rng.standard_normal(L.shape), size * rng.standard_normal(R.shape)
            moved.coef_ = ((L + dL) @ (R + dR).T).T
            moved.intercept_ = model.intercept_ + fit_intercept * size * rng.standard_normal(5)
            assert value(moved, X, Y, 0.5) > best
    if fit_intercept:
        assert_allclose(np.nanmean(Y - model.predict(X), axis=0), 0, atol=1e-7)


def test_one_missing_response_more_or_less_agrees_with_the_closed_form():
    """A row whose every response is missing says nothing, and the geometry meets the closed form."""
    X, Y = draw()
    closed = Model(2, regularization=0.5).fit(X, Y)
    opened = Model(2, regularization=0.5).fit(
        np.vstack([X, X[:1] + 100]), np.vstack([Y, np.full((1, 5), np.nan)])
    )
    assert opened.n_iter_ > 1 == closed.n_iter_
    assert closed.converged_
    assert closed.stop_reason_ == "closed form: every response is known"
    # Both traces end at the same minimum, per response, and the closed form's starts at the variance.
    assert_allclose(closed.trace_["value"], [Y.var(axis=0).mean(), value(closed, X, Y, 0.5) / Y.size])
    assert_allclose(opened.trace_[-1].value, closed.trace_[-1].value)
    assert_allclose(opened.coef_, closed.coef_, atol=1e-7)
    assert_allclose(opened.intercept_, closed.intercept_, atol=1e-6)


def test_means_are_of_known_values_by_weight_and_zero_where_there_are_none():
    X, Y = draw(n=6)
    Y[:, 1], Y[:3, 2] = np.nan, np.nan
    weights = np.arange(1.0, 7.0)
    data = Observations(X, Y, weights, fit_intercept=True)
    expected = [np.average(Y[:, 0], weights=weights), 0.0, np.average(Y[3:, 2], weights=weights[3:])]
    assert_allclose(data.y_mean[:3], expected)
    assert_allclose(data.x_mean, np.average(X, axis=0, weights=weights))
    plain = Observations(X, Y, weights, fit_intercept=False)
    assert not plain.y_mean.any()
    assert not plain.x_mean.any()


@pytest.mark.parametrize("criterion", ["cv", "aic", "bic", "gcv"])
@pytest.mark.parametrize("true", [1, 3])
def test_the_planted_rank_is_found(true, criterion):
    found = []
    for seed in range(10):
        X, Y = draw(n=120, q=8, k=6, rank=true, noise=0.5, seed=seed)
        found.append(Model(criterion=criterion, random_state=0).fit(X, Y).rank_)
    assert found.count(true) >= (10 if criterion == "bic" else 7)


def test_the_planted_rank_is_found_with_missing_responses():
    X, Y = draw(n=120, q=5, k=3, rank=2, noise=0.5, missing=0.1)
    assert Model(criterion="bic").fit(X, Y).rank_ == 2
    one, two, three = Model(cv=2, random_state=0, regularization=0.0).fit(X, Y).rank_path_.scores[:, 0]
    assert one > 1.2 * two
    assert three > 0.95 * two


def test_the_scores_are_what_they_say():
    X, Y = draw()
    model = Model(criterion="gcv", regularization=2.0).fit(X, Y)
    path = model.rank_path_
    assert path.ranks.tolist() == [1, 2, 3, 4, 5]
    for rank, score in zip(path.ranks, path.scores[:, 0], strict=True):
        fit = Model(int(rank), regularization=2.0).fit(X, Y)
        d = np.linalg.svd(X - X.mean(axis=0), compute_uv=False)
        freedom = degrees_of_freedom(d, 2.0, 5, rank) + 5
        squares = np.sum((Y - fit.predict(X)) ** 2)
        assert_allclose(score, Y.size * squares / (Y.size - freedom) ** 2, rtol=1e-9)
    assert path.best == (path.ranks[np.argmin(path.scores)], 2.0)
    assert str(path).count("\n") == 5
    assert str(path).count("<- chosen") == 1
    assert len(path.plot().lines) == 2


def test_cross_validation_scores_unseen_folds():
    X, Y = draw(n=30)
    model = Model(cv=3, random_state=7).fit(X, Y)
    squares = sum(
        np.sum((Y[test] - Model(2, regularization=0.0).fit(X[train], Y[train]).predict(X[test])) ** 2)
        for train, test in KFold(3, shuffle=True, random_state=7).split(X)
    )
    assert_allclose(model.rank_path_.scores[1, 0], squares / Y.size, rtol=1e-9)


def test_a_penalty_is_chosen_where_it_helps():
    X, Y = draw(n=25, q=20, k=6, noise=3.0)
    chosen = Model(2, regularization="auto", random_state=0).fit(X, Y)
    assert chosen.regularization_path_.scores.shape == (1, 14)
    weights = chosen.regularization_path_.regularizations
    squares = np.mean(np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2)
    assert_allclose(np.divide(weights, squares), [0, *10.0 ** np.arange(-3, 3.1, 0.5)], rtol=1e-9)
    assert chosen.rank_path_ is None
    assert 0 < chosen.regularization_ == chosen.regularization_path_.best[1]
    fresh, truth = draw(n=2000, q=20, k=6, noise=0.0)
    assert chosen.score(fresh, truth) > Model(2, regularization=0.0).fit(X, Y).score(fresh, truth)


def test_criteria():
    assert information("aic", 10.0, 10, 3.0) == pytest.approx(6.0)
    assert information("bic", 10.0, 10, 3.0) == pytest.approx(3 * np.log(10))
    assert information("aic", 0.0, 10, 3.0) == information("gcv", 1.0, 10, 10.0) == np.inf
    assert information("gcv", 2.0, size=10, freedom=5.0) == pytest.approx(0.8)
    # Full rank: every coefficient is free; a huge ridge leaves nothing.
    assert degrees_of_freedom([1, 1, 1], 0.0, targets=4, rank=3) == 12
    assert degrees_of_freedom([1, 1, 1], 1e9, targets=4, rank=3) < 1e-7


def test_in_a_pipeline_with_a_grid_search():
    X, Y = draw()
    search = GridSearchCV(
        make_pipeline(StandardScaler(), Model()), {"reducedrankregression__rank": [1, 2, 3]}, cv=3
    )
    assert search.fit(X, Y).best_params_ == {"reducedrankregression__rank": 2}


def test_saved_and_loaded(tmp_path):
    X, Y = draw()
    model = Model(criterion="bic", regularization="auto").fit(X, Y)
    rf.save(model, tmp_path / "model")
    again = rf.load(tmp_path / "model")
    assert (again.predict(X) == model.predict(X)).all()
    assert str(again.rank_path_) == str(model.rank_path_) == str(again.regularization_path_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 6}, "rank must be .* 1 to 5, the lesser of 6 features and 5 responses; got 6"),
        ({"criterion": "best"}, "criterion must be one of .*'gcv'.*, not 'best'"),
        ({"regularization": -1.0}, "regularization must be 'auto' or finite and at least 0, not -1.0"),
        ({"regularization": "cv"}, "regularization must be"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        Model(**options).fit(*draw())


def test_wrong_data_are_named():
    X, Y = draw()
    holed = X.copy()
    holed[5, 1] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN: X\[5, 1\]. .* make_pipeline\(rankfold.LowRankImp"):
        Model().fit(holed, Y)
    named = pd.DataFrame(np.where(X[3, 2] == X, np.inf, X), columns=[f"x{k}" for k in range(X.shape[1])])
    with pytest.raises(ValueError, match=r"X contains infinity: column 'x2', line 3 from 0. Leave such"):
        Model().fit(named, Y)
    with pytest.raises(ValueError, match=r"X contains NaN: X\[5, 1\]"):
        Model(rank=1, regularization=0.0).fit(X, Y).predict(holed)
    with pytest.raises(ValueError, match="Input y contains infinity"):
        Model().fit(X, np.where(Y > 4, np.inf, Y))
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        Model().fit(X, Y[1:])
    Y[:, 3] = np.nan
    with pytest.raises(ValueError, match=r"y\[:, 3\] has no known value .*: leave this response out"):
        Model().fit(X, Y)


def test_names_of_responses_are_objects_as_scikit_learn_s_are():
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((20, 3))
    model = rf.ReducedRankRegression(rank=1).fit(X, pd.DataFrame(X[:, :2], columns=["a", "longer"]))
    assert (model.target_names_.tolist(), model.target_names_.dtype) == (["a", "longer"], object)


def test_responses_of_which_only_some_have_names():
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).standard_normal((20, 3))
    model = rf.ReducedRankRegression(rank=1).fit(X, pd.DataFrame(X[:, :2], columns=["a", 1]))
    assert model.target_names_ is None


def test_warm_start_goes_on_from_the_last_fit():
    X, Y = draw(missing=0.3)
    settings = {"rank": 2, "regularization": 0.5}
    warm = Model(warm_start=True, **settings).fit(X, Y)
    cold, coef = warm.n_iter_, warm.coef_
    assert warm.fit(X, Y).n_iter_ <= 6 < cold
    assert_allclose(warm.coef_, coef, atol=1e-6)
    warm.fit(X[:, 1:], Y)  # another number of features: from the beginning
    assert warm.n_iter_ == Model(**settings).fit(X[:, 1:], Y).n_iter_


def test_folds_may_be_given():
    X, Y = draw(n=30)
    splits = list(KFold(3, shuffle=True, random_state=7).split(X))
    by_list, by_number = Model(cv=splits).fit(X, Y), Model(cv=3, random_state=7).fit(X, Y)
    assert_allclose(by_list.rank_path_.scores, by_number.rank_path_.scores)


def test_one_response_leaves_nothing_to_choose():
    X, Y = draw(n=4, k=1)
    model = Model(regularization=0.0).fit(X, Y)
    assert (model.rank_, model.rank_path_, model.regularization_path_) == (1, None, None)


def test_with_few_samples_each_is_a_fold_and_one_is_too_few():
    X, Y = draw(n=3)
    few = Model().fit(X, Y)
    assert_allclose(few.rank_path_.scores, Model(cv=LeaveOneOut()).fit(X, Y).rank_path_.scores)
    with pytest.raises(ValueError, match="1 sample leaves none to hold out: give rank and regularization"):
        Model().fit(X[:1], Y[:1])
    assert Model(1, regularization=1.0).fit(X[:1], Y[:1]).predict(X[:1]) == pytest.approx(Y[:1])


def test_by_default_neither_noise_nor_its_absence_is_a_trap():
    """Without a penalty the first is far worse than the mean; with one never 0, the second inexact."""
    X, Y = draw(n=2024, q=20, k=6, noise=8.0)
    few, unseen = slice(24), slice(24, None)
    assert Model(2, regularization=0.0).fit(X[few], Y[few]).score(X[unseen], Y[unseen]) < -0.5
    assert Model(random_state=0).fit(X[few], Y[few]).score(X[unseen], Y[unseen]) > -0.05
    X, Y = draw(n=2060, q=20, k=6, noise=0.0)
    assert Model(random_state=0).fit(X[:60], Y[:60]).score(X[60:], Y[60:]) > 1 - 1e-12


def test_missing_responses_converge_with_the_defaults_on_every_geometry():
    """A ConvergenceWarning would be an error here."""
    X, Y = draw(missing=0.3)
    for geometry in ("embedded", "polar", "subspace", "full_rank"):
        for seed in range(3):
            rows = np.random.default_rng(seed).permutation(len(X))[:40]
            assert Model(2, regularization=0.1, geometry=geometry).fit(X[rows], Y[rows]).converged_


def test_without_a_closed_form_the_penalty_is_chosen_at_the_largest_rank_and_the_rank_with_it():
    X, Y = draw(n=40, q=4, k=3, missing=0.1)
    model = Model(cv=2, random_state=0).fit(X, Y)
    tried = np.isfinite(model.rank_path_.scores)
    largest = Model(3, cv=2, random_state=0).fit(X, Y).regularization_path_
    assert_allclose(model.rank_path_.scores[-1], largest.scores[0])
    assert tried[-1].all()
    assert (tried[:-1].sum(axis=1) == 1).all()
    assert model.regularization_ == largest.best[1]
    assert model.rank_path_.best == (model.rank_, model.regularization_)


def test_ranks_of_fits_without_a_closed_form_end_after_several_in_vain():
    """Rank 1 is the truth: 2, 3 and 4 are no better, 5 to 7 are not tried, and 8 told the weight."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    Y = np.outer(X @ rng.standard_normal(8), rng.standard_normal(9)) + 0.5 * rng.standard_normal((60, 9))
    Y[rng.random(Y.shape) < 0.1] = np.nan
    model = Model(cv=2, random_state=0, regularization=1.0).fit(X, Y)
    assert np.isfinite(model.rank_path_.scores[:, 0]).tolist() == [True] * 4 + [False] * 3 + [True]
    assert model.rank_ == 1


def test_without_a_closed_form_every_rank_is_tried_with_the_penalty_of_the_largest():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 5))
    Y = 0.3 * np.outer(X @ rng.standard_normal(5), rng.standard_normal(4)) + rng.standard_normal((24, 4))
    Y[0, 0] = np.nan
    model = Model(cv=2, random_state=0).fit(X, Y)
    best = int(np.argmin(model.rank_path_.scores[-1]))
    assert best > 0  # noise is to be shrunk
    assert np.isfinite(model.rank_path_.scores[:, best]).all()
