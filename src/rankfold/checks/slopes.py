"""The order at which an error vanishes, fitted to its values at many step-sizes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

STEPS = np.logspace(-6, -0.5, 45)
_WINDOW = 12  # consecutive steps that a slope is fitted to: a decade and a half
_SHORT = 4  # so many, where the error of the largest steps alone is above rounding


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
    """Fit the slope to the window with the straightest log-log curve, of those above the rounding floor.

    Where all windows reach down to the floor, short ones serve; where these do too, the model is exact.
    """
    slope = np.inf if np.all(np.isfinite(errors)) else np.nan
    log_t, log_e = np.log(STEPS), np.log(np.maximum(errors, floor))
    for length in (_WINDOW, _SHORT):
        windows = [slice(i, i + length) for i in range(len(STEPS) - length + 1)]
        seen = [window for window in windows if np.min(errors[window]) > 100 * floor]
        if seen:
            slope = min(_line(log_t[window], log_e[window]) for window in seen)[1]
            break
    return SlopeCheck(name, expected, slope, STEPS, errors)


def _line(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
    """The misfit and the slope of the line through these points."""
    intercept, slope = np.polynomial.polynomial.polyfit(x, y, 1)
    return float(np.sum((y - intercept - slope * x) ** 2)), float(slope)
