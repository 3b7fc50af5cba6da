"""Holding out entries: what a model is judged by that it has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.distributed.entries import SpreadEntries
from rankfold.distributed.holding_out import hold_out as spread_out
from rankfold.entries.observed import Observed

Triples = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def hold_out(cost: Completion, held_out: float, seed: int, fold: int = 0) -> tuple[Completion, Triples]:
    """Return the cost of the entries kept, and (rows, columns, data) of those held out.

    Folds from 0 to 1/held_out - 1, of one seed, hold out different entries. Of entries that are spread over
    processes, each has those of its rows, counted from the first of them, and there is one fold.
    """
    if isinstance(cost.store, SpreadEntries):
        store, apart = spread_out(cost.store, held_out, seed)
        return Completion.from_observed(store, cost.loss), apart
    side = cost.observed.by_row
    rows, cols = (array.astype(np.int64) for array in (side.keys, side.indices))
    count = round(held_out * rows.size)
    if not 2 <= count < rows.size:
        raise ValueError(f"held_out = {held_out} of {rows.size} entries is {count}: there must be at least 2")
    order = np.random.default_rng(seed).permutation(rows.size)
    part = slice(fold * count, (fold + 1) * count)
    test, kept = order[part], np.sort(np.delete(order, part))
    # A line whose every entry is held out is determined again when all entries are fitted.
    train = Observed.from_triples(
        rows[kept], cols[kept], side.data[kept, 0], cost.shape,
        weights=side.data[kept, 1] if cost.observed.weighted else None,
        duplicates="keep", warn_of_empty=False, storage=cost.observed.storage,
    )  # fmt: skip
    return Completion.from_observed(train, cost.loss), (rows[test], cols[test], side.data[test])


def losses_of(cost: Completion, test: Triples, predicted: NDArray[Any]) -> NDArray[np.float64]:
    """Return the (weighted) losses of entries held out, given what is predicted for them."""
    data = test[2]
    values, _, _ = cost.loss(predicted, data[:, 0])
    return np.asarray(values * data[:, 1] if data.shape[1] == 2 else values, dtype=np.float64)
