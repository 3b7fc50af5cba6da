"""What users give, checked: pairs (positions, labels, tables, tensors), weights, ranks, penalties."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array, validate_data

from rankfold.data.numbering import label_column, refuse
from rankfold.entries.given_arrays import check_size, plain, unmasked
from rankfold.estimators.tensors import without_tensors


def pair_columns(X: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the two columns of X, each of integers, strings or times.

    X is an array, a torch tensor, a pandas or polars DataFrame, or a list of pairs.
    """
    if sparse.issparse(X):
        raise TypeError(
            "sparse input is not supported, X holds pairs: for the stored entries of a sparse matrix in COO "
            "format, give rankfold.data.Triples(A.row, A.col, A.data, A.shape)"
        )
    (X,) = without_tensors(unmasked("X", X))
    if hasattr(X, "columns") and not isinstance(X, np.ndarray):
        columns = [to_numpy(X[name]) for name in X.columns]
    elif isinstance(X, (list, tuple)):
        columns = _listed(X)
    else:
        X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must be two-dimensional, one [row, column] per line; got shape {X.shape}")
        columns = list(X.T)
    if len(columns) != 2:
        raise ValueError(
            f"X must have two columns, the row and the column of each entry; got n_features = {len(columns)}"
        )
    return label_column(columns[0], "X[{}, 0]"), label_column(columns[1], "X[{}, 1]")


