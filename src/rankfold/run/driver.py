"""The one driver of all methods: clock, stopping, trace, progress, callbacks and checkpoints are here."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from time import perf_counter
from typing import Any

from threadpoolctl import threadpool_limits

from rankfold.geometry.base import Geometry, Point
from rankfold.problem import Counts, Problem
from rankfold.run.checkpoint import Checkpoint, Writer, load
from rankfold.run.display import Show, display
from rankfold.run.result import Best, Progress, Result
from rankfold.run.stopping import AnyOf, Iterations, Rule, Stop, StopKind, ValueBelow
from rankfold.run.trace import Row, Trace
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
    problem
        A cost on a geometry.
    solver
        A method, such as `rankfold.TrustRegion()`, or the name of one.
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
        Also when the run is interrupted with Ctrl-C, when a step raises an exception (then `Result.error`)
        and when the value is no longer finite: the best point so far, and the reason.

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
    rules = _rules(problem, max_iterations, tolerance, stop)
    writer = _writer(checkpoint, method, problem)
    # Products here are tall and thin: a second BLAS thread gains nothing on them, and between calls it spins
    # on a core that the kernels need (32000², rank 5: 1.5 s with two BLAS threads, 1.1 s with one).
    with threadpool_limits(1, user_api="blas"), display(verbose, type(method).__name__) as show:
        if resume is None:
            run = _Run(method, problem, rules, began, show, writer, callback)
            return run.until_stopped(run.start(x0))
        if x0 is not None:
            raise ValueError("give x0 or resume, not both: a resumed run starts where the file says")
        saved = load(resume, method, problem)
        run = _Run(method, problem, rules, perf_counter() - saved.seconds, show, writer, callback)
        return run.until_stopped(saved, resumed=True)


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


def _writer(
    checkpoint: Checkpoint | str | os.PathLike[str] | None, method: Method[Any], problem: Problem
) -> Writer | None:
    if checkpoint is None:
        return None
    return Writer(
        checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint), method, problem
    )


def _checked_point(x0: Point, geometry: Geometry) -> Point:
    try:
        return geometry.validate(x0)
    except ValueError as error:
        raise ValueError(f"x0 is not a point of {geometry!r}: {error}") from error
    except (AttributeError, TypeError) as error:
        raise TypeError(f"x0 must be a point of {geometry!r}, not a {type(x0).__name__}") from error


@dataclass(frozen=True)
class _Run:
    """One call of `minimize`. What it knows of the past is in `Progress` alone, which never changes."""

    method: Method[Any]
    problem: Problem
    rules: Rule
    began: float
    show: Show | None
    writer: Writer | None
    callback: Callback | None

    def start(self, x0: Point | None) -> Progress:
        before = replace(self.problem.counts)
        x = self.problem.start() if x0 is None else _checked_point(x0, self.problem.geometry)
        state = self.method.init(self.problem, x)
        row = self._row(state, 0, before)
        if not _is_finite(state, row):
            whose = "the cost's own start point" if x0 is None else "x0"
            raise ValueError(
                f"at {whose} the value is {row.value} and the gradient norm {row.gradient_norm}: "
                "start where both are finite"
            )
        return Progress(state, Best(state.x, row.value, row.gradient_norm), Trace([row]))

    def until_stopped(self, progress: Progress, resumed: bool = False) -> Result:
        """Step from `progress` until a rule, or anything else, says stop."""
        stop: Stop | None = None
        error: Exception | None = None
        try:
            # A resumed iteration was judged by the callback when it was new; the rules may have changed.
            stop = self._seen(progress, None if resumed else self.callback)
            while stop is None:
                try:
                    following = self._advanced(progress)
                except Exception as caught:  # whatever it is, the best point must not be lost to it
                    stop, error = Stop(_failure(progress.iteration + 1, caught), StopKind.FAILED), caught
                else:
                    progress = following
                    stop = self._seen(progress, self.callback)
        except KeyboardInterrupt:
            stop = Stop(f"interrupted after iteration {progress.iteration}", StopKind.INTERRUPTED)
        if self.writer:
            self.writer.finish(progress)
        return _result(progress, stop, error)

    def _advanced(self, progress: Progress) -> Progress:
        before = replace(self.problem.counts)
        state = self.method.step(self.problem, progress.state)
        row = self._row(state, progress.iteration + 1, before)
        if not _is_finite(state, row):
            raise _NotFiniteError(f"the value is {row.value} and the gradient norm {row.gradient_norm}")
        # Of equal values the later: its gradient is usually the smaller.
        better = row.value <= progress.best.value
        best = Best(state.x, row.value, row.gradient_norm) if better else progress.best
        return Progress(state, best, progress.trace.extended(row))

    def _row(self, state: Any, iteration: int, before: Counts) -> Row:
        value, norm = float(state.value), float(state.gradient_norm)  # first: asking may evaluate
        now, then, report = self.problem.counts, before, state.report
        return Row(
            iteration=iteration,
            value=value,
            gradient_norm=norm,
            seconds=perf_counter() - self.began,
            step=float(report.step),
            backtracks=int(report.backtracks),
            inner_iterations=int(report.inner_iterations),
            radius=float(report.radius),
            rho=float(report.rho),
            values=now.values - then.values,
            gradients=now.gradients - then.gradients,
            hessians=now.hessians - then.hessians,
            polynomials=now.polynomials - then.polynomials,
            note=report.note,
        )

    def _seen(self, progress: Progress, callback: Callback | None) -> Stop | None:
        """Show, save and hand on an iteration, and judge it."""
        if self.show:
            self.show(progress.trace[-1])
        if self.writer:
            self.writer.offer(progress)
        asked = callback is not None and bool(callback(progress))
        stop = _verdict(self.rules, progress)
        if asked and stop is None:
            return Stop(f"stopped by the callback at iteration {progress.iteration}", StopKind.CALLBACK)
        return stop


def _is_finite(state: Any, row: Row) -> bool:
    if getattr(state, "gradient_free", False):
        return isfinite(row.value)
    return isfinite(row.value) and isfinite(row.gradient_norm)


class _NotFiniteError(FloatingPointError):
    """A step led to where the cost or its gradient is not finite."""


def _failure(iteration: int, error: Exception) -> str:
    if isinstance(error, _NotFiniteError):
        return f"not finite in iteration {iteration}: {error}"
    return f"iteration {iteration} raised {type(error).__name__}: {error}"


def _verdict(rules: Rule, progress: Progress) -> Stop | None:
    stop = rules(progress.trace)
    if (why := progress.state.stalled) and not (stop and stop.converged):
        # Only the method knows whether rounding stops it, at a minimum, or something else does.
        stationary = bool(getattr(progress.state, "stationary", False))
        return Stop(f"stalled: {why}", StopKind.STATIONARY if stationary else StopKind.STALLED)
    return stop


def _result(progress: Progress, stop: Stop, error: Exception | None) -> Result:
    last = Best(progress.x, progress.value, progress.gradient_norm)
    # What converged is the last point, though rounding may have made an earlier value the lowest.
    x, value, gradient_norm = last if stop.converged else progress.best
    return Result(x, value, gradient_norm, stop, progress.trace, progress.state, error)
