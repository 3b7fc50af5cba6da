"""Tables in and out: arrays, tensors, sparse matrices, pandas and polars DataFrames."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.entries.given_arrays import own_sparse, plain, with_holes
from rankfold.estimators.tensors import like_given, without_tensors


def as_table(X: Any, hole: Any) -> tuple[Any, Any]:
    """Return X for scikit-learn to check, and for a sparse matrix also where it stores entries, else None.

    What is masked becomes a `hole`.
    """
    if sparse.issparse(X):
        X = own_sparse("X", X)
        return X, sparse.csr_array((np.ones(X.data.shape, dtype=bool), X.indices, X.indptr), X.shape)
    if _library(X) == "polars":
        return X.fill_null(float("nan")), None
    return *without_tensors(plain("X", with_holes(X, hole))), None


def like_table(
    X: Any, full: NDArray[Any], kept: NDArray[np.bool_], extra: NDArray[np.bool_] | None, names: Any
) -> Any:
    """Return the columns `kept` of `full` and those of `extra` in the form that X has, with these names.

    Columns of a table without a hole are its own. If `set_output` asks for another form, scikit-learn makes
    it from this one.
    """
    dense = full[:, kept] if extra is None else np.hstack([full[:, kept], extra.astype(full.dtype)])
    library = _library(X)
    if library is None:
        return like_given(X, dense)
    own = [name for name, keep in zip(X.columns, kept, strict=True) if keep]  # they need not be strings
    columns = {name: dense[:, k] for k, name in enumerate([*own, *names[len(own) :]])}
    for name in own:
        column = X[name]
        if library == "pandas":
            columns[name] = column if not column.isna().any() else columns[name].astype(_float_of(column))
        elif not (column.null_count() or (column.dtype.is_float() and column.is_nan().any())):
            columns[name] = column
    return type(X)(columns, index=X.index) if library == "pandas" else type(X)(columns)


def row_index(X: Any, order: Any, rows: int) -> NDArray[np.float64] | None:
    """Return where rows stand in their order: None without one, numbers, or seconds of times."""
    if order is None:
        return None
    if order == "rows":
        return np.arange(rows, dtype=np.float64)
    if order != "index":
        raise ValueError(f"order must be None, 'rows' or 'index', not {order!r}")
    if _library(X) != "pandas":
        raise TypeError(
            f"order='index' needs a pandas DataFrame, which has an index, not a {type(X).__name__}: sort the "
            "rows, and say order='rows'"
        )
    # Times of a zone would become objects: these are the same times, in UTC.
    zoned = getattr(X.index, "tz", None) is not None
    index = (X.index.tz_convert(None) if zoned else X.index).to_numpy()
    if index.dtype.kind in "mM":
        if np.isnat(index).any():
            raise ValueError("the index of X has a time that is NaT: drop those rows")
        return np.asarray((index - index.min()) / np.timedelta64(1, "s"))
    if index.dtype.kind not in "iuf" or not np.isfinite(index).all():
        raise ValueError(
            f"order='index' takes times or finite numbers; the index of X holds {index.dtype}, {index[:1]}"
        )
    return np.asarray(index, dtype=np.float64)


def _library(X: Any) -> str | None:
    """The name of the library, pandas or polars, whose table X is."""
    name = type(X).__module__.partition(".")[0]
    return name if name in ("pandas", "polars") and type(X).__name__ == "DataFrame" else None


def _float_of(column: Any) -> Any:
    """The floating dtype of a pandas column with holes, float64 if it has another one."""
    dtype = getattr(column.dtype, "numpy_dtype", column.dtype)
    return dtype if getattr(dtype, "kind", "") == "f" else np.float64
