"""Columns in Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO

import pyarrow as pa
from pyarrow import parquet, types

from rankfold.data.io.columns import (
    BATCH,
    ROLES,
    BadEntryError,
    Columns,
    Gather,
    IndexColumn,
    LabelColumn,
    place_columns,
)
from rankfold.data.io.streams import seekable


def open_columns(
    stream: BinaryIO, file: str, columns: Columns, gather: Sequence[Any]
) -> tuple[Any, list[str]]:
    """Return the open file and the names of the chosen columns, once their types fit those of `gather`."""
    try:
        table = parquet.ParquetFile(seekable(stream))
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file}: not a Parquet file, or a damaged one ({error})") from error
    names = table.schema_arrow.names
    chosen = [names[place] for place in place_columns(columns, names, True, file)]
    for name, column, role in zip(chosen, gather, ROLES, strict=False):
        _check_type(table.schema_arrow.field(name), column, role, file)
    return table, chosen


def read_parquet(stream: BinaryIO, file: str, columns: Columns, gather: Gather) -> None:
    """Read all rows into the three columns of `gather`."""
    table, chosen = open_columns(stream, file, columns, gather)
    for batch in table.iter_batches(BATCH, columns=chosen):
        for name, column in zip(chosen, gather, strict=True):
            try:
                column.add(batch.column(name))
            except BadEntryError as error:
                raise ValueError(
                    f"{file}, row {error.position + 1}: column {name!r} {error.problem}; drop or fill it"
                ) from error


def _check_type(field: Any, column: Any, role: str, file: str) -> None:
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if isinstance(column, IndexColumn):
        good, wanted = types.is_integer(field.type), "integers, as indices=True says"
    elif isinstance(column, LabelColumn):
        good = types.is_integer(kind) or types.is_string(kind) or types.is_large_string(kind)
        wanted = "integers or strings"
    else:
        good, wanted = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind), "numbers"
    if not good:
        raise ValueError(
            f"{file}: column {field.name!r} holds {field.type}; the {role} must hold {wanted}: "
            "cast it, or choose another column"
        )


def write_parquet(stream: BinaryIO, schema: Any, batches: Any) -> None:
    """Write record batches, one row group each."""
    with parquet.ParquetWriter(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
