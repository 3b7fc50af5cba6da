"""The labels of all blocks of entries: which there are, how often, and where each stands among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from rankfold.atomic import replacing
from rankfold.data.errors import DataFileError
from rankfold.data.numbering import Labels, Positions, joined, kind_of, numbered, string_array

_MERGE = 1 << 18  # labels kept apart before they are merged


class MergedLabels:
    """The labels of one side, and how many entries each has. `text`: integers may become strings."""

    def __init__(self, side: str, text: bool) -> None:
        self.side, self.text = side, text
        self.labels: Labels | None = None
        self.counts = np.empty(0, np.int64)
        self._first = ""  # the file that the first labels are from
        self._pending: list[tuple[Labels, NDArray[np.int64]]] = []

    def add(self, labels: Labels, counts: NDArray[np.int64], file: str) -> None:
        """Take the labels of a block, all different, and the number of entries of each."""
        if self.labels is None:
            self.labels, self.counts, self._first = labels, counts, file
            return
        known = self._pending[-1][0] if self._pending else self.labels
        if kind_of(labels) != kind_of(known):
            self._become_strings(file, labels, known)
            labels = as_strings(labels)
        self._pending.append((labels, counts))
        if sum(len(part) for part, _ in self._pending) > max(_MERGE, len(self.labels)):
            self._merge()

    def finish(self) -> tuple[Labels, NDArray[np.int64]]:
        """Return the labels in sorted order, and how many entries each has."""
        if self.labels is None:
            raise DataFileError("the files hold no entries: rows of row, column and value are needed")
        self._merge()
        return self.labels, self.counts

    def _become_strings(self, file: str, labels: Labels, known: Labels) -> None:
        if not self.text:
            raise DataFileError(
                f"{file}: the labels of {self.side}s are like {labels[0]!s}, {kind_of(labels)}s, and "
                f"{kind_of(known)}s in {self._first}, like {known[0]!s}: cast one of the two"
            )
        self._merge()
        self.labels = None if self.labels is None else as_strings(self.labels)

    def _merge(self) -> None:
        if self.labels is None:
            return
        names = self.labels
        if self._pending:
            names = joined(names, joined_all([part for part, _ in self._pending]))
        counts = np.concatenate([self.counts, *(part for _, part in self._pending)])
        self._pending.clear()
        self.labels, numbers = numbered(names)
        self.counts = np.bincount(numbers, counts, len(self.labels)).astype(np.int64)


def joined_all(parts: list[Labels]) -> Labels:
    """Return labels of one kind one after the other."""
    if kind_of(parts[0]) == "string":
        return string_array([name for part in parts for name in part.tolist()])
    return np.concatenate(parts)


def as_strings(labels: Labels) -> Labels:
    """Return labels as they are written."""
    return labels if kind_of(labels) == "string" else string_array(list(map(str, labels.tolist())))


def places_of(labels: Labels, known: Labels) -> Positions:
    """Return where labels stand among the known ones, which are sorted, and have them all."""
    if kind_of(labels) != kind_of(known):
        labels = as_strings(labels)
    places = np.searchsorted(known, labels)
    if not np.array_equal(known[np.minimum(places, len(known) - 1)], labels):
        raise DataFileError(
            "a file has other labels than when it was first read: sort again, and leave files alone"
        )
    return places


def write_labels(path: Path, labels: Labels | None, counts: NDArray[np.int64]) -> None:
    """Write labels, or none, and counts."""
    columns: dict[str, Any] = {"count": pa.array(counts)}
    if labels is not None:
        columns["label"] = pa.array(labels.tolist() if labels.dtype.hasobject else labels)
    with replacing(path) as file:
        parquet.write_table(pa.table(columns), file)


def read_labels(path: Path) -> tuple[Labels | None, NDArray[np.int64]]:
    """Read what `write_labels` wrote."""
    table = parquet.read_table(path)
    counts = table["count"].to_numpy()
    if "label" not in table.column_names:
        return None, counts
    column = table["label"]
    integers = pa.types.is_integer(column.type)
    return column.to_numpy() if integers else string_array(column.to_pylist()), counts
