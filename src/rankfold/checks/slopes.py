"""A derivative that is claimed, against the one that values of a curve show: right, wrong or inconclusive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rankfold.checks.curves import Curve, Floats, Measured, measured

Verdict = Literal["right", "WRONG", "inconclusive"]
_WINDOW = 4  # consecutive steps, each twice the next, that a slope is fitted to
_SAFETY = 10.0  # times the estimated error of differences is still no contradiction
_EQUAL = 1e-7  # relative difference of numbers that are the same: formulas round too
_LOST = 1e-12  # a derivative so small beside the swing of the curve is rounding
_TELLING = 1e-3  # relative uncertainty from which on nothing is proven
_FURTHER = 64.0  # how much larger steps are where those within reach did not tell


@dataclass(frozen=True)
class SlopeCheck:
    """A derivative along a curve against differences of its values, and the order of the Taylor error.

    Attributes
    ----------
    name
        What was checked.
    expected, slope
        The order at which the Taylor error vanishes if the derivative is right, and the one fitted to the
        straightest stretch of its log-log curve; infinite where the error is below rounding throughout.
    claimed, found, uncertainty
        The derivative as the code under test has it, as differences show it, and how far off these may be.
    steps, errors
        The Taylor error at each step.
    flaw
        What else is wrong with it, such as a gradient that is no tangent vector.
    """

    name: str
    expected: float
    slope: float
    claimed: float
    found: float
    uncertainty: float
    steps: NDArray[np.float64]
    errors: NDArray[np.float64]
    flaw: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the derivative is "right", "WRONG", or the check "inconclusive"."""
        size = max(abs(self.claimed), abs(self.found))
        if self.flaw or not np.isfinite(self.claimed) or abs(self.claimed - self.found) > self.uncertainty:
            return "WRONG"
        return "right" if self.uncertainty <= _TELLING * size else "inconclusive"

    @property
    def ok(self) -> bool:
        """Whether the derivative is proven right: not so if the check is inconclusive."""
        return self.verdict == "right"

    def __str__(self) -> str:
        if self.verdict == "right":
            return f"{self.name}: slope {self.slope:.3f}, expected {self.expected:g}: right"
        numbers = f"{self.claimed:.6g}, and {self.found:.6g} ± {self.uncertainty:.1g} by differences"
        if self.verdict == "WRONG":
            return f"{self.name}: {self.flaw or numbers}: WRONG"
        return f"{self.name}: {numbers}: inconclusive; check at another point, or with another seed"


def judgement(ok: bool) -> Verdict:
    """The last word of a line about something that either holds or does not."""
    return "right" if ok else "WRONG"


def compared(
    name: str, curve: Curve, model: list[float], reach: float, error: float = 0.0, flaw: str = ""
) -> SlopeCheck:
    """Check the last of the Taylor coefficients `model` of a curve, which is off by no more than `error`.

    Steps go down from `reach`, and where these do not tell, from much further away.
    """
    order = len(model) - 1
    for distance in (reach, _FURTHER * reach):
        check = _at_steps(name, measured(curve, order, distance), model, error, flaw)
        if check.verdict != "inconclusive":
            break
    return check


def _at_steps(name: str, seen: Measured, model: list[float], error: float, flaw: str) -> SlopeCheck:
    order = len(model) - 1
    claimed = order * model[-1]  # the derivative of this order, not the coefficient
    size = max(abs(claimed), abs(seen.derivative))
    uncertainty = float(max(_SAFETY * (seen.error + error), _EQUAL * size, _LOST * seen.swing))
    errors = np.abs(seen.values - np.polynomial.polynomial.polyval(seen.steps, model))
    slope = _fitted_slope(seen.steps, errors, seen.noise)
    return SlopeCheck(name, order + 1, slope, claimed, seen.derivative, uncertainty, seen.steps, errors, flaw)


def _fitted_slope(steps: Floats, errors: Floats, noise: Floats) -> float:
    """Fit the slope to the window with the straightest log-log curve, of those above rounding."""
    starts = range(len(steps) - _WINDOW + 1)
    windows = [slice(i, i + _WINDOW) for i in starts]
    with np.errstate(all="ignore"):
        seen = [w for w in windows if np.all(np.isfinite(errors[w]) & (errors[w] > 100 * noise[w]))]
    if not seen:
        return np.inf if np.isfinite(errors).any() else np.nan
    return min(_line(np.log(steps[window]), np.log(errors[window])) for window in seen)[1]


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """The misfit and the slope of the line through these points."""
    intercept, slope = np.polynomial.polynomial.polyfit(x, y, 1)
    return float(np.sum((y - intercept - slope * x) ** 2)), float(slope)
