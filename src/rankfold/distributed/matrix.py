"""Sparse matrices whose rows are spread, as operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rankfold.distributed.sharded import Places, Sharded
from rankfold.entries.store import Array, Operator
from rankfold.linalg.rows import is_spread


@dataclass(frozen=True, eq=False)
class SpreadMatrix:
    """A sparse matrix on Ω, of which each process has its rows, times a number of each."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    places: tuple[Places, Places]
    local: Operator | None
    scale: float

    def __matmul__(self, X: Array) -> Sharded:
        """S X."""
        B, rows = X.whole() if is_spread(X) else X, self.places[0]
        if self.local is None:
            first, last = rows.bounds
            return Sharded(np.zeros((last - first, B.shape[1]), self.dtype), rows)
        return Sharded(scaled(self.local @ B, self.scale), rows)

    def transposed_times(self, X: Array) -> Sharded:
        """Sᵀ X."""
        rows, cols = self.places
        A = X.block if is_spread(X) else X[rows.own]
        if self.local is None:
            product: Array = np.zeros((self.shape[1], A.shape[1]), self.dtype)
        else:
            product = scaled(self.local.transposed_times(A), self.scale)
        return Sharded(cols.group.scattered_sum(product, cols.cuts), cols)


def scaled(fresh: Array, factor: float) -> Array:
    """Multiply an array of our own by a number, in place."""
    if factor != 1.0:
        fresh *= factor
    return fresh
