"""Near the information limit: rank continuation by Gauss–Newton that sets lines aside which run away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, ClassVar

import numpy as np

from rankfold.costs.without_lines import WithoutLines
from rankfold.geometry.base import Point
from rankfold.problem import Problem
from rankfold.solvers.averaged import LATE, averaged, suits
from rankfold.solvers.base import Method, Nested, StepReport
from rankfold.solvers.continuation import RankContinuation
from rankfold.solvers.gauss_newton import GaussNewton
from rankfold.solvers.trimming import (
    Lines,
    determined,
    farthest,
    limit_of,
    no_lines,
    taken_back,
    without,
)

# A value that has not halved in so many steps: Gauss–Newton is at a minimum, or crawls to one.
_WINDOW, _HALVED = 8, 0.5
_FITTED = 1e-20  # of the value at W = 0: what is left is rounding
_ROUNDS = 20  # of setting lines aside, before they are taken back whatever the rest says
_GUESSES = 4  # rounds without a line beyond the limit, in which the farthest one is set aside
PATH, REST, WHOLE = "path", "rest", "whole"
AT_ROUNDING = "the data are fitted to rounding, and the value has not halved in eight steps"


@dataclass(frozen=True, kw_only=True)
class TrimmedState(Nested):
    """The state of the method at work, what it works on, and the best point of all entries so far.

    `stage` is "path" while the rank grows and at the last rank, "rest" while the lines `rows` and `cols` are
    set aside, and "whole" once they are taken back. It is `settled` when nothing else is to be tried, and
    `fitted` when the data are, as far as rounding lets them.
    """

    start: Point
    stage: str
    misfit: float
    attempt: int = 0
    rounds: int = 0
    guesses: int = 0
    rows: Lines = field(default_factory=no_lines)
    cols: Lines = field(default_factory=no_lines)
    values: tuple[float, ...] = ()
    ripe: bool = False
    best: Point | None = None
    least: float = inf
    settled: bool = False
    fitted: bool = False

    @property
    def value(self) -> float:
        """The cost at the point, of all entries."""
        return self.misfit

    @property
    def stalled(self) -> str:
        """Why the method at work cannot go on, where nothing else is to be tried."""
        if self.ripe or self.stage == REST:
            return ""
        return str(self.inner.stalled) or AT_ROUNDING * self.fitted

    @property
    def stationary(self) -> bool:
        """Whether only rounding stops it."""
        return bool(self.stalled) and (self.fitted or bool(self.inner.stationary))


@dataclass(frozen=True)
class TrimmedContinuation:
    """Rank continuation by Gauss–Newton steps; lines that run away are set aside, and taken back at the end.

    With hardly more entries than degrees of freedom, bad minima are mostly of one kind: a few rows or columns
    have left for a singular direction of their own (`trimming.leverages`), and all else is nearly right.
    There these lines are set to zero, their entries left out, and the rest is solved; more lines may follow.
    A rest that fits tells where its lines belong: least squares of their own entries, the others held. If no
    rest fits, other paths are tried, the second one from averaged least squares (`solvers/averaged.py`) where
    these can be had, and the best point of all is the answer.

    Where there are fewer entries than degrees of freedom, and for costs other than `Completion` in memory,
    nothing is set aside.

    Parameters
    ----------
    solver
        The method for every stage.
    slow
        For each path that may be tried: grow when a step lowers the value by less than this part of it.
    start
        The rank to start with: so many singular pairs of x0 are kept. With the problem's rank, all of them.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((300, 350), 5, 1.3, seed=2, condition=10, min_per_line=True)
    >>> problem = rf.Problem.of(rf.Completion.from_triples(data), rank=5)
    >>> result = rf.minimize(problem, rf.TrimmedContinuation(), tolerance=1e-20)
    >>> result.converged, [row.note for row in result.trace if "line" in row.note]
    (True, ['2 lines set aside', '2 lines taken back'])
    """

    state_types: ClassVar[tuple[type, ...]] = (
        TrimmedState,
        WithoutLines,
        *RankContinuation.state_types,
        *GaussNewton.state_types,
    )

    solver: GaussNewton = field(default_factory=GaussNewton)
    slow: tuple[float, ...] = (0.02, 0.005, 0.1)
    start: int = 1

    def __post_init__(self) -> None:
        for attempt in range(len(self.slow)):
            self._path(attempt)

    def init(self, problem: Problem, x0: Point) -> TrimmedState:
        """Start from the leading singular pairs of x0."""
        inner = self._path(0).init(problem, x0)
        settled = not determined(problem)
        return TrimmedState(
            inner=inner, start=x0, stage=PATH, misfit=inner.value, settled=settled, report=inner.report
        )

    def step(self, problem: Problem, state: TrimmedState) -> TrimmedState:
        """Let the method at work take a step; or set lines aside, take them back, or try another path."""
        if state.ripe:
            return self._next(problem, state)
        present = state.inner.here.problem if state.stage == REST else problem
        method: Method[Any] = self._path(state.attempt) if state.stage == PATH else self.solver
        inner = method.step(present, state.inner)
        last = getattr(inner, "rank", problem.geometry.rank) == problem.geometry.rank
        values = (*state.values[-_WINDOW:], inner.value) if last else ()
        stuck = bool(inner.stalled) or (len(values) > _WINDOW and values[-1] > _HALVED * values[0])
        fits = _fits(problem, state, inner.value)
        ripe = last and not state.settled and ((stuck and not fits) or (fits and state.stage == REST))
        fitted = last and stuck and fits and state.stage != REST
        misfit = problem.value(inner.x) if state.stage == REST else inner.value
        return replace(
            state, inner=inner, misfit=misfit, values=values, ripe=ripe, fitted=fitted, report=inner.report
        )

    def _path(self, attempt: int) -> RankContinuation:
        return RankContinuation(self.solver, start=self.start, slow=self.slow[attempt])

    def _next(self, problem: Problem, state: TrimmedState) -> TrimmedState:
        limit = limit_of(problem)
        rows, cols, most = farthest(problem, state.x, limit)
        far = most > limit
        if state.stage == REST:
            over = state.rounds >= _ROUNDS or (not far and state.guesses >= _GUESSES)
            if over or _fits(problem, state, state.inner.value):
                return self._whole(problem, state)
            return self._rest(problem, state, rows, cols, far)
        if state.misfit < state.least:
            state = replace(state, best=state.x, least=state.misfit)
        if state.stage == PATH:
            return self._rest(problem, state, rows, cols, far)
        sweeps = state.attempt == 0 and suits(problem)  # they help where no line is far away, too
        if (far or sweeps) and state.attempt + 1 < len(self.slow):
            return self._again(problem, state)
        return self._settled(problem, state)

    def _rest(
        self, problem: Problem, state: TrimmedState, rows: Lines, cols: Lines, far: bool
    ) -> TrimmedState:
        """Set more lines aside."""
        rows, cols = np.union1d(state.rows, rows), np.union1d(state.cols, cols)
        x = without(problem, state.x, rows, cols)
        inner = self.solver.init(replace(problem, cost=WithoutLines(problem.cost, rows, cols)), x)
        report = StepReport(note=f"{_number(rows, cols)} set aside")
        return replace(
            state, inner=inner, stage=REST, misfit=problem.value(x), values=(), ripe=False, report=report,
            rows=rows, cols=cols, rounds=state.rounds + 1, guesses=state.guesses + (not far),
        )  # fmt: skip

    def _whole(self, problem: Problem, state: TrimmedState) -> TrimmedState:
        """Take all lines back."""
        inner = self.solver.init(problem, taken_back(problem, state.x, state.rows, state.cols))
        report = StepReport(note=f"{_number(state.rows, state.cols)} taken back")
        none = no_lines()
        return replace(
            state, inner=inner, stage=WHOLE, misfit=inner.value, values=(), ripe=False, rows=none, cols=none,
            report=report,
        )  # fmt: skip

    def _again(self, problem: Problem, state: TrimmedState) -> TrimmedState:
        """Try another path: from where averaged least squares end, and then from the start."""
        attempt = state.attempt + 1
        path, x0, note = self._path(attempt), state.start, f"a wrong minimum: path {attempt + 1}"
        found = averaged(problem, x0, patience=LATE) if attempt == 1 and suits(problem) else None
        if found is not None:
            path, x0 = replace(path, start=found.pairs), found.x
            note += f", from {found.pairs} of {problem.geometry.rank} pairs of averaged least squares"
        inner, report = path.init(problem, x0), StepReport(note=note)
        return TrimmedState(
            inner=inner, start=state.start, stage=PATH, misfit=inner.value, attempt=attempt, best=state.best,
            least=state.least, report=report,
        )  # fmt: skip

    def _settled(self, problem: Problem, state: TrimmedState) -> TrimmedState:
        """Go on from the best point, to the end."""
        inner = self.solver.init(problem, state.best)
        report = StepReport(note="the best of all minima")
        return replace(
            state,
            inner=inner,
            stage=WHOLE,
            misfit=inner.value,
            values=(),
            ripe=False,
            settled=True,
            report=report,
        )


def _fits(problem: Problem, state: TrimmedState, value: float) -> bool:
    cost = state.inner.here.problem.cost if state.stage == REST else problem.cost
    return value <= _FITTED * float(cost.value_at_zero)


def _number(rows: Lines, cols: Lines) -> str:
    count = rows.size + cols.size
    return f"{count} line" + "s" * (count != 1)
