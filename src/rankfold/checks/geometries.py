"""The properties of a geometry that solvers rely on, each at a random point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankfold.checks.derivatives import reach_of
from rankfold.checks.slopes import SlopeCheck, compared, judgement
from rankfold.geometry.base import Geometry, Point, Tangent, lincomb, normal, own_stream, scale
from rankfold.linalg import Array, gram, norm_of_product, trace

_TOLERANCE = 1e-10
_OTHER_TOLERANCES = {"Ψ is idempotent": 1e-12, "R(0) stays": 1e-12, "R(tξ) leaves along ξ": 0.0}
_STREAM = 3  # of random numbers: the streams of points and tangents are others


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
        rows = [f"  {n}: {e:.1e} (≤ {t:.0e}): {judgement(e <= t)}" for n, (e, t) in self.errors.items()]
        return "\n".join([repr(self.geometry), *rows])


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
    A, B = _random_matrix(geometry, x, seed)

    def shadow(L: Array, R: Array) -> float:
        """⟨ABᵀ, LRᵀ⟩: a curve of numbers shows what one of matrices does, in a random direction."""
        return trace(gram(gram(A, L).T, gram(R, B)))

    def curve(t: float) -> float:
        return shadow(*geometry.factors(geometry.retract(x, scale(t, xi))))

    model = [shadow(L, R), shadow(dL, R) + shadow(L, dR)]
    return compared("retraction", curve, model, reach_of(geometry, x, xi))


def _random_matrix(geometry: Geometry, x: Point, seed: int) -> tuple[Array, Array]:
    """Return factors of a random matrix, as long as L and R."""
    rng = own_stream(seed, _STREAM)
    A, B = (normal(rng, tuple(Z.shape), Z) for Z in geometry.factors(x))
    return A, B


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
        **_metric_errors(geometry, x, seed),
        **_fibre_errors(geometry, x, seed),
        **_motion_errors(geometry, x, seed),
        **_transport_errors(geometry, x, seed),
    }
    with_tolerances = {n: (error, _OTHER_TOLERANCES.get(n, _TOLERANCE)) for n, error in errors.items()}
    return GeometryCheck(geometry, with_tolerances)


def _projection_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    z = type(geometry.zero(x))(*(rng.standard_normal(y.shape) for y in geometry.zero(x)))
    tangent = geometry.to_tangent(x, z)
    horizontal = geometry.to_horizontal(x, tangent)
    vertical = lincomb(1.0, tangent, -1.0, horizontal)
    size = geometry.norm(x, tangent)
    L, R = geometry.factors(x)
    velocities = (geometry.tangent_factors(x, xi) for xi in (vertical, tangent))
    moved, moves = (norm_of_product([dL, L], [R, dR]) for dL, dR in velocities)
    drawn = geometry.random_tangent(x, seed)
    return {
        "Ψ is idempotent": _gap(geometry, x, geometry.to_tangent(x, tangent), tangent) / size,
        "Π is idempotent": _gap(geometry, x, geometry.to_horizontal(x, horizontal), horizontal) / size,
        "Π is orthogonal": abs(geometry.inner(x, horizontal, vertical)) / size**2,
        "Π removes only what leaves W alone": moved / moves,
        "a random tangent is horizontal": float(not geometry.is_horizontal(x, drawn, _TOLERANCE)),
    }


def _metric_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, float]:
    """An inner product, by which the gradient stands for the derivative of a linear cost ⟨ABᵀ, W⟩."""
    xi, eta = geometry.random_tangent(x, seed + 1), geometry.random_tangent(x, seed + 2)
    both = geometry.inner(x, xi, eta)
    together = geometry.inner(x, lincomb(1.0, xi, 2.0, eta), eta)
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    A, B = _random_matrix(geometry, x, seed)
    f_L, f_R = A @ gram(B, R), B @ gram(A, L)
    if geometry.symmetric:
        f_L = f_R = (f_L + f_R) / 2
    slope = trace(gram(f_L, dL)) + trace(gram(f_R, dR))
    gradient = geometry.gradient(x, f_L, f_R)
    size = geometry.norm(x, gradient)
    return {
        "the metric is symmetric": abs(both - geometry.inner(x, eta, xi)),
        "the metric is linear": abs(together - both - 2 * geometry.inner(x, eta, eta)),
        "the metric is positive": float(not geometry.inner(x, xi, xi) > 0),
        "the gradient is the derivative in the metric": abs(geometry.inner(x, gradient, xi) - slope) / size,
    }


def _fibre_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, float]:
    M = geometry.random_symmetry(seed)
    xi, eta = geometry.random_tangent(x, seed + 1), geometry.random_tangent(x, seed + 2)
    x2, xi2, eta2 = geometry.act(x, M), geometry.act(xi, M), geometry.act(eta, M)
    step, step2 = geometry.retract(x, xi), geometry.retract(x2, xi2)
    inner, inner2 = geometry.inner(x, xi, eta), geometry.inner(x2, xi2, eta2)
    horizontal2 = geometry.to_horizontal(x2, xi2)
    return {
        "W is the same along the fibre": _relative(geometry, x, x2),
        "the metric is the same along the fibre": abs(inner - inner2),
        "the retraction is the same along the fibre": _relative(geometry, step, step2),
        "horizontal stays horizontal along the fibre": _gap(geometry, x2, horizontal2, xi2),
    }


def _motion_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, float]:
    geometry.validate(geometry.retract(x, geometry.random_tangent(x, seed + 1)))
    leaves = check_retraction(geometry, x, seed)
    return {
        "R(0) stays": _relative(geometry, x, geometry.retract(x, geometry.zero(x))),
        "R(tξ) leaves along ξ": 0.0 if leaves.ok else abs(leaves.claimed - leaves.found) or np.nan,
    }


def _transport_errors(geometry: Geometry, x: Point, seed: int) -> dict[str, float]:
    xi, eta = geometry.random_tangent(x, seed + 1), geometry.random_tangent(x, seed + 2)
    y, M = geometry.retract(x, xi), geometry.random_symmetry(seed)
    moved, beside = geometry.transport(x, xi, y), geometry.transport(x, eta, y)
    together = geometry.transport(x, lincomb(1.0, xi, 2.0, eta), y)
    x2, y2 = geometry.act(x, M), geometry.act(y, M)
    moved2 = geometry.transport(x2, geometry.act(xi, M), y2)
    product = geometry.transported_inner(x, xi, y, beside)
    return {
        "transport lands in the tangent space": _gap(geometry, y, geometry.to_tangent(y, moved), moved),
        "transport lands in the horizontal space": _gap(geometry, y, geometry.to_horizontal(y, moved), moved),
        "transport to where it is changes nothing": _gap(geometry, x, geometry.transport(x, eta, x), eta),
        "transport is linear": _gap(geometry, y, together, lincomb(1.0, moved, 2.0, beside)),
        "transport is the same along the fibre": _gap(geometry, y2, moved2, geometry.act(moved, M)),
        "products with what is transported are its own": abs(product - geometry.inner(y, moved, beside)),
    }


def _relative(geometry: Geometry, x: Point, y: Point) -> float:
    """Return how far the W of y is from that of x."""
    (L, R), (L2, R2) = geometry.factors(x), geometry.factors(y)
    return norm_of_product([L, -1 * L2], [R, R2]) / norm_of_product([L], [R])


def _gap(geometry: Geometry, x: Point, xi: Tangent, eta: Tangent) -> float:
    return geometry.norm(x, lincomb(1.0, xi, -1.0, eta))
