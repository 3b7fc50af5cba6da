"""Entries sorted by lines: the form in which kernels pass over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.given_arrays import frozen
from rankfold.entries.store import NewValues

# Chunks are what threads share out. They depend on the data alone, so that no result depends on the threads.
MAX_CHUNKS, CHUNK_ENTRIES = 128, 2048
# A stripe is at least so many lines of the other side, and leaves each line of its own so many entries.
# Narrow stripes let a core gather from its own cache, where lines have entries enough (32000², 400 per line,
# rank 50: half the time; two arrays of 1024 lines take 0.8 megabytes then: derivatives of 10000² take 0.9 of
# the time with 2048 on a Xeon, 0.97 of that with 1280 on a Zen 5, whose cores have one megabyte, and
# evaluations at ranks 5 to 50 as long), wide ones from the shared one (10⁸ entries of 2·10⁶ rows, rank 10:
# half as well); those between have columns that 16 bits can tell apart. With fewer entries per line a stripe
# costs more than it saves. P2, 80 per line: on a Xeon 3 stripes take as long as none, and 6 a fifth longer;
# on a Zen 5 2 take 1.13 of the time of none, 3 1.16, and at rank 50 none of these gains 2%. 120 per line of
# 83,333, rank 10: 2 take 0.95 of the time of 5; rank 50: 1.15. Narrower ones save nothing, wider ones lose in
# a derivative.
STRIPES = (1 << 10, 40), (1 << 15, 20), (1 << 17, 8)
# Columns of a stripe that 16 bits can tell apart: passes take as long as with 32, the entries less memory.
NARROW = 1 << 16


@dataclass(frozen=True, eq=False)
class SortedEntries:
    """Entries sorted by row and, within a row, by column (or the other way round).

    Row i has the entries p from `indptr[i]` to `indptr[i + 1]`, at columns `indices[p]`, with `data[p]` the
    value, or value and weight. `bounds` cuts the rows into chunks of about as many entries each.

    Where columns are many they are cut into stripes, and entries are sorted by stripe first: then `indptr`
    has all rows once per stripe. Kernels take stripe after stripe.

    What is held of the columns, and kernels get, is `across`: in 16 bits where stripes are narrow enough, and
    then counted from the first column of the stripe, which is a multiple of `step`.

    Kernels look at no index: that all of them are below `length`, the number of columns, and that all places
    are in the arrays is checked here, once, and the arrays can never be written to again.
    """

    indptr: NDArray[np.uint64]
    across: NDArray[np.unsignedinteger[Any]]
    data: NDArray[Any]
    bounds: NDArray[np.uint64]
    length: int

    def __post_init__(self) -> None:
        for name in ("indptr", "across", "data", "bounds"):
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
            self.across.dtype.kind,
            self.data.dtype.kind,
        )
        if types != (np.uint64, np.uint64, "u", "f"):
            return f"indptr, bounds, across and data have the types {', '.join(map(str, types))}"
        if (
            self.bounds.ndim != 1
            or not self.bounds.size
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
        if self.across.shape != self.data.shape[:1]:
            return f"there are {self.across.shape} indices for {len(self.data)} data"
        if self.size and self._last_column() >= self.length:
            return f"an index is {self._last_column()}, and there are {self.length} columns"
        return ""

    def _last_column(self) -> int:
        """The largest column of any entry."""
        owns = ((s, self.across[self._own(s)]) for s in range(self.stripes))
        return max(s * int(self.step) + int(own.max()) for s, own in owns if own.size)

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.across.size

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

    @property
    def step(self) -> np.uint64:
        """How many columns a stripe has, where `across` counts from the first of each; else 0."""
        return np.uint64(-(-self.length // self.stripes) if self.across.dtype == np.uint16 else 0)

    @property
    def passed(self) -> tuple[Any, ...]:
        """(bounds, indptr, across, step, data), as kernels get them: data flat."""
        return self.bounds, self.indptr, self.across, self.step, self.data.reshape(-1)

    def stripe(self, s: int) -> tuple[Any, ...]:
        """(bounds, indptr, across, data) of stripe s, data flat."""
        indptr = self.indptr[s * self.lines : (s + 1) * self.lines + 1]
        return self.bounds, indptr, self.across, self.data.reshape(-1)

    def _own(self, s: int) -> slice:
        """Which entries are in stripe s."""
        return slice(int(self.indptr[s * self.lines]), int(self.indptr[(s + 1) * self.lines]))

    @property
    def indices(self) -> NDArray[np.unsignedinteger[Any]]:
        """Column of each entry, in 32 bits or more: a copy, where fewer are held."""
        if self.across.dtype != np.uint16:
            return self.across
        indices = self.across.astype(self._index)
        for s in range(1, self.stripes):
            own = self._own(s)
            indices[own] = self.across[own] + np.uint64(s) * self.step
        indices.flags.writeable = False  # as those that are held: to write here would change nothing
        return indices

    def columns(self, places: slice | NDArray[np.int64]) -> NDArray[np.unsignedinteger[Any]]:
        """Columns of some entries, from one place to another or in any order: `indices[places]`."""
        found = self.across[places]
        if found.dtype != np.uint16:
            return found
        stripes = np.searchsorted(self.indptr[self.lines :: self.lines], np.r_[places], side="right")
        return (found + stripes.astype(np.uint64) * self.step).astype(self._index)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of entries of each row."""
        return np.asarray(self._lengths.reshape(self.stripes, -1).sum(axis=0))

    @property
    def keys(self) -> NDArray[np.unsignedinteger[Any]]:
        """Row of each entry."""
        rows = np.tile(np.arange(self.lines, dtype=self._index), self.stripes)
        return np.repeat(rows, self._lengths)

    @property
    def _index(self) -> np.dtype[np.unsignedinteger[Any]]:
        return np.dtype(index_type((self.lines, self.length)))

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
        """Return (indptr, indices) without stripes: shared with these, where they are held so."""
        if self.stripes == 1:
            return self.indptr.view(np.int64), self.indices
        indptr, own = np.concatenate([[0], np.cumsum(self.counts)]), self.indices
        places, indices = indptr[:-1].copy(), np.empty_like(own)
        for s in range(self.stripes):
            starts = self.stripe(s)[1].view(np.int64)
            for first, last in pairwise(self.bounds.tolist()):  # a chunk at a time, for memory's sake
                part, free = starts[first : last + 1], places[first:last]
                lengths = part[1:] - part[:-1]
                entries = np.arange(part[0], part[-1])
                indices[entries + np.repeat(free - part[:-1], lengths)] = own[entries]
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
            bounds, indptr, _, _ = self.stripe(s)
            for first, last in pairwise(bounds.tolist()):  # a chunk at a time, for memory's sake
                starts = indptr[first : last + 1].view(np.int64)
                entries = slice(int(starts[0]), int(starts[-1]))
                lines = np.repeat(np.arange(first, last), starts[1:] - starts[:-1])
                data[entries, 0] = values(lines, self.columns(entries), data[entries, 0])


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
    kernels.pool.run(kernel, chunks, work, *((*side.passed, *arguments) for side, arguments in passes))
