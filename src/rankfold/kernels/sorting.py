"""Putting triples in order: a stable counting sort in two parallel steps, each friendly to the cache.

Step one splits the entries into at most `BUCKETS` ranges of keys; step two sorts each range by itself, small
enough to stay in cache. Many entries take several rounds of both, each for a part of the ranges: what step
one writes is as large as the entries of one round.

Sorting by row, then by column, then by row again leaves both orders completely sorted, so that nothing
depends on the order in which the triples came (but for ties, which `settle_ties` orders by value).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.kernels.chunks import chunks
from rankfold.kernels.compiling import compiled
from rankfold.kernels.pool import run

BUCKETS = 512
PIECES = 32  # of the input, each split by one thread
ROUNDS, ROUND_ENTRIES = 4, 1 << 18  # at most so many rounds, of at least so many entries

UInts = NDArray[np.unsignedinteger[Any]]


@compiled
def _count(progress, edges, keys, shift, counts):  # type: ignore[no-untyped-def]
    for c in chunks(progress, edges.size - 1):
        for p in range(edges[c], edges[c + 1]):
            counts[c, np.uint64(keys[p]) >> shift] += 1


@compiled
def _split(progress, edges, keys, others, data, shift, heads, buckets, base, keys_out, others_out, data_out):  # type: ignore[no-untyped-def]
    for c in chunks(progress, edges.size - 1):
        head = heads[c]
        for p in range(edges[c], edges[c + 1]):
            bucket = np.uint64(keys[p]) >> shift
            if bucket < buckets[0] or bucket >= buckets[1]:
                continue  # of another round
            q = head[bucket] - base
            head[bucket] += np.uint64(1)
            keys_out[q] = keys[p]
            others_out[q] = others[p]
            data_out[q] = data[p]


@compiled
def _sort_buckets(progress, starts, buckets, keys, others, data, shift, indptr, others_out, data_out):  # type: ignore[no-untyped-def]
    width = 1 << np.int64(shift)
    head = np.empty(width, np.uint64)
    base = starts[buckets[0]]
    for own in chunks(progress, np.int64(buckets[1]) - np.int64(buckets[0])):
        b = own + np.int64(buckets[0])
        first = np.uint64(b) << shift
        size = min(width, indptr.size - 1 - np.int64(first))
        head[:] = 0
        for p in range(starts[b] - base, starts[b + 1] - base):
            head[np.uint64(keys[p]) - first] += np.uint64(1)
        start = starts[b]
        for k in range(size):
            count = head[k]
            head[k] = start
            start += count
            indptr[np.int64(first) + k + 1] = start
        for p in range(starts[b] - base, starts[b + 1] - base):
            key = np.uint64(keys[p]) - first
            q = head[key]
            head[key] = q + np.uint64(1)
            others_out[q] = others[p]
            data_out[q] = data[p]


def sort(keys: Any, others: Any, data: Any, size: int, index: Any) -> tuple[NDArray[np.uint64], Any, Any]:
    """Order entries by key, 0 <= key < size, keeping the order of equal keys.

    Return `indptr` (where each key starts), and `others` (as integers of type `index`) and `data`, ordered:
    themselves, where they are in order already.
    """
    if np.all(keys[1:] >= keys[:-1]):  # as they come out of sparse matrices, and of sorted files
        return _starts(keys, size), others.astype(index, copy=False), data
    keys, others, data = (_read_only(array) for array in (keys, others, data))
    n = keys.size
    shift = np.uint64(max(0, int(size - 1).bit_length() - BUCKETS.bit_length() + 1))
    buckets = ((size - 1) >> int(shift)) + 1
    edges = np.linspace(0, n, PIECES + 1).astype(np.uint64)
    counts = np.zeros((PIECES, buckets), np.uint64)
    run(_count, PIECES, n, (edges, keys, shift, counts))
    ends = np.cumsum(counts.T.ravel(), dtype=np.uint64)
    heads = (ends - counts.T.ravel()).reshape(buckets, PIECES).T.copy()
    starts = np.concatenate([np.zeros(1, np.uint64), ends[PIECES - 1 :: PIECES]])
    indptr = np.zeros(size + 1, np.uint64)
    others_out, data_out = np.empty(n, index), np.empty(n, data.dtype)
    rounds = _rounds(starts)
    room = max(int(starts[end] - starts[first]) for first, end in rounds)
    split = np.empty(room, index), np.empty(room, index), np.empty(room, data.dtype)
    for part in rounds:
        base, end = starts[part]
        run(_split, PIECES, n, (edges, keys, others, data, shift, heads, part, base, *split))
        run(_sort_buckets, int(part[1] - part[0]), int(end - base),
            (starts, part, *split, shift, indptr, others_out, data_out))  # fmt: skip
    return indptr, others_out, data_out


def _starts(keys: UInts, size: int) -> NDArray[np.uint64]:
    """Where each key starts, among keys that ascend."""
    counts = np.bincount(keys.astype(np.int64, copy=False), minlength=size)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64)


def lines_ascend(indptr: UInts, indices: UInts) -> bool:
    """Whether the indices of each line ascend."""
    falls = np.flatnonzero(indices[1:] < indices[:-1]).astype(np.uint64) + np.uint64(1)
    return falls.size < indptr.size and bool(np.all(indptr[np.searchsorted(indptr, falls)] == falls))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to: for numba a type of its own, so that all callers share one."""
    view = array.view()
    view.setflags(write=False)
    return view


def _rounds(starts: NDArray[np.uint64]) -> list[NDArray[np.uint64]]:
    """Return the first and the last bucket (not included) of each round, of about as many entries each."""
    n = int(starts[-1])
    count = max(1, min(ROUNDS, n // ROUND_ENTRIES))
    cuts = np.searchsorted(starts, np.linspace(0, n, count + 1)[1:-1])
    ends = np.unique(np.concatenate([[0], cuts, [starts.size - 1]])).astype(np.uint64)
    return [ends[k : k + 2].copy() for k in range(ends.size - 1)]


@compiled
def _find_ties(progress, bounds, indptr, indices, first):  # type: ignore[no-untyped-def]
    for c in chunks(progress, bounds.size - 1):
        first[c] = -1
        for i in range(bounds[c], bounds[c + 1]):
            for p in range(indptr[i] + np.uint64(1), indptr[i + np.uint64(1)]):
                if indices[p] == indices[p - np.uint64(1)] and first[c] < 0:
                    first[c] = p


def first_tie(bounds: UInts, indptr: UInts, indices: UInts) -> int:
    """Position of the first entry equal to the one before it in its row, or -1."""
    first = np.empty(bounds.size - 1, np.int64)
    run(_find_ties, bounds.size - 1, indices.size, (bounds, indptr, indices, first))
    found = first[first >= 0]
    return int(found[0]) if found.size else -1


def settle_ties(indptr: UInts, indices: UInts, data: NDArray[Any]) -> None:
    """Order the data of repeated entries by value, in place: their order in the input must not matter."""
    repeats = np.append(False, indices[1:] == indices[:-1])  # whether an entry equals the one before it
    starts = indptr[1:-1]
    repeats[starts[starts < indices.size].view(np.int64)] = False  # of another line
    tied = repeats.copy()
    tied[:-1] |= repeats[1:]
    where = np.flatnonzero(tied)
    runs = np.cumsum(~repeats[where])
    order = np.lexsort((*data[where].T[::-1], runs))
    data[where] = data[where[order]]
