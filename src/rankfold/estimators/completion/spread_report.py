"""What a report shows of entries that are spread over processes, each of which asks for it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.offsets import Offsets, WithOffsets
from rankfold.distributed.spreading import SpreadTriples
from rankfold.estimators.completion.choosing import shrinkage_alone
from rankfold.estimators.completion.folder_report import moments
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.spread_entries import chosen_rows, entries_of, sample_of
from rankfold.report import Columns, DataSummary


def sample(
    data: SpreadTriples, most: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return rows, columns and values of the entries of some rows, about so many."""
    rows, cols, numbers = entries_of(data.store, chosen_rows(data.store, most, seed))
    return rows, cols, numbers[:, 0].astype(np.float64)


def summary_of(data: SpreadTriples, value_range: tuple[float, float], name: str) -> DataSummary:
    """Summarise entries; lines that are constant and values far out are not looked for."""
    store, group = data.store, data.group
    here = [each for each in store.stores if each is not None]

    def added_up(number: float) -> float:
        return float(group.sum(np.array([number]))[0])

    of_values = *moments(here, store.size, added_up), *value_range
    columns = Columns(*data.names) if data.names and len(data.names) == 3 else None
    return DataSummary(name, data.shape, *store.counts, *of_values, columns, repeats_of(data), searched=False)


def repeats_of(data: SpreadTriples) -> int:
    """Return how many entries have the row and the column of another one."""
    here = [each for each in data.store.stores if each is not None]
    own = sum(Pattern.of(each.by_row).repeats()[0] for each in here)
    return int(data.group.sum(np.array([float(own)]))[0])


def offsets_of(data: SpreadTriples, cost: Completion, about: int) -> Offsets | None:
    """Fit offsets alone, by a shrinkage that a sample tells, where these processes can."""
    group = data.group
    if not cost.loss.is_square or group.most(float(data.store.block is None)):
        return None
    part = Completion.from_observed(sample_of(data.store, about, 0), cost.loss)
    ridges = group.together(lambda: shrinkage_alone(part), "fitting offsets")
    return WithOffsets(cost, 0.0, *ridges).offsets(*(np.zeros((d, 1)) for d in data.shape))
