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
from rankfold.estimators.completion.offsets import side_counts
from rankfold.estimators.completion.pattern import Pattern

Floats = NDArray[Any]


class Lines(NamedTuple):
    """Some rows of a model, or some of its columns: an offset and a factor for each.

    And the covariance of both, if the model knows how sure it is (`bayes.posterior`).
    """

    offsets: Floats
    factors: Floats
    covariances: Floats | None = None

    def extended(self, size: int) -> Lines:
        """Return `size` lines, of which the new ones are all zero."""
        more = size - len(self.offsets)
        return Lines(*(_padded(part, more) for part in self))

    def some(self, numbers: NDArray[Any]) -> Lines:
        """Return the lines of some numbers."""
        sure = None if self.covariances is None else self.covariances[numbers]
        return Lines(self.offsets[numbers], self.factors[numbers], sure)

    def replaced(self, numbers: NDArray[Any], lines: Lines) -> Lines:
        """Return the lines with others in the place of those of some numbers."""
        return Lines(*(_replaced(part, numbers, new) for part, new in zip(self, lines, strict=True)))


def _padded(part: Floats | None, more: int) -> Any:
    return None if part is None else np.pad(part, [(0, more), (0, 0)][: part.ndim])


def _replaced(part: Floats | None, numbers: NDArray[Any], new: Floats | None) -> Any:
    if part is None:
        return None
    part = part.copy()
    part[numbers] = new
    return part


class Earlier(NamedTuple):
    """What lines were before new entries came, and where the entries are that they were fitted to."""

    lines: Lines
    entries: Pattern


def solve(
    cost: Completion, other: Lines, weight: float, shrinkage: float | None, earlier: Earlier | None = None
) -> Lines:
    """Return the rows of a completion cost fitted to its entries, and to those they were fitted to before.

    `other` are the columns, which stay as they are; the mean is in their offsets. `shrinkage` is that of the
    rows' offsets, None if there are none. Of entries before, the positions suffice: x solved (Q + λ √n I) x
    = q for them, which gives q (for the square loss, and with weights of 1). For rows that are new, the
    result is what a fit of all would find for them if it left the columns as they are.
    """
    side = cost.observed.plain.by_row
    before = np.zeros(side.lines) if earlier is None else earlier.entries.counts.astype(np.float64)
    given = other.offsets[side.indices]  # the part of each prediction that does not change
    B = np.ascontiguousarray(other.factors, dtype=np.float64)
    if shrinkage is not None:
        B = np.column_stack([B, np.ones(len(B))])

    def ridges(counts: Floats) -> Floats:
        found = np.repeat(weight * np.sqrt(np.maximum(counts, 1.0))[:, None], B.shape[1], axis=1)
        if shrinkage is not None:
            found[:, -1] = shrinkage
        return found

    remembered = None if earlier is None else _remembered(earlier, B, ridges(before))
    x = _solve(side, cost.loss, given, B, ridges(before + side_counts(side)), remembered)
    return Lines(np.zeros(len(x)), x) if shrinkage is None else Lines(x[:, -1], x[:, :-1])


def _remembered(earlier: Earlier, B: Floats, ridges: Floats) -> tuple[Floats, Floats]:
    """What the earlier entries ask of the lines: the Q and q of their normal equations."""
    (offsets, factors, _), (indptr, indices) = earlier.lines, earlier.entries
    x = np.column_stack([factors, offsets])[:, : B.shape[1]]
    bounds = np.array([0, len(x)], dtype=np.uint64)
    side = SortedEntries(indptr.view(np.uint64), indices, np.ones((indices.size, 1)), bounds, len(B))
    Q, _ = normal_equations(side, B, 0, len(x))
    return Q, np.einsum("ikm,im->ik", Q, x) + ridges * x


def _solve(
    side: SortedEntries, loss: Loss, given: Floats, B: Floats, ridges: Floats,
    remembered: tuple[Floats, Floats] | None,
) -> Floats:  # fmt: skip
    """Minimise Σ w ℓ(given + x_i·B_j, y) + ridges_i·x_i², and what is remembered, over each x_i.

    Only the square loss has anything to remember: its sums are a quadratic function for good.
    """
    if not loss.is_square:
        return ConvexLines(side, loss, B, ridges, given=given).minimised()
    data = side.data.astype(np.float64)
    data[:, 0] -= given
    Q, q = normal_equations(replace(side, data=data), B, 0, side.lines)
    if remembered is not None:
        Q, q = Q + remembered[0], q + remembered[1]
    return solved(Q, q, ridges)
