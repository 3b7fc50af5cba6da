"""Sparse matrices whose rows are spread, as operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from rankfold.distributed.sharded import Places, Sharded
from rankfold.distributed.stripes import Homeward, Stripes
from rankfold.entries.store import Array, Operator
from rankfold.linalg.rows import at_hand, is_spread


@dataclass(frozen=True, eq=False)
class SpreadMatrix:
    """A sparse matrix on Ω, of which each process has its rows: stripe by stripe, each times a number."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    rows: Places
    stripes: Stripes
    local: Sequence[tuple[Operator | None, float]]

    def __matmul__(self, X: Array) -> Sharded:
        """S X."""
        total: list[Array] = []

        def multiply(s: int, B: Array) -> None:
            own, scale = self.local[s]
            if own is not None:
                added(total, scaled(own @ B, scale))

        self.stripes.each([X], multiply)
        first, last = self.rows.bounds
        if not total:
            total.append(zeros_like(X, last - first))
        return Sharded(total[0], self.rows)

    def transposed_times(self, X: Array) -> Sharded:
        """Sᵀ X."""
        A, home = X.block if is_spread(X) else X[self.rows.own], Homeward(self.stripes)
        for s, (own, scale) in enumerate(self.local):
            if own is None:
                product: Array = zeros_like(A, self.stripes.cuts[s][-1])
            else:
                product = scaled(own.transposed_times(A), scale)
            home.send(s, product)
        return home.summed()


def zeros_like(example: Array, rows: int) -> Array:
    """Return so many rows of zeros, of the library, type and place of another array, and as wide."""
    block = at_hand(example)
    xp, shape = array_namespace(block), (rows, block.shape[1])
    return xp.zeros(shape, dtype=block.dtype, device=device(block))


def added(total: list[Array], fresh: Array) -> None:
    """Add an array of our own to a sum, which is in a list as soon as there is one."""
    if total:
        total[0] += fresh
    else:
        total.append(fresh)


def scaled(fresh: Array, factor: float) -> Array:
    """Multiply an array of our own by a number, in place."""
    if factor != 1.0:
        fresh *= factor
    return fresh
