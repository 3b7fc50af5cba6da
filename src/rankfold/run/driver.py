"""The one driver of all methods: clock, stopping, trace, progress, callbacks and checkpoints are here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from time import perf_counter
from typing import Any

from rankfold.geometry.base import Geometry, Point
from rankfold.interrupts import KEEP, Scope, interruptible
from rankfold.linalg.memory import reused
from rankfold.problem import Counts, Problem
from rankfold.run.blas import one_blas_thread
from rankfold.run.checkpoint import Checkpoint, Writer, load
from rankfold.run.display import Show, display
from rankfold.run.records import describe
from rankfold.run.result import Best, Progress, Result
from rankfold.run.stopping import AnyOf, Iterations, Rule, Stop, StopKind, ValueBelow
from rankfold.run.team import Team
from rankfold.run.trace import Trace, TraceRow
from rankfold.solvers import Method, by_name

Callback = Callable[[Progress], object]


def minimize(
    problem: Problem,
    solver: Method[Any] | str = "auto",
    x0: Point | None = None,
    *,
    max_iterations: int = 500,
    tolerance: float = 1e-10,
    stop: Rule | None = None,
    callback: Callback | None = None,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    verbose: int = 0,
) -> Result:
    """Minimise `problem` with `solver`.

    Parameters
    ----------
    solver
        A method, such as `rankfold.TrustRegion()`, or the name of one, with its defaults: `"auto"` is
        `rankfold.Auto`, conjugate gradients and more where they get nowhere; `"cg"` is
        `rankfold.ConjugateGradient`, `"gd"` `rankfold.GradientDescent` and `"tr"` `rankfold.TrustRegion`.
    x0
        Where to start; the cost's own start point if not given.
    max_iterations
        The most steps to take, those before a resume included.
    tolerance
        Converged when the value is at most `tolerance` times the value at W = 0. For a cost whose minimum
        is 0; set 0 to leave it out (it is left out too when the value at W = 0 is not positive, and for a
        cost that may be negative).
    stop
        More stopping rules, see `rankfold.stopping`.
    callback
        Called with a `Progress` after each iteration, the start included; stops the run by returning True.
    checkpoint
        Where, and how often, to save the run; a path alone means every minute.
    resume
        A file that a `checkpoint` wrote: the run goes on from there, to the same numbers as if it had
        never ended. Problem and solver must be the same; limits and rules may differ.
    verbose
        0: nothing is shown; 1: a live line, on a terminal; 2: a line per iteration, anywhere.

    Returns
    -------
    Result
        Also when the run is interrupted with Ctrl-C after its start, when a step raises an exception (then
        `Result.error`) and when the value is no longer finite: the best point so far, and the reason. A
        second Ctrl-C raises KeyboardInterrupt at once.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 0, 1, 2], [0, 1, 1, 0], [1.0, 2.0, 4.0, 2.0], (3, 2))
    >>> problem = rf.Problem(cost, rf.FullRank(cost.shape, rank=1))
    >>> rf.minimize(problem, rf.GradientDescent()).converged
    True
    """
    began = perf_counter()
    method = resolve(solver)
    problem = replace(problem, counts=Counts())  # counted per run: another thread may use the same problem
    team = Team.of(problem)
    team.require_equal(f"{describe(method)} {problem.geometry!r} {max_iterations} {tolerance} {stop!r}")
    rules = _rules(problem, max_iterations, tolerance, stop)
    if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    writer = Writer(checkpoint, method, problem) if checkpoint else None
    if x0 is not None and resume is not None:
        raise ValueError("give x0 or resume, not both: a resumed run starts where the file says")
    with Scope(KEEP) as scope:
        with one_blas_thread(), reused(), display(verbose, type(method).__name__) as show:
            saved = None if resume is None else team.interruptible(load, resume, method, problem)
            began = began if saved is None else perf_counter() - saved.seconds
            run = _Run(method, problem, rules, began, show, writer, callback, scope, team)
            progress = saved or team.interruptible(run.start, x0)
            result = run.until_stopped(progress, resumed=saved is not None)
        # The last moment: what comes later is raised where there is no result to return.
        return replace(result, stop=_interrupted(result.iterations)) if scope.answer() else result


def resolve(solver: Method[Any] | str) -> Method[Any]:
    """Return `solver`, or the one of that name."""
    method = by_name(solver) if isinstance(solver, str) else solver
    if isinstance(method, type) or not hasattr(method, "step"):
        raise TypeError(f"solver must be a method, such as rankfold.TrustRegion(), or a name, not {method!r}")
    return method


def _rules(problem: Problem, max_iterations: int, tolerance: float, stop: Rule | None) -> Rule:
    if stop is not None and not isinstance(stop, Rule):
        raise TypeError(f"stop must be a rule of rankfold.stopping, or rules joined by | and &, not {stop!r}")
    if not 0 <= tolerance < 1:
        raise ValueError(f"tolerance must be at least 0 and below 1, not {tolerance!r}")
    if max_iterations < 0:
        raise ValueError(f"max_iterations must be at least 0, not {max_iterations!r}")
    scale = float(problem.cost.value_at_zero) if tolerance and problem.cost.nonnegative else 0.0
    near_zero = (ValueBelow(tolerance, scale),) if 0 < scale < float("inf") else ()
    return AnyOf((*near_zero, *((stop,) if stop else ()), Iterations(max_iterations)))


def _checked_point(x0: Point, geometry: Geometry) -> Point:
    try:
        return geometry.validate(x0)
    except ValueError as error:
        raise ValueError(f"x0 is not a point of {geometry!r}: {error}") from error
    except (AttributeError, TypeError) as error:
        raise TypeError(f"x0 must be a point of {geometry!r}, not a {type(x0).__name__}") from error


def _interrupted(iteration: int) -> Stop:
    return Stop(f"interrupted after iteration {iteration}", StopKind.INTERRUPTED)


@dataclass(frozen=True)
class _Run:
    """One call of `minimize`. What it knows of the past is in `Progress` alone, which never changes."""

    method: Method[Any]
    problem: Problem
    rules: Rule
    began: float
    show: Show
    writer: Writer | None
    callback: Callback | None
    scope: Scope  # keeps Ctrl-C but where steps and callbacks let it through
    team: Team

    def start(self, x0: Point | None) -> Progress:
        before = dict(vars(self.problem.counts))
        x = self.problem.start() if x0 is None else _checked_point(x0, self.problem.geometry)
        state = self.method.init(self.problem, x)
        try:
            row = self._row(state, 0, before)
        except _NotFiniteError as error:
            whose = "the cost's own start point" if x0 is None else "x0"
            raise ValueError(f"at {whose} {error}: start where both are finite") from None
        return Progress(state, Best(state.x, row.value, row.gradient_norm), Trace([row]))

    def until_stopped(self, progress: Progress, resumed: bool = False) -> Result:
        """Step from `progress` until a rule, or anything else, says stop."""
        error: Exception | None = None
        try:
            # A resumed iteration was judged by the callback when it was new; the rules may have changed.
            progress, stop = self._seen(progress, None if resumed else self.callback)
            while stop is None:
                iteration = progress.iteration + 1
                try:
                    progress = self.team.interruptible(self._advanced, progress)
                except Exception as caught:  # whatever it is, the best point must not be lost to it
                    self.team.failed(caught)
                    why = f"iteration {iteration} raised {type(caught).__name__}: {caught}"
                    if isinstance(caught, _NotFiniteError):
                        why = f"not finite in iteration {iteration}: {caught}"
                    stop, error = Stop(why, StopKind.FAILED), caught
                else:
                    progress, stop = self._seen(progress, self.callback)
        except KeyboardInterrupt:
            self.scope.answer()
            stop = _interrupted(progress.iteration)
        if self.writer:
            self.writer.finish(progress)
        last = Best(progress.x, progress.value, progress.gradient_norm)
        # What converged is the last point, though rounding may have made an earlier value the lowest.
        x, value, gradient_norm = last if stop.converged else progress.best
        geometry = self.problem.with_rank_of(x).geometry
        return Result(x, geometry, value, gradient_norm, stop, progress.trace, progress.state, error)

    def _advanced(self, progress: Progress) -> Progress:
        before = dict(vars(self.problem.counts))
        state = self.method.step(self.problem, progress.state)
        row = self._row(state, progress.iteration + 1, before)
        # Of equal values the later: its gradient is usually the smaller.
        better = row.value <= progress.best.value
        best = Best(state.x, row.value, row.gradient_norm) if better else progress.best
        return Progress(state, best, progress.trace.extended(row))

    def _row(self, state: Any, iteration: int, before: dict[str, int]) -> TraceRow:
        """Return the row of a state whose value and gradient are finite; else raise an error."""
        value, norm = float(state.value), float(state.gradient_norm)  # first: asking may evaluate
        if not (isfinite(value) and (isfinite(norm) or getattr(state, "gradient_free", False))):
            raise _NotFiniteError(f"the value is {value} and the gradient norm {norm}")
        counts = {name: count - before[name] for name, count in vars(self.problem.counts).items()}
        seconds = perf_counter() - self.began
        return TraceRow.of(iteration, value, norm, seconds, **vars(state.report), **counts)

    def _seen(self, progress: Progress, callback: Callback | None) -> tuple[Progress, Stop | None]:
        """Show, save and hand on an iteration, and judge it."""
        asked, interrupted = False, False
        if self.team.several:  # by one clock, and with what anybody was asked to do
            asked = callback is not None and bool(self.team.called(callback, progress))
            progress, asked, interrupted = self.team.agreed(progress, asked, self.scope.answer())
        self.show(progress.trace[-1])
        if self.writer:
            self.writer.offer(progress)
        if not self.team.several:
            asked = callback is not None and bool(interruptible(callback, progress))
        return progress, _interrupted(progress.iteration) if interrupted else self._judged(progress, asked)

    def _judged(self, progress: Progress, asked: bool) -> Stop | None:
        stop = self.rules(progress.trace)
        if (why := progress.state.stalled) and not (stop and stop.converged):
            # Only the method knows whether rounding stops it, at a minimum, or something else does.
            stationary = bool(getattr(progress.state, "stationary", False))
            return Stop(f"stalled: {why}", StopKind.STATIONARY if stationary else StopKind.STALLED)
        if asked and stop is None:
            return Stop(f"stopped by the callback at iteration {progress.iteration}", StopKind.CALLBACK)
        return stop


class _NotFiniteError(FloatingPointError):
    """A step led to where the cost or its gradient is not finite."""
