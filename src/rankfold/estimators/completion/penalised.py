"""A completion cost with its offsets taken off and a penalty put on, and where to start minimising it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Cost
from rankfold.costs.completion import Completion
from rankfold.costs.offsets import GivenOffsets, Offsets
from rankfold.costs.regularisers import Nuclear
from rankfold.entries.lanczos import dominant_svd
from rankfold.entries.observed import Observed
from rankfold.entries.operators import SparseMatrix
from rankfold.estimators.completion.lines import FactorPair, solve_lines
from rankfold.estimators.completion.offsets import counts, fit_offsets
from rankfold.linalg import svd_of_product

Floats = NDArray[Any]

# A singular value that a penalty shrank to nothing starts again at this part of the largest.
LIFT = 0.02


@dataclass(frozen=True, eq=False)
class Penalised:
    """The cost of what offsets leave over, and the penalty on W.

    The penalty is (2λ/|Ω|) ‖D_r^½ W D_c^½‖_*, the least λ/|Ω| (Σ √n_i ‖L_i‖² + Σ √m_j ‖R_j‖²) over all
    W = L Rᵀ, with n_i and m_j entries in row i and column j: half-way between the plain ridge on factors (no
    weights) and the one that grows with the data (weights n_i, m_j). The noise in D_r^-½ P_Ω(E) D_c^-½ has a
    spectral norm that depends on the size of the errors E, not on their number, so one λ is right for a
    sample of the data and for all of it; on validation data it was as good as either extreme or better.
    """

    completion: Completion
    offsets: Offsets
    diagonals: tuple[Floats, Floats]  # of D_r and D_c: √n_i and √m_j

    @staticmethod
    def of(completion: Completion, bias: bool) -> Penalised:
        """Fit offsets, if there are to be any, and take them off in a new cost; `completion` is unchanged."""
        d1, d2 = completion.shape
        offsets = fit_offsets(completion) if bias else Offsets(0.0, np.zeros(d1), np.zeros(d2))
        mean, rows, cols = offsets
        diagonals = tuple(np.sqrt(np.maximum(n, 1.0)) for n in counts(completion))
        if bias and completion.quadratic:
            left = completion.observed.with_values(lambda i, j, y: y - (mean + rows[i] + cols[j]))
            completion = Completion.from_observed(left, completion.loss)
        return Penalised(completion, offsets, (diagonals[0], diagonals[1]))

    def cost(self, weight: float) -> Cost:
        """Return what is minimised over W."""
        fit: Cost = self.completion
        mean, rows, cols = self.offsets
        if not self.completion.quadratic and (mean or rows.any() or cols.any()):
            fit = GivenOffsets(self.completion, mean + rows, cols)
        if not weight:
            return fit
        return fit + Nuclear(2 * weight / self.completion.observed.size, *self.diagonals)

    def balanced(self, L: Floats, R: Floats, least: float = 0.0) -> FactorPair:
        """Return the factors of the same W that the ridge form of the penalty is least for.

        Singular values below the part `least` of the largest are raised to it.
        """
        rows, cols = self.diagonals
        U, s, V = svd_of_product(_times(np.sqrt(rows), L), _times(np.sqrt(cols), R))
        return self._unscaled(U, np.maximum(s, least * s[0]), V)

    def start(self, weight: float, rank: int, seed: int) -> FactorPair | None:
        """Return a start: the dominant directions of what W has to explain, then a ridge problem per line.

        None if W = 0 is best: λ is at least λ_max.
        """
        U, s, V = dominant_svd(self._slope(), rank, seed)
        if s[0] <= weight:
            return None
        return self.swept(self._unscaled(U, np.maximum(s - weight, LIFT * s[0]), V), weight)

    def swept(self, factors: FactorPair, weight: float) -> FactorPair:
        """Return the best L for R, then the best R for it, for the square loss nearest to the loss.

        The other way round if only L has the right size.
        """
        targets, half = self._targets()
        rows, cols = (weight / half * diagonal for diagonal in self.diagonals)
        L, R = factors
        if len(R) == self.completion.shape[1]:
            L = solve_lines(targets.by_row, R, rows)
            return L, solve_lines(targets.by_column, L, cols)
        R = solve_lines(targets.by_column, L, cols)
        return solve_lines(targets.by_row, R, rows), R

    def largest_weight(self, seed: int) -> float:
        """Return λ_max, from which on W = 0 is best."""
        return float(dominant_svd(self._slope(), 1, seed)[1][0])

    def _slope(self) -> _Scaled:
        """D_r^-½ S D_c^-½ for S = -|Ω|/2 times the gradient at W = 0."""
        targets, half = self._targets()
        sides = targets.by_row.data, targets.by_column.data
        values = [data[:, 0] * data[:, 1] if targets.weighted else data[:, 0] for data in sides]
        roots = half / np.sqrt(self.diagonals[0]), 1 / np.sqrt(self.diagonals[1])
        return _Scaled(SparseMatrix(targets, (values[0], values[1])), *roots)

    def _targets(self) -> tuple[Observed, float]:
        """Ω with the z, and the h, for which h (w - z)² is near the loss at W = 0; y and 1 for (w - y)²."""
        observed, (mean, rows, cols) = self.completion.observed, self.offsets
        if self.completion.quadratic:
            return observed, 1.0
        curvatures = []

        def slopes(i: NDArray[Any], j: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
            _, first, second = self.completion.loss(mean + rows[i] + cols[j], y)
            curvatures.append(float(np.max(second, initial=0.0)))
            return np.asarray(-first)

        targets = observed.with_values(slopes)
        half = max(curvatures) / 2 or 1.0
        return targets.with_values(lambda _i, _j, slope: slope / (2 * half)), half

    def _unscaled(self, U: Floats, s: Floats, V: Floats) -> FactorPair:
        """D_r^-½ U s^½ and D_c^-½ V s^½."""
        (rows, cols), roots = self.diagonals, np.sqrt(s)
        return _times(1 / np.sqrt(rows), U * roots), _times(1 / np.sqrt(cols), V * roots)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """diag(rows) S diag(cols), by products alone."""

    matrix: SparseMatrix
    rows: Floats
    cols: Floats

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    def __matmul__(self, X: Floats) -> Floats:
        return _times(self.rows, self.matrix @ _times(self.cols, X))

    def transposed_times(self, X: Floats) -> Floats:
        return _times(self.cols, self.matrix.transposed_times(_times(self.rows, X)))


def _times(diagonal: Floats, X: Floats) -> Floats:
    return (diagonal[:, None] * X).astype(X.dtype, copy=False)
