"""Tall arrays whose rows are spread over several processes, as the rest of the library sees them.

Such an array knows its rows at hand and their place among all (`spread`), and `shape` is that of the whole.
It does arithmetic, and linear algebra, as any other; here is what code needs that works on single rows, or
sums over them. Each function takes arrays of any library too, all rows of which are at hand.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeGuard

import numpy as np
from numpy.typing import NDArray

Array = Any  # an array of any array-API namespace
_ROWS = 4096  # of random numbers that are held at a time, where most are others'


class SpreadArray(Protocol):
    """A tall array whose rows are spread."""

    block: Array
    spread: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the whole."""

    @property
    def dtype(self) -> Any:
        """Type of the entries."""

    @property
    def device(self) -> Any:
        """Where the rows at hand are."""

    def rows_of(self, other: Any) -> Any:
        """Return what of an operand meets the rows at hand."""

    def like(self, block: Array) -> Any:
        """Return other rows in the same places."""

    def placed(self, numbers: Array) -> Any:
        """Return an array that everybody holds whole, with its rows spread."""

    def drawn(self, rng: np.random.Generator, shape: tuple[int, int]) -> Any:
        """Return standard normal numbers, rows spread."""

    def whole(self) -> Array:
        """Return all rows."""

    def grams(self, sides: Any) -> list[list[NDArray[Any]]]:
        """As `primitives.grams`, of arrays spread like this one."""

    def sums(self, sides: Any) -> list[Any]:
        """As `primitives.sums`, of arrays spread like this one."""


def is_spread(A: Array) -> TypeGuard[SpreadArray]:
    """Whether some rows of A are elsewhere."""
    return getattr(A, "spread", None) is not None


def spread_of(arrays: Any) -> Any:
    """Return how the first of these arrays that is spread is so; None where all rows are at hand."""
    return next((A.spread for A in arrays if is_spread(A)), None)


def at_hand(A: Array) -> Array:
    """Return the rows at hand."""
    return A.block if is_spread(A) else A


def in_place_of(A: Array, rows: Array) -> Array:
    """Return rows at hand as an array spread as A is."""
    return A.like(rows) if is_spread(A) else rows


def whole(A: Array) -> Array:
    """Return all rows, fetched where they are elsewhere."""
    return A.whole() if is_spread(A) else A


def added_up(A: Array, numbers: NDArray[Any]) -> NDArray[Any]:
    """Return sums over the rows of A from those over the rows at hand."""
    return A.spread.sum(numbers) if is_spread(A) else numbers


def normal_in_blocks(
    rng: np.random.Generator, shape: tuple[int, int], bounds: tuple[int, int]
) -> NDArray[np.float64]:
    """Return rows from `bounds[0]` to `bounds[1]` of `rng.standard_normal(shape)`, without all of it."""
    first, last = bounds
    own = np.empty((last - first, shape[1]))
    for top in range(0, shape[0], _ROWS):
        end = min(top + _ROWS, shape[0])
        numbers = rng.standard_normal((end - top, shape[1]))
        a, b = max(top, first), min(end, last)
        if a < b:
            own[a - first : b - first] = numbers[a - top : b - top]
    return own
