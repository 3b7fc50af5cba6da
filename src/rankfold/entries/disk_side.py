"""Entries sorted by lines in mapped files: kernels get them part by part, each read while the last is used.

A part is copied into memory, and checked there before a kernel sees it: what another program does to the
files meanwhile may make a run wrong, but leads no kernel out of its arrays.
"""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels
from rankfold.entries.sorted_entries import Part, SortedEntries, even_cuts
from rankfold.entries.store import NewValues
from rankfold.remembered import remembered

PART = 1 << 21  # entries of a part, about: 24 MB of float64, of which three are held at a time
CHUNKS = 16  # of a part, that threads share out
_AHEAD = 2  # parts that are read before they are asked for


class Mapped:
    """Numbers in a file: all of them as an array that is mapped, and parts of them read into memory.

    A part is read by a call of its own, and not through the map: the system would read some megabytes around
    each page that is missing there, where parts of many stripes want some kilobytes here and there.
    """

    def __init__(self, file: BinaryIO, dtype: DTypeLike, columns: int = 0, write: bool = False) -> None:
        access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        array = np.frombuffer(mmap.mmap(file.fileno(), 0, access=access), dtype)
        self.array: NDArray[Any] = array.reshape(-1, columns) if columns else array
        self._size = self.array.itemsize * max(columns, 1)
        self._handle = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._handle)
        self._advise("POSIX_FADV_RANDOM", 0, 0)

    @classmethod
    def scratch(cls, folder: Path, dtype: DTypeLike, count: int, columns: int = 0) -> Mapped:
        """Map a new file that has no name, and goes when nobody uses it any more."""
        with tempfile.TemporaryFile(dir=folder) as file:
            reserve(file, np.dtype(dtype).itemsize * count * max(columns, 1), folder)
            return cls(file, dtype, columns, write=True)

    def ask(self, first: int, last: int) -> None:
        """Have the records `first` to `last` read soon, by the system, while we do something else."""
        self._advise("POSIX_FADV_WILLNEED", first, last)

    def read(self, first: int, out: NDArray[Any]) -> None:
        """Fill `out` with the records from `first` on."""
        if not hasattr(os, "preadv"):
            out[:] = self.array[first : first + len(out)]
            return
        room, at = out.data.cast("B"), first * self._size
        while len(room):
            count = os.preadv(self._handle, [room], at)
            if not count:
                raise OSError("a file of sorted entries became shorter while it was read: sort again")
            room, at = room[count:], at + count

    def _advise(self, advice: str, first: int, last: int) -> None:
        if hasattr(os, "posix_fadvise"):
            place = first * self._size, (last - first) * self._size
            os.posix_fadvise(self._handle, *place, getattr(os, advice))


def reserve(file: BinaryIO, size: int, name: Path) -> None:
    """Make room for a file on disk: a full disk is an error here, and no signal when its map is written."""
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"no room on this disk for {size / 1e9:.3g} GB more: free some, or choose another",
            str(name),
        ) from error


class _Rooms:
    """Arrays of so many records of a file, in memory that is used again once nobody has them any more.

    The system takes seven times as long for pages that are new as for a copy from its cache into old ones.
    """

    def __init__(self, like: NDArray[Any], most: int) -> None:
        self._row, self._dtype = like.shape[1:], like.dtype
        self._size = max(most, 1) * prod(self._row) * like.itemsize
        self._free: list[mmap.mmap] = []

    def array(self, count: int) -> NDArray[Any]:
        """Return an array that nobody else has, of numbers that mean nothing yet."""
        # a map of its own goes back to the system at once when it is freed; allocators keep some
        room = self._free.pop() if self._free else mmap.mmap(-1, self._size)
        array = np.frombuffer(room, self._dtype, count * prod(self._row))
        weakref.finalize(array, self._free.append, room).atexit = False
        return array.reshape(count, *self._row)


