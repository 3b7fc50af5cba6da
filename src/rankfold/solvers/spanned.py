"""A start of rank 1 where entries are few: from line to line along the entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, connected_components

from rankfold.costs.completion import Completion
from rankfold.geometry.base import Point
from rankfold.linalg import asarray_like
from rankfold.problem import Problem

Floats = NDArray[Any]


def spanned(problem: Problem, like: Point) -> Point:
    """Return a point of rank 1 that fits the entries of a tree in each part of their graph.

    A row's number and an entry give the column's, and so on: where the data are exact, the tree fits all
    entries. Each part has a scale of its own, and is balanced: the mean square of its rows is that of its
    columns.
    """
    cost = problem.cost
    assert isinstance(cost, Completion)
    side, (d1, d2) = cost.observed.by_row, cost.shape
    values = side.data[:, 0].astype(np.float64)
    felt = values != 0
    i, j, v = side.keys[felt].astype(np.int64), side.indices[felt].astype(np.int64), values[felt]
    entries = coo_array((v, (i, d1 + j)), shape=(d1 + d2, d1 + d2)).tocsr()
    graph = entries + entries.T
    count, parts = connected_components(graph, directed=False)
    numbers = np.ones(d1 + d2)
    for root in np.unique(parts, return_index=True)[1]:
        order, before = breadth_first_order(graph, root, directed=False)
        _passed_on(graph, order, before, numbers)
    rows, cols = np.arange(d1 + d2) < d1, np.arange(d1 + d2) >= d1
    means = [_mean_squares(numbers, parts, own, count) for own in (rows, cols)]
    scale = np.sqrt(np.sqrt(means[1] / means[0]))[parts]
    numbers = np.where(rows, numbers * scale, numbers / scale)
    own = problem.geometry.factors(like)[0]
    return problem.geometry.from_factors(*(asarray_like(z[:, None], own) for z in np.split(numbers, [d1])))


def _passed_on(graph: Any, order: NDArray[Any], before: NDArray[Any], numbers: Floats) -> None:
    """Set the numbers of a part of the graph, those nearer to its root first."""
    known = graph[before[order[1:]], order[1:]] if len(order) > 1 else np.zeros(0)
    for line, value in zip(order[1:].tolist(), np.asarray(known).ravel().tolist(), strict=True):
        numbers[line] = value / numbers[before[line]]


def _mean_squares(numbers: Floats, parts: NDArray[Any], own: NDArray[np.bool_], count: int) -> Floats:
    """The mean square of each part's numbers on one side; 1 where it has none."""
    sums = np.bincount(parts[own], numbers[own] ** 2, count)
    return np.where(sums > 0, sums / np.maximum(np.bincount(parts[own], minlength=count), 1), 1.0)
