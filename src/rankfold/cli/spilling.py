"""What `rankfold complete --spill` does otherwise than in memory: nothing of the size of the data is held."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rankfold.cli.console import note, working
from rankfold.costs.completion import Completion
from rankfold.data import SortedFolder, sort_into
from rankfold.estimators.completion.bayes.finishing import wanted
from rankfold.estimators.completion.reporting import Entries
from rankfold.estimators.inputs import is_auto

MEASURED = 1_000_000  # held-out entries that errors are measured on, at most


def sorted_into(
    folder: Path, files: tuple[str, ...], columns: Any, delimiter: str | None, header: bool | None,
    decimal: str, memory: str, unique: bool, held_out: float, seed: int,
) -> SortedFolder:  # fmt: skip
    """Sort the entries of files, and say how it goes."""
    with working(f"sorting into {folder}") as show:

        def tell(text: str, news: bool) -> None:
            if news:
                note(f"rankfold: {text}")
            else:
                show(text)

        return sort_into(
            folder, list(files), columns, delimiter=delimiter, header=header, decimal=decimal,
            memory=memory,
            duplicates="error" if unique else "keep", held_out=held_out, seed=seed, tell=tell,
        )  # fmt: skip


def measured(folder: SortedFolder, seed: int) -> Entries:
    """Return the entries held out, or so many of them that errors are known well."""
    rows, cols, values = folder.held_out
    chosen = np.arange(len(values))
    if chosen.size > MEASURED:
        chosen = np.sort(np.random.default_rng(seed).integers(0, chosen.size, MEASURED))
    return Entries(
        rows[chosen].astype(np.int64), cols[chosen].astype(np.int64), values[chosen].astype(np.float64)
    )


def note_what_is_left_out(model: Any, folder: SortedFolder) -> None:
    """Say that a model has no Bayesian finish, where it would have one with more memory."""
    asked = is_auto(model.bayesian) and is_auto(model.regularization) and model.loss == "square"
    if asked and not wanted(model, Completion.from_observed(folder.store)):
        note("rankfold: the Bayesian finish was left out: its covariances outgrow --memory")
