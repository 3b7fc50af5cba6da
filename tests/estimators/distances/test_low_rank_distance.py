"""Distances learned from pairs and from triplets, with features and without."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import NotFittedError

import rankfold as rf


def squared(Z, pairs):
    return np.sum((Z[pairs[:, 0]] - Z[pairs[:, 1]]) ** 2, axis=1)


def some_pairs(count, part, seed=0):
    return np.argwhere(np.triu(np.random.default_rng(seed).uniform(size=(count, count)) < part, 1))


@pytest.fixture(scope="module")
def places():
    return np.random.default_rng(0).standard_normal((40, 2)) + 5.0


@pytest.fixture(scope="module")
def table():
    """Twelve points with five features, of which the first two make the distances."""
    return np.random.default_rng(1).standard_normal((30, 5))


def metric_of(table):
    A = np.zeros((5, 2))
    A[0, 0], A[1, 1] = 1.0, 2.0
    return table @ A


def triplets(Z, count, seed=0):
    rng = np.random.default_rng(seed)
    where = np.array([rng.choice(len(Z), 3, replace=False) for _ in range(count)])
    nearer = squared(Z, where[:, :2]) < squared(Z, where[:, [0, 2]])
    return np.where(nearer[:, None], where, where[:, [0, 2, 1]])


def test_distances_are_completed(places):
    pairs, every = some_pairs(40, 0.5), some_pairs(40, 1.1)
    model = rf.LowRankDistance(2, regularization=0).fit(pairs, squared(places, pairs))
    assert_allclose(model.predict(every), squared(places, every), rtol=1e-5, atol=1e-6)
    assert model.score(every, squared(places, every)) == pytest.approx(1.0)
    assert_allclose(model.factor_.mean(0), 0, atol=1e-12)
    centred = places - places.mean(0)
    assert_allclose(model.factor_ @ model.factor_.T, centred @ centred.T, atol=1e-5)
    assert_allclose(model.transform([3, 0]), model.factor_[[3, 0]])
    found = rf.LowRankDistance(2, regularization=0).fit_transform(pairs, squared(places, pairs))
    assert_allclose(squared(found, every), squared(places, every), rtol=1e-5, atol=1e-6)


def test_a_metric_of_features_is_learned(table):
    Z, pairs = metric_of(table), some_pairs(30, 0.5)
    for points in (table, sparse.csr_array(table), torch.from_numpy(table)):
        model = rf.LowRankDistance(2, points=points, regularization=0).fit(pairs, squared(Z, pairs))
        assert model.factor_.shape == (5, 2)
        assert_allclose(model.factor_ @ model.factor_.T, np.diag([1.0, 4.0, 0, 0, 0]), atol=1e-5)
        new = np.random.default_rng(7).standard_normal((4, 5))
        assert_allclose(model.transform(new), new @ model.factor_)
        found = model.fit_transform(pairs, squared(Z, pairs))
        assert type(found) is (torch.Tensor if isinstance(points, torch.Tensor) else np.ndarray)
        assert_allclose(squared(np.asarray(found), pairs), squared(Z, pairs), rtol=1e-4)


@pytest.mark.parametrize("loss", ["auto", "logistic", "squared_hinge"])
def test_triplets_tell_the_metric(table, loss):
    Z = metric_of(table)
    model = rf.LowRankDistance(2, points=table, loss=loss, regularization=0.5).fit(triplets(Z, 600))
    new = triplets(Z, 300, seed=9)
    assert model.score(new) > 0.93
    margin = squared(table @ model.factor_, new[:, [0, 2]]) - squared(table @ model.factor_, new[:, :2])
    assert_allclose(model.predict(new), margin, atol=1e-10)
    assert model.score(new) == np.mean(margin > 0)
    assert model.score(new, sample_weight=(margin > 0).astype(float)) == 1.0
    answers = model.predict(torch.from_numpy(new))
    assert isinstance(answers, torch.Tensor)


def test_triplets_place_points_without_features(places):
    model = rf.LowRankDistance(2, regularization=0.1).fit(triplets(places, 3000))
    assert model.score(triplets(places, 500, seed=3)) > 0.95


def test_the_loss_of_triplets_is_logistic_and_of_distances_the_square(table):
    Z, pairs, where = metric_of(table), some_pairs(30, 0.5), triplets(metric_of(table), 50)
    cases = [(pairs, squared(Z, pairs), "square"), (where, None, "logistic")]
    for X, y, loss in cases:
        factors = [
            rf.LowRankDistance(2, points=table, loss=name).fit(X, y).factor_ for name in ("auto", loss)
        ]
        np.testing.assert_array_equal(*factors)


def test_the_penalty_is_the_trace_beside_the_sum(table):
    Z, pairs = metric_of(table), some_pairs(30, 0.5)
    y, weights = squared(Z, pairs), np.linspace(0.5, 2, len(pairs))
    model = rf.LowRankDistance(2, points=table, regularization=30.0).fit(pairs, y, weights)
    cost = rf.Distances(pairs, y, features=table, weights=weights) + rf.Nuclear(30.0 / len(pairs))
    best = rf.minimize(rf.Problem(cost, rf.PositiveSemidefinite((5, 5), 2)), rf.TrustRegion(), tolerance=0)
    assert model.trace_["value"][-1] == pytest.approx(best.value, rel=1e-8)
    assert np.sum(model.factor_**2) == pytest.approx(np.sum(best.x.Y**2), rel=1e-4)


def test_the_rank_is_chosen(table):
    Z, pairs = metric_of(table), some_pairs(30, 1.1)
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(pairs))
    model = rf.LowRankDistance(points=table, regularization=0.1, random_state=0)
    assert model.fit(pairs, squared(Z, pairs) + noise).rank_ == 2
    assert model.rank_path_.ranks[:3] == (1, 2, 3)
    with pytest.raises(ValueError, match="there is 1 sample: give a rank"):
        rf.LowRankDistance().fit([[0, 1]], [1.0])
    assert rf.LowRankDistance(random_state=0).fit([[0, 1], [1, 2]], [1.0, 2.0]).rank_path_.ranks[0] == 1
    for points, what in ((table, "5, the number of features"), (None, "30, the number of points")):
        with pytest.raises(ValueError, match=f"from 1 to {what}"):
            rf.LowRankDistance(31, points=points).fit(pairs, squared(Z, pairs))


def test_a_warm_start_begins_where_the_last_fit_ended(table):
    Z, pairs = metric_of(table), some_pairs(30, 0.5)
    model = rf.LowRankDistance(2, points=table, warm_start=True)
    cold = model.fit(pairs, squared(Z, pairs)).n_iter_
    assert model.fit(pairs, squared(Z, pairs)).n_iter_ < cold
    model.set_params(rank=3).fit(pairs, squared(Z, pairs))  # one more column
    assert model.factor_.shape == (5, 3)


def test_files_keep_both_kinds(table, places, tmp_path):
    Z, pairs = metric_of(table), some_pairs(30, 0.5)
    models = [
        rf.LowRankDistance(2, points=sparse.csr_array(table)).fit(pairs, squared(Z, pairs)),
        rf.LowRankDistance(2).fit(triplets(places, 100)),
    ]
    for model, X in zip(models, (pairs, triplets(places, 20)), strict=True):
        rf.save(model, tmp_path / "model")
        again = rf.load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.factor_ = model.factor_[:, :1]
    with pytest.raises(ValueError, match="cannot be saved: factor_"):
        rf.save(model, tmp_path / "model")


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[0, 1]], None, "pairs take y, .* got no y and 2 columns"),
        ([[0, 1, 2]], [1.0], "triplets take none; got y and 3 columns"),
        ([[0, 1, 2, 3]], [1.0], r"2 columns \(pairs\) or 3 \(triplets\); got n_features = 4"),
        ([[0, 0], [0, 1]], [1.0, 1.0], r"X\[0\] is \[0, 0\]: a point is no pair"),
        ([[0.5, 1.0]], [1.0], "X must be integers"),
        ([[0, 1], [0, 1000]], [1.0, 1.0], "names 3 points by numbers up to 1000: number them from 0"),
    ],
)
def test_what_is_wrong_is_said(X, y, words):
    with pytest.raises(ValueError, match=words):
        rf.LowRankDistance(1).fit(X, y)


def test_questions_that_make_no_sense(table):
    Z, pairs = metric_of(table), some_pairs(30, 0.5)
    with pytest.raises(NotFittedError):
        rf.LowRankDistance(1).predict(pairs)
    with pytest.raises(NotFittedError):
        rf.LowRankDistance(1).transform(table)
    with pytest.raises(ValueError, match="the point 30, and there are 30 points"):
        rf.LowRankDistance(2, points=table).fit([[0, 30]], [1.0])
    by_features = rf.LowRankDistance(2, points=table).fit(pairs, squared(Z, pairs))
    with pytest.raises(ValueError, match="X has 4 features, but points had 5"):
        by_features.transform(table[:, :4])
    placed = rf.LowRankDistance(2).fit(pairs, squared(Z, pairs))
    with pytest.raises(ValueError, match="the point 31, and there are 30 points"):
        placed.predict([[0, 31]])
    for bad, words in (
        ([[0, 1]], "vector of numbers"),
        ([0.5], "vector of numbers"),
        ([30], "beyond"),
        ([-1], "beyond"),
    ):
        with pytest.raises(ValueError, match=words):
            placed.transform(bad)
