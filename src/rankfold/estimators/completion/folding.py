"""New rows, columns and entries in a fitted model: one axis is solved for while the other stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.convex_lines import ConvexLines
from rankfold.estimators.completion.lines import normal_equations, solved
from rankfold.estimators.completion.offsets import RIDGE, side_counts
from rankfold.estimators.completion.pattern import Pattern

Floats = NDArray[Any]


class Lines(NamedTuple):
    """Some rows of a model, or some of its columns: an offset and a factor for each."""

    offsets: Floats
    factors: Floats

    def extended(self, size: int) -> Lines:
        """Return `size` lines, of which the new ones are all zero."""
        more = size - len(self.offsets)
        return Lines(np.append(self.offsets, np.zeros(more)), np.pad(self.factors, ((0, more), (0, 0))))

    def replaced(self, numbers: NDArray[Any], lines: Lines) -> Lines:
        """Return the lines with others in the place of those of some numbers."""
        offsets, factors = self.offsets.copy(), self.factors.copy()
        offsets[numbers], factors[numbers] = lines
        return Lines(offsets, factors)


class Earlier(NamedTuple):
    """What lines were before new entries came, and where the entries are that they were fitted to."""

    lines: Lines
    entries: Pattern


def solve(cost: Completion, other: Lines, weight: float, bias: bool, earlier: Earlier | None = None) -> Lines:
    """Return the rows of a completion cost fitted to its entries, and to those they were fitted to before.

    `other` are the columns, which stay as they are; the mean is in their offsets. Of entries before, the
    positions suffice: x solved (Q + λ √n I) x = q for them, which gives q (for the square loss, and with
    weights of 1). For rows that are new, the result is what a fit of all would find for them if it left the
    columns as they are.
    """
    side = cost.observed.plain.by_row
    before = np.zeros(side.lines) if earlier is None else earlier.entries.counts.astype(np.float64)
    given = other.offsets[side.indices]  # the part of each prediction that does not change
    offsets = np.zeros(side.lines) if earlier is None else earlier.lines.offsets
    remembered = None
    if bias:
        if earlier is not None:
            remembered = before[:, None, None], ((before + RIDGE) * offsets)[:, None]
        ones, ridges = np.ones((len(other.offsets), 1)), np.full(side.lines, RIDGE)
        offsets = _solve(side, cost.loss, given, ones, ridges, remembered)[:, 0]
        given = given + offsets[side.keys]
    B = np.ascontiguousarray(other.factors, dtype=np.float64)
    if earlier is not None:
        remembered = _remembered(earlier, offsets, B, _ridges(weight, before))
    ridges = _ridges(weight, before + side_counts(side))
    return Lines(offsets, _solve(side, cost.loss, given, B, ridges, remembered))


def _ridges(weight: float, counts: Floats) -> Floats:
    return weight * np.sqrt(np.maximum(counts, 1.0))


def _remembered(earlier: Earlier, offsets: Floats, B: Floats, ridges: Floats) -> tuple[Floats, Floats]:
    """What the earlier entries ask of the factors, now that the lines have other offsets."""
    (before, x), (indptr, indices) = earlier.lines, earlier.entries
    bounds = np.array([[0, len(x)]], dtype=np.uint64)
    side = SortedEntries(indptr.view(np.uint64), indices, np.ones((indices.size, 1)), bounds, len(B))
    Q, sums = normal_equations(side, B, 0, len(x))
    q = np.einsum("ikm,im->ik", Q, x) + ridges[:, None] * x
    return Q, q - (offsets - before)[:, None] * sums


def _solve(
    side: SortedEntries, loss: Loss, given: Floats, B: Floats, ridges: Floats,
    remembered: tuple[Floats, Floats] | None,
) -> Floats:  # fmt: skip
    """Minimise Σ w ℓ(given + x_i·B_j, y) + ridge ‖x_i‖², and what is remembered, over each x_i.

    Only the square loss has anything to remember: its sums are a quadratic function for good.
    """
    if not loss.is_square:
        return ConvexLines(side, loss, given, B, ridges).minimised()
    data = side.data.astype(np.float64)
    data[:, 0] -= given
    Q, q = normal_equations(replace(side, data=data), B, 0, side.lines)
    if remembered is not None:
        Q, q = Q + remembered[0], q + remembered[1]
    return solved(Q, q, ridges)
