"""Entries sorted by lines: the form in which kernels pass over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels
from rankfold.entries.given_arrays import frozen
from rankfold.entries.store import NewValues

# Chunks are what threads share out. They depend on the data alone, so that no result depends on the threads.
MAX_CHUNKS, CHUNK_ENTRIES = 128, 2048
# A stripe is at least so many lines of the other side, and leaves each line of its own so many entries.
# Narrow stripes let a core gather from its own cache, where lines have entries enough (32000², 400 per line,
# rank 50: half the time), wide ones from the shared one (10⁸ entries of 2·10⁶ rows, rank 10: half as well).
# With fewer entries per line a stripe costs more than it saves (P2, 80 per line: 3 stripes take as long as
# none, and 6 a fifth longer); narrower ones save nothing in an evaluation, wider ones lose in a derivative.
STRIPES = (1 << 11, 20), (1 << 17, 8)


@dataclass(frozen=True, eq=False)
class SortedEntries:
    """Entries sorted by row and, within a row, by column (or the other way round).

    Row i has the entries p from `indptr[i]` to `indptr[i + 1]`, at columns `indices[p]`, with `data[p]` the
    value, or value and weight. `bounds` cuts the rows into chunks of about as many entries each.

    Where columns are many they are cut into stripes, and entries are sorted by stripe first: then `indptr`
    has all rows once per stripe. Kernels take stripe after stripe.

    Kernels look at no index: that all of them are below `length`, the number of columns, and that all places
    are in the arrays is checked here, once, and the arrays can never be written to again.
    """

    indptr: NDArray[np.uint64]
    indices: NDArray[np.unsignedinteger[Any]]
    data: NDArray[Any]
    bounds: NDArray[np.uint64]
    length: int

    def __post_init__(self) -> None:
        for name in ("indptr", "indices", "data", "bounds"):
            object.__setattr__(self, name, frozen(getattr(self, name)))
        if why := self._fault():
            raise ValueError(f"these are no sorted entries: {why}")

    def __reduce__(self) -> tuple[Any, ...]:
        # Copies and pickles are built, and checked, anew: arrays of NumPy come out of a pickle writable.
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    def _fault(self) -> str:
        """Return what would lead a kernel out of the arrays; empty if nothing does."""
        types: tuple[Any, ...] = (
            self.indptr.dtype,
            self.bounds.dtype,
            self.indices.dtype.kind,
            self.data.dtype.kind,
        )
        if types != (np.uint64, np.uint64, "u", "f"):
            return f"indptr, bounds, indices and data have the types {', '.join(map(str, types))}"
        if (
            self.bounds.ndim != 1
            or self.bounds.size < 2
            or self.data.ndim != 2
            or self.data.shape[1] not in (1, 2)
        ):
            return f"bounds and data have the shapes {self.bounds.shape} and {self.data.shape}"
        if not (_ascend(self.bounds, 0, self.lines) and _ascend(self.indptr, 0, len(self.data))):
            return "bounds or indptr do not ascend from 0 to the last"
        if (
            self.lines < 1
            or self.indptr.ndim != 1
            or self.indptr.size < 2
            or (self.indptr.size - 1) % self.lines
        ):
            return f"indptr has the shape {self.indptr.shape} for {self.lines} rows"
        if self.indices.shape != self.data.shape[:1]:
            return f"there are {self.indices.shape} indices for {len(self.data)} data"
        if self.indices.size and self.indices.max() >= self.length:
            return f"an index is {self.indices.max()}, and there are {self.length} columns"
        return ""

    @property
    def lines(self) -> int:
        """Number of rows."""
        return int(self.bounds[-1])

    @property
    def stripes(self) -> int:
        """Number of stripes of the columns."""
        return (self.indptr.size - 1) // self.lines

    @property
    def chunks(self) -> tuple[int, int]:
        """Numbers of stripes and of chunks in each."""
        return self.stripes, self.bounds.size - 1

    def stripe(self, s: int) -> tuple[Any, ...]:
        """(bounds, indptr, indices, data) of stripe s, data flat."""
        indptr = self.indptr[s * self.lines : (s + 1) * self.lines + 1]
        return self.bounds, indptr, self.indices, self.data.reshape(-1)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of entries of each row."""
        return np.asarray(self._lengths.reshape(self.stripes, -1).sum(axis=0))

    @property
    def keys(self) -> NDArray[np.unsignedinteger[Any]]:
        """Row of each entry."""
        rows = np.tile(np.arange(self.lines, dtype=self.indices.dtype), self.stripes)
        return np.repeat(rows, self._lengths)

    @property
    def _lengths(self) -> NDArray[np.int64]:
        return (self.indptr[1:] - self.indptr[:-1]).view(np.int64)

    @property
    def packed(self) -> NDArray[Any]:
        """One number per entry: the value, or value and weight as a complex number."""
        data = self.data
        return data[:, 0] if data.shape[1] == 1 else data.view(np.result_type(data.dtype, np.complex64))[:, 0]

    def parts(self) -> Iterator[Part]:
        """Yield the entries in parts of some lines each: in memory there is one, of all lines."""
        yield Part(slice(0, self.lines), self)

    def pattern(self) -> tuple[NDArray[np.int64], NDArray[np.unsignedinteger[Any]]]:
        """Return (indptr, indices) without stripes: shared with these, where there are none."""
        if self.stripes == 1:
            return self.indptr.view(np.int64), self.indices
        indptr = np.concatenate([[0], np.cumsum(self.counts)])
        places, indices = indptr[:-1].copy(), np.empty_like(self.indices)
        for s in range(self.stripes):
            starts = self.stripe(s)[1].view(np.int64)
            for first, last in pairwise(self.bounds.tolist()):  # a chunk at a time, for memory's sake
                part, free = starts[first : last + 1], places[first:last]
                lengths = part[1:] - part[:-1]
                entries = np.arange(part[0], part[-1])
                indices[entries + np.repeat(free - part[:-1], lengths)] = self.indices[entries]
                free += lengths
        return indptr, indices

    def with_values(self, values: NewValues) -> SortedEntries:
        """Return the same entries with other values: `values(lines, indices, old)`, block by block."""
        data = self.data.copy()
        self._revalue(data, values)
        return replace(self, data=data)

    def _revalue(self, data: NDArray[Any], values: NewValues) -> None:
        """Replace the values in `data`, which are the old ones."""
        for s in range(self.stripes):
            bounds, indptr, indices, _ = self.stripe(s)
            for first, last in pairwise(bounds.tolist()):  # a chunk at a time, for memory's sake
                starts = indptr[first : last + 1].view(np.int64)
                entries = slice(int(starts[0]), int(starts[-1]))
                lines = np.repeat(np.arange(first, last), starts[1:] - starts[:-1])
                data[entries, 0] = values(lines, indices[entries], data[entries, 0])


