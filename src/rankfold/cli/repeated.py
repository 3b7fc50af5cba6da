"""Pairs that come twice: how many, which, and where in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rankfold.data import Triples
from rankfold.data.io.files import format_of
from rankfold.data.io.text import lines_of_entries
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.pattern import Pattern


def refuse_repeated(triples: Triples, source: Any) -> None:
    """Refuse entries of which two are of one pair; the source says where they are from."""
    observed = completion_of(triples, None, "square", float).observed
    repeated, (i, j) = Pattern.of(observed.by_row).repeats()
    if not repeated:
        return
    first, second = np.flatnonzero((triples.rows == i) & (triples.cols == j))[:2].tolist()
    where = f"entries {first + 1} and {second + 1}"
    file, alone = source.files[0], len(source.files) == 1
    if alone and Path(file).is_file() and format_of(file, None) in ("csv", "tsv"):  # a pipe is read once
        lines = lines_of_entries(
            file, (first, second), source.columns, source.delimiter, source.header, source.decimal
        )
        where = f"lines {lines[0]} and {lines[1]}"
    raise ValueError(
        f"{source.name}: {where} are both of {names_of(triples, i, j)}, and {repeated:,} in all "
        "repeat a pair: merge them, or take each as an observation with --duplicates keep"
    )


def names_of(triples: Triples, i: int, j: int) -> str:
    """Return what a pair is called, as errors show it."""
    row, col = (
        place if labels is None else labels[[place]].tolist()[0]
        for place, labels in ((i, triples.row_labels), (j, triples.col_labels))
    )
    return f"({row!r}, {col!r})"
