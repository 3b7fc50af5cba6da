"""Rank 1 along trees of entries, part by part; and which problems have lines that can be set aside."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.costs.completion import Completion
from rankfold.entries.observed import Observed
from rankfold.solvers import trimming
from rankfold.solvers.spanned import spanned

PARTS = [  # rows, columns, and the entries that connect them
    ([0, 3, 4], [1, 5], {(0, 1): 1.0, (3, 1): -20.0, (3, 5): 0.5, (4, 5): -1.0}),
    ([1], [0, 2, 6], {(1, 0): 300.0, (1, 2): -1.0, (1, 6): 1.0}),
    ([2], [3], {(2, 3): -7.0}),
    ([5], [], {(5, 4): 0.0}),
    ([], [4], {}),
]


@pytest.mark.parametrize("weight", [None, 3.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_part_fits_its_tree_and_is_balanced(dtype, weight):
    entries = {where: v for _, _, part in PARTS for where, v in part.items()}
    i, j = np.array(list(entries)).T
    weights = None if weight is None else np.full(i.size, weight, dtype)
    cost = rf.Completion(i, j, np.array(list(entries.values()), dtype), (6, 7), weights)
    taken = []
    geometry = SimpleNamespace(
        factors=lambda x: (np.zeros(1, dtype), np.zeros(1)),
        from_factors=lambda *factors: taken.append(factors),
    )
    spanned(SimpleNamespace(cost=cost, geometry=geometry), "like")
    ((L, R),) = taken
    assert (L.shape, R.shape, L.dtype, R.dtype) == ((6, 1), (7, 1), dtype, dtype)
    L, R = L[:, 0].astype(float), R[:, 0].astype(float)
    for rows, cols, part in PARTS:
        for (a, b), v in part.items():
            if v:
                assert L[a] * R[b] == pytest.approx(v, rel=1e-5)
        if rows and cols:
            assert np.mean(L[rows] ** 2) == pytest.approx(np.mean(R[cols] ** 2), rel=1e-5)
    assert (L[5], R[4]) == (1.0, 1.0)  # nothing tells of them


def problem_of(shape=(9, 8), rank=2, **options):
    data = rf.data.random_completion(shape, rank, 1.5, seed=0)
    return rf.Problem.of(rf.Completion.from_triples(data, **options), rank), len(data.values)


def test_entries_are_counted_for_each_degree_of_freedom():
    problem, count = problem_of()
    assert trimming.oversampling(problem) == count / (2 * (9 + 8 - 2))
    other, count = problem_of((12, 8), 3)
    assert trimming.oversampling(other) == count / (3 * (12 + 8 - 3))
    assert trimming.oversampling(rf.Problem.of(DenseCost((9, 8)), 2)) == 0.0
    elsewhere = replace(problem)
    vars(elsewhere.cost)["store"] = SimpleNamespace(size=count)
    assert not isinstance(elsewhere.cost.store, Observed)
    assert trimming.oversampling(elsewhere) == 0.0


@pytest.mark.parametrize(
    ("rho", "symmetric", "due"),
    [(1.0, False, True), (0.99, False, False), (1.0, True, False), (0.5, True, False)],
)
def test_lines_can_be_set_aside_of_as_many_entries_as_degrees_of_freedom(monkeypatch, rho, symmetric, due):
    monkeypatch.setattr(trimming, "oversampling", lambda problem: rho)
    problem = SimpleNamespace(geometry=SimpleNamespace(symmetric=symmetric))
    assert trimming.determined(problem) == due


def test_entries_that_weigh_the_same_and_count_by_squares_are_alike(monkeypatch):
    problem, count = problem_of()
    assert isinstance(problem.cost, Completion)
    assert trimming.alike(problem)
    assert not trimming.alike(problem_of(weights=np.full(count, 2.0))[0])
    assert not trimming.alike(problem_of(loss="huber")[0])
    assert not trimming.alike(replace(problem, cost=problem.cost + 0.0 * rf.Frobenius(1.0)))
    monkeypatch.setattr(trimming, "determined", lambda problem: False)
    assert not trimming.alike(problem)


@pytest.mark.parametrize(("rank", "limit"), [(1, 26.0), (2, 16.0), (5, 10.0), (20, 7.0)])
def test_how_far_a_line_must_have_run(rank, limit):
    assert trimming.limit_of(SimpleNamespace(geometry=SimpleNamespace(rank=rank))) == limit


@pytest.mark.filterwarnings("ignore:.*no observed entry")
def test_points_in_single_precision_are_worked_on_in_double():
    """A row that one column alone has seen, which is zero by then: nothing but the ridge is left of it."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((8, 2)), rng.standard_normal((6, 2))
    i, j = (index.ravel() for index in np.indices((8, 6)))
    seen = (i > 0) | (j == 0)
    values = (A @ B.T)[i, j][seen].astype(np.float32)
    problem = rf.Problem.of(rf.Completion(i[seen], j[seen], values, (8, 6)), 2)
    x = problem.geometry.from_factors(A.astype(np.float32), B.astype(np.float32))
    due = A @ B.T
    due[0] = 0
    back = trimming.taken_back(problem, x, np.array([0]), np.array([0]))
    left = trimming.without(problem, x, np.array([0]), np.array([], int))
    for found in (back, left):
        assert {part.dtype for part in found} == {np.dtype(np.float32)}
        assert_allclose(found.G @ found.H.T, due, atol=1e-4)
