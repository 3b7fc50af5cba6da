"""The Riemannian trust region, as in section 5.2 of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import isfinite, sqrt
from typing import ClassVar

from rankfold.geometry.base import Point, scale
from rankfold.problem import Problem
from rankfold.solvers.base import Located, StepReport
from rankfold.solvers.line_search import first_step, moved
from rankfold.solvers.metric import Metric, check_metric
from rankfold.solvers.truncated_cg import SHRINK, Preconditioner, Proposal, truncated_cg

_ACCEPT = 0.1  # ρ above which a step is taken (Absil et al. 2008, section 7.5)
_REJECTED = "rejected"
_CAUTION = 1e3  # ρ counts this multiple of rounding in the values as agreement, as Manopt does
_AT_ZERO = "the value is zero but for rounding, and no step lowers it"


@dataclass(frozen=True, kw_only=True)
class TrustRegionState(Located):
    """Where it is, the radius with its bound, and proposals that are still good after a rejected step.

    Radii are lengths in `metric`, whose inverse preconditions the inner iteration.
    """

    radius: float
    max_radius: float
    metric: Metric = field(default_factory=Metric)
    pending: tuple[Proposal, ...] = ()


@dataclass(frozen=True)
class TrustRegion:
    """Steps that minimise a quadratic model of the cost within a radius (Absil et al. 2008, Algorithm 10).

    Parameters
    ----------
    theta, kappa
        The constants of the inner iteration's stopping rule; θ = 1 asks for quadratic convergence.
    max_inner
        The most Hessian products of one step.
    initial_radius
        Δ₀; if None, s₀/4³ · ‖grad‖ with s₀ of the linearised search (section 6.1). The radius is bounded by
        2¹⁰ Δ₀.
    preconditioner
        `(here, tangent) -> tangent`, symmetric and positive definite, like an inverse of the Hessian.
    metric
        As of `ConjugateGradient`, in place of a `preconditioner`. `"geometry"` is the paper's method; with
        entries to spare its Hessian products are no more than those in the metric of the data.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion.from_triples(rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0))
    >>> rf.minimize(rf.Problem(cost, rf.Embedded(cost.shape, rank=2)), rf.TrustRegion()).converged
    True
    """

    state_types: ClassVar[tuple[type, ...]] = (TrustRegionState, Proposal, Metric)

    theta: float = 1.0
    kappa: float = 0.1
    max_inner: int = 100
    initial_radius: float | None = None
    preconditioner: Preconditioner | None = None
    metric: str = "geometry"

    def __post_init__(self) -> None:
        check_metric(self.metric)

    def init(self, problem: Problem, x0: Point) -> TrustRegionState:
        """Start at x0 with the radius Δ₀."""
        here = problem.at(x0)
        metric = Metric() if self.preconditioner else Metric.chosen(self.metric, here)
        radius = self.initial_radius
        if radius is None:
            uphill = metric.gradient(here)
            squared = max(here.slope(uphill), 0.0)
            s = first_step(here, scale(-1.0, uphill), -squared)
            radius = s / 4**3 * sqrt(squared) or 1.0
        return TrustRegionState(here=here, radius=radius, max_radius=2**10 * radius, metric=metric)

    def step(self, problem: Problem, state: TrustRegionState) -> TrustRegionState:
        """Try the model's minimiser, take it or leave it, and adapt the radius."""
        here, products = state.here, 0
        proposals = state.pending
        if not proposals:
            proposals, products = truncated_cg(
                here, state.radius, self.theta, self.kappa, self.max_inner, self._preconditioner(state)
            )
        (radius, eta, decrease, at_boundary), *rest = proposals
        if decrease <= here.noise:
            reason = "the model promises no decrease that rounding would not hide"
            report = StepReport(step=0.0, inner_iterations=products, radius=radius)
            # A radius that shrank because the cost is not finite around says nothing of a minimum.
            broken = state.report.note == _REJECTED and not isfinite(state.report.rho)
            return replace(state, report=report, stalled=reason, stationary=not broken)
        there = moved(here, eta, 1.0)
        slack = _CAUTION * here.noise
        if here.value <= slack and there.value >= here.value:  # an exact fit, as far as rounding goes
            report = StepReport(step=0.0, inner_iterations=products, radius=radius)
            return replace(state, report=report, stalled=_AT_ZERO, stationary=True)
        rho = (here.value - there.value + slack) / (decrease + slack)
        accepted = rho > _ACCEPT
        report = StepReport(
            step=problem.geometry.norm(here.x, eta) if accepted else 0.0,
            inner_iterations=products,
            radius=radius,
            rho=rho,
            note="" if accepted else _REJECTED,
        )
        if not accepted:
            smaller = rest[0].radius if rest else radius / SHRINK
            return replace(state, radius=smaller, pending=tuple(rest), report=report)
        if rho < 0.25:
            radius /= SHRINK
        elif rho > 0.75 and at_boundary:
            radius = min(2 * radius, state.max_radius)
        metric = state.metric.moved(there)
        return replace(state, here=there, radius=radius, metric=metric, pending=(), report=report)

    def _preconditioner(self, state: TrustRegionState) -> Preconditioner | None:
        if self.preconditioner is None and state.metric.formed is not None:
            return state.metric.preconditioned
        return self.preconditioner
