"""The order at which an error vanishes, fitted to its values at many step-sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEPS = np.logspace(-6, -0.5, 45)
_WINDOW = 12  # consecutive steps that a slope is fitted to: a decade and a half


@dataclass(frozen=True)
class SlopeCheck:
    """The order at which an error vanishes, fitted to the straightest stretch of its log-log curve."""

    name: str
    expected: float
    slope: float
    steps: NDArray[np.float64]
    errors: NDArray[np.float64]

    @property
    def ok(self) -> bool:
        """Whether the error vanishes at the expected order or faster."""
        return self.slope > self.expected - 0.1

    def __str__(self) -> str:
        return f"{self.name}: slope {self.slope:.3f}, expected {self.expected:g}: {verdict(self.ok)}"


def verdict(ok: bool) -> str:
    """The last word of every line of a check."""
    return "right" if ok else "WRONG"


def fitted_slope(name: str, expected: float, errors: NDArray[np.float64], floor: float) -> SlopeCheck:
    """Fit the slope to the window with the straightest log-log curve, of those above the rounding floor."""
    if np.max(errors) <= 100 * floor:  # nothing to see but rounding: the model is exact
        return SlopeCheck(name, expected, np.inf, STEPS, errors)
    log_t, log_e = np.log(STEPS), np.log(np.maximum(errors, floor))
    best, best_slope = np.inf, 0.0
    for i in range(len(STEPS) - _WINDOW + 1):
        window = slice(i, i + _WINDOW)
        if np.min(errors[window]) <= 100 * floor:
            continue
        intercept, slope = np.polynomial.polynomial.polyfit(log_t[window], log_e[window], 1)
        misfit = float(np.sum((log_e[window] - intercept - slope * log_t[window]) ** 2))
        if misfit < best:
            best, best_slope = misfit, float(slope)
    return SlopeCheck(name, expected, best_slope, STEPS, errors)
