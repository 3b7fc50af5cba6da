"""Gauss–Newton steps on fixed-rank geometries, damped after Levenberg and Marquardt."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

from rankfold.geometry.base import Point
from rankfold.problem import Here, Problem
from rankfold.solvers.base import Located, StepReport
from rankfold.solvers.damped_model import DampedModel, Minimiser

_TRIES = 10  # dampings that one step tries
_RAISED, _LOWERED = 8.0, 0.2  # the damping after a try that failed, and after one that did not
_LEAST = 1e-12
_FELT = 1e-6  # a step that failed with hardly any damping is not changed by eight times as much
_CAUTION = 1e3  # a promise of this multiple of rounding in the value may be broken by rounding
NO_DECREASE = "the model promises no decrease that rounding would not hide"
NO_STEP = "no damping gives a step that lowers the value"


@dataclass(frozen=True, kw_only=True)
class GaussNewtonState(Located):
    """Where it is, the damping of the next step, and the part of the value that the last one left."""

    damping: float
    left: float = 1.0


@dataclass(frozen=True)
class GaussNewton:
    """Steps that minimise a damped Gauss–Newton model: the second order, less what needs the residual.

    The model keeps ∇²f(W) and leaves out that L and R both move, so it is convex wherever the cost is convex
    in W. Its damping is a multiple of the metric that ‖W‖² has on the factors. Conjugate gradients minimise
    it, preconditioned by the block of each row and column of W (`Cost.line_blocks`), or by that metric where
    the cost knows no blocks. A step is a change of W, whatever its factors; a geometry takes it as the
    horizontal vector of that change (`Geometry.lift`). With few entries (two for each degree of freedom, or
    less) this takes a tenth of the time of first-order methods, and solves more.

    Parameters
    ----------
    damping
        The first one, in units of the average curvature. A step that lowers the value divides it by 5.
    inner_tolerance
        The part of the model's gradient that a step may leave; less of it where the last step went far.
    max_inner
        The most products with the model for one damping.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((150, 150), 3, 2.0, seed=0, condition=10, min_per_line=True)
    >>> problem = rf.Problem.of(rf.Completion.from_triples(data), rank=3)
    >>> result = rf.minimize(problem, rf.RankContinuation(rf.GaussNewton(), slow=0.02), tolerance=1e-20)
    >>> result.converged, data.relative_error(*result.factors) < 1e-8
    (True, True)
    """

    state_types: ClassVar[tuple[type, ...]] = (GaussNewtonState,)

    damping: float = 1.0
    inner_tolerance: float = 0.03
    max_inner: int = 400

    def __post_init__(self) -> None:
        if not self.damping > 0:
            raise ValueError(f"damping must be positive, not {self.damping!r}")
        if not 0 < self.inner_tolerance < 1:
            raise ValueError(f"inner_tolerance must be between 0 and 1, not {self.inner_tolerance!r}")
        if self.max_inner < 1:
            raise ValueError(f"max_inner must be at least 1, not {self.max_inner!r}")

    def init(self, problem: Problem, x0: Point) -> GaussNewtonState:
        """Start at x0 with the first damping."""
        return GaussNewtonState(here=problem.at(x0), damping=self.damping)

    def step(self, problem: Problem, state: GaussNewtonState) -> GaussNewtonState:
        """Minimise the model, damped more and more until the value falls."""
        here, damping, products, promised = state.here, state.damping, 0, 0.0
        model = DampedModel.at(here)
        # A step that left little of the value left a good model: what it leaves next is worth the products.
        tolerance = self.inner_tolerance * sqrt(min(1.0, state.left))
        for tries in range(_TRIES):
            found = model.minimised(damping, tolerance, self.max_inner)
            products += found.products
            promised = max(promised, found.decrease)
            if found.decrease <= here.noise:
                return _ended(state, tries, products, NO_DECREASE, promised)
            there = _moved(here, found)
            if there.value < here.value:
                report = StepReport(
                    step=model.length(found.dL, found.dR),
                    backtracks=tries,
                    inner_iterations=products,
                    rho=(here.value - there.value) / found.decrease,
                )
                damping, left = max(_LOWERED * damping, _LEAST), there.value / here.value
                return replace(state, here=there, damping=damping, left=left, report=report)
            damping = max(_RAISED * damping, _FELT)
        return _ended(state, _TRIES, products, NO_STEP, promised)


def _moved(here: Here, found: Minimiser) -> Here:
    """Return where the change of the factors leads."""
    geometry = here.problem.geometry
    if geometry.has_lift:
        return here.problem.at(geometry.retract(here.x, here.lifted(found.dL, found.dR)))
    L, R = here.factors
    return here.problem.at(geometry.from_factors(L + found.dL, R + found.dR))


def _ended(
    state: GaussNewtonState, tries: int, products: int, reason: str, promised: float
) -> GaussNewtonState:
    """Stay: at a minimum if nothing was promised that rounding could not have broken."""
    report = StepReport(step=0.0, backtracks=tries, inner_iterations=products)
    floor = promised <= _CAUTION * state.here.noise
    return replace(state, report=report, stalled=reason, stationary=floor)
