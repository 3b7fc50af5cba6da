"""How much a data file may ask for: nobody knows who made it, so sizes are checked before memory is taken."""

from __future__ import annotations

from rankfold.data.errors import DataFileError

LONGEST_LINE = 1 << 20  # bytes of a line of text; longer ones may be read, but need not be
MOST_COLUMNS = 10_000  # of a text file of triples or pairs
MOST_TABLE_COLUMNS = 50_000  # of a text file that is a table: pyarrow takes about 5 kB for each
LONGEST_SIDE = 1 << 32  # rows or columns of a matrix: one factor of rank 1 is 34 GB already
# What is packed may hold a small multiple of its size: text shrinks to a tenth or a thirtieth, tables of
# ratings in Parquet to a fifth. Files of a few kilobytes may hold a table that compresses well.
EXPANSION = 100
FREE = 1 << 24


def check_expansion(size: int, packed: int, file: str, what: str, remedy: str) -> None:
    """Refuse `what`, of `size` bytes, if it is absurdly more than the `packed` bytes that it comes from."""
    if size > FREE + EXPANSION * packed:
        raise DataFileError(
            f"{file}: {what} would take {size:,} bytes or more, made of {packed:,}, which is more than "
            f"{EXPANSION} times as many; {remedy}"
        )


def check_side(size: int, where: str, side: str) -> None:
    """Refuse a number of rows or columns that no model could have."""
    if not 0 <= size <= LONGEST_SIDE:
        raise DataFileError(
            f"{where}: a matrix of {size:,} {side}s cannot be used; between 0 and {LONGEST_SIDE:,} can: "
            "number those that have entries from 0, or name them by labels"
        )
