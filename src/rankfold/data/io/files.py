"""Reading and writing triples, whatever the format of the file."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from rankfold.data.errors import DataFileError
from rankfold.data.io.chosen import Columns, are_times, option
from rankfold.data.io.columns import BATCH, Gather, IndexColumn, LabelColumn, ValueColumn
from rankfold.data.io.matrices import read_market, read_npz, write_market, write_npz
from rankfold.data.io.parquet import read_parquet, write_parquet
from rankfold.data.io.streams import name_of, reading, writing
from rankfold.data.io.text import read_lines, sniff, write_text
from rankfold.data.triples import Triples, index_dtype

Side = IndexColumn | LabelColumn
FORMATS = dict.fromkeys((".csv", ".dat", ".data", ".txt"), "csv") | {
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".mtx": "mtx",
    ".npz": "npz",
}


def read_triples(
    file: str | os.PathLike[str] | BinaryIO | Sequence[str | os.PathLike[str]],
    columns: Columns = (None, None, None),
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str = ".",
    indices: bool = False,
    shape: tuple[int, int] | None = None,
) -> Triples:
    r"""Read triples (row, column, value) from a file, in one pass and memory near that of the result.

    Row and column labels, integers or strings, are numbered from 0 in sorted order, so that the result does
    not depend on the order of the lines. Labels of a text file are integers if all of them are (007 is not:
    its zeros would be lost). Repeated pairs are kept. Files are not trusted: sizes are checked before memory
    is taken, and nothing in them is ever executed.

    Parameters
    ----------
    file : path, "-" for standard input, or a binary file object
        Compressed with gzip or not. Or a list of paths, all of text or all of Parquet, whose entries are
        taken together; `rankfold.data.sort_into` is for more than memory holds.
    columns : three names or positions, or two
        Which columns hold the row, the column and the value. Others are ignored. Without a third, as for
        clicks, each line has the value 1. One that is None is found by the file's header (user, item, rating
        and the like), or is the first, second or third; a value that looks like a time is then refused. What
        was taken stands in `names` of the result. Not for mtx and npz.
    format : {"csv", "tsv", "parquet", "mtx", "npz"}, optional
        By default what the file's name says (.csv, .tsv, .txt, .dat, .data, .parquet, .pq, .mtx, .npz, with
        or without .gz), and csv for streams.
    delimiter : str, optional
        What separates the fields of a text file, such as ``";"`` or ``"::"``. By default found out from
        the first line.
    header : bool, optional
        Whether the first line of a text file names the columns. By default it does if columns are chosen
        by name, or if its value (the label of the column, where there are no values) is not a number.
    decimal : str
        What stands before the fraction of a number in a text file: ``"."`` or ``","``.
    indices : bool
        Whether rows and columns are positions counted from 0 instead of labels.
    shape : (int, int), optional
        Shape of the matrix, with ``indices=True``; by default just large enough.

    Raises
    ------
    DataFileError
        What the file holds cannot be read as triples, or is absurd: a line of more than 2²⁰ bytes, a side of
        more than 2³² rows, gzip or Parquet data that holds more than 100 times its own size. The message
        names the file, the line and the remedy.
    OSError
        The file cannot be opened or read.

    Examples
    --------
    >>> import io
    >>> text = b"when,film,who,stars\n1999,Alien,bob,4\n2001,Heat,ann,5\n2002,Alien,ann,3\n"
    >>> triples = read_triples(io.BytesIO(text), columns=("who", "film", "stars"))
    >>> triples.row_labels.tolist(), triples.col_labels.tolist(), triples.shape
    (['ann', 'bob'], ['Alien', 'Heat'], (2, 2))
    >>> triples.rows.tolist(), triples.cols.tolist(), triples.values.tolist()
    ([1, 0, 0], [0, 1, 0], [4.0, 5.0, 3.0])
    """
    several = list(file) if isinstance(file, list | tuple) else [file]
    if not several:
        raise ValueError("there are no files: give one at least")
    kind = _one_format(several, format)
    if len(columns) not in (2, 3):
        raise ValueError(f"columns must name three columns (row, column, value), or two, got {columns!r}")
    if len(decimal) != 1 or decimal.isalnum():
        raise ValueError(f"decimal must be one character, '.' or ',', got {decimal!r}")
    if shape is not None and not indices:
        raise ValueError("shape goes with indices=True: labels are numbered as they are found")
    if kind in ("mtx", "npz"):
        with reading(several[0]) as stream:
            return (read_market if kind == "mtx" else read_npz)(stream, name_of(several[0]))
    d1, d2 = shape or (None, None)
    text = kind != "parquet"
    rows = IndexColumn(d1) if indices else LabelColumn(text)
    cols = IndexColumn(d2) if indices else LabelColumn(text)
    values = ValueColumn() if len(columns) == 3 else None
    gather = [rows, cols] if values is None else [rows, cols, values]
    taken = [_read_into(gather, each, format, columns, delimiter, header, decimal) for each in several]
    triples = _assemble(rows, cols, values, name_of(several[-1]), taken[0])
    if len(columns) == 3 and columns[2] is None and are_times(triples.values):
        raise DataFileError(
            f"{name_of(several[0])}: column {taken[0][2]!r} looks like times ({triples.values[0]:.0f}), not "
            f"like values: name the value's column{option(2)}, this one if it is; clicks have none "
            "(columns=(None, None), or `rankfold clicks`)"
        )
    return triples


def _read_into(
    gather: Gather, file: Any, format: str | None, columns: Columns, delimiter: str | None,
    header: bool | None, decimal: str,
) -> tuple[str, ...]:  # fmt: skip
    """Read a file of text or Parquet into the columns of `gather`, and return what it calls these."""
    name, kind = name_of(file), format_of(file, format)
    with reading(file) as stream:
        if kind == "parquet":
            return read_parquet(stream, name, columns, gather)
        delimiter = "\t" if kind == "tsv" else delimiter
        layout, first, line = sniff(stream, name, columns, delimiter, header, decimal=decimal)
        read_lines(stream, name, gather, layout, first, line)
        return tuple(layout.names[place] for place in layout.places)


def matching_files(names: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the files that names, and patterns such as 'shards/*.parquet', stand for."""
    files: list[Path] = []
    for each in names:
        name = os.fspath(each)
        pattern = glob.has_magic(name) and not Path(name).exists()
        found = sorted(glob.glob(name)) if pattern else [name]
        if not found:
            raise FileNotFoundError(f"{name}: no file has such a name; is the folder right?")
        files.extend(Path(match) for match in found)
    return files


