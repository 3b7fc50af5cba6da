"""Delimited text: what the first line says of the file, and reading it block by block."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from pyarrow import csv as pa_csv

from rankfold.data.errors import DataFileError, WrongColumnError
from rankfold.data.io.chosen import NUMBERS, ROLES, Columns, Wanted, option, place_columns
from rankfold.data.io.columns import Gather, IndexColumn, LabelColumn, ValueColumn
from rankfold.data.io.limits import LONGEST_SIDE, MOST_COLUMNS
from rankfold.data.io.lines import blocks, first_line, lines_from, records
from rankfold.data.io.streams import name_of, reading

BLOCK = 1 << 22  # bytes of text held at a time
DELIMITERS = ("\t", "::", ",", ";", "|", " ")
STAND_IN = "\x1f"  # ASCII's unit separator, for delimiters longer than pyarrow's parser takes
BLANKS = re.compile(rb"[ \t]+")
BLANKS_AT_EDGES = re.compile(rb"^ | (?=\r?$)", re.MULTILINE)
UNEVEN_BLANKS = (b"\t", b"  ", b"\n ", b" \n", b" \r")


@dataclass(frozen=True)
class Layout:
    """How a text file holds its columns."""

    delimiter: str
    header: bool = False
    names: tuple[str, ...] = ()  # from the header, or the positions as text
    places: tuple[int, ...] = ()  # which column holds row, column and value; the value may be left out
    decimal: str = "."  # what stands before the fraction of a number

    @property
    def separator(self) -> str:
        """The one character that separates fields once a block is prepared."""
        return self.delimiter if len(self.delimiter) == 1 else STAND_IN

    def prepare(self, block: bytes) -> bytes:
        """Make every delimiter one character long; a delimiter " " stands for any run of blanks."""
        at_edges = b" " in (block[:1], block[-1:])
        if self.delimiter == " " and (at_edges or any(blanks in block for blanks in UNEVEN_BLANKS)):
            return BLANKS_AT_EDGES.sub(b"", BLANKS.sub(b" ", block))
        if len(self.delimiter) == 1:
            return block
        return block.replace(self.delimiter.encode(), STAND_IN.encode())


HasHeader = Callable[[list[str]], bool]  # tells from the chosen fields of the first line


def sniff(
    stream: BinaryIO,
    file: str,
    columns: Wanted,
    delimiter: str | None,
    header: bool | None,
    has_header: HasHeader | None = None,
    decimal: str = ".",
) -> tuple[Layout, bytes, int]:
    """Return the layout, the first line if it holds entries, and the number of the first line that does."""
    first, line_number = first_line(stream, file)
    text = first.decode(errors="replace").rstrip("\r\n")
    needed = len(columns)
    possible = [d for d in DELIMITERS if d != decimal]
    usual = "," if decimal != "," else ";"
    delimiter = delimiter or next((d for d in possible if text.count(d) >= needed - 1), usual)
    bare = Layout(delimiter)
    prepared = bare.prepare(text.encode()).decode()
    fields = next((fields for _, fields in records([prepared], bare.separator, file, line_number)), [])
    if len(fields) > MOST_COLUMNS:
        raise DataFileError(
            f"{file}: the first line has {len(fields):,} columns; {MOST_COLUMNS:,} can be read"
        )
    if len(fields) < needed:
        raise DataFileError(
            f"{file}: {NUMBERS[needed]} columns ({', '.join(ROLES[:needed])}) are needed, the first line "
            f"has {len(fields)} separated by {delimiter!r}: {text[:80]!r}; "
            "if another delimiter separates them, name it (delimiter=, or --delimiter)"
        )
    fields = [field.strip() for field in fields]
    if header is None:
        by_name = any(isinstance(column, str) for column in columns)
        has_header = has_header or (lambda chosen: not is_number(chosen[-1], decimal))
        header = by_name or has_header(
            [fields[place] for place in place_columns(columns, fields, False, file)]
        )
    names = fields if header else [str(k) for k in range(len(fields))]
    layout = Layout(delimiter, header, tuple(names), place_columns(columns, names, header, file), decimal)
    return (layout, b"", line_number + 1) if header else (layout, first, line_number)


def read_lines(
    stream: BinaryIO, file: str, gather: Gather, layout: Layout, first: bytes, line_number: int
) -> None:
    """Read the line `first`, which has the given number, and all that follow it."""
    for _ in line_blocks(stream, file, gather, layout, first, line_number):
        pass


def line_blocks(
    stream: BinaryIO, file: str, gather: Gather, layout: Layout, first: bytes, line_number: int
) -> Iterator[None]:
    """Read some lines after others into the columns of `gather`, which may be replaced in between."""
    for number, block in blocks(stream, BLOCK, file, first, line_number):
        prepared = layout.prepare(block)
        try:
            _add(prepared, layout, gather)
        except (ValueError, pa.ArrowException) as error:  # ValueError: BadEntryError is one
            raise explain(prepared, number, layout, gather, file, error) from error
        yield


def lines_of_entries(
    file: str | os.PathLike[str],
    entries: Sequence[int],
    columns: Columns,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str = ".",
) -> list[int]:
    """Return on which lines of a text file its entries, counted from 0, end; blank lines are no entries."""
    with reading(file) as stream:
        name = name_of(file)
        layout, first, number = sniff(stream, name, columns, delimiter, header, decimal=decimal)
        rest = lines_from(stream, name, number + bool(first))
        lines = itertools.chain([first] if first else [], (line for _, line in rest))
        texts = (layout.prepare(line).decode(errors="replace") for line in lines)
        ends = (end for end, fields in records(texts, layout.separator, name, number) if fields)
        wanted = {k: end for k, end in enumerate(itertools.islice(ends, max(entries) + 1)) if k in entries}
    return [wanted[k] for k in entries]


def _add(block: bytes, layout: Layout, gather: Gather) -> None:
    if block.isspace():
        return  # pyarrow takes blank lines for an error where there is nothing else
    table = None
    labels = [column for column in gather if isinstance(column, LabelColumn)]
    if not any(column.strings for column in labels) and not may_hide_text(block):
        # integers are read much faster than strings; one label that is none means strings from here on
        with contextlib.suppress(pa.ArrowInvalid):
            table = parse(block, layout, _types(gather, pa.int64()))
    if table is None:
        table = parse(block, layout, _types(gather, pa.dictionary(pa.int32(), pa.string())))
    for name, column in zip(table.column_names, gather, strict=True):
        for chunk in table[name].chunks:
            column.add(chunk)


def may_hide_text(block: bytes) -> bool:
    """Tell whether some number may be written with zeros in front, which are lost when read as an integer.

    Dates or times in other columns give false alarms, which cost time only.
    """
    byte = np.frombuffer(block, dtype=np.uint8)
    digit = (byte - ord("0")) < 10  # unsigned: what comes before "0" wraps around to large numbers
    padded = (byte[1:-1] == ord("0")) & digit[2:] & ~digit[:-2] & (byte[:-2] != ord("."))
    sign = np.flatnonzero(padded)  # what precedes the zero: of an exponent, as in 1e-05, if e precedes it
    in_exponent = (byte[sign - 1] | 0x20 == ord("e")) & ((byte[sign] == ord("-")) | (byte[sign] == ord("+")))
    at_start = block[:1] == b"0" and block[1:2].isdigit()
    return at_start or not bool(in_exponent.all())


def _types(gather: Gather, label_type: Any) -> list[Any]:
    types = {LabelColumn: label_type, IndexColumn: pa.int64(), ValueColumn: pa.float64()}
    return [types[type(column)] for column in gather]


def parse(block: bytes, layout: Layout, types: Sequence[Any]) -> Any:
    """Return the chosen columns of a prepared block, of these types, as a pyarrow table."""
    names = [str(k) for k in range(len(layout.names))]
    chosen = [names[place] for place in layout.places]
    return pa_csv.read_csv(
        pa.BufferReader(_owned(block)),
        read_options=pa_csv.ReadOptions(column_names=names),
        parse_options=pa_csv.ParseOptions(delimiter=layout.separator),
        convert_options=pa_csv.ConvertOptions(
            include_columns=chosen,
            column_types=dict(zip(chosen, types, strict=True)),
            null_values=[""],  # a label may well be called NA
            decimal_point=layout.decimal,
        ),
    )


def _owned(block: bytes) -> Any:
    """Return a copy in Arrow's own memory.

    Arrow's threads may be the last to let go of what they have parsed, and to free Python's bytes they need
    Python: while the interpreter exits, the process would abort.
    """
    buffer = pa.allocate_buffer(len(block))
    np.frombuffer(buffer, np.uint8)[:] = np.frombuffer(block, np.uint8)
    return buffer


def explain(
    block: bytes, line_number: int, layout: Layout, gather: Sequence[Any], file: str, error: Exception
) -> DataFileError:
    """Find the line of the block that could not be read, and say what is wrong with it."""
    lines = block.decode(errors="surrogateescape").split("\n")
    for line, fields in records(lines, layout.separator, file, line_number):
        where = f"{file}, line {line}"
        if fields and len(fields) != len(layout.names):
            return DataFileError(
                f"{where}: {len(fields)} columns where the first line has {len(layout.names)}: "
                f"{layout.delimiter.join(fields)[:80]!r}; quote fields that hold a delimiter"
            )
        for place, column, role in zip(layout.places, gather, ROLES, strict=False):
            problem = _problem(fields[place], column, layout.decimal) if fields else None
            if problem and isinstance(column, ValueColumn) and _has_comma(fields[place], layout.decimal):
                return DataFileError(
                    f"{file}: read it with --decimal , (in Python decimal=','): line {line}, column "
                    f"{layout.names[place][:80]!r}, holds a decimal comma, {fields[place][:80]!r}"
                )
            if problem:
                return WrongColumnError(
                    f"{where}: column {layout.names[place][:80]!r} {problem}: {fields[place][:80]!r}; "
                    f"correct the line, or choose another column for the {role}{option(ROLES.index(role))}"
                )
    return DataFileError(f"{file}, from line {line_number}: {error}")


def _problem(field: str, column: ValueColumn | IndexColumn | LabelColumn, decimal: str = ".") -> str | None:
    """Say what keeps a field out of a column: the columns' own rules, on text."""
    if not field.strip():
        return "is empty"
    if isinstance(column, LabelColumn):
        undecoded = any("\udc80" <= character <= "\udcff" for character in field)
        return "is not UTF-8 text" if undecoded else None
    if isinstance(column, ValueColumn):
        if not is_number(field, decimal):
            return "is not a number"
        return None if math.isfinite(float(field.replace(decimal, "."))) else "is not finite"
    if not re.fullmatch(r"\s*-?[0-9]+\s*", field):
        return "is not an integer"
    far = len(field.strip()) > len(str(LONGEST_SIDE)) + 1
    return None if not far and column.holds(np.array(int(field) - column.base)) else column.out_of_range


def _has_comma(field: str, decimal: str) -> bool:
    return decimal == "." and not is_number(field) and is_number(field, ",")


def is_number(field: str, decimal: str = ".") -> bool:
    """Tell whether a field can be read as a number with this decimal point."""
    return reads_as(float, field if decimal == "." else field.replace(".", "?").replace(decimal, "."))


def reads_as(kind: type[float], field: str) -> bool:
    """Tell whether a field can be read as a number of this kind."""
    try:
        kind(field)
    except ValueError:
        return False
    return True


def write_text(stream: BinaryIO, schema: Any, batches: Iterable[Any], delimiter: str) -> None:
    """Write a header and record batches; names and labels are quoted."""
    header = io.StringIO()
    csv.writer(header, delimiter=delimiter, lineterminator="\n").writerow(schema.names)
    stream.write(header.getvalue().encode())
    write_lines(stream, batches, delimiter)


def write_lines(stream: BinaryIO, batches: Iterable[Any], delimiter: str) -> None:
    """Write record batches, strings in quotes."""
    options = pa_csv.WriteOptions(include_header=False, delimiter=delimiter)
    for batch in batches:
        pa_csv.write_csv(batch, stream, options)
