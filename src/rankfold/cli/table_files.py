"""Tables from and to files: those with a header that commands read, and what commands write."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as pa_csv
from pyarrow import parquet, types

from rankfold.cli.console import json_text
from rankfold.cli.labels import StandardOutput, without_formulas
from rankfold.data import DataFileError
from rankfold.data.io.files import format_of
from rankfold.data.io.limits import MOST_TABLE_COLUMNS
from rankfold.data.io.lines import first_line
from rankfold.data.io.parquet import decoded, open_parquet, write_parquet
from rankfold.data.io.streams import name_of, reading, seekable, writing
from rankfold.data.io.text import is_number, write_text
from rankfold.data.numbering import of_fixed_width

Floats = NDArray[np.float64]
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "?")


def read_table(file: str, delimiter: str | None, missing: Sequence[str] | None, decimal: str = ".") -> Any:
    """Read a CSV, TSV or Parquet file as a pyarrow table, empty where it says one of `missing`."""
    kind = _kind(file)
    with reading(file) as stream:
        try:
            if kind == "parquet":
                table = _all_of(open_parquet(stream, name_of(file)), name_of(file))
            else:
                nothing = list(missing or MISSING)
                convert = pa_csv.ConvertOptions(
                    null_values=nothing, strings_can_be_null=False, decimal_point=decimal
                )
                stream, found = _of_some_columns(stream, delimiter, name_of(file))
                parse = pa_csv.ParseOptions(delimiter="\t" if kind == "tsv" else found)
                table = pa_csv.read_csv(stream, parse_options=parse, convert_options=convert)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise DataFileError(
                f"{name_of(file)}: {error}; a header and lines of equal length are needed, and fields "
                "separated as --delimiter says"
            ) from None
        names = table.column_names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise DataFileError(f"{name_of(file)}: two columns are called {twice!r}; rename one")
    if not table.num_rows:
        raise DataFileError(f"{name_of(file)}: there is nothing below the header")
    return table


def _of_some_columns(stream: BinaryIO, delimiter: str | None, file: str) -> tuple[BinaryIO, str]:
    """Return a stream of the same content and its delimiter, unless its first line has columns without end.

    By default the delimiter is what the header has most of; of names, unlike numbers, no comma is a part.
    """
    stream = seekable(stream)
    start = stream.tell()
    header = first_line(stream, file)[0]
    delimiter = delimiter or max(",;\t|", key=lambda character: header.count(character.encode()))
    count = header.count(delimiter.encode()) + 1
    if count > MOST_TABLE_COLUMNS:
        raise DataFileError(
            f"{file}: the first line has {count:,} columns; {MOST_TABLE_COLUMNS:,} can be read"
        )
    stream.seek(start)
    return stream, delimiter


def _all_of(opened: Any, file: str) -> Any:
    """Return all of an open Parquet file as a table."""
    table = opened.read()
    table.validate(full=True)
    return pa.table([decoded(column, file) for column in table.columns], names=table.column_names)


@contextmanager
def _output(file: str, binary: bool) -> Iterator[BinaryIO]:
    """Open a file, or standard output, whose errors get its name, and a terminal nothing that it obeys."""
    if file != "-":
        with writing(file) as stream:
            yield stream
        return
    if sys.stdout is None:
        raise ValueError("standard output is closed: name a file with -o")
    if binary and sys.stdout.isatty():
        raise ValueError("this format is not for terminals: name a file with -o")
    with writing(file) as stream:
        yield cast(BinaryIO, StandardOutput(stream, sys.stdout.isatty()))


def write_table(file: str, table: Any, escape_formulas: bool) -> None:
    """Write a table as CSV, TSV or Parquet; it appears only once it is complete."""
    kind = _kind(file)
    with _output(file, kind == "parquet") as stream:
        if kind == "parquet":
            parquet.write_table(table, stream)
        else:
            _write(stream, kind, table.schema, table.to_batches(), escape_formulas)


def write_batches(output: str, batches: Iterator[Any], json: bool, escape_formulas: bool) -> None:
    """Write record batches in the format that the name of the file says, or as a JSON object per line."""
    kind = _kind(output)
    kind = "json" if json else kind
    first = next(batches, None)  # before anything is written: the file of pairs may be bad
    if first is None:
        return
    same = (batch.cast(first.schema) for batch in batches) if kind == "parquet" else batches
    with _output(output, kind == "parquet") as stream:
        _write(stream, kind, first.schema, chain([first], same), escape_formulas)


def write_factors(model: Any, output: str, kind: str, escape_formulas: bool) -> None:
    """Write factors, offsets and labels as arrays (npz) or as a table (csv, parquet)."""
    with _output(output, kind != "csv") as stream:
        if kind == "npz":
            (L, R), (mean, rows, cols) = model.factors_, _offsets(model)
            labels = {"row_labels": model.row_labels_, "col_labels": model.col_labels_}
            known: dict[str, Any] = {
                name: of_fixed_width(part) for name, part in labels.items() if part is not None
            }
            buffer = io.BytesIO()  # an archive is written with seeks, which standard output has not
            np.savez(buffer, L=L, R=R, mean=mean, row_offsets=rows, col_offsets=cols, **known)
            stream.write(buffer.getbuffer())
        else:
            batches = _factor_batches(model)
            _write(stream, kind, batches[0].schema, batches, escape_formulas)


def _factor_batches(model: Any) -> list[Any]:
    """Return a line per row, then one per column."""
    mean, rows, cols = _offsets(model)
    sides = ("row", model.row_labels_, mean + rows), ("column", model.col_labels_, cols)
    batches = []
    for (side, labels, offsets), factor in zip(sides, model.factors_, strict=True):
        names = np.arange(len(factor)) if labels is None else labels
        columns = {"side": [side] * len(factor), "label": [str(name) for name in names], "offset": offsets}
        columns |= {f"factor_{k + 1}": factor[:, k] for k in range(factor.shape[1])}
        batches.append(pa.RecordBatch.from_pydict(columns))
    return batches


def _offsets(model: Any) -> Any:
    """Return the offsets of a model; those of one that has none are 0."""
    nothing = 0.0, *(np.zeros(size) for size in model.shape_)
    return getattr(model, "biases_", nothing)


def _write(stream: BinaryIO, kind: str, schema: Any, batches: Iterable[Any], escape_formulas: bool) -> None:
    if kind == "parquet":
        write_parquet(stream, schema, batches)
    elif kind == "json":
        for batch in batches:
            stream.writelines(f"{json_text(line)}\n".encode() for line in batch.to_pylist())
    else:
        if escape_formulas:
            names, batches = without_formulas(schema.names, batches)
            schema = pa.schema([(name, field.type) for name, field in zip(names, schema, strict=True)])
        write_text(stream, schema, batches, "\t" if kind == "tsv" else ",")


def _kind(file: str) -> str:
    kind = format_of(file, None)
    if kind not in ("csv", "tsv", "parquet"):
        raise ValueError(f"{file}: tables are csv, tsv or parquet, not {kind}")
    return kind


def numeric_columns(table: Any) -> list[str]:
    """Return the names of the columns that hold numbers, or nothing."""
    return [name for name in table.column_names if _is_numeric(table[name])]


def _is_numeric(column: Any) -> bool:
    kind = column.type
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_null(kind))


def with_columns(table: Any, names: Sequence[str], values: Floats) -> Any:
    """Return the table with other numbers in some columns."""
    for name, column in zip(names, values.T, strict=True):
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    return table


def numbers(table: Any, names: Sequence[str], file: str) -> Floats:
    """Return columns as one array, NaN where empty, or say which line holds something else."""
    if not names:
        commas = any(_has_commas(table[name]) for name in table.column_names)
        remedy = "; these look like decimal commas: --decimal ," if commas else ""
        raise DataFileError(f"{name_of(file)}: there is no column of numbers{remedy}")
    columns = []
    for name in names:
        if name not in table.column_names:
            there = ", ".join(map(repr, table.column_names))
            raise DataFileError(f"{name_of(file)}: there is no column {name!r}; there are: {there}")
        column = table[name]
        if not _is_numeric(column):
            raise DataFileError(_not_numeric(column, name, name_of(file)))
        columns.append(column.cast("float64", safe=False).to_numpy().astype(np.float64))
    return np.column_stack(columns)


def _has_commas(column: Any) -> bool:
    """Tell whether the first cell that is not empty is a number with a decimal comma."""
    first = next((cell for cell in column.to_pylist() if cell not in (None, "")), "")
    return isinstance(first, str) and "," in first and is_number(first, ",")


def _not_numeric(column: Any, name: str, file: str) -> str:
    for line, value in enumerate(column.to_pylist(), start=2):
        try:
            float(value)
        except (TypeError, ValueError):
            if value is not None:
                comma = isinstance(value, str) and is_number(value, ",")
                remedy = (
                    "read decimal commas with --decimal ,"
                    if comma
                    else ("correct it, or name it with --missing if it stands for nothing")
                )
                return f"{file}, line {line}: column {name!r} is not a number: {value!r}; {remedy}"
    return f"{file}: column {name!r} holds {column.type}, not numbers"
