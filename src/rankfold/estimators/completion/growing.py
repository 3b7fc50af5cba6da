"""Positions to which more are added now and then, at a cost in proportion to those."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.estimators.completion.pattern import Pattern

_PART = 4  # what came later is merged into the base when it is one in so many of it


class Run(NamedTuple):
    """Positions that came together, by row."""

    rows: NDArray[np.int64]
    cols: NDArray[Any]


class Growing(NamedTuple):
    """A pattern of `height` rows: its base, and runs of positions that came later, each longer than the next.

    A run is merged with the one before it when that is not twice as long, so that there are few of them, and
    each position is moved a few times in all.
    """

    base: Pattern
    height: int
    runs: tuple[Run, ...] = ()

    @classmethod
    def of(cls, pattern: Pattern) -> Growing:
        """Begin with a pattern."""
        return cls(pattern, len(pattern.indptr) - 1)

    def appended(self, rows: NDArray[Any], cols: NDArray[Any], height: int) -> Growing:
        """Return the positions with more of them, in a matrix of `height` rows."""
        runs = list(self.runs)
        if len(rows):
            runs.append(_sorted(np.asarray(rows, np.int64), cols.astype(self.base.indices.dtype)))
        while len(runs) > 1 and len(runs[-2].rows) < 2 * len(runs[-1].rows):
            last = runs.pop()
            runs[-1] = _sorted(*(np.concatenate(both) for both in zip(runs[-1], last, strict=True)))
        grown = Growing(self.base, height, tuple(runs))
        later = sum(len(run.rows) for run in runs)
        return grown.merged() if _PART * later > len(self.base.indices) else grown

    def merged(self) -> Growing:
        """Return the same positions, all of them in the base."""
        base = self.base
        if self.runs:
            rows, cols = (np.concatenate(parts) for parts in zip(*self.runs, strict=True))
            base = base.extended(rows, cols, self.height)
        elif len(base.indptr) <= self.height:
            nothing = np.empty(0, np.int64)
            base = base.extended(nothing, nothing, self.height)
        return Growing(base, self.height)

    def rows(self, chosen: NDArray[Any]) -> Pattern:
        """Return some rows, in the order asked for."""
        chosen = np.asarray(chosen, np.int64)
        old = chosen < len(self.base.indptr) - 1
        parts = [(np.flatnonzero(old), self.base.rows(chosen[old]))]
        for run in self.runs:
            first, last = (np.searchsorted(run.rows, chosen, side=side) for side in ("left", "right"))
            indptr = np.concatenate([[0], np.cumsum(last - first)])
            places = np.arange(indptr[-1]) + np.repeat(first - indptr[:-1], last - first)
            parts.append((np.arange(len(chosen)), Pattern(indptr, run.cols[places])))
        numbers = np.concatenate([np.repeat(which, pattern.counts) for which, pattern in parts])
        order = np.argsort(numbers, kind="stable")
        indices = np.concatenate([pattern.indices for _, pattern in parts])[order]
        sizes = np.bincount(numbers, minlength=len(chosen))
        return Pattern(np.concatenate([[0], np.cumsum(sizes)]), indices)


def _sorted(rows: NDArray[np.int64], cols: NDArray[Any]) -> Run:
    order = np.argsort(rows, kind="stable")
    return Run(rows[order], cols[order])
