"""Which columns of a file hold row, column and value."""

from __future__ import annotations

from collections.abc import Sequence

from rankfold.data.errors import DataFileError

Columns = Sequence[str | int]  # of row, column and, but for pairs, value: names or positions
ROLES = ("row", "column", "value", "weight")
NUMBERS = {2: "two", 3: "three", 4: "four"}


def place_columns(columns: Columns, names: Sequence[str], named: bool, file: str) -> tuple[int, ...]:
    """Return the positions of the columns, given by name or by position."""
    places = []
    for column in columns:
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
    if len(set(places)) < len(columns):
        raise DataFileError(
            f"{file}: columns must name {NUMBERS[len(columns)]} different columns, got {columns!r}"
        )
    return tuple(places)