def _one_format(files: Sequence[Any], format: str | None) -> str:
    """Return the format of files that can be read together."""
    kinds = {format_of(file, format) for file in files}
    apart = kinds & {"mtx", "npz"} if len(files) > 1 else set()
    if apart:
        raise ValueError(f"a file of the format {apart.pop()} holds a whole matrix: give one alone")
    if len({kind == "parquet" for kind in kinds}) > 1:
        raise ValueError("some files are Parquet and some are text: write all of them in one of the two")
    return kinds.pop() if len(kinds) == 1 else "csv"


def _assemble(
    rows: Side, cols: Side, values: ValueColumn | None, name: str, names: tuple[str, ...]
) -> Triples:
    (i, d1, row_labels), (j, d2, col_labels) = rows.finish(), cols.finish()
    if not len(i):
        needed = "row and column" if values is None else "row, column and value"
        raise DataFileError(f"{name}: there is nothing below the header; rows of {needed} are needed")
    numbers = np.ones(len(i)) if values is None else values.finish()
    dtype = index_dtype((d1, d2))
    i, j = i.astype(dtype, copy=False), j.astype(dtype, copy=False)
    triples = Triples(i, j, numbers, (d1, d2), row_labels, col_labels, names)
    pa.default_memory_pool().release_unused()  # what it keeps for itself is not small
    return triples


