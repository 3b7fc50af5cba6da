"""New rows, columns and entries in a fitted model: one axis is solved for while the other stays as it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.entries.lines import normal_equations, solved
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.bayes.beliefs import square
from rankfold.estimators.completion.convex_lines import ConvexLines
from rankfold.estimators.completion.offsets import side_counts

Floats = NDArray[Any]


class Lines(NamedTuple):
    """Some rows of a model, or some of its columns: an offset and a factor for each.

    And the covariance of both, if the model knows how sure it is (`bayes.posterior`).
    """

    offsets: Floats
    factors: Floats
    covariances: Floats | None = None

    def joined(self, more: Lines) -> Lines:
        """Return these lines, and more of them behind."""
        return Lines(*(_joined(*parts) for parts in zip(self, more, strict=True)))

    def some(self, numbers: NDArray[Any]) -> Lines:
        """Return the lines of some numbers."""
        sure = None if self.covariances is None else self.covariances[numbers]
        return Lines(self.offsets[numbers], self.factors[numbers], sure)

    def replaced(self, numbers: NDArray[Any], lines: Lines) -> Lines:
        """Return the lines with others in the place of those of some numbers."""
        return Lines(*(_replaced(part, numbers, new) for part, new in zip(self, lines, strict=True)))


def _joined(part: Floats | None, more: Floats | None) -> Any:
    if part is None or more is None:
        return None
    return np.concatenate([part, more.astype(part.dtype, copy=False)])


def _replaced(part: Floats | None, numbers: NDArray[Any], new: Floats | None) -> Any:
    if part is None:
        return None
    part = part.copy()
    part[numbers] = new
    return part


class Earlier(NamedTuple):
    """Lines before new entries came, and what part of what earlier ones said is kept.

    `counts` is how many entries each had; `triangles` and `weights` are those of `streaming.Information`,
    None where nothing but the posterior is asked.
    """

    lines: Lines
    counts: Floats
    triangles: Floats | None = None
    weights: Floats | None = None
    kept: float = 1.0


def design(factors: Floats, bias: bool) -> Floats:
    """Return what the unknowns of a line are multiplied by: the other side's factors, and 1 for an offset."""
    B = np.ascontiguousarray(factors, dtype=np.float64)
    return np.column_stack([B, np.ones(len(B))]) if bias else B


def solve(
    cost: Completion, other: Lines, weight: float, shrinkage: float | None, earlier: Earlier | None = None,
    expected: Floats | None = None,
) -> Lines:  # fmt: skip
    """Return the rows of a completion cost fitted to its entries, and to those they were fitted to before.

    `other` are the columns, which stay as they are; the mean is in their offsets. `shrinkage` is that of the
    rows' offsets, None if there are none; `expected` is what features make one expect of the rows, 0 if there
    are none. Of entries before, Q suffices: x solved Q x + λ √n (x − expected) = q for them, which gives q
    (for the square loss). For rows that are new, the result is what a fit of all would find for them if it
    left the columns as they are.
    """
    side = cost.observed.plain.by_row
    given = other.offsets[side.indices]  # the part of each prediction that does not change
    B = design(other.factors, shrinkage is not None)
    expected = np.zeros((side.lines, B.shape[1])) if expected is None else expected

    def ridges(counts: Floats) -> Floats:
        found = np.repeat(weight * np.sqrt(np.maximum(counts, 1.0))[:, None], B.shape[1], axis=1)
        if shrinkage is not None:
            found[:, -1] = shrinkage
        return found

    counts, remembered = side_counts(side), None
    if earlier is not None and earlier.weights is not None and earlier.triangles is not None:
        counts = counts + earlier.kept * earlier.weights
        Q = square(earlier.triangles, B.shape[1])
        x = np.column_stack([earlier.lines.factors, earlier.lines.offsets])[:, : B.shape[1]]
        q = np.einsum("ikm,im->ik", Q, x) + ridges(earlier.weights) * (x - expected)
        remembered = earlier.kept * Q, earlier.kept * np.where(earlier.weights[:, None] > 0, q, 0.0)
    x = _solve(side, cost.loss, given, B, ridges(counts), expected, remembered)
    return Lines(np.zeros(len(x)), x) if shrinkage is None else Lines(x[:, -1], x[:, :-1])


def _solve(
    side: SortedEntries, loss: Loss, given: Floats, B: Floats, ridges: Floats, expected: Floats,
    remembered: tuple[Floats, Floats] | None,
) -> Floats:  # fmt: skip
    """Minimise Σ w ℓ(given + x_i·B_j, y) + ridges_i·(x_i − expected_i)², and what is remembered, over x_i.

    Only the square loss has anything to remember: its sums are a quadratic function for good.
    """
    if not loss.is_square:
        return ConvexLines(side, loss, B, ridges, ridges * expected, given).minimised()
    data = side.data.astype(np.float64)
    data[:, 0] -= given
    Q, q = normal_equations(replace(side, data=data), B, 0, side.lines)
    if remembered is not None:
        Q, q = Q + remembered[0], q + remembered[1]
    return solved(Q, q + ridges * expected, ridges)
