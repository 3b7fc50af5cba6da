"""The factor of one side when that of the other is given: a small ridge problem for each row (or column)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.observed import Side

Floats = NDArray[Any]
BLOCK = 1 << 15  # lines whose normal equations are held at a time
CHUNKS = 16  # that threads share out, of each block


def solve_lines(side: Side, B: Floats, ridges: Floats) -> Floats:
    """Return the x_i that minimise Σ w (x_i·B_j − y)² + ridge_i ‖x_i‖² over the entries of each line i.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> cost = rf.Completion([0, 0, 1], [0, 1, 1], [1.0, 2.0, 6.0], (2, 2))
    >>> solve_lines(cost.observed.by_row, np.array([[1.0], [2.0]]), np.array([0.0, 4.0])).round(12).tolist()
    [[1.0], [1.5]]
    """
    out = np.empty((side.indptr.size - 1, B.shape[1]), B.dtype)
    for first in range(0, len(out), BLOCK):
        lines = slice(first, first + BLOCK)
        part = _part(side, first, min(first + BLOCK, len(out)))
        out[lines] = _solved(part, B, ridges[lines])
    return out


def _part(side: Side, first: int, last: int) -> Side:
    """Lines `first` to `last` as a side of their own, which shares the entries."""
    indptr = side.indptr[first : last + 1]
    cuts = np.searchsorted(indptr, np.linspace(int(indptr[0]), int(indptr[-1]), CHUNKS + 1)[1:-1])
    bounds = np.concatenate([[0], cuts, [last - first]]).astype(np.uint64)
    return replace(side, indptr=indptr, bounds=bounds)


def _solved(side: Side, B: Floats, ridges: Floats) -> Floats:
    from rankfold.kernels import least_squares
    from rankfold.kernels.pool import run

    Q, q = normal_equations(side, B)
    r = B.shape[1]
    Q[:, np.arange(r), np.arange(r)] += ridges[:, None]
    run(least_squares.factorise, side.chunks, len(q) * r**3, (side.bounds, Q, 0.0))
    run(least_squares.substitute, side.chunks, len(q) * r**2, (side.bounds, Q, q))
    return q


def normal_equations(side: Side, B: Floats) -> tuple[Floats, Floats]:
    """Return Σ w B_j B_jᵀ and Σ w y B_j of each line."""
    from rankfold.kernels import least_squares
    from rankfold.kernels.pool import run

    B = np.ascontiguousarray(B, dtype=side.data.dtype)
    d, r = side.indptr.size - 1, B.shape[1]
    Q, q = np.empty((d * r, r), B.dtype), np.empty((d, r), B.dtype)
    kernel = least_squares.normal_equations(r, side.data.shape[1] == 2)
    run(kernel, side.chunks, side.indices.size * r**2, (*side.arrays, B, 0.0, Q, q))
    return Q.reshape(d, r, r), q
