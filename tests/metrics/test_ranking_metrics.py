"""The ranking metrics beside a second implementation, written plainly, user by user."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.metrics import ndcg_score

import rankfold as rf
from rankfold.estimators.completion.neighbours import Recommendations
from rankfold.metrics import map_at_k, ndcg_at_k, precision_at_k, recall_at_k

METRICS = recall_at_k, precision_at_k, ndcg_at_k, map_at_k


def plain(metric, gains, ranked, k):
    """One user: the gains of all items by name, and the names in the order they are recommended in."""
    relevant = {item for item, gain in gains.items() if gain > 0}
    if not relevant:
        return math.nan
    top = ranked[:k]
    hits = [item in relevant for item in top]
    if metric is recall_at_k:
        return sum(hits) / len(relevant)
    if metric is precision_at_k:
        return sum(hits) / k
    if metric is map_at_k:
        total = sum(sum(hits[: place + 1]) / (place + 1) for place, hit in enumerate(hits) if hit)
        return total / min(len(relevant), k)
    found = sum(gains.get(item, 0) / math.log2(place + 2) for place, item in enumerate(top))
    best = sorted(gains.values(), reverse=True)[:k]
    return found / sum(gain / math.log2(place + 2) for place, gain in enumerate(best))


def instance(seed, users=30, items=12):
    """Gains, scores with ties and -inf, and pairs to exclude."""
    rng = np.random.default_rng(seed)
    gains = rng.integers(1, 4, (users, items)) * (rng.uniform(size=(users, items)) < 0.25)
    gains[4] = 0  # nothing is relevant to this user
    scores = rng.integers(0, 6, (users, items)).astype(float)
    scores[rng.uniform(size=scores.shape) < 0.1] = -np.inf
    return gains.astype(float), scores, rng.uniform(size=scores.shape) < 0.2


def order_of(scores, apart):
    """Items in the order of their scores; of equal ones the first comes first."""
    there = [j for j in range(len(scores)) if scores[j] > -np.inf and not apart[j]]
    return sorted(there, key=lambda j: -scores[j])


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("k", [1, 3, 20])
@pytest.mark.parametrize("excluding", [False, True])
def test_of_arrays(metric, k, excluding):
    gains, scores, apart = instance(k)
    before = scores.copy()
    apart &= excluding
    expected = [
        plain(metric, {j: g[j] for j in range(len(g)) if not a[j]}, order_of(s, a), k)
        for g, s, a in zip(gains, scores, apart, strict=True)
    ]
    exclude = apart if excluding else None
    found = metric(gains, scores, k, exclude=exclude, average=False)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert np.isnan(expected).any()
    assert metric(sparse.csr_array(gains), scores, k, exclude=exclude) == pytest.approx(np.nanmean(expected))
    np.testing.assert_array_equal(scores, before)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("excluding", [False, True])
def test_of_pairs_and_lists(metric, excluding):
    """Lists of some users only, in any order of users, of items of which some are relevant to nobody."""
    gains, scores, apart = instance(7)
    apart &= excluding
    k = 4
    users, items = np.nonzero(gains)
    names = np.array([f"u{u}" for u in range(len(gains))])
    held_out = rf.data.Triples(users, items, gains[users, items], gains.shape, names)
    lists = {u: order_of(scores[u], np.zeros(len(scores[u]))) for u in (3, 0, 5, *range(8, 30))}
    rows = [names[u] for u, listed in lists.items() for _ in listed]
    cols = [j for listed in lists.values() for j in listed]
    recommended = Recommendations(np.array(rows), np.array(cols), np.zeros(len(rows)))
    exclude = pd.DataFrame({"user": names[np.nonzero(apart)[0]], "item": np.nonzero(apart)[1]})
    expected = []
    for u in sorted(set(users), key=lambda u: names[u]):
        own = {j: gains[u, j] for j in range(gains.shape[1]) if not apart[u, j]}
        expected.append(plain(metric, own, [j for j in lists.get(u, []) if not apart[u, j]], k))
    found = metric(held_out, recommended, k, exclude=exclude if excluding else None, average=False)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    if metric is not ndcg_at_k:  # pairs alone have the gain 1
        pairs = list(zip(names[users].tolist(), items.tolist(), strict=True))
        own = metric(pairs, recommended, k, exclude=exclude if excluding else None)
        assert own == pytest.approx(np.nanmean(expected))


def test_ndcg_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    gains = rng.integers(0, 4, (20, 15))
    scores = rng.standard_normal((20, 15))
    for k in (1, 5, 15):
        assert ndcg_at_k(gains, scores, k) == pytest.approx(ndcg_score(gains, scores, k=k), rel=1e-12)


def test_pairs_without_values_all_gain_one():
    recommended = Recommendations(np.array([1, 1]), np.array([7, 8]), np.zeros(2))
    assert ndcg_at_k([(1, 8), (1, 9)], recommended, 2) == pytest.approx(
        (1 / math.log2(3)) / (1 + 1 / math.log2(3))
    )


def test_a_value_of_zero_is_not_relevant():
    data = rf.data.Triples(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1.0, 0.0, 0.0]), (2, 2))
    recommended = Recommendations(np.array([0, 0, 1]), np.array([1, 0, 0]), np.zeros(3))
    np.testing.assert_array_equal(precision_at_k(data, recommended, 2, average=False), [0.5, math.nan])


def test_the_order_of_lists_counts_and_not_their_scores():
    recommended = Recommendations(np.array([0, 0]), np.array([5, 6]), np.array([0.1, 0.9]))
    assert recall_at_k([(0, 5)], recommended, 1) == 1
    assert recall_at_k([(0, 6)], recommended, 1) == 0


@pytest.mark.parametrize("metric", METRICS)
def test_what_makes_no_sense_is_refused(metric):
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        metric([[1]], [[1.0]], 0)
    with pytest.raises(ValueError, match="no user has a relevant item"):
        metric([[0, 0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match=r"shape \(1, 2\) and recommended \(1, 3\)"):
        metric([[0, 1]], [[1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match=r"exclude has the shape \(1, 1\) and relevant \(1, 2\)"):
        metric([[0, 1]], [[1.0, 2.0]], exclude=[[1]])
    with pytest.raises(ValueError, match="NaN"):
        metric([[0, 1]], [[1.0, np.nan]])
    with pytest.raises(ValueError, match="never negative"):
        metric([[0, -1]], [[1.0, 2.0]])
    twice = Recommendations(np.array([4, 4]), np.array([5, 5]), np.zeros(2))
    with pytest.raises(ValueError, match=r"\(4, 5\) comes twice in recommended"):
        metric([(4, 5)], twice)
    once = Recommendations(np.array([4]), np.array([5]), np.zeros(1))
    with pytest.raises(ValueError, match="comes twice in relevant"):
        metric([(4, 5), (4, 5)], once)


def test_of_a_model():
    """`recommend` leaves out what was fitted to, and what is left is measured."""
    pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
    model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
    assert recall_at_k([("bob", "Heat"), ("cyd", "Heat")], model.recommend(["bob", "cyd"]), 5) == 0.5
