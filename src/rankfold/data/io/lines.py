"""Lines of text files that nobody vouches for: none without end, each with its number."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from rankfold.data.errors import DataFileError
from rankfold.data.io.limits import LONGEST_LINE

LONE_RETURN = re.compile(rb"\r(?!\n)")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def first_line(stream: BinaryIO, file: str) -> tuple[bytes, int]:
    """Return the first line that is not blank, and its number."""
    for number, line in lines_from(stream, file, 1):
        line = line.removeprefix(BYTE_ORDER_MARK)
        if line.strip():
            return line, number
    raise DataFileError(f"{file}: the file is empty; lines of row, column and value are needed")


def lines_from(stream: BinaryIO, file: str, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield line by line, the first of which has this number; one too long for memory is refused."""
    while line := stream.readline(LONGEST_LINE + 1):
        _check_line(line, file, number)
        yield number, line
        number += 1


def _check_line(line: bytes, file: str, number: int) -> None:
    if len(line) > LONGEST_LINE:
        raise DataFileError(
            f"{file}, line {number}: the line is longer than {LONGEST_LINE:,} bytes; is this a text file, "
            "with line feeds between its lines?"
        )
    _check_returns(line, file, number)


def _check_returns(block: bytes, file: str, number: int) -> None:
    """Refuse carriage returns without a line feed: programs do not agree on whether they end a line."""
    lone = block.count(b"\r") != block.count(b"\r\n") and LONE_RETURN.search(block)
    if lone:
        number += block.count(b"\n", 0, lone.start())
        raise DataFileError(
            f"{file}, line {number}: a carriage return (CR) without a line feed (LF); end lines by LF or "
            "CR LF, and leave CR out of labels"
        )


def records(lines: Iterable[str], separator: str, file: str, number: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the fields of each record and on which line it ends; the first line has this number."""
    reader = csv.reader(lines, delimiter=separator)
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            where = f"{file}, line {number + max(reader.line_num, 1) - 1}"
            raise DataFileError(f"{where}: the line cannot be split ({error}); is a quote missing?") from None
        if fields is None:
            return
        yield number + reader.line_num - 1, fields


def blocks(stream: BinaryIO, size: int, file: str, first: bytes, number: int) -> Iterator[tuple[int, bytes]]:
    """Yield the text in blocks of whole lines, of about `size` bytes, with the number of their first line."""
    block = first + stream.read(size)
    while block:
        end = stream.readline(LONGEST_LINE + 1)
        if len(end) > LONGEST_LINE:
            _check_line(end, file, number + block.count(b"\n"))
        block += end
        _check_returns(block, file, number)
        yield number, block
        number += block.count(b"\n")
        block = stream.read(size)
