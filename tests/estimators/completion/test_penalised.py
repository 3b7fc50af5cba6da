"""The last fit: what is minimised, from where, how exactly, and what is made of the point found."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.estimators.completion import penalised
from rankfold.estimators.completion.alternating import Alternating
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.penalised import as_it_is, by_sweeps, on_geometry, tolerance
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.run.stopping import Stop, StopKind

RNG = np.random.default_rng(2)
SHAPE, KNOWN = (8, 6), RNG.random((8, 6)) < 0.6
Y = RNG.standard_normal(SHAPE)
DONE = Stop("done", StopKind.CONVERGED)


def joint_of(weight, shrinkage, loss="square"):
    return Joint.of(rf.Completion(*np.nonzero(KNOWN), Y[KNOWN], SHAPE, loss=loss), weight, shrinkage)


def pair(columns, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((d, columns)) for d in SHAPE)


@pytest.mark.parametrize(
    ("tol", "chosen", "weight", "due"),
    [
        ("auto", True, 0.5, 1e-4),
        ("auto", True, 0.0, 1e-6),
        ("auto", False, 0.5, 1e-6),
        (0.01, True, 0.5, 0.01),
    ],
)
def test_a_weight_that_was_chosen_is_fitted_as_loosely_as_it_was_chosen(tol, chosen, weight, due):
    assert tolerance(tol, chosen, weight) == due


@pytest.fixture
def asked(monkeypatch):
    """What is asked of the fit; the answer is a point given, and a stop."""
    told = SimpleNamespace(stop=DONE, x=None, factors=None)

    def fit_problem(problem, accepted=(), **run):
        told.problem, told.accepted, told.run = problem, accepted, run
        return SimpleNamespace(
            x=told.x, factors=told.factors, trace="trace", stop=told.stop, stop_reason=told.stop.reason
        )

    monkeypatch.setattr(penalised, "fit_problem", fit_problem)
    return told


@pytest.mark.parametrize(
    ("weight", "shrinkage", "charged"),
    [
        (0.0, (1.9e-8, 1e-8), (0.0, 0.0)),  # next to none is none where nothing else is charged
        (0.0, (1e-8, 1.9e-8), (0.0, 0.0)),
        (0.0, (2e-8, 1e-8), (2e-8, 1e-8)),
        (0.0, (1e-8, 3.0), (1e-8, 3.0)),
        (0.5, (1e-8, 1e-8), (1e-8, 1e-8)),
        (0.0, None, None),
        (0.5, None, None),
    ],
)
def test_sweeps_minimise_the_objective_over_all_columns(asked, weight, shrinkage, charged):
    start, found = pair(3), pair(3, seed=1)
    asked.x = FullRankFactors(*found)
    joint = joint_of(weight, None if shrinkage is None else Shrinkage(*shrinkage))
    fitted = by_sweeps(joint, start, 0.03, {"resume": None, "verbose": 7})
    cost, bias = asked.problem.cost, shrinkage is not None
    assert (cost.weight, cost.shrinkage) == (weight, charged)
    assert (asked.problem.geometry.columns, asked.problem.geometry.rank) == (3, 3 - bias)
    run = asked.run
    assert (run["tolerance"], run["verbose"], type(run["solver"])) == (1e-20, 7, Alternating)
    assert (run["stop"].threshold, run["stop"].window) == (0.03, 3 if weight else 25)
    assert run["x0"] == FullRankFactors(*start)
    (L, R), offsets = joint.split(*found)
    np.testing.assert_allclose(fitted.factors[0] @ fitted.factors[1].T, L @ R.T, rtol=1e-9, atol=1e-9)
    for side, (X, root) in enumerate(zip(fitted.factors, joint.roots, strict=True)):
        theirs = fitted.factors[1 - side], joint.roots[1 - side]
        np.testing.assert_allclose(root @ X**2, theirs[1] @ theirs[0] ** 2, rtol=1e-9)  # charged alike
    np.testing.assert_array_equal(fitted.offsets.rows, offsets.rows)
    assert (fitted.trace, fitted.stop) == ("trace", DONE)
    by_sweeps(joint, start, 0.03, {"resume": "a checkpoint"})
    assert asked.run["x0"] is None  # that has a point of its own


def test_offsets_alone_have_no_factors_to_balance(asked):
    asked.x = FullRankFactors(*pair(1))
    L, R = by_sweeps(joint_of(0.0, Shrinkage(1.0, 1.0)), pair(1), 0.03, {"resume": None}).factors
    assert (L.shape, R.shape) == ((8, 0), (6, 0))


@pytest.mark.parametrize(
    ("weight", "solver", "used"),
    [
        (0.5, "auto", rf.ConjugateGradient()), (0.0, "auto", "auto"), (0.5, "tr", "tr"), (0.0, "tr", "tr"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("resume", [None, "a checkpoint"])
def test_on_a_geometry_w_is_minimised_from_the_start(asked, weight, solver, used, resume):
    joint, start = joint_of(weight, Shrinkage(2.0, 0.5)), pair(3)
    asked.factors = pair(2, seed=3)
    fitted = on_geometry(joint, start, 2, "full_rank", solver, 0.03, {"resume": resume, "verbose": 7})
    run, geometry = asked.run, asked.problem.geometry
    assert (run["solver"], run["tolerance"], run["verbose"]) == (used, 1e-20, 7)
    assert (run["stop"].threshold, run["stop"].window) == (0.03, 3 if weight else 25)
    assert asked.accepted == ((StopKind.STALLED,) if weight else ())
    assert (geometry.rank, geometry.shape) == (2, SHAPE)
    if resume:
        assert run["x0"] is None
    else:
        L, R = geometry.factors(run["x0"])
        (A, B), _ = joint.split(*joint.lifted(*start))
        np.testing.assert_allclose(L @ R.T, A @ B.T, atol=1e-10)
    A, B = asked.factors
    np.testing.assert_allclose(fitted.factors[0] @ fitted.factors[1].T, A @ B.T, atol=1e-10)
    np.testing.assert_allclose(fitted.factors[0], joint.balanced(A, B)[0])
    assert (fitted.trace, fitted.stop) == ("trace", DONE)


def test_a_fit_that_starts_nowhere_starts_where_the_problem_does(asked):
    asked.factors = pair(2)
    on_geometry(joint_of(0.0, None), None, 2, "auto", "auto", 0.03, {"resume": None})
    assert asked.run["x0"] is None


@pytest.mark.parametrize(("weight", "kind"), [(0.5, StopKind.CONVERGED), (0.0, StopKind.STALLED)])
def test_beside_a_penalty_no_way_down_is_the_end(asked, weight, kind):
    asked.stop, asked.factors = Stop("no way down", StopKind.STALLED), pair(2)
    found = on_geometry(joint_of(weight, None), pair(2), 2, "auto", "auto", 0.03, {"resume": None})
    assert found.stop == Stop("no way down", kind)


@pytest.mark.parametrize(
    ("loss", "shrinkage", "started", "swept"),
    [
        ("huber", Shrinkage(2.0, 0.5), True, True),
        ("huber", None, True, False),
        ("huber", Shrinkage(2.0, 0.5), False, False),
        ("square", Shrinkage(2.0, 0.5), True, False),
    ],
)
def test_offsets_that_no_formula_gives_are_found_by_sweeps_first(
    asked, monkeypatch, loss, shrinkage, started, swept
):
    calls, best, bias = [], pair(3, seed=5), shrinkage is not None

    def minimised(joint, x, tol):
        calls.append((x, tol))
        return best

    monkeypatch.setattr(penalised, "minimised", minimised)
    asked.factors = pair(2)
    start = pair(2 + bias) if started else None
    joint = joint_of(0.5, shrinkage, loss)
    fitted = on_geometry(joint, start, 2, "auto", "auto", 0.03, {"resume": None})
    assert calls == [(start, 0.03)] * swept
    if swept:
        np.testing.assert_allclose(fitted.offsets.cols, best[1][:, -1])
        L, R = asked.problem.geometry.factors(asked.run["x0"])
        np.testing.assert_allclose(L @ R.T, best[0][:, :2] @ best[1][:, :2].T, atol=1e-10)


@pytest.mark.parametrize("shrinkage", [None, Shrinkage(2.0, 0.5)])
def test_a_point_is_taken_as_it_is_and_without_factors_w_is_zero(shrinkage):
    joint, bias = joint_of(0.5, shrinkage), shrinkage is not None
    whole = as_it_is(joint, pair(2 + bias), 2, DONE)
    (row,) = whole.trace
    assert (row.iteration, row.value, row.gradient_norm, row.seconds) == (
        0, joint.value(*pair(2 + bias)), 0.0, 0.0,
    )  # fmt: skip
    (L, R), offsets = joint.split(*pair(2 + bias))
    np.testing.assert_allclose(whole.factors[0] @ whole.factors[1].T, L @ R.T, atol=1e-10)
    np.testing.assert_allclose(whole.factors[0], joint.balanced(L, R)[0])
    np.testing.assert_array_equal(whole.offsets.rows, offsets.rows)
    alone = as_it_is(joint, tuple(X.astype(np.float32) for X in pair(int(bias))), 3, DONE)
    assert [(X.shape, X.dtype, bool(X.any())) for X in alone.factors] == [
        ((8, 3), np.float32, False), ((6, 3), np.float32, False),
    ]  # fmt: skip
    value = joint.value(*pair(1)) if bias else np.sum(Y[KNOWN] ** 2) / KNOWN.sum()
    assert alone.trace[0].value == pytest.approx(value, rel=1e-6)
    assert alone.stop == whole.stop == DONE
