"""How factors lie in memory for the kernels, and how far ahead kernels ask for their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

ONE = np.uint64(1)


def ahead_by(length: int) -> np.uint64:
    """Entries between asking for a row and using it: 12 to 32 measure alike, 20 best with 10⁸ entries."""
    return np.uint64(min(20, max(2, 1024 // length)))


def numbers(weighted: bool) -> np.uint64:
    """Numbers that come with an entry: its value, and its weight."""
    return np.uint64(2 if weighted else 1)


# A kernel takes half a second to compile, as long as hundreds of passes over few entries. So up to so many
# entries and lines, factors get columns of zeros up to the next multiple of `STEP`, and one kernel serves all
# built-in losses, with weights or without.
FEW, STEP = 100_000, 8
# (loss, numbers of an entry, one more choice): what a kernel for few entries is told with each call, and one
# whose constants these are does not look at.
Choices = tuple[int, np.uint64, bool]
NOT_LOOKED_AT: Choices = (0, ONE, False)


def are_few(size: int) -> bool:
    """Whether so many entries and lines are few."""
    return size <= FEW


def width_for(rank: int, size: int) -> int:
    """Return how many columns kernels are given, for factors of this rank and so many entries and lines."""
    return -(-rank // STEP) * STEP if are_few(size) else rank


def widened(width: int, *arrays: Any) -> list[Any]:
    """Arrays with columns of zeros up to the width; those that have it are themselves."""
    rank = arrays[0].shape[1]
    if rank == width:
        return list(arrays)
    found = []
    for array in arrays:
        found.append(np.zeros((len(array), width), array.dtype))
        found[-1][:, :rank] = array
    return found


def narrowed(rank: int, array: Any) -> Any:
    """The first columns of an array, as an array of its own unless they are all."""
    return array if array.shape[1] == rank else np.ascontiguousarray(array[:, :rank])


# Up to this rank, rows of several arrays that are wanted together lie side by side in one: a gathered row of
# few numbers is paid by the cache line. Beyond, the copies would cost more than they save.
SIDE_BY_SIDE = 16


def three(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Three arrays, of which the last may be repeated: one kernel has one type."""
    return (*arrays, arrays[-1], arrays[-1])[:3]


def laid_out(*arrays: Any) -> tuple[Any, ...]:
    """Arrays of one shape as kernels want them: side by side in one where that pays, and three in all."""
    return three((np.stack(arrays, axis=1),) if arrays[0].shape[1] <= SIDE_BY_SIDE else arrays)


def places(rank: int, terms: int) -> tuple[np.uint64, np.uint64, int]:
    """(step, shift, width): row i of array k is row step i + shift k of member k of `laid_out`.

    `width` numbers are fetched at once.
    """
    if rank <= SIDE_BY_SIDE:
        return np.uint64(terms), ONE, terms * rank
    return ONE, np.uint64(0), rank
