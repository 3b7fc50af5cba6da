"""How far to go along a direction."""

from __future__ import annotations

from math import acos, copysign, cos, inf, isfinite, pi
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.geometry.base import Tangent, scale
from rankfold.problem import Here

NO_STEP = "no step along the negative gradient lowers the value by more than rounding"
_MAX_TRIALS = 50
# An exact step leaves no slope. Where more than this part of it is left, a sample is not good enough.
_MISLED = 0.3
# The retraction and the sum that is the cost are each off by a few units in the last place.
_UNITS = 10.0
# Of a constant that is smaller beside the largest coefficient, powers of quotients may overflow.
_LEAST = 1e-30
# Minima of a line that differ by less than this part of what they gain are as good as each other.
_TIE = 1e-9


class Step(NamedTuple):
    """A step along a direction: its factor t, where it leads, and how many trials were refused before.

    `calibration` is what t of a sample was multiplied with, or had to be; 0 where there is no good sample.
    """

    t: float
    here: Here
    backtracks: int
    calibration: float = 0.0


def moved(here: Here, direction: Tangent, t: float) -> Here:
    """Return the problem as seen from R(t ξ)."""
    there = here.problem.geometry.retract(here.tall, scale(t, here.lazily(direction)))
    return here.problem.at(here.made(there))


def exact(here: Here, direction: Tangent) -> Step | None:
    """Go to the global minimum on the line; None if rounding would hide the decrease.

    For a cost that is quadratic in W and a geometry whose retraction is straight: the value is then a
    polynomial in t, known from one pass over the data.
    """
    coefficients = here.polynomial(direction)
    t = minimiser(coefficients)
    lower = change_along(coefficients, t) < -here.noise
    return Step(t, moved(here, direction, t), 0, recalibrated(here, direction, t)) if lower else None


def sampled(here: Here, direction: Tangent, calibration: float) -> Step | None:
    """Go to the minimum that a sample of the data sees, times `calibration`.

    None if the cost has no sample to offer, or if the value is not lower there.
    """
    coefficients = here.sampled_polynomial(direction)
    if coefficients is None:
        return None
    t = calibration * minimiser(coefficients)
    there = moved(here, direction, t)
    return Step(t, there, 0, calibration) if there.value < here.value else None


def recalibrated(here: Here, direction: Tangent, t: float) -> float:
    """Return what a sample's step-size has to be multiplied with to be t, the exact one; 0 where it misleads.

    So a sample that has misled is made use of again as soon as it would not: for a sixteenth of a pass.
    """
    coefficients = here.sampled_polynomial(direction)
    return 0.0 if coefficients is None else calibrated(1.0, 1 - minimiser(coefficients) / t)


def calibrated(calibration: float, left: float) -> float:
    """Correct the calibration by the part of the slope that the last step left: 1 − t/t*, for a parabola.

    Late in a run a few rows carry most of the error, and a sample of rows sees too little of it: always by
    about the same factor, from one iteration to the next.
    """
    return calibration / (1 - left) if abs(left) <= _MISLED else 0.0


def armijo(here: Here, direction: Tangent, slope: float, t: float, decrease: float) -> Step | None:
    """Halve t until f(R(t ξ)) ≤ f + decrease · t · slope (Nocedal and Wright 2006, Procedure 3.1).

    None if no step gets there: what is left to gain is then within rounding. Steps that promise less than
    rounding are not tried.
    """
    for trial in range(_MAX_TRIALS):
        there = moved(here, direction, t)
        value = there.problem.value(there.x)
        if _falls(here, value, decrease * t * slope):
            return Step(t, there, trial)
        t /= 2
        if _hidden(here, t * slope):
            break
    _require_finite(value)
    return None


