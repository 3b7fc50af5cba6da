"""Labels as users give them, made exact, and numbered in sorted order.

The labels of a side are all integers (int64; uint64 if one needs it), all strings or all times, so that
equal ones are equal whatever array they came in, and different ones stay different.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[Any]
Positions = NDArray[np.integer]
TABLE = 1 << 18  # entries of a table from the least integer to the largest that are always affordable
_BLOCK = 1 << 18  # labels looked at a time
_SHORT = 64  # characters of a string that may be padded to
_HOLE = "a label is missing: leave such entries out (DataFrame.dropna)"
_ONE_KIND = (
    "the labels of a side are all strings, or all integers (or a column of datetime64); give others, such as "
    "UUIDs, as strings"
)


def label_column(column: Any, where: str) -> Labels:
    """Return labels as int64 or uint64, as strings or as times; `where` names one of them in errors.

    Examples
    --------
    >>> label_column(np.array([3, 1], dtype=">u2"), "ids[{}]").dtype
    dtype('int64')
    """
    column = np.asarray(column)
    kind = column.dtype.kind
    if column.ndim != 1:
        raise ValueError(f"{where.format('...')} must be one-dimensional; got shape {column.shape}")
    if kind in "iu":
        return _narrowest(column)
    if kind == "f":
        return _whole(column, where)
    if kind == "M":
        refuse(np.isnat(column), column, where, "leave such entries out")
    if kind in "MU":
        native: Labels = column.astype(column.dtype.newbyteorder("="), copy=False)
        return native
    if kind in "OT":
        return _objects(column.astype(object, copy=False), where)
    raise TypeError(
        f"{where.format('...')} has the type {column.dtype}: rows and columns are integers or strings"
    )


def refuse(bad: NDArray[np.bool_], column: NDArray[Any], where: str, remedy: str) -> None:
    """Raise an error that names the first bad element of a column, if there is one."""
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"{where.format(at)} is {column[at]!r}: {remedy}")


def kind_of(labels: Labels) -> str:
    """Return "integer", "string" or "time"."""
    return {"i": "integer", "u": "integer", "M": "time"}.get(labels.dtype.kind, "string")


def numbered(names: Labels) -> tuple[Labels, Positions]:
    """Return the distinct names in order, and the number of each name among them.

    Examples
    --------
    >>> labels, numbers = numbered(np.array([2**60, -7, 2**60]))
    >>> labels.tolist(), numbers.tolist()
    ([-7, 1152921504606846976], [1, 0, 1])
    """
    if kind_of(names) == "string":
        return _numbered_strings(names)
    integers = names.view(np.int64) if names.dtype.kind == "M" else names
    close = names.size > 0 and span(integers)[1] < max(TABLE, names.size)
    labels, numbers = _numbered_by_table(integers) if close else _numbered_by_hash(integers)
    return labels.view(names.dtype), numbers


def span(integers: Labels) -> tuple[int, int]:
    """Return the least of some integers, and the largest less the least."""
    least = int(integers.min())
    return least, int(integers.max()) - least


def joined(labels: Labels, more: Labels) -> Labels:
    """Return the labels with more of their kind behind them."""
    if not more.size:
        return labels
    if kind_of(labels) == "string":
        return string_array([*labels.tolist(), *more.tolist()])
    if labels.dtype.kind == more.dtype.kind:
        return np.concatenate([labels, more])
    least, largest = min(labels.min(), more.min()), max(labels.max(), more.max())  # of int64 and of uint64
    if least < 0:
        raise ValueError(
            f"the labels {least} and {largest} of one side do not fit one integer type: give strings"
        )
    return np.concatenate([labels.astype(np.uint64), more.astype(np.uint64)])


def string_array(strings: list[str]) -> Labels:
    """Return an array of strings: of Python's, where NumPy's would drop a final NUL or be mostly padding."""
    longest, total = max(map(len, strings), default=0), sum(map(len, strings))
    padded = longest > _SHORT and longest * len(strings) > 4 * total
    if padded or any(string.endswith("\0") for string in strings):
        return np.array(strings, dtype=object)
    return np.array(strings, dtype=np.str_)


def of_fixed_width(labels: Labels) -> Labels:
    """Return labels that a file of NumPy arrays can hold."""
    if labels.dtype.hasobject:
        raise ValueError(
            "an npz file holds no labels that end in NUL, or of which few are much longer than the others: "
            "write csv or parquet"
        )
    return labels


def _narrowest(integers: Labels) -> Labels:
    """Return int64 where that holds all, so that equal labels have one type."""
    large = integers.dtype.kind == "u" and integers.size and int(integers.max()) > np.iinfo(np.int64).max
    return integers.astype(np.uint64 if large else np.int64, copy=False)


def _whole(column: Labels, where: str) -> Labels:
    refuse(np.isnan(column), column, where, _HOLE)
    whole = np.isfinite(column) & (column == np.floor(column))
    refuse(~whole, column, where, "rows and columns are integers, or labels (strings)")
    bits = np.finfo(column.dtype).nmant + 1
    exact = np.abs(column) <= 2.0**bits
    refuse(~exact, column, where, f"{column.dtype} holds integers exactly up to 2**{bits}: give integers")
    return column.astype(np.int64)


def _objects(column: Labels, where: str) -> Labels:
    """Return Python objects that are all strings as they are, and integers as integers."""
    types = set(map(type, column.tolist()))
    if all(issubclass(kind, str) for kind in types):
        return column
    if types != {int}:
        none = [element is None or bool(element != element) for element in column.tolist()]  # NaN, NaT
        refuse(np.array(none, dtype=bool), column, where, _HOLE)
        text = np.array([isinstance(element, str) for element in column.tolist()], dtype=bool)
        whole = np.array([_is_whole(element) for element in column.tolist()], dtype=bool)
        refuse(~(text if text.any() else whole), column, where, _ONE_KIND)
    for dtype in (np.int64, np.uint64):
        with suppress(OverflowError):
            return np.array([int(element) for element in column.tolist()], dtype=dtype)
    limits = np.iinfo(np.int64)
    outside = np.array([not limits.min <= int(element) <= limits.max for element in column.tolist()])
    raise ValueError(
        f"{where.format(int(np.argmax(outside)))} is {column[outside][0]!r}: the integers of a side must fit "
        "64 bits, all of them signed or none; give larger ones as strings"
    )


def _is_whole(element: Any) -> bool:
    if isinstance(element, float | np.floating):
        number = float(element)
        return abs(number) <= 2.0**53 and number.is_integer()
    return isinstance(element, int | np.integer) and not isinstance(element, bool)


def _numbered_by_table(integers: Labels) -> tuple[Labels, Positions]:
    """Count in a table from the least integer to the largest: no sorting."""
    least, width = span(integers)
    first = integers.dtype.type(least)
    found = np.zeros(width + 1, dtype=bool)
    for part in _blocks(integers):
        found[part - first] = True
    number = np.cumsum(found, dtype=_index_type(found.size)) - 1
    numbers = np.empty(integers.size, number.dtype)
    for start, part in zip(range(0, integers.size, _BLOCK), _blocks(integers), strict=True):
        np.take(number, part - first, out=numbers[start : start + _BLOCK])
    return np.flatnonzero(found).astype(integers.dtype) + first, numbers


def _numbered_by_hash(integers: Labels) -> tuple[Labels, Positions]:
    """Let pyarrow find the distinct ones, and sort these."""
    import pyarrow as pa

    encoded = pa.array(np.ascontiguousarray(integers)).dictionary_encode()
    labels = encoded.dictionary.to_numpy()
    return _in_order(labels, np.argsort(labels), encoded.indices.to_numpy())


def _numbered_strings(names: Labels) -> tuple[Labels, Positions]:
    known: dict[str, int] = {}
    numbers = np.empty(names.size, _index_type(names.size))
    for start, part in zip(range(0, names.size, _BLOCK), _blocks(names), strict=True):
        numbers[start : start + _BLOCK] = [known.setdefault(name, len(known)) for name in part.tolist()]
    labels = list(known)
    order = np.array(sorted(range(len(labels)), key=labels.__getitem__), dtype=np.int64)
    return _in_order(string_array(labels), order, numbers)


def _in_order(labels: Labels, order: Positions, numbers: Positions) -> tuple[Labels, Positions]:
    """Return labels in order, and the numbers of names among them."""
    place = np.empty(len(order), numbers.dtype)
    place[order] = np.arange(len(order), dtype=numbers.dtype)
    return labels[order], place[numbers]


def _blocks(array: Labels) -> Iterator[Labels]:
    """Yield views of a long array, as working on all of it would copy it."""
    return (array[start : start + _BLOCK] for start in range(0, len(array), _BLOCK))


def _index_type(size: int) -> type[np.int32] | type[np.int64]:
    return np.int32 if size <= np.iinfo(np.int32).max else np.int64
