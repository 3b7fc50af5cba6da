"""Dominant singular vectors of a sparse matrix, by block Lanczos on our own parallel products."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.observed import Observed, Side, sweep

Floats = NDArray[Any]
# Residuals of this part of σ_1 make singular values right to about its square. The zero-filled data are much
# further than this from the matrix sought: conjugate gradients take as many iterations from here as from the
# exact SVD (36, 94 to 96, 38 and 45 on P1, P3, P2 and P5, at 1e-4 as at 1e-2).
TOLERANCE = 1e-2
MAX_STEPS = 40
# A block that keeps this part of its square through projection is orthogonal enough for TOLERANCE.
SAFE = 1e-5
MIN_WIDTH = 4  # of a block: narrower ones take more steps than they save time


class Operator(Protocol):
    """A matrix known by its products with tall blocks."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        ...

    def __matmul__(self, X: Floats) -> Floats: ...

    def transposed_times(self, X: Floats) -> Floats:
        """Aᵀ X."""
        ...


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Values at the positions of Ω, zero elsewhere.

    `values` gives them by row and by column.
    """

    observed: Observed
    values: tuple[Floats, Floats]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.observed.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        return self.values[0].dtype

    def __matmul__(self, X: Floats) -> Floats:
        """S X."""
        return _product(self.observed.by_row, self.values[0], X)

    def transposed_times(self, X: Floats) -> Floats:
        """Sᵀ X."""
        return _product(self.observed.by_column, self.values[1], X)


def slopes(
    observed: Observed, L: Floats, R: Floats, loss: Any, parameter: float, scale: float
) -> SparseMatrix:
    """Return `scale` times the (weighted) first derivatives of the loss at L Rᵀ, on Ω."""
    from rankfold.kernels import sweeps

    kernel = sweeps.slopes(L.shape[1], loss, observed.weighted)
    by_row, by_column = np.empty(observed.size, L.dtype), np.empty(observed.size, L.dtype)
    passes = (
        (observed.by_row, (L, R, parameter, scale, by_row)),
        (observed.by_column, (R, L, parameter, scale, by_column)),
    )
    sweep(kernel, 2 * observed.size * L.shape[1], *passes)
    return SparseMatrix(observed, (by_row, by_column))


@dataclass(frozen=True, eq=False)
class Indicator:
    """Ones at the positions of Ω, zero elsewhere."""

    observed: Observed

    def __matmul__(self, X: Floats) -> Floats:
        """S X."""
        return _product(self.observed.by_row, None, X)

    def transposed_times(self, X: Floats) -> Floats:
        """Sᵀ X."""
        return _product(self.observed.by_column, None, X)


def _product(side: Side, values: Floats | None, X: Floats) -> Floats:
    from rankfold.kernels import sweeps

    dtype = np.float64 if values is None else values.dtype
    X = np.ascontiguousarray(X, dtype=dtype)
    Y = np.empty((side.lines, X.shape[1]), dtype)
    kernel = sweeps.product(X.shape[1], valued=values is not None)
    side = side if values is None else replace(side, data=values[:, None])
    sweep(kernel, X.size * side.indices.size / len(X), (side, (X, Y)))
    return Y


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
