"""Which columns of a file hold row, column and value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.data.errors import DataFileError


class Expected(NamedTuple):
    """What a column is called if the file is like an earlier one; if no column is, it is found like None."""

    name: str


# Of row, column and, but for pairs, value, and maybe weight: names or positions; None where the file's own
# names tell.
Columns = Sequence[str | int | None]
Wanted = Sequence[str | int | Expected | None]
ROLES = ("row", "column", "value", "weight")
NUMBERS = {2: "two", 3: "three", 4: "four"}
# What columns are called, in lower case without blanks, signs and a final "id", in the order of preference.
_CALLED = (
    ("user", "customer", "client", "member", "viewer", "reader", "listener", "reviewer", "person", "patient",
     "who", "uid", "row"),
    ("item", "movie", "film", "product", "article", "book", "isbn", "song", "track", "artist", "game",
     "business", "restaurant", "asin", "iid", "column", "col"),
    ("rating", "stars", "score", "value", "ratings", "overall", "grade", "y"),
    ("weight", "weights", "confidence"),
)  # fmt: skip
_NAMES = {name for names in _CALLED for name in names}
_TIMES = ("time", "timestamp", "date", "datetime", "day", "when", "ts", "unixtime", "unixreviewtime",
          "reviewtime", "created", "createdat", "updatedat", "ratedat")  # fmt: skip
# Seconds and milliseconds since 1970, of the years from 1989 to 2099: what computers write for a time.
_CLOCKS = ((6e8, 4.1e9), (6e11, 4.1e12))


def place_columns(columns: Wanted, names: Sequence[str], named: bool, file: str) -> tuple[int, ...]:
    """Return the positions of the columns, given by name or by position, or found by what they are called."""
    chosen = _chosen(columns, names, named, file)
    places = []
    for column in chosen:
        place = column
        if isinstance(place, str):
            if named and names.count(place) > 1:
                raise DataFileError(
                    f"{file}: two columns are called {place!r}; rename one, or give positions"
                )
            place = names.index(place) if named and place in names else -1
        if not 0 <= place < len(names):
            there = ", ".join(map(repr, names)) if named else f"{len(names)} columns and no header"
            raise DataFileError(f"{file}: there is no column {column!r}; there are: {there}")
        places.append(place)
    if len(set(places)) < len(chosen):
        raise DataFileError(
            f"{file}: columns must name {NUMBERS[len(chosen)]} different columns, got {chosen!r}"
        )
    return tuple(places)


def _chosen(columns: Wanted, names: Sequence[str], named: bool, file: str) -> list[str | int]:
    """Fill in the columns that nobody chose: by their names, else the first that are free."""
    chosen = [_if_there(column, names, named) for column in columns]
    taken = [names.index(c) if isinstance(c, str) and c in names else c for c in chosen if c is not None]
    open_roles = [role for role, column in enumerate(chosen) if column is None]
    if named:
        for role in open_roles:
            found = next((k for k in called(names, role) if k not in taken), None)
            chosen[role] = found
            taken += [] if found is None else [found]
    for role in open_roles:
        if chosen[role] is None:
            # the column that stands where the role would, unless it is taken
            place = next((k for k in (role, *range(len(names))) if k not in taken), role)
            chosen[role] = place
            taken.append(place)
    value = chosen[2] if 2 in open_roles else None
    if named and isinstance(value, int) and value < len(names) and is_time(names[value]):
        there = ", ".join(map(repr, names))
        raise DataFileError(
            f"{file}: no column is called like a value, and {names[value]!r}, which would be next, like a "
            f"time; there are: {there}. Name the value's column{option(2)}"
        )
    return [column if column is not None else role for role, column in enumerate(chosen)]


def _if_there(column: str | int | Expected | None, names: Sequence[str], named: bool) -> str | int | None:
    if not isinstance(column, Expected):
        return column
    return column.name if named and names.count(column.name) == 1 else None


def option(role: int) -> str:
    """Say how a column is chosen: in Python, and on the command line."""
    return f" (columns=, or --{('row', 'col', 'value')[role]})"


def called(names: Sequence[str], role: int) -> list[int]:
    """Return the positions of columns that are called like a role, the best name first.

    Examples
    --------
    >>> called(["movieId", "user_id", "timestamp", "Rating"], 2), called(["movieId", "user_id"], 0)
    ([3], [1])
    """
    plain = [_plain(name) for name in names]
    ranked = [(_CALLED[role].index(name), k) for k, name in enumerate(plain) if name in _CALLED[role]]
    return [k for _, k in sorted(ranked)]


def is_time(name: str) -> bool:
    """Tell whether a column is called like a time."""
    return _plain(name) in _TIMES or re.sub(r"[^a-z]", "", name.lower()) in _TIMES


def _plain(name: str) -> str:
    """Return a name without what differs from file to file: case, signs, "id" or "name" at the end."""
    letters = re.sub(r"[^a-z0-9]", "", name.lower())
    if letters in _NAMES:  # such as uid
        return letters
    return re.sub(r"(id|idx|index|name|title)$", "", letters) or letters


def are_times(values: NDArray[np.float64]) -> bool:
    """Tell whether all values look like seconds, or milliseconds, of a clock."""
    if values.size < 2 or values.min() == values.max():
        return False
    within = any(low <= values.min() and values.max() <= high for low, high in _CLOCKS)
    return bool(within and np.all(values == np.floor(values)))
