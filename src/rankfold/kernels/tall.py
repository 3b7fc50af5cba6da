"""Two passes over tall arrays: the Grams of pairs of them, and sums of tall arrays times small matrices.

Both take chunks of rows that depend on the shape alone, and sums of chunks are added up in order: the bits
are the same for any number of threads. BLAS is made for other shapes: it takes three times as long for a Gram
of a 32000 × 5 array, on one thread.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

from rankfold.kernels.chunks import chunks
from rankfold.kernels.compiling import called, compiled
from rankfold.kernels.layout import ONE
from rankfold.kernels.products import AHEAD, MOST, WIDE, at_once, borrowed, lent, product, together
from rankfold.kernels.products import ARRAYS as ARRAYS
from rankfold.kernels.registers import axpy, load, load_first, multiply_add, prefetch, store, zero

MOST_CHUNKS, _FEWEST_ROWS = 64, 512
_FOUR, _WIDE = np.uint64(4), np.uint64(WIDE)
# Numbers between asking for a row and adding it: of several arrays at once a processor does not ask by itself
# (rank 10: sums take 0.9 of the time at 10⁷ entries, 0.66 at 10⁸; half as far or four times, more).
_SOON = np.uint64(256)


@functools.lru_cache(maxsize=64)
def cuts(rows: int, rank: int) -> Any:
    """Bounds of chunks of rows: few enough for the r×r sums of all of them to be small beside the arrays."""
    count = min(MOST_CHUNKS, max(1, rows // max(_FEWEST_ROWS, 32 * rank)))
    return np.linspace(0, rows, count + 1).astype(np.uint64)


@functools.lru_cache(maxsize=64)
def in_groups(rank: int, places: tuple[tuple[int, int], ...], flat: tuple[bool, ...]) -> tuple[Any, Any]:
    """What `grams` is told of pairs (A, B): the numbers of A and B, whether diagonals are enough, and a size.

    Those with the same B that are made together follow each other: the first has the size of their group,
    others 0. And where among them each of the pairs is.
    """
    order = list(range(len(places)))
    if at_once(rank) > 1:
        order.sort(key=lambda k: (flat[k], places[k][1]))
    told = []
    for _, group in itertools.groupby(order, lambda k: (flat[k], places[k][1])):
        members = list(group)
        while members:
            size = next(n for n in _sizes(rank) if n <= len(members))
            told += [(*places[k], flat[k], size * (k == members[0])) for k in members[:size]]
            members = members[size:]
    return np.array(told, np.uint64), np.argsort(order)


def _sizes(rank: int) -> list[int]:
    """How many products are made together: as many as may be, or one. Each compiles a third of a second."""
    return [max(1, min(MOST, at_once(rank))), 1]


@functools.cache
def width(rank: int) -> int:
    """How many numbers `grams` keeps for each row of a product: those beyond the rank are zero."""
    return WIDE if at_once(rank) else rank


@functools.cache
def grams(rank: int) -> Any:
    """Kernel for AᵀB of pairs of `arrays`, as `in_groups` tells them, by chunk.

    Pair p of chunk c is r rows of `sums` from (c m + p) r. By tiles of rows, which stay in the cache for all
    pairs; where they are shorter, memory is not asked early enough for the next.
    """
    tile = np.uint64(min(1024, max(16, 16384 // rank)))
    several = _rows_at_once(rank)
    diagonal, add = _diagonal(rank), _group(rank) if at_once(rank) else _pair(rank)

    def kernel(progress, bounds, arrays_, pairs_, sums_):  # type: ignore[no-untyped-def]
        r, m = np.uint64(rank), np.uint64(pairs_.shape[0])
        products = np.empty((m, several * rank), sums_.dtype)
        arrays, pairs, sums = borrowed(arrays_), borrowed(pairs_), borrowed(sums_)
        for c in chunks(progress, bounds.size - 1):
            products[:] = 0.0
            for first in range(bounds[c], bounds[c + 1], tile):
                last = min(first + tile, bounds[c + 1])
                for p in range(m):
                    if pairs[p, 2]:
                        diagonal(arrays, pairs, p, first, last, products)
                    else:
                        add(arrays, pairs, p, first, last, sums, (np.uint64(c) * m + p) * r)
            for p in range(m):
                top = (np.uint64(c) * m + p) * r
                for k in range(r):
                    if pairs[p, 2]:
                        for n in range(several):
                            sums[top + k, k] += products[p, n * r + k]
                    elif pairs[p, 0] == pairs[p, 1]:
                        for n in range(k):  # the upper triangle is that below
                            sums[top + n, k] = sums[top + k, n]

    return compiled(kernel)


def _diagonal(rank: int) -> Any:
    """Function that adds products of rows of A and B, of pair p, number by number: several rows as one."""
    several = np.uint64(_rows_at_once(rank))
    length = int(several) * rank

    def add(arrays, pairs, p, first, last, products):  # type: ignore[no-untyped-def]
        A, B = lent(arrays, pairs[p, 0]), lent(arrays, pairs[p, 1])
        end, q = first + (last - first) // several * several, load(products, p, length)
        for i in range(first, end, several):
            q = multiply_add(load_first(A, i, rank, length), load_first(B, i, rank, length), q)
        store(products, p, q)
        for i in range(end, last):
            for k in range(np.uint64(rank)):
                products[p, k] += A[i, k] * B[i, k]

    return called(add, rank)


def _rows_at_once(rank: int) -> int:
    """How many rows are added to a diagonal at a time, a power of two: those that eight vectors hold."""
    return 1 << max(1, 8 * WIDE // rank).bit_length() - 1


def _pair(rank: int) -> Any:
    """Function that adds AᵀB, of pair p, over some rows."""
    whole, lower = (product(rank, each, AHEAD // rank) for each in (False, True))

    def add(arrays, pairs, p, first, last, sums, top):  # type: ignore[no-untyped-def]
        A, B = lent(arrays, pairs[p, 0]), lent(arrays, pairs[p, 1])
        if pairs[p, 0] == pairs[p, 1]:
            lower(A, B, first, last, sums, top)
        else:
            whole(A, B, first, last, sums, top)

    return called(add, rank)


def _group(rank: int) -> Any:
    """Function that adds AᵀB, over some rows, of the group that begins with pair p, if one does."""
    several, one = (together(rank, n) for n in _sizes(rank))

    def add(arrays, pairs, p, first, last, sums, top):  # type: ignore[no-untyped-def]
        size = pairs[p, 3]
        if size == 1:
            one(arrays, pairs, p, first, last, sums, top)
        elif size:
            several(arrays, pairs, p, first, last, sums, top)

    return called(add, rank)


@functools.cache
def sums(rank: int) -> Any:
    """Kernel for Σ A_k S_k over the first arrays, with the S_k one below the other in `small`.

    Where `plain[k]`, S_k is the number at its upper left times the identity. Four rows at a time, so that a
    row of S_k is read once for four.
    """
    lines = np.uint64(-(-4 * rank // WIDE))  # of the cache, for four rows

    def kernel(progress, bounds, arrays, plain, small, out):  # type: ignore[no-untyped-def]
        r = np.uint64(rank)
        for c in chunks(progress, bounds.size - 1):
            end = bounds[c + 1]
            for first in range(bounds[c], end, _FOUR):
                i0, i1 = first, min(first + ONE, end - ONE)
                i2, i3 = min(first + np.uint64(2), end - ONE), min(first + np.uint64(3), end - ONE)
                soon = first * r + _SOON
                for line in range(lines):
                    prefetch(out, soon + line * _WIDE, 1)
                y0 = zero(load(small, np.uint64(0), rank))
                y1, y2, y3 = y0, y0, y0
                for k in range(plain.size):
                    A, top = arrays[k], np.uint64(k) * r
                    for line in range(lines):
                        prefetch(A, soon + line * _WIDE, 1)
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
