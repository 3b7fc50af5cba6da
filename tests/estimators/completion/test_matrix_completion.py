import copy

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import rankfold as rf
from estimators.completion.rating_data import everywhere, fitted_once, model, ratings, rmse


def test_defaults_beat_offsets_alone_on_ratings():
    _, _, truth = ratings()
    fitted = fitted_once()
    alone = fitted_once(regularization=1e6)  # so much that W is next to 0
    assert rmse(everywhere(fitted), truth) < 0.5 * rmse(everywhere(alone), truth)
    assert fitted.regularization_ in fitted.regularization_path_.regularizations
    assert fitted.converged_
    assert fitted.n_iter_ == len(fitted.trace_) - 1


def test_predictions_are_the_factors_and_offsets():
    fitted = fitted_once()
    (L, R), (mean, b, c) = fitted.factors_, fitted.biases_
    np.testing.assert_allclose(everywhere(fitted), L @ R.T + mean + b[:, None] + c, rtol=1e-12)


def test_clipped_predictions_end_where_the_data_do():
    plain, (_, y, _) = fitted_once(), ratings()
    clipped = copy.copy(plain).set_params(clip=True)
    limited = np.clip(everywhere(plain), y.min(), y.max())
    assert (limited != everywhere(plain)).any()
    np.testing.assert_array_equal(everywhere(clipped), limited)
    clipped.value_range_ = None
    with pytest.raises(ValueError, match="saved before models knew the range of their data: fit it again"):
        clipped.predict([(0, 0)])
    clipped.set_params(clip=False)
    np.testing.assert_array_equal(everywhere(clipped), everywhere(plain))


def test_plain_completion_is_exact():
    data = rf.data.random_completion((80, 60), rank=3, oversampling=5, seed=0)
    fitted = model(rank=3, bias=False, regularization=0.0).fit(data)
    assert fitted.regularization_ == 0
    L, R = fitted.factors_
    np.testing.assert_allclose(L @ R.T, data.L @ data.R.T, atol=1e-6)


@pytest.mark.parametrize("loss", ["square", "huber", "poisson"])
def test_the_minimum_is_that_of_the_objective_over_factors_and_offsets(loss):
    """All gradients of Σ ℓ + λ (Σ √n ‖L‖² + Σ √m ‖R‖²) + ρ_r ‖b‖² + ρ_c ‖c‖² vanish."""
    X, y, _ = ratings()
    y = np.random.default_rng(0).poisson(np.exp(y / 3)) if loss == "poisson" else y
    weight = 0.7
    fitted = model(regularization=weight, tol=1e-14, loss=loss).fit(X, y)
    (L, R), (mean, b, c), (rows, cols) = fitted.factors_, fitted.biases_, X.T
    predicted = mean + b[rows] + c[cols] + np.einsum("pk,pk->p", L[rows], R[cols])
    slope = rf.Loss.named(loss)(predicted, y)[1] / 2
    for factor, offsets, rho, mine, theirs, other in (
        (L, b, fitted.shrinkage_.rows, rows, cols, R),
        (R, c, fitted.shrinkage_.cols, cols, rows, L),
    ):
        f = np.zeros_like(factor)
        np.add.at(f, mine, slope[:, None] * other[theirs])
        f += weight * np.sqrt(np.bincount(mine, minlength=len(factor)))[:, None] * factor
        assert np.abs(f).max() < 1e-5 * np.abs(slope).sum()
        f = np.bincount(mine, slope, len(factor)) + rho * offsets
        assert np.abs(f).max() < 1e-5 * np.abs(slope).sum()
    assert abs(slope.sum()) < 1e-5 * np.abs(slope).sum()


def test_offsets_alone_solve_the_ridge_problem():
    X, y, _ = ratings()
    fitted = fitted_once(regularization=1e6)
    design = np.zeros((len(y), 101))
    design[np.arange(len(y)), X[:, 0]] = design[np.arange(len(y)), 60 + X[:, 1]] = design[:, 100] = 1
    ridge = np.diag(np.append(np.repeat(fitted.shrinkage_, [60, 40]), 0))
    beta = np.linalg.solve(design.T @ design + ridge, design.T @ y)
    np.testing.assert_allclose(
        np.concatenate([fitted.biases_.rows, fitted.biases_.cols]), beta[:100], atol=1e-4
    )
    assert fitted.biases_.mean == pytest.approx(beta[100], abs=1e-4)


def _without_offsets(W):
    return W - W.mean(axis=0) - W.mean(axis=1, keepdims=True) + W.mean()


