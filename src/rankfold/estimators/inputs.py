"""Pairs of rows and columns as users have them: positions, labels, tables, tensors."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

Labels = NDArray[Any]
Positions = NDArray[np.integer]
SIDES = "row", "column"


def pair_columns(X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the two columns of X: integers, or strings.

    X is an array, a torch tensor, a pandas or polars DataFrame, or a list of pairs.

    Examples
    --------
    >>> rows, cols = pair_columns([("ann", 3), ("bob", 4)])
    >>> rows.tolist(), cols.tolist()
    (['ann', 'bob'], [3, 4])
    """
    if is_torch_array(X):
        X = X.detach().cpu().numpy()
    if hasattr(X, "columns") and not isinstance(X, np.ndarray):
        columns = [_to_numpy(X[name]) for name in X.columns]
    elif isinstance(X, (list, tuple)):
        columns = _listed(X)
    else:
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must be two-dimensional, one [row, column] per line; got shape {X.shape}")
        columns = list(X.T)
    if len(columns) != 2:
        raise ValueError(f"X must have two columns, the row and the column of each entry; got {len(columns)}")
    return column_of(columns[0], "X[{}, 0]"), column_of(columns[1], "X[{}, 1]")


def _to_numpy(column: Any) -> NDArray[Any]:
    return np.asarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _listed(X: Any) -> list[NDArray[Any]]:
    """Columns of a list of pairs, each with a type of its own."""
    pairs = [tuple(pair) if isinstance(pair, (list, tuple, np.ndarray)) else (pair,) for pair in X]
    for k, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"X[{k}] must be a pair (row, column); got {X[k]!r}")
    return (
        [np.asarray([pair[side] for pair in pairs]) for side in (0, 1)] if pairs else [np.empty(0, int)] * 2
    )


def column_of(column: NDArray[Any], where: str) -> NDArray[Any]:
    """Return a column as integers or as strings; `where` names an element of it in errors."""
    column = np.asarray(column)
    if column.dtype.kind in "iu":
        return column
    if column.dtype.kind == "f":
        whole = np.isfinite(column) & (column == np.floor(column))
        _refuse(~whole, column, where, "rows and columns are integers, or labels (strings)")
        return column.astype(np.int64)
    if column.dtype.kind == "O":
        return _objects(column, where)
    if column.dtype.kind in "UT":
        return column.astype(np.str_)
    raise TypeError(
        f"{where.format('...')} has the type {column.dtype}: rows and columns are integers or strings"
    )


def _objects(column: NDArray[Any], where: str) -> NDArray[Any]:
    kinds = {type(element) for element in column.tolist()}
    if kinds <= {str, np.str_}:
        return column.astype(np.str_)
    if all(issubclass(kind, (int, np.integer)) and kind is not bool for kind in kinds):
        return column.astype(np.int64)
    strange = [not isinstance(element, (str, np.str_)) for element in column]
    if not any(kind in (str, np.str_) for kind in kinds):
        strange = [isinstance(e, bool) or not isinstance(e, (int, np.integer)) for e in column]
    _refuse(np.array(strange), column, where, "the labels of a side are all strings, or all integers")
    raise AssertionError  # pragma: no cover


def _refuse(bad: NDArray[np.bool_], column: NDArray[Any], where: str, remedy: str) -> None:
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"{where.format(at)} is {column[at]!r}: {remedy}")


def is_text(column: NDArray[Any]) -> bool:
    """Whether a column holds strings."""
    return column.dtype.kind == "U"


def check_positions(column: NDArray[Any], where: str) -> Positions:
    """Return a column of integers none of which is negative."""
    if column.size and column.min() < 0:
        _refuse(column < 0, column, where, "positions are counted from 0 and never negative")
    return column


class Lookup:
    """Finds the positions of labels; without labels, a label is its own position."""

    def __init__(self, labels: Labels | None, size: int, side: str):
        self.labels, self.size, self.side = labels, size, side
        self._order: Positions | None = None

    def find(self, wanted: NDArray[Any], where: str) -> Positions:
        """Return the position of each label, -1 where the model does not know it."""
        if self.labels is None:
            if is_text(wanted):
                raise TypeError(
                    f"this model knows {self.side}s by position; got the label {wanted[0].item()!r}"
                )
            return np.where(check_positions(wanted, where) < self.size, wanted, -1)
        if is_text(wanted) != is_text(self.labels) and wanted.size:
            raise TypeError(
                f"the {self.side} labels of this model are like {self.labels[0].item()!r}; "
                f"got {wanted[0].item()!r}"
            )
        if not self.size:
            return np.full(wanted.shape, -1)
        if self._order is None:
            self._order = np.argsort(self.labels, kind="stable")
        places = np.searchsorted(self.labels, wanted, sorter=self._order)
        found = self._order[np.minimum(places, self.size - 1)]
        return np.where(self.labels[found] == wanted, found, -1)

    def require(self, wanted: NDArray[Any], where: str) -> Positions:
        """Return the position of each label, or raise KeyError with the nearest spelling of one not known."""
        found = self.find(wanted, where)
        if (found < 0).any():
            raise UnknownLabelError(self._unknown(wanted[int(np.argmax(found < 0))].item()))
        return found

    def names(self, positions: Positions) -> NDArray[Any]:
        """Return the labels at positions."""
        return positions if self.labels is None else self.labels[positions]

    def _unknown(self, label: Any) -> str:
        if self.labels is None:
            return f"{self.side} {label} is not in this model, which has {self.side}s 0 to {self.size - 1}"
        known = map(str, self.labels.tolist())
        near = difflib.get_close_matches(str(label), known, n=1, cutoff=0.5)
        hint = f": did you mean {near[0]!r}?" if near else f", which has {self.size} of them"
        return f"the {self.side} label {label!r} is not in this model{hint}"


class UnknownLabelError(KeyError):
    """A row or column that a model has never seen, where there is nothing to fall back on."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it in quotes
