"""One order of the entries: they are split into ranges of lines that fit memory, and each range is sorted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels
from rankfold.data.errors import DataFileError
from rankfold.entries.disk_side import reserve
from rankfold.entries.on_disk import files_of
from rankfold.entries.sorted_entries import index_type, stripes_that_pay

BYTES = 5  # of memory while a bucket is sorted, for each byte of its records
MOST = 1 << 12  # buckets: a split writes to the file of each


@dataclass(frozen=True)
class Order:
    """Entries by row (or by column): where their files are, and which lines go to which bucket."""

    folder: Path
    side: str  # "rows" or "columns"
    shape: tuple[int, int]  # lines, and their length
    size: int
    dtype: np.dtype[Any]
    weighted: bool
    cuts: tuple[int, ...]

    @staticmethod
    def planned(
        folder: Path, side: str, shape: tuple[int, int], counts: NDArray[np.int64], dtype: np.dtype[Any],
        weighted: bool, memory: int,
    ) -> Order:  # fmt: skip
        """Cut the lines, each of which has `counts` entries, into buckets that can be sorted in memory."""
        size = int(counts.sum())
        record = BYTES * record_type(shape, dtype, weighted).itemsize
        room = memory // record
        ends, cuts = np.cumsum(counts), [0]
        while cuts[-1] < shape[0]:
            before = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
            cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, before + room, side="right"))))
        least = max(int(counts.max()), -(-size // MOST)) * record
        if least > memory:
            raise ValueError(
                f"memory is {memory:,} bytes, and to sort {size:,} entries by {side[:-1]}, one of which "
                f"has {int(counts.max()):,}, takes {least:,}: give that, or more"
            )
        return Order(folder, side, shape, size, dtype, weighted, tuple(cuts))

    @property
    def stripes(self) -> int:
        """How many stripes there are, as in memory."""
        return stripes_that_pay(self.size, *self.shape)

    @property
    def record(self) -> np.dtype[Any]:
        """An entry in a bucket: line, position in the line, and value or value and weight."""
        return record_type(self.shape, self.dtype, self.weighted)

    def bucket(self, k: int) -> Path:
        """The file of a bucket."""
        return self.folder / f"bucket-{self.side}-{k}"

    def split(self, lines: NDArray[Any], others: NDArray[Any], data: NDArray[Any]) -> NDArray[np.int64]:
        """Append entries to their buckets, and return how many there were of each (stripe, bucket)."""
        cuts, stripes = np.array(self.cuts), self.stripes
        numbers = (np.searchsorted(cuts, lines, side="right") - 1).astype(np.uint16)
        order = np.argsort(numbers, kind="stable")
        records = np.empty(len(lines), self.record)
        records["line"], records["other"], records["data"] = lines[order], others[order], data[order]
        ends = np.searchsorted(numbers[order], np.arange(len(cuts)))
        for k, (first, last) in enumerate(pairwise(ends.tolist())):
            if first < last:
                with self.bucket(k).open("ab") as file:
                    file.write(records[first:last].data)
        of_stripe = np.asarray(others, np.int64) // -(-self.shape[1] // stripes)
        counts = np.bincount(of_stripe * (len(cuts) - 1) + numbers, minlength=stripes * (len(cuts) - 1))
        return counts.reshape(stripes, -1).astype(np.int64)

    def truncate(self, counts: NDArray[np.int64]) -> None:
        """Take back what was appended after the split was last noted; have the rest on disk."""
        for k, count in enumerate(counts.sum(axis=0).tolist()):
            self._check_length(k, count)
            if self.bucket(k).exists():
                with self.bucket(k).open("r+b") as file:
                    file.truncate(count * self.record.itemsize)
                    os.fsync(file.fileno())

    def _check_length(self, k: int, count: int) -> None:
        """Refuse a bucket that has fewer entries than were noted: somebody has cut or removed it."""
        path = self.bucket(k)
        found = path.stat().st_size if path.exists() else 0
        if found < count * self.record.itemsize:
            raise DataFileError(
                f"{path} has {found:,} bytes where {count * self.record.itemsize:,} were written: remove the "
                "folder, and sort again"
            )

    def make_room(self) -> None:
        """Reserve the files of the sorted entries: a full disk is noticed before the work."""
        index, columns = np.dtype(index_type(self.shape)), 1 + self.weighted
        sizes = (
            8 * (self.stripes * self.shape[0] + 1),
            index.itemsize * self.size,
            self.dtype.itemsize * columns * self.size,
        )
        for path, size in zip(files_of(self.folder, self.side), sizes, strict=True):
            with path.open("wb") as file:
                reserve(file, size, path)

    def sort(self, k: int, counts: NDArray[np.int64]) -> Ties:
        """Sort bucket k, put its entries to where they belong, and return those that repeat another one."""
        first, last = self.cuts[k], self.cuts[k + 1]
        self._check_length(k, int(counts[:, k].sum()))
        indptr, indices, packed = self._sorted(k, first, last)
        data = packed.view(self.dtype).reshape(len(packed), -1)
        ties = _ties(indptr, indices, last - first, first)
        if ties.count:
            kernels.sorting.settle_ties(indptr, indices, data)
        starts = np.cumsum(counts).reshape(counts.shape) - counts  # stripe after stripe, bucket after bucket
        places = [path.open("r+b") for path in files_of(self.folder, self.side)]
        try:
            for s in range(self.stripes):
                lines = slice(s * (last - first), (s + 1) * (last - first))
                part = slice(*indptr[[lines.start, lines.stop]].tolist())
                at = int(starts[s, k])
                pointers = indptr[lines.start + 1 : lines.stop + 1] - indptr[lines.start] + np.uint64(at)
                _put(places[0], s * self.shape[0] + first + 1, pointers)
                _put(places[1], at, indices[part])
                _put(places[2], at, data[part])
            for file in places:
                file.flush()
                os.fsync(file.fileno())
        finally:
            for file in places:
                file.close()
        return ties

    def _sorted(self, k: int, first: int, last: int) -> tuple[NDArray[np.uint64], NDArray[Any], NDArray[Any]]:
        """(indptr, indices, packed data) of the lines of a bucket, stripe after stripe."""
        lines, length = last - first, self.shape[1]
        index, stripes = index_type(self.shape), self.stripes
        records = np.fromfile(self.bucket(k), self.record)  # which has some: `planned` cuts no empty ones
        pack = np.result_type(self.dtype, np.complex64) if self.weighted else self.dtype
        packed, others = np.ascontiguousarray(records["data"]).view(pack)[:, 0], records["other"].copy()
        keys: NDArray[Any] = others // -(-length // stripes)
        np.multiply(keys, lines, out=keys)
        keys += records["line"] - index(first)
        del records
        pointers, keys, packed = kernels.sorting.sort(others, keys, packed, length, index)
        others = np.repeat(np.arange(length, dtype=index), np.diff(pointers).view(np.int64))
        return kernels.sorting.sort(keys, others, packed, stripes * lines, index)

    def clear(self, k: int) -> None:
        """Remove a bucket that is sorted."""
        self.bucket(k).unlink(missing_ok=True)


@dataclass(frozen=True)
class Ties:
    """How many entries repeat the one before them, and the first that does, as (line, position)."""

    count: int
    first: tuple[int, ...] = ()


def record_type(shape: tuple[int, int], dtype: DTypeLike, weighted: bool) -> np.dtype[Any]:
    """Return the type of a record of a bucket."""
    index = index_type(shape)
    return np.dtype([("line", index), ("other", index), ("data", dtype, (1 + weighted,))])


def _ties(indptr: NDArray[np.uint64], indices: NDArray[Any], lines: int, first: int) -> Ties:
    same = np.append(False, indices[1:] == indices[:-1])[: indices.size]
    starts = indptr[1:-1]
    same[starts[starts < indices.size].view(np.int64)] = False  # of another line
    where = np.flatnonzero(same)
    if not where.size:
        return Ties(0)
    line = int(np.searchsorted(indptr, where[0], side="right")) - 1
    return Ties(int(where.size), (first + line % lines, int(indices[where[0]])))


def _put(file: Any, place: int, numbers: NDArray[Any]) -> None:
    """Write numbers at a place, counted in records like theirs."""
    if len(numbers):
        file.seek(place * numbers.itemsize * (numbers.shape[1] if numbers.ndim == 2 else 1))
        file.write(np.ascontiguousarray(numbers).data)
