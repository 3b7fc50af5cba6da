"""Tables with a header, from and to files, as the commands on tables need them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as pa_csv
from pyarrow import parquet, types

from rankfold.data.io.files import format_of
from rankfold.data.io.streams import name_of, reading, seekable, writing
from rankfold.data.io.text import write_text

Floats = NDArray[np.float64]
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "?")


def read_table(file: str, delimiter: str | None, missing: Sequence[str] | None) -> Any:
    """Read a CSV, TSV or Parquet file as a pyarrow table, empty where it says one of `missing`."""
    kind = _kind(file)
    with reading(file) as stream:
        try:
            if kind == "parquet":
                table = parquet.read_table(seekable(stream))
            else:
                nothing = list(missing or MISSING)
                convert = pa_csv.ConvertOptions(null_values=nothing, strings_can_be_null=False)
                parse = pa_csv.ParseOptions(delimiter="\t" if kind == "tsv" else delimiter or ",")
                table = pa_csv.read_csv(stream, parse_options=parse, convert_options=convert)
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{name_of(file)}: {error}; a header and lines of equal length are needed"
            ) from None
    if not table.num_rows:
        raise ValueError(f"{name_of(file)}: there is nothing below the header")
    return table


def write_table(file: str, table: Any) -> None:
    """Write a table as CSV, TSV or Parquet; it appears only once it is complete."""
    kind = _kind(file)
    with writing(file) as stream:
        if kind == "parquet":
            parquet.write_table(table, stream)
        else:
            write_text(stream, table.schema, table.to_batches(), "\t" if kind == "tsv" else ",")


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
        raise ValueError(f"{name_of(file)}: there is no column of numbers")
    columns = []
    for name in names:
        if name not in table.column_names:
            there = ", ".join(map(repr, table.column_names))
            raise ValueError(f"{name_of(file)}: there is no column {name!r}; there are: {there}")
        column = table[name]
        if not _is_numeric(column):
            raise ValueError(_not_numeric(column, name, name_of(file)))
        columns.append(column.cast("float64").to_numpy().astype(np.float64))
    return np.column_stack(columns)


def _not_numeric(column: Any, name: str, file: str) -> str:
    for line, value in enumerate(column.to_pylist(), start=2):
        try:
            float(value)
        except (TypeError, ValueError):
            if value is not None:
                return (
                    f"{file}, line {line}: column {name!r} is not a number: {value!r}; correct it, or "
                    "name it with --missing if it stands for nothing"
                )
    return f"{file}: column {name!r} holds {column.type}, not numbers"
