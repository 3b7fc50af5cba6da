"""The factor of one side when that of the other is given: a small ridge problem for each row (or column)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.sorted_entries import SortedEntries

Floats = NDArray[Any]
FactorPair = tuple[Floats, Floats]
BLOCK = 1 << 15  # lines whose normal equations are held at a time
_CHUNKS = 16  # that threads share out, of each block


def solve_lines(side: SortedEntries, B: Floats, ridges: Floats, pull: Floats | None = None) -> Floats:
    """Return the x_i that minimise Σ w (x_i·B_j − y)² + ridges_i·x_i² − 2 pull_i·x_i over each line i.

    If B has a column more than `ridges`, the coefficient of that last one is 1 and not an unknown.
    """
    B = np.ascontiguousarray(B, dtype=side.data.dtype)
    out = np.empty(ridges.shape, B.dtype)
    for first in range(0, side.lines, BLOCK):
        last = min(first + BLOCK, side.lines)
        Q, q = reduced_equations(side, B, first, last, ridges.shape[1])
        if pull is not None:
            q += pull[first:last]
        out[first:last] = solved(Q, q, ridges[first:last])
    return out


def reduced_equations(
    side: SortedEntries, B: Floats, first: int, last: int, unknowns: int
) -> tuple[Floats, Floats]:
    """Return the normal equations of the first columns of B, where a column beyond them counts once."""
    Q, q = normal_equations(side, B, first, last)
    if B.shape[1] == unknowns:
        return Q, q
    return np.ascontiguousarray(Q[:, :-1, :-1]), q[:, :-1] - Q[:, :-1, -1]


def normal_equations(side: SortedEntries, B: Floats, first: int, last: int) -> tuple[Floats, Floats]:
    """Return Σ w B_j B_jᵀ and Σ w y B_j over the entries of each line from `first` to `last`."""
    if len(B) != side.length:
        raise ValueError(f"there are {side.length} lines on the other side, and factors of {len(B)}")
    d, r = last - first, B.shape[1]
    kernel = kernels.least_squares.normal_equations(r, side.data.shape[1] == 2)
    total: list[Floats] = []
    for s in range(side.stripes):
        indptr = side.indptr[s * side.lines + first : s * side.lines + last + 1]
        parts = [np.empty((d * r, r), B.dtype), np.empty((d, r), B.dtype)]
        work = int(indptr[-1] - indptr[0]) * r**2
        kernels.pool.run(
            kernel, _CHUNKS, work, (_bounds(d), indptr, side.indices, side.data.reshape(-1), B, 0.0, *parts)
        )
        total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
    return total[0].reshape(d, r, r), total[1]


def solved(Q: Floats, q: Floats, ridges: Floats) -> Floats:
    """Return the solutions of (Q_i + ridges_i I) x = q_i, ridges by line or by unknown; Q is overwritten."""
    x = np.ascontiguousarray(q)
    d, r = x.shape
    factorised(Q, ridges)
    kernels.pool.run(kernels.least_squares.substitute, _CHUNKS, d * r**2, (_bounds(d), Q, x))
    return x


def factorised(Q: Floats, ridges: Floats) -> None:
    """Overwrite each Q_i + ridges_i I by its Cholesky factor, lower triangle."""
    d, r, _ = Q.shape
    Q[:, np.arange(r), np.arange(r)] += ridges.reshape(d, -1)
    kernels.pool.run(kernels.least_squares.factorise, _CHUNKS, d * r**3, (_bounds(d), Q, 0.0))


def _bounds(lines: int) -> NDArray[np.uint64]:
    return np.linspace(0, lines, min(_CHUNKS, lines) + 1).astype(np.uint64)