class Part(NamedTuple):
    """Some lines of a side, and their entries: a side with these lines alone."""

    lines: slice
    side: SortedEntries


def index_type(shape: tuple[int, int]) -> type[np.uint32] | type[np.uint64]:
    """Return the type of the indices of a matrix of this shape."""
    return np.uint32 if max(shape) <= 2**32 else np.uint64


def stripes_that_pay(entries: int, lines: int, length: int) -> int:
    """Return into how many stripes to cut the columns."""
    return max(1, *(min(length // width, entries // (each * lines)) for width, each in STRIPES))


def sorted_entries(
    keys: NDArray[Any],
    others: NDArray[Any],
    packed: NDArray[Any],
    shape: tuple[int, int],
    index: DTypeLike,
    stripes: int,
) -> SortedEntries:
    """Order entries by stripe of `others`, then by key; ties keep their order."""
    lines, length = shape
    if stripes > 1:  # number the lines anew, all of them once per stripe; in one array, for memory's sake
        numbers: NDArray[Any] = others // -(-length // stripes)
        np.multiply(numbers, lines, out=numbers)
        keys = np.add(numbers, keys, out=numbers)
    indptr, indices, packed = kernels.sorting.sort(keys, others, packed, stripes * lines, index)
    real = packed.view(packed.real.dtype).reshape(packed.size, -1)
    return SortedEntries(indptr, indices, real, chunk_bounds(indptr, lines), length)


def chunk_bounds(indptr: NDArray[np.uint64], lines: int) -> NDArray[np.uint64]:
    """Return where chunks begin and end, in lines, in all stripes alike."""
    stripes = (indptr.size - 1) // lines
    return even_cuts(indptr, lines, min(MAX_CHUNKS, 1 + int(indptr[-1]) // stripes // CHUNK_ENTRIES))


def _ascend(numbers: NDArray[np.uint64], first: int, last: int) -> bool:
    """Whether numbers, along each row, go up from the first to the last."""
    inside = numbers[..., 0] == first, numbers[..., -1] == last, numbers[..., 1:] >= numbers[..., :-1]
    return all(bool(np.all(part)) for part in inside)


def even_cuts(indptr: NDArray[np.uint64], lines: int, chunks: int) -> NDArray[np.uint64]:
    """Cut lines into `chunks` of about as many entries each, of all stripes together."""
    starts = (
        indptr[:-1].reshape(-1, lines).sum(axis=0)
    )  # entries before each line, and a number that is the same for all
    ends = np.append(starts, indptr[lines::lines].sum())
    cuts = np.searchsorted(ends, np.linspace(int(ends[0]), int(ends[-1]), chunks + 1)[1:-1])
    return np.array([0, *cuts, lines], dtype=np.uint64)


def sweep(kernel: Callable[..., None], work: float, *passes: tuple[SortedEntries, tuple[Any, ...]]) -> None:
    """Run `kernel` over sides, each with its arguments; `work` is that of all passes, in multiply-adds."""
    chunks = max(side.chunks[1] for side, _ in passes)
    together = (
        (side.bounds, side.indptr, side.indices, side.data.reshape(-1), *arguments)
        for side, arguments in passes
    )
    kernels.pool.run(kernel, chunks, work, *together)
