"""The entries that a completion model is fitted to, from whatever the user has."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import column_or_1d

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.data.labels import check_positions, is_text
from rankfold.data.triples import Triples
from rankfold.entries.observed import Observed
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.inputs import checked_weights, pair_columns
from rankfold.estimators.tensors import without_tensors


def training_triples(X: Any, y: Any) -> Triples:
    """Return pairs and values as triples; labels are numbered in sorted order."""
    if isinstance(X, Triples) and y is None:
        return X
    (rows, cols), values = named_entries(X, y)
    if is_text(rows) or is_text(cols):
        row_labels, rows = np.unique(rows, return_inverse=True)
        col_labels, cols = np.unique(cols, return_inverse=True)
        return Triples(rows, cols, values, (row_labels.size, col_labels.size), row_labels, col_labels)
    height, width = (int(check_positions(axis.of((rows, cols)), axis.where).max()) + 1 for axis in Axis)
    return Triples(rows, cols, values, (height, width))


def named_entries(X: Any, y: Any) -> tuple[tuple[NDArray[Any], NDArray[Any]], NDArray[Any]]:
    """Return rows and columns as the user calls them, and the values."""
    given = given_values(X, y)
    if isinstance(X, Triples):
        labels = (X.row_labels, X.rows), (X.col_labels, X.cols)
        rows, cols = (places if names is None else names[places] for names, places in labels)
        return (rows, cols), X.values
    rows, cols = pair_columns(X)
    if not rows.size:
        raise ValueError("Found array with 0 sample(s): X is empty; give at least one known entry")
    values: NDArray[Any] = column_or_1d(np.asarray(given), warn=True)
    if values.dtype.kind == "O":
        values = values.astype(np.float64)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y must be real numbers; got {values.dtype}")
    pairs = rows.size
    if values.size != pairs:
        raise ValueError(f"X has {pairs} pairs and y has {values.size} values: there must be one for each")
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"y[{at}] is {values[at]} (NaN or infinity): leave unknown entries out")
    return (rows, cols), values


def given_values(X: Any, y: Any) -> Any:
    """Return the values of entries, which Triples bring along and pairs do not."""
    if isinstance(X, Triples):
        if y is not None:
            raise ValueError("Triples hold their values: leave out y")
        return X.values
    if y is None:
        raise ValueError(
            "this estimator requires y to be passed, but the target y is None: give the values of the pairs, "
            "or Triples as X"
        )
    return without_tensors(y)[0]


def warn_if_all_equal(values: NDArray[Any]) -> None:
    """Warn of values that do not say how entries differ: clicks, mostly, without the pairs not clicked."""
    if values.size > 1 and np.all(values == values[0]):
        warnings.warn(
            f"all {values.size} values are {values[0]}, and a constant fits them: all entries are alike. If "
            "these are clicks, the pairs without one are data too: give a sample of them the value 0 and a "
            "small sample_weight, or minimise rankfold.Completion + rankfold.Unobserved",
            UserWarning,
            stacklevel=6,
        )


def completion_of(data: Triples, sample_weight: Any, loss: str | Loss, dtype: DTypeLike) -> Completion:
    """Return the cost of fitting the entries; a pair that comes twice is two observations."""
    number = np.dtype(dtype)
    if number not in (np.float32, np.float64):
        raise ValueError(f"dtype must be 'float64' or 'float32', not {dtype!r}")
    values = np.asarray(data.values).astype(number, copy=False)
    (weights,) = without_tensors(sample_weight)
    if weights is not None:
        weights = checked_weights(weights, values.size, number)
    loss = Loss.named(loss) if isinstance(loss, str) else loss
    loss.check_values(values)
    # What has no entry is predicted by the mean and the other side's offset: no reason for a warning.
    observed = Observed.from_triples(
        data.rows, data.cols, values, data.shape, weights, duplicates="keep", warn_of_empty=False
    )
    return Completion.from_observed(observed, loss)
