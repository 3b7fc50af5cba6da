"""What is wrong with triples, said before anything is built from them: argument, position and remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def checked_shape(shape: Any) -> tuple[int, int]:
    """Return the shape as two positive integers."""
    try:
        d1, d2 = (int(d) for d in shape)
        whole = (d1, d2) == tuple(shape)
    except (TypeError, ValueError):
        whole, d1, d2 = False, 0, 0
    if not whole or min(d1, d2) < 1:
        raise ValueError(f"shape must be two positive integers (rows, columns); got {shape!r}")
    return d1, d2


def checked_triples(
    rows: Any, cols: Any, values: Any, weights: Any, shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, columns and data of the entries; value and weight are packed into one complex number."""
    rows, cols = _checked_indices("rows", rows, shape[0]), _checked_indices("cols", cols, shape[1])
    values = _checked_numbers("values", values)
    columns = {"rows": rows, "cols": cols, "values": values}
    if weights is not None:
        columns["weights"] = weights = _checked_numbers("weights", weights).astype(values.dtype, copy=False)
    if len({column.size for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name} has {column.size}" for name, column in columns.items())
        raise ValueError(f"rows, cols and values must have one length: {lengths}")
    if not values.size:
        raise ValueError("values is empty: give at least one observed entry")
    if weights is None:
        return rows, cols, values
    if weights.min() < 0:
        at = int(np.argmax(weights < 0))
        raise ValueError(f"weights[{at}] is {weights[at]}; weights must be zero or more")
    # value and weight travel through the sort as one number of twice the size
    pairs = np.stack([values, weights], axis=1)
    return rows, cols, pairs.view(np.result_type(values.dtype, np.complex64))[:, 0]


def _checked_indices(name: str, indices: Any, size: int) -> NDArray[Any]:
    indices = np.asarray(indices)
    if indices.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {indices.shape}")
    if indices.dtype.kind not in "iu" and indices.size:
        raise TypeError(f"{name} must be integers; got {indices.dtype} (map labels to 0, 1, ... first)")
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        at = int(np.argmax((indices < 0) | (indices >= size)))
        raise ValueError(
            f"{name}[{at}] is {indices[at]}, out of range: must be from 0 to {size - 1} for this shape"
        )
    return np.ascontiguousarray(indices)


def _checked_numbers(name: str, numbers: Any) -> NDArray[Any]:
    numbers = np.asarray(numbers)
    if numbers.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {numbers.shape}")
    if numbers.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers; got {numbers.dtype}")
    if numbers.dtype != np.float32:
        numbers = numbers.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(numbers.sum())  # one pass, no memory; a sum may also overflow
    if suspicious and not np.isfinite(numbers).all():
        at = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(f"{name}[{at}] is {numbers[at]}; all must be finite: leave unknown entries out")
    return np.ascontiguousarray(numbers)
