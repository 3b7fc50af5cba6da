"""Offsets of rows and columns: how many entries they have to go by, and what they predict alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.offsets import Offsets
from rankfold.entries.sorted_entries import SortedEntries

Floats = NDArray[np.float64]


def counts(cost: Completion) -> tuple[Floats, Floats]:
    """Return the number of entries in each row and in each column, or their weight."""
    return side_counts(cost.observed.by_row), side_counts(cost.observed.by_column)


def side_counts(side: SortedEntries) -> Floats:
    """Return the number of entries of each line of a side, or their weight."""
    if side.data.shape[1] == 1:
        return side.counts.astype(np.float64)
    weights = [np.bincount(part.keys, part.data[:, 1], part.lines) for _, part in side.parts()]
    return np.concatenate(weights).astype(np.float64, copy=False)


def predictions(offsets: Offsets, rows: NDArray[Any], cols: NDArray[Any]) -> Floats:
    """Return what offsets predict; position -1 is a row or column never seen, which has none."""
    by_row = np.where(rows < 0, 0.0, offsets.rows[rows])
    return offsets.mean + by_row + np.where(cols < 0, 0.0, offsets.cols[cols])
