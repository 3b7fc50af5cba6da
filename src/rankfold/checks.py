"""Numerical proofs that derivatives and geometries are right; run them on a cost or geometry of your own.

A derivative is checked by the order at which its Taylor error vanishes: 2 for a gradient, 3 for a Hessian.
The Hessian needs care: along a retraction of first order the cost curves by more than ⟨Hess ξ, ξ⟩, so the
check adds what the metric says of the retraction's acceleration, found by differencing the metric itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankfold.geometry.base import Geometry, Point, Tangent, lincomb, scale
from rankfold.linalg import Array
from rankfold.problem import Here, Problem

Floats = NDArray[np.float64]

_STEPS = np.logspace(-6, -0.5, 45)
_WINDOW = 12  # consecutive steps that a slope is fitted to: a decade and a half


@dataclass(frozen=True)
class SlopeCheck:
    """The order at which an error vanishes, fitted to the straightest stretch of its log-log curve."""

    name: str
    expected: float
    slope: float
    steps: Floats
    errors: Floats

    @property
    def ok(self) -> bool:
        """Whether the error vanishes at the expected order or faster."""
        return self.slope > self.expected - 0.1

    def __str__(self) -> str:
        return f"{self.name}: slope {self.slope:.3f}, expected {self.expected:g}: {_verdict(self.ok)}"


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


@dataclass(frozen=True)
class GeometryCheck:
    """The properties of a geometry, each with its error and the tolerance that the error must meet."""

    geometry: Geometry
    errors: dict[str, tuple[float, float]]

    @property
    def ok(self) -> bool:
        """Whether every property holds."""
        return all(error <= tolerance for error, tolerance in self.errors.values())

    def __str__(self) -> str:
        rows = [f"  {n}: {e:.1e} (≤ {t:.0e}): {_verdict(e <= t)}" for n, (e, t) in self.errors.items()]
        return "\n".join([repr(self.geometry), *rows])


def check_gradient(problem: Problem, x: Point | None = None, seed: int = 0) -> SlopeCheck:
    """Check the Riemannian gradient: f(R(tξ)) − f − t⟨grad, ξ⟩ must vanish like t².

    Parameters
    ----------
    problem
        The cost and the geometry.
    x
        The point; a random one if None.
    seed
        Of the random point and direction.

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

    Parameters
    ----------
    problem
        The cost and the geometry.
    x
        The point; a random one if None. It need not be critical.
    seed
        Of the random point and directions.

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


def check_retraction(geometry: Geometry, x: Point | None = None, seed: int = 0) -> SlopeCheck:
    """Check that W(R(tξ)) leaves W along Ẇ: the difference to W + tẆ must vanish like t².

    Examples
    --------
    >>> import rankfold as rf
    >>> print(rf.check_retraction(rf.Embedded((6, 5), rank=2)))
    retraction: slope 2.000, expected 2: right
    """
    x = geometry.random_point(seed) if x is None else x
    xi = geometry.random_tangent(x, seed + 1)
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    errors = []
    for t in _STEPS:
        L_t, R_t = geometry.factors(geometry.retract(x, scale(float(t), xi)))
        errors.append(product_norm([L_t, -1 * L, -float(t) * dL, -float(t) * L], [R_t, R, R, dR]))
    return _fit("retraction", 2, np.array(errors), floor=1e-15 * product_norm([L], [R]))


def check_geometry(geometry: Geometry, seed: int = 0) -> GeometryCheck:
    """Check every property that solvers rely on, at a random point.

    Examples
    --------
    >>> import rankfold as rf
    >>> rf.check_geometry(rf.SubspaceProjection((6, 5), rank=2)).ok
    True
    """
    x = geometry.validate(geometry.random_point(seed))
    errors = {
        **_projection_errors(geometry, x, seed),
        **_fibre_errors(geometry, x, seed),
        **_motion_errors(geometry, x, seed),
    }
    return GeometryCheck(geometry, errors)


def _projection_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, tuple[float, float]]:
    rng = np.random.default_rng(seed)
    z = type(geometry.zero(x))(*(rng.standard_normal(y.shape) for y in geometry.zero(x)))
    tangent = geometry.to_tangent(x, z)
    horizontal = geometry.to_horizontal(x, tangent)
    vertical = lincomb(1.0, tangent, -1.0, horizontal)
    size = geometry.norm(x, tangent)
    moved = product_norm(*_velocity(geometry, x, vertical))
    return {
        "Ψ is idempotent": (_gap(geometry, x, geometry.to_tangent(x, tangent), tangent) / size, 1e-12),
        "Π is idempotent": (
            _gap(geometry, x, geometry.to_horizontal(x, horizontal), horizontal) / size,
            1e-10,
        ),
        "Π is orthogonal": (abs(geometry.inner(x, horizontal, vertical)) / size**2, 1e-10),
        "Π removes only what leaves W alone": (moved / product_norm(*_velocity(geometry, x, tangent)), 1e-10),
        "a random tangent is horizontal": (
            float(not geometry.is_horizontal(x, geometry.random_tangent(x, seed), 1e-10)),
            0.0,
        ),
    }


