"""Two passes over tall arrays: the Grams of pairs of them, and sums of tall arrays times small matrices.

Both take chunks of rows that depend on the shape alone, and sums of chunks are added up in order: the bits
are the same for any number of threads. BLAS is made for other shapes: it takes three times as long for a Gram
of a 32000 × 5 array, on one thread.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rankfold.kernels.chunks import chunks
from rankfold.kernels.compiling import called, compiled
from rankfold.kernels.layout import ONE
from rankfold.kernels.registers import axpy, held, load, load_first, multiply_add, store, store_first, zero

ARRAYS = 6  # that one pass takes; those beyond the last are repetitions
MOST_CHUNKS, _FEWEST_ROWS = 64, 128
_FOUR = np.uint64(4)


@functools.lru_cache(maxsize=64)
def cuts(rows: int, rank: int) -> Any:
    """Bounds of chunks of rows: few enough for the r×r sums of all of them to be small beside the arrays."""
    count = min(MOST_CHUNKS, max(1, rows // max(_FEWEST_ROWS, 32 * rank)))
    return np.linspace(0, rows, count + 1).astype(np.uint64)


@functools.cache
def _columns(rank: int, size: int, width: int) -> Any:
    """Function that adds `size` rows of AᵀB, from row k on, of some rows of A and B, to those in Q.

    Of those rows the first `width` numbers.
    """

    def add(A, B, k, first, last, Q, top):  # type: ignore[no-untyped-def]
        q0 = load_first(Q, top, rank, width)
        q1 = load_first(Q, top + np.uint64(1), rank, width) if size > 1 else zero(q0)
        q2 = load_first(Q, top + np.uint64(2), rank, width) if size > 2 else zero(q0)
        q3 = load_first(Q, top + np.uint64(3), rank, width) if size > 3 else zero(q0)
        q4 = load_first(Q, top + np.uint64(4), rank, width) if size > 4 else zero(q0)
        q5 = load_first(Q, top + np.uint64(5), rank, width) if size > 5 else zero(q0)
        q6 = load_first(Q, top + np.uint64(6), rank, width) if size > 6 else zero(q0)
        q7 = load_first(Q, top + np.uint64(7), rank, width) if size > 7 else zero(q0)
        for i in range(first, last):
            b = load_first(B, i, rank, width)
            q0 = axpy(A[i, k], b, q0)
            if size > 1:
                q1 = axpy(A[i, k + np.uint64(1)], b, q1)
            if size > 2:
                q2 = axpy(A[i, k + np.uint64(2)], b, q2)
            if size > 3:
                q3 = axpy(A[i, k + np.uint64(3)], b, q3)
            if size > 4:
                q4 = axpy(A[i, k + np.uint64(4)], b, q4)
            if size > 5:
                q5 = axpy(A[i, k + np.uint64(5)], b, q5)
            if size > 6:
                q6 = axpy(A[i, k + np.uint64(6)], b, q6)
            if size > 7:
                q7 = axpy(A[i, k + np.uint64(7)], b, q7)
        store_first(Q, top, rank, q0)
        if size > 1:
            store_first(Q, top + np.uint64(1), rank, q1)
        if size > 2:
            store_first(Q, top + np.uint64(2), rank, q2)
        if size > 3:
            store_first(Q, top + np.uint64(3), rank, q3)
        if size > 4:
            store_first(Q, top + np.uint64(4), rank, q4)
        if size > 5:
            store_first(Q, top + np.uint64(5), rank, q5)
        if size > 6:
            store_first(Q, top + np.uint64(6), rank, q6)
        if size > 7:
            store_first(Q, top + np.uint64(7), rank, q7)

    return called(add, rank, size, width)


def product(rank: int, lower: bool) -> Any:
    """Function that adds AᵀB, of the rows of both from `first` to `last`, to the r rows of Q from `top` on.

    Where `lower`, of the upper triangle as much as is no more work: eight rows end where the last of them
    meets it.
    """
    before, step = None, 8 if lower else rank
    for start in range(0, rank, step):
        end = min(start + step, rank)
        width = end if lower else rank
        before = _rows(rank, start, end, width, min(8, held(width)), before)
    return before


@functools.cache
def _rows(rank: int, start: int, end: int, width: int, most: int, before: Any) -> Any:
    """The same for the rows of AᵀB from `start` to `end`, `most` at a time, after those `before`."""
    parts = -(-(end - start) // most)
    size = -(-(end - start) // parts)
    rest = end - start - size * (parts - 1)
    several, remaining = _columns(rank, size, width), _columns(rank, rest, width)
    begin, stop, step = np.uint64(start), np.uint64(end - rest), np.uint64(size)

    def add(A, B, first, last, Q, top):  # type: ignore[no-untyped-def]
        if before is not None:
            before(A, B, first, last, Q, top)
        for k in range(begin, stop, step):
            several(A, B, k, first, last, Q, top + k)
        remaining(A, B, stop, first, last, Q, top + stop)

    return called(add, rank, start, end, width, most)


@functools.cache
def grams(rank: int) -> Any:
    """Kernel for AᵀB of pairs of `arrays`, by chunk: pair p of chunk c is r rows of `sums` from (c m + p) r.

    Of a pair whose third number is not 0, its diagonal alone. By tiles of rows, which stay in the cache for
    all pairs.
    """
    tile = np.uint64(min(256, max(16, 2048 // rank)))
    whole, lower = product(rank, False), product(rank, True)

    def kernel(progress, bounds, arrays, pairs, sums):  # type: ignore[no-untyped-def]
        r, m = np.uint64(rank), np.uint64(pairs.shape[0])
        diagonal = np.empty((ONE, r), sums.dtype)
        for c in chunks(progress, bounds.size - 1):
            for first in range(bounds[c], bounds[c + 1], tile):
                last = min(first + tile, bounds[c + 1])
                for p in range(m):
                    A, B = arrays[pairs[p, 0]], arrays[pairs[p, 1]]
                    top = (np.uint64(c) * m + p) * r
                    if pairs[p, 2]:
                        q = zero(load(A, first, rank))
                        for i in range(first, last):
                            q = multiply_add(load(A, i, rank), load(B, i, rank), q)
                        store(diagonal, np.uint64(0), q)
                        for k in range(r):
                            sums[top + k, k] += diagonal[0, k]
                        continue
                    if pairs[p, 0] == pairs[p, 1]:
                        lower(A, B, first, last, sums, top)
                    else:
                        whole(A, B, first, last, sums, top)
            for p in range(m):
                top = (np.uint64(c) * m + p) * r
                for k in range(r if pairs[p, 0] == pairs[p, 1] else np.uint64(0)):
                    for n in range(k):  # the upper triangle is that below
                        sums[top + n, k] = sums[top + k, n]

    return compiled(kernel)


@functools.cache
def sums(rank: int) -> Any:
    """Kernel for Σ A_k S_k over the first arrays, with the S_k one below the other in `small`.

    Where `plain[k]`, S_k is the number at its upper left times the identity. Four rows at a time, so that a
    row of S_k is read once for four.
    """

    def kernel(progress, bounds, arrays, plain, small, out):  # type: ignore[no-untyped-def]
        r = np.uint64(rank)
        for c in chunks(progress, bounds.size - 1):
            end = bounds[c + 1]
            for first in range(bounds[c], end, _FOUR):
                i0, i1 = first, min(first + ONE, end - ONE)
                i2, i3 = min(first + np.uint64(2), end - ONE), min(first + np.uint64(3), end - ONE)
                y0 = zero(load(small, np.uint64(0), rank))
                y1, y2, y3 = y0, y0, y0
                for k in range(plain.size):
                    A, top = arrays[k], np.uint64(k) * r
                    if plain[k]:
                        s = small[top, 0]
                        y0, y1 = axpy(s, load(A, i0, rank), y0), axpy(s, load(A, i1, rank), y1)
                        y2, y3 = axpy(s, load(A, i2, rank), y2), axpy(s, load(A, i3, rank), y3)
                    else:
                        for n in range(r):
                            row = load(small, top + n, rank)
                            y0, y1 = axpy(A[i0, n], row, y0), axpy(A[i1, n], row, y1)
                            y2, y3 = axpy(A[i2, n], row, y2), axpy(A[i3, n], row, y3)
                store(out, i3, y3)
                store(out, i2, y2)
                store(out, i1, y1)
                store(out, i0, y0)

    return compiled(kernel)
