"""Rows and columns, where one is to the other what the other is to the one."""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class Axis(Enum):
    """The rows, or the columns, of a matrix; a pair (of rows, of columns) has a part for each."""

    ROW = "row"
    COLUMN = "column"

    @classmethod
    def named(cls, side: str) -> Axis:
        """Return the axis that a user names."""
        if side not in ("row", "column"):
            raise ValueError(f"side must be 'row' or 'column', not {side!r}")
        return cls(side)

    @property
    def other(self) -> Axis:
        """Columns for rows, rows for columns."""
        return Axis.COLUMN if self is Axis.ROW else Axis.ROW

    @property
    def where(self) -> str:
        """How errors name a row, or a column, of the user's pairs X; the line is to be filled in."""
        return "X[{}, 0]" if self is Axis.ROW else "X[{}, 1]"

    @property
    def triples(self) -> str:
        """How errors name a row, or a column, of the user's Triples X."""
        return "X.rows[{}]" if self is Axis.ROW else "X.cols[{}]"

    @property
    def labels(self) -> str:
        """The name that `Triples` have for the labels."""
        return "row_labels" if self is Axis.ROW else "col_labels"

    def of(self, pair: tuple[T, T]) -> T:
        """Return the part of this axis."""
        return pair[0] if self is Axis.ROW else pair[1]

    def pair(self, own: T, others: T) -> tuple[T, T]:
        """Return the pair of what belongs to this axis and what belongs to the other one."""
        return (own, others) if self is Axis.ROW else (others, own)
