"""A completion cost with the best offset of each column, for any convex loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.completion import Completion
from rankfold.costs.offsets import with_offsets, without_offsets
from rankfold.entries.arrays import checked_factors
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.convex_lines import ConvexLines
from rankfold.estimators.completion.offsets import side_counts
from rankfold.remembered import remembered

Floats = NDArray[Any]
# Of the offsets' ridge, in numbers of entries: it keeps the offset of a column of zero counts finite.
_RIDGE = 1e-10


class FreeOffsets(Cost):
    """f(W) is the least of `cost` at W_ij + c_j over the offsets c of the columns.

    The best offsets make the derivative in them vanish, so f has the gradient of `cost` there; along a
    direction they follow by Newton's equation, which is one number for each column. (`WithOffsets` does the
    same for the square loss, where that equation is linear.)

    Parameters
    ----------
    cost
        A completion cost, with any convex loss.
    """

    def __init__(self, cost: Completion):
        self.completion, self.shape, self.nonnegative = cost, cost.shape, cost.nonnegative

    def offsets(self, L: Array, R: Array) -> Floats:
        """Return the best offsets for W = L Rᵀ."""
        A, B = checked_factors(self.shape, (L,), (R,))
        side = self._side
        given = np.einsum("pk,pk->p", A[side.indices], B[side.keys]) + self._alone[side.keys]
        return self._alone + self._best(given)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        A, B = checked_factors(self.shape, (L,), (R,))
        value, f_L, f_R = self.completion.evaluate(*self._with(A, B))
        return Evaluation(value, *without_offsets(L, f_L, f_R))

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        A, B = checked_factors(self.shape, (L,), (R,))
        return self.completion.value(*self._with(A, B))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR), the change of the offsets included."""
        A, dA, B, dB = checked_factors(self.shape, (L, dL), (R, dR))
        left, right = self._with(A, B)
        side, none = self._side, np.zeros(self.shape[0])
        at, j = side.indices, side.keys
        predicted = np.einsum("pk,pk->p", left[at], right[j])
        curved = self.completion.loss(predicted, side.data[:, 0])[2]
        curved = curved * side.data[:, 1] if side.data.shape[1] == 2 else curved
        moves = np.einsum("pk,pk->p", dA[at], B[j]) + np.einsum("pk,pk->p", A[at], dB[j])
        total = np.bincount(j, curved, self.shape[1])
        change = -np.bincount(j, curved * moves, self.shape[1]) / np.where(total > 0, total, 1.0)
        moving = with_offsets(dA, dB, none, change, 0.0)
        return without_offsets(L, *self.completion.derivative(left, right, *moving))

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start point of the completion cost without offsets."""
        return self.completion.start(rank, seed)

    @remembered
    def value_at_zero(self) -> float:
        """Value at W = 0: that of the offsets alone."""
        return self.value(*(np.zeros((d, 1)) for d in self.shape))

    @remembered
    def _side(self) -> SortedEntries:
        return self.completion.observed.plain.by_column

    @remembered
    def _alone(self) -> Floats:
        """The best offsets for W = 0, from where all others are looked for."""
        return self._best(np.zeros(self._side.keys.size))

    def _best(self, given: Floats) -> Floats:
        """What to add to the entries of each column."""
        ones, ridges = np.ones((self.shape[0], 1)), _RIDGE * side_counts(self._side)[:, None]
        return ConvexLines(self._side, self.completion.loss, ones, ridges, given=given).minimised()[:, 0]

    def _with(self, A: Floats, B: Floats) -> tuple[Any, Any]:
        """[A, 0, 1] and [B, 1, c], whose product is W with the offsets added."""
        return with_offsets(A, B, np.zeros(len(A)), self.offsets(A, B))
