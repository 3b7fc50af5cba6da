"""Features as users give them, tables, arrays or sparse matrices, as numbers: NaN for what is missing."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.data.numbering import kind_of, label_column, numbered, refuse
from rankfold.data.triples import Triples
from rankfold.entries.given_arrays import unmasked
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.inputs import to_numpy
from rankfold.estimators.tensors import without_tensors

Floats = NDArray[Any]
_TEXT = "OUST"  # kinds of columns that hold categories


class Table(NamedTuple):
    """Columns by name (None: they have none), and the labels of lines (None: they are in order)."""

    labels: NDArray[Any] | None
    names: tuple[str, ...] | None
    columns: Any  # a list of arrays, an array (lines, columns), or a sparse matrix

    @property
    def length(self) -> int:
        """How many lines there are."""
        return len(self.columns[0]) if isinstance(self.columns, list) else int(self.columns.shape[0])


class Encoding(NamedTuple):
    """How columns become numbers: those of text by a number for each category, 1 where it is.

    `names` are those of the columns in a table, None in an array; `categories` those of each column, None for
    one of numbers, and None in all for an array of numbers.
    """

    names: tuple[str, ...] | None
    categories: tuple[NDArray[Any] | None, ...] | None
    width: int  # of the table as given

    @classmethod
    def of(cls, table: Table) -> Encoding:
        """Look at a table."""
        if not isinstance(table.columns, list):
            return cls(table.names, None, int(table.columns.shape[1]))
        found = tuple(_categories(column) for column in table.columns)
        known = None if all(each is None for each in found) else found
        return cls(table.names, known, len(table.columns))

    def numbers(self, table: Table, what: str) -> Any:
        """Return the columns as numbers: (lines, features), NaN for what is missing or was never seen."""
        table = self._matched(table, what)
        if sparse.issparse(table.columns):
            return table.columns
        if not isinstance(table.columns, list):
            if self.categories is None:
                return table.columns
            table = table._replace(columns=list(table.columns.T))
        parts = []
        for k, column in enumerate(table.columns):
            known = None if self.categories is None else self.categories[k]
            parts.append(_real(column, what)[:, None] if known is None else _indicators(column, known))
        return np.hstack(parts)

    def _matched(self, table: Table, what: str) -> Table:
        """A table with the columns that this encoding knows, in its order."""
        if self.names is not None and table.names is not None:
            place = {name: k for k, name in enumerate(table.names)}
            missing = [name for name in self.names if name not in place]
            if missing:
                raise ValueError(f"{what} has no column {missing[0]!r}, which the model was fitted with")
            return Table(table.labels, self.names, [table.columns[place[name]] for name in self.names])
        width = len(table.columns) if isinstance(table.columns, list) else table.columns.shape[1]
        if width != self.width:
            raise ValueError(f"{what} has {width} columns, and the model was fitted with {self.width}")
        return table


def given_table(features: Any, axis: Axis, X: Any, labels: NDArray[Any] | None) -> Table:
    """Return what a user gave for an axis; lines in order get the labels that they stand for.

    `labels` are those of the entries X, None where these hold positions.
    """
    what = f"{'row' if axis is Axis.ROW else 'col'}_features"
    own = None
    if isinstance(features, tuple) and len(features) == 2:
        own, features = features
        own = label_column(np.asanyarray(to_numpy(own)), f"{what}[0][{{}}]")
    table = _table(features, what)
    own = table.labels if own is None else own
    if labels is None or own is not None:
        if labels is None and own is not None:
            own = _positions(own, what)
    elif isinstance(X, Triples):
        own = labels
    elif kind_of(labels) == "integer":
        own = np.arange(table.length)
    else:
        raise ValueError(
            f"{what} must say which line belongs to which label, like {labels[0]!s}: give a DataFrame with "
            "the labels as index, or a pair (labels, features)"
        )
    if own is not None and len(own) != table.length:
        raise ValueError(f"{what} has {table.length} lines, and there are {len(own)} labels for them")
    if own is not None and numbered(own)[0].size < len(own):
        raise ValueError(f"the labels of {what} must differ from each other")
    return table._replace(labels=own)


def _positions(own: NDArray[Any], what: str) -> NDArray[Any]:
    if kind_of(own) != "integer":
        raise TypeError(f"the entries hold positions, and {what} has labels like {own[0]!s}: give positions")
    return own


def _table(features: Any, what: str) -> Table:
    """Take features apart."""
    if sparse.issparse(features):
        rows = sparse.csr_array(features).astype(np.float64)
        if not np.isfinite(rows.data).all():
            raise ValueError(f"{what} is sparse, and holds NaN or infinity")
        return Table(None, None, rows)
    if hasattr(features, "columns") and not isinstance(features, np.ndarray):
        given = getattr(features, "column_names", features.columns)  # pyarrow's, or those of a DataFrame
        names = tuple(map(str, given))
        columns = [_column(features[name]) for name in given]
        if not columns:
            raise ValueError(f"{what} has no columns")
        index = getattr(features, "index", None)
        labels = None if index is None else label_column(index.to_numpy(), f"{what}.index[{{}}]")
        return Table(labels, names, columns)
    (array,) = without_tensors(unmasked(what, features))
    array = np.asarray(array)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or not array.shape[1]:
        raise ValueError(f"{what} must have a line for each {what[:3]} and a column for each feature")
    if array.dtype.kind in _TEXT:
        return Table(None, None, [_column(column) for column in array.T])
    return Table(None, None, _real(array, what))


def _column(column: Any) -> NDArray[Any]:
    """A column as numbers if it holds any, else as it is."""
    values = np.asanyarray(to_numpy(column))
    if values.dtype.kind == "O":
        known = [value for value in values.tolist() if not _is_missing(value)]
        if known and not any(isinstance(value, str) for value in known):
            return np.array([np.nan if _is_missing(v) else v for v in values.tolist()], dtype=np.float64)
    return values


def _real(values: Any, what: str) -> Floats:
    if values.dtype.kind not in "fiub":
        raise ValueError(f"{what} must hold numbers, or strings for categories; got {values.dtype}")
    found: Floats = np.asarray(values, dtype=np.float64)
    refuse(np.isinf(found).ravel(), found.ravel(), what, "features are finite, or NaN where they are missing")
    return found


def _is_missing(value: Any) -> bool:
    return value is None or value != value or str(value) == "<NA>"


def _categories(column: NDArray[Any]) -> NDArray[Any] | None:
    if column.dtype.kind not in _TEXT:
        return None
    return np.array(sorted({str(v) for v in column.tolist() if not _is_missing(v)}), dtype=object)


def _indicators(column: NDArray[Any], known: NDArray[Any]) -> Floats:
    """1 where a category is, 0 where another one is, NaN where none is that is known."""
    place = {name: k for k, name in enumerate(known.tolist())}
    found = np.array([-1 if _is_missing(v) else place.get(str(v), -1) for v in column.tolist()], dtype=int)
    out: Floats = (found[:, None] == np.arange(known.size)).astype(np.float64)
    out[found < 0] = np.nan
    return out
