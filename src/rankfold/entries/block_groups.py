"""Blocks of the square loss without weights, one group of lines at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.sorted_entries import SortedEntries, even_cuts
from rankfold.linalg.lines import CHUNKS


@dataclass(frozen=True, eq=False)
class UnformedBlocks:
    """2 scale Σ b bᵀ of each line of a side, for rows b of B, of which each is in so many entries (`counts`).

    All of them would take r times the memory of the factors; formed and inverted a group at a time, they take
    no time either to be written and read again.
    """

    side: SortedEntries
    B: NDArray[Any]
    scale: float
    counts: NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(lines, r, r)."""
        return self.side.lines, self.B.shape[1], self.B.shape[1]

    def diagonal_sums(self) -> NDArray[Any]:
        """Return the sum of the diagonals: each row of B as often as it is in an entry."""
        squares = np.square(self.B, dtype=np.float64)
        return np.asarray(2 * self.scale * (self.counts.astype(np.float64) @ squares))

    def inverted(self, scale: float, ridge: NDArray[Any], lost: float) -> NDArray[Any]:
        """Return what `linalg.lines.inverted` does."""
        lines, r, _ = self.shape
        out = np.empty(kernels.line_blocks.packed(lines, r), np.float32)
        _, *entries = self.side.passed
        own = self._groups(), *entries, self.B, self.scale, scale, ridge, lost, np.uint64(lines), out
        work = self.side.size * r * r + lines * r**3 / 3
        kernels.pool.run(kernels.line_blocks.formed_and_inverted(r), CHUNKS, work, own)
        return out

    def _groups(self) -> NDArray[np.uint64]:
        """Bounds of chunks of groups, with about as many entries in each."""
        lanes = np.uint64(kernels.lanes.LANES)
        cuts = even_cuts(self.side.indptr, self.side.lines, CHUNKS)
        return np.asarray((cuts + lanes - np.uint64(1)) // lanes)
