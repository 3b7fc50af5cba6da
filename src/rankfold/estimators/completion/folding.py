"""New rows, columns and entries in a fitted model: one side's factor is solved for, the other's held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.lines import normal_equations, solved
from rankfold.estimators.completion.offsets import RIDGE, side_counts
from rankfold.estimators.completion.pattern import Pattern

Floats = NDArray[Any]
_ROUNDS = 50  # of majorisation, for losses other than the square


class Line(NamedTuple):
    """Offsets and factors of some rows (or columns), with the number of entries that they come from."""

    offsets: Floats
    factors: Floats
    counts: Floats

    @classmethod
    def new(cls, lines: int, rank: int) -> Line:
        """Return lines of which nothing is known yet."""
        return cls(np.zeros(lines), np.zeros((lines, rank)), np.zeros(lines))


class Other(NamedTuple):
    """The other side, which is held: the offsets of its lines (the mean included), and their factors."""

    offsets: Floats
    factors: Floats


class Earlier(NamedTuple):
    """Normal equations Q x = q that lines solved before, for entries that are no longer at hand."""

    Q: Floats
    q: Floats


def updated(
    cost: Completion, before: Line, other: Other, weight: float, bias: bool, known: Pattern | None = None
) -> Line:
    """Return the rows of a completion cost fitted to its entries, and to those they were fitted to before.

    Of entries before, `known`, the positions suffice: x solved (Q + λ √n I) x = q for them, which gives q
    (for the square loss, and with weights of 1). For rows that are new, the result is what a fit of all would
    find for them if it left the columns as they are.
    """
    side = cost.observed.plain.by_row
    total = before.counts + side_counts(side)
    lead, offsets, earlier = other.offsets[side.indices], before.offsets, None
    if bias:
        if known is not None:
            earlier = Earlier(before.counts[:, None, None], ((before.counts + RIDGE) * offsets)[:, None])
        ones, ridges = np.ones((len(other.offsets), 1)), np.full(side.lines, RIDGE)
        offsets = _solve(side, cost.loss, lead, ones, ridges, earlier)[:, 0]
        lead = lead + offsets[side.keys]
    B = np.ascontiguousarray(other.factors, dtype=np.float64)
    if known is not None:
        Q, sums = _earlier_entries(known, B)
        x = before.factors
        q = np.einsum("ikm,im->ik", Q, x) + _ridges(weight, before.counts)[:, None] * x
        # What the earlier entries ask of x changes with the offset.
        earlier = Earlier(Q, q - (offsets - before.offsets)[:, None] * sums)
    return Line(offsets, _solve(side, cost.loss, lead, B, _ridges(weight, total), earlier), total)


def _ridges(weight: float, counts: Floats) -> Floats:
    return weight * np.sqrt(np.maximum(counts, 1.0))


def _solve(
    side: SortedEntries, loss: Loss, lead: Floats, B: Floats, ridges: Floats, earlier: Earlier | None
) -> Floats:
    """Minimise Σ w ℓ(lead + x_i·B_j, y) + ridge ‖x_i‖², and what earlier entries add to it, over each x_i.

    The square loss takes one step; others are majorised by square ones, again and again.
    """
    x = np.zeros((side.lines, B.shape[1]))
    for _ in range(1 if loss.is_square else _ROUNDS):
        W = np.einsum("pk,pk->p", x[side.keys], B[side.indices])
        _, first, second = loss(lead + W, side.data[:, 0])
        half = float(np.max(second, initial=0.0)) / 2 or 1.0
        data = side.data.astype(np.float64)
        data[:, 0] = W - first / (2 * half)
        Q, q = normal_equations(replace(side, data=data), B, 0, side.lines)
        if earlier is not None:
            Q, q = Q + earlier.Q, q + earlier.q
        x = solved(Q, q, ridges / half)
    return x


def _earlier_entries(pattern: Pattern, B: Floats) -> tuple[Floats, Floats]:
    """Σ B_j B_jᵀ and Σ B_j over the positions of each row."""
    lines = pattern.indptr.size - 1
    bounds = np.array([[0, lines]], dtype=np.uint64)
    side = SortedEntries(
        pattern.indptr.view(np.uint64), pattern.indices, np.ones((pattern.indices.size, 1)), bounds
    )
    return normal_equations(side, B, 0, lines)
