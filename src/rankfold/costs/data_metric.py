"""The metric of the data: what one row of L, or of R, sees of a cost, inverted line by line."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Array, Cost
from rankfold.entries.arrays import like, near
from rankfold.linalg import gram, on_gpu, svd_of_product
from rankfold.linalg.lines import Applied, Blocks, applied, diagonal_sums, inverted
from rankfold.linalg.primitives import on_host
from rankfold.linalg.rows import added_up, at_hand, in_place_of
from rankfold.linalg.tall import Tall, reals
from rankfold.remembered import remembered

Smalls = NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]  # two r×r matrices, of the left side and the right

# The part of the average block that every line gets besides its own: 0.002 to 0.1 take as many iterations.
SHARE = 0.02


@dataclass(frozen=True, eq=False)
class _Side:
    """The lines of one side: a basis of the other side's factor, its scales, and the inverted blocks.

    Arrays of fixed order, NumPy's unless the cost is on a GPU, so that blocks which a resumed run forms again
    are the same bit for bit.
    """

    basis: Array
    roots: NDArray[Any]
    inverse: Array

    @remembered
    def tall(self) -> Tall:
        """The basis, as formulas take it."""
        return Tall.of(self.basis)


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

    `unit` is the number that all is multiplied with: the step-size where curvatures are those of the blocks.
    """

    rows: _Side
    cols: _Side
    unit: float

    @staticmethod
    def formed(cost: Cost, L: Array, R: Array, symmetric: bool = False) -> DataMetric | None:
        """Form the blocks at L Rᵀ; None where the cost has no curvature there.

        Where W is symmetric, a line is a row and a column at once, and its block is the mean of the two.
        """
        L, R = (in_place_of(Z, own) for Z, own in zip((L, R), near(at_hand(L), at_hand(R)), strict=True))
        lazy_U, s, lazy_V = svd_of_product(Tall.of(L), Tall.of(R))
        roots = np.sqrt(s)
        U, V, *factors = reals([lazy_U, lazy_V, lazy_U * roots, lazy_V * roots])
        blocks: tuple[Blocks, Blocks]
        if symmetric:
            of_rows, of_cols = cost.line_blocks(*factors)
            mean = (of_rows + of_cols) / 2
            blocks = mean, mean
        else:
            blocks = cost.blocks_to_invert(*factors)
        # Tr((RᵀR)⁻¹A_i)/r in the mean over the lines of both sides
        average = float(np.mean([_mean(side, Z) / s for side, Z in zip(blocks, (L, R), strict=True)]))
        if not (isfinite(average) and average > 0):
            return None
        of_rows, of_cols = blocks
        unit = 1 / average
        return DataMetric(_side(of_rows, unit, V, s), _side(of_cols, unit, U, s), unit)

    def solve(self, L: Array, R: Array, f_L: Array, f_R: Array) -> tuple[Array, Array]:
        """Return (dL, dR), the gradient in this metric at L Rᵀ, from the partial derivatives."""
        found = self.solved(self.seen(L, R), *near(at_hand(f_L), at_hand(f_R)))
        dL, dR = (in_place_of(f, like(at_hand(f), d)) for f, d in zip((f_L, f_R), found, strict=True))
        return dL, dR

    def seen(self, L: Array, R: Array) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the products of the bases with L and R, which are all that is asked of these."""
        left, right = self.bases
        return gram(left, L), gram(right, R)

    def solved(self, seen: Smalls, x: Array, y: Array) -> list[Array]:
        """Return what `solve` does, for factors that were `seen` and derivatives next to the blocks.

        With K of the best approximation Y ≈ Y₀ K, that is K⁻¹ A_i⁻¹ K⁻ᵀ x_i, line by line.
        """
        left, right = np.linalg.inv(np.asarray(seen) / self.rows.roots[:, None])
        sides = Applied(self.rows.inverse, right, at_hand(x)), Applied(self.cols.inverse, left, at_hand(y))
        return [in_place_of(f, change) for f, change in zip((x, y), applied(*sides), strict=True)]

    @property
    def bases(self) -> tuple[Tall, Tall]:
        """What the factors L and R are compared with."""
        return self.cols.tall, self.rows.tall

    @remembered
    def scales(self) -> Array:
        """The scales of the bases, next to blocks that are on a GPU."""
        return on_gpu.brought(self.rows.roots.astype(np.float64), self.rows.inverse)

    def turned(self, L: Array, R: Array) -> float:
        """Say how far L and R have turned from where this was formed: 0 not at all, 1 altogether."""
        return turned(self.seen(L, R), (on_host(gram(L, L)), on_host(gram(R, R))))


def turned(seen: Smalls, squares: Smalls) -> float:
    """Return the mean of sin² of the angles between columns, of the side on which it is larger.

    Between those of factors Y, with the Grams `squares`, and those of bases that were `seen` there.
    """
    pairs = zip(seen, squares, strict=True)
    return max(1.0 - float(np.trace(np.linalg.solve(M, K.T @ K))) / len(K) for K, M in pairs)


def _mean(blocks: Blocks, lines: Array) -> NDArray[Any]:
    """Return the mean of the diagonals over all lines, from the blocks of those at hand."""
    mean: NDArray[Any] = added_up(lines, diagonal_sums(blocks)) / lines.shape[0]
    return mean


def _side(blocks: Blocks, scale: float, basis: Array, s: NDArray[Any]) -> _Side:
    """Invert scale A_i + SHARE diag(s), in single precision: it is read once for each gradient."""
    lost = 10 * float(np.finfo(s.dtype).eps)
    return _Side(basis, np.sqrt(s), inverted(blocks, scale, SHARE * s, lost))
