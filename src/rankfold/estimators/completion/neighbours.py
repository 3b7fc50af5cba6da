"""What a model puts first: the columns with the largest predictions, and the rows or columns most alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.estimators.completion.growing import Growing
from rankfold.estimators.completion.pattern import Pattern
from rankfold.linalg import gram

Floats = NDArray[Any]
_CELLS = 1 << 22  # scores held at a time


class Recommendations(dict[str, NDArray[Any]]):
    """The best columns of some rows, best first within a row: three arrays of one length, as in a table.

    As a dict of its columns, it is what `pandas.DataFrame`, `polars.DataFrame` and `pyarrow.table` take.
    There rows and columns have the `names` that the data has for them.

    Examples
    --------
    >>> found = Recommendations(np.array(["ann"]), np.array(["Heat"]), np.array([4.5]), ("user", "film"))
    >>> found.cols.tolist(), list(found)
    (['Heat'], ['user', 'film', 'scores'])
    """

    def __init__(
        self,
        rows: NDArray[Any],
        cols: NDArray[Any],
        scores: Floats,
        names: tuple[str, str] = ("rows", "cols"),
    ) -> None:
        if len({*names, "scores"}) < 3:  # a table has room for one column of a name
            names = "rows", "cols"
        super().__init__({names[0]: rows, names[1]: cols, "scores": scores})
        self._names = names

    @property
    def rows(self) -> NDArray[Any]:
        """The rows asked for, each as often as there are columns for it."""
        return self[self._names[0]]

    @property
    def cols(self) -> NDArray[Any]:
        """The columns."""
        return self[self._names[1]]

    @property
    def scores(self) -> Floats:
        """What is predicted there."""
        return self["scores"]


class Neighbours(dict[str, NDArray[Any]]):
    """What is most like something, most alike first: three arrays of one length, as in a table.

    As a dict of its columns, it is what `pandas.DataFrame`, `polars.DataFrame` and `pyarrow.table` take.
    """

    def __init__(self, given: NDArray[Any], neighbours: NDArray[Any], cosines: Floats) -> None:
        super().__init__(given=given, neighbours=neighbours, cosines=cosines)

    @property
    def given(self) -> NDArray[Any]:
        """What was asked for, each as often as there is something like it."""
        return self["given"]

    @property
    def neighbours(self) -> NDArray[Any]:
        """What is like it."""
        return self["neighbours"]

    @property
    def cosines(self) -> Floats:
        """How much."""
        return self["cosines"]


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
