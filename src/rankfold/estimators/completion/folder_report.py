"""What a report shows of entries on disk, of which no more than a block is held at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankfold.data.spill.folder import SortedFolder
from rankfold.entries.on_disk import blocks_of
from rankfold.report import Columns, DataSummary


def sample(
    folder: SortedFolder, most: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return rows, columns and values of at most so many of the entries, chosen at random."""
    side, size = folder.store.by_row, len(folder)
    chosen = np.arange(size)
    if size > most:
        chosen = np.sort(np.random.default_rng(seed).integers(0, size, most))
    lines = np.searchsorted(side.indptr, chosen, side="right") - 1
    return lines % side.lines, side.indices[chosen].astype(np.int64), side.data[chosen, 0].astype(np.float64)


def summary_of(folder: SortedFolder, name: str) -> DataSummary:
    """Summarise entries on disk; lines that are constant and values far out are not looked for."""
    size, mean = len(folder), 0.0
    for block in blocks_of(folder.store):
        mean += float(block[:, 0].sum(dtype=np.float64)) / size
    squares, least, largest = 0.0, np.inf, -np.inf
    for block in blocks_of(folder.store):
        values = block[:, 0].astype(np.float64)
        squares += float(np.sum((values - mean) ** 2)) / size
        least, largest = min(least, float(values.min())), max(largest, float(values.max()))
    columns = Columns(*folder.names) if folder.names else None
    of_values = mean, float(np.sqrt(squares)), least, largest
    return DataSummary(
        name, folder.shape, *folder.store.counts, *of_values, columns, folder.repeated, searched=False
    )
