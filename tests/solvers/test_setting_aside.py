"""When `TrimmedContinuation` sets lines aside, takes them back, or tries another path: with methods told."""

from dataclasses import replace
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rankfold as rf
from dense import DenseCost
from rankfold.costs.without_lines import WithoutLines
from rankfold.solvers import trimmed
from rankfold.solvers.averaged import LATE
from rankfold.solvers.trimmed import PATH, REST, WHOLE, TrimmedState

ZERO, OF_REST = 8.0, 2.0
RANK = 5


@pytest.fixture
def problem():
    cost = SimpleNamespace(value_at_zero=ZERO)
    return SimpleNamespace(geometry=SimpleNamespace(rank=RANK), cost=cost, value=lambda x: ("value at", x))


def working(stage, **given):
    rest = SimpleNamespace(problem=SimpleNamespace(cost=SimpleNamespace(value_at_zero=OF_REST)))
    inner = SimpleNamespace(here=rest, x="x", value=1.0, stalled="", stationary=False)
    return TrimmedState(inner=inner, start="start", stage=stage, misfit=3.0, **given)


def stepped(monkeypatch, problem, state, value, stalled="", rank=None):
    told = {} if rank is None else {"rank": rank}
    after = SimpleNamespace(
        value=value,
        stalled=stalled,
        stationary=False,
        report="told",
        x="there",
        here=state.inner.here,
        **told,
    )
    asked = []

    def step(self, present, inner):
        asked.append((self, present))
        return after

    monkeypatch.setattr(rf.GaussNewton, "step", step)
    monkeypatch.setattr(rf.RankContinuation, "step", step)
    found = rf.TrimmedContinuation(slow=(0.3, 0.2)).step(problem, state)
    ((method, present),) = asked
    assert found.inner is after
    assert found.report == "told"
    assert present is (state.inner.here.problem if state.stage == REST else problem)
    if state.stage == PATH:
        assert method == rf.RankContinuation(rf.GaussNewton(), slow=(0.3, 0.2)[state.attempt])
    else:
        assert method == rf.GaussNewton()
    return found


EIGHT = (2.0, *(1.5,) * 7)


@pytest.mark.parametrize(
    ("stage", "value", "values", "stalled", "ripe"),
    [
        (WHOLE, 1.01, EIGHT, "", True),
        (WHOLE, 1.0, EIGHT, "", False),
        (WHOLE, 1.01, EIGHT[1:], "", False),
        (WHOLE, 1.0, (), "why", True),
        (PATH, 1.01, EIGHT, "", True),
        (PATH, 1.0, EIGHT, "", False),
        (REST, 1.01, EIGHT, "", True),
        (REST, 1.0, EIGHT, "", False),
        (REST, 1e-20 * OF_REST, (), "", True),
        (REST, 1.1e-20 * OF_REST, (), "", False),
        (WHOLE, 1e-20 * ZERO, (), "", False),
        (WHOLE, 1e-20 * ZERO, (), "why", False),
        (WHOLE, 1.1e-20 * ZERO, (), "why", True),
    ],
)
def test_it_is_time_for_something_else(monkeypatch, problem, stage, value, values, stalled, ripe):
    """Where a value has not halved in eight steps, or the rest fits; never once all is settled."""
    state = working(stage, values=values)
    after = stepped(monkeypatch, problem, state, value, stalled)
    assert after.ripe == ripe
    assert after.values == (*values, value)
    assert after.misfit == (("value at", "there") if stage == REST else value)
    assert not stepped(monkeypatch, problem, replace(state, settled=True), value, stalled).ripe
    if stage == PATH:
        below = stepped(monkeypatch, problem, replace(state, attempt=1), value, stalled, rank=RANK - 1)
        assert (below.ripe, below.fitted, below.values) == (False, False, ())
        assert stepped(monkeypatch, problem, state, value, stalled, rank=RANK).ripe == ripe


def test_no_more_than_nine_values_are_kept(monkeypatch, problem):
    after = stepped(monkeypatch, problem, working(WHOLE, values=tuple(np.arange(20.0, 11.0, -1))), 3.0)
    assert after.values == (19.0, 18.0, 17.0, 16.0, 15.0, 14.0, 13.0, 12.0, 3.0)


