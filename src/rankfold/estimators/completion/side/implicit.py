"""Implicit features: which columns a row has entries in at all, and which rows a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.entries.lanczos import dominant_svd
from rankfold.estimators.completion.entries import training_triples

Floats = NDArray[Any]
Features = tuple[NDArray[Any], Floats]
COUNT = 20
NAMES = tuple(f"implicit {k}" for k in range(COUNT))  # of those that a fit makes itself
_TOLERANCE = 1e-3


def implicit_features(
    X: Any, shape: tuple[int, int] | None = None, *, count: int = COUNT, seed: int = 0
) -> tuple[Features, Features]:
    """Return features of rows and of columns that say where there are entries, not what they are.

    Who rates a film says something of it, before the ratings do (as in SVD++). With 1 where there is an entry
    and 0 elsewhere, each divided by the roots of the numbers of entries in its row and column, the features
    of a row are its coordinates along the `count` leading singular vectors, as a direction.
    `MatrixCompletion` tries such features by itself, where nobody gives it others. For its `fit`, as
    `row_features` or `col_features`, they are pairs (labels, features).

    Parameters
    ----------
    X
        Pairs, or `rankfold.data.Triples`, as for `fit`: those that are fitted, not those to be predicted.
    shape
        As the setting of `MatrixCompletion`.
    count
        How many features, or as many as the lesser side has.
    seed
        Of the search for singular vectors.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0)
    >>> rows, cols = rf.implicit_features(data, count=5)
    >>> cols[1].shape
    (50, 5)
    >>> model = rf.MatrixCompletion(rank=2, bayesian=False).fit(data, col_features=cols)
    """
    triples = hasattr(X, "row_labels")
    data = training_triples(X, None if triples else np.zeros(len(X)), None if triples else shape)
    rows, cols = (np.asarray(side, np.int64) for side in (data.rows, data.cols))
    seen = sparse.csr_array((np.ones(rows.size), (rows, cols)), shape=data.shape)
    found = where_entries_are(seen, count, seed)
    labels = (
        np.arange(size) if names is None else names
        for names, size in zip((data.row_labels, data.col_labels), data.shape, strict=True)
    )
    of_rows, of_cols = zip(labels, found, strict=True)
    return of_rows, of_cols


def where_entries_are(seen: Any, count: int = COUNT, seed: int = 0) -> tuple[Floats, Floats]:
    """Return the features of rows and of columns, given a sparse matrix that has the entries' places."""
    seen.data[:] = 1.0  # a pair that comes twice is seen once
    roots = [np.sqrt(np.maximum(np.asarray(seen.sum(axis=axis)).ravel(), 1.0)) for axis in (1, 0)]
    S = sparse.csr_array(seen / roots[0][:, None] / roots[1])
    U, _, V = dominant_svd(_Products(S), min(count, *S.shape), seed, tolerance=_TOLERANCE)
    return _directions(S @ V), _directions(S.T @ U)


def _directions(X: Floats) -> Floats:
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(np.divide(X, lengths, out=np.zeros_like(X), where=lengths > 0))


@dataclass(frozen=True, eq=False)
class _Products:
    """A sparse matrix of SciPy, by products alone."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.matrix.shape[0]), int(self.matrix.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def __matmul__(self, V: Floats) -> Floats:
        return np.asarray(self.matrix @ V)

    def transposed_times(self, U: Floats) -> Floats:
        return np.asarray(self.matrix.T @ U)
