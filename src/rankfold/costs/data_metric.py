"""The metric of the data: what one row of L, or of R, sees of a cost, inverted line by line."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.costs.base import Array, Cost
from rankfold.entries.arrays import like, to_numpy
from rankfold.linalg import gram, svd_of_product

# The part of the average block that every line gets besides its own: 0.002 to 0.1 take as many iterations.
SHARE = 0.02
_CHUNKS = 64  # that threads share out


@dataclass(frozen=True, eq=False)
class _Side:
    """The lines of one side: a basis of the other side's factor, its scales, and the inverted blocks."""

    basis: Array
    roots: Array
    inverse: NDArray[Any]

    def change(self, Y: Array) -> Array:
        """Return K of the best approximation Y ≈ Y₀ K."""
        return gram(self.basis, Y) / self.roots[:, None]

    def solve(self, Y: Array, f: Array) -> Array:
        """Return K⁻¹ A_i⁻¹ K⁻ᵀ f_i, line by line."""
        (x,) = to_numpy(f)
        N = np.linalg.inv(to_numpy(self.change(Y))[0]).astype(x.dtype)
        out, r = np.empty_like(x), x.shape[1]
        arguments = _bounds(len(x)), self.inverse, N, np.ascontiguousarray(N.T), x, out
        kernels.pool.run(kernels.line_blocks.solve(r), _CHUNKS, 4 * x.size * r, arguments)
        return like(f, out)

    def turned(self, Y: Array) -> float:
        """Return the mean of sin² of the angles between the columns of Y and those at which it was formed."""
        (Q, K) = (to_numpy(M)[0] for M in (gram(Y, Y), gram(self.basis, Y)))
        return 1.0 - float(np.trace(np.linalg.solve(Q, K.T @ K))) / len(K)


@dataclass(frozen=True, eq=False)
class DataMetric:
    """Σ_i dL_iᵀ A_i dL_i + Σ_j dR_jᵀ B_j dR_j, with the blocks A_i, B_j that a cost has for its lines.

    For completion A_i = Σ_{j ∈ Ω_i} w ℓ″ R_j R_jᵀ: where every entry is seen, RᵀR, and this is the
    preconditioned metric of `FullRank`. A share of RᵀR is added, so that lines with few entries stay bounded,
    and all is divided by a number that makes the average block RᵀR.

    Under (L, R) ↦ (L M⁻¹, R Mᵀ), A_i becomes M A_i Mᵀ and dL_i becomes M⁻ᵀ dL_i: the metric is invariant, so
    it is one of matrices W, on the same quotient for all geometries. Its gradient has dL_i = A_i⁻¹ (S R)_i,
    dR_j = B_j⁻¹ (SᵀL)_j; a geometry translates these to a horizontal vector of its own (`Geometry.lift`).

    Blocks are formed at one point, with balanced factors L₀ and R₀, and used at others, where R ≈ R₀ K and so
    A_i ≈ KᵀA_i K: it does not matter how the factors of the one or the other point were chosen.
    """

    rows: _Side
    cols: _Side

    @staticmethod
    def formed(cost: Cost, L: Array, R: Array) -> DataMetric | None:
        """Form the blocks at L Rᵀ; None where the cost has no curvature there."""
        xp = array_namespace(L)
        U, s, V = svd_of_product(L, R)
        roots = xp.sqrt(s)
        blocks = cost.line_blocks(U * roots, V * roots)
        scales = to_numpy(s)[0]
        average = float(np.mean([np.einsum("ikk,k->", side, 1 / scales) / len(side) for side in blocks]))
        average /= len(scales)
        if not (isfinite(average) and average > 0):
            return None
        return DataMetric(
            *(
                _Side(Q, roots, _inverted(side, average, scales))
                for side, Q in zip(blocks, (V, U), strict=True)
            )
        )

    def solve(self, L: Array, R: Array, f_L: Array, f_R: Array) -> tuple[Array, Array]:
        """Return (dL, dR), the gradient in this metric at L Rᵀ, from the partial derivatives."""
        return self.rows.solve(R, f_L), self.cols.solve(L, f_R)

    def turned(self, L: Array, R: Array) -> float:
        """Say how far L and R have turned from where this was formed: 0 not at all, 1 altogether."""
        return max(self.rows.turned(R), self.cols.turned(L))


def _inverted(blocks: NDArray[Any], average: float, scales: NDArray[Any]) -> NDArray[Any]:
    lines, r, _ = blocks.shape
    Q: NDArray[Any] = np.multiply(blocks, 1 / average, dtype=scales.dtype).reshape(lines * r, r)
    lost = 10 * float(np.finfo(Q.dtype).eps)
    arguments = _bounds(lines), Q, np.ascontiguousarray(SHARE * scales), lost
    kernels.pool.run(kernels.line_blocks.invert(r), _CHUNKS, lines * r**3 / 2, arguments)
    return Q


def _bounds(lines: int) -> NDArray[np.uint64]:
    return np.linspace(0, lines, min(_CHUNKS, lines) + 1).astype(np.uint64)
