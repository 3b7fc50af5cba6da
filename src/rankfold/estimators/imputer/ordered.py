"""Rows in an order, such as time: what a gap's neighbours deviate by from the model, carried into the gap.

In a gap of a column the factor model knows the other columns only. Just outside it, the column itself shows
by how much it deviates from what the model would say of it there if it knew no more than it does in the gap.
Such deviations fade with the distance: with those before and after a gap given, r₁ and r₂ at the distances d₁
and d₂, a process whose correlation is exp(−d/τ) (Ornstein and Uhlenbeck) is expected to be at

    r₁ sinh(d₂/τ) / sinh((d₁ + d₂)/τ) + r₂ sinh(d₁/τ) / sinh((d₁ + d₂)/τ)

which is linear interpolation for a long τ, and r₁ exp(−d₁/τ) where nothing comes after. A part κ of that is
added to what the model says. τ and κ of each column are those that are best for holes elsewhere: the table's
own holes, moved to other rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.estimators.imputer.factor_model import FactorModel, Floats, Known

Where = tuple[NDArray[Any], ...]  # rows, and columns
_MOVES = 3  # of the holes to other rows
_MOST_ROWS = 20_000  # that the choice looks at
_BLOCK, _HELD_OUT = 8, 0.1  # without holes: blocks of so many rows, so many of them
_LONGEST = 4096  # τ tried, in steps between rows


class Carried(NamedTuple):
    """Of each hole, by row and column, the deviations before and after its gap, and how far away these are.

    A gap at the end of the table has nothing on one side: a deviation of 0, infinitely far away.
    """

    before: Floats
    after: Floats
    since: Floats
    until: Floats

    def bridged(self, times: Floats | float) -> Floats:
        """Return what the deviations say of each hole for correlation times τ, one or one per column."""
        with np.errstate(under="ignore"):
            whole = -np.expm1(-2 * (self.since + self.until) / times)
            first = np.exp(-self.since / times) * -np.expm1(-2 * self.until / times) / whole
            second = np.exp(-self.until / times) * -np.expm1(-2 * self.since / times) / whole
        return self.before * first + self.after * second


class Smoothing(NamedTuple):
    """τ and κ of each column; τ in units of the index."""

    times: Floats
    strengths: Floats

    def filled(self, model: FactorModel, Z: Floats, known: Known, index: Floats) -> Floats:
        """Return Z with its holes filled by the model and by their neighbours in the order of the index."""
        order = np.argsort(index, kind="stable")
        Z, known = Z[order], known[order]
        full = model.filled(Z, known)
        rows, cols = np.nonzero(~known)
        carried = _carried(model, Z, known, index[order], (rows, cols))
        full[rows, cols] += self.strengths[cols] * carried.bridged(self.times[cols])
        sorted_back = np.empty_like(full)
        sorted_back[order] = full
        return sorted_back


def chosen(model: FactorModel, Z: Floats, known: Known, index: Floats, rng: np.random.Generator) -> Smoothing:
    """Choose τ and κ of each column by entries held out: those that the holes would hide in other rows."""
    order = np.argsort(index, kind="stable")
    Z, known, index = Z[order], known[order], index[order]
    if len(Z) > _MOST_ROWS:
        first = int(rng.integers(len(Z) - _MOST_ROWS + 1))
        part = slice(first, first + _MOST_ROWS)
        Z, known, index = Z[part], known[part], index[part]
    d = Z.shape[1]
    times = _tried(index)
    products, squares = np.zeros((times.size, d)), np.zeros((times.size, d))
    for hide in _moved(known, rng):
        train = known & ~hide
        where: Where = np.nonzero(hide)
        errors = (Z - model.filled(Z, train))[where]
        carried = _carried(model, Z, train, index, where)
        for k, tau in enumerate(times):
            bridged = carried.bridged(tau)
            products[k] += np.bincount(where[1], errors * bridged, d)
            squares[k] += np.bincount(where[1], bridged**2, d)
    strengths = np.divide(products, squares, out=np.zeros_like(products), where=squares > 0).clip(0.0, 1.0)
    gains = 2 * strengths * products - strengths**2 * squares  # by how much the squared error falls
    best = np.argmax(gains, axis=0)
    return Smoothing(times[best], strengths[best, np.arange(d)])


def _tried(index: Floats) -> Floats:
    """Return correlation times, each the double of the one before, from half a step between rows on."""
    steps = np.diff(index)
    step = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    return np.asarray(step * 2.0 ** np.arange(-1, np.log2(_LONGEST) + 1))


def _moved(known: Known, rng: np.random.Generator) -> Iterator[Known]:
    """Yield entries to hide: the holes, moved down; without any, blocks of rows of each column."""
    n, d = known.shape
    for _ in range(_MOVES):
        shift = int(rng.integers(1, max(n, 2)))
        if known.all():
            blocks = rng.uniform(size=(-(-n // _BLOCK), d)) < _HELD_OUT
            yield np.repeat(blocks, _BLOCK, axis=0)[:n]
        else:
            yield known & ~np.roll(known, shift, axis=0)


def _carried(model: FactorModel, Z: Floats, known: Known, index: Floats, where: Where) -> Carried:
    """Find the deviations on both sides of each of some holes."""
    n = len(Z)
    sides = []
    for step in (1, -1):  # what comes before; what comes after, by the same from the end
        K, X, t = known[::step], Z[::step], step * index[::step]
        rows, cols = where[0] if step == 1 else n - 1 - where[0], where[1]
        last = np.maximum.accumulate(np.where(K, np.arange(n)[:, None], -1), axis=0)[rows, cols]
        deviations = _before_gaps(model, X, K)
        there = last >= 0
        found = np.where(there, deviations[last, cols], 0.0)
        sides.append((found, np.where(there, t[rows] - t[last], np.inf)))
    (before, since), (after, until) = sides
    # Two rows of one time are no distance apart; the ratio of sinh's wants a little.
    least = 1e-9 * max(float(np.ptp(index)), 1.0)
    return Carried(before, after, np.maximum(since, least), np.maximum(until, least))


def _before_gaps(model: FactorModel, Z: Floats, known: Known) -> Floats:
    """Return by how much entries before a gap deviate from what is said of them if the gap began there."""
    edges = np.zeros_like(known)
    edges[:-1] = known[:-1] & ~known[1:]
    rows = np.flatnonzero(edges.any(axis=1))
    found = np.zeros(Z.shape)
    if rows.size:
        said = model.filled(Z[rows], known[rows] & known[rows + 1])
        found[rows] = np.where(edges[rows], Z[rows] - said, 0.0)
    return found
