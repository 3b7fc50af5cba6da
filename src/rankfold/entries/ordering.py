"""Putting entries in order: by row and, within a row, by column, or the other way round."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels
from rankfold.entries.sorted_entries import NARROW, SortedEntries, chunk_bounds, index_type


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
    return _side(indptr, _narrowed(indices, indptr[::lines], length), packed, shape)


def turned(side: SortedEntries, stripes: int) -> SortedEntries:
    """Order entries the other way, whose rows ascend within each column: by stripe of rows, column and row.

    Those of one stripe of columns and one of rows lie next to each other in both orders, and are sorted by
    themselves: little room is needed, and it is soon in cache.
    """
    shape = lines, length = side.length, side.lines
    index, packed, steps = index_type(shape), side.packed, _steps(length, stripes)
    indptr, data = np.zeros(stripes * lines + 1, np.uint64), np.empty_like(packed)
    across, at = np.empty(side.size, _held(length, stripes, index)), 0
    for t, (first, last) in enumerate(steps):
        base = first if across.dtype == np.uint16 else 0
        for s, (left, right) in enumerate(_steps(lines, side.stripes)):
            pointers = side.indptr[s * length + first : s * length + last + 1].view(np.int64)
            own = slice(int(pointers[0]), int(pointers[-1]))
            here = slice(at, at := at + own.stop - own.start)
            keys: NDArray[Any] = side.across[own].astype(index)
            keys -= index(0 if side.step else left)
            others = np.repeat(np.arange(first - base, last - base, dtype=index), np.diff(pointers))
            ends, found = indptr[t * lines + left : t * lines + right + 1], np.empty(keys.size, index)
            kernels.sorting.sort_into(ends, found, data[here], keys, others, packed[own])
            ends[1:] += np.uint64(here.start)
            across[here] = found
    return _side(indptr, across, data, shape)


def striped(side: SortedEntries, stripes: int) -> SortedEntries:
    """Return entries without stripes, whose columns ascend within each row, in so many."""
    if stripes == 1:
        return side
    shape, index = (side.lines, side.length), index_type((side.lines, side.length))
    width, kind = -(-side.length // stripes), _held(side.length, stripes, index)
    step = width if kind == np.uint16 else 0
    own = side.bounds, side.indptr, side.across, side.packed
    return _side(*kernels.sorting.into_stripes(*own, stripes, width, step, kind), shape)


def _side(
    indptr: NDArray[np.uint64], across: NDArray[Any], packed: NDArray[Any], shape: tuple[int, int]
) -> SortedEntries:
    real = packed.view(packed.real.dtype).reshape(packed.size, -1)
    return SortedEntries(indptr, across, real, chunk_bounds(indptr, shape[0]), shape[1])


def _steps(length: int, stripes: int) -> list[tuple[int, int]]:
    """First and last line (not included) of each stripe."""
    width = -(-length // stripes)
    return [(min(s * width, length), min((s + 1) * width, length)) for s in range(stripes)]


def _held(length: int, stripes: int, index: Any) -> Any:
    """In which type columns are held."""
    return np.uint16 if -(-length // stripes) <= NARROW else index


def _narrowed(
    indices: NDArray[Any], starts: NDArray[np.uint64], length: int
) -> NDArray[np.unsignedinteger[Any]]:
    """Columns as they are held, given where stripes start and where the last one ends."""
    stripes = starts.size - 1
    width = -(-length // stripes)
    # One that is out of the matrix stays as it is, to be refused: in 16 bits it might be another within.
    if width > NARROW or (indices.size and int(indices.max()) >= length):
        return indices
    across = indices.astype(np.uint16)
    for s in range(1, stripes):  # modulo 2¹⁶, as these are already
        across[int(starts[s]) : int(starts[s + 1])] -= np.uint16(s * width % 2**16)
    return across