@pytest.mark.parametrize(
    ("loss", "bias"),
    [("logistic", True), ("huber", True), ("poisson", True), ("poisson", False), (rf.Loss.huber(2.0), False)],
)
def test_other_losses(loss, bias):
    X, y, truth = ratings(noise=0.0)
    signal = truth - truth.mean()
    if loss == "logistic":
        y = (y > truth.mean()).astype(float)
    elif loss == "poisson":
        signal = np.exp(signal / 3)
        y = np.random.default_rng(0).poisson(signal[tuple(X.T)]).astype(float)
    fitted = model(loss=loss, bias=bias).fit(X, y)
    predicted = everywhere(fitted)
    assert np.corrcoef(predicted.ravel(), signal.ravel())[0, 1] > 0.6
    if loss == "logistic":
        assert ((predicted > 0) & (predicted < 1)).all()
        predicted = np.log(predicted / (1 - predicted))
    if loss == "poisson":
        assert (predicted > 0).all()
        predicted = np.log(predicted)
    if bias:  # what the factors say beyond the offsets
        likeness = np.corrcoef(_without_offsets(predicted).ravel(), _without_offsets(truth).ravel())[0, 1]
        assert likeness > {"logistic": 0.65, "poisson": 0.5}.get(loss, 0.99)


def test_weight_two_is_the_entry_given_twice():
    X, y, _ = ratings(entries=500)
    twice = np.arange(0, 500, 3)
    weights = np.ones(500)
    weights[twice] = 2
    options = {"regularization": 1.0, "tol": 1e-12, "bias": False}
    weighted = model(**options).fit(X, y, sample_weight=weights)
    repeated = model(**options).fit(np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]]))
    np.testing.assert_allclose(everywhere(weighted), everywhere(repeated), atol=1e-4)
    ignored = model(**options).fit(X, y, sample_weight=(np.arange(500) > 250).astype(float))
    assert np.abs(everywhere(ignored) - everywhere(weighted)).max() > 0.1


def test_float32_stays_float32_and_is_as_good():
    X, y, truth = ratings()
    fitted = model(dtype="float32").fit(X, y)
    assert fitted.factors_[0].dtype == fitted.factors_[1].dtype == np.float32
    (L, R), (mean, b, c) = (F.astype(np.float64) for F in fitted.factors_), fitted.biases_
    np.testing.assert_allclose(everywhere(fitted), L @ R.T + mean + b[:, None] + c, rtol=1e-12)
    assert rmse(everywhere(fitted), truth) == pytest.approx(rmse(everywhere(fitted_once()), truth), rel=0.05)


def test_the_same_seed_gives_the_same_model_and_the_order_of_entries_does_not_matter():
    X, y, _ = ratings()
    order = np.random.default_rng(1).permutation(len(y))
    first, second = everywhere(fitted_once()), everywhere(model().fit(X[order], y[order]))
    np.testing.assert_allclose(first, second, atol=1e-10)
    assert not np.array_equal(first, everywhere(model(random_state=1).fit(X, y)))


def test_cross_validation_and_grid_search():
    X, y, _ = ratings(noise=0.1)
    assert cross_val_score(model(regularization=1.0), X, y, cv=3).mean() > 0.7
    search = GridSearchCV(model(), {"rank": [1, 2], "regularization": [1.0]}, cv=2).fit(X, y)
    assert search.best_params_["rank"] == 2


@pytest.mark.parametrize("geometry", ["polar", "subspace", "embedded", rf.FullRank])
def test_every_geometry_finds_the_same_minimum(geometry):
    X, y, _ = ratings()
    options = {"regularization": 2.0, "tol": 1e-10}
    expected = everywhere(fitted_once(**options))
    np.testing.assert_allclose(everywhere(model(geometry=geometry, **options).fit(X, y)), expected, atol=1e-2)


def test_offsets_of_a_robust_fit_on_a_geometry_are_those_of_its_minimum():
    X, y, _ = ratings()
    options = {"regularization": 2.0, "tol": 1e-10, "loss": "huber"}
    expected, found = (model(geometry=name, **options).fit(X, y) for name in ("auto", "full_rank"))
    np.testing.assert_allclose(found.biases_.rows, expected.biases_.rows, atol=2e-3)
    np.testing.assert_allclose(everywhere(found), everywhere(expected), atol=1e-2)


def test_warm_start_goes_on_from_the_last_fit():
    X, y, _ = ratings()
    warm = model(warm_start=True, tol=1e-8).fit(X, y)
    weight, iterations = warm.regularization_, warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ < iterations
    assert warm.regularization_ == weight
    warm.fit(X[X[:, 0] < 50], y[X[:, 0] < 50])  # other rows: from the beginning
    assert warm.shape_ == (50, 40)


