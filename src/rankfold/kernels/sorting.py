"""Putting triples in order: a stable counting sort of one part after the other, each friendly to the cache.

The entries of a part are split into at most `BUCKETS` ranges of keys, and then each range goes to where its
keys are to be: so neither writes to many places at a time. All keys are counted beforehand.

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

BUCKETS = 256
PIECES = 16  # of a part, each split by one thread
# Entries of a part: so few that they are in cache when they are read again (P2 in a half of the time), but
# several of most keys, and a quarter of all at most, for memory's sake.
FEWEST, OF_A_KEY, PARTS = 1 << 18, 8, 4
BLOCK = 1 << 16  # keys to look at at a time

UInts = NDArray[np.unsignedinteger[Any]]


@compiled
def _count(progress, edges, keys, shift, counts):  # type: ignore[no-untyped-def]
    for c in chunks(progress, edges.size - 1):
        for p in range(edges[c], edges[c + 1]):
            counts[c, np.uint64(keys[p]) >> shift] += 1


@compiled
def _split(progress, edges, keys, others, data, shift, heads, keys_out, others_out, data_out):  # type: ignore[no-untyped-def]
    for c in chunks(progress, edges.size - 1):
        head = heads[c]
        for p in range(edges[c], edges[c + 1]):
            bucket = np.uint64(keys[p]) >> shift
            q = head[bucket]
            head[bucket] = q + np.uint64(1)
            keys_out[q] = keys[p]
            others_out[q] = others[p]
            data_out[q] = data[p]


@compiled
def _append(progress, starts, keys, others, data, ends, others_out, data_out):  # type: ignore[no-untyped-def]
    for b in chunks(progress, starts.size - 1):
        for p in range(starts[b], starts[b + 1]):
            key = np.uint64(keys[p])
            q = ends[key]
            ends[key] = q + np.uint64(1)
            others_out[q] = others[p]
            data_out[q] = data[p]


def sort(keys: Any, others: Any, data: Any, size: int, index: Any) -> tuple[NDArray[np.uint64], Any, Any]:
    """Order entries by key, 0 <= key < size, keeping the order of equal keys.

    Return `indptr` (where each key starts), and `others` (as integers of type `index`) and `data`, ordered:
    themselves, where they are in order already.
    """
    if in_order(keys):  # as they come out of sparse matrices, and of sorted files
        return _starts(keys, size), others.astype(index, copy=False), data
    out = np.zeros(size + 1, np.uint64), np.empty(keys.size, index), np.empty(keys.size, data.dtype)
    sort_into(*out, keys, others, data)
    return out


def sort_into(
    indptr: NDArray[np.uint64], others_out: Any, data_out: Any, keys: Any, others: Any, data: Any
) -> None:
    """Order entries by key, and write them, and where each key ends, to `indptr[1:]`."""
    keys, others, data = (_read_only(array) for array in (keys, others, data))
    ends, n, index = indptr[1:], keys.size, others_out.dtype  # each key ends where it starts, at first
    if not n:
        ends[:] = 0
        return
    each = _counts(keys, np.uint64(0), ends.size, max(1, min(PIECES, n // ends.size))).sum(axis=0)
    np.subtract(np.cumsum(each), each, out=ends)
    shift = np.uint64(max(0, int(ends.size - 1).bit_length() - BUCKETS.bit_length() + 1))
    part = max(FEWEST, min(OF_A_KEY * ends.size, -(-n // PARTS)))
    room = min(n, part)
    split = np.empty(room, index), np.empty(room, index), np.empty(room, data.dtype)
    for first in range(0, n, part):
        own = keys[first : first + part], others[first : first + part], data[first : first + part]
        counts = _counts(own[0], shift, ((ends.size - 1) >> int(shift)) + 1, PIECES)
        after = np.cumsum(counts.T.ravel(), dtype=np.uint64)
        heads = (after - counts.T.ravel()).reshape(-1, PIECES).T.copy()
        starts = np.append(np.uint64(0), after[PIECES - 1 :: PIECES])
        run(_split, PIECES, own[0].size, (_edges(own[0].size, PIECES), *own, shift, heads, *split))
        run(_append, starts.size - 1, own[0].size, (starts, *split, ends, others_out, data_out))


def _counts(keys: Any, shift: np.uint64, size: int, pieces: int) -> NDArray[np.uint64]:
    """Count, in each piece, the keys of each range of 2^shift."""
    counts = np.zeros((pieces, size), np.uint64)
    run(_count, pieces, keys.size, (_edges(keys.size, pieces), keys, shift, counts))
    return counts


def _edges(n: int, pieces: int) -> NDArray[np.uint64]:
    return np.linspace(0, n, pieces + 1).astype(np.uint64)


def in_order(keys: UInts) -> bool:
    """Whether keys ascend: a block at a time, so that the first few mostly tell those that do not."""
    blocks = (keys[k : k + BLOCK + 1] for k in range(0, keys.size, BLOCK))
    return all(bool(np.all(block[1:] >= block[:-1])) for block in blocks)


def _starts(keys: UInts, size: int) -> NDArray[np.uint64]:
    """Where each key starts, among keys that ascend."""
    firsts = np.append(0, np.flatnonzero(keys[1:] != keys[:-1]) + 1)[: keys.size]
    starts = np.zeros(size + 1, np.uint64)
    starts[keys[firsts].astype(np.int64) + 1] = np.diff(np.append(firsts, keys.size))
    return np.cumsum(starts, out=starts)


@compiled
def _cut(progress, bounds, indptr, indices, width, cuts):  # type: ignore[no-untyped-def]
    for c in chunks(progress, bounds.size - 1):
        for i in range(bounds[c], bounds[c + 1]):
            p = indptr[i]
            for s in range(len(cuts)):
                cuts[s, i] = p
                while p < indptr[i + np.uint64(1)] and indices[p] < np.uint64(s + 1) * width:
                    p += np.uint64(1)


@compiled
def _spread(progress, bounds, indptr, indices, data, cuts, starts, step, indices_out, data_out):  # type: ignore[no-untyped-def]
    for c in chunks(progress, bounds.size - 1):
        for s in range(len(cuts)):
            base = np.uint64(s) * step
            for i in range(bounds[c], bounds[c + 1]):
                end = cuts[s + 1, i] if s + 1 < len(cuts) else indptr[i + np.uint64(1)]
                q = starts[s, i]
                for p in range(cuts[s, i], end):
                    indices_out[q] = np.uint64(indices[p]) - base
                    data_out[q] = data[p]
                    q += np.uint64(1)


def into_stripes(
    bounds: UInts, indptr: UInts, indices: Any, data: Any, stripes: int, width: int, step: int, index: Any
) -> tuple[NDArray[np.uint64], Any, Any]:
    """Cut lines whose indices ascend into stripes of a width, one after the other, and count from `step`s."""
    lines, n = indptr.size - 1, indices.size
    cuts = np.empty((stripes, lines), np.uint64)
    run(_cut, bounds.size - 1, n, (bounds, indptr, indices, np.uint64(width), cuts))
    lengths = np.diff(cuts, axis=0, append=indptr[None, 1:])
    out = np.append(np.uint64(0), np.cumsum(lengths)), np.empty(n, index), np.empty(n, data.dtype)
    starts = out[0][:-1].reshape(cuts.shape)
    run(_spread, bounds.size - 1, n,
        (bounds, indptr, indices, _read_only(data), cuts, starts, np.uint64(step), *out[1:]))  # fmt: skip
    return out


def lines_ascend(indptr: UInts, indices: UInts) -> bool:
    """Whether the indices of each line ascend."""
    falls = np.flatnonzero(indices[1:] < indices[:-1]).astype(np.uint64) + np.uint64(1)
    return falls.size < indptr.size and bool(np.all(indptr[np.searchsorted(indptr, falls)] == falls))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to: for numba a type of its own, so that all callers share one."""
    view = array.view()
    view.setflags(write=False)
    return view


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
