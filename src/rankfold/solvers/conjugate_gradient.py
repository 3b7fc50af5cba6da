"""Nonlinear conjugate gradients on a geometry."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rankfold.geometry.base import Point, Tangent, scale
from rankfold.geometry.lazily import introduce
from rankfold.problem import Here, Problem
from rankfold.solvers.base import Located, Method, Nested, StepReport
from rankfold.solvers.known import Known
from rankfold.solvers.line_search import (
    NO_STEP,
    Step,
    armijo,
    at_noise_floor,
    calibrated,
    exact,
    first_step,
    sampled,
    wolfe,
)
from rankfold.solvers.metric import Metric, check_metric
from rankfold.solvers.progress import Progress
from rankfold.solvers.turn import Turn, turned
from rankfold.solvers.turn_in_grams import fits, turned_in_grams
from rankfold.solvers.turn_on_gpu import KnownThere

_RULES = ("PR+", "HS", "DY")
# Powell's restart: gradients that are this far from orthogonal say that conjugacy is lost.
_POWELL = 0.5

# To begin again throws all away, so that more patience is due than before a hand-over: at 2000², ρ = 3, runs
# that reach 1e-20 get nowhere for 20 iterations (r = 3, seed 3) or 30 (r = 1, seed 0), none for 40; those
# that never arrive (r = 2, seeds 0, 3, 4) are given up after 52 or 53.
_PATIENCE = 40


@dataclass(frozen=True)
class Trial:
    """Where to begin again in the geometry's metric, and how the run in the metric of the data goes."""

    start: Point
    progress: Progress = field(default_factory=lambda: Progress(_PATIENCE))

    def then(self, here: Here) -> Trial:
        """Return the same after a step to here."""
        return Trial(self.start, self.progress.then(here.value, here.gradient_norm))


@dataclass(frozen=True, kw_only=True)
class ConjugateGradientState(Located):
    """Where it is, the direction to go next with the slope along it, and the last step's factor.

    `squared` is the square of the gradient's norm in `metric`, the one that directions are made in. `trial`
    is there while that is a metric to be given up if it leads nowhere.

    `calibration` is what the step-sizes that a sample of the data gives are to be multiplied with; 0 where
    all the data are to be asked. `known` is what iterations that are written out in Grams tell the next one.
    """

    metric: Metric
    squared: float
    direction: Tangent
    slope: float
    steepest: bool
    t: float
    calibration: float
    trial: Trial | None = None
    known: Known | KnownThere | None = None


