"""A completion cost with the best offset of each column, for any convex loss."""

from __future__ import annotations

from collections.abc import Sequence
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
from rankfold.linalg import namespace
from rankfold.linalg.primitives import on_host
from rankfold.remembered import remembered

Floats = NDArray[Any]
# Of the offsets' ridge, in numbers of entries: it keeps the offset of a column of zero counts finite.
RIDGE = 1e-10


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
        return on_host(self._offsets(*self._tall((L,), (R,))))

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        A, B = self._tall((L,), (R,))
        value, f_L, f_R = self.completion.evaluate(*self._with(A, B))
        return Evaluation(value, *without_offsets(L, f_L, f_R))

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        A, B = self._tall((L,), (R,))
        return self.completion.value(*self._with(A, B))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR), the change of the offsets included."""
        A, dA, B, dB = self._tall((L, dL), (R, dR))
        left, right = self._with(A, B)
        curved = self._curvatures(self._entries(left, right))
        moves = self._entries(dA, B) + self._entries(A, dB)
        total, xp = self._by_column(curved), namespace(curved)
        change = -self._by_column(curved * moves) / xp.where(total > 0, total, xp.ones_like(total))
        moving = with_offsets(dA, dB, xp.zeros_like(A[:, 0]), change, 0.0)
        return without_offsets(L, *self.completion.derivative(left, right, *moving))

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start point of the completion cost without offsets."""
        return self.completion.start(rank, seed)

    @remembered
    def value_at_zero(self) -> float:
        """Value at W = 0: that of the offsets alone."""
        return self.value(*(np.zeros((d, 1)) for d in self.shape))

    def _offsets(self, A: Array, B: Array) -> Array:
        return self._alone + self._best(self._entries(A, B) + self._alone[self._keys])

    def _with(self, A: Array, B: Array) -> tuple[Any, Any]:
        """[A, 0, 1] and [B, 1, c], whose product is W with the offsets added."""
        return with_offsets(A, B, namespace(A).zeros_like(A[:, 0]), self._offsets(A, B))

    @remembered
    def _alone(self) -> Array:
        """The best offsets for W = 0, from where all others are looked for."""
        return self._best(0.0 * self._values)

    @remembered
    def _entries_by_column(self) -> SortedEntries:
        return self.completion.observed.plain.by_column

    @remembered
    def _keys(self) -> Array:
        """The column of each entry."""
        return self._entries_by_column.keys

    @remembered
    def _values(self) -> Array:
        return self._entries_by_column.data[:, 0].astype(np.float64, copy=False)

    def _tall(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[Array]:
        """Factors in the library in which entries are held."""
        return checked_factors(self.shape, Ls, Rs)

    def _entries(self, A: Array, B: Array) -> Array:
        """The entries of A Bᵀ."""
        return np.einsum("pk,pk->p", A[self._entries_by_column.indices], B[self._keys])

    def _by_column(self, numbers: Array) -> Array:
        """The sum of the numbers that entries have, of each column."""
        return np.bincount(self._keys, numbers, self.shape[1])

    def _curvatures(self, predicted: Array) -> Array:
        """The (weighted) second derivative of each loss."""
        data, second = self._entries_by_column.data, self.completion.loss(predicted, self._values)[2]
        return second * data[:, 1] if data.shape[1] == 2 else second

    def _best(self, given: Array) -> Array:
        """What to add to the entries of each column."""
        side = self._entries_by_column
        ones, ridges = np.ones((self.shape[0], 1)), RIDGE * side_counts(side)[:, None]
        return ConvexLines(side, self.completion.loss, ones, ridges, given=given).minimised()[:, 0]
