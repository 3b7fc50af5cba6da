"""Sparse matrices on Ω as operators: known by their products with tall blocks, which run in parallel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels
from rankfold.entries.arrays import like, to_numpy
from rankfold.entries.given_arrays import vector_of
from rankfold.entries.sorted_entries import Part, SortedEntries
from rankfold.entries.store import Array, Operator
from rankfold.linalg.memory import empty

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
        own = (vector_of("values", each, self.observed.sides[0].size) for each in self.values)
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
        return product(self.observed.sides[0], X, lambda part: self.values[0], self.dtype)

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return product(self.observed.sides[1], X, lambda part: self.values[1], self.dtype)


@dataclass(frozen=True, eq=False)
class ComputedMatrix:
    """Values at the positions of Ω that are computed part by part, at each product: none of them are held.

    `values(k, part)` gives those of a part of side k, 0 by row and 1 by column.
    """

    observed: SortedBothWays
    dtype: np.dtype[Any]
    values: Callable[[int, Part], Floats]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.observed.shape

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        return product(self.observed.sides[0], X, partial(self.values, 0), self.dtype)

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return product(self.observed.sides[1], X, partial(self.values, 1), self.dtype)


@dataclass(frozen=True, eq=False)
class Indicator:
    """Ones at the positions of Ω, zero elsewhere."""

    observed: SortedBothWays

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        return product(self.observed.sides[0], X, None)

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return product(self.observed.sides[1], X, None)


@dataclass(frozen=True, eq=False)
class Scaled:
    """diag(rows) S diag(cols), by products alone; the diagonals are columns."""

    matrix: Operator
    rows: Array
    cols: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of S."""
        return self.matrix.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of S."""
        return self.matrix.dtype

    def __matmul__(self, X: Array) -> Array:
        """Multiply by it."""
        return self.rows * (self.matrix @ (self.cols * X))

    def transposed_times(self, X: Array) -> Array:
        """Multiply by its transpose."""
        return self.cols * self.matrix.transposed_times(self.rows * X)


@dataclass(frozen=True, eq=False)
class Turned:
    """Sᵀ, by products alone."""

    matrix: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of Sᵀ."""
        return self.matrix.shape[1], self.matrix.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of S."""
        return self.matrix.dtype

    def __matmul__(self, X: Array) -> Array:
        """Sᵀ X."""
        return self.matrix.transposed_times(X)

    def transposed_times(self, X: Array) -> Array:
        """S X."""
        return self.matrix @ X


def product(
    side: SortedEntries, X: Array, values: Callable[[Part], Floats] | None, dtype: DTypeLike = np.float64
) -> Array:
    """Return S X for S on the positions of a side, with what `values` says of each part; ones without it."""
    if len(np.shape(X)) != 2 or np.shape(X)[0] != side.length or not np.shape(X)[1]:
        raise ValueError(f"X must have {side.length} rows and a column or more; got shape {np.shape(X)}")
    block = to_numpy(X)[0].astype(dtype, copy=False)
    rank = block.shape[1]
    width = kernels.layout.width_for(rank, side.size + side.lines + side.length)
    (block,) = kernels.layout.widened(width, block)
    out = empty((side.lines, width), dtype)
    kernel = kernels.sweeps.product(width, valued=values is not None)
    for part in side.parts():
        own = part.side
        data = own.data.reshape(-1) if values is None else values(part)
        arguments = own.bounds, own.indptr, own.across, own.step, data, block, out[part.lines]
        kernels.pool.run(kernel, own.chunks[1], width * own.size, arguments)
    return like(X, kernels.layout.narrowed(rank, out))
