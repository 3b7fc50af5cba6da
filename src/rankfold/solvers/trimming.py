"""Rows and columns that have run away: found, set to zero, and taken back by their own entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import LineBlocks
from rankfold.costs.completion import Completion
from rankfold.entries.arrays import to_numpy
from rankfold.entries.observed import Observed
from rankfold.geometry.base import Point
from rankfold.linalg import asarray_like, svd_of_product
from rankfold.problem import Problem

Lines = NDArray[np.int64]
# A ridge for lines whose entries do not determine them, beside which rounding is small.
_RIDGE = 1e-14
# The leverage beyond which a line has run away is 6 + 20/r: 26 for r = 1, 10 for r = 5. Among 1000 lines of a
# Gaussian matrix the largest are about 12 and 4.
_LIMIT = 6.0, 20.0
_VANISHED = 1e-13  # the least singular value, relative to the largest, that a point is given


def no_lines() -> Lines:
    """Return no lines at all."""
    return np.zeros(0, np.int64)


def leverages(problem: Problem, x: Point) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return ‖U_i‖² d1/r of each row and ‖V_j‖² d2/r of each column, whose means are 1.

    A line that lies in a singular direction of its own has d/r; of a Gaussian matrix none has 4 (r = 5).
    """
    U, _, V = svd_of_product(*problem.geometry.factors(x))
    rows, cols = ((Q * Q).sum(axis=1) * (Q.shape[0] / Q.shape[1]) for Q in to_numpy(U, V))
    return rows, cols


def limit_of(problem: Problem) -> float:
    """Return the leverage beyond which a line has run away."""
    return _LIMIT[0] + _LIMIT[1] / problem.geometry.rank


def farthest(problem: Problem, x: Point, limit: float) -> tuple[Lines, Lines, float]:
    """Return the rows and columns of a leverage above the limit, or the farthest one; and its leverage."""
    rows, cols = leverages(problem, x)
    most = float(max(rows.max(), cols.max()))
    bound = min(limit, np.nextafter(most, 0.0))
    return np.flatnonzero(rows > bound), np.flatnonzero(cols > bound), most


def without(problem: Problem, x: Point, rows: Lines, cols: Lines) -> Point:
    """Return the point with zeros in these rows and columns of W."""
    factors = problem.geometry.factors(x)
    L, R = (np.array(factor, dtype=np.float64) for factor in to_numpy(*factors))
    L[rows], R[cols] = 0, 0
    U, s, V = svd_of_product(L, R)
    s = np.maximum(s, _VANISHED * s[0])  # where a line took a singular direction with it
    return problem.geometry.from_svd(*(asarray_like(part, factors[0]) for part in (U, s, V)))


def taken_back(problem: Problem, x: Point, rows: Lines, cols: Lines) -> Point:
    """Return the point with these lines where their own entries want them: the rows first, then the columns.

    One step of Newton's method from zero for each line, the others held: least squares for the square loss.
    """
    cost, factors = problem.cost, problem.geometry.factors(x)
    L, R = (np.array(factor, dtype=np.float64) for factor in to_numpy(*factors))
    L[rows], R[cols] = 0, 0
    for side, (Z, Y, lines) in enumerate(((L, R, rows), (R, L, cols))):
        if lines.size:
            blocks: LineBlocks = cost.line_blocks(L, R)
            partials, share = cost.evaluate(L, R)[1:][side], _RIDGE * np.trace(blocks[side].mean(axis=0))
            for i in lines:
                Z[i] = -np.linalg.solve(blocks[side][i] + share * np.eye(Y.shape[1]), partials[i])
    return problem.geometry.from_factors(*(asarray_like(Z, factors[0]) for Z in (L, R)))


def determined(problem: Problem) -> bool:
    """Whether lines can be set aside, and there are as many entries as degrees of freedom."""
    # Of a symmetric matrix a row is a column too.
    return not problem.geometry.symmetric and oversampling(problem) >= 1


def alike(problem: Problem) -> bool:
    """Whether all entries weigh the same, are known, and not fewer than the degrees of freedom."""
    cost = problem.cost
    return determined(problem) and cost.quadratic and isinstance(cost, Completion) and not cost.store.weighted


def oversampling(problem: Problem) -> float:
    """Return how many entries there are for each degree of freedom; 0 where nobody can count them."""
    cost, rank = problem.cost, problem.geometry.rank
    if not (isinstance(cost, Completion) and isinstance(cost.store, Observed)):
        return 0.0
    return cost.store.size / (rank * (sum(cost.shape) - rank))
