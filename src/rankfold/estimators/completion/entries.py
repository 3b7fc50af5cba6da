"""The entries that a completion model is fitted to, from whatever the user has."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import column_or_1d, validate_data

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.data.labels import LabelIndex
from rankfold.data.numbering import Positions, label_column, numbered
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.triples import Triples
from rankfold.distributed.spreading import SpreadTriples
from rankfold.entries.given_arrays import check_size, plain, real_vector
from rankfold.entries.observed import Observed
from rankfold.entries.on_disk import blocks_of
from rankfold.entries.triple_checks import checked_shape
from rankfold.entries.values import BLOCK
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.inputs import checked_weights, pair_columns
from rankfold.estimators.tensors import without_tensors

Names = tuple[NDArray[Any], NDArray[Any]]


def training_entries(X: Any, y: Any, shape: Any = None) -> Triples | SortedFolder:
    """Return pairs and values as triples, or a sorted folder as it is."""
    if not isinstance(X, SortedFolder):
        return training_triples(X, y, shape)
    if y is not None:
        raise ValueError("a SortedFolder holds its values: leave out y")
    if shape is not None:
        raise ValueError(f"shape={shape} is for pairs; a SortedFolder has a shape of its own: leave it out")
    return X


def training_triples(X: Any, y: Any, shape: Any = None) -> Triples:
    """Return pairs and values as triples: labels numbered in sorted order or, with a shape, positions."""
    if isinstance(X, SortedFolder):
        raise TypeError("this estimator takes its entries in memory: give pairs, or Triples, no SortedFolder")
    shape = None if shape is None else checked_shape(shape)
    if isinstance(X, Triples) and y is None:
        return _own_triples(X, shape)
    (rows, cols), values = named_entries(X, y)
    if shape is None:
        (row_labels, rows), (col_labels, cols) = numbered(rows), numbered(cols)
        labels = row_labels, col_labels
        return Triples(rows, cols, values, (row_labels.size, col_labels.size), *labels, _names_in(X, y))
    rows, cols = (LabelIndex(a.of(shape), None, a.value).find(a.of((rows, cols)), a.where) for a in Axis)
    return Triples(rows, cols, values, shape, names=_names_in(X, y))


def _names_in(X: Any, y: Any) -> tuple[str, ...] | None:
    """Return what a table calls its columns of rows, of columns and of values, if it has names for them."""
    columns = getattr(X, "columns", None)
    if columns is None or not all(isinstance(name, str) for name in columns):
        return None
    return (*columns, str(getattr(y, "name", None) or "value"))


def note_columns(model: Any, X: Any) -> None:
    """Note, as scikit-learn does, what the columns of X are called: in a table, or in the file of Triples."""
    if not isinstance(X, Triples | SortedFolder | SpreadTriples):
        validate_data(model, X, skip_check_array=True)
        return
    validate_data(model, np.empty((0, 2)), skip_check_array=True)
    if X.names is not None and not all(name.isdecimal() for name in X.names):
        model.feature_names_in_ = np.array(X.names[:2], dtype=object)


def _own_triples(X: Triples, shape: tuple[int, int] | None) -> Triples:
    """Return the triples a user gave, with labels that are exact and differ."""
    labels = triple_labels(X, Axis.ROW), triple_labels(X, Axis.COLUMN)
    named = any(side is not None for side in labels)
    if shape is not None and (named or tuple(X.shape) != shape):
        has = "labels" if named else f"the shape {tuple(X.shape)}"
        raise ValueError(
            f"shape={shape} is for pairs of positions; these Triples have {has}: leave out shape"
        )
    for axis in Axis:
        own = axis.of(labels)
        if own is not None:
            _refuse_repeated(own, axis)
    return replace(X, row_labels=labels[0], col_labels=labels[1])


def _refuse_repeated(labels: NDArray[Any], axis: Axis) -> None:
    distinct, numbers = numbered(labels)
    if distinct.size < labels.size:
        again = int(np.argmax(np.bincount(numbers) > 1))
        first, second = np.flatnonzero(numbers == again)[:2].tolist()
        raise ValueError(
            f"{axis.labels}[{first}] and {axis.labels}[{second}] are both {distinct[again]}: all must differ"
        )


def triple_labels(X: Triples, axis: Axis) -> NDArray[Any] | None:
    """Return the labels of Triples on an axis, checked, or None where they hold positions."""
    labels = axis.of((X.row_labels, X.col_labels))
    return None if labels is None else label_column(labels, f"{axis.labels}[{{}}]")


def triple_positions(X: Triples, axis: Axis, known: LabelIndex) -> Positions:
    """Return where the entries of Triples stand on an axis of a model, -1 for labels it does not know."""
    check_labelled(X, axis, known)
    labels, places = triple_labels(X, axis), axis.of((X.rows, X.cols))
    if labels is None:
        return known.find(places, axis.triples)
    found: Positions = known.find(labels, f"{axis.labels}[{{}}]")[places]
    return found


def check_labelled(X: Any, axis: Axis, known: LabelIndex) -> None:
    """Refuse Triples of positions where a model knows labels: nobody can tell which are meant."""
    if isinstance(X, Triples) and known.labels is not None and triple_labels(X, axis) is None:
        raise TypeError(
            f"these Triples hold positions of {axis.value}s, and the model knows them by label, like "
            f"{known.labels[0]!s}: give Triples with {axis.labels}"
        )


def named_entries(X: Any, y: Any) -> tuple[Names, NDArray[Any]]:
    """Return rows and columns as the user calls them (or positions, of Triples), and the values."""
    given = given_values(X, y)
    if isinstance(X, Triples):
        labels = (triple_labels(X, Axis.ROW), X.rows), (triple_labels(X, Axis.COLUMN), X.cols)
        rows, cols = (places if names is None else names[places] for names, places in labels)
        return (rows, cols), X.values
    rows, cols = pair_columns(X)
    if not rows.size:
        raise ValueError("Found array with 0 sample(s): X is empty; give at least one known entry")
    values: NDArray[Any] = column_or_1d(np.asarray(plain("y", given)), warn=True)
    if values.dtype.kind == "O":
        values = _as_numbers(values)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y must be real numbers, the value of each pair; got {values.dtype}")
    pairs = rows.size
    if values.size != pairs:
        raise ValueError(f"X has {pairs} pairs and y has {values.size} values: there must be one for each")
    if not np.isfinite(values).all():
        at = int(np.argmin(np.isfinite(values)))
        raise ValueError(f"y[{at}] is {values[at]} (NaN or infinity): leave unknown entries out")
    check_size("y", values)
    return (rows, cols), values


def _as_numbers(values: NDArray[Any]) -> NDArray[np.float64]:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        text = next((value for value in values.tolist() if isinstance(value, str)), values[0])
        raise ValueError(
            f"y must be real numbers, the value of each pair; it holds {text!r}: give the column of values "
            "as y, or turn it into numbers first (pandas.to_numeric)"
        ) from None


def refuse_without_room(shape: tuple[int, int], rank: Any, dtype: DTypeLike) -> None:
    """Raise ValueError where factors of this rank, a gradient and a direction outgrow the machine's memory.

    Before any memory is taken: a matrix of few entries may still have a shape that was never meant.
    """
    rank = min(int(rank), *shape) if isinstance(rank, Integral) else 1
    needed = (shape[0] + shape[1]) * (3 * rank * np.dtype(dtype).itemsize + 16)  # 16: an offset, a place
    if needed > machine_memory():
        raise ValueError(
            f"a matrix of {shape[0]:,} × {shape[1]:,} at rank {rank} takes at least {needed / 1e9:,.0f} GB, "
            f"and this machine has {machine_memory() / 1e9:,.0f} GB: give a smaller shape, or "
            "labels, of which only those with entries take memory"
        )


def machine_memory() -> float:
    """Return the bytes of memory that the machine has, infinity if it does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # not every system tells
        return np.inf


