"""Lines that take in new entries: what earlier ones said of a line is kept as a quadratic function of it.

For the square loss that is all there is to know of them while the other side stays: Q = Σ w B_j B_jᵀ and, by
the line x that was found from them, q = Σ w y B_j. So new entries cost what they are many, however many came
before them, and earlier ones are forgotten by making both less.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.data.numbering import refuse
from rankfold.entries.lines import normal_equations
from rankfold.entries.ordering import sorted_entries
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.bayes.beliefs import triangle
from rankfold.estimators.completion.folding import design
from rankfold.estimators.completion.offsets import side_counts
from rankfold.estimators.completion.pattern import Pattern

Floats = NDArray[Any]
_BLOCK = 1 << 14  # lines whose sums are made at a time


class Information(NamedTuple):
    """What entries say of the lines of each side: lower triangles of Q, and how much they weigh in all.

    Attributes
    ----------
    rows, cols
        Triangles of Σ w B_j B_jᵀ, one for each line.
    row_weights, col_weights
        Σ w: the number of entries, less what was forgotten.
    """

    rows: Floats
    cols: Floats
    row_weights: Floats
    col_weights: Floats

    def of(self, axis: Axis, lines: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the triangles and weights of some lines."""
        triangles, weights = self._side(axis)
        return triangles[lines], weights[lines]

    def with_lines(self, axis: Axis, lines: NDArray[Any], triangles: Floats, weights: Floats) -> Information:
        """Return others in the place of some lines."""
        own = self._side(axis)
        mine = []
        for old, new in zip(own, (triangles, weights), strict=True):
            made = old.copy()
            made[lines] = new
            mine.append(made)
        return self._with(axis, mine)

    def extended(self, axis: Axis, size: int) -> Information:
        """Return the same for `size` lines, of which new ones have no entries."""
        own = self._side(axis)
        more = size - len(own[0])
        return self._with(axis, [np.pad(part, [(0, more), (0, 0)][: part.ndim]) for part in own])

    def _side(self, axis: Axis) -> tuple[Floats, Floats]:
        return axis.of(((self.rows, self.row_weights), (self.cols, self.col_weights)))

    def _with(self, axis: Axis, own: list[Floats]) -> Information:
        rows, cols = axis.pair((own[0], own[1]), self._side(axis.other))
        return Information(rows[0], cols[0], rows[1], cols[1])


def information_of(pattern: Pattern, factors: tuple[Floats, Floats], bias: bool) -> Information:
    """Return what entries of weight 1 at these positions say of all lines."""
    shape = len(factors[0]), len(factors[1])
    rows = np.repeat(np.arange(shape[0]), pattern.counts)
    cols = pattern.indices.astype(np.int64)
    sides = []
    for own, other, size, B in ((rows, cols, shape, factors[1]), (cols, rows, shape[::-1], factors[0])):
        side = sorted_entries(own, other, np.ones(len(own)), size, np.uint32, 1)
        sides.append(said(side, design(B, bias)))
    return Information(sides[0][0], sides[1][0], sides[0][1], sides[1][1])


def said(side: SortedEntries, B: Floats) -> tuple[Floats, Floats]:
    """Return what entries say of their lines, B being what these are multiplied by: triangles and weights."""
    return _triangles(side, B), side_counts(side)


def _triangles(side: SortedEntries, B: Floats) -> Floats:
    d = B.shape[1]
    found = np.empty((side.lines, d * (d + 1) // 2))
    for first in range(0, side.lines, _BLOCK):
        last = min(first + _BLOCK, side.lines)
        found[first:last] = triangle(normal_equations(side, B, first, last)[0])
    return found


def checked_forget(forget: Any) -> float:
    """Return the part of earlier entries that is kept, given the part that is forgotten."""
    part = np.asarray(forget, dtype=np.float64)
    if part.ndim:
        raise ValueError("forget must be a number from 0 to 1")
    refuse(~((part >= 0) & (part <= 1)).reshape(1), part.reshape(1), "forget", "it is a part, from 0 to 1")
    return 1.0 - float(part)
