"""What tells spread entries from others, however they are spread: sums over all of them."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankfold.distributed.group import Group
from rankfold.entries.store import NewValues
from rankfold.fingerprint import spread


class _Entries(Protocol):
    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def size(self) -> int: ...

    @property
    def group(self) -> Group: ...

    def with_values(self, values: NewValues) -> Any: ...


def fingerprint_of(entries: _Entries) -> dict[str, str | float]:
    """Return the number of entries, and sums over values and positions times numbers like random ones."""
    sums = np.zeros(5)
    entries.with_values(_summing(sums, entries.shape))
    squares, *others = entries.group.sum(sums)
    norms = (float(squares) ** 0.5 or 1.0, entries.size**0.5)
    names = ("sum over the values", "sum over the positions") * 2
    found = {
        f"{name} ({1 + k // 2})": float(total) / norms[k % 2]
        for k, (name, total) in enumerate(zip(names, others, strict=True))
    }
    return {"number of entries": str(entries.size), **found}


def _summing(sums: NDArray[np.float64], shape: tuple[int, int]) -> NewValues:
    """Return a function that adds up, block by block, and changes nothing. Each entry comes twice."""
    steps = (2**0.5, 3**0.5), (5**0.5, 7**0.5)
    numbers = [[spread(d, step) for d, step in zip(shape, pair, strict=True)] for pair in steps]

    def values(i: NDArray[Any], j: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        z = y.astype(np.float64)
        sums[0] += z @ z / 2
        for k, (of_rows, of_cols) in enumerate(numbers):
            at = of_rows[i] * of_cols[j]
            sums[1 + 2 * k] += at @ z / 2
            sums[2 + 2 * k] += at.sum() / 2
        return y

    return values
