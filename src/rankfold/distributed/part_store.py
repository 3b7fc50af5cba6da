"""What a store must know to be a part of a larger one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.store import Array, EntryLoss


@runtime_checkable
class PartStore(Protocol):
    """A store that can be a part of a larger one: it tells sums where means would not add up."""

    def polynomial_sums(
        self, Ls: Sequence[Array], Rs: Sequence[Array], every: int, first: int
    ) -> tuple[NDArray[np.float64], float]:
        """Sums over the sampled entries, and their number, if row 0 here is row `first` of the whole."""

    def largest_curvature(self, loss: EntryLoss) -> float:
        """Return max ℓ''(0, y)."""


def part_of(store: Any) -> PartStore:
    """Return the store, if it is one that can be a part; else say what else to do."""
    if not isinstance(store, PartStore):
        raise TypeError(
            f"{type(store).__name__} as a part of spread entries has the square loss only: hold the "
            "entries in memory (device='cpu') for others"
        )
    return store