def wolfe(
    here: Here, direction: Tangent, slope: float, t: float, decrease: float, curvature: float
) -> Step | None:
    """Find a step that meets the strong Wolfe conditions (Nocedal and Wright 2006, Algorithms 3.5 and 3.6).

    A bracket between `low`, the best trial so far, and `high` is widened by doubling until it holds such a
    step, then narrowed by minimisers of cubic interpolants. If trials run out, or promise less than
    rounding, `low` is taken; None if no trial was lower than the start by more than rounding.
    """
    low, high = _Trial(0.0, here.value, slope, here), None
    for trial in range(_MAX_TRIALS):
        at = _tried(here, direction, t)
        if not _falls(here, at.value, decrease * t * slope) or at.value >= low.value:
            high = at
        elif abs(at.slope) <= -curvature * slope:
            return Step(t, at.here, trial)
        else:
            turned = at.slope >= 0 if high is None else at.slope * (high.t - low.t) >= 0
            low, high = at, (low if turned else high)
        if high is not None and abs(high.t - low.t) <= 1e-4 * max(high.t, low.t):
            break  # slopes are those of a transported direction: near, not equal, to the curve's
        t = 2 * t if high is None else _between(low, high)
        if _hidden(here, t * slope):
            break
    if low.t > 0:
        return Step(low.t, low.here, _MAX_TRIALS)
    _require_finite(at.value)
    return None


def at_noise_floor(here: Here, direction: Tangent, slope: float, t: float) -> bool:
    """Say whether a search that found nothing had nothing to find: the gain was within rounding.

    The gain is that of Newton's step along the line. Where a search began, t, says little: far from any
    minimum of the line it is a guess by the length of the direction. It counts only where the line does not
    curve upwards, so that it has no Newton step.
    """
    if t > 0:  # a search that needs no guess knows the whole line
        curvature = here.problem.geometry.inner(here.x, here.hessian(direction), direction)
        t = -slope / curvature if 0 < curvature < np.inf else t
    return -t * slope <= 1e3 * here.noise


def _falls(here: Here, value: float, promised: float) -> bool:
    """Say whether the value is lower by what was promised (a negative change), and not by rounding alone."""
    return here.value - value >= -promised and here.value - value > here.noise


def _hidden(here: Here, change: float) -> bool:
    """Say whether rounding may hide a change of the value.

    Steps that promise no more show nothing but rounding, which lowers the value as often as it raises it: to
    take one is to stay in place and call it progress.
    """
    return abs(change) <= _UNITS * here.noise


def _require_finite(value: float) -> None:
    if not np.isfinite(value):
        raise FloatingPointError(f"the cost is {value} however short the step")


class _Trial(NamedTuple):
    t: float
    value: float
    slope: float
    here: Here


def _tried(here: Here, direction: Tangent, t: float) -> _Trial:
    there = moved(here, direction, t)
    if not np.isfinite(there.value):  # too far: there is no gradient to ask for
        return _Trial(t, np.inf, np.inf, there)
    slope = here.problem.geometry.transported_inner(here.x, direction, there.x, there.gradient)
    return _Trial(t, there.value, slope, there)


def _between(a: _Trial, b: _Trial) -> float:
    """Return the minimiser of the cubic through two trials, kept a tenth of the bracket off its ends."""
    t = (a.t + b.t) / 2
    d1 = a.slope + b.slope - 3 * (a.value - b.value) / (a.t - b.t)
    # In units in which no square overflows: on the far side of an exponential, slopes may be anything.
    unit = max(abs(d1), abs(a.slope), abs(b.slope))
    if not 0 < unit < np.inf:
        return t
    d1, low, high = d1 / unit, a.slope / unit, b.slope / unit
    root = d1 * d1 - low * high
    if root >= 0:
        d2 = np.copysign(np.sqrt(root), b.t - a.t)
        bottom = high - low + 2 * d2
        t = b.t - (b.t - a.t) * (high + d2 - d1) / bottom if bottom else t
    margin = 0.1 * abs(b.t - a.t)
    return float(np.clip(t, min(a.t, b.t) + margin, max(a.t, b.t) - margin))


def first_step(here: Here, direction: Tangent, slope: float) -> float:
    """Return a first guess of the step: the linearised search (section 6.1), or one Newton step on the line.

    The linearised search, for costs that are quadratic in W, takes the global minimiser of the polynomial of
    degree 4 or 6 that is the cost along the curve x + t ξ.
    """
    if here.problem.cost.quadratic:
        t = minimiser(here.polynomial(direction))
    else:
        curvature = here.problem.geometry.inner(here.x, here.hessian(direction), direction)
        t = -slope / curvature if curvature > 0 else 0.0
    return t or 1.0 / (here.problem.geometry.norm(here.x, direction) or 1.0)


