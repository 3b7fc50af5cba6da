"""Models of pairs: what they are given, whose columns are whose, borders of classes, digests, trials."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.estimators.pairs import base
from rankfold.estimators.pairs.observations import Classes, Comparisons, Outcomes
from rankfold.estimators.pairs.pair_ranker import _Order
from rankfold.estimators.pairs.paired_features import PairedFeatures

KINDS = [rf.PairRegressor, rf.PairClassifier, rf.PairRanker]


def draw(n=14, d=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), np.arange(n) % 2 * 1.0


def masked(array):
    where = np.zeros(array.shape, bool)
    where.reshape(-1)[1] = True
    return np.ma.masked_array(array, where)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_masked_is_refused_everywhere(kind):
    X, y = draw()
    model = kind(1, regularization=1.0).fit(X, y)
    for call in (
        lambda: model.fit(masked(X), y),
        lambda: model.predict(masked(X)),
    ):
        with pytest.raises(ValueError, match=r"^X\[0, 1\] is masked"):
            call()
    with pytest.raises(ValueError, match=r"^y\[1\] is masked"):
        model.fit(X, masked(y))
    if kind is rf.PairRanker:
        with pytest.raises(ValueError, match=r"^y\[1\] is masked"):
            model.score(X, masked(y))


@pytest.mark.parametrize(("columns", "left"), [(2, 1), (3, 2), (5, 3), (6, 3)])
def test_the_left_thing_has_half_of_the_columns_the_middle_one_included(columns, left):
    X, _ = draw(d=columns)
    features = PairedFeatures.of_columns(X, None)
    assert_array_equal(features.left.matrix, X[:, :left])
    assert_array_equal(features.right.matrix, X[:, left:])
    assert features.shape == (left + 1, columns - left + 1)


@pytest.mark.parametrize("n_left", [1, 4])
def test_each_side_has_a_column_at_least(n_left):
    X, _ = draw()
    assert PairedFeatures.of_columns(X, n_left).shape == (n_left + 1, 6 - n_left)
    for wrong in (0, 5, -1):
        with pytest.raises(
            ValueError, match=f"n_left must be from 1 to 4, below the number of columns; got {wrong}"
        ):
            PairedFeatures.of_columns(X, wrong)
    with pytest.raises(ValueError, match="X has n_features = 1: a pair has features of both its sides"):
        PairedFeatures.of_columns(X[:, :1], None)


def test_a_score_of_0_means_the_first_of_two_classes():
    X, y = draw()
    model = rf.PairClassifier(1, regularization=1.0).fit(X, np.where(y > 0, "b", "a"))
    L, R = model.factors_
    model.factors_ = np.zeros_like(L), np.zeros_like(R)
    assert set(model.predict(X)) == {"a"}
    assert_array_equal(model.predict_proba(X), np.full((14, 2), 0.5))
    model.centre_ = 1e-9
    assert set(model.predict(X)) == {"b"}


@pytest.mark.parametrize("kind", KINDS)
def test_digests_know_all_that_a_model_is_fitted_to(kind):
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((6, 3)), rng.standard_normal((5, 2))
    pairs, y = np.argwhere(np.ones((6, 5))), (np.arange(30) % 7 < 3) * 1.0

    def digest(left=left, right=right, pairs=pairs, y=y, weights=None):
        model = kind(1, left=left, right=right, regularization=1.0, tol=1.0)
        return model.fit(pairs, y, weights).data_fingerprint_

    found = [
        digest(), digest(left + 1), digest(right=right + 1), digest(pairs=pairs[::-1]), digest(y=1 - y),
        digest(weights=np.arange(1.0, 31.0)),
    ]  # fmt: skip
    assert len(set(found)) == len(found)
    assert digest() == found[0]


def test_trials_are_looser_than_the_last_fit(monkeypatch):
    tolerances = []

    def tried(model, problem, tol):
        tolerances.append(tol)
        return SimpleNamespace(factors=problem.geometry.factors(problem.geometry.random_point(0)))

    monkeypatch.setattr(base, "try_model", tried)
    X, y = draw()
    for tol, due in ((1e-13, 1e-6), (1e-2, 1e-2)):
        rf.PairRegressor(tol=tol, regularization=1.0, random_state=0).fit(X, y)
        assert set(tolerances) == {due}
        tolerances.clear()


def features(seed=0):
    rng = np.random.default_rng(seed)
    return PairedFeatures.of_columns(rng.standard_normal((20, 4)), 2), rng


def scores(pairs, L, R):
    x = np.column_stack([pairs.left.matrix, np.ones(20)])
    z = np.column_stack([pairs.right.matrix, np.ones(20)])
    return np.einsum("pi,ij,pj->p", x, L @ R.T, z)


def test_losses_of_outcomes_and_comparisons_are_by_weight():
    pairs, rng = features()
    y, weights = rng.integers(0, 2, 20) * 1.0, rng.uniform(0.5, 2, 20)
    L, R = rng.standard_normal((3, 2)), rng.standard_normal((3, 2))
    w = scores(pairs, L, R)
    found = Outcomes(pairs, y, weights, "logistic").losses(L, R)
    assert_allclose(found, weights * (np.logaddexp(0, w) - y * w))
    better, worse = np.array([3, 5, 11]), np.array([7, 2, 19])
    compared = Comparisons(pairs, better, worse, weights[:3])
    assert_allclose(compared.losses(L, R), weights[:3] * np.log1p(np.exp(w[worse] - w[better])))
    assert (compared.size, Outcomes(pairs, y, weights, "square").size) == (3, 20)


def test_losses_of_classes_are_those_of_their_softmax():
    pairs, rng = features()
    y, weights = rng.integers(0, 3, 20), rng.uniform(0.5, 2, 20)
    known = Classes(pairs, y, weights, "multinomial", 3)
    assert known.shape == (3, 9)
    assert known.limits == "one more than the features of each side, the right one times 3 classes"
    L, R = rng.standard_normal((3, 2)), rng.standard_normal((3, 3, 2))
    logits = np.stack([scores(pairs, L, R[:, k]) for k in range(3)], axis=1)
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert_allclose(known.losses(L, R.reshape(9, 2)), -weights * np.log(chances[np.arange(20), y]))


def test_what_is_held_out_and_what_is_not_are_all_of_the_pairs():
    pairs, rng = features()
    y, weights = rng.standard_normal(20), rng.uniform(0.5, 2, 20)
    train, test = Outcomes(pairs, y, weights, "square").split(np.random.RandomState(0))
    assert (train.size, test.size) == (18, 2)
    for whole, parts in (
        (y, (train.y, test.y)),
        (weights, (train.weights, test.weights)),
        (pairs.left.matrix, (train.features.left.matrix, test.features.left.matrix)),
    ):
        assert_array_equal(np.sort(np.concatenate(parts), axis=0), np.sort(whole, axis=0))
    assert [np.flatnonzero(y == value).item() for value in train.y] == sorted(
        np.flatnonzero(np.isin(y, train.y))
    )


def test_comparisons_with_a_pair_that_is_held_out_are_held_out():
    pairs, rng = features()
    better, worse = rng.integers(0, 10, 60), rng.integers(10, 20, 60)
    train, test = Comparisons(pairs, better, worse, np.arange(60.0)).split(np.random.RandomState(0))
    unseen = np.random.RandomState(0).permutation(20)[:2]
    apart = np.isin(better, unseen) | np.isin(worse, unseen)
    assert_array_equal(test.weights, np.flatnonzero(apart))
    assert_array_equal(train.weights, np.flatnonzero(~apart))
    assert_array_equal(test.better, better[apart])
    assert_array_equal(train.worse, worse[~apart])
    with pytest.raises(ValueError, match="there are too few of them: give a rank"):
        Comparisons(pairs, unseen[:1], unseen[1:], np.ones(1)).split(np.random.RandomState(0))


def test_a_limit_of_one_comparison_and_what_is_no_limit():
    X, y = draw()
    model = rf.PairRanker(1, regularization=1.0, max_comparisons=1, random_state=0).fit(X, y)
    assert model.n_comparisons_ == 1
    for wrong in (1.5, "9", -1):
        with pytest.raises(ValueError, match="max_comparisons must be a positive integer; got"):
            model.set_params(max_comparisons=wrong).fit(X, y)


def test_grades_are_compared_within_groups_alone():
    groups, grades = np.array([2, 1, 2, 1, 2, 1, 0]), np.array([1.0, 5.0, 1.0, 7.0, 0.5, 5.0, 9.0])
    better, worse = _Order.of(groups, grades).drawn(99, np.random.RandomState(0))
    found = set(zip(better.tolist(), worse.tolist(), strict=True))
    assert found == {(0, 4), (2, 4), (3, 1), (3, 5)}
    with pytest.raises(ValueError, match="nothing to compare: of n_samples = 0 pairs"):
        _Order.of(groups[:0], grades[:0]).drawn(99, np.random.RandomState(0))
