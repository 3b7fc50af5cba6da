"""Gradients and Hessians against differences of the cost's values along a curve.

The Hessian needs care: along a retraction of first order the cost curves by more than ⟨Hess ξ, ξ⟩, so the
check adds what the metric says of the retraction's acceleration, found by differencing the metric itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankfold.checks.curves import measured
from rankfold.checks.slopes import SlopeCheck, Verdict, compared
from rankfold.geometry.base import Geometry, Point, Tangent, lincomb, scale
from rankfold.linalg import Array, core_of_product, norm_of_product
from rankfold.problem import Here, Problem

_TANGENT = 1e-8  # relative part of a derivative outside the horizontal space that is rounding
_SYMMETRIC = 1e-8
_LEVELS = 5  # of steps for an acceleration, where each value takes many retractions
_STEP = 0.02  # for the velocity of a retraction, of the distance at which it may break down
_SIXTH = np.array([-1, 9, -45, 45, -9, 1]) / 60  # central difference of sixth order
_PLACES = (-3, -2, -1, 1, 2, 3)
_ROUNDED = 1e-12  # relative error of a metric of such differences: rounding by the step, and more


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
    def verdict(self) -> Verdict:
        """Whether the Hessian is "right", "WRONG", or the check "inconclusive"."""
        return self.taylor.verdict if self.asymmetry < _SYMMETRIC else "WRONG"

    @property
    def ok(self) -> bool:
        """Whether the Hessian is proven right: not so if the check is inconclusive."""
        return self.verdict == "right"

    def __str__(self) -> str:
        symmetry = "" if self.asymmetry < _SYMMETRIC else ": WRONG"
        return f"{self.taylor}; asymmetry {self.asymmetry:.1e}{symmetry}"


def check_gradient(problem: Problem, x: Point | None = None, seed: int = 0) -> SlopeCheck:
    """Check the Riemannian gradient: f(R(tξ)) − f − t⟨grad, ξ⟩ must vanish like t².

    At `x`, or at a random point if None; ξ is random too. The answer is "right", "WRONG" or, where rounding
    hides the derivative, as at a critical point, "inconclusive".

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 0, 1, 2, 3], [0, 1, 1, 0, 2], [1.0, 2.0, 4.0, 3.0, 1.0], shape=(4, 3))
    >>> print(rf.check_gradient(rf.Problem(cost, rf.Polar((4, 3), rank=1))))
    gradient: slope 2.000, expected 2: right
    """
    here, xi = _somewhere(problem, x, seed)
    slope = problem.geometry.inner(here.x, here.gradient, xi)
    flaw = _outside(problem.geometry, here.x, here.gradient)
    return _along(here, "gradient", xi, [here.value, slope], flaw=flaw)


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
    beside, error = _acceleration(geometry, here.x, xi, here.gradient)
    curvature = geometry.inner(here.x, H_xi, xi) + beside
    model = [here.value, geometry.inner(here.x, here.gradient, xi), curvature / 2]
    taylor = _along(here, "Hessian", xi, model, error, _outside(geometry, here.x, H_xi))
    left, right = geometry.inner(here.x, H_xi, eta), geometry.inner(here.x, xi, H_eta)
    size = geometry.norm(here.x, H_xi) + geometry.norm(here.x, H_eta)
    return HessianCheck(taylor, abs(left - right) / size if size else 0.0)


def acceleration(geometry: Geometry, x: Point, xi: Tangent, gamma: Tangent) -> float:
    """Return ⟨γ, a⟩ for the covariant acceleration a of t ↦ R(tξ) at 0, from the metric and R alone.

    In the chart v ↦ R(v) the Christoffel symbols are derivatives of the metric, g(∂_ξ, ∂_γ) and g(∂_ξ, ∂_ξ):
    ⟨γ, a⟩ = ∂_ξ g(ξ, γ) − ½ ∂_γ g(ξ, ξ). Zero for a retraction of second order, which a geometry may declare.
    """
    return _acceleration(geometry, x, xi, gamma)[0]


def _acceleration(geometry: Geometry, x: Point, xi: Tangent, gamma: Tangent) -> tuple[float, float]:
    """Return the acceleration, and how far off it may be; directions are made as long as W allows."""
    sizes = _nearby(geometry, x, xi), _nearby(geometry, x, gamma)
    if geometry.second_order or not all(np.isfinite(sizes)):
        return 0.0, 0.0
    xi, gamma = scale(sizes[0], xi), scale(sizes[1], gamma)

    def metric(at: Tangent, u: Tangent, v: Tangent) -> float:
        y = geometry.retract(x, at)
        pushed = _pushed(geometry, x, y, at, u)
        return geometry.inner(y, pushed, pushed if v is u else _pushed(geometry, x, y, at, v))

    along_xi = measured(lambda t: metric(scale(t, xi), xi, gamma), 1, 0.25, _LEVELS, _ROUNDED)
    along_gamma = measured(lambda t: metric(scale(t, gamma), xi, xi), 1, 0.25, _LEVELS, _ROUNDED)
    unit = sizes[0] ** 2 * sizes[1]
    found = along_xi.derivative - along_gamma.derivative / 2
    return found / unit, (along_xi.error + along_gamma.error / 2) / unit


def _pushed(geometry: Geometry, x: Point, y: Point, at: Tangent, v: Tangent) -> Tangent:
    """Return the horizontal vector d/ds R(at + s v) at y = R(at)."""
    points = [geometry.retract(x, lincomb(1.0, at, k * _STEP, v)) for k in _PLACES]
    velocity = type(v)(*(_difference([getattr(p, name) for p in points]) / _STEP for name in y._fields))
    return geometry.to_horizontal(y, geometry.to_tangent(y, velocity))


def _difference(fields: list[Array]) -> Array:
    total = float(_SIXTH[0]) * fields[0]
    for weight, field in zip(_SIXTH[1:], fields[1:], strict=True):
        total = total + float(weight) * field
    return total


def speed(geometry: Geometry, x: Point, xi: Tangent) -> float:
    """Return ‖Ẇ‖, how fast W changes along ξ."""
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    return norm_of_product([dL, L], [R, dR])


def reach_of(geometry: Geometry, x: Point, xi: Tangent) -> float:
    """Return the t for which tẆ is as long as W: the unit of steps along ξ, whatever its length."""
    L, R = geometry.factors(x)
    moves = speed(geometry, x, xi)
    return norm_of_product([L], [R]) / moves if moves else 1.0


def _nearby(geometry: Geometry, x: Point, xi: Tangent) -> float:
    """Return the t for which tẆ is as long as W's least singular value: so near, all of R is smooth."""
    core = np.asarray(core_of_product(*geometry.factors(x)), dtype=np.float64)
    moves = speed(geometry, x, xi)
    return float(np.linalg.svd(core, compute_uv=False)[-1]) / moves if moves else np.inf


def _outside(geometry: Geometry, x: Point, z: Tangent) -> str:
    """Say how much of a derivative is no horizontal vector, if it is more than rounding."""
    inside = geometry.to_horizontal(x, geometry.to_tangent(x, z))
    size, gap = geometry.norm(x, z), geometry.norm(x, lincomb(1.0, z, -1.0, inside))
    return "" if gap <= _TANGENT * size else f"{gap / size:.1e} of it is not in the horizontal space"


def _somewhere(problem: Problem, x: Point | None, seed: int) -> tuple[Here, Tangent]:
    here = problem.at(problem.geometry.random_point(seed) if x is None else x)
    return here, problem.geometry.random_tangent(here.x, seed + 1)


def _along(
    here: Here, name: str, xi: Tangent, model: list[float], error: float = 0.0, flaw: str = ""
) -> SlopeCheck:
    """Check the last Taylor coefficient of t ↦ f(R(tξ))."""
    problem = here.problem

    def value(t: float) -> float:
        return problem.value(problem.geometry.retract(here.x, scale(t, xi)))

    return compared(name, value, model, reach_of(problem.geometry, here.x, xi), error, flaw)
