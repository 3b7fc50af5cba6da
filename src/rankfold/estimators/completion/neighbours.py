"""What a model puts first: the columns with the largest predictions, and the rows or columns most alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.estimators.completion.growing import Growing
from rankfold.estimators.completion.pattern import Pattern
from rankfold.linalg import gram

Floats = NDArray[Any]
_CELLS = 1 << 22  # scores held at a time


class Recommendations(NamedTuple):
    """The best columns of some rows, best first within a row: three arrays of one length, as in a table."""

    rows: NDArray[Any]
    cols: NDArray[Any]
    scores: Floats


class Neighbours(NamedTuple):
    """What is most like something, most alike first: three arrays of one length, as in a table."""

    items: NDArray[Any]
    neighbours: NDArray[Any]
    cosines: Floats


def largest(
    queries: NDArray[Any], width: int, n: int, scores_of: Callable[[NDArray[Any]], Floats]
) -> tuple[NDArray[Any], NDArray[Any], Floats]:
    """Return the places of the n largest scores of each query that are not -inf, and the scores.

    `scores_of` gives the scores of some queries, `width` for each; of equal scores the first comes first.
    """
    n = min(n, width)
    parts = []
    block = max(1, _CELLS // width)
    for start in range(0, max(len(queries), 1), block):  # once for no queries, for the types
        scores = scores_of(queries[start : start + block])
        # The largest, and of those equal to the last of them the first; then these in order.
        least = -np.partition(-scores, n - 1, axis=1)[:, n - 1 : n]
        above, equal = scores > least, scores == least
        equal &= np.cumsum(equal, axis=1) <= n - above.sum(axis=1, keepdims=True)
        places = np.nonzero(above | equal)[1].reshape(-1, n)
        found = np.take_along_axis(scores, places, axis=1)
        order = np.argsort(-found, axis=1, kind="stable")
        places, found = (np.take_along_axis(array, order, axis=1) for array in (places, found))
        rows, ranks = np.nonzero(found > -np.inf)
        parts.append((start + rows, places[rows, ranks], found[rows, ranks]))
    query, place, score = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return query, place, score


def forget(scores: Floats, rows: NDArray[Any], seen: Pattern | Growing) -> None:
    """Set the scores at positions that rows already have to -inf."""
    pattern = seen.rows(rows)
    scores[np.repeat(np.arange(len(rows)), pattern.counts), pattern.indices] = -np.inf


def directions(L: Floats, R: Floats) -> Floats:
    """Return vectors with the cosines that the rows of L Rᵀ have, whichever factors of it are given."""
    values, E = np.linalg.eigh(gram(R, R).astype(np.float64))
    A: Floats = L @ (E * np.sqrt(np.maximum(values, 0.0)))
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    return np.asarray(np.divide(A, lengths, out=np.zeros_like(A), where=lengths > 0))
