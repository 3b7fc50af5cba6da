"""The factor of one side when that of the other is given: a small ridge problem for each row (or column)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.sorted_entries import SortedEntries

Floats = NDArray[Any]
FactorPair = tuple[Floats, Floats]
_CHUNKS = 16  # that threads share out, of each block
_AT_ONCE = 1e10  # multiply-adds of a call, a second or two: between calls Ctrl-C is looked for


def solve_lines(side: SortedEntries, B: Floats, ridges: Floats, pull: Floats | None = None) -> Floats:
    """Return the x_i that minimise Σ w (x_i·B_j − y)² + ridges_i·x_i² − 2 pull_i·x_i over each line i.

    If B has a column more than `ridges`, the coefficient of that last one is 1 and not an unknown.
    """
    return solve_with_pivots(side, B, ridges, pull)[0]


def solve_with_pivots(
    side: SortedEntries, B: Floats, ridges: Floats, pull: Floats | None = None
) -> tuple[Floats, Floats]:
    """Return the x_i, and what is left of each last unknown's curvature when the others are eliminated.

    That is 0 where the entries do not tell the last unknown from the others; it is 0 then, too.
    """
    if len(B) != side.length:
        raise ValueError(f"there are {side.length} lines on the other side, and factors of {len(B)}")
    B = np.ascontiguousarray(B, dtype=side.data.dtype)
    x = np.zeros(ridges.shape, B.dtype) if pull is None else np.array(pull, B.dtype)
    pivots = np.empty(len(x), B.dtype)
    more = kernels.layout.width_for(x.shape[1], len(side.data) + side.lines + side.length) - x.shape[1]
    if more:  # unknowns before the others that nothing is multiplied by, and that are charged
        B, x, ridges = _after(more, B, 0.0), _after(more, x, 0.0), _after(more, ridges, 1.0)
    rank, unknowns = B.shape[1], x.shape[1]
    kernel = kernels.least_squares.ridge_lines(rank, unknowns, side.data.shape[1] == 2)
    ridges = np.ascontiguousarray(ridges, B.dtype)
    for lines, part in side.parts():
        work = len(part.data) * rank * unknowns + part.lines * unknowns**3
        _, *entries = part.passed
        own = ridges[lines], x[lines], pivots[lines]
        for bounds in _shares(part, work):
            kernels.pool.run(kernel, len(bounds) - 1, work, (bounds, *entries, B, *own))
    return (np.ascontiguousarray(x[:, more:]) if more else x), pivots


def _shares(part: SortedEntries, work: float) -> list[NDArray[Any]]:
    """Return bounds of lines for each call: one, unless the rank is so large that it would take long."""
    calls = 1 + int(work / _AT_ONCE)
    if calls == 1:
        return [part.bounds]
    bounds = np.linspace(0, part.lines, min(part.lines, _CHUNKS * calls) + 1).astype(part.bounds.dtype)
    return [bounds[k : k + _CHUNKS + 1] for k in range(0, len(bounds) - 1, _CHUNKS)]


def _after(more: int, array: Floats, number: float) -> Floats:
    """Return the array after so many columns of a number; `np.pad` takes longer than a small pass."""
    found = np.full((len(array), more + array.shape[1]), number, array.dtype)
    found[:, more:] = array
    return found


def normal_equations(side: SortedEntries, B: Floats, first: int, last: int) -> tuple[Floats, Floats]:
    """Return Σ w B_j B_jᵀ and Σ w y B_j over the entries of each line from `first` to `last`."""
    if len(B) != side.length:
        raise ValueError(f"there are {side.length} lines on the other side, and factors of {len(B)}")
    d, rank = last - first, B.shape[1]
    r = kernels.layout.width_for(rank, len(side.data) + side.lines + side.length)
    (B,) = kernels.layout.widened(r, B)
    kernel = kernels.least_squares.normal_equations(r, side.data.shape[1] == 2)
    total: list[Floats] = []
    for s in range(side.stripes):
        indptr = side.indptr[s * side.lines + first : s * side.lines + last + 1]
        parts = [np.empty((d * r, r), B.dtype), np.empty((d, r), B.dtype)]
        work = int(indptr[-1] - indptr[0]) * r**2
        others = B[s * int(side.step) :]  # what the stripe counts from
        entries = indptr, side.across, side.data.reshape(-1)
        kernels.pool.run(kernel, _CHUNKS, work, (_bounds(d), *entries, others, 0.0, *parts))
        total = [a + b for a, b in zip(total, parts, strict=True)] if total else parts
    Q = total[0].reshape(d, r, r)[:, :rank, :rank]
    return np.ascontiguousarray(Q), kernels.layout.narrowed(rank, total[1])


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
