"""Sparse matrices on Ω as operators: known by their products with tall blocks, which run in parallel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.observed import Observed, Side, sweep

Floats = NDArray[Any]


class Operator(Protocol):
    """A matrix known by its products with tall blocks."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        ...

    def __matmul__(self, X: Floats) -> Floats: ...

    def transposed_times(self, X: Floats) -> Floats:
        """Aᵀ X."""
        ...


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Values at the positions of Ω, zero elsewhere.

    `values` gives them by row and by column.
    """

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

    def __matmul__(self, X: Floats) -> Floats:
        """S X."""
        return _product(self.observed.by_row, self.values[0], X)

    def transposed_times(self, X: Floats) -> Floats:
        """Sᵀ X."""
        return _product(self.observed.by_column, self.values[1], X)


def slopes(
    observed: Observed, L: Floats, R: Floats, loss: Any, parameter: float, scale: float
) -> SparseMatrix:
    """Return `scale` times the (weighted) first derivatives of the loss at L Rᵀ, on Ω."""
    from rankfold.kernels import sweeps

    kernel = sweeps.slopes(L.shape[1], loss, observed.weighted)
    by_row, by_column = np.empty(observed.size, L.dtype), np.empty(observed.size, L.dtype)
    passes = (
        (observed.by_row, (L, R, parameter, scale, by_row)),
        (observed.by_column, (R, L, parameter, scale, by_column)),
    )
    sweep(kernel, 2 * observed.size * L.shape[1], *passes)
    return SparseMatrix(observed, (by_row, by_column))


@dataclass(frozen=True, eq=False)
class Indicator:
    """Ones at the positions of Ω, zero elsewhere."""

    observed: Observed

    def __matmul__(self, X: Floats) -> Floats:
        """S X."""
        return _product(self.observed.by_row, None, X)

    def transposed_times(self, X: Floats) -> Floats:
        """Sᵀ X."""
        return _product(self.observed.by_column, None, X)


def _product(side: Side, values: Floats | None, X: Floats) -> Floats:
    from rankfold.kernels import sweeps

    dtype = np.float64 if values is None else values.dtype
    X = np.ascontiguousarray(X, dtype=dtype)
    Y = np.empty((side.lines, X.shape[1]), dtype)
    kernel = sweeps.product(X.shape[1], valued=values is not None)
    side = side if values is None else replace(side, data=values[:, None])
    sweep(kernel, X.size * side.indices.size / len(X), (side, (X, Y)))
    return Y
