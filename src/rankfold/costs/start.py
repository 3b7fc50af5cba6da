"""A start point for any smooth cost: one step down its gradient at W = 0."""

from __future__ import annotations

import numpy as np
from array_api_compat import device

from rankfold.costs.base import Array, Cost
from rankfold.linalg import gram, namespace, normal_like, orthonormal, thin_svd, trace

POWER_STEPS = 4  # of subspace iteration: a start needs the right directions, not digits
HALVINGS = 60
FLOOR = 1e-8  # least singular value of a start point, relative to the largest


def downhill_start(cost: Cost, rank: int, seed: int) -> tuple[Array, Array, Array]:
    """Return -t S_r as (U, s, V), with S_r the dominant part of rank r of S = ∇f(0), and t a Newton step.

    S is seen through the partial derivatives alone: at L = 0, f_L = S R for any R, whatever penalty L has.
    All is done where the cost has its data.
    """
    rng = np.random.default_rng(seed)
    zero_L, zero_R = (cost.as_factor(np.zeros((d, rank))) for d in cost.shape)
    V = orthonormal(cost.as_factor(rng.standard_normal((cost.shape[1], rank))))
    for _ in range(POWER_STEPS):
        U = orthonormal(cost.evaluate_factored(zero_L, V).f_L)
        S_U = cost.evaluate_factored(U, zero_R).f_R
        V = orthonormal(S_U)
    V, s, Qt = thin_svd(S_U)
    U = U @ Qt.T
    change, _ = cost.derivative(zero_L, V, U * s, zero_R)
    curvature = trace(gram(U * s, change))
    t = float(s @ s) / curvature if curvature > 0 else 1.0
    return filled_up_svd(-U, shortened(cost, -U, t * s, V), V, rank, seed)


def shortened(cost: Cost, U: Array, s: Array, V: Array) -> Array:
    """Return s, halved until the cost is lower at U diag(s) Vᵀ than at W = 0.

    A step that a quadratic model makes at 0 may lead far beyond where that model holds: to exp(300), for
    large counts.
    """
    if cost.quadratic:
        return s
    at_zero = cost.value_at_zero
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(HALVINGS):
            if cost.value(U * s, V) < at_zero:
                return s
            s = s / 2
    return s


def filled_up_svd(U: Array, s: Array, V: Array, rank: int, seed: int) -> tuple[Array, Array, Array]:
    """Return the singular value decomposition with `rank` positive values, tiny ones for those missing."""
    rng, xp = np.random.default_rng(seed), namespace(U)
    missing = rank - s.shape[0]
    if missing > 0:
        U, V = (
            xp.concat([X, _orthonormal(X, normal_like(rng, (X.shape[0], missing), X))], axis=1)
            for X in (U, V)
        )
        s = xp.concat([s, xp.zeros(missing, dtype=s.dtype, device=device(s))])
    largest = float(s[0]) if 0 < float(s[0]) < np.inf else 1.0
    return U, xp.clip(s, min=FLOOR * largest), V


def _orthonormal(X: Array, Y: Array) -> Array:
    """Return a basis, orthogonal to X, of what X leaves of Y."""
    for _ in range(2):  # twice is enough
        Y = Y - X @ gram(X, Y)
    return orthonormal(Y)
