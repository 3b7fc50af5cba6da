"""What is wrong with triples, said before anything is built from them: argument, position and remedy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold.entries.given_arrays import own_indices, own_numbers, real_vector


def checked_shape(shape: Any) -> tuple[int, int]:
    """Return the shape as two positive integers."""
    try:
        d1, d2 = (int(d) for d in shape)
        whole = (d1, d2) == tuple(shape)
    except (TypeError, ValueError, OverflowError):
        whole, d1, d2 = False, 0, 0
    if not whole or min(d1, d2) < 1:
        raise ValueError(f"shape must be two positive integers (rows, columns); got {shape!r}")
    return d1, d2


def checked_storage(storage: Any) -> np.dtype[Any] | None:
    """Return the type that values are to be held in, if one was asked for."""
    if storage is None:
        return None
    try:
        kind: np.dtype[Any] = np.dtype(storage)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float32, np.float64):
        raise ValueError(
            f"storage must be 'float32' or 'float64', or None for the type of values; got {storage!r}"
        )
    return kind


def own_triples(
    rows: Any, cols: Any, values: Any, weights: Any, shape: tuple[int, int], index: DTypeLike,
    storage: np.dtype[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:  # fmt: skip
    """Copies of rows, columns and data of the entries, checked; a complex number packs value and weight.

    Data become numbers of the type `storage`; without it float32 if the values are that, else float64.
    """
    own_rows = own_indices("rows", rows, shape[0], index)
    own_cols = own_indices("cols", cols, shape[1], index)
    given = real_vector("values", values)
    lengths = {"rows": own_rows.size, "cols": own_cols.size, "values": given.size}
    if weights is not None:
        lengths["weights"] = real_vector("weights", weights).size
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"rows, cols and values must have one length: {found}")
    if not given.size:
        raise ValueError("values is empty: give at least one observed entry")
    kind = (np.float32 if given.dtype == np.float32 else np.float64) if storage is None else storage
    if weights is None:
        return own_rows, own_cols, own_numbers("values", given, np.empty(given.size, kind))
    # value and weight travel through the sort as one number of twice the size
    pairs = np.empty((given.size, 2), kind)
    own_numbers("values", given, pairs[:, 0])
    counts = own_numbers("weights", weights, pairs[:, 1])
    if counts.min() < 0:
        at = int(np.argmax(counts < 0))
        raise ValueError(f"weights[{at}] is {counts[at]}; weights must be zero or more")
    return own_rows, own_cols, pairs.view(np.result_type(pairs.dtype, np.complex64))[:, 0]


def warn_if_empty(counts: tuple[NDArray[np.int64], NDArray[np.int64]]) -> None:
    """Warn of rows, and of columns, without an entry, given how many each has."""
    for name, lengths in zip(("row", "column"), counts, strict=True):
        empty = int(np.count_nonzero(lengths == 0))
        if empty:
            text = f"{empty} of {lengths.size} {name}s have no observed entry: nothing determines them"
            warnings.warn(text, UserWarning, stacklevel=4)