def checked_places(
    rows: Any, cols: Any, shape: tuple[int, int]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return positions in a matrix of this shape as integers, one column for each row; -1 is nowhere."""
    places = []
    for name, given, size in zip(("rows", "cols"), (rows, cols), shape, strict=True):
        column = np.asarray(unmasked(name, given))
        if column.ndim != 1 or (column.size and column.dtype.kind not in "iu"):
            found = f"shape {column.shape} of {column.dtype}"
            raise ValueError(f"{name} must be a vector of integers; got {found}")
        wrong = (column < -1) | (column >= size)
        refuse(wrong, column, name + "[{}]", f"positions go from 0 to {size - 1}, and -1 is none of them")
        places.append(column.astype(np.int64))
    if places[0].size != places[1].size:
        raise ValueError(f"rows and cols must be equally long; got {places[0].size} and {places[1].size}")
    return places[0], places[1]


def checked_weights(sample_weight: Any, length: int, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return the weights of `length` samples: 1 if none are given, a number for all of them, or a vector."""
    if sample_weight is None:
        return np.ones(length, dtype)
    sample_weight = plain("sample_weight", sample_weight)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(length, sample_weight)
    options = {"dtype": dtype, "order": "C", "ensure_2d": False, "ensure_min_samples": 0}
    weights: NDArray[Any] = check_array(sample_weight, input_name="sample_weight", **options)
    if weights.shape != (length,):
        raise ValueError(
            f"sample_weight must be a vector of {length} weights, one per sample; got shape {weights.shape}"
        )
    check_size("sample_weight", weights)
    refuse(weights < 0, weights, "sample_weight[{}]", "weights are never negative")
    if not weights.any():
        raise ValueError("sample_weight is zero for every sample: there is nothing to fit")
    return weights


def finite_answers(answers: NDArray[Any]) -> NDArray[Any]:
    """Return predictions, one or several for each sample of X, unless some are too large for a float."""
    wrong = ~np.isfinite(answers)
    if wrong.any():
        at = int(np.argwhere(wrong)[0, 0])
        raise ValueError(f"the prediction for X[{at}] overflows: this sample is far beyond those of fit")
    return answers


def seed_of(random_state: Any) -> int:
    """Return a seed of our own for scikit-learn's `random_state`."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def is_auto(setting: Any) -> bool:
    """Whether a setting says that its value is to be chosen."""
    return isinstance(setting, str) and setting == "auto"


def checked_rank(rank: Any, largest: int, why: str) -> int:
    """Return a rank from 1 to `largest`; `why` says in the error what limits it."""
    if not (isinstance(rank, Integral) and rank is not True and 1 <= int(rank) <= largest):
        raise ValueError(f"rank must be 'auto' or an integer from 1 to {largest}, {why}; got {rank!r}")
    return int(rank)


def checked_regularization(weight: Any, alternative: str = "") -> float:
    """Return the weight of a penalty; `alternative` is what the error offers beside a number."""
    if not (isinstance(weight, Real) and 0 <= float(weight) < np.inf):
        raise ValueError(f"regularization must be {alternative}finite and at least 0, not {weight!r}")
    return float(weight)


def refuse_text(X: Any, remedy: str, missing: Any = None) -> None:
    """Raise ValueError at the first cell of a table that is no number, with the name of its column.

    `missing` is what stands for no value.
    """
    if isinstance(X, np.ndarray) or not hasattr(X, "columns") or hasattr(X, "column_names"):
        return  # an array, a list, or a table of pyarrow, whose columns are no names
    for name in X.columns:
        column = to_numpy(X[name])
        if column.dtype.kind not in "fiubc":
            cell = next((cell for cell in column.tolist() if not _numeric(cell) and cell != missing), None)
            if cell is not None:
                raise ValueError(f"column {str(name)!r} of X is not numeric, it holds {cell!r}: {remedy}")


def checked_features(model: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Return X, or X and y, as scikit-learn checks them, with a remedy of ours where a cell is not finite."""
    checked = validate_data(model, X, y, ensure_all_finite=False, **options)
    features = checked[0] if isinstance(checked, tuple) else checked
    if features.dtype.kind == "f" and not np.isfinite(features).all():
        row, col = np.argwhere(~np.isfinite(features))[0]
        names = getattr(model, "feature_names_in_", None)
        where = f"X[{row}, {col}]" if names is None else f"column {names[col]!r}, line {row} from 0"
        kind = "NaN" if np.isnan(features[row, col]) else "infinity"
        raise ValueError(
            f"Input X contains {kind}: {where}. Leave such lines out, or fill the holes first, in a pipeline "
            f"too: make_pipeline(rankfold.LowRankImputer(), {type(model).__name__}(...))"
        )
    return checked


def _numeric(cell: Any) -> bool:
    """Tell whether a cell is a number, the text of one, or nothing; what is neither text nor time may be."""
    try:
        float(cell)
    except ValueError:
        return False
    except TypeError:
        return not hasattr(cell, "year")
    return True


def to_numpy(column: Any) -> NDArray[Any]:
    """Return a column of a table, or anything like an array, as an array; a masked one as it is."""
    return np.asanyarray(column.to_numpy() if hasattr(column, "to_numpy") else column)


def _listed(X: Any) -> list[NDArray[Any]]:
    """Columns of a list of pairs, each with a type of its own."""
    pairs = [tuple(pair) if isinstance(pair, (list, tuple, np.ndarray)) else (pair,) for pair in X]
    for k, pair in enumerate(pairs):
        if len(pair) != 2:
            raise ValueError(f"X[{k}] must be a pair (row, column); got {X[k]!r}")
    return [_as_objects([pair[side] for pair in pairs]) for side in (0, 1)]


def _as_objects(items: Any) -> NDArray[Any]:
    """Return what a list holds, as it is: of 1 and "b" NumPy would make strings."""
    return np.fromiter(items, dtype=object, count=len(items))


def given_labels(items: Any, where: str) -> NDArray[Any]:
    """Return labels from a list, a column of a table, a tensor or an array; a single one will do."""
    (items,) = without_tensors(unmasked(where.partition("[")[0], items))
    if isinstance(items, (str, int)):
        items = [items]
    listed = isinstance(items, (list, tuple))
    return label_column(_as_objects(items) if listed else np.atleast_1d(to_numpy(items)), where)