@pytest.mark.parametrize(
    ("stage", "value", "stalled", "fitted"),
    [
        (WHOLE, 1e-20 * ZERO, "why", True),
        (WHOLE, 1.1e-20 * ZERO, "why", False),
        (WHOLE, 1e-20 * ZERO, "", False),
        (PATH, 1e-20 * ZERO, "why", True),
        (REST, 1e-20 * OF_REST, "why", False),
    ],
)
def test_what_is_fitted_to_rounding_is_at_its_end(monkeypatch, problem, stage, value, stalled, fitted):
    assert stepped(monkeypatch, problem, working(stage), value, stalled).fitted == fitted


def next_of(monkeypatch, problem, state, far, suits=False, slow=(0.3, 0.2)):
    """What comes after a state that is ripe, where the farthest line is beyond the limit or is not."""
    limit = 10.0
    monkeypatch.setattr(trimmed, "limit_of", lambda problem: limit)
    lines = np.array([3]), np.array([], int), limit + 0.1 * far
    monkeypatch.setattr(trimmed, "farthest", lambda problem, x, bound: lines if bound == limit else None)
    monkeypatch.setattr(trimmed, "suits", lambda problem: suits)
    for name in ("_rest", "_whole", "_again", "_settled"):
        monkeypatch.setattr(
            rf.TrimmedContinuation,
            name,
            lambda self, problem, state, *given, name=name: (name, state, *given),
        )
    name, state, *given = rf.TrimmedContinuation(slow=slow).step(problem, replace(state, ripe=True))
    if name == "_rest":
        assert given[0] is lines[0]
        assert given[1] is lines[1]
        assert given[2] == far
    return name, state


@pytest.mark.parametrize(
    ("far", "rounds", "guesses", "value", "due"),
    [
        (True, 19, 9, 1.0, "_rest"),
        (True, 20, 0, 1.0, "_whole"),
        (False, 0, 3, 1.0, "_rest"),
        (False, 0, 4, 1.0, "_whole"),
        (True, 0, 4, 1.0, "_rest"),
        (True, 0, 0, 1e-20 * OF_REST, "_whole"),
        (True, 0, 0, 1.1e-20 * OF_REST, "_rest"),
    ],
)
def test_lines_are_taken_back_once_the_rest_fits_or_rounds_are_over(
    monkeypatch, problem, far, rounds, guesses, value, due
):
    state = working(REST, rounds=rounds, guesses=guesses)
    state.inner.value = value
    name, after = next_of(monkeypatch, problem, state, far)
    assert name == due
    assert (after.best, after.least) == (None, inf)  # of all entries, this was no point to remember


@pytest.mark.parametrize(
    ("stage", "attempt", "far", "suits", "due"),
    [
        (PATH, 0, False, False, "_rest"),
        (PATH, 1, True, True, "_rest"),
        (WHOLE, 0, True, False, "_again"),
        (WHOLE, 0, False, True, "_again"),
        (WHOLE, 0, False, False, "_settled"),
        (WHOLE, 1, True, True, "_settled"),
    ],
)
def test_another_path_is_tried_where_lines_are_far_or_sweeps_may_help(
    monkeypatch, problem, stage, attempt, far, suits, due
):
    for least, best in ((3.1, "x"), (3.0, "old"), (2.9, "old")):
        state = working(stage, attempt=attempt, best="old", least=least)
        name, after = next_of(monkeypatch, problem, state, far, suits)
        assert name == due
        assert (after.best, after.least) == (best, min(least, 3.0))


def test_sweeps_help_on_the_first_path_only(monkeypatch, problem):
    state = working(WHOLE, attempt=1)
    assert next_of(monkeypatch, problem, state, False, True, slow=(0.3, 0.2, 0.1))[0] == "_settled"
    assert next_of(monkeypatch, problem, state, True, True, slow=(0.3, 0.2, 0.1))[0] == "_again"


def noting(monkeypatch):
    monkeypatch.setattr(
        rf.GaussNewton,
        "init",
        lambda self, problem, x: SimpleNamespace(problem=problem, x=x, value=4.0, stalled=""),
    )