def write_triples(
    file: str | os.PathLike[str] | BinaryIO,
    triples: Triples,
    columns: Sequence[str] = ("row", "column", "value"),
    *,
    format: str | None = None,
    delimiter: str | None = None,
) -> None:
    r"""Write triples to a file; `read_triples` reads them back exactly.

    Text and Parquet hold labels where there are any and positions otherwise (read these with
    ``indices=True``); a row or column without entries is not in them. npz holds everything, mtx all but
    labels. A file appears, or is replaced, only once it is completely written.

    Parameters
    ----------
    file : path, "-" for standard output, or a binary file object
        A text file or mtx whose name ends in .gz is compressed.
    columns : three names
        The header.
    format : {"csv", "tsv", "parquet", "mtx", "npz"}, optional
        By default what the file's name says, and csv for streams.
    delimiter : str, optional
        One character; a comma by default.

    Examples
    --------
    >>> import io
    >>> triples = read_triples(io.BytesIO(b"bob,Alien,4\nann,Heat,5.5\n"))
    >>> buffer = io.BytesIO()
    >>> write_triples(buffer, triples, ("who", "film", "stars"))
    >>> print(buffer.getvalue().decode(), end="")
    who,film,stars
    "bob","Alien",4
    "ann","Heat",5.5
    """
    kind = format_of(file, format)
    if len(set(columns)) != 3:
        raise ValueError(f"columns must be three different names, got {columns!r}")
    if kind in ("parquet", "npz") and name_of(file).endswith(".gz"):
        raise ValueError(f"{name_of(file)}: {kind} is not compressed with gzip; leave out .gz")
    with writing(file) as stream:
        if kind == "mtx":
            write_market(stream, triples)
        elif kind == "npz":
            write_npz(stream, triples)
        else:
            schema, batches = _batches(triples, columns)
            if kind == "parquet":
                write_parquet(stream, schema, batches)
            else:
                write_text(stream, schema, batches, "\t" if kind == "tsv" else delimiter or ",")


def _batches(triples: Triples, columns: Sequence[str]) -> tuple[Any, Iterator[Any]]:
    """Return the schema of a table of the triples, and its rows in record batches."""
    labels = [None if side is None else pa.array(side) for side in (triples.row_labels, triples.col_labels)]

    def columns_of(part: slice) -> list[Any]:
        places = pa.array(triples.rows[part]), pa.array(triples.cols[part])
        named = [at if names is None else names.take(at) for at, names in zip(places, labels, strict=True)]
        return [*named, pa.array(triples.values[part])]

    types = [column.type for column in columns_of(slice(0))]
    schema = pa.schema(list(zip(columns, types, strict=True)))
    parts = (slice(start, start + BATCH) for start in range(0, len(triples), BATCH))
    return schema, (pa.record_batch(columns_of(part), schema=schema) for part in parts)


def format_of(file: Any, format: str | None) -> str:
    """Return the format asked for, or the one the name of the file stands for."""
    known = sorted(set(FORMATS.values()))
    if format is None and isinstance(file, str | os.PathLike) and file != "-":
        path = Path(file)
        suffix = PurePath(path.stem).suffix if path.suffix == ".gz" else path.suffix
        if suffix.lower() not in FORMATS and _is_stream(path):
            return "csv"
        if suffix.lower() not in FORMATS:
            raise ValueError(
                f"{path}: the ending {suffix!r} stands for no known format; "
                f"known are {', '.join(FORMATS)}, or name one with format={known}"
            )
        return FORMATS[suffix.lower()]
    if format is not None and format not in known:
        raise ValueError(f"format must be one of {known}, got {format!r}")
    return format or "csv"


def _is_stream(path: Path) -> bool:
    """Tell whether a path names a pipe or a device, such as /dev/stdin, whose name says nothing."""
    named_by_system = path.parent in (Path("/dev"), Path("/dev/fd"))
    return named_by_system or (path.exists() and not path.is_file() and not path.is_dir())
