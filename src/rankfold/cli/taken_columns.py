"""Which columns of a file a command takes: said aloud, and hints to the right options or another command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rankfold.cli.console import note
from rankfold.data import DataFileError, Triples
from rankfold.data.errors import WrongColumnError
from rankfold.data.io.chosen import called
from rankfold.data.io.text import is_number, reads_as

_WIDE = (
    "a table with a column for each thing is for `rankfold impute`; if the lines do hold row, column and "
    "value, say which columns: --row, --col, --value"
)
_SEEN = 1000  # labels looked at


@contextmanager
def hints(columns: Sequence[Any]) -> Iterator[None]:
    """Add to what is wrong with a column that it may be another table, if nobody chose the columns."""
    try:
        yield
    except WrongColumnError as error:
        if any(column is not None for column in columns):
            raise
        raise DataFileError(f"{error} ({_WIDE})") from error


def refuse_wide(triples: Triples, file: str, columns: Sequence[Any]) -> None:
    """Refuse a table whose column of column labels holds measurements, unless somebody chose this column."""
    labels = triples.col_labels
    if columns[1] is not None or labels is None or labels.dtype.kind not in "UO":
        return
    some = [str(label) for label in labels[:_SEEN]]
    broken = [label for label in some if is_number(label) and not reads_as(int, label)]
    if 2 * len(broken) > len(some):
        name = "" if triples.names is None else f" {triples.names[1]!r}"
        raise DataFileError(f"{file}: column{name} holds numbers such as {broken[0]}, not labels: {_WIDE}")


def tell_taken(names: Sequence[str] | None, file: str) -> None:
    """Say which columns were taken for what, where the file has several."""
    if names is not None:
        roles = zip(("rows", "columns", "values"), names, strict=False)
        note(f"rankfold: {file}: {', '.join(f'{role} from {name!r}' for role, name in roles)}")


def refuse_triples(names: Sequence[str], file: str) -> None:
    """Refuse a table whose columns are called like those of triples: such a table has no holes to fill."""
    found = [next((names[k] for k in called(names, role)), None) for role in range(3)]
    if None not in found and len(names) <= 4:
        row, col, value = found
        raise DataFileError(
            f"{file}: lines of {row!r}, {col!r} and {value!r} are known entries of a matrix, which "
            "`rankfold complete` takes; impute fills the holes of a table with a column for each thing. "
            "If that is what you want, name the columns: --column"
        )


def tell_left_out(names: Sequence[str], used: Sequence[str], why: str) -> None:
    """Name the columns that a command leaves out, if there are some."""
    apart = [repr(name) for name in names if name not in set(used)]
    if apart:
        note(f"rankfold: left out {', '.join(apart)}: {why}")
