"""PairRanker: scikit-learn's contract, which pairs are compared, and what it learns."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankfold as rf
from rankfold.estimators.pairs.pair_ranker import _Order

EXACT = {"regularization": 100.0, "tol": 0.0, "solver": "tr"}


@pytest.mark.filterwarnings("ignore:stopped after 500:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([rf.PairRanker(1, **EXACT)])
def test_the_contract(estimator, check):
    check(estimator)


def draw(seed=0, users=40, films=30, share=0.5):
    rng = np.random.default_rng(seed)
    left, right = rng.standard_normal((users, 4)), rng.standard_normal((films, 3))
    pairs = np.argwhere(rng.uniform(size=(users, films)) < share)
    taste = np.einsum("pi,ij,pj->p", left[pairs[:, 0]], rng.standard_normal((4, 3)), right[pairs[:, 1]])
    strictness = 3 * rng.standard_normal(users)
    return left, right, pairs, np.round(taste + strictness[pairs[:, 0]])


def compared(model):
    """Which comparisons a fit has made, as a set of pairs of positions."""
    seen = []
    original = rf.RankedPairs.__init__

    def spy(self, X, Z, pairs, better, worse, **options):
        seen.append((better, worse, options["weights"]))
        original(self, X, Z, pairs, better, worse, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rf.RankedPairs, "__init__", spy)
        model()
    return seen[-1]


def test_pairs_of_one_left_thing_and_different_grades_are_compared():
    left, right = np.eye(3), np.eye(4)
    pairs = np.array([[0, 0], [1, 1], [0, 2], [1, 3], [0, 1], [2, 0], [1, 0]])
    grades = [1.0, 5.0, 3.0, 4.0, 1.0, 9.0, 5.0]
    model = rf.PairRanker(1, left=left, right=right)
    better, worse, _ = compared(lambda: model.fit(pairs, grades))
    assert sorted(zip(better.tolist(), worse.tolist(), strict=True)) == [(1, 3), (2, 0), (2, 4), (6, 3)]
    assert model.n_comparisons_ == 4
    better, worse, _ = compared(lambda: model.fit(pairs, grades, groups=list("aabbbbb")))
    expected = [(1, 0), (3, 2), (3, 4), (5, 2), (5, 3), (5, 4), (5, 6), (6, 2), (6, 3), (6, 4), (2, 4)]
    assert sorted(zip(better.tolist(), worse.tolist(), strict=True)) == sorted(expected)


def test_all_pairs_are_compared_without_tables_and_groups():
    X = np.random.default_rng(0).standard_normal((5, 4))
    model = rf.PairRanker(1)
    better, worse, weights = compared(
        lambda: model.fit(X, [0.0, 1.0, 1.0, 2.0, 7.0], sample_weight=[1.0, 2.0, 3.0, 0.0, 1.0])
    )
    # The fourth has no weight, and what is left is numbered anew.
    expected = {(1, 0): 2.0, (2, 0): 3.0, (3, 0): 1.0, (3, 1): 2.0, (3, 2): 3.0}
    assert dict(zip(zip(better.tolist(), worse.tolist(), strict=True), weights, strict=True)) == expected


def test_logistic_regression_of_the_differences_of_features():
    """With one side constant, it is RankNet's loss with scikit-learn's penalty."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((25, 3))
    y = np.round(Z @ [1.0, -2.0, 0.5] + rng.standard_normal(25))
    both = np.hstack([np.zeros((25, 1)), Z])
    model = rf.PairRanker(rank=1, n_left=1, regularization=2.0, solver="tr").fit(both, y)
    better, worse = np.nonzero(y[:, None] > y)
    differences = np.vstack([Z[better] - Z[worse], Z[worse] - Z[better]])
    plain = LogisticRegression(C=1 / 8, fit_intercept=False, tol=1e-12, solver="newton-cholesky")
    plain.fit(differences, np.repeat([1, 0], better.size))  # each comparison twice
    assert_allclose(model.right_coef_, plain.coef_[0], atol=1e-5)
    assert_allclose(model.left_coef_, 0.0, atol=1e-6)
    assert_allclose(model.intercept_, 0.0, atol=1e-6)


