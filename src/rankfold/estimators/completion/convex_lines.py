"""The factor of one side when that of the other is given, for any convex loss: Newton, line by line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.costs.losses import Loss
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.lines import normal_equations, solved

Floats = NDArray[Any]
_ROUNDS = 200
_SETTLED = 1e-14  # the part of a line's losses that one more step promises at most
# Of the shift, in units of what the square loss would curve: where it begins, and between which bounds it is.
_FIRST_SHIFT, _LEAST_SHIFT, _LARGEST_SHIFT = 1e-3, 1e-12, 1e12
_ACCEPTED, _TRUSTED = 1e-4, 0.75  # of the decrease that was promised (Nocedal and Wright 2006, Algorithm 4.1)


@dataclass(frozen=True, eq=False)
class ConvexLines:
    """Σ w ℓ(given + x_i·B_j, y) + ridges_i·x_i² over the entries of each line i, a function of each x_i."""

    side: SortedEntries  # without stripes
    loss: Loss
    given: Floats
    B: Floats
    ridges: Floats

    def minimised(self) -> Floats:
        """Return the best x_i, by Newton steps with the shift of Levenberg and Marquardt.

        A line whose losses fall less than its step promised stays where it is, and its shift grows: far from
        its minimum a loss may be nothing like its second derivative, as exp(w) - yw for a large count y.
        """
        x = np.zeros((self.side.lines, self.B.shape[1]))
        units = self._units()
        shifts = np.full(self.side.lines, _FIRST_SHIFT)
        values, sizes = self._values(x)
        for _ in range(_ROUNDS):
            step, promised = self._step(x, shifts * units)
            there, there_sizes = self._values(x + step)
            hidden = promised <= _SETTLED * sizes
            gains = np.where(np.isfinite(there), values - there, -np.inf)
            better = (gains >= _ACCEPTED * promised) | (hidden & (gains >= 0))
            x = np.where(better[:, None], x + step, x)
            values, sizes = np.where(better, there, values), np.where(better, there_sizes, sizes)
            change = np.where(gains >= _TRUSTED * promised, 0.1, np.where(better, 1.0, 4.0))
            shifts = np.clip(shifts * change, _LEAST_SHIFT, _LARGEST_SHIFT)
            if np.all(hidden | (shifts == _LARGEST_SHIFT)):
                break
        return x

    def _losses(self, x: Floats) -> tuple[Any, Any, Any]:
        """Value, first and second derivative of each entry's loss, weights included."""
        side = self.side
        predicted = self.given + np.einsum("pk,pk->p", x[side.keys], self.B[side.indices])
        with np.errstate(over="ignore", invalid="ignore"):  # too far: such a step is not taken
            parts = self.loss(predicted, side.data[:, 0].astype(np.float64))
            weights = side.data[:, 1] if side.data.shape[1] == 2 else 1.0
            value, first, second = (weights * part for part in parts)
        return value, first, second

    def _values(self, x: Floats) -> tuple[Floats, Floats]:
        """What each line is to make small, and the sum of its terms' sizes, which rounding is in units of."""
        value, _, _ = self._losses(x)
        keys, lines = self.side.keys, self.side.lines
        penalties = np.einsum("ik,ik->i", self.ridges, x * x)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.bincount(keys, value, lines) + penalties
            return sums, np.bincount(keys, np.abs(value), lines) + penalties

    def _step(self, x: Floats, shifts: Floats) -> tuple[Floats, Floats]:
        """The step to the minimum of the shifted quadratic model, and the decrease it promises."""
        side = self.side
        _, first, second = self._losses(x)
        slope = self._sums(first) + 2 * self.ridges * x
        data = np.column_stack([np.zeros_like(second), second])
        curvature, _ = normal_equations(replace(side, data=data), self.B, 0, side.lines)
        step = solved(curvature, -slope, 2 * self.ridges + shifts[:, None])
        promised = np.einsum("ik,ik->i", step, shifts[:, None] * step - slope) / 2
        return step, np.maximum(promised, 0.0)

    def _sums(self, terms: Floats) -> Floats:
        """Σ terms B_j over the entries of each line."""
        side = self.side
        where = side.indices.astype(np.int64), side.indptr.astype(np.int64)
        return np.asarray(sparse.csr_array((terms, *where), (side.lines, len(self.B))) @ self.B)

    def _units(self) -> Floats:
        """How much the square loss would curve, on the mean of directions; 1 for a line without entries."""
        weights = self.side.data[:, 1] if self.side.data.shape[1] == 2 else np.ones(len(self.side.data))
        lengths = np.einsum("jk,jk->j", self.B, self.B)[self.side.indices]
        units = 2 * np.bincount(self.side.keys, weights * lengths, self.side.lines) / self.B.shape[1]
        return np.where(units > 0, units, 1.0)
