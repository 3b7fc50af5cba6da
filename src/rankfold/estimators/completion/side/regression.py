"""Lines regressed on their traits, with a ridge that the lines themselves make most likely."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]
# Ridges looked at, in units of the largest sum of squares of a trait: next to none, up to where nothing of
# the coefficients is left.
_RIDGES = np.logspace(-6, 4, 61)
NONE = np.inf  # the ridge that leaves no coefficients
_TINY = 1e-12


class Squares(NamedTuple):
    """ZᵀWZ of traits Z and weights W of lines, by its eigenvalues and vectors."""

    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, Z: Floats, weights: Floats) -> Squares:
        """Sum up."""
        values, vectors = np.linalg.eigh((Z * weights[:, None]).T @ Z)
        return cls(np.maximum(values, 0.0), vectors)

    def solved(self, right: Floats, ridge: float) -> Floats:
        """Return (ZᵀWZ + ridge I)⁻¹ times the right side; what no line tells is 0."""
        turned, divisors = self.vectors.T @ right, self.values + ridge
        least = _TINY * (self.values.max(initial=0.0) or 1.0)
        parts = np.divide(1.0, divisors, out=np.zeros_like(divisors), where=divisors > least)
        return np.asarray(self.vectors @ (parts[:, None] * turned))


def most_likely_ridge(squares: Squares, right: Floats, second: Floats, lines: float) -> float:
    """Return the ridge κ that makes lines most likely, given ZᵀWT and TᵀWT of their values T.

    The values of a line are N(z A, Σ / w), the coefficients A ~ N(0, Σ / κ): with A integrated out and Σ at
    its best, what is to be made small is n log det Σ + g Σ_k log(1 + e_k / κ), where e are the eigenvalues of
    ZᵀWZ, g the number of values of a line, and n Σ = TᵀWT − TᵀWZ (ZᵀWZ + κ)⁻¹ ZᵀWT. `NONE`, no coefficients,
    unless that is less by log n, the price of a number that is estimated (Schwarz 1978).
    """
    top, g = float(squares.values.max(initial=0.0)), len(second)
    size = float(np.trace(second)) / max(g, 1)
    if not top or not size > 0:
        return NONE
    second = (second + _TINY * size * np.eye(g)) / size
    turned = squares.vectors.T @ right / np.sqrt(size)

    def unlikely(ridge: float) -> float:
        explained = turned.T @ (turned / (squares.values + ridge)[:, None])
        volume = np.linalg.slogdet(second - explained)
        if volume[0] <= 0:
            return np.inf
        return float(lines * volume[1] + g * np.sum(np.log1p(squares.values / ridge)))

    costs = [unlikely(ridge) for ridge in top * _RIDGES]
    best = int(np.argmin(costs))
    without = lines * float(np.linalg.slogdet(second)[1])
    return float(top * _RIDGES[best]) if costs[best] < without - np.log(lines) else NONE