def test_it_ranks_new_things_where_a_regression_learns_how_strict_users_are():
    left, right, pairs, y = draw()
    fresh = pairs[:, 1] >= 20  # films that nobody has graded
    ranker = rf.PairRanker(rank=3, left=left, right=right).fit(pairs[~fresh], y[~fresh])
    regressor = rf.PairRegressor(rank=3, left=left, right=right).fit(pairs[~fresh], y[~fresh])
    assert ranker.score(pairs[fresh], y[fresh]) > 0.93
    as_ranker = clone(ranker).fit(pairs[~fresh], y[~fresh])
    as_ranker.factors_ = regressor.factors_
    assert as_ranker.score(pairs[fresh], y[fresh]) <= ranker.score(pairs[fresh], y[fresh])


def test_things_without_features_have_factors_of_their_own():
    rng = np.random.default_rng(1)
    truth = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 25))
    pairs = np.argwhere(rng.uniform(size=truth.shape) < 0.6)
    clicked = (truth > 0.3)[tuple(pairs.T)].astype(float)
    model = rf.PairRanker(3, left=sparse.eye_array(30), right=sparse.eye_array(25), tol=1e-5)
    model.fit(pairs, clicked)
    others = np.argwhere(~np.isin(np.arange(truth.size), pairs @ [25, 1]).reshape(truth.shape))
    assert model.score(others, (truth > 0.3)[tuple(others.T)]) > 0.85


def test_the_score_is_the_area_under_the_curve_of_each_group():
    left, right, pairs, y = draw()
    high = (y > 0).astype(float)
    model = rf.PairRanker(2, left=left, right=right, regularization=50.0).fit(pairs, high)
    scores, areas, counts = model.predict(pairs), [], []
    for user in range(40):
        mine = pairs[:, 0] == user
        if len(set(high[mine])) == 2:
            areas.append(roc_auc_score(high[mine], scores[mine]))
            counts.append(high[mine].sum() * (1 - high[mine]).sum())
    assert_allclose(model.score(pairs, high), np.average(areas, weights=counts))
    assert_allclose(model.score(pairs, high, groups=np.zeros(len(pairs), int)), roc_auc_score(high, scores))
    weights = np.linspace(0, 2, len(pairs))
    weighted = model.score(pairs, high, sample_weight=weights, groups=np.zeros(len(pairs), int))
    assert_allclose(weighted, roc_auc_score(high, scores, sample_weight=weights))
    assert abs(weighted - roc_auc_score(high, scores)) > 1e-4
    model.factors_ = tuple(np.zeros_like(factor) for factor in model.factors_)
    assert model.score(pairs, high) == 0.5