def given_values(X: Any, y: Any) -> Any:
    """Return the values of entries, which Triples bring along and pairs do not."""
    if isinstance(X, Triples):
        if y is not None:
            raise ValueError("Triples hold their values: leave out y")
        return X.values
    if y is None:
        raise ValueError(
            f"this estimator requires y to be passed, but the target y is None: {_remedy(X)}, or "
            "rankfold.data.Triples, which hold their values, as X"
        )
    return without_tensors(y)[0]


def _remedy(X: Any) -> str:
    """Say how to give values, with the names of a table that holds them beside the pairs."""
    names = [str(name) for name in getattr(X, "columns", ())]
    if len(names) < 3:
        return "give the values of the pairs as y"
    return f"give two columns as X and the values as y, fit(X[[{names[0]!r}, {names[1]!r}]], X[{names[2]!r}])"


def warn_if_all_equal(values: NDArray[Any]) -> None:
    """Warn of values that do not say how entries differ: clicks, mostly, without the pairs not clicked."""
    parts = (values[first : first + BLOCK] for first in range(0, values.size, BLOCK))
    if values.size > 1 and all(bool(np.all(part == values[0])) for part in parts):
        warnings.warn(
            f"all {values.size} values are {values[0]}, and a constant fits them: all entries are alike. If "
            "these are clicks, the pairs without one are data too: rankfold.ImplicitFeedback takes them for "
            "what they are (on the command line, `rankfold clicks`)",
            UserWarning,
            stacklevel=6,
        )


def checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return a type that factors may have."""
    number = np.dtype(dtype)
    if number not in (np.float32, np.float64):
        raise ValueError(f"dtype must be 'float64' or 'float32', not {dtype!r}")
    return number


def completion_of(
    data: Triples | SortedFolder, sample_weight: Any, loss: str | Loss, dtype: DTypeLike
) -> Completion:
    """Return the cost of fitting the entries; a pair that comes twice is two observations."""
    number = checked_dtype(dtype)
    refuse_without_room(data.shape, 1, number)
    loss = Loss.named(loss) if isinstance(loss, str) else loss
    if isinstance(data, SortedFolder):
        return _completion_on_disk(data, sample_weight, loss, number)
    given = real_vector("values", data.values)
    check_size("y", given, number)
    values = given.astype(number, copy=False)
    (weights,) = without_tensors(sample_weight)
    if weights is not None:
        weights = checked_weights(weights, values.size, number)
    loss.check_values(values)
    # What has no entry is predicted by the mean and the other side's offset: no reason for a warning.
    observed = Observed.from_triples(
        data.rows, data.cols, values, data.shape, weights, duplicates="keep", warn_of_empty=False
    )
    return Completion.from_observed(observed, loss)


def _completion_on_disk(
    folder: SortedFolder, sample_weight: Any, loss: Loss, dtype: np.dtype[Any]
) -> Completion:
    if sample_weight is not None:
        raise ValueError(
            "a SortedFolder holds its weights: leave out sample_weight, and sort a column of them"
        )
    store = folder.store.astype(dtype)
    try:
        for block in blocks_of(store):
            loss.check_values(block[:, 0])
    except ValueError as error:
        raise ValueError(f"{folder.path}: {error}") from error
    return Completion.from_observed(store, loss)
