"""Lines that run away are set aside, the rest is solved, and they are taken back."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from costs.suite import close, factors
from dense import DenseCost
from rankfold.costs.without_lines import WithoutLines
from rankfold.run.checkpoint import Checkpoint
from rankfold.solvers import trimmed, trimming
from rankfold.solvers.averaged import LATE, averaged
from rankfold.solvers.continuation import RankContinuation
from rankfold.solvers.trimmed import TrimmedState


def drawn(shape=(300, 350), rank=5, rho=1.3, seed=2, **options):
    data = rf.data.random_completion(shape, rank, rho, seed, condition=10, min_per_line=True, **options)
    return data, rf.Problem.of(rf.Completion.from_triples(data), rank)


def notes(result):
    return [row.note for row in result.trace if row.note and not row.note.startswith("rank ")]


# Costs without lines -------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_cost_without_lines_is_that_of_the_other_entries(loss, weighted):
    rng = np.random.default_rng(0)
    i, j = np.nonzero(rng.uniform(size=(9, 7)) < 0.7)
    y = rng.integers(0, 2, i.size).astype(float)
    w = rng.uniform(1, 2, i.size) if weighted else None
    whole = rf.Completion(i, j, y, (9, 7), weights=w, loss=loss)
    rows, cols = np.array([2, 5]), np.array([0])
    left = ~(np.isin(i, rows) | np.isin(j, cols))
    with pytest.warns(UserWarning, match="have no observed entry"):
        due = rf.Completion(
            i[left], j[left], y[left], (9, 7), weights=w[left] if weighted else None, loss=loss
        )
    cost = WithoutLines(whole, rows, cols)
    arrays = factors((9, 7), 2)
    close(cost.value(*arrays[:2]), due.value(*arrays[:2]))
    close(cost.value_at_zero, due.value_at_zero)
    assert (cost.shape, cost.quadratic) == (due.shape, due.quadratic)
    assert cost.nonnegative
    assert cost.has_line_blocks
    for found, expected in (
        (cost.evaluate(*arrays[:2])[1:], due.evaluate(*arrays[:2])[1:]),
        (cost.derivative(*arrays), due.derivative(*arrays)),
        (cost.gauss_newton(*arrays), due.gauss_newton(*arrays)),
        (cost.line_blocks(*arrays[:2]), due.line_blocks(*arrays[:2])),
    ):
        for one, two in zip(found, expected, strict=True):
            assert_array_equal(one, two)


# Lines ---------------------------------------------------------------------------------------------------


def test_leverages_are_those_of_the_singular_vectors_and_one_on_average():
    data, problem = drawn((40, 30), 3, 3.0)
    x = problem.geometry.from_factors(data.L, data.R)
    U, _, Vt = np.linalg.svd(data.L @ data.R.T)
    rows, cols = trimming.leverages(problem, x)
    assert_allclose(rows, (U[:, :3] ** 2).sum(1) * 40 / 3)
    assert_allclose(cols, (Vt[:3] ** 2).sum(0) * 30 / 3)
    assert rows.mean() == pytest.approx(1)
    assert cols.mean() == pytest.approx(1)


def with_a_spike(problem, data, rows=(4,), cols=()):
    L, R = data.L.copy(), data.R.copy()
    L[list(rows)] *= 1e3
    R[list(cols)] *= 1e3
    return problem.geometry.from_factors(L, R)


def test_the_farthest_lines_are_those_above_the_limit_or_one():
    data, problem = drawn((60, 50), 2, 3.0)
    x = with_a_spike(problem, data, (4, 7), (9,))
    rows, cols, most = trimming.farthest(problem, x, 5.0)
    assert_array_equal(rows, [4, 7])
    assert_array_equal(cols, [9])
    leverages = trimming.leverages(problem, x)
    assert most == max(leverages[0].max(), leverages[1].max())
    rows, cols, _ = trimming.farthest(problem, x, 1e9)
    assert rows.size + cols.size == 1
    assert most in (*leverages[0][rows], *leverages[1][cols])


def test_lines_are_set_to_zero_and_all_else_stays():
    data, problem = drawn((60, 50), 2, 3.0)
    x = trimming.without(
        problem, problem.geometry.from_factors(data.L, data.R), np.array([4, 7]), np.array([9])
    )
    W, due = x.G @ x.H.T, data.L @ data.R.T
    due[[4, 7]], due[:, 9] = 0, 0
    assert_allclose(W, due, atol=1e-12 * np.abs(due).max())


def test_a_line_that_takes_a_singular_direction_with_it_leaves_a_point_of_full_rank():
    _, problem = drawn((60, 50), 2, 3.0)
    L, R = np.zeros((60, 2)), np.random.default_rng(0).standard_normal((50, 2))
    L[:, 0], L[4, 1] = 1.0, 1.0
    x = trimming.without(problem, problem.geometry.from_factors(L, R), np.array([4]), np.array([], int))
    s = np.linalg.svd(x.G @ x.H.T, compute_uv=False)
    assert np.abs((x.G @ x.H.T)[4]).max() < 1e-10 * s[0]
    singular = np.linalg.svd(x.G)[1][:2] * np.linalg.svd(x.H)[1][:2]
    assert singular[1] == pytest.approx(1e-13 * singular[0], rel=0.1)


def test_lines_are_taken_back_by_least_squares_of_their_entries():
    data, problem = drawn((60, 50), 2, 3.0)
    x = with_a_spike(problem, data, (4, 7), (9,))
    back = trimming.taken_back(problem, x, np.array([4, 7]), np.array([9]))
    assert data.relative_error(back.G, back.H) < 1e-10


@pytest.mark.parametrize(("rank", "enough"), [(2, True), (3, False)])
def test_there_must_be_as_many_entries_as_degrees_of_freedom(rank, enough):
    """2 (60 + 50 − 2) = 216 entries, in every line."""
    k = np.arange(216)
    cost = rf.Completion(k % 60, (k + k // 60) % 50, np.ones(216), (60, 50), duplicates="keep")
    assert trimming.determined(rf.Problem.of(cost, rank)) == enough


def test_other_costs_have_no_lines_to_set_aside():
    cost = drawn((60, 50), 2, 3.0)[1].cost
    for other in (DenseCost((9, 7)), cost + 0.1 * rf.Frobenius(1.0)):
        assert not trimming.determined(rf.Problem.of(other, 2))


# The method ----------------------------------------------------------------------------------------------


def test_a_wrong_minimum_is_left_by_setting_lines_aside():
    data, problem = drawn()
    plain = rf.minimize(
        problem, rf.RankContinuation(rf.GaussNewton(), slow=0.02), tolerance=1e-20, max_iterations=50
    )
    assert not plain.converged
    assert data.relative_error(*plain.factors) > 0.1
    assert max(part.max() for part in trimming.leverages(problem, plain.x)) > 10
    result = rf.minimize(problem, rf.TrimmedContinuation(), tolerance=1e-20)
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-6
    assert notes(result) == ["2 lines set aside", "2 lines taken back"]


def test_the_value_is_that_of_all_entries_whatever_is_set_aside():
    _, problem = drawn()
    seen = []

    def callback(progress):
        state = progress.state
        if state.stage == trimmed.REST:
            seen.append((state.value, problem.cost.value(*state.x), state.inner.value, state.stalled))

    rf.minimize(problem, rf.TrimmedContinuation(), tolerance=1e-20, callback=callback)
    assert len(seen) > 2
    for value, due, inner, stalled in seen:
        assert value == due > 2 * inner
        assert stalled == ""


def test_where_nothing_runs_away_it_is_rank_continuation():
    data, problem = drawn((80, 70), 2, 4.0)
    plain = rf.minimize(problem, rf.RankContinuation(rf.GaussNewton(), slow=0.02), tolerance=1e-20)
    result = rf.minimize(problem, rf.TrimmedContinuation(), tolerance=1e-20)
    assert_array_equal(result.trace["value"], plain.trace["value"])
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-8


def test_with_fewer_entries_than_degrees_of_freedom_nothing_is_set_aside():
    data, _ = drawn((60, 50), 2, 1.5)
    with pytest.warns(UserWarning, match="have no observed entry"):
        cost = rf.Completion(data.rows[:150], data.cols[:150], data.values[:150], data.shape)
    problem = rf.Problem.of(cost, 2)
    state = rf.TrimmedContinuation().init(problem, problem.start())
    assert state.settled
    result = rf.minimize(problem, rf.TrimmedContinuation(), tolerance=0, max_iterations=60)
    assert notes(result) == []


def test_the_second_path_begins_where_patient_sweeps_end():
    data, problem = drawn((60, 50), 3, 2.0)
    x = with_a_spike(problem, data)
    found = averaged(problem, x, patience=LATE)
    for attempt, rank in ((0, found.pairs), (1, 1)):
        after = rf.TrimmedContinuation().step(problem, ripe(problem, x, trimmed.WHOLE, attempt=attempt))
        assert (after.attempt, after.inner.rank, after.start) == (attempt + 1, rank, x)
        said = f"path 2, from {found.pairs} of 3 pairs of averaged least squares"
        assert (said in after.report.note) == (attempt == 0)
    after = rf.TrimmedContinuation().step(problem, ripe(problem, x, trimmed.WHOLE))
    assert found.pairs > 1
    near = problem.geometry.from_factors(data.L + 0.1, data.R)  # where no line is far away
    for attempt, note in ((0, "a wrong minimum: path 2"), (1, "the best of all minima")):
        other = rf.TrimmedContinuation().step(problem, ripe(problem, near, trimmed.WHOLE, attempt=attempt))
        assert other.report.note.startswith(note)
    assert_array_equal(after.x.G, RankContinuation(start=found.pairs).init(problem, found.x).x.G)


def ripe(problem, x, stage, **options):
    """A state that has got stuck at x."""
    inner = rf.GaussNewton().init(problem, x)
    given = {"best": x, "least": inner.value, **options}
    return TrimmedState(inner=inner, start=x, stage=stage, misfit=inner.value, ripe=True, **given)


@pytest.mark.parametrize(
    ("attempt", "spike", "note"),
    [
        (0, True, "a wrong minimum: path 2"),
        (1, True, "a wrong minimum: path 3"),
        (2, True, "the best of all minima"),
        (0, False, "the best of all minima"),
    ],
)
def test_another_path_is_tried_while_lines_are_still_far_away(attempt, spike, note):
    data, problem = drawn((60, 50), 2, 3.0)
    x = with_a_spike(problem, data) if spike else problem.geometry.from_factors(data.L + 0.1, data.R)
    other = problem.geometry.from_factors(data.L + 1e-3, data.R)
    state = ripe(problem, x, trimmed.WHOLE, attempt=attempt, best=other, least=problem.value(other))
    after = rf.TrimmedContinuation().step(problem, state)
    assert after.report.note == note
    if note.startswith("a wrong"):
        assert (after.stage, after.attempt, after.inner.rank) == (trimmed.PATH, attempt + 1, 1)
        assert after.best is other
        assert after.least == state.least
    else:
        assert after.settled
        assert after.x is other
        assert after.value == state.least


def test_the_best_point_is_kept():
    data, problem = drawn((60, 50), 2, 3.0)
    good, bad = (problem.geometry.from_factors(data.L + shift, data.R) for shift in (1e-3, 0.1))
    for x, known, best in ((good, bad, good), (bad, good, good)):
        state = ripe(problem, x, trimmed.PATH, best=known, least=problem.value(known))
        after = rf.TrimmedContinuation().step(problem, state)
        assert after.stage == trimmed.REST
        assert after.best is best
        assert after.least == problem.value(best)


@pytest.mark.parametrize(
    ("rounds", "guesses", "spike", "over"),
    [(20, 0, True, True), (19, 9, True, False), (1, 4, False, True), (1, 3, False, False)],
)
def test_rounds_come_to_an_end(rounds, guesses, spike, over):
    data, problem = drawn((60, 50), 2, 3.0)
    x = with_a_spike(problem, data) if spike else problem.geometry.from_factors(data.L + 0.1, data.R)
    state = ripe(problem, x, trimmed.REST, rounds=rounds, guesses=guesses, rows=np.array([3]))
    after = rf.TrimmedContinuation().step(problem, state)
    if over:
        assert after.stage == trimmed.WHOLE
        assert after.report.note == "1 line taken back"
        assert after.rows.size == after.cols.size == 0
    else:
        assert after.stage == trimmed.REST
        assert 3 in after.rows
        assert after.rows.size + after.cols.size == 2
        assert after.report.note == "2 lines set aside"
        assert (after.rounds, after.guesses) == (rounds + 1, guesses + (not spike))


@pytest.mark.parametrize(("rank", "limit"), [(2, 16.0), (5, 10.0)])
def test_the_limit_falls_with_the_rank(monkeypatch, rank, limit):
    data, problem = drawn((60, 50), rank, 4.0)
    seen = []

    def spied(problem, x, limit):
        seen.append(limit)
        return np.array([3]), np.array([], int), limit

    monkeypatch.setattr(trimmed, "farthest", spied)
    state = ripe(problem, problem.geometry.from_factors(data.L + 0.1, data.R), trimmed.PATH)
    assert rf.TrimmedContinuation().step(problem, state).guesses == 1
    assert seen == [limit]


@pytest.mark.parametrize(("values", "stuck"), [([1.0] * 8, True), ([2.5] + [1.0] * 7, False)])
def test_stuck_is_a_value_that_has_not_halved_in_eight_steps(values, stuck):
    """The last step leaves the value at about 1: the first of nine decides."""
    _, problem = drawn((60, 50), 2, 3.0, noise=0.1)
    solver = rf.TrimmedContinuation()
    end = rf.minimize(problem, rf.GaussNewton(), tolerance=0, max_iterations=6)
    state = ripe(problem, end.x, trimmed.WHOLE)
    scaled = tuple(value * state.value for value in values)
    after = solver.step(problem, replace(state, ripe=False, values=scaled))
    assert after.ripe == stuck
    assert not solver.step(problem, replace(state, ripe=False, values=scaled[1:])).ripe
    assert not solver.step(problem, replace(state, ripe=False, settled=True, values=scaled)).ripe
    assert len(after.values) == 9


def test_resumes_on_every_stage(tmp_path):
    _, problem = drawn((60, 70), 3, 1.15, seed=3)
    method, options = rf.TrimmedContinuation(), {"tolerance": 1e-12, "max_iterations": 120}
    whole = rf.minimize(problem, method, **options)
    changes = [k for k, row in enumerate(whole.trace) if row.note and not row.note.startswith("rank ")]
    said = " ".join(whole.trace[k].note for k in changes)
    assert all(part in said for part in ("1 line set aside", "lines taken back", "path 2"))
    path = tmp_path / "run"
    for k in sorted({0, 5, *(change + shift for change in changes[:-1] for shift in (-1, 0, 2))}):
        resume = path if path.exists() else None
        limits = options | {"max_iterations": k, "checkpoint": Checkpoint(path)}
        resumed = rf.minimize(problem, method, **limits, resume=resume)
        assert_array_equal(resumed.trace["value"], whole.trace["value"][: k + 1])


def test_it_may_start_with_all_of_a_point():
    _, problem, *_ = drawn((60, 50), 2, 3.0)
    x0 = problem.start()
    assert rf.TrimmedContinuation(start=2).init(problem, x0).value == problem.at(x0).value
    assert rf.TrimmedContinuation().init(problem, x0).inner.rank == 1


@pytest.mark.parametrize("wrong", [{"start": 0}, {"slow": (0.02, 1.0)}])
def test_options_are_checked_at_once(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        rf.TrimmedContinuation(**wrong)


@pytest.mark.parametrize(
    ("part", "before", "stage", "fitted"),
    [
        (0.9, 1.0, trimmed.WHOLE, True),
        (0.9, 2.5, trimmed.WHOLE, False),
        (1.1, 1.0, trimmed.WHOLE, False),
        (0.9, 1.0, trimmed.REST, False),
    ],
)
def test_a_fit_to_rounding_that_no_longer_falls_is_the_end(part, before, stage, fitted, monkeypatch):
    """Of a value that stays where it is, at about 1e-20 of that at W = 0."""
    data, problem = drawn((60, 50), 2, 3.0)
    x, value = problem.geometry.from_factors(data.L, data.R), part * 1e-20 * problem.cost.value_at_zero
    state = replace(ripe(problem, x, stage), ripe=False, values=(before * value,) + (value,) * 7)
    still = SimpleNamespace(x=x, here=state.inner.here, value=value, stalled="", stationary=False, report="")
    monkeypatch.setattr(rf.GaussNewton, "step", lambda self, problem, inner: still)
    after = rf.TrimmedContinuation().step(problem, state)
    due = trimmed.AT_ROUNDING if fitted else ""
    assert (after.fitted, after.stalled, after.stationary) == (fitted, due, fitted)


@pytest.mark.parametrize(
    ("stage", "ripe_now", "due"),
    [
        (trimmed.WHOLE, False, "no step"),
        (trimmed.PATH, False, "no step"),
        (trimmed.WHOLE, True, ""),
        (trimmed.PATH, True, ""),
        (trimmed.REST, False, ""),
    ],
)
@pytest.mark.parametrize("rounding", [True, False])
def test_a_method_that_cannot_go_on_is_the_end_where_nothing_else_is_tried(stage, ripe_now, due, rounding):
    data, problem = drawn((60, 50), 2, 3.0)
    x = problem.geometry.from_factors(data.L, data.R)
    state = ripe(problem, x, stage)
    inner = replace(state.inner, stalled="no step", stationary=rounding)
    state = replace(state, inner=inner, ripe=ripe_now)
    assert state.stalled == due
    assert state.stationary == (rounding and bool(due))
