"""Costs of distances: one factor or two, starts, completion of Euclidean distance matrices, and errors.

Derivatives against a dense construction are in `costs.catalogue`.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import rankfold as rf
from rankfold.costs.of_distances import Lifted, downhill_semidefinite, semidefinite

METRICS = ("invariant", "preconditioned", "euclidean")
PAIRS = np.array([[0, 1], [3, 0], [1, 2], [2, 3], [4, 1], [4, 2], [5, 0], [5, 4]])


def drawn(count, shape=(6, 2), seed=0):
    return list(np.random.default_rng(seed).standard_normal((count, *shape)))


def squared(Y, pairs):
    return np.sum((Y[pairs[:, 0]] - Y[pairs[:, 1]]) ** 2, axis=1)


def costs():
    X = np.random.default_rng(1).standard_normal((9, 6))
    triplets = np.array([[0, 1, 2], [3, 4, 5], [5, 0, 2], [1, 3, 4]])
    return {
        "distances": rf.Distances(PAIRS, np.arange(1.0, 9.0)),
        "distances of features": rf.Distances(PAIRS, np.arange(1.0, 9.0), features=X),
        "triplets": rf.Triplets(triplets),
        "triplets of sparse features": rf.Triplets(triplets, features=sparse.csr_array(X)),
    }


@pytest.mark.parametrize("name", costs())
def test_one_factor_gives_what_two_equal_ones_do(name):
    cost = costs()[name]
    Y, dY = drawn(2)
    Z, dZ = Y.copy(), dY.copy()
    value, f, g = cost.evaluate(Y, Y)
    assert f is g
    two = cost.evaluate(Y, Z)
    assert value == pytest.approx(two.value, rel=1e-12)
    for part in two[1:]:
        assert_allclose(f, part, atol=1e-12)
    assert cost.value(Y, Y) == pytest.approx(two.value, rel=1e-12)
    df, dg = cost.derivative(Y, Y, dY, dY)
    assert df is dg
    for along in ((Y, Z, dY, dZ), (Y, Y, dY, dZ), (Y, Z, dY, dY)):
        for part in cost.derivative(*along):
            assert_allclose(df, part, atol=1e-12)
    if cost.quadratic:
        lines = [cost.polynomial(*line) for line in (((Y, dY), (Y, dY)), ((Y, dY), (Z, dZ)))]
        assert lines[0].shape == (5,)
        assert_allclose(lines[0], lines[1], rtol=1e-10)


def test_one_factor_needs_half_the_columns():
    Y = drawn(1)[0]
    assert Lifted.of(Y, Y, Y[:, 0], 1.0).left.shape == (6, 4)
    assert Lifted.of(Y, Y.copy(), Y[:, 0], 1.0).left.shape == (6, 6)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", costs())
def test_derivatives_on_semidefinite_matrices(name, metric):
    cost = costs()[name]
    problem = rf.Problem(cost, rf.PositiveSemidefinite(cost.shape, 2, metric=metric))
    assert rf.check_gradient(problem, seed=1).ok
    assert rf.check_hessian(problem, seed=1).ok


def test_rows_and_columns_have_as_many_entries_of_a_triangle_of_pairs():
    pairs = np.column_stack(np.triu_indices(8, 1))
    rows, cols = rf.Distances(pairs, np.ones(len(pairs))).core.core.observed.counts
    assert (rows + cols == 7).all()
    assert np.abs(rows - cols).max() == 1


def test_values_are_distances_of_rows():
    Y = drawn(1)[0]
    y = squared(Y, PAIRS)
    assert rf.Distances(PAIRS, y + 2.0).value(Y, Y) == pytest.approx(4.0)
    X = np.random.default_rng(1).standard_normal((7, 6))
    assert rf.Distances(PAIRS, squared(X @ Y, PAIRS) - 1.0, features=X).value(Y, Y) == pytest.approx(1.0)
    weights = np.arange(8.0)
    assert rf.Distances(PAIRS, y + 2.0, weights=weights).value(Y, Y) == pytest.approx(4 * 28 / 8)
    assert rf.Distances(PAIRS, y + 2.0, loss="huber").value(Y, Y) == pytest.approx(3.0)


def test_triplets_ask_which_is_nearer():
    Y = np.array([[0.0], [1.0], [3.0], [0.5]])
    right, wrong = rf.Triplets([[0, 1, 2]], size=4), rf.Triplets([[0, 2, 1]], size=4)
    assert right.value(Y, Y) == pytest.approx(np.log1p(np.exp(-8.0)))
    assert wrong.value(Y, Y) == pytest.approx(np.log1p(np.exp(8.0)))
    assert rf.Triplets([[0, 1, 2]], loss="squared_hinge").value(Y[:3], Y[:3]) == 0.0


def test_curves_of_higher_degree_are_interpolated():
    cost = costs()["distances"]
    L0, L1, L2, R0, R1 = drawn(5)
    assert cost.polynomial((L0,), (R0, R1)).shape == cost.polynomial((L0, L1), (R0,)).shape == (3,)
    found = cost.polynomial((L0, L1, L2), (R0, R1))
    assert found.shape == (7,)
    for t in (-0.5, 0.3, 0.9):
        value = cost.value(L0 + t * L1 + t * t * L2, R0 + t * R1)
        assert np.polynomial.polynomial.polyval(t, found) == pytest.approx(value, rel=1e-10)


def test_a_sample_of_many_distances_gives_the_step(monkeypatch):
    monkeypatch.setattr("rankfold.costs.completion.SAMPLED_ENTRIES", 200)
    rng = np.random.default_rng(0)
    P, dP = rng.standard_normal((40, 2)), rng.standard_normal((40, 2))
    pairs = np.argwhere(np.triu(np.ones((40, 40)), 1))
    cost = rf.Distances(pairs, squared(P, pairs))
    found, whole = (f((P, dP), (P, dP)) for f in (cost.sampled_polynomial, cost.polynomial))
    assert found.shape == whole.shape == (5,)
    assert np.argmax(found) == np.argmax(whole)
    assert found[4] == pytest.approx(whole[4], rel=0.3)
    assert cost.sampled_polynomial((P, dP, P), (P, dP)) is None  # of curves of higher degree there is none


@pytest.mark.parametrize("count", [12, 60])
def test_all_distances_start_at_the_solution(count):
    P = drawn(1, (count, 3))[0]
    pairs = np.argwhere(np.triu(np.ones((count, count)), 1))
    cost = rf.Distances(pairs, squared(P, pairs))
    U, s, V = cost.start(3)
    assert U is V
    P = P - P.mean(0)
    assert_allclose((U * s) @ U.T, P @ P.T, atol=1e-9)


def test_points_as_far_from_each_other_as_some_are_known_to_be_start_as_a_simplex():
    U, s, _ = rf.Distances(PAIRS, np.full(len(PAIRS), 4.0)).start(5)
    assert_allclose((U * s) @ U.T, 2 * (np.eye(6) - 1 / 6), atol=1e-9)


def test_a_point_of_no_known_distance_starts_too():
    U, s, _ = rf.Distances(PAIRS, np.arange(1.0, 9.0), size=8).start(2)
    assert U.shape == (8, 2)
    assert np.isfinite(U * s).all()


def test_other_losses_of_distances_start_down_the_gradient():
    values = np.arange(1.0, 9.0)
    scaled, huber, poisson = (
        rf.Distances(PAIRS, values, loss=loss) for loss in ("square", "huber", "poisson")
    )
    assert_allclose(huber.start(2)[1], scaled.start(2)[1])
    assert_allclose(poisson.start(2)[1], downhill_semidefinite(poisson, 2, 0)[1])


def test_the_nearest_semidefinite_matrix_is_filled_up():
    Q = np.linalg.qr(drawn(1, (6, 2))[0])[0]
    U, s, V = semidefinite(Q * [2.0, -1.0], Q, 2, seed=0)
    assert U is V
    assert_allclose(s, [2.0, 2e-8])
    assert_allclose(abs(U[:, 0] @ Q[:, 0]), 1.0)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(
    "solver", [rf.ConjugateGradient(), rf.TrustRegion(), rf.GradientDescent(), rf.Auto()]
)
def test_distances_are_completed(metric, solver):
    rng = np.random.default_rng(0)
    P = rng.standard_normal((120, 3))
    pairs = np.argwhere(np.triu(rng.uniform(size=(120, 120)) < 0.3, 1))
    cost = rf.Distances(pairs, squared(P, pairs), size=120)
    problem = rf.Problem(cost, rf.PositiveSemidefinite(cost.shape, 3, metric=metric))
    result = rf.minimize(problem, solver, tolerance=1e-20, max_iterations=2000)
    assert result.converged
    every = np.argwhere(np.triu(np.ones((120, 120)), 1))
    exact = squared(P, every)
    assert np.linalg.norm(squared(result.x.Y, every) - exact) <= 1e-8 * np.linalg.norm(exact)


def test_a_fifth_of_the_distances_of_a_thousand_points_tell_the_rest(monkeypatch):
    monkeypatch.setattr("rankfold.kernels.layout.FEW", 10**7)  # so that it takes the kernels of other tests
    rng = np.random.default_rng(1)
    P = rng.standard_normal((1000, 3))
    every = np.stack(np.triu_indices(1000, 1), axis=1)
    pairs = every[rng.choice(len(every), len(every) // 5, replace=False)]
    cost = rf.Distances(pairs, squared(P, pairs))
    result = rf.minimize(rf.Problem(cost, rf.PositiveSemidefinite(cost.shape, 3)), tolerance=1e-20)
    exact = squared(P, every)
    assert np.linalg.norm(squared(result.x.Y, every) - exact) <= 1e-8 * np.linalg.norm(exact)
    assert result.iterations < 60


def test_the_metric_of_the_data_is_there_without_features_only():
    found = {name: cost.has_line_blocks for name, cost in costs().items()}
    assert found == {"distances": True} | dict.fromkeys(list(found)[1:], False)
    with pytest.raises(TypeError, match="knows no blocks"):
        costs()["triplets"].line_blocks(*drawn(2))
    with pytest.raises(TypeError, match="knows no blocks"):
        costs()["triplets"].core.line_blocks(*drawn(2))


def test_a_metric_is_learned_from_triplets_of_features():
    """Two of six features count: answers about new triplets are right."""
    rng = np.random.default_rng(0)
    X, A = rng.standard_normal((80, 6)), np.zeros((6, 2))
    A[:2] = np.eye(2)
    where = np.array([rng.choice(80, 3, replace=False) for _ in range(1500)])
    gap = squared(X @ A, where[:, [0, 2]]) - squared(X @ A, where[:, :2])
    where = np.where(gap[:, None] > 0, where, where[:, [0, 2, 1]])
    cost = rf.Triplets(where[:1000], features=X) + rf.Nuclear(1e-4)
    result = rf.minimize(rf.Problem(cost, rf.PositiveSemidefinite(cost.shape, 2)), rf.TrustRegion())
    Z, new = X @ result.x.Y, where[1000:]
    assert np.mean(squared(Z, new[:, [0, 2]]) > squared(Z, new[:, :2])) > 0.95


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rf.Distances([[0, 1, 2]], [1.0]), r"pairs must be integers of shape \(m, 2\)"),
        (lambda: rf.Distances([[0.0, 1.0]], [1.0]), r"pairs must be .* of float64"),
        (
            lambda: rf.Distances(np.zeros((0, 2), int), []),
            r"pairs must be integers of shape \(m, 2\), m >= 1",
        ),
        (lambda: rf.Distances([[0, 1], [1, 1]], [1.0, 0.0]), r"pairs\[1\] is \[1, 1\]: a point is no pair"),
        (lambda: rf.Distances([[0, 1], [-1, 1]], [1.0, 0.0]), r"pairs\[1\] is \[-1, 1\]: .* from 0"),
        (lambda: rf.Distances([[0, 1]], [1.0, 2.0]), "equally long; got 1 and 2"),
        (lambda: rf.Distances([[0, 5]], [1.0], size=5), "pairs has the point 5, and there are 5 points"),
        (lambda: rf.Distances([[0, 2]], [1.0], features=np.eye(2)), "pairs has the point 2, and there are 2"),
        (lambda: rf.Distances([[0, 1]], [1.0], 3, np.eye(2)), "size is 3, but features has 2 rows"),
        (lambda: rf.Distances([[0, 1]], [0.5], loss="logistic"), "wants 0 or 1"),
        (lambda: rf.Triplets([[0, 1]]), r"triplets must be integers of shape \(m, 3\)"),
        (lambda: rf.Distances(np.array([[2**64 - 1, 1]], np.uint64), [1.0]), r"\[18446744073709551615, 1\]"),
        (lambda: rf.Triplets([[0, 1, 5]], 4), "triplets has the point 5, and there are 4 points"),
        (lambda: rf.Triplets([[0, 1, 0]]), "a point is no pair with itself"),
        (lambda: rf.Triplets([[0, 1, 2]], loss="far"), "loss must be one of"),
    ],
)
def test_what_is_wrong_is_said(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_run_is_not_resumed_on_other_data():
    Y = drawn(1)[0]
    known = rf.Distances(PAIRS, squared(Y, PAIRS)).fingerprint()
    assert known == rf.Distances(PAIRS, squared(Y, PAIRS)).fingerprint()
    assert known != rf.Distances(PAIRS, squared(Y, PAIRS) + 1.0).fingerprint()
    assert known != rf.Distances(PAIRS, squared(Y, PAIRS), features=np.eye(6) * 2).fingerprint()


@pytest.mark.parametrize("seed", range(3))
def test_of_half_the_distances_a_start_has_most_of_the_points(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((60, 3))
    points -= points.mean(axis=0)
    pairs = np.column_stack(np.triu_indices(60, 1))
    some = pairs[rng.uniform(size=len(pairs)) < 0.5]
    U, s, V = rf.Distances(some, squared(points, some), size=60).start(3)
    G = points @ points.T
    assert np.linalg.norm((U * s) @ V.T - G) < 0.5 * np.linalg.norm(G)
