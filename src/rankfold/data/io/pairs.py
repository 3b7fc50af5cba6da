"""Pairs of labels from a file, batch by batch, and where they stand in a matrix whose labels are known."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankfold.data.errors import DataFileError
from rankfold.data.io import text
from rankfold.data.io.chosen import Wanted
from rankfold.data.io.columns import LabelColumn
from rankfold.data.io.files import format_of
from rankfold.data.io.lines import blocks, records
from rankfold.data.io.parquet import batches_of, decoded, open_columns
from rankfold.data.io.streams import name_of, reading
from rankfold.data.io.text import Layout, explain, may_hide_text, parse, reads_as, sniff
from rankfold.data.labels import LabelIndex


@dataclass(frozen=True)
class PairBatch:
    """Some pairs of a file, in its order."""

    rows: NDArray[np.int64]  # positions in the matrix; -1 where it has no such row
    cols: NDArray[np.int64]
    row_labels: Any  # what the file calls them, as pyarrow arrays
    col_labels: Any
    place: Callable[[int], str]  # names the file and the line of a pair, given its number in the batch
    header: tuple[str, ...] | None = None  # the fields of the first line, unless it was read as a pair
    names: tuple[str, str] = ("row", "column")  # what the file calls the two columns

    def __len__(self) -> int:
        return len(self.rows)


def read_pairs(
    file: str | os.PathLike[str] | BinaryIO,
    rows: LabelIndex,
    cols: LabelIndex,
    columns: Wanted = (None, None),
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
) -> Generator[PairBatch]:
    r"""Read pairs (row, column) from a CSV, TSV or Parquet file, a batch at a time.

    Parameters
    ----------
    file : path, "-" for standard input, or a binary file object
    rows, cols : LabelIndex
        What the two sides of the matrix are called.
    columns : two names or positions
        Which columns of the file hold row and column; others are ignored. One that is None is found as in
        `read_triples`.
    format, delimiter
        As in `read_triples`.
    header : bool, optional
        Whether the first line of a text file names the columns. By default it does if columns are chosen by
        name, or if the matrix knows neither of its two labels.

    Raises
    ------
    DataFileError
        What the file holds cannot be read as pairs; as in `read_triples`, sizes are limited.
    OSError
        The file cannot be opened or read.

    Examples
    --------
    >>> import io, numpy as np
    >>> from rankfold.data import LabelIndex
    >>> who, films = LabelIndex(2, np.array(["ann", "bob"])), LabelIndex(2, np.array(["Alien", "Heat"]))
    >>> for batch in read_pairs(io.BytesIO(b"who,film\nbob,Heat\neve,Alien\n"), who, films):
    ...     print(batch.rows, batch.cols, batch.place(1))
    [ 1 -1] [1 0] the stream, line 3
    """
    kind, name = format_of(file, format), name_of(file)
    if len(columns) != 2:
        raise ValueError(f"columns must name two columns (row, column), got {columns!r}")
    if kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"{name}: pairs are read from csv, tsv and parquet files, not from {kind}")
    with reading(file) as stream:
        if kind == "parquet":
            yield from _from_parquet(stream, name, columns, (rows, cols))
        else:
            delimiter = "\t" if kind == "tsv" else delimiter
            yield from _from_text(stream, name, columns, delimiter, header, (rows, cols))


Sides = tuple[LabelIndex, LabelIndex]


def _from_text(
    stream: BinaryIO, file: str, columns: Wanted, delimiter: str | None, header: bool | None, sides: Sides
) -> Iterator[PairBatch]:
    layout, first, line_number = sniff(
        stream, file, columns, delimiter, header, lambda fields: _names(fields, sides)
    )
    found = False
    for number, block in blocks(stream, text.BLOCK, file, first, line_number):
        prepared = layout.prepare(block)
        if not prepared.isspace():
            yield _text_batch(prepared, layout, sides, file, number)
            found = True
    if not found:
        raise DataFileError(
            f"{file}: there is nothing below the header, {', '.join(map(repr, layout.names))}; if that line "
            "is a pair, say that there is no header"
        )


def _names(fields: list[str], sides: Sides) -> bool:
    """Tell whether the fields look like names of columns: the matrix knows neither of them."""
    return not any(
        side.find_text(name) >= 0 or (side.integers and reads_as(int, name))
        for side, name in zip(sides, fields, strict=True)
    )


def _text_batch(block: bytes, layout: Layout, sides: Sides, file: str, line_number: int) -> PairBatch:
    try:
        names = _names_in(block, layout, sides)
    except (ValueError, pa.ArrowException) as error:
        columns = LabelColumn(text=True), LabelColumn(text=True)
        raise explain(block, line_number, layout, columns, file, error) from error
    batch = _batch(names, sides, lambda k: f"{file}, line {_line_of(block, layout, k, file, line_number)}")
    if not layout.header:
        return batch
    row, col = (layout.names[place] for place in layout.places)
    return replace(batch, header=layout.names, names=(row, col))


def _names_in(block: bytes, layout: Layout, sides: Sides) -> list[Any]:
    if all(side.integers for side in sides) and not may_hide_text(block):
        with suppress(pa.ArrowInvalid):  # integers are read much faster than strings
            table = parse(block, layout, [pa.int64(), pa.int64()])
            if not any(column.null_count for column in table.columns):
                return [column.combine_chunks() for column in table.columns]
    table = parse(block, layout, [pa.string(), pa.string()])
    names = [pc.utf8_trim_whitespace(column.combine_chunks()) for column in table.columns]
    if any(pc.index(column, "").as_py() >= 0 for column in names):
        raise ValueError("a label is empty")
    return names


def _line_of(block: bytes, layout: Layout, pair: int, file: str, line_number: int) -> int:
    """Return on which line of the file a pair ends: lines may be blank, and labels span several."""
    lines = block.decode(errors="replace").split("\n")
    ends = (end for end, fields in records(lines, layout.separator, file, line_number) if fields)
    return next(end for k, end in enumerate(ends) if k == pair)


def _from_parquet(stream: BinaryIO, file: str, columns: Wanted, sides: Sides) -> Iterator[PairBatch]:
    table, chosen = open_columns(stream, file, columns, (LabelColumn(text=False), LabelColumn(text=False)))
    count = 0
    for batch in batches_of(table, chosen, file):
        names = []
        for name in chosen:
            column = decoded(batch.column(name), file)
            if column.null_count:
                row = count + int(column.is_null().to_numpy(zero_copy_only=False).argmax()) + 1
                raise DataFileError(f"{file}, row {row}: column {name!r} is empty; drop or fill it")
            names.append(column)
        found = _batch(names, sides, lambda k, start=count: f"{file}, row {start + k + 1}")  # type: ignore[misc]
        yield replace(found, names=(chosen[0], chosen[1]))
        count += len(batch)


def _batch(names: list[Any], sides: Sides, place: Callable[[int], str]) -> PairBatch:
    rows, cols = (side.find_arrow(column) for side, column in zip(sides, names, strict=True))
    return PairBatch(rows, cols, names[0], names[1], place)