@dataclass(frozen=True, eq=False)
class DiskSide(SortedEntries):
    """Entries in files. `folder` is where files without names go that what is derived from them needs."""

    files: tuple[Mapped, Mapped]  # of indices and data
    folder: Path
    part: int = PART  # entries of a part, about

    @remembered
    def ends(self) -> NDArray[np.int64]:
        """Number of entries before each line, in all stripes, and at last of all."""
        starts = self.indptr[:-1].reshape(self.stripes, self.lines).sum(axis=0)
        ends = np.append(starts, self.indptr[self.lines :: self.lines].sum()) - starts[0]
        return np.asarray(ends.view(np.int64))

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of entries of each row."""
        return np.diff(self.ends)

    @remembered
    def cuts(self) -> list[int]:
        """Where parts begin and end, in lines."""
        inner = np.searchsorted(self.ends, np.arange(self.part, self.indices.size, self.part))
        return [int(cut) for cut in np.unique(np.concatenate([[0], inner, [self.lines]]))]

    def parts(self) -> Iterator[Part]:
        """Yield the entries in parts; others are read meanwhile."""
        pairs = list(pairwise(self.cuts))
        if len(pairs) == 1:
            yield from super().parts()
            return
        rooms = self._rooms(int(np.diff(self.ends[self.cuts]).max()))
        with ThreadPoolExecutor(_AHEAD, "rankfold_reader") as reader:
            coming = deque(reader.submit(self._read, pairs, k, rooms) for k in range(min(_AHEAD, len(pairs))))
            for k in range(len(pairs)):
                part = coming.popleft().result()
                if k + _AHEAD < len(pairs):
                    coming.append(reader.submit(self._read, pairs, k + _AHEAD, rooms))
                yield part
                del part

    def _rooms(self, most: int) -> list[_Rooms]:
        return [_Rooms(file.array, most) for file in self.files]

    def _read(self, pairs: list[tuple[int, int]], k: int, rooms: list[_Rooms]) -> Part:
        """Copy part k into memory, after asking for the one behind it."""
        if k + 1 < len(pairs):
            self._ask(self._segments(*pairs[k + 1]))
        first, last = pairs[k]
        segments = self._segments(first, last)
        pointers = [np.zeros(1, np.uint64)]
        for s, (start, _) in enumerate(segments):
            own = self.indptr[s * self.lines + first + 1 : s * self.lines + last + 1]
            pointers.append(own - np.uint64(start) + pointers[-1][-1])
        indptr = np.concatenate(pointers)
        indices, data = self._copied(segments, rooms)
        bounds = even_cuts(indptr, last - first, min(CHUNKS, last - first))
        return Part(slice(first, last), SortedEntries(indptr, indices, data, bounds, self.length))

    def _segments(self, first: int, last: int) -> list[tuple[int, int]]:
        """Where the entries of some lines are, stripe by stripe."""
        count, lines = self.stripes, self.lines
        starts, stops = (self.indptr[line::lines][:count].tolist() for line in (first, last))
        return list(zip(starts, stops, strict=True))

    def _ask(self, segments: list[tuple[int, int]]) -> None:
        for file in self.files:
            for start, stop in segments:
                if start < stop:  # a length of 0 would mean all
                    file.ask(start, stop)

    def _copied(
        self, segments: list[tuple[int, int]], rooms: list[_Rooms]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return indices and data of segments, one after the other, in memory."""
        copies, total = [], sum(stop - start for start, stop in segments)
        for file, room in zip(self.files, rooms, strict=True):
            copy, at = room.array(total), 0
            for start, stop in segments:
                if start < stop:
                    file.read(start, copy[at : at + stop - start])
                at += stop - start
            copies.append(copy)
        return copies[0], copies[1]

    def sampled(self, every: int) -> Iterator[tuple[int, slice, NDArray[np.int64], SortedEntries]]:
        """Yield the sample of `kernels.polynomial`, some chunks at a time: stripe, chunks, lines, entries."""
        rows = np.arange(self.lines)
        rows = rows[(rows >> int(kernels.polynomial.RUN)) % every == 0]
        edges = np.searchsorted(rows, self.bounds.astype(np.int64))  # of the chunks, among these rows
        for s in range(self.stripes):
            pointers = self.indptr[s * self.lines : (s + 1) * self.lines + 1].astype(np.int64)
            before = np.append(0, np.cumsum(pointers[rows + 1] - pointers[rows]))
            inner = np.searchsorted(before[edges[1:]], np.arange(self.part, before[-1], self.part))
            for a, b in pairwise(np.unique(np.concatenate([[0], inner, [edges.size - 1]])).tolist()):
                lines = rows[edges[a] : edges[b]]
                runs = np.flatnonzero(np.diff(lines, prepend=-2, append=self.lines + 1) > 1)
                starts, ends = pointers[lines[runs[:-1]]], pointers[lines[runs[1:] - 1] + 1]
                segments = list(zip(starts.tolist(), ends.tolist(), strict=True))
                self._ask(segments)
                indices, data = self._copied(segments, self._rooms(int(before[edges[b]] - before[edges[a]])))
                indptr = (before[edges[a] : edges[b] + 1] - before[edges[a]]).astype(np.uint64)
                cuts = (edges[a : b + 1] - edges[a]).astype(np.uint64)
                yield s, slice(a, b), lines, SortedEntries(indptr, indices, data, cuts, self.length)

    def with_values(self, values: NewValues) -> DiskSide:
        """Return the same entries with other values, in a file without a name."""
        file = self._like(self.files[1], self.data.dtype)
        self._revalue(file.array, values)
        return replace(self, data=file.array, files=(self.files[0], file))

    def astype(self, dtype: DTypeLike) -> DiskSide:
        """Return the same entries with data of another type, in a file without a name if it is another."""
        if self.data.dtype == dtype:
            return self
        file = self._like(self.files[1], dtype)
        return replace(self, data=file.array, files=(self.files[0], file))

    def _like(self, old: Mapped, dtype: DTypeLike) -> Mapped:
        """A file with the same numbers."""
        new = Mapped.scratch(self.folder, dtype, *old.array.shape)
        for first in range(0, len(old.array), PART):
            new.array[first : first + PART] = old.array[first : first + PART]
        return new

    def plain(self) -> DiskSide:
        """Return the same entries without stripes, in files without names if there are any."""
        if self.stripes == 1:
            return self
        indptr = self.ends.view(np.uint64)
        files = self._unstriped(self.files[0]), self._unstriped(self.files[1])
        return replace(self, indptr=indptr, across=files[0].array, data=files[1].array, files=files)

    def pattern(self) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Positions without stripes."""
        indices = self.indices if self.stripes == 1 else self._unstriped(self.files[0]).array
        return self.ends, indices

    def _unstriped(self, old: Mapped) -> Mapped:
        """The numbers of one file, line after line."""
        new = Mapped.scratch(self.folder, old.array.dtype, *old.array.shape)
        for first, last in pairwise(self.cuts):
            free = self.ends[first:last] - self.ends[first]
            block = np.empty((int(self.ends[last] - self.ends[first]), *old.array.shape[1:]), old.array.dtype)
            for s, (start, stop) in enumerate(self._segments(first, last)):
                pointers = self.indptr[s * self.lines + first : s * self.lines + last + 1].astype(np.int64)
                sizes = np.diff(pointers)
                places = np.repeat(free - pointers[:-1] + start, sizes) + np.arange(stop - start)
                block[places] = old.array[start:stop]
                free = free + sizes
            new.array[self.ends[first] : self.ends[last]] = block
        return new
