"""What `rankfold complete --spill` does otherwise than in memory: nothing of the size of the data is held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.cli.console import note, working
from rankfold.costs.completion import Completion
from rankfold.data import SortedFolder, sort_into
from rankfold.entries.on_disk import blocks_of
from rankfold.estimators.completion.bayes.finishing import wanted
from rankfold.estimators.inputs import is_auto
from rankfold.report import DataSummary

Entries = tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.float64]]
MEASURED = 1_000_000  # held-out entries that errors are measured on, at most


def sorted_into(
    folder: Path, files: tuple[str, ...], columns: Any, delimiter: str | None, header: bool | None,
    memory: str, unique: bool, held_out: float, seed: int,
) -> SortedFolder:  # fmt: skip
    """Sort the entries of files, and say how it goes."""
    with working(f"sorting into {folder}") as show:

        def tell(text: str, news: bool) -> None:
            if news:
                note(f"rankfold: {text}")
            else:
                show(text)

        return sort_into(
            folder, list(files), columns, delimiter=delimiter, header=header, memory=memory,
            duplicates="error" if unique else "keep", held_out=held_out, seed=seed, tell=tell,
        )  # fmt: skip


def measured(folder: SortedFolder, seed: int) -> Entries:
    """Return the entries held out, or so many of them that errors are known well."""
    rows, cols, values = folder.held_out
    chosen = np.arange(len(values))
    if chosen.size > MEASURED:
        chosen = np.sort(np.random.default_rng(seed).integers(0, chosen.size, MEASURED))
    return rows[chosen].astype(np.int64), cols[chosen].astype(np.int64), values[chosen].astype(np.float64)


def sample(folder: SortedFolder, most: int, seed: int) -> Entries:
    """Return at most so many of the entries, chosen at random."""
    side, size = folder.store.by_row, len(folder)
    chosen = np.arange(size)
    if size > most:
        chosen = np.sort(np.random.default_rng(seed).integers(0, size, most))
    lines = np.searchsorted(side.indptr, chosen, side="right") - 1
    return lines % side.lines, side.indices[chosen].astype(np.int64), side.data[chosen, 0].astype(np.float64)


def summary_of(folder: SortedFolder, name: str) -> DataSummary:
    """Summarise entries on disk."""
    size, mean = len(folder), 0.0
    for block in blocks_of(folder.store):
        mean += float(block[:, 0].sum(dtype=np.float64)) / size
    squares, least, largest = 0.0, np.inf, -np.inf
    for block in blocks_of(folder.store):
        values = block[:, 0].astype(np.float64)
        squares += float(np.sum((values - mean) ** 2)) / size
        least, largest = min(least, float(values.min())), max(largest, float(values.max()))
    counts = folder.store.counts
    return DataSummary(name, folder.shape, *counts, mean, float(np.sqrt(squares)), least, largest)


def note_what_is_left_out(model: Any, folder: SortedFolder) -> None:
    """Say that a model has no Bayesian finish, where it would have one with more memory."""
    asked = is_auto(model.bayesian) and is_auto(model.regularization) and model.loss == "square"
    if asked and not wanted(model, Completion.from_observed(folder.store)):
        note("rankfold: the Bayesian finish was left out: its covariances outgrow --memory")
