"""The built-in losses, entry by entry: (ℓ, ℓ', ℓ'') as functions of w = W_ij, the datum y and a parameter.

Written with NumPy functions only, so that the same lines serve whole arrays and, compiled, the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Triple = tuple[Any, Any, Any]


def square(w: Any, y: Any, _: float) -> Triple:
    """(w - y)²."""
    e = w - y
    return e * e, 2.0 * e, 2.0 + 0.0 * e


def logistic(w: Any, y: Any, _: float) -> Triple:
    """-log P(y) for y in {0, 1} and P(1) = 1 / (1 + exp(-w))."""
    p = 0.5 + 0.5 * np.tanh(0.5 * w)  # no overflow for any w
    return np.logaddexp(0.0, w) - y * w, p - y, p * (1.0 - p)


def huber(w: Any, y: Any, delta: float) -> Triple:
    """(w - y)² where |w - y| <= delta, and its tangent beyond."""
    e = w - y
    c = np.minimum(np.maximum(e, -delta), delta)
    return c * (2.0 * e - c), 2.0 * c, 2.0 * (np.abs(e) <= delta)


def poisson(w: Any, y: Any, _: float) -> Triple:
    """-log P(y), less its constant, for counts y with mean exp(w)."""
    mean = np.exp(w)
    return mean - y * w, mean - y, mean


def squared_hinge(w: Any, y: Any, _: float) -> Triple:
    """max(0, 1 - w)² for y = 1, max(0, 1 + w)² for y = 0: entries beyond their margin of 1 cost nothing."""
    sign = 2.0 * y - 1.0
    short = np.maximum(0.0, 1.0 - sign * w)
    return short * short, -2.0 * sign * short, 2.0 * (short > 0.0)


# A kernel holds its loss as the position in this list: an integer is the same in every process, so that
# numba's cache on disk finds the kernel again.
BUILT_IN = (square, logistic, huber, poisson, squared_hinge)