def _fibre_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, tuple[float, float]]:
    M = geometry.random_symmetry(seed)
    xi, eta = geometry.random_tangent(x, seed + 1), geometry.random_tangent(x, seed + 2)
    x2, xi2, eta2 = geometry.act(x, M), geometry.act(xi, M), geometry.act(eta, M)
    (L, R), (L2, R2) = geometry.factors(x), geometry.factors(x2)
    step, step2 = geometry.retract(x, xi), geometry.retract(x2, xi2)
    return {
        "W is the same along the fibre": (_relative(L, R, L2, R2), 1e-10),
        "the metric is the same along the fibre": (
            abs(geometry.inner(x, xi, eta) - geometry.inner(x2, xi2, eta2)),
            1e-10,
        ),
        "the retraction is the same along the fibre": (
            _relative(*geometry.factors(step), *geometry.factors(step2)),
            1e-10,
        ),
        "horizontal stays horizontal along the fibre": (
            _gap(geometry, x2, geometry.to_horizontal(x2, xi2), xi2),
            1e-10,
        ),
    }


def _motion_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, tuple[float, float]]:
    xi = geometry.random_tangent(x, seed + 1)
    y = geometry.validate(geometry.retract(x, xi))
    moved = geometry.transport(x, xi, y)
    stays = geometry.factors(geometry.retract(x, geometry.zero(x)))
    return {
        "R(0) stays": (_relative(*geometry.factors(x), *stays), 1e-12),
        "R(tξ) leaves along ξ": (max(0.0, 2 - check_retraction(geometry, x, seed).slope), 0.1),
        "transport lands in the tangent space": (
            _gap(geometry, y, geometry.to_tangent(y, moved), moved),
            1e-10,
        ),
        "transport lands in the horizontal space": (
            _gap(geometry, y, geometry.to_horizontal(y, moved), moved),
            1e-10,
        ),
    }


def acceleration(geometry: Geometry, x: Point, xi: Tangent, gamma: Tangent, step: float = 2e-3) -> float:
    """Return ⟨γ, a⟩ for the covariant acceleration a of t ↦ R(tξ) at 0, from the metric and R alone.

    In the chart v ↦ R(v) the Christoffel symbols are derivatives of the metric, g(∂_ξ, ∂_γ) and g(∂_ξ, ∂_ξ):
    ⟨γ, a⟩ = ∂_ξ g(ξ, γ) − ½ ∂_γ g(ξ, ξ). Zero for a retraction of second order, which a geometry may declare.
    """
    if geometry.second_order:
        return 0.0
    size = geometry.norm(x, gamma)
    if size == 0.0:
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
    values = [problem.value(problem.geometry.retract(x, scale(float(t), xi))) for t in _STEPS]
    errors = np.abs(np.array(values) - np.polynomial.polynomial.polyval(_STEPS, model))
    return _fit(name, expected, errors, floor=1e-15 * max(abs(model[0]), max(map(abs, values))))


def _fit(name: str, expected: float, errors: Floats, floor: float) -> SlopeCheck:
    """Fit the slope to the window with the straightest log-log curve, of those above the rounding floor."""
    if np.max(errors) <= 100 * floor:  # nothing to see but rounding: the model is exact
        return SlopeCheck(name, expected, np.inf, _STEPS, errors)
    log_t, log_e = np.log(_STEPS), np.log(np.maximum(errors, floor))
    best, best_slope = np.inf, 0.0
    for i in range(len(_STEPS) - _WINDOW + 1):
        window = slice(i, i + _WINDOW)
        if np.min(errors[window]) <= 100 * floor:
            continue
        intercept, slope = np.polynomial.polynomial.polyfit(log_t[window], log_e[window], 1)
        misfit = float(np.sum((log_e[window] - intercept - slope * log_t[window]) ** 2))
        if misfit < best:
            best, best_slope = misfit, float(slope)
    return SlopeCheck(name, expected, best_slope, _STEPS, errors)


def product_norm(Ls: list[Array], Rs: list[Array]) -> float:
    """Return ‖Σ L_i R_iᵀ‖_F, accurate to rounding however much the terms cancel."""
    L, R = (np.concatenate([np.asarray(A, dtype=np.float64) for A in As], axis=1) for As in (Ls, Rs))
    return float(np.linalg.norm(np.linalg.qr(L)[1] @ np.linalg.qr(R)[1].T))


def _relative(L: Array, R: Array, L2: Array, R2: Array) -> float:
    return product_norm([L, -1 * L2], [R, R2]) / product_norm([L], [R])


def _velocity(geometry: Geometry, x: Point, xi: Tangent) -> tuple[list[Array], list[Array]]:
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    return [dL, L], [R, dR]


def _gap(geometry: Geometry, x: Point, xi: Tangent, eta: Tangent) -> float:
    return geometry.norm(x, lincomb(1.0, xi, -1.0, eta))


def _verdict(ok: bool) -> str:
    return "right" if ok else "WRONG"
