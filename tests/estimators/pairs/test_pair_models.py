"""PairRegressor and PairClassifier: scikit-learn's contract, and both ways of giving pairs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankfold as rf
from rankfold.estimators.pairs.observations import _held_out_pairs

# Newton steps on a well-conditioned cost end within 1e-11 of the minimum: weights and repetitions agree there
# far better than the 1e-7 that a check demands.
EXACT = {"regularization": 100.0, "tol": 0.0, "solver": "tr"}
# Some checks bring features of mean 100 and deviation 1, on which 500 iterations may not suffice.
unscaled = pytest.mark.filterwarnings("ignore:stopped after 500:sklearn.exceptions.ConvergenceWarning")


@unscaled
@parametrize_with_checks([rf.PairRegressor(1, **EXACT), rf.PairClassifier(1, **EXACT)])
def test_the_contract(estimator, check):
    check(estimator)


# What choosing a rank could break; `make soak` has all others.
OF_A_CHOICE = (
    "check_dict_unchanged", "check_dont_overwrite_parameters", "check_estimators_nan_inf",
    "check_estimators_pickle", "check_fit2d_1feature", "check_fit2d_1sample", "check_fit_idempotent",
    "check_n_features_in", "check_sample_weights_not_overwritten",
)  # fmt: skip


@unscaled
# Both choose by the same code.
@pytest.mark.parametrize(
    ("kind", "check"),
    [*((rf.PairRegressor, check) for check in OF_A_CHOICE), (rf.PairClassifier, "check_fit_idempotent")],
)
def test_the_contract_of_a_chosen_rank(kind, check):
    getattr(estimator_checks, check)(kind.__name__, kind())


@pytest.mark.soak
@unscaled
@parametrize_with_checks([rf.PairRegressor(), rf.PairClassifier()])
def test_the_whole_contract_of_a_chosen_rank(estimator, check):
    if check.func.__name__ == "check_sample_weight_equivalence_on_dense_data":
        pytest.skip("repeated rows are other pairs to hold out than weighted ones")
    check(estimator)


def draw(seed=0):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((40, 4)), rng.standard_normal((30, 3))
    pairs = np.argwhere(rng.uniform(size=(40, 30)) < 0.5)
    W = rng.standard_normal((4, 2)) @ rng.standard_normal((2, 3))
    y = np.einsum("pi,ij,pj->p", left[pairs[:, 0]], W, right[pairs[:, 1]]) + left[pairs[:, 0], 0] + 3.0
    return left, right, pairs, y


def test_tables_with_pairs_and_columns_are_one_model():
    left, right, pairs, y = draw()
    tables = rf.PairRegressor(rank=3, left=left, right=sparse.csr_array(right), regularization=0.01).fit(
        pairs, y
    )
    columns = np.hstack([left[pairs[:, 0]], right[pairs[:, 1]]])
    plain = rf.PairRegressor(rank=3, n_left=4, regularization=0.01).fit(columns, y)
    assert tables.score(pairs, y) > 0.999
    assert_allclose(tables.predict(pairs), plain.predict(columns), atol=1e-4)
    L, R = tables.factors_
    x, z = left[5], right[7]
    by_hand = x @ (L[:-1] @ R[:-1].T) @ z + x @ tables.left_coef_ + z @ tables.right_coef_ + tables.intercept_
    assert_allclose(tables.predict([[5, 7]])[0], by_hand)
    assert cross_val_score(rf.PairRegressor(rank=3, left=left, right=right), pairs, y, cv=3).min() > 0.99


def test_a_rank_of_one_is_one():
    left, right, pairs, _ = draw()
    y = left[pairs[:, 0], 0] * right[pairs[:, 1], 1]
    model = rf.PairRegressor(rank=1, left=left, right=right).fit(pairs, y)
    assert [factor.shape for factor in model.factors_] == [(5, 1), (4, 1)]
    assert model.score(pairs, y) > 0.999


def test_any_two_labels_and_probabilities():
    left, right, pairs, y = draw()
    labels = np.where(y > 3, "yes", "no")
    model = rf.PairClassifier(rank=3, left=left, right=right).fit(pairs, labels)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(pairs, labels) > 0.95
    p = model.predict_proba(pairs)
    assert_allclose(p.sum(axis=1), 1)
    assert_allclose(p[:, 1], 1 / (1 + np.exp(-model.decision_function(pairs))))
    assert ((p[:, 1] > 0.5) == (model.predict(pairs) == "yes")).all()


@pytest.mark.parametrize("kind", [rf.PairRegressor, rf.PairClassifier])
def test_warm_start_goes_on_from_the_last_fit(kind):
    left, right, pairs, y = draw()
    y = y if kind is rf.PairRegressor else y > 3
    warm = kind(rank=3, left=left, right=right, regularization=5.0, warm_start=True).fit(pairs, y)
    cold, scores = warm.n_iter_, warm.predict(pairs)
    assert warm.fit(pairs, y).n_iter_ < cold / 2
    assert_allclose(warm.predict(pairs), scores, atol=1e-4)
    warm.set_params(rank=2).fit(pairs, y)  # a lower rank starts from the nearest matrix
    assert warm.factors_[0].shape == (5, 2)
    alone = kind(rank=2, right=right, regularization=5.0)
    warm.set_params(left=left[:, :2]).fit(pairs, y)  # another number of features: from the beginning
    assert warm.n_iter_ == alone.set_params(left=left[:, :2]).fit(pairs, y).n_iter_


def test_errors_name_what_is_wrong():
    left, right, pairs, y = draw()
    tables = rf.PairRegressor(left=left, right=right)
    with pytest.raises(ValueError, match=r"X\[0, 1\] is 30, .* from 0 to 29, a row of right"):
        tables.fit([[0, 30]] + [[0, 0]] * 3, y[:4])
    with pytest.raises(ValueError, match=r"X\[1, 0\] is -1, .* from 0 to 39, a row of left"):
        tables.fit(pairs, y).predict([[0, 0], [-1, 0]])
    with pytest.raises(ValueError, match=r"X must be integers of shape \(2, 2\)"):
        tables.predict([[0.5, 0], [1, 0]])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        tables.predict([[np.nan, 0], [1, 0]])
    with pytest.raises(ValueError, match="left has entries that are NaN or infinite: impute or drop them"):
        rf.PairRegressor(left=np.full((4, 2), np.nan), right=right).fit(pairs, y)
    with pytest.raises(ValueError, match="give both tables, left and right, or neither"):
        rf.PairRegressor(left=left).fit(pairs, y)
    with pytest.raises(ValueError, match="n_left must be from 1 to 1, below the number of columns; got 5"):
        rf.PairRegressor(n_left=5).fit(pairs, y)
    with pytest.raises(ValueError, match="from 1 to 4, the lesser of 5 and 4, one more than the features"):
        rf.PairRegressor(rank=5, left=left, right=right).fit(pairs, y)
    with pytest.raises(ValueError, match="regularization must be finite and at least 0, not -1"):
        rf.PairRegressor(rank=1, regularization=-1).fit(pairs, y)
    with pytest.raises(ValueError, match="two classes; it has one class only: a"):
        rf.PairClassifier().fit(pairs, ["a"] * len(pairs))


@pytest.mark.parametrize("kind", [rf.PairRegressor, rf.PairClassifier])
def test_weights_stand_for_repetitions(kind):
    model = kind(rank=2, regularization=0.5)
    rng = np.random.default_rng(3)
    X, weights = rng.standard_normal((60, 6)), rng.integers(0, 4, 60)
    y = (X[:, 0] * X[:, 3] + 0.3 * rng.standard_normal(60) > 0).astype(int)
    answer = "predict" if kind is rf.PairRegressor else "decision_function"
    weighted = getattr(clone(model).fit(X, y, sample_weight=weights), answer)(X)
    repeated = getattr(clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)), answer)(X)
    plain = getattr(clone(model).fit(X, y), answer)(X)
    assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-5)
    assert np.abs(weighted - plain).max() > 0.05


@pytest.mark.parametrize("kind", [rf.PairRegressor, rf.PairClassifier])
@pytest.mark.parametrize("true", [1, 3])
def test_the_planted_rank_is_found(kind, true):
    rng = np.random.default_rng(true)
    left, right = rng.standard_normal((60, 7)), rng.standard_normal((50, 6))
    pairs = np.argwhere(rng.uniform(size=(60, 50)) < 0.6)
    W = rng.standard_normal((7, true)) @ rng.standard_normal((true, 6))
    y = np.einsum("pi,ij,pj->p", left[pairs[:, 0]], W, right[pairs[:, 1]]) + 0.5 * rng.standard_normal(
        len(pairs)
    )
    y = y if kind is rf.PairRegressor else y > 0
    model = kind(left=left, right=right, random_state=0).fit(pairs, y)
    found = true + (kind is rf.PairRegressor)  # which centres y: the constant c takes one more
    assert model.rank_ == found == model.factors_[0].shape[1]
    path = model.rank_path_
    assert path.ranks[:4] == (1, 2, 3, 4)[: len(path.ranks)]
    assert len(path.plot().lines) >= 2


def test_ridge_regression_of_the_products_of_features():
    """Of full rank and with one side constant, the sum of squares and the penalty are those of `Ridge`."""
    rng = np.random.default_rng(0)
    X, weights = rng.standard_normal((50, 3)), rng.uniform(0.5, 3, 50)
    y = X @ [1.0, -2.0, 0.5] + rng.standard_normal(50)
    y -= np.average(y, weights=weights)
    features = np.column_stack([X, np.ones(50)])
    both = np.hstack([X, np.zeros((50, 1))])  # the right thing has a feature that says nothing
    model = rf.PairRegressor(rank=2, n_left=3, regularization=4.0).fit(both, y, sample_weight=weights)
    expected = Ridge(4.0, fit_intercept=False).fit(features, y, sample_weight=weights).coef_
    assert_allclose([*model.left_coef_, model.intercept_], expected, atol=1e-6)


def test_ctrl_c_while_the_rank_is_chosen_leaves_no_model(monkeypatch):
    left, right, pairs, y = draw()
    calls, at = [], rf.Problem.at

    def interrupted_once(problem, x):
        calls.append(x)
        if len(calls) == 5:  # within the iterations at rank 1
            raise KeyboardInterrupt
        return at(problem, x)

    monkeypatch.setattr(rf.Problem, "at", interrupted_once)
    model = rf.PairRegressor(left=left, right=right)
    with pytest.raises(KeyboardInterrupt):
        model.fit(pairs, y)
    assert len(calls) == 5
    assert not hasattr(model, "factors_")


def test_held_out_pairs_count_by_their_weights():
    left, right, pairs, y = draw()
    model = rf.PairRegressor(left=left, right=right, random_state=0, regularization=1.0)
    plain = clone(model).fit(pairs, y).rank_path_
    doubled = clone(model).set_params(regularization=2.0).fit(pairs, y, sample_weight=2.0).rank_path_
    # Each rank is solved to a part of its cost, ten thousand times the error that overfitting leaves.
    assert_allclose(doubled.errors, 2 * np.array(plain.errors), rtol=1e-3, atol=1e-5 * plain.errors[0])


@pytest.mark.parametrize(("count", "held_out"), [(2, 1), (14, 1), (16, 2), (100, 10)])
def test_a_tenth_of_the_pairs_is_held_out_and_one_at_least(count, held_out):
    kept, apart = _held_out_pairs(count, np.random.RandomState(0))
    assert len(apart) == held_out
    assert sorted([*kept, *apart]) == list(range(count))
    assert kept.tolist() == sorted(kept)


def test_of_one_pair_none_can_be_held_out():
    with pytest.raises(ValueError, match="holds out a pair, and there is 1 sample: give a rank"):
        _held_out_pairs(1, np.random.RandomState(0))
