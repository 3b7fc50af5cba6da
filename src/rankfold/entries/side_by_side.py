"""Entries of the same rows in several stores, each with columns of its own: for what asks for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.observed import Observed
from rankfold.entries.store import Array


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Stores beside each other, and which columns each of them has; there are no entries in the others."""

    shape: tuple[int, int]
    stores: tuple[tuple[Observed, NDArray[np.int64]], ...]

    @staticmethod
    def of(
        shape: tuple[int, int], stores: Sequence[Any], columns: Sequence[NDArray[np.int64]]
    ) -> SideBySide | None:
        """Join stores, of which those without entries are None; None, if all of them are."""
        pairs = zip(stores, columns, strict=True)
        there = tuple((store, numbers) for store, numbers in pairs if store is not None)
        return SideBySide(shape, there) if there else None

    @property
    def size(self) -> int:
        """Number of entries."""
        return sum(store.size for store, _ in self.stores)

    def joined(self, operators: Sequence[Any]) -> Joined:
        """Return the matrix that has these, one for each store, in the columns of the stores."""
        pairs = zip(operators, self.stores, strict=True)
        return Joined(self.shape, tuple((each, columns) for each, (_, columns) in pairs))


@dataclass(frozen=True, eq=False)
class Joined:
    """Matrices of float64 beside each other, by products alone; the columns of none of them are zero."""

    shape: tuple[int, int]
    parts: tuple[tuple[Any, NDArray[np.int64]], ...]

    def __matmul__(self, X: Array) -> Array:
        """Multiply by it."""
        (first, columns), *others = self.parts
        total = first @ X[columns]
        for part, columns in others:
            total += part @ X[columns]
        return total

    def transposed_times(self, X: Array) -> Array:
        """Multiply by its transpose."""
        out = np.zeros((self.shape[1], X.shape[1]))
        for part, columns in self.parts:
            out[columns] = part.transposed_times(X)
        return out
