"""A part of the data that choices are made on, where all of them would take too long."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.entries.observed import Observed
from rankfold.entries.sorted_entries import SortedEntries

MIN_LINES = 100  # rows (or columns) of a sample, if there are as many


def sample_lines(completion: Completion, limit: int, seed: int) -> Completion:
    """Return the cost of some rows that together have about `limit` entries; columns, if there are more.

    The cost itself, if it has no more entries than that. Nothing of the size of the data is made.
    """
    chosen = sampled(completion, limit, seed)
    if chosen is None:
        return completion
    (d1, d2), observed = completion.shape, completion.observed
    side = observed.by_row if d1 >= d2 else observed.by_column
    lines, entries = _entries_of(side, chosen)
    others = side.columns(entries)
    rows, cols = (lines, others) if d1 >= d2 else (others, lines)
    sample = Observed.from_triples(
        rows, cols, side.data[entries, 0],
        (len(chosen), d2) if d1 >= d2 else (d1, len(chosen)),
        weights=side.data[entries, 1] if observed.weighted else None,
        duplicates="keep", warn_of_empty=False, storage=observed.storage,
    )  # fmt: skip
    return Completion.from_observed(sample, completion.loss)


def sampled(completion: Completion, limit: int, seed: int) -> NDArray[np.int64] | None:
    """Return which rows are in the sample (columns, if there are more), in order; None for all of them."""
    if completion.observed.size <= limit:
        return None
    observed = completion.observed
    side = observed.by_row if completion.shape[0] >= completion.shape[1] else observed.by_column
    order = np.random.default_rng(seed).permutation(side.lines)
    count = int(np.searchsorted(np.cumsum(side.counts[order]), limit, side="right"))
    return np.sort(order[: max(count, min(MIN_LINES, side.lines))])


def _entries_of(
    side: SortedEntries, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the entries of some lines: which of the lines each belongs to, and its place in the side."""
    lines, entries = [], []
    for s in range(side.stripes):
        starts = side.stripe(s)[1].view(np.int64)
        sizes = starts[chosen + 1] - starts[chosen]
        lines.append(np.repeat(np.arange(len(chosen)), sizes))
        entries.append(np.arange(sizes.sum()) + np.repeat(starts[chosen] - np.cumsum(sizes) + sizes, sizes))
    return np.concatenate(lines), np.concatenate(entries)
