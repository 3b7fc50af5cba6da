"""What a report shows of entries on disk, of which no more than a block is held at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rankfold.data.spill.folder import SortedFolder
from rankfold.entries.observed import Observed
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
    mean, deviation = moments([folder.store], len(folder))
    least, largest = np.inf, -np.inf
    for block in blocks_of(folder.store):
        values = block[:, 0]
        least, largest = min(least, float(values.min())), max(largest, float(values.max()))
    columns = Columns(*folder.names) if folder.names else None
    of_values = mean, deviation, least, largest
    return DataSummary(
        name, folder.shape, *folder.store.counts, *of_values, columns, folder.repeated, searched=False
    )


def moments(
    stores: Sequence[Observed], size: int, added_up: Callable[[float], float] = float
) -> tuple[float, float]:
    """Return mean and standard deviation of the values of stores, `size` in all, block by block.

    `added_up` makes of a part of a sum, which is that of the stores at hand, all of it.
    """

    def mean_of(function: Callable[[NDArray[np.float64]], float]) -> float:
        blocks = (block[:, 0].astype(np.float64) for store in stores for block in blocks_of(store))
        return added_up(sum(function(values) / size for values in blocks))

    mean = mean_of(lambda values: float(values.sum()))
    return mean, float(np.sqrt(mean_of(lambda values: float(np.sum((values - mean) ** 2)))))
