"""Columns in Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet, types

from rankfold.data.errors import DataFileError, WrongColumnError
from rankfold.data.io.chosen import ROLES, Columns, Wanted, option, place_columns
from rankfold.data.io.columns import BATCH, BadEntryError, Gather, IndexColumn, LabelColumn
from rankfold.data.io.limits import check_expansion
from rankfold.data.io.streams import length_of, seekable


def open_parquet(stream: BinaryIO, file: str) -> Any:
    """Return the open file, once what it says of its size is believable."""
    stream = seekable(stream)
    length = length_of(stream)
    try:
        table = parquet.ParquetFile(stream)
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(f"{file}: not a Parquet file, or a damaged one ({error})") from error
    facts = table.metadata
    groups = [facts.row_group(k) for k in range(facts.num_row_groups)]
    # not of the columns: pyarrow ends the process where it cannot read what is said of one
    sizes = [group.total_byte_size for group in groups]
    rows = [facts.num_rows, *(group.num_rows for group in groups)]
    if min([*sizes, *rows]) < 0 or sum(rows) != 2 * facts.num_rows:
        raise DataFileError(f"{file}: a damaged Parquet file: its numbers of rows do not agree")
    size = max(sum(sizes), 8 * facts.num_rows * facts.num_columns)
    check_expansion(size, length, file, "its table", "if that is right, write it as csv")
    # as dictionaries, since one long string that comes a million times is small in the file
    strings = [field.name for field in table.schema_arrow if _is_text(field.type)]
    return parquet.ParquetFile(stream, metadata=facts, read_dictionary=strings)


def _is_text(kind: Any) -> bool:
    return bool(types.is_string(kind) or types.is_large_string(kind))


def decoded(column: Any, file: str) -> Any:
    """Return a column, an array or chunks of it, without dictionaries, if that is no absurd lot of text."""
    if not types.is_dictionary(column.type):
        return column
    if _is_text(column.type.value_type):
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        lengths = [pc.binary_length(chunk.dictionary) for chunk in chunks]
        full = [size.take(chunk.indices) for size, chunk in zip(lengths, chunks, strict=True)]
        size, packed = (sum(pc.sum(n, min_count=0).as_py() for n in each) for each in (full, lengths))
        check_expansion(size, packed + 8 * len(column), file, "a column of text", "shorten its strings")
    return column.cast(column.type.value_type)


def open_columns(
    stream: BinaryIO, file: str, columns: Wanted, gather: Sequence[Any]
) -> tuple[Any, list[str]]:
    """Return the open file and the names of the chosen columns, once their types fit those of `gather`."""
    table = open_parquet(stream, file)
    names = table.schema_arrow.names
    chosen = [names[place] for place in place_columns(columns, names, True, file)]
    for name, column, role in zip(chosen, gather, ROLES, strict=False):
        if names.count(name) > 1:
            raise DataFileError(f"{file}: two columns are called {name!r}; rename one")
        _check_type(table.schema_arrow.field(name), column, role, file)
    return table, chosen


def batches_of(table: Any, chosen: Sequence[str], file: str) -> Iterator[Any]:
    """Yield the rows of an open file, checked: a damaged file may hold lists that point behind their end."""
    try:
        for batch in table.iter_batches(BATCH, columns=list(chosen)):
            batch.validate(full=True)
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise DataFileError(f"{file}: a damaged Parquet file ({error}); fetch or write it again") from error


def read_parquet(stream: BinaryIO, file: str, columns: Columns, gather: Gather) -> tuple[str, ...]:
    """Read all rows into the columns of `gather`, and return what the file calls these."""
    table, chosen = open_columns(stream, file, columns, gather)
    for _ in _added(table, chosen, file, gather):
        pass
    return tuple(chosen)


def parquet_blocks(stream: BinaryIO, file: str, columns: Columns, gather: Gather) -> Iterator[None]:
    """Read some rows after others into the columns of `gather`, which may be replaced in between."""
    table, chosen = open_columns(stream, file, columns, gather)
    yield from _added(table, chosen, file, gather)


def _added(table: Any, chosen: Sequence[str], file: str, gather: Gather) -> Iterator[None]:
    first = 0  # row of the batch
    for batch in batches_of(table, chosen, file):
        for name, column in zip(chosen, gather, strict=True):
            held = column.count
            try:
                column.add(batch.column(name))
            except BadEntryError as error:
                raise WrongColumnError(
                    f"{file}, row {first + error.position - held + 1}: column {name!r} {error.problem}; "
                    "drop or fill it"
                ) from error
            except (ValueError, pa.ArrowException) as error:
                raise DataFileError(f"{file}: column {name!r} cannot be read ({error})") from error
        yield
        first += len(batch)


def _check_type(field: Any, column: Any, role: str, file: str) -> None:
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if isinstance(column, IndexColumn):
        good, wanted = types.is_integer(kind), "integers, as indices=True says"
    elif isinstance(column, LabelColumn):
        good = types.is_integer(kind) or _is_text(kind)
        wanted = "integers or strings"
    else:
        good, wanted = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind), "numbers"
    if not good:
        raise WrongColumnError(
            f"{file}: column {field.name!r} holds {kind}; the {role} must hold {wanted}: "
            f"cast it, or choose another column{option(ROLES.index(role))}"
        )


def write_parquet(stream: BinaryIO, schema: Any, batches: Any) -> None:
    """Write record batches, one row group each."""
    with parquet.ParquetWriter(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
