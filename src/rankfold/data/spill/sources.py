"""Where entries come from that are sorted on disk: files, read some entries at a time, twice over."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankfold.data.errors import DataFileError
from rankfold.data.io.chosen import Columns
from rankfold.data.io.columns import IndexColumn, LabelColumn, ValueColumn
from rankfold.data.io.files import format_of, matching_files
from rankfold.data.io.parquet import open_columns, parquet_blocks, write_parquet
from rankfold.data.io.streams import reading
from rankfold.data.io.text import Layout, line_blocks, sniff
from rankfold.data.numbering import Labels, label_column
from rankfold.data.triples import Triples
from rankfold.entries.given_arrays import check_size
from rankfold.fingerprint import fingerprint

_GIVEN = "row", "column", "value", "weight"
_FORMATS = "csv", "tsv", "parquet"


class Block(NamedTuple):
    """Some entries: the place of each among the labels of the block (or positions), values and weights."""

    rows: NDArray[np.integer]
    cols: NDArray[np.integer]
    labels: tuple[Labels | None, Labels | None]
    data: NDArray[np.float64]  # value, or value and weight


@dataclass(frozen=True)
class Reading:
    """How files are read: all options that change what is read."""

    columns: Columns = (None, None, None)
    delimiter: str | None = None
    header: bool | None = None
    decimal: str = "."
    shape: tuple[int, int] | None = None

    def blocks(self, path: Path, limit: int) -> Iterator[Block]:
        """Yield the entries of a file, about `limit` at a time."""
        name, kind = str(path), format_of(path, None)
        with reading(path) as stream:
            gather = self._columns(kind != "parquet")
            if kind == "parquet":
                batches = parquet_blocks(stream, name, self.columns, gather)
            else:
                batches = line_blocks(stream, name, gather, *self._layout(stream, name, kind))
            before = 0
            for _ in batches:
                if gather[0].count >= limit:
                    yield _finished(gather, name, before)
                    before += gather[0].count
                    gather[:] = self._columns(kind != "parquet")
            if gather[0].count:
                yield _finished(gather, name, before)

    def names(self, path: Path) -> list[str]:
        """Return what a file calls the columns that are read."""
        name, kind = str(path), format_of(path, None)
        with reading(path) as stream:
            if kind == "parquet":
                return open_columns(stream, name, self.columns, self._columns(text=False))[1]
            layout, _, _ = self._layout(stream, name, kind)
            return [layout.names[place] for place in layout.places]

    def _layout(self, stream: BinaryIO, name: str, kind: str) -> tuple[Layout, bytes, int]:
        delimiter = "\t" if kind == "tsv" else self.delimiter
        return sniff(stream, name, self.columns, delimiter, self.header, decimal=self.decimal)

    def _columns(self, text: bool) -> list[Any]:
        d1, d2 = self.shape or (None, None)
        sides = [LabelColumn(text) if d is None else IndexColumn(d) for d in (d1, d2)]
        return [*sides, *(ValueColumn() for _ in self.columns[2:])]


def _finished(gather: list[Any], file: str, before: int) -> Block:
    """Return what columns have gathered, checked; `before` is how many entries the file had before."""
    (rows, _, row_labels), (cols, _, col_labels) = gather[0].finish(), gather[1].finish()
    numbers = [column.finish() for column in gather[2:]] or [np.ones(len(rows))]
    for name, column in zip(("values", "weights"), numbers, strict=False):
        try:
            check_size(name, np.append(column, 1.0))  # a block may well be small: all of them may not
        except ValueError as error:
            raise DataFileError(f"{file}: {error}") from error
    if len(numbers) == 2 and numbers[1].min() < 0:
        at = int(np.argmax(numbers[1] < 0))
        raise DataFileError(
            f"{file}, entry {before + at + 1}: the weight is {numbers[1][at]}; weights must be zero or more"
        )
    return Block(rows, cols, (row_labels, col_labels), np.column_stack(numbers))


def found_files(sources: Any) -> list[Path]:
    """Return the files that paths and patterns such as 'shards/*.parquet' stand for, sorted."""
    files = matching_files([sources] if isinstance(sources, str | os.PathLike) else list(sources))
    for path in files:
        os.stat(path)  # an error names the file
        if format_of(path, None) not in _FORMATS:
            raise ValueError(
                f"{path}: a file that is read whole: write it as csv or parquet to sort it on disk"
            )
    if len({format_of(path, None) == "parquet" for path in files}) > 1:
        raise ValueError("some files are Parquet and some are text: write all of them in one of the two")
    if not files:
        raise ValueError("there are no files: give some")
    return files


def identity(path: Path) -> dict[str, str | int]:
    """Return what tells a file from others, and from what it was before."""
    status = os.stat(path)
    return {"file": str(path.absolute()), "size": status.st_size, "mtime": status.st_mtime_ns}


def is_files(sources: Any) -> bool:
    """Whether sources are names of files, or else entries themselves."""
    if isinstance(sources, str | os.PathLike):
        return True
    return isinstance(sources, list | tuple) and all(isinstance(each, str | os.PathLike) for each in sources)


def write_given(path: Path, blocks: Any) -> tuple[int, str]:
    """Write entries that a user has to a Parquet file; return how many columns, and their fingerprint."""
    batches = _batches(blocks)
    first = next(batches, None)
    if first is None:
        raise ValueError("there are no entries: give blocks of (rows, cols, values)")
    marks: list[str] = []

    def noted() -> Iterator[Any]:
        for batch in chain([first], batches):
            if batch.schema != first.schema:
                raise ValueError(
                    f"blocks must be alike: one is {first.schema.types}, another {batch.schema.types}"
                )
            marks.append(_mark(batch))
            yield batch

    with path.open("wb") as file:
        write_parquet(file, first.schema, noted())
    return len(first.schema), fingerprint(np.array(marks))


def _mark(batch: Any) -> str:
    columns = (column.to_numpy(zero_copy_only=False) for column in batch.columns)
    return fingerprint(*columns)


def _batches(blocks: Any) -> Iterator[Any]:
    """Yield blocks as record batches."""
    whole = isinstance(blocks, Triples) or (isinstance(blocks, tuple) and len(blocks) in (3, 4))
    each: Iterable[Any] = [blocks] if whole else blocks
    for k, block in enumerate(each):
        if isinstance(block, Triples):
            block = _named(block)
        if not 3 <= len(block) <= 4:
            raise ValueError(f"block {k} has {len(block)} parts, not rows, cols, values, and maybe weights")
        rows, cols = (
            label_column(part, f"block {k}, {name}[{{}}]")
            for part, name in zip(block, ("rows", "cols"), strict=False)
        )
        if "M" in (rows.dtype.kind, cols.dtype.kind):
            raise TypeError("times cannot be labels of entries that are sorted on disk: give strings")
        numbers = [np.asarray(part, dtype=np.float64) for part in block[2:]]
        if len({len(part) for part in (rows, cols, *numbers)}) > 1:
            raise ValueError(f"block {k}: rows, cols and values must have one length")
        if len(rows):
            yield pa.record_batch([pa.array(part) for part in (rows, cols, *numbers)], _GIVEN[: len(block)])


def _named(triples: Triples) -> tuple[Any, Any, Any]:
    """Return the entries with labels, where they have some."""
    sides = (triples.row_labels, triples.rows), (triples.col_labels, triples.cols)
    rows, cols = (places if labels is None else labels[places] for labels, places in sides)
    return rows, cols, triples.values


def four_columns(columns: Columns) -> Columns:
    """Return the columns of a file, once there are two to four."""
    if not 2 <= len(columns) <= 4:
        raise ValueError(
            f"columns must name row, column, value and weight, or the first two or three; got {columns!r}"
        )
    return tuple(columns)
