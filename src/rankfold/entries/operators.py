"""Sparse matrices on Ω as operators: known by their products with tall blocks, which run in parallel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.arrays import like, to_numpy
from rankfold.entries.sorted_entries import SortedEntries, sweep
from rankfold.entries.store import Array

Floats = NDArray[Any]


class SortedBothWays(Protocol):
    """Positions sorted by rows and by columns: all that an operator has to know of Ω."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @property
    def sides(self) -> tuple[SortedEntries, SortedEntries]:
        """The entries by row, and by column."""


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Values at the positions of Ω, given by row and by column; zero elsewhere."""

    observed: SortedBothWays
    values: tuple[Floats, Floats]

    def __post_init__(self) -> None:
        for values, side in zip(self.values, self.observed.sides, strict=True):
            if values.shape != side.indices.shape or values.dtype not in (np.float32, np.float64):
                raise ValueError(
                    f"a value for each of {side.indices.size} entries is needed, float32 or float64; got an "
                    f"array of shape {values.shape} and type {values.dtype}"
                )

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.observed.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        return self.values[0].dtype

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        return _product(self.observed.sides[0], self.values[0], X, self.observed.shape[1])

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return _product(self.observed.sides[1], self.values[1], X, self.observed.shape[0])


@dataclass(frozen=True, eq=False)
class Indicator:
    """Ones at the positions of Ω, zero elsewhere."""

    observed: SortedBothWays

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        return _product(self.observed.sides[0], None, X, self.observed.shape[1])

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return _product(self.observed.sides[1], None, X, self.observed.shape[0])


def _product(side: SortedEntries, values: Floats | None, X: Array, rows: int) -> Array:
    dtype = np.dtype(np.float64) if values is None else values.dtype
    block = to_numpy(X)[0].astype(dtype, copy=False)
    if block.ndim != 2 or len(block) != rows:
        raise ValueError(f"a matrix with {rows} columns has no product with one of shape {block.shape}")
    product = np.empty((side.lines, block.shape[1]), dtype)
    kernel = kernels.sweeps.product(block.shape[1], valued=values is not None)
    side = side if values is None else replace(side, data=values[:, None])
    sweep(kernel, block.shape[1] * side.indices.size, (side, (block, product)))
    return like(X, product)
