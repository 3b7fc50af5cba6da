"""Pairs and triplets of points against plain formulas; limits of their numbers; how a rank is judged."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import rankfold as rf
from rankfold.estimators.distances import low_rank_distance
from rankfold.estimators.distances.measured_points import MeasuredPoints, as_loss
from rankfold.fingerprint import fingerprint

Model = rf.LowRankDistance


def draw(count=9, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((count, 4))
    pairs = np.argwhere(np.triu(np.ones((count, count)), 1))
    triplets = np.array([rng.choice(count, 3, replace=False) for _ in range(20)])
    y = np.sum((table[pairs[:, 0], :2] - table[pairs[:, 1], :2]) ** 2, axis=1)
    return table, pairs, triplets, y


@pytest.mark.parametrize("of_features", [False, True])
def test_distances_are_squares_and_triplets_their_differences(of_features):
    table, pairs, triplets, y = draw()
    points = table if of_features else None
    Y = np.random.default_rng(1).standard_normal((4 if of_features else 9, 2))
    Z = table @ Y if of_features else Y
    measured, compared = MeasuredPoints.of(pairs, y, points), MeasuredPoints.of(triplets, None, points)
    assert_allclose(measured.measures(Y), [np.sum((Z[i] - Z[j]) ** 2) for i, j in pairs])
    due = [np.sum((Z[i] - Z[k]) ** 2) - np.sum((Z[i] - Z[j]) ** 2) for i, j, k in triplets]
    assert_allclose(compared.measures(Y), due)
    assert (measured.size, compared.size) == (len(Y), len(Y))
    assert_array_equal(measured.targets, y)
    assert_array_equal(compared.targets, np.ones(20))
    assert_allclose(measured.centred(Y), Y if of_features else Y - Y.mean(axis=0))
    some = np.array([7, 2])
    assert_array_equal(measured.take(some).where, pairs[some])
    assert_array_equal(measured.take(some).values, y[some])
    assert_array_equal(compared.take(some).where, triplets[some])
    assert compared.take(some).values is None
    weights = np.linspace(0.5, 2, 36)
    squares = weights * (measured.measures(Y) - y) ** 2
    assert_allclose(measured.cost("auto", weights).value(Y, Y), squares.mean())
    losses = weights[:20] * np.log1p(np.exp(-np.array(due)))
    assert_allclose(compared.cost("auto", weights[:20]).value(Y, Y), losses.mean())


def test_losses_are_named_given_or_those_of_what_is_measured():
    assert as_loss("auto", True) == as_loss("logistic", False) == rf.Loss.named("logistic")
    assert as_loss("auto", False) == as_loss("square", True) == rf.Loss.named("square")
    own = rf.Loss.huber(2.0)
    assert as_loss(own, True) is own


@pytest.mark.parametrize(("largest", "fits"), [(29, True), (30, False)])
def test_points_without_a_pair_are_ten_to_each_that_has_some_at_most(largest, fits):
    X = np.array([[0, 1], [1, largest]])
    if fits:
        assert MeasuredPoints.of(X, np.ones(2), None).count == largest + 1
    else:
        with pytest.raises(ValueError, match="X names 3 points by numbers up to 30: number them from 0"):
            MeasuredPoints.of(X, np.ones(2), None)
        assert MeasuredPoints.of(X, np.ones(2), None, 40).count == 40  # those of a fit
        assert MeasuredPoints.of(X, np.ones(2), sparse.eye_array(31)).count == 31


def test_a_point_is_one_of_those_of_the_fit():
    X = np.array([[0, 4]])
    assert MeasuredPoints.of(X, None, None, 5).where.tolist() == [[0, 4]]
    with pytest.raises(ValueError, match="X has the point 4, and there are 4 points, numbered from 0"):
        MeasuredPoints.of(X, None, None, 4)
    with pytest.raises(ValueError, match="X has the point 4, and there are 4 points, numbered from 0"):
        MeasuredPoints.of(X, np.ones(1), np.ones((4, 2)))


def test_points_are_asked_for_by_number():
    for numbers in (np.array([0, 4]), np.array([3], np.uint8), [2, 0], np.zeros(0, int)):
        found = MeasuredPoints.numbers(numbers, 5)
        assert found.dtype == np.int64
        assert found.tolist() == list(numbers)
    for wrong in ([5], [0, -1], [4, 5]):
        with pytest.raises(ValueError, match="X has numbers beyond those of the 5 points"):
            MeasuredPoints.numbers(wrong, 5)
    for wrong in ([[0]], [1.0], 3, np.array(["a"])):
        with pytest.raises(ValueError, match="X must be a vector of numbers of points; got shape"):
            MeasuredPoints.numbers(wrong, 5)


def test_a_rank_is_judged_by_a_tenth_that_is_held_out(monkeypatch):
    table, pairs, _, y = draw(12)
    y += 0.3 * np.random.default_rng(1).uniform(size=y.size)
    weights, tolerances, own = np.linspace(0.5, 2, 66), [], low_rank_distance.try_model

    def watched(model, problem, tol):
        tolerances.append(tol)
        return own(model, problem, tol=tol)

    monkeypatch.setattr(low_rank_distance, "try_model", watched)
    model = Model(points=table, random_state=0, regularization=0.5).fit(pairs, y, weights)
    order = np.random.RandomState(0).permutation(66)
    test, train = order[:7], np.sort(order[7:])
    alone = Model(2, points=table, regularization=0.5, tol=1e-6).fit(pairs[train], y[train], weights[train])
    squares = weights[test] * (alone.predict(pairs[test]) - y[test]) ** 2
    assert_allclose(model.rank_path_.errors[1], squares.mean(), rtol=1e-3)
    assert set(tolerances) == {1e-6}
    model.set_params(tol=1e-3).fit(pairs, y, weights)
    assert tolerances[-1] == 1e-3


def test_digests_know_points_and_weights_and_what_is_known_of_them():
    table, pairs, triplets, y = draw()
    few = {"regularization": 1.0, "tol": 1.0}
    found = [
        Model(1, points=points, **few).fit(*data).data_fingerprint_
        for points, data in (
            (table, (pairs, y)),
            (None, (pairs, y)),
            (table + 1, (pairs, y)),
            (table, (pairs, y + 1)),
            (table, (pairs, y, np.linspace(1, 2, 36))),
            (table, (triplets,)),
        )
    ]
    assert len(set(found)) == 6
    assert Model(1, **few).fit(triplets).data_fingerprint_ == fingerprint(triplets, np.zeros(0), np.ones(20))


def test_scores_are_by_weight_and_a_tie_does_not_hold():
    table, pairs, triplets, y = draw()
    model = Model(1, points=table, regularization=1.0).fit(pairs, y)
    weights = np.linspace(0.1, 3, 36)
    found = model.predict(pairs)
    mean = np.average(y, weights=weights)
    due = 1 - weights @ (y - found) ** 2 / (weights @ (y - mean) ** 2)
    assert model.score(pairs, y, weights) == pytest.approx(due)
    assert model.score(pairs, y) != pytest.approx(due)
    model.fit(triplets)
    model.factor_ = 0 * model.factor_
    assert model.score(triplets) == 0.0


def test_distances_beyond_all_floats_are_refused():
    _, pairs, _, y = draw()
    model = Model(2).fit(pairs, y)
    model.factor_ = model.factor_ * 1e160
    with np.errstate(over="raise"), pytest.raises(ValueError, match=r"the prediction for X\[0\] overflows"):
        model.predict(pairs)


def test_coordinates_are_those_of_all_points():
    table, pairs, _, y = draw()
    model = Model(2, points=table, regularization=1.0)
    assert_allclose(model.fit_transform(pairs, y, np.linspace(1, 2, 36)), table @ model.factor_)
    placed = Model(2, regularization=1.0)
    assert_array_equal(placed.fit_transform(pairs, y), placed.factor_)


def test_without_a_warm_start_a_second_fit_is_the_first():
    table, pairs, _, y = draw()
    model = Model(2, points=table, regularization=1.0).fit(pairs, y)
    values = model.trace_["value"]
    assert_array_equal(model.fit(pairs, y).trace_["value"], values)
