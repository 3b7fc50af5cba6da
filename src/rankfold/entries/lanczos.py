"""Dominant singular vectors of a matrix known by its products, by block Lanczos."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.store import Operator

Floats = NDArray[Any]
# Residuals of this part of σ_1 make singular values right to about its square. The zero-filled data are much
# further than this from the matrix sought: conjugate gradients take as many iterations from here as from the
# exact SVD (36, 94 to 96, 38 and 45 on P1, P3, P2 and P5 of `rankfold.kernels`, at 1e-4 as at 1e-2).
TOLERANCE = 1e-2
MAX_STEPS = 40
# A block that keeps this part of its square through projection is orthogonal enough for TOLERANCE.
SAFE = 1e-5
MIN_WIDTH = 4  # of a block: narrower ones take more steps than they save time


def dominant_svd(
    S: Operator, rank: int, seed: int = 0, first: Floats | None = None, tolerance: float = TOLERANCE
) -> tuple[Floats, Floats, Floats]:
    """Return the `rank` largest singular values and their vectors, S ≈ U diag(s) Vᵀ.

    Block Golub-Kahan-Lanczos with full reorthogonalisation, from a random block, or from `first` if right
    singular vectors are known nearly: S V = U B with B block bidiagonal, whose singular values and residuals
    come for free. Stops at residuals of `tolerance` times the largest value, or after `MAX_STEPS`.
    """
    width = max(rank, MIN_WIDTH) if first is None else first.shape[1]
    if min(S.shape) <= 4 * width:
        return _thin_svd(S, rank)
    steps = min(MAX_STEPS, min(S.shape) // width)
    dtype = S.dtype
    U, V = (np.empty((d, steps * width), dtype, order="F") for d in S.shape)
    B = np.zeros((steps * width, steps * width), dtype)
    V_k = np.random.default_rng(seed).standard_normal((S.shape[1], width)) if first is None else first
    V_k = V_k.astype(dtype, copy=False)
    V_k, _ = _orthonormal(V_k, V[:, :0])
    for k in range(steps):
        here, after = slice(k * width, (k + 1) * width), slice((k + 1) * width, (k + 2) * width)
        V[:, here] = V_k
        # S V_k = U_{k-1} T_{k-1}ᵀ + U_k R_k, of which the first term is known already
        U_k, B[here, here] = _orthonormal(S @ V_k, U[:, : here.start])
        U[:, here] = U_k
        V_k, T = _orthonormal(S.transposed_times(U_k), V[:, : here.stop])
        P, s, Qt = np.linalg.svd(B[: here.stop, : here.stop])
        if np.linalg.norm(T @ P[here, :rank], axis=0).max() <= tolerance * s[0] or k + 1 == steps:
            break
        B[here, after] = T.T
    return U[:, : here.stop] @ P[:, :rank], s[:rank], V[:, : here.stop] @ Qt[:rank].T


def _orthonormal(X: Floats, basis: Floats) -> tuple[Floats, Floats]:
    """Q with orthonormal columns, orthogonal to the basis, and R, so that X = Q R + what the basis spans."""
    before = np.linalg.norm(X)
    X = X - basis @ (basis.T @ X)
    gram = X.T @ X
    if before and np.linalg.eigvalsh(gram)[0] > SAFE * before**2:
        C = np.linalg.cholesky(gram)
        return X @ np.linalg.inv(C).T, C.T
    # Little is left of X, or less than its width in directions: rounding errors must be projected out again.
    Q, R = np.linalg.qr(X)
    Q, again = np.linalg.qr(Q - basis @ (basis.T @ Q))
    return Q, again @ R


def _thin_svd(S: Operator, rank: int) -> tuple[Floats, Floats, Floats]:
    """By a dense SVD, for matrices with one side of not much more than the rank."""
    if S.shape[0] < S.shape[1]:
        V, s, Ut = np.linalg.svd(S.transposed_times(np.eye(S.shape[0])), full_matrices=False)
        return Ut[:rank].T, s[:rank], V[:, :rank]
    U, s, Vt = np.linalg.svd(S @ np.eye(S.shape[1]), full_matrices=False)
    return U[:, :rank], s[:rank], Vt[:rank].T
