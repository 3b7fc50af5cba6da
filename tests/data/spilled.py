"""What tests of sorts on disk share: entries with labels, files of them, and the same entries in memory."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

import numpy as np
import pyarrow as pa
from numpy.testing import assert_array_equal
from pyarrow import parquet

from rankfold.data.io import parquet as parquet_files
from rankfold.data.io import text
from rankfold.data.spill import buckets
from rankfold.data.spill.steps import Options
from rankfold.entries import observed
from rankfold.entries.observed import Observed

MEMORY = 1 << 24


@dataclass(frozen=True)
class Labelled:
    """Entries whose rows and columns have labels."""

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    weights: np.ndarray | None = None

    @property
    def columns(self):
        return [self.rows, self.cols, self.values, *(() if self.weights is None else (self.weights,))]

    def in_memory(self, dtype=np.float64):
        """The labels of both sides, and the store."""
        (rows, i), (cols, j) = (np.unique(side, return_inverse=True) for side in (self.rows, self.cols))
        held = Observed.from_triples(
            i, j, self.values.astype(dtype), (rows.size, cols.size), self.weights, "keep", warn_of_empty=False
        )
        return rows, cols, held

    def write(self, folder, count, kind="parquet"):
        """Write `count` files of some entries each."""
        paths = []
        for k, part in enumerate(np.array_split(np.arange(len(self.values)), count)):
            table = pa.table({str(c): column[part] for c, column in enumerate(self.columns)})
            paths.append(folder / f"part{k}.{kind}")
            if kind == "parquet":
                parquet.write_table(table, paths[-1])
            else:
                lines = zip(*(column.to_pylist() for column in table.columns), strict=True)
                paths[-1].write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        return paths


def draw(seed=0, count=60, d1=9, d2=7, strings=False, weighted=False):
    """Random entries with repeated pairs, of rows and columns with gaps between their labels."""
    rng = np.random.default_rng(seed)
    rows, cols = 3 * rng.integers(d1, size=count) - 5, 10**6 * rng.integers(d2, size=count)
    rows, cols = (np.array([f"n{k}" for k in side]) if strings else side for side in (rows, cols))
    values = rng.standard_normal(count).round(3)
    return Labelled(rows, cols, values, rng.random(count).round(3) if weighted else None)


@contextmanager
def tiny(room=None, stripes=None, batch=5, record=16):
    """Let files be read a few entries at a time, buckets hold `room` entries and sides have stripes."""
    with ExitStack() as stack:
        patch = lambda *where: stack.enter_context(mock.patch.object(*where))  # noqa: E731
        patch(parquet_files, "BATCH", batch)
        patch(text, "BLOCK", 10 * batch)
        patch(Options, "limit", batch)
        if room:
            patch(buckets, "BYTES", MEMORY // (room * record))
        if stripes:
            for module in (buckets, observed):
                patch(module, "stripes_that_pay", lambda size, lines, length: min(stripes, length))
        yield


def assert_same(folder, entries, dtype=np.float64):
    """The folder has the arrays, and the labels, that the entries have in memory."""
    rows, cols, held = entries.in_memory(dtype)
    assert_array_equal(folder.row_labels, rows)
    assert_array_equal(folder.col_labels, cols)
    assert folder.shape == held.shape
    for side, other in zip(folder.store.sides, held.sides, strict=True):
        for name in ("indptr", "indices", "data", "bounds"):
            ours, theirs = getattr(side, name), getattr(other, name)
            assert ours.dtype == theirs.dtype, name
            assert_array_equal(ours, theirs, err_msg=name)
