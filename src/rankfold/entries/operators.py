"""Sparse matrices on Ω as operators: known by their products with tall blocks, which run in parallel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.arrays import like, to_numpy
from rankfold.entries.sorted_entries import SortedEntries, sweep
from rankfold.entries.store import Array

if TYPE_CHECKING:
    from rankfold.entries.observed import Observed

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Values at the positions of Ω, given by row and by column; zero elsewhere."""

    observed: Observed
    values: tuple[Floats, Floats]

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
        return _product(self.observed.by_row, self.values[0], X)

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return _product(self.observed.by_column, self.values[1], X)


@dataclass(frozen=True, eq=False)
class Indicator:
    """Ones at the positions of Ω, zero elsewhere."""

    observed: Observed

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        return _product(self.observed.by_row, None, X)

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return _product(self.observed.by_column, None, X)


def _product(side: SortedEntries, values: Floats | None, X: Array) -> Array:
    dtype = np.dtype(np.float64) if values is None else values.dtype
    block = to_numpy(X)[0].astype(dtype, copy=False)
    product = np.empty((side.lines, block.shape[1]), dtype)
    kernel = kernels.sweeps.product(block.shape[1], valued=values is not None)
    side = side if values is None else replace(side, data=values[:, None])
    sweep(kernel, block.shape[1] * side.indices.size, (side, (block, product)))
    return like(X, product)
