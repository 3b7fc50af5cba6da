"""Derivatives of a curve at 0 from its values alone, with how far off they may be.

Central differences at steps halved again and again are extrapolated to the step 0 (Richardson), in a table.
Its entries differ from their neighbours by what the truncation leaves, and rounding is measured: the best
entry is the one where both together are least (Ridders 1982). So the curve itself chooses the steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

LEVELS = 22  # steps from the reach down to 2^-21 of it
COLUMNS = 8  # orders of extrapolation, at most
_NEAR = 1e-5  # of the reach: so near to each other, values differ by rounding and a cubic, nothing else
_FOURTH = np.array([1.0, -4.0, 6.0, -4.0, 1.0]) / np.sqrt(70.0)  # of independent errors: as large as each
_FAR = 8  # steps, the largest, whose changes of the value are the swing of the curve
_ROUNDING = float(np.finfo(np.float64).eps)

Floats = NDArray[np.float64]
Curve = Callable[[float], float]


class Measured(NamedTuple):
    """A derivative, how far off it may be, and what it was found from.

    `swing` is how much the curve changes within its reach, per unit of t (or of t²): what is tiny beside it
    is rounding. `values` are those at the positive `steps`, and `noise` is how far rounding moves each.
    """

    derivative: float
    error: float
    swing: float
    steps: Floats
    values: Floats
    noise: Floats


def measured(
    curve: Curve, order: int, reach: float, levels: int = LEVELS, rounding: float | None = None
) -> Measured:
    """Return the first or the second derivative of a curve at 0, from values within `reach` of it.

    `rounding` says how far values are off, relative to their size; by default that is measured.
    """
    steps: Floats = reach * 0.5 ** np.arange(levels, dtype=np.float64)
    with np.errstate(all="ignore"):  # far steps may overflow: they are left out
        centre = curve(0.0)
        right, left = (np.array([curve(float(sign * t)) for t in steps]) for sign in (1, -1))
        sizes = np.maximum(np.maximum(abs(right), abs(left)), abs(centre))
        noise = np.maximum(_wobble(curve, reach), _ROUNDING * sizes) if rounding is None else rounding * sizes
        if order == 1:
            differences, floors = (right - left) / (2 * steps), noise / steps
        else:
            differences, floors = (right + left - 2 * centre) / steps**2, 4 * noise / steps**2
        derivative, error = _extrapolated(differences, floors)
        moves = np.maximum(abs(right - centre), abs(left - centre)) / steps**order
    seen = [move for move in moves[:_FAR] if np.isfinite(move)]
    swing = float(np.median(seen)) if seen else 0.0
    return Measured(derivative, error, swing, steps, right, noise)


def _wobble(curve: Curve, reach: float) -> float:
    """Return how far rounding moves the values, from fourth differences of some that are near each other."""
    values = np.array([curve(float(k * _NEAR * reach)) for k in range(-4, 5)])
    return float(np.sqrt(np.mean(np.convolve(values, _FOURTH, mode="valid") ** 2)))


def _extrapolated(differences: Floats, floors: Floats) -> tuple[float, float]:
    """Return the entry of Richardson's table with the least error, and this error; NaN if there is none.

    `floors` are the errors of the differences by rounding.
    """
    best, least = np.nan, np.inf
    column = differences
    for order in range(1, min(COLUMNS, len(differences))):
        before, column = column, column[1:] + np.diff(column) / (4.0**order - 1.0)
        # column[i] is made of before[i] and before[i + 1], and stands in the row i + order
        gaps = np.maximum(abs(column - before[1:]), abs(column - before[:-1]))
        errors = gaps + floors[order:]
        errors[~np.isfinite(errors)] = np.inf
        at = int(np.argmin(errors))
        if errors[at] < least:
            best, least = float(column[at]), float(errors[at])
    return best, least
