"""Sparse matrices on Ω as operators: known by their products with tall blocks, which run in parallel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.arrays import like, to_numpy
from rankfold.entries.given_arrays import vector_of
from rankfold.entries.sorted_entries import SortedEntries
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
        own = (vector_of("values", each, self.observed.sides[0].indices.size) for each in self.values)
        object.__setattr__(self, "values", tuple(own))

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
        return _product(self.observed.sides[0], X, self.values[0])

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return _product(self.observed.sides[1], X, self.values[1])


@dataclass(frozen=True, eq=False)
class Indicator:
    """Ones at the positions of Ω, zero elsewhere."""

    observed: SortedBothWays

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        return _product(self.observed.sides[0], X)

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return _product(self.observed.sides[1], X)


def _product(side: SortedEntries, X: Array, values: Floats | None = None) -> Array:
    if len(np.shape(X)) != 2 or np.shape(X)[0] != side.length or not np.shape(X)[1]:
        raise ValueError(f"X must have {side.length} rows and a column or more; got shape {np.shape(X)}")
    dtype = np.dtype(np.float64) if values is None else values.dtype
    block = to_numpy(X)[0].astype(dtype, copy=False)
    rank = block.shape[1]
    width = kernels.layout.width_for(rank, side.indices.size + side.lines + side.length)
    (block,) = kernels.layout.widened(width, block)
    product = np.empty((side.lines, width), dtype)
    kernel = kernels.sweeps.product(block.shape[1], valued=values is not None)
    data = side.data.reshape(-1) if values is None else values
    arguments = side.bounds, side.indptr, side.indices, data, block, product
    kernels.pool.run(kernel, side.chunks[1], block.shape[1] * side.indices.size, arguments)
    return like(X, kernels.layout.narrowed(rank, product))
