"""Gradients and Hessians against the values of the cost, by the order at which their Taylor error vanishes.

That order is 2 for a gradient and 3 for a Hessian. The Hessian needs care: along a retraction of first order
the cost curves by more than ⟨Hess ξ, ξ⟩, so the check adds what the metric says of the retraction's
acceleration, found by differencing the metric itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rankfold.checks.slopes import STEPS, SlopeCheck, fitted_slope
from rankfold.geometry.base import Geometry, Point, Tangent, lincomb, scale
from rankfold.linalg import Array
from rankfold.problem import Here, Problem


@dataclass(frozen=True)
class HessianCheck:
    """A Hessian's Taylor slope and its symmetry, |⟨Hess ξ, η⟩ − ⟨ξ, Hess η⟩| relative to both."""

    taylor: SlopeCheck
    asymmetry: float

    @property
    def slope(self) -> float:
        """The fitted slope."""
        return self.taylor.slope

    @property
    def ok(self) -> bool:
        """Whether the slope is 3 and the Hessian symmetric."""
        return self.taylor.ok and self.asymmetry < 1e-8

    def __str__(self) -> str:
        return f"{self.taylor}; asymmetry {self.asymmetry:.1e}"


def check_gradient(problem: Problem, x: Point | None = None, seed: int = 0) -> SlopeCheck:
    """Check the Riemannian gradient: f(R(tξ)) − f − t⟨grad, ξ⟩ must vanish like t².

    At `x`, which need not be critical, or at a random point if None; ξ is random too.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 0, 1, 2, 3], [0, 1, 1, 0, 2], [1.0, 2.0, 4.0, 3.0, 1.0], shape=(4, 3))
    >>> print(rf.check_gradient(rf.Problem(cost, rf.Polar((4, 3), rank=1))))
    gradient: slope 2.000, expected 2: right
    """
    here, xi = _somewhere(problem, x, seed)
    slope = problem.geometry.inner(here.x, here.gradient, xi)
    return _taylor("gradient", problem, here.x, xi, [here.value, slope], expected=2)


def check_hessian(problem: Problem, x: Point | None = None, seed: int = 0) -> HessianCheck:
    """Check the Riemannian Hessian: its Taylor error must vanish like t³, and it must be symmetric.

    At `x` and along directions as in `check_gradient`.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 0, 1, 2, 3], [0, 1, 1, 0, 2], [1.0, 2.0, 4.0, 3.0, 1.0], shape=(4, 3))
    >>> rf.check_hessian(rf.Problem(cost, rf.FullRank((4, 3), rank=1))).ok
    True
    """
    geometry = problem.geometry
    here, xi = _somewhere(problem, x, seed)
    eta = geometry.random_tangent(here.x, seed + 2)
    H_xi, H_eta = here.hessian(xi), here.hessian(eta)
    curvature = geometry.inner(here.x, H_xi, xi) + acceleration(geometry, here.x, xi, here.gradient)
    model = [here.value, geometry.inner(here.x, here.gradient, xi), curvature / 2]
    taylor = _taylor("Hessian", problem, here.x, xi, model, expected=3)
    left, right = geometry.inner(here.x, H_xi, eta), geometry.inner(here.x, xi, H_eta)
    size = geometry.norm(here.x, H_xi) + geometry.norm(here.x, H_eta)
    return HessianCheck(taylor, abs(left - right) / size if size else 0.0)


def acceleration(geometry: Geometry, x: Point, xi: Tangent, gamma: Tangent, step: float = 2e-3) -> float:
    """Return ⟨γ, a⟩ for the covariant acceleration a of t ↦ R(tξ) at 0, from the metric and R alone.

    In the chart v ↦ R(v) the Christoffel symbols are derivatives of the metric, g(∂_ξ, ∂_γ) and g(∂_ξ, ∂_ξ):
    ⟨γ, a⟩ = ∂_ξ g(ξ, γ) − ½ ∂_γ g(ξ, ξ). Zero for a retraction of second order, which a geometry may declare.
    """
    size = geometry.norm(x, gamma)
    if geometry.second_order or size == 0.0:
        return 0.0
    unit = scale(1.0 / size, gamma)

    def metric(at: Tangent, u: Tangent, v: Tangent) -> float:
        y = geometry.retract(x, at)
        return geometry.inner(y, *(_pushed(geometry, x, y, at, w, step) for w in (u, v)))

    along_xi = _central(lambda t: metric(scale(t, xi), xi, unit), step)
    along_gamma = _central(lambda t: metric(scale(t, unit), xi, xi), step)
    return size * (along_xi - along_gamma / 2)


def _pushed(geometry: Geometry, x: Point, y: Point, at: Tangent, v: Tangent, step: float) -> Tangent:
    """Return the horizontal vector d/ds R(at + s v) at y = R(at)."""
    parts = [
        [getattr(geometry.retract(x, lincomb(1.0, at, s * step, v)), name) for s in (-2, -1, 1, 2)]
        for name in y._fields
    ]
    velocity = type(v)(*(_stencil(*p) / step for p in parts))
    return geometry.to_horizontal(y, geometry.to_tangent(y, velocity))


def _central(f: Callable[[float], float], step: float) -> float:
    return float(_stencil(*(f(s * step) for s in (-2, -1, 1, 2))) / step)


def _stencil(far_left: Array, left: Array, right: Array, far_right: Array) -> Array:
    """Fourth-order central difference, times the step."""
    return (8 * (right - left) - (far_right - far_left)) / 12


def _somewhere(problem: Problem, x: Point | None, seed: int) -> tuple[Here, Tangent]:
    here = problem.at(problem.geometry.random_point(seed) if x is None else x)
    return here, problem.geometry.random_tangent(here.x, seed + 1)


def _taylor(
    name: str, problem: Problem, x: Point, xi: Tangent, model: list[float], expected: float
) -> SlopeCheck:
    values = [problem.value(problem.geometry.retract(x, scale(float(t), xi))) for t in STEPS]
    errors = np.abs(np.array(values) - np.polynomial.polynomial.polyval(STEPS, model))
    return fitted_slope(name, expected, errors, floor=1e-15 * max(abs(model[0]), max(map(abs, values))))