def test_many_comparisons_are_drawn_evenly():
    rng = np.random.default_rng(0)
    groups, grades = rng.integers(0, 20, 2000), rng.integers(0, 5, 2000).astype(float)
    order = _Order.of(groups, grades)
    every = np.stack(order.drawn(10**7, np.random.RandomState(0)), axis=1)
    assert len(np.unique(every, axis=0)) == len(every)
    assert (groups[every[:, 0]] == groups[every[:, 1]]).all()
    assert (grades[every[:, 0]] > grades[every[:, 1]]).all()
    some = np.stack(order.drawn(len(every) // 3, np.random.RandomState(0)), axis=1)
    assert len(some) == len(every) // 3
    assert len(np.unique(some, axis=0)) > 0.8 * len(some)
    known = set(map(tuple, every.tolist()))
    assert all(tuple(one) in known for one in some.tolist())
    shares = np.bincount(some[:, 0], minlength=2000) - np.bincount(every[:, 0], minlength=2000) / 3
    assert np.abs(shares).max() <= 2.0  # a pair's own run, but for its ends


def test_comparisons_are_drawn_at_other_places_of_each_share():
    order = _Order.of(np.zeros(300, int), np.arange(300.0))
    better, worse = order.drawn(50, np.random.RandomState(0))
    place = (better * (better - 1)) // 2 + worse  # a thing of grade g is better than g others
    assert np.unique(np.diff(np.sort(place))).size > 25


def test_a_limit_of_comparisons_is_kept():
    left, right, pairs, y = draw()
    model = rf.PairRanker(2, left=left, right=right, max_comparisons=500, random_state=0).fit(pairs, y)
    assert model.n_comparisons_ == 500
    assert model.score(pairs, y) > 0.85


def test_the_rank_is_chosen_by_comparisons_of_pairs_held_out():
    left, right, pairs, y = draw()
    y = np.round(2 * left[pairs[:, 0], 0] * right[pairs[:, 1], 1])
    model = rf.PairRanker(left=left, right=right, random_state=0).fit(pairs, y)
    assert model.rank_ == 1
    path = model.rank_path_
    order = np.random.RandomState(0).permutation(len(pairs))
    unseen = np.zeros(len(pairs), dtype=bool)
    unseen[order[: round(0.1 * len(pairs))]] = True
    alone = clone(model).set_params(rank=1, tol=1e-6).fit(pairs[~unseen], y[~unseen])
    scores, losses = alone.predict(pairs), []
    for p, q in np.argwhere((pairs[:, :1] == pairs[:, 0]) & (y[:, None] > y)):
        if unseen[p] or unseen[q]:
            losses.append(np.logaddexp(0, scores[q] - scores[p]))
    assert_allclose(path.errors[0], np.mean(losses), rtol=1e-3)


def test_weights_stand_for_repetitions():
    rng = np.random.default_rng(3)
    X, weights = rng.standard_normal((40, 6)), rng.integers(0, 4, 40)
    y = np.round(X[:, 0] * X[:, 3] + 0.3 * rng.standard_normal(40))
    model = rf.PairRanker(rank=2, regularization=0.5)
    weighted = clone(model).fit(X, y, sample_weight=weights).predict(X)
    repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights)).predict(X)
    assert_allclose(weighted, repeated, rtol=1e-4, atol=1e-4)


def test_errors_name_what_is_wrong():
    left, right, pairs, y = draw()
    model = rf.PairRanker(1, left=left, right=right)
    with pytest.raises(
        ValueError, match=r"nothing to compare: of n_samples = \d+ pairs, no two of one group have"
    ):
        model.fit(pairs, np.zeros(len(pairs)))
    with pytest.raises(ValueError, match=f"a label for each of the {len(pairs)} pairs; got 2"):
        model.fit(pairs, y, groups=["a", "b"])
    with pytest.raises(ValueError, match="max_comparisons must be a positive integer; got 0"):
        clone(model).set_params(max_comparisons=0).fit(pairs, y)
    with pytest.raises(ValueError, match="max_comparisons must be a positive integer; got True"):
        clone(model).set_params(max_comparisons=True).fit(pairs, y)
    with pytest.raises(ValueError, match=f"X has {len(pairs)} pairs and y has 3 grades"):
        model.fit(pairs, y).score(pairs, y[:3])
    with pytest.raises(ValueError, match="too few of them: give a rank"):
        rf.PairRanker().fit(np.eye(4)[:2], [0.0, 1.0])


def test_a_ranker_is_saved(tmp_path):
    left, right, pairs, y = draw()
    model = rf.PairRanker(2, left=left, right=right, max_comparisons=700).fit(pairs, y)
    rf.save(model, tmp_path / "model")
    loaded = rf.load(tmp_path / "model")
    assert loaded.n_comparisons_ == 700 == loaded.max_comparisons
    np.testing.assert_array_equal(loaded.predict(pairs), model.predict(pairs))


def test_grades_too_large_to_be_compared_are_refused():
    X, y = np.eye(4), np.array([1.0, 2.0, 1e200, 3.0])
    with pytest.raises(ValueError, match=r"y\[2\] is 1e\+200"):
        rf.PairRanker(1).fit(X, y)
