"""Which entries a model was fitted to: their positions, without values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.sorted_entries import SortedEntries


class Pattern(NamedTuple):
    """Positions by row: the columns of row i are `indices[indptr[i]:indptr[i + 1]]`."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.unsignedinteger[Any]]

    @classmethod
    def of(cls, side: SortedEntries) -> Pattern:
        """Return the positions of a side; shared with it, where it holds them so."""
        return cls(*side.pattern())

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of entries of each row."""
        return self.indptr[1:] - self.indptr[:-1]

    def repeats(self) -> tuple[int, tuple[int, int]]:
        """Return how many entries repeat the pair of another one, and the first such pair."""
        same = self.indices[1:] == self.indices[:-1]
        starts = self.indptr[(self.indptr > 0) & (self.indptr < len(self.indices))]
        same[starts - 1] = False  # of two different rows
        at = int(np.argmax(same)) if same.any() else 0
        pair = int(np.searchsorted(self.indptr, at, side="right")) - 1, int(self.indices[at])
        return int(np.count_nonzero(same)), pair

    def rows(self, chosen: NDArray[Any]) -> Pattern:
        """Return some rows, in the order asked for."""
        sizes = self.counts[chosen]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[chosen] - indptr[:-1], sizes)
        return Pattern(indptr, self.indices[places])

    def extended(self, rows: NDArray[Any], cols: NDArray[Any], height: int) -> Pattern:
        """Return the positions with more of them, in a matrix of `height` rows."""
        indptr = np.append(self.indptr, np.full(height + 1 - self.indptr.size, self.indptr[-1]))
        order = np.lexsort((cols, rows))
        indices = np.insert(self.indices, indptr[rows[order] + 1], cols[order].astype(self.indices.dtype))
        indptr[1:] += np.cumsum(np.bincount(rows, minlength=height))
        return Pattern(indptr, indices)


def counted(before: NDArray[np.int64], places: NDArray[Any], size: int) -> NDArray[np.int64]:
    """Return how many entries each of `size` lines has, given those before and the places of new ones."""
    return np.pad(before, (0, size - before.size)) + np.bincount(places, minlength=size)
