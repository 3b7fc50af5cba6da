"""Random sets of matrix positions, never holding more than a few numbers per position drawn.

A position (i, j) of a d1×d2 matrix is the one number i·d2 + j throughout; sets of them are sorted arrays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Positions = NDArray[np.int64]
Draw = Callable[[int], Positions]  # so many independent positions

NONE: Positions = np.empty(0, dtype=np.int64)
MAX_ROUNDS = 100  # each draws up to as many as are wanted in all: more means a hopeless request


def uniform(
    shape: tuple[int, int], count: int, rng: np.random.Generator, taken: Positions = NONE
) -> Positions:
    """Draw `count` positions outside `taken`, uniformly without replacement."""
    total = shape[0] * shape[1]
    if total > 2 * (count + len(taken)):  # a draw is new at least every second time
        return distinct(lambda size: rng.integers(total, size=size), count, taken)
    free = np.ones(total, dtype=bool)
    free[taken] = False
    return np.sort(rng.choice(np.flatnonzero(free), count, replace=False, shuffle=False))


def popular(shape: tuple[int, int], count: int, rng: np.random.Generator, exponent: float) -> Positions:
    """Draw without replacement; the k-th most popular row (column) weighs k^-exponent.

    Which rows and columns are popular is drawn too.
    """
    d2 = shape[1]
    draw_row, draw_col = (_power_law(size, exponent, rng) for size in shape)
    return distinct(lambda size: draw_row(size) * d2 + draw_col(size), count)


def _power_law(size: int, exponent: float, rng: np.random.Generator) -> Draw:
    distribution = np.cumsum(np.arange(1.0, size + 1) ** -exponent)
    distribution /= distribution[-1]
    order = rng.permutation(size)
    return lambda count: order[np.searchsorted(distribution, rng.random(count), side="right")]


def distinct(draw: Draw, count: int, taken: Positions = NONE) -> Positions:
    """Draw until `count` different positions outside `taken` are found: the first `count` of them."""
    found = NONE
    for attempt in range(MAX_ROUNDS):
        missing = count - len(found)
        if not missing:
            return found
        # more at a time as long as most are repeats
        batch = draw(min(missing << attempt, count))
        batch = batch[~_member(batch, taken) & ~_member(batch, found)]
        found = _merge(found, _first_distinct(batch, missing))
    raise ValueError(
        f"{count} distinct entries were asked for, but draws keep hitting the same popular ones: "
        "lower popularity or oversampling"
    )


def _first_distinct(batch: Positions, limit: int) -> Positions:
    """Return the first `limit` different positions of the batch, sorted."""
    ordered = np.unique(batch)
    if len(ordered) <= limit:
        return ordered
    _, first = np.unique(batch, return_index=True)
    return np.sort(batch[np.sort(first)[:limit]])


def _member(batch: Positions, ordered: Positions) -> NDArray[np.bool_]:
    """Tell for each position of the batch whether the sorted array holds it."""
    if not len(ordered):
        return np.zeros(len(batch), dtype=bool)
    place = np.searchsorted(ordered, batch)
    place[place == len(ordered)] = 0
    return np.equal(ordered[place], batch)


def _merge(a: Positions, b: Positions) -> Positions:
    return np.sort(np.concatenate([a, b]), kind="stable")  # timsort: linear for two sorted runs


def repair(positions: Positions, shape: tuple[int, int], least: int, rng: np.random.Generator) -> Positions:
    """Exchange as few positions as it takes for each row and column to hold at least `least`."""
    count = len(positions)
    for axis in (0, 1):
        positions = _fill(positions, shape, axis, least, rng)
    return _thin(positions, shape, len(positions) - count, least, rng)


def _counts(positions: Positions, shape: tuple[int, int], axis: int) -> NDArray[np.int64]:
    line = positions // shape[1] if axis == 0 else positions % shape[1]
    return np.bincount(line, minlength=shape[axis])


def _fill(
    positions: Positions, shape: tuple[int, int], axis: int, least: int, rng: np.random.Generator
) -> Positions:
    """Add random positions to the lines along `axis` that hold too few."""
    while True:
        lacking = np.maximum(least - _counts(positions, shape, axis), 0)
        lines = np.repeat(np.arange(shape[axis]), lacking)
        if not len(lines):
            return positions
        across = rng.integers(shape[1 - axis], size=len(lines))
        new = lines * shape[1] + across if axis == 0 else across * shape[1] + lines
        new = np.unique(new)
        positions = _merge(positions, new[~_member(new, positions)])


def _thin(
    positions: Positions, shape: tuple[int, int], excess: int, least: int, rng: np.random.Generator
) -> Positions:
    """Remove `excess` random positions from rows and columns that both hold more than `least`."""
    in_row, in_col = (_counts(positions, shape, axis) for axis in (0, 1))
    rows, cols = np.divmod(positions, shape[1])
    spare = np.flatnonzero((in_row[rows] > least) & (in_col[cols] > least))
    keep = np.ones(len(positions), dtype=bool)
    for k in rng.permutation(spare):
        if not excess:
            break
        i, j = rows[k], cols[k]
        if in_row[i] > least and in_col[j] > least:
            in_row[i] -= 1
            in_col[j] -= 1
            keep[k] = False
            excess -= 1
    if excess:
        raise ValueError(
            f"min_per_line: no arrangement with {least} entries in each row and column was found "
            f"for {keep.sum() - excess} entries; raise oversampling"
        )
    return positions[keep]