@dataclass(frozen=True)
class ConjugateGradient:
    """Conjugate gradients, with exact steps where the cost is quadratic in W and the retraction straight.

    On `FullRank` with the preconditioned metric this is the workhorse for quadratic costs. On other
    geometries a quadratic cost is searched from the minimiser of the linearised line, by backtracking; other
    costs are searched to the strong Wolfe conditions.

    Parameters
    ----------
    beta
        `"PR+"` (Polak and Ribière, cut at 0), `"HS"` (Hestenes and Stiefel, cut at 0) or `"DY"` (Dai, Yuan).
    decrease, curvature
        The factors of the Armijo and Wolfe conditions; 1e-4 and 0.1 are Nocedal and Wright's (2006) for
        conjugate gradients.
    metric
        `"data"`: gradients in the metric of the entries that each line has (`rankfold.costs.data_metric`).
        `"geometry"`: in that of the geometry. `"auto"`: of the data where the cost offers it, up to rank 20;
        and from the start again in that of the geometry, if 40 iterations bring next to nothing.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion.from_triples(rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0))
    >>> rf.minimize(rf.Problem.of(cost, rank=2), rf.ConjugateGradient(), tolerance=1e-20).converged
    True
    """

    state_types: ClassVar[tuple[type, ...]] = (
        ConjugateGradientState,
        Metric,
        Trial,
        Progress,
        Known,
        KnownThere,
    )

    beta: str = "PR+"
    decrease: float = 1e-4
    curvature: float = 0.1
    metric: str = "auto"

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.beta not in _RULES:
            raise ValueError(f"beta must be one of {', '.join(_RULES)}, not {self.beta!r}")

    def init(self, problem: Problem, x0: Point) -> ConjugateGradientState:
        """Start at x0, down the gradient."""
        return self.begin(problem.at(x0), patient=True)

    def begin(self, here: Here, patient: bool = False) -> ConjugateGradientState:
        """Start here, down the gradient; where `patient`, the metric of the data may be formed later."""
        metric = Metric.chosen(self.metric, here, patient)
        own = (here.tall, here.tall), (here.lazy_partials, here.lazy_partials)
        introduce(*own, *metric.pairs(here, here))
        uphill = metric.lazy_gradient(here)
        state = _downhill(here, metric, uphill, StepReport())
        tried = self.metric == "auto" and (metric.formed is not None or metric.wait > 0)
        return replace(state, trial=Trial(here.x) if tried else None)

    def step(self, problem: Problem, state: ConjugateGradientState) -> ConjugateGradientState:
        """Go along the direction, and make the next one conjugate to it; or give up a metric that failed."""
        if state.trial is not None and state.trial.progress.stagnates:
            return _begun_again(problem, state.trial.start)
        after = self._stepped(state)
        if state.trial is not None and after.stalled and not after.stationary:
            return _begun_again(problem, state.trial.start)
        return after

    def _stepped(self, state: ConjugateGradientState) -> ConjugateGradientState:
        guess, turn = self._turned(state)
        if turn is not None:
            return self._conjugate(state, turn)
        if not state.steepest:
            uphill = state.metric.lazy_gradient(state.here)
            again = _downhill(state.here, state.metric, uphill, StepReport(step=0.0, note="restart"))
            trial = state.trial and state.trial.then(state.here)
            return replace(again, t=state.t, calibration=0.0, trial=trial)
        floor = at_noise_floor(state.here, state.direction, state.slope, guess)
        return replace(state, report=StepReport(step=0.0), stalled=NO_STEP, stationary=floor)

    def _turned(self, state: ConjugateGradientState) -> tuple[float, Turn | None]:
        """Return the first guess of the step, 0 where none was needed, and what is known after the step."""
        here, direction, metric = state.here, state.direction, state.metric
        if isinstance(state.known, KnownThere) or fits(here, direction):
            return 0.0, turned_in_grams(here, direction, metric, state.calibration, state.known)
        guess, taken = self._line_search(state)
        return guess, None if taken is None else turned(here, direction, metric, taken)

    def _line_search(self, state: ConjugateGradientState) -> tuple[float, Step | None]:
        """Return the first guess of the step, 0 where none was needed, and the step."""
        here, direction, slope = state.here, state.direction, state.slope
        if not here.problem.cost.quadratic:
            guess = state.t or first_step(here, direction, slope)
            return guess, wolfe(here, direction, slope, guess, self.decrease, self.curvature)
        if here.problem.geometry.straight:
            taken = sampled(here, direction, state.calibration) if state.calibration else None
            return 0.0, taken or exact(here, direction)
        guess = first_step(here, direction, slope)
        return guess, armijo(here, direction, slope, guess, self.decrease)

    def _conjugate(self, state: ConjugateGradientState, turn: Turn) -> ConjugateGradientState:
        squared = max(turn.squared, 0.0)
        beta, slope, calibration = 0.0, -squared, 0.0
        if state.squared > 0 and state.slope < 0:  # else rounding has left nothing to divide by
            beta = self._beta(turn.squared, turn.overlap, turn.along, state)
            slope = -turn.squared + beta * turn.along
            calibration = calibrated(turn.calibration, turn.along / state.slope)
            # Lost conjugacy, or a direction that hardly goes down: forget the past.
            if abs(turn.overlap) > _POWELL * turn.squared or not slope < -0.1 * turn.squared:
                beta, slope = 0.0, -squared
        direction, known = turn.directions(beta)
        return ConjugateGradientState(
            here=turn.here,
            metric=turn.metric.tried(turn.here, turn.t),
            squared=squared,
            direction=direction,
            slope=slope,
            steepest=not beta,
            t=turn.t,
            calibration=calibration,
            report=turn.report,
            trial=state.trial and state.trial.then(turn.here),
            known=known,
        )

    def _beta(self, squared: float, overlap: float, along: float, state: ConjugateGradientState) -> float:
        """Return β from ⟨g₊, g₊⟩, ⟨g₊, T g⟩ and ⟨g₊, T d⟩, with ⟨T g, T d⟩ taken as ⟨g, d⟩.

        Where PR+ and HS are to be cut at 0, the overlap is so large that Powell's restart forgets β anyway.
        """
        if self.beta == "PR+":
            return (squared - overlap) / state.squared
        difference = along - state.slope
        if difference <= 0:
            return 0.0
        return (squared - (overlap if self.beta == "HS" else 0.0)) / difference


def taken_up(solver: Method[Any], problem: Problem, x: Point) -> Any:
    """Return the first state of a solver in the midst of a run, where a good value says nothing of the start.

    So that conjugate gradients form the metric of the data at once.
    """
    if isinstance(solver, ConjugateGradient):
        return solver.begin(problem.at(x))
    return solver.init(problem, x)


def on_trial(state: Any) -> bool:
    """Whether the conjugate gradients at work would begin again in another metric, if they got stuck."""
    while isinstance(state, Nested):
        state = state.inner
    return getattr(state, "trial", None) is not None


def _begun_again(problem: Problem, start: Point) -> ConjugateGradientState:
    """Return to the start in the geometry's metric, for good.

    Not on from here: where entries are few, lines may have run off to where no metric brings them back from.
    Which of the two metrics is led astray is a matter of chance (2000², r = 2, ρ = 3).
    """
    here = problem.at(start)
    report = StepReport(step=0.0, note="the metric of the data leads nowhere: again in the geometry's")
    return _downhill(here, Metric(), here.lazy_gradient, report)


def _downhill(here: Here, metric: Metric, uphill: Tangent, report: StepReport) -> ConjugateGradientState:
    squared = max(here.slope(uphill), 0.0)
    return ConjugateGradientState(
        here=here,
        metric=metric,
        squared=squared,
        direction=here.made(scale(-1.0, uphill)),
        slope=-squared,
        steepest=True,
        t=0.0,
        calibration=1.0,
        report=report,
    )