def test_too_few_iterations_warn():
    X, y, _ = ratings()
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        assert not model(regularization=0.5, max_iter=1).fit(X, y).converged_
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        found = model(regularization=0.5, max_iter=1, geometry="embedded").fit(X, y)
    assert (found.converged_, found.stop_kind_) == (False, "limit")


def test_a_fit_can_be_checkpointed_resumed_and_watched(tmp_path):
    X, y, _ = ratings()
    whole = fitted_once()
    path, seen = tmp_path / "fit.ckpt", []

    def stop_early(progress):
        seen.append(progress.iteration)
        return progress.iteration == 2

    with pytest.warns(ConvergenceWarning):
        model().fit(X, y, checkpoint=path, callback=stop_early)
    assert seen == [0, 1, 2]
    resumed = model().fit(X, y, resume=path)
    np.testing.assert_array_equal(everywhere(resumed), everywhere(whole))


def test_the_linear_operator_is_the_completed_matrix():
    fitted = fitted_once()
    dense, operator = everywhere(fitted), fitted.as_linear_operator()
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(
        operator @ rng.standard_normal((40, 3)), dense @ np.random.default_rng(0).standard_normal((40, 3))
    )
    v = rng.standard_normal(60)
    np.testing.assert_allclose(operator.rmatvec(v), dense.T @ v)
    assert operator.shape == (60, 40)


def test_more_regularisation_than_the_data_can_bear_leaves_the_offsets():
    fitted = fitted_once(regularization=1e6)
    assert not fitted.factors_[0].any()
    assert not fitted.factors_[1].any()
    assert fitted.converged_
    assert "W = 0 is best" in fitted.stop_reason_
    (row,) = fitted.trace_
    assert (row.iteration, row.gradient_norm, row.seconds) == (0, 0.0, 0.0)
    mean, b, c = fitted.biases_
    np.testing.assert_allclose(everywhere(fitted), mean + b[:, None] + c)


@pytest.mark.filterwarnings("ignore:all 1200 values are 4.0")
def test_constant_values_are_predicted():
    X, _, _ = ratings()
    np.testing.assert_allclose(model().fit(X, np.full(len(X), 4.0)).predict(X), 4.0, atol=1e-6)


def test_sides_in_stripes_give_the_same_model(monkeypatch):
    X, y, _ = ratings()
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    options = {"regularization": 1.0, "tol": 1e-12, "bias": False}
    expected, chosen = model(**options).fit(X, y, sample_weight=weights), fitted_once()
    monkeypatch.setattr("rankfold.entries.sorted_entries.STRIPES", ((9, 2), (50, 1)))
    striped = model(**options).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(everywhere(striped), everywhere(expected), atol=1e-4)
    np.testing.assert_allclose(everywhere(model().fit(X, y)), everywhere(chosen), atol=0.05)
    for mine, theirs in zip(striped.observed_, expected.observed_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_ctrl_c_leaves_the_best_model_so_far():
    X, y, _ = ratings()

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after iteration 2"):
        fitted = model(tol=1e-12).fit(X, y, callback=interrupt)
    assert not fitted.converged_
    assert fitted.score(X, y) > 0.9


def test_a_fit_that_entries_do_not_determine_says_so():
    data = rf.data.random_completion((40, 30), rank=2, oversampling=0.8, seed=0, min_per_line=1)
    few = int((np.bincount(data.rows, minlength=40) < 2).sum())
    plain = model(rank=2, bias=False, regularization=0.0, tol=0.1)
    with pytest.warns(
        UserWarning, match=rf"not unique: {few} rows have fewer than 2 entries \(the first: \["
    ):
        plain.fit(data)


@pytest.mark.parametrize("renamed", [{0}, {1}, {0, 1}])
def test_a_warm_start_is_for_the_same_names_on_both_sides(renamed):
    X, y, _ = ratings()
    first, other = (
        np.stack([[f"{'new' if k in sides else 'old'}{i:02}" for i in X[:, k]] for k in (0, 1)], axis=1)
        for sides in (set(), renamed)
    )
    warm = model(warm_start=True, regularization=1.0).fit(first, y)
    cold = model(regularization=1.0).fit(other, y)
    assert warm.fit(first, y).n_iter_ < cold.n_iter_
    np.testing.assert_array_equal(warm.fit(other, y).factors_[0], cold.factors_[0])


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_values_that_are_all_equal_are_warned_of(loss):
    pairs = [(i, j) for i in range(4) for j in range(3) if (i + j) % 3]
    model = rf.MatrixCompletion(rank=1, regularization=1.0, loss=loss)
    with pytest.warns(UserWarning, match="all 8 values are 1.0, and a constant fits them.*clicks") as caught:
        model.fit(pairs, np.ones(8))
    assert caught[0].filename == __file__
    model.fit(pairs, [0.0] + 7 * [1.0])  # a warning would be an error
