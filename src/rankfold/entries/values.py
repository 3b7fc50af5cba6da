"""What the data of entries say by themselves, with no factors: sums over them, and losses at W = 0.

`data` has a row for each entry: its value, or its value and its weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.store import EntryLoss
from rankfold.fingerprint import spread

BLOCK = 1 << 15  # entries whose losses are held at a time: those of all would outgrow the data, and the cache
_SUMS = {"sum over the values": 2**0.5, "second sum over the values": 5**0.5}


def value_sums(data: NDArray[Any]) -> dict[str, float]:
    """Sums over the values times numbers like random ones, in units of the values' norm."""
    squares, sums = 0.0, [0.0] * len(_SUMS)
    for first in range(0, len(data), BLOCK):
        part = data[first : first + BLOCK, 0].astype(np.float64)
        squares += float(part @ part)
        for k, step in enumerate(_SUMS.values()):
            sums[k] += float(spread(part.size, step, first) @ part)
    norm = squares**0.5 or 1.0
    return {name: total / norm for name, total in zip(_SUMS, sums, strict=True)}


def targets(data: NDArray[Any], loss: EntryLoss) -> NDArray[Any]:
    """The entries of W that the data ask for, seen from W = 0."""
    y = np.ascontiguousarray(data[:, 0])
    if loss.is_square:
        return y
    _, first, second = loss(np.zeros_like(y), y)
    return np.asarray(-first / (np.max(second) or 1.0))


def largest_curvature(data: NDArray[Any], loss: EntryLoss, dtype: np.dtype[Any]) -> float:
    """Max ℓ''(0, y), computed in a type."""
    y = data[:, 0]
    parts = (y[first : first + BLOCK].astype(dtype, copy=False) for first in range(0, len(data), BLOCK))
    return max(float(np.max(loss(np.zeros_like(part), part)[2])) for part in parts)


def sum_at_zero(data: NDArray[Any], loss: EntryLoss) -> float:
    """The (weighted) sum of the losses at W = 0."""
    total = 0.0
    for first in range(0, len(data), BLOCK):
        part = data[first : first + BLOCK].astype(np.float64)
        # the square alone, without the derivatives: in half of the time, to the same bits
        losses = part[:, 0] ** 2 if loss.is_square else loss(np.zeros(len(part)), part[:, 0])[0]
        total += float(np.sum(losses * part[:, 1] if part.shape[1] == 2 else losses))
    return total
