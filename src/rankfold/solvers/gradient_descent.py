"""Riemannian gradient descent as in section 5.1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from rankfold.geometry.base import Point, scale
from rankfold.problem import Problem
from rankfold.solvers.base import Located, StepReport
from rankfold.solvers.line_search import NO_STEP, armijo, at_noise_floor, first_step
from rankfold.solvers.metric import Metric, check_metric


@dataclass(frozen=True, kw_only=True)
class GradientDescentState(Located):
    """Where it is, the step-size to try next, and the metric of the gradient."""

    guess: float
    metric: Metric


@dataclass(frozen=True)
class GradientDescent:
    """Steps along the negative gradient, with Armijo backtracking from a predicted step-size.

    Parameters
    ----------
    update
        How the next step-size is predicted. None: equation adaptive_stepsize, twice the last guess if it
        was taken, else twice the step taken. A number α in [0, 1]: the paper's alternatives, the convex
        combination α · (update 1) + (1 − α) · (update 2).
    first_step
        s₀; if None, the global minimiser of the linearised search (section 6.1).
    decrease
        The factor of sufficient decrease. Textbooks take 1e-4, which accepts steps of nearly twice the
        optimum; doubling and halving may then stay there, and 300 iterations not do the work of 80.
    metric
        As of `ConjugateGradient`, but nothing is begun again; `"geometry"` is the paper's method.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion.from_triples(rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0))
    >>> rf.minimize(rf.Problem(cost, rf.Polar(cost.shape, rank=2)), rf.GradientDescent()).converged
    True
    """

    state_types: ClassVar[tuple[type, ...]] = (GradientDescentState, Metric)

    update: float | None = None
    first_step: float | None = None
    decrease: float = 0.25
    metric: str = "geometry"

    def __post_init__(self) -> None:
        check_metric(self.metric)
        if self.update is not None and not 0 <= self.update <= 1:
            raise ValueError(f"update must be None or between 0 and 1, not {self.update}")

    def init(self, problem: Problem, x0: Point) -> GradientDescentState:
        """Start at x0 with the first step-size s₀."""
        here = problem.at(x0)
        metric = Metric.chosen(self.metric, here)
        s = self.first_step
        if s is None:
            uphill = metric.gradient(here)
            s = first_step(here, scale(-1.0, uphill), -here.slope(uphill))
        return GradientDescentState(here=here, guess=s, metric=metric)

    def step(self, problem: Problem, state: GradientDescentState) -> GradientDescentState:
        """Go down the gradient."""
        here = state.here
        uphill = state.metric.gradient(here)
        slope, direction = -max(here.slope(uphill), 0.0), scale(-1.0, uphill)
        taken = armijo(here, direction, slope, state.guess, self.decrease)
        if taken is None:
            floor = at_noise_floor(here, direction, slope, state.guess)
            return replace(state, report=StepReport(step=0.0), stalled=NO_STEP, stationary=floor)
        length = taken.t * problem.geometry.norm(here.x, direction)
        report = StepReport(step=length, backtracks=taken.backtracks)
        guess = self._predicted(state.guess, taken.t, taken.backtracks)
        metric = state.metric.moved(taken.here)
        return GradientDescentState(here=taken.here, guess=guess, metric=metric, report=report)

    def _predicted(self, guess: float, s: float, backtracks: int) -> float:
        """Equation adaptive_stepsize and its alternatives, for iteration t + 1."""
        if backtracks == 0:
            return 2 * guess
        if self.update is None:
            return 2 * s
        return (1 + self.update) * s if backtracks == 1 else (2 - self.update) * s
