"""The path of `ReweightedContinuation`, from stage to stage, where what grows and how it goes are told."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.solvers import reweighted
from rankfold.solvers.reweighted import ReweightedState

ZERO = 8.0


def state_of(**given):
    told = {"rank": 2, "misfit": 1.0, "threshold": 0.5, "scale": 3.0, "weights": np.ones(2), "after": 4}
    inner = SimpleNamespace(x="x", value=9.0, stalled="", stationary=False)
    return ReweightedState(inner=inner, **(told | given))


@pytest.mark.parametrize(
    ("given", "last", "grows", "due"),
    [
        ({}, 5, True, ("larger", 3, 0.5, 4)),
        ({}, 5, False, ("x", 2, 0.25, 4)),
        ({}, 2, True, ("x", 2, 0.25, 5)),
        ({"after": 9}, 2, True, ("x", 2, 0.25, 10)),
        ({"after": 10}, 2, True, ("x", 2, 0.0, 10)),
        ({"misfit": 1e-12 * ZERO}, 5, True, ("x", 2, 0.0, 4)),
        ({"misfit": 1.1e-12 * ZERO}, 5, True, ("larger", 3, 0.5, 4)),
    ],
)
def test_what_comes_after_a_stage(monkeypatch, given, last, grows, due):
    asked = []

    def grown(problem, x, count, threshold):
        asked.append((problem, x, count, threshold))
        return "larger" if grows else None

    monkeypatch.setattr(reweighted, "grown", grown)
    monkeypatch.setattr(rf.ReweightedContinuation, "_stage", lambda self, problem, *given: given)
    problem = SimpleNamespace(
        geometry=SimpleNamespace(rank=last),
        cost=SimpleNamespace(value_at_zero=ZERO),
        with_rank=lambda rank: ("of rank", rank),
    )
    x, rank, threshold, scale, after = rf.ReweightedContinuation().step(problem, state_of(ripe=True, **given))
    assert (x, rank, threshold, after, scale) == (*due, 3.0)
    assert asked == ([(("of rank", 2), "x", 1, 0.5)] if last > 2 and due[2] > 0 else [])


@pytest.fixture
def problem():
    cost = DenseCost((9, 7))
    return rf.Problem(cost, rf.FullRank((9, 7), 3, metric="preconditioned"))


class Told:
    """A solver that was told what its next state is."""

    def __init__(self, **given):
        self.given, self.asked = given, []

    def init(self, problem, x):
        self.asked.append((problem, x))
        return SimpleNamespace(x=x, **self.given)

    def step(self, problem, inner):
        self.asked.append((problem, inner))
        return SimpleNamespace(x=inner.x, **self.given)


@pytest.mark.parametrize(
    ("before", "value", "step", "stalled", "taken", "ripe"),
    [
        (2.25, 2.0, 1.0, "", 0, False),
        (2.2, 2.0, 1.0, "", 0, True),
        (2.2, 2.0, 0.0, "", 0, False),
        (2.2, 2.0, float("nan"), "", 0, True),
        (9.0, 2.0, 1.0, "why", 0, True),
        (9.0, 2.0, 1.0, "", 98, False),
        (9.0, 2.0, 1.0, "", 99, True),
    ],
)
def test_when_a_stage_is_over(problem, before, value, step, stalled, taken, ripe):
    """A gain of an eighth of the value that is left is not yet slow."""
    x = problem.with_rank(2).geometry.random_point(0)
    report = rf.solvers.StepReport(step=step)
    solver = Told(value=value, stalled=stalled, stationary=False, report=report)
    weights = np.array([0.1, 0.01])
    state = state_of(weights=weights, taken=taken)
    state.inner.x, state.inner.value = x, before
    after = rf.ReweightedContinuation(solver, slow=0.125).step(problem, state)
    ((present, inner),) = solver.asked
    assert inner is state.inner
    assert isinstance(present.cost, FactorRidge)
    assert present.geometry.rank == 2
    assert (after.ripe, after.taken, after.report) == (ripe, taken + 1, report)
    L, R = x
    ridge = np.sum(weights * (np.sum(L**2, 0) + np.sum(R**2, 0))) / 2
    due = value - present.cost.ridge(L, R)
    assert present.cost.ridge(L, R) == pytest.approx(ridge)
    assert after.misfit == pytest.approx(max(due, 0.0))


def test_a_misfit_is_not_below_zero_for_rounding(problem):
    x = problem.with_rank(2).geometry.random_point(0)
    solver = Told(value=1e-9, stalled="", stationary=False, report=rf.solvers.StepReport(step=1.0))
    state = state_of(weights=np.array([0.1, 0.01]))
    state.inner.x = x
    assert rf.ReweightedContinuation(solver).step(problem, state).misfit == 0.0


def test_without_a_ridge_the_last_method_goes_on(problem):
    finish, solver = Told(value=2.0, stalled="", stationary=False, report="told"), Told()
    state = state_of(weights=None, taken=7)
    after = rf.ReweightedContinuation(solver, finish).step(problem, state)
    ((present, inner),) = finish.asked
    assert (present.geometry.rank, present.cost, inner) == (2, problem.cost, state.inner)
    assert solver.asked == []
    assert (after.misfit, after.report, after.value, after.taken) == (2.0, "told", 2.0, 7)


@pytest.mark.parametrize("threshold", [0.5, 0.0])
def test_a_stage_begins_at_balanced_factors_with_weights_of_its_threshold(problem, threshold):
    rng = np.random.default_rng(0)
    present = problem.with_rank(2)
    x = type(problem.geometry.random_point(0))(rng.standard_normal((9, 2)), 9 * rng.standard_normal((7, 2)))
    W = x.G @ x.H.T
    s = np.linalg.svd(W, compute_uv=False)[:2]
    solver, finish = Told(value=1.0), Told(value=1.0)
    state = rf.ReweightedContinuation(solver, finish)._stage(problem, x, 2, threshold, 3.0, 4)
    begun, other = (solver, finish) if threshold else (finish, solver)
    ((used, start),) = begun.asked
    assert other.asked == []
    assert_allclose(start.G @ start.H.T, W, atol=1e-12 * s[0])
    assert_allclose(start.G.T @ start.G, np.diag(s), atol=1e-12 * s[0])
    assert_allclose(start.H.T @ start.H, np.diag(s), atol=1e-12 * s[0])
    assert (state.rank, state.threshold, state.scale, state.after, state.taken) == (2, threshold, 3.0, 4, 0)
    assert state.misfit == pytest.approx(present.value(x))
    if threshold:
        assert_allclose(state.weights, threshold / (1 + s / (3.0 * threshold)))
        assert_allclose(used.cost.weights, state.weights)
        assert state.report.note == "rank 2, ridge 0.5"
    else:
        assert state.weights is None
        assert used.cost is problem.cost
        assert state.report.note == "rank 2, no ridge"


def test_it_begins_with_the_leading_pair(problem):
    start, solver = problem.geometry.random_point(0), Told(value=1.0)
    state = rf.ReweightedContinuation(solver).init(problem, start)
    (_, x), *_ = solver.asked
    W = start.G @ start.H.T
    U, s, Vt = np.linalg.svd(W)
    assert_allclose(x.G @ x.H.T, s[0] * np.outer(U[:, 0], Vt[0]), atol=1e-12 * s[0])
    assert (state.rank, state.after, state.taken, state.ripe) == (1, 0, 0, False)
    one = problem.with_rank(1)
    at = one.geometry.random_point(1)
    rf.ReweightedContinuation(solver).init(one, at)
    assert_allclose(solver.asked[-1][1].G @ solver.asked[-1][1].H.T, at.G @ at.H.T, atol=1e-12)