@pytest.mark.parametrize("far", [True, False])
def test_the_lines_set_aside_are_those_before_and_the_new_ones(monkeypatch, far):
    noting(monkeypatch)
    monkeypatch.setattr(trimmed, "without", lambda problem, x, rows, cols: (x, *rows, "|", *cols))
    cost = rf.Completion.from_triples(rf.data.random_completion((9, 8), 2, 1.5, seed=0))
    problem = rf.Problem(cost, rf.FullRank((9, 8), 2))
    monkeypatch.setattr(rf.Problem, "value", lambda self, x: ("value at", x))
    state = working(
        PATH,
        rows=np.array([1, 5]),
        cols=np.array([2]),
        rounds=2,
        guesses=1,
        values=(1.0,),
        ripe=True,
        best="b",
    )
    after = rf.TrimmedContinuation()._rest(problem, state, np.array([5, 3]), np.array([], int), far)
    assert_array_equal(after.rows, [1, 3, 5])
    assert_array_equal(after.cols, [2])
    assert after.inner.x == ("x", 1, 3, 5, "|", 2)
    assert isinstance(after.inner.problem.cost, WithoutLines)
    assert after.misfit == ("value at", after.inner.x)
    assert (after.stage, after.values, after.ripe, after.best) == (REST, (), False, "b")
    assert (after.rounds, after.guesses) == (3, 1 + (not far))
    assert after.report.note == "4 lines set aside"


def test_all_lines_are_taken_back_at_once(monkeypatch, problem):
    noting(monkeypatch)
    monkeypatch.setattr(trimmed, "taken_back", lambda problem, x, rows, cols: (x, *rows, "|", *cols))
    state = working(REST, rows=np.array([], int), cols=np.array([2]), rounds=2, values=(1.0,), ripe=True)
    after = rf.TrimmedContinuation()._whole(problem, state)
    assert (after.inner.x, after.inner.problem, after.misfit) == (("x", "|", 2), problem, 4.0)
    assert (after.stage, after.values, after.ripe, after.rounds) == (WHOLE, (), False, 2)
    assert after.rows.size == after.cols.size == 0
    assert after.report.note == "1 line taken back"


def test_the_end_begins_at_the_best_point(monkeypatch, problem):
    noting(monkeypatch)
    state = working(WHOLE, best="best", least=2.0, values=(1.0,), ripe=True)
    after = rf.TrimmedContinuation()._settled(problem, state)
    assert (after.inner.x, after.misfit, after.stage) == ("best", 4.0, WHOLE)
    assert (after.values, after.ripe, after.settled) == ((), False, True)
    assert after.report.note == "the best of all minima"


@pytest.mark.parametrize(("attempt", "suits"), [(0, True), (0, False), (1, True)])
def test_another_path_begins_with_nothing_but_the_best_point(monkeypatch, problem, attempt, suits):
    asked, found = [], SimpleNamespace(x="found", pairs=2)

    def averaged(problem, x0, seed=0, patience=None):
        asked.append((x0, seed, patience))
        return found

    monkeypatch.setattr(trimmed, "averaged", averaged)
    monkeypatch.setattr(trimmed, "suits", lambda problem: suits)
    monkeypatch.setattr(
        rf.RankContinuation, "init", lambda self, problem, x: SimpleNamespace(path=self, x=x, value=4.0)
    )
    state = working(WHOLE, attempt=attempt, rounds=3, guesses=2, best="best", least=2.0, ripe=True)
    after = rf.TrimmedContinuation(slow=(0.3, 0.2, 0.1))._again(problem, state)
    sweeps = attempt == 0 and suits
    assert asked == ([("start", 0, LATE)] if sweeps else [])
    assert after.inner.x == ("found" if sweeps else "start")
    assert after.inner.path == rf.RankContinuation(
        rf.GaussNewton(), start=2 if sweeps else 1, slow=(0.2, 0.1)[attempt]
    )
    assert (after.attempt, after.stage, after.start, after.misfit) == (attempt + 1, PATH, "start", 4.0)
    assert (after.rounds, after.guesses, after.best, after.least) == (0, 0, "best", 2.0)
    assert (after.values, after.ripe, after.settled, after.fitted) == ((), False, False, False)
    said = ", from 2 of 5 pairs of averaged least squares" if sweeps else ""
    assert after.report.note == f"a wrong minimum: path {attempt + 2}{said}"


def test_a_continuation_keeps_the_factors_of_a_cost_that_depends_on_them():
    cost = DenseCost((9, 8))
    cost.factored = True
    problem = rf.Problem(cost, rf.FullRank((9, 8), 2, metric="euclidean"))
    with pytest.raises(TypeError, match="writes W in other factors"):
        rf.RankContinuation().init(problem, problem.geometry.random_point(0))
