"""A start point for any smooth cost: one step down its gradient at W = 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Cost
from rankfold.linalg import gram, orthonormal, thin_svd, trace

Floats = NDArray[np.float64]
POWER_STEPS = 4  # of subspace iteration: a start needs the right directions, not digits
HALVINGS = 60
FLOOR = 1e-8  # least singular value of a start point, relative to the largest


def downhill_start(cost: Cost, rank: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return -t S_r as (U, s, V), with S_r the dominant part of rank r of S = ∇f(0), and t a Newton step.

    S is seen through the partial derivatives alone: at L = 0, f_L = S R for any R, whatever penalty L has.
    """
    d1, d2 = cost.shape
    rng = np.random.default_rng(seed)
    V = orthonormal(rng.standard_normal((d2, rank)))
    for _ in range(POWER_STEPS):
        U = orthonormal(cost.evaluate_factored(np.zeros((d1, rank)), V).f_L)
        S_U = cost.evaluate_factored(U, np.zeros((d2, rank))).f_R
        V = orthonormal(S_U)
    V, s, Qt = thin_svd(S_U)
    U = U @ Qt.T
    change, _ = cost.derivative(np.zeros((d1, rank)), V, U * s, np.zeros((d2, rank)))
    curvature = trace(gram(U * s, change))
    t = float(s @ s) / curvature if curvature > 0 else 1.0
    return filled_up_svd(-U, shortened(cost, -U, t * s, V), V, rank, seed)


def shortened(cost: Cost, U: Floats, s: Floats, V: Floats) -> Floats:
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


def filled_up_svd(U: Floats, s: Floats, V: Floats, rank: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return the singular value decomposition with `rank` positive values, tiny ones for those missing."""
    rng = np.random.default_rng(seed)
    missing = rank - s.size
    if missing > 0:
        U, V = (np.hstack([X, _orthonormal(X, rng.standard_normal((len(X), missing)))]) for X in (U, V))
        s = np.concatenate([s, np.zeros(missing)])
    largest = float(s[0]) if s[0] > 0 and np.isfinite(s[0]) else 1.0
    return U, np.maximum(s, FLOOR * largest), V


def _orthonormal(X: Floats, Y: Floats) -> Floats:
    """Return a basis, orthogonal to X, of what X leaves of Y."""
    for _ in range(2):  # twice is enough
        Y = Y - X @ gram(X, Y)
    basis: Floats = orthonormal(Y)
    return basis
