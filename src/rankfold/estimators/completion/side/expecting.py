"""What the traits of lines make one expect of them: a factor and an offset, linear in the traits.

Lines X = [L, b] are charged for how far they are from what is expected, and coefficients for their size:

    Σ √n_i ‖L_i − z_i A‖² + κ_L mean(√n) ‖A‖²    and    Σ (b_i − m − z_i a)² + κ_b ‖a‖²

over the lines with entries. The best A, m and a for given lines are linear in these, so what is charged stays
a quadratic form of the lines alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.estimators.completion.side.regression import NONE, Squares, most_likely_ridge
from rankfold.remembered import remembered

Floats = NDArray[Any]


class Ridges(NamedTuple):
    """κ_L and κ_b; infinite where traits say nothing."""

    factors: float = NONE
    offset: float = NONE


_NO_RIDGES = Ridges()


@dataclass(frozen=True, eq=False)
class Expecting:
    """Traits Z of the lines of a side, of which `counts` says how many entries they have.

    Where no line has any, the most likely ridges are infinite: nothing is expected, and nothing asked for.
    """

    Z: Floats
    counts: Floats
    ridges: Ridges = _NO_RIDGES

    def with_ridges(self, ridges: Ridges) -> Expecting:
        """Return the same with other ridges."""
        return replace(self, ridges=ridges)

    @remembered
    def present(self) -> NDArray[np.bool_]:
        """Which lines have entries: the others are what is expected, and say nothing."""
        return np.asarray(self.counts > 0)

    @property
    def idle(self) -> bool:
        """Whether nothing is expected of any line."""
        return bool(np.isinf(self.ridges).all())

    @remembered
    def _weights(self) -> Floats:
        return np.where(self.present, np.sqrt(np.maximum(self.counts, 1.0)), 0.0)

    @remembered
    def _middle(self) -> Floats:
        """The mean traits of lines with entries."""
        return np.asarray(self.Z[self.present].mean(axis=0))

    @remembered
    def _of_factors(self) -> Squares:
        return Squares.of(self.Z, self._weights)

    @remembered
    def _of_offsets(self) -> Squares:
        return Squares.of(self.Z - self._middle, self.present.astype(np.float64))

    def coefficients(self, X: Floats, bias: bool) -> Floats:
        """Return the best [m, a; 0, A] for lines X: [1, z] times it is what is expected of a line."""
        X = X.astype(np.float64, copy=False)
        r, k = X.shape[1] - bias, self.Z.shape[1]
        found = np.zeros((1 + k, X.shape[1]))
        if r and np.isfinite(self.ridges.factors):
            ridge = self.ridges.factors * float(self._weights[self.present].mean())
            found[1:, :r] = self._of_factors.solved(self.Z.T @ (self._weights[:, None] * X[:, :r]), ridge)
        if bias:
            found[0, -1] = middle = float(X[self.present, -1].mean())
            if np.isfinite(self.ridges.offset):
                left = np.where(self.present, X[:, -1] - middle, 0.0)
                right = (self.Z - self._middle).T @ left[:, None]
                found[1:, -1:] = self._of_offsets.solved(right, self.ridges.offset)
                found[0, -1] -= self._middle @ found[1:, -1]
        return found

    def expected(self, X: Floats, bias: bool) -> Floats:
        """Return what is expected of each line, given all lines."""
        A = self.coefficients(X, bias)
        return np.asarray(A[0] + self.Z @ A[1:])

    def off(self, X: Floats, bias: bool) -> Floats:
        """Return how far lines with entries are from what is expected of them."""
        return np.asarray(self.present[:, None] * (X - self.expected(X, bias)))

    def estimated(self, X: Floats, bias: bool, shrinkage: float) -> Ridges:
        """Return the most likely ridges, given lines that were fitted without expectations.

        An offset that shrank by s = n / (n + ρ) was fitted to entries whose mean deviates by b / s, which has
        the variance τ² / s about what is expected.
        """
        X, r, here = X[self.present].astype(np.float64), X.shape[1] - bias, self.present
        Z, factors, offset = self.Z[here], NONE, NONE
        if r and here.any():
            weights = self._weights[here] / self._weights[here].mean()
            L = X[:, :r] * weights[:, None]
            sizes = _effective(np.sum(L * X[:, :r], axis=1))
            factors = most_likely_ridge(Squares.of(Z, weights), Z.T @ L, X[:, :r].T @ L, sizes)
        if bias and here.any():
            s = self.counts[here] / (self.counts[here] + shrinkage)
            b = (X[:, -1] - X[:, -1].mean()) / s
            b = b - np.average(b, weights=s)
            centred = Z - np.average(Z, axis=0, weights=s)
            right = centred.T @ (s * b)[:, None]
            second, sizes = np.array([[s @ b**2]]), _effective(s * b**2)
            offset = most_likely_ridge(Squares.of(centred, s), right, second, sizes)
        return Ridges(factors, offset)

    def started(self, X: Floats, bias: bool, shrinkage: float) -> Floats:
        """Return lines to start from: those given, whose offsets lean on what is expected as they will."""
        if not bias or not np.isfinite(self.ridges.offset):
            return X
        s = self.counts / (self.counts + shrinkage)
        middle = float(X[self.present, -1].mean())
        b = np.divide(X[:, -1] - middle, s, out=np.zeros(len(X)), where=s > 0)
        Z = self.Z - np.average(self.Z, axis=0, weights=s)
        a = Squares.of(Z, s).solved(Z.T @ (s * b)[:, None], self.ridges.offset)
        X = X.copy()
        X[:, -1] += ((1 - s) * (Z @ a)[:, 0]).astype(X.dtype)
        return X


def _effective(squares: Floats) -> float:
    """Return how many lines there would be if all had as large a square: few large ones tell little more.

    Lines are less alike than the likelihood takes them to be, and chance would be taken for a reason.
    """
    total = float(squares.sum())
    return total**2 / float(squares @ squares) if total > 0 else 1.0


def geometric_mean(ridges: list[Ridges]) -> Ridges:
    """Return the mean over folds: none where half of them say none."""
    found = []
    for each in zip(*ridges, strict=True):
        finite = [np.log(ridge) for ridge in each if np.isfinite(ridge)]
        found.append(float(np.exp(np.mean(finite))) if 2 * len(finite) > len(each) else NONE)
    return Ridges(*found)
