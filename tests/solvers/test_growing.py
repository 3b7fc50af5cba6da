"""The search for directions beside the same written with dense matrices, and when the rank changes."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.problem import Counts
from rankfold.solvers import continuation, growth
from rankfold.solvers.continuation import ContinuationState
from rankfold.solvers.growth import descending_pairs, dominant_pairs


def orthonormal(Z):
    return np.linalg.qr(Z)[0]


def outside(Z):
    B = orthonormal(Z)
    return lambda X: X - B @ (B.T @ X)


def gradient(cost, L, R):
    d = cost.shape[1]
    return cost.evaluate(np.hstack([L, np.zeros((len(L), d))]), np.hstack([R, np.eye(d)])).f_L[
        :, L.shape[1] :
    ]


def krylov(S, L, R, count, width, most):
    """Singular pairs of S Q Qᵀ, with Q a basis of two sequences of blocks that take turns."""
    rng, (off_L, off_R) = np.random.default_rng((0, 1)), (outside(L), outside(R))
    Y = orthonormal(off_L(rng.standard_normal((len(L), width))))
    X = orthonormal(off_R(rng.standard_normal((len(R), width))))
    Q = X[:, :0]
    for _ in range(most):
        Q = np.hstack([Q, X])
        X, Y = off_R(S.T @ Y), orthonormal(off_L(S @ X))
        X = orthonormal(X - Q @ (Q.T @ X))
    U, s, Vt = np.linalg.svd(off_L(S @ Q) @ Q.T)
    return s[:count], (U[:, :count] * s[:count]) @ Vt[:count]


SIZES = [((12, 9), 2, 2, 3, 2), ((9, 12), 2, 2, 3, 2), ((40, 31), 1, 1, 2, 10), ((8, 7), 3, 1, 2, 2)]


@pytest.mark.parametrize(("shape", "rank", "count", "width", "most"), SIZES)
def test_dominant_pairs_are_those_of_blocks_of_products(shape, rank, count, width, most):
    cost, counts = DenseCost(shape), Counts()
    rng = np.random.default_rng(1)
    L, R = (rng.standard_normal((d, rank)) for d in shape)
    s, W = krylov(gradient(cost, L, R), L, R, count, width, most)
    U, found, V = dominant_pairs(cost, L, R, count, counts=counts)
    assert_allclose(found, s, rtol=1e-8)
    assert_allclose((U * found) @ V.T, W, atol=1e-7 * s[0])
    assert counts.gradients == most
    assert_allclose(V.T @ V, np.eye(count), atol=1e-10)


def sequence(S, L, R, count, width, most, settled):
    """The same for a matrix at hand: products on one side and then on the other, until these settle."""
    rng, (off_L, off_R) = np.random.default_rng((0, 1)), (outside(L), outside(R))
    X = orthonormal(off_R(rng.standard_normal((len(R), width))))
    Q, taken = X[:, :0], 0
    while taken < most:
        Q, taken = np.hstack([Q, X]), taken + 1
        SQ = off_L(S @ Q)
        U, s, _ = np.linalg.svd(SQ, full_matrices=False)
        StU = off_R(S.T @ U[:, :count])
        if np.sum(StU**2) < (1 + settled) * np.sum(s[:count] ** 2):
            break
        Z = off_R(S.T @ off_L(S @ X))
        X = orthonormal(Z - Q @ (Q.T @ Z))
    return np.linalg.svd(StU, compute_uv=False), U[:, :count] @ StU.T, taken


@pytest.mark.parametrize("settled", [0.3, 0.02, 1e-6])
@pytest.mark.parametrize(("shape", "rank", "count", "width", "most"), [*SIZES, ((60, 50), 2, 3, 4, 10)])
def test_a_search_that_settles_knows_one_side_better(shape, rank, count, width, most, settled):
    rng = np.random.default_rng(1)
    L, R = (rng.standard_normal((d, rank)) for d in shape)
    i, j = (index.ravel() for index in np.indices(shape))
    cost, counts = rf.Completion(i, j, rng.standard_normal(i.size), shape), Counts()
    S = cost.gradient_matrix(L, R) @ np.eye(shape[1])
    s, W, taken = sequence(S, L, R, count, width, most, settled)
    U, found, V = dominant_pairs(cost, L, R, count, settled=settled, counts=counts)
    assert_allclose(found, s, rtol=1e-8)
    assert_allclose((U * found) @ V.T, W, atol=1e-7 * s[0])
    assert counts.gradients == taken


@pytest.mark.parametrize("shift", [0.0, -3.0, 3.0])
def test_the_ways_down_of_a_symmetric_matrix_are_its_negative_eigenvalues(shift):
    """Of 6 dimensions W has 2: two pairs, or as many as there are."""
    rng = np.random.default_rng(0)
    A, Y = rng.standard_normal((6, 6)), rng.standard_normal((6, 2))
    B = A + 3 * np.triu(np.ones((6, 6)), 1) + shift * np.eye(6)
    cost = SimpleNamespace(shape=(6, 6), gradient_products=lambda L, R: lambda X, Z: (B @ X, B.T @ Z))
    P = np.eye(6) - Y @ np.linalg.pinv(Y)
    values, E = np.linalg.eigh(P @ (B + B.T) @ P / 2)
    negative = values < -1e-10
    least, E = values[negative][:2], E[:, negative][:, :2]
    left, s, right = descending_pairs(cost, Y, Y, 2)
    assert_allclose(s, -least, rtol=1e-9)
    assert_allclose(left * s @ right.T, (E * least) @ E.T, atol=1e-9)


def test_growth_asks_for_the_step_by_what_the_pairs_promise(monkeypatch):
    rng = np.random.default_rng(0)
    U, V = orthonormal(rng.standard_normal((9, 2))), orthonormal(rng.standard_normal((7, 2)))
    s, asked, found = np.array([3.0, 1.0]), [], []

    def lower(here, L, dL, R, slope, part):
        asked.append((L.copy(), dL, R, slope, part))
        return 0.5

    def pairs(*given, **options):
        found.append((given[3], options))
        return U, s, V

    monkeypatch.setattr(growth, "_lower", lower)
    monkeypatch.setattr(growth, "dominant_pairs", pairs)
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 1))
    x = problem.geometry.random_point(0)
    here = SimpleNamespace(value=1.0)
    y = growth.grown(problem, x, 2, threshold=0.75, settled=0.3, here=here)
    ((L, dL, R, slope, part),) = asked
    assert found == [(2, {"settled": 0.3, "counts": problem.counts})]
    assert (slope, part) == (10.0, 0.75)
    assert_allclose(L @ R.T, x.G @ x.H.T, atol=1e-14)
    assert_allclose(dL @ R.T, -U * s @ V.T, atol=1e-14)
    W = x.G @ x.H.T - 0.5 * U * s @ V.T
    assert_allclose(y.G @ y.H.T, W, atol=1e-12)
    assert growth.grown(problem, x, 2, threshold=3.0, here=here) is None
    assert growth.grown(problem, x, 2, threshold=2.99, here=here) is not None


@pytest.mark.parametrize(("noise", "due"), [(0.74, 0.5), (0.75, 0.0)])
def test_growth_gains_more_than_rounding_on_the_line(noise, due):
    """Of half the step to the least value of t² − 2t, which gains 3/4."""
    counts = Counts()
    cost = SimpleNamespace(quadratic=True, polynomial=lambda Ls, Rs: np.array([5.0, -2.0, 1.0]))
    here = SimpleNamespace(problem=SimpleNamespace(cost=cost, counts=counts), value=5.0, noise=noise)
    assert growth._lower(here, None, None, None, 2.0, 0.5) == due
    assert (counts.polynomials, counts.hessians, counts.values) == (1, 0, 0)


@pytest.mark.parametrize(("noise", "due"), [(0.9, 1.0), (1.0, 0.0)])
def test_growth_of_other_costs_gains_more_than_rounding(noise, due):
    cost = SimpleNamespace(quadratic=False, value=lambda L, R: 1.0)
    cost.derivative = lambda L, R, dL, dR: (2.0 * dL, dR)
    here = SimpleNamespace(problem=SimpleNamespace(cost=cost, counts=Counts()), value=2.0, noise=noise)
    one = np.ones((1, 1))
    assert growth._lower(here, 0 * one, one, one, 2.0, 1.0) == due


def working(monkeypatch, before, value, step, stalled="", rank=2, limit=4, slow=0.25):
    report = rf.solvers.StepReport(step=step)
    inner = SimpleNamespace(value=value, report=report, stalled=stalled)
    solver = SimpleNamespace(step=lambda problem, inner: after if problem == ("of rank", rank) else None)
    after = inner
    problem = SimpleNamespace(with_rank=lambda rank: ("of rank", rank))
    state = ContinuationState(inner=SimpleNamespace(value=before), rank=rank, limit=limit)
    found = rf.RankContinuation(solver, slow=slow).step(problem, state)
    assert (found.inner, found.report, found.rank, found.limit) == (inner, report, rank, limit)
    return found.slow, found.ripe


@pytest.mark.parametrize(
    ("given", "slow", "ripe"),
    [
        ((8.0, 6.0, 1.0), False, False),  # a quarter is not yet too little
        ((8.0, 6.1, 1.0), True, True),
        ((8.0, 6.1, 0.0), False, False),
        ((8.0, 6.1, -1.0), True, True),
        ((8.0, 6.1, 1.0, "", 4), True, False),
        ((8.0, 1.0, 1.0, "why", 4), False, True),
        ((8.0, 6.1, 1.0, "", 3), True, True),
        ((0.5, 0.4, 1.0), True, True),
        ((0.5, 0.3, 1.0), False, False),
    ],
)
def test_an_iteration_that_gains_too_little_is_slow(monkeypatch, given, slow, ripe):
    assert working(monkeypatch, *given) == (slow, ripe)


@pytest.mark.parametrize(
    ("lost", "rank", "grow", "grows", "due"),
    [
        (0, 2, 1, True, ("larger 1", 3, 5)),
        (0, 2, 2, True, ("larger 2", 4, 5)),
        (0, 2, 9, True, ("larger 3", 5, 5)),
        (2, 4, 1, True, ("truncated 2", 2, 2)),
        (0, 2, 1, False, None),
        (0, 5, 1, True, None),
    ],
)
def test_where_the_rank_goes(monkeypatch, lost, rank, grow, grows, due):
    asked = []

    def grown(problem, x, more, settled, here):
        asked.append((problem, x, settled, here))
        return f"larger {more}" if grows else None

    monkeypatch.setattr(continuation, "collapsed", lambda problem, x: lost)
    monkeypatch.setattr(continuation, "truncated", lambda problem, x, rank: f"truncated {rank}")
    monkeypatch.setattr(continuation, "grown", grown)
    monkeypatch.setattr(continuation, "taken_up", lambda solver, problem, x: (solver, problem, x))
    problem = SimpleNamespace(with_rank=lambda rank: ("of rank", rank))
    inner = SimpleNamespace(x="x", here="here", stalled="", stationary=False)
    state = ContinuationState(inner=inner, rank=rank, limit=5, ripe=True)
    after = rf.RankContinuation("solver", grow=grow, settled=0.5).step(problem, state)
    assert asked == ([] if lost or rank == 5 else [(("of rank", rank), "x", 0.5, "here")])
    if due is None:
        assert (after.stalled, after.stationary) == (f"rank {rank} leaves nothing to explain", True)
        assert after.report.step == 0.0
    else:
        x, rank, limit = due
        assert after.inner == ("solver", ("of rank", rank), x)
        assert (after.rank, after.limit, after.report.note) == (rank, limit, f"rank {rank}")
        assert (after.slow, after.ripe, after.stalled, after.stationary) == (False, False, "", False)


@pytest.mark.parametrize(
    ("start", "last", "due"),
    [(1, None, (1, 3)), (2, None, (2, 3)), (9, None, (3, 3)), (9, 2, (2, 2)), (2, 5, (2, 5)), (9, 5, (3, 5))],
)
def test_a_continuation_begins_with_the_pairs_that_there_are(monkeypatch, start, last, due):
    monkeypatch.setattr(continuation, "truncated", lambda problem, x, rank: f"truncated {rank}")
    monkeypatch.setattr(continuation, "taken_up", lambda solver, problem, x: x)
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    state = rf.RankContinuation(start=start, last=last).init(problem, "x0")
    assert (state.rank, state.limit) == due
    assert state.inner == ("x0" if due[0] == 3 else f"truncated {due[0]}")
