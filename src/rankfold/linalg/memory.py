"""Memory that was used before, for large tall arrays: the pages of fresh ones have to be cleared first.

An iteration makes some ten tall arrays, and drops as many. Of large ones the system takes back all pages, and
clears others for the next: at 500,000 rows and rank 10, on 16 cores, 20 ms of the 59 that an iteration took
beside its passes were spent in no kernel, 2 of them by Python. So while a run lasts (`reused`), what one
array leaves is kept for the next of its shape. With the last run all that is kept goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

# Bytes: smaller arrays mostly come from memory that the process holds anyway. For P2's, of 1.3 MB, what is
# done here takes as long as it saves.
LEAST = 1 << 22
SHAPES = 8  # for which memory is kept: a run whose rank grows would gather that of all ranks

_runs: set[object] = set()  # those that last; sets, lists and dictionaries change in one step each
_kept: dict[Any, list[NDArray[Any]]] = {}


class _Lent:
    """What an array and all its views lie in: when the last of them is gone, the memory is kept again."""

    def __init__(self, key: Any, memory: NDArray[Any]) -> None:
        self.key, self.memory = key, memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if _runs:
            _kept.setdefault(self.key, []).append(self.memory)
            for oldest in list(_kept)[:-SHAPES]:
                _kept.pop(oldest, None)


def empty(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array of any numbers, as NumPy's function of that name."""
    dtype = np.dtype(dtype)
    key = shape, dtype
    try:
        memory = _kept[key].pop()
    except (KeyError, IndexError):
        memory = np.empty(shape, dtype)
    return np.asarray(_Lent(key, memory)) if _runs and memory.nbytes >= LEAST else memory


@contextmanager
def reused() -> Iterator[None]:
    """Keep, for others of their shape, what arrays made by `empty` leave, until the last such block ends."""
    run = object()
    _runs.add(run)
    try:
        yield
    finally:
        _runs.discard(run)
        if not _runs:
            _kept.clear()