def minimiser(coefficients: NDArray[np.float64]) -> float:
    """Return the positive t at which the polynomial (constant first) is least; 0 if it decreases nowhere.

    Of several that are as good but for rounding, the nearest: factors that shrink along the line come to the
    same W once more, with the opposite sign, and rounding must not say from which of the two a run goes on.
    """
    slopes = [k * c for k, c in enumerate(coefficients.tolist())][:0:-1]
    largest = max(map(abs, slopes), default=0.0)
    if largest == 0.0 or not all(map(isfinite, slopes)):
        return 0.0
    roots = _roots([slope / largest for slope in slopes])
    # Rounding splits a double root into a complex pair: its real part is then as good a candidate.
    changes = {t: change_along(coefficients, t) for t in (0.0, *roots) if 0 <= t < inf}
    least = min(changes.values())
    return float(min(t for t, change in changes.items() if change <= (1 - _TIE) * least))


def _roots(slopes: list[float]) -> list[float]:
    """Real parts of the roots of a polynomial, highest coefficient first."""
    if len(slopes) == 4 and slopes[0] != 0.0 and abs(slopes[3]) > _LEAST:
        return _cubic_roots(*slopes)
    if len(slopes) < 3 or slopes[0] == 0.0 or slopes[-1] == 0.0:
        found = np.roots(slopes)
    else:  # the same, without its looks at shapes
        companion = np.zeros((len(slopes) - 1, len(slopes) - 1))
        companion[0] = [-slope / slopes[0] for slope in slopes[1:]]
        companion.flat[len(companion) :: len(companion) + 1] = 1.0
        found = np.linalg.eigvals(companion)
    return [float(t) for t in found.real]


def _cubic_roots(a: float, b: float, c: float, d: float) -> list[float]:
    """Real parts of the roots of at³ + bt² + ct + d, at a fifth of the cost of a companion's eigenvalues.

    First the real root nearest to 0, as the largest of the polynomial read backwards: late in a run, steps
    are near 1 and the other roots far away. Division by it leaves a quadratic polynomial.
    """
    t = 1 / _largest_root(c / d, b / d, a / d)
    b = b + a * t
    c = c + b * t
    inside = b * b - 4 * a * c
    if inside < 0:
        return [t, -b / (2 * a)]
    q = -(b + copysign(inside**0.5, b)) / 2
    return [t, q / a, c / q] if q else [t, 0.0]


def _largest_root(b: float, c: float, d: float) -> float:
    """The real root of u³ + bu² + cu + d, d not 0, that is largest in size, as Cardano and Viète found it."""
    # In units of u in which all coefficients are at most 1.
    unit: float = max(abs(b), abs(c) ** 0.5, abs(d) ** (1 / 3))
    b, c, d = b / unit, c / unit**2, d / unit**3
    shift, p, q = b / 3, c - b * b / 3, 2 * b**3 / 27 - b * c / 3 + d
    inside = q * q / 4 + p**3 / 27
    if inside > 0:
        root: float = (abs(q) / 2 + inside**0.5) ** (1 / 3)
        u = -copysign(root - p / (3 * root), q) - shift
    else:
        reach = 2 * (-p / 3) ** 0.5
        angle = acos(max(-1.0, min(1.0, 3 * q / (p * reach)))) / 3 if p * reach else 0.0
        u = max((reach * cos(angle - k * 2 * pi / 3) - shift for k in range(3)), key=abs)
    for _ in range(2):  # Newton's steps, as long as they are short: they are not at a root of several
        slope = (3 * u + 2 * b) * u + c
        step = (((u + b) * u + c) * u + d) / slope if slope else 0.0
        u -= step if abs(step) < 1e-3 * abs(u) else 0.0
    return unit * u


def change_along(coefficients: NDArray[np.float64], t: float) -> float:
    """Return how far the polynomial changes from 0 to t.

    Changes, not values: beside a large constant a small decrease would be rounded away.
    """
    change = 0.0
    for c in coefficients[:0:-1].tolist():
        change = change * t + float(c)
    return change * t
