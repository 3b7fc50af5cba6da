"""A folder of sorted files: what `sort_into` makes, and fits take in place of triples."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.data.errors import DataFileError
from rankfold.data.numbering import Labels
from rankfold.data.spill.buckets import record_type
from rankfold.data.spill.manifest import NAME, Manifest
from rankfold.data.spill.merging import read_labels
from rankfold.entries.on_disk import OnDisk, files_of
from rankfold.remembered import remembered

HELD_OUT = "held_out.entries"
LABELS = "row_labels.parquet", "col_labels.parquet"


@dataclass(frozen=True, eq=False)
class SortedFolder:
    """Known entries of a matrix in a folder, sorted by row and by column; `sort_into` makes one.

    `SortedFolder.open(folder)` opens one that was sorted before. `rankfold.MatrixCompletion.fit` takes it in
    place of X and y, and `rankfold.Completion.from_observed(folder.store)` is a cost over it.

    Attributes
    ----------
    path : Path
        The folder.
    shape : (int, int)
        Shape of the whole matrix.
    row_labels, col_labels : array or None
        What rows and columns are called, as `rankfold.data.Triples` has it.
    names : tuple of str or None
        What the files call the columns that were read; None for entries that were given as arrays.
    repeated : int
        How many entries repeat the pair of another one.
    store : rankfold.entries.on_disk.OnDisk
        The entries, as costs take them.
    held_out : (rows, cols, values)
        Entries set aside (`sort_into(held_out=...)`), mapped and not read.

    Examples
    --------
    >>> import tempfile, rankfold as rf
    >>> blocks = [(["ann", "bob"], ["Heat", "Heat"], [5.0, 3.0]), (["ann"], ["Alien"], [4.0])]
    >>> folder = rf.data.sort_into(tempfile.mkdtemp(), blocks)
    >>> len(folder), folder.shape, folder.row_labels.tolist()
    (3, (2, 2), ['ann', 'bob'])
    >>> rf.Completion.from_observed(folder.store).value_at_zero
    16.666666666666668
    """

    path: Path
    shape: tuple[int, int]
    row_labels: Labels | None
    col_labels: Labels | None
    names: tuple[str, ...] | None
    repeated: int
    store: OnDisk

    @classmethod
    def open(cls, folder: str | os.PathLike[str], memory: float | None = None) -> SortedFolder:
        """Open a folder, once all that its sort has written is there.

        `memory` is what fits may take for what they can choose, in bytes; that of the sort by default.
        """
        path = Path(folder)
        manifest = Manifest.read(path)
        facts = manifest.facts
        if "finished" not in facts:
            what = "was not sorted to the end" if manifest.task else f"is no sorted folder: it has no {NAME}"
            raise DataFileError(f"{path} {what}; sort_into does that, on the command line --spill")
        looked, finished = facts["looked"], facts["finished"]
        for name, size in finished["sizes"].items():
            found = os.stat(path / name).st_size
            if found != size:
                raise DataFileError(
                    f"{path / name} has {found:,} bytes where {size:,} were written: sort again"
                )
        shape = looked["shape"][0], looked["shape"][1]
        labels = [read_labels(path / name)[0] for name in LABELS]
        store = OnDisk.opened(path, shape, looked["dtype"], looked["weighted"], memory or looked["memory"])
        names = manifest.task["names"]
        called = None if names is None else tuple(names)
        return cls(path, shape, labels[0], labels[1], called, finished["repeated"], store)

    def __len__(self) -> int:
        return self.store.size

    @remembered
    def held_out(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Entries set aside."""
        record = record_type(self.shape, self.store.dtype, self.store.weighted)
        path = self.path / HELD_OUT
        if not path.exists() or not path.stat().st_size:
            records: NDArray[Any] = np.empty(0, record)
        else:
            records = np.memmap(path, record, "r")
        return records["line"], records["other"], records["data"][:, 0]


def sizes_of(folder: Path) -> dict[str, int]:
    """Return how long the files of the sorted entries are."""
    names = [path.name for side in ("rows", "columns") for path in files_of(folder, side)]
    names += [name for name in (*LABELS, HELD_OUT) if (folder / name).exists()]
    return {name: os.stat(folder / name).st_size for name in names}
