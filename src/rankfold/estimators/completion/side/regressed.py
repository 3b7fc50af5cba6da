"""Beliefs regressed on traits: what the priors of variational Bayes expect of lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.estimators.completion.bayes.beliefs import Beliefs, fewest, square
from rankfold.estimators.completion.side.regression import Squares, most_likely_ridge
from rankfold.linalg import thin_svd
from rankfold.remembered import remembered

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Regressed:
    """Traits Z of lines, of which those `present` have entries; `logs` is what else a prior knows of them."""

    Z: Floats
    present: NDArray[np.bool_]
    logs: Floats
    bias: bool

    @remembered
    def beside(self) -> Floats:
        """An orthonormal basis of what the prior's mean has beside traits: a constant, and the logarithms."""
        here = np.maximum(self.logs[self.present] - fewest(self.logs), 0.0)
        both = np.column_stack([np.ones(len(here)), here])[:, : 2 * self.bias]
        U, s, _ = thin_svd(both)
        return np.asarray(U[:, s > 1e-10 * s.max(initial=0.0)])

    @remembered
    def apart(self) -> Floats:
        """The traits of lines with entries, without what a constant and the logarithms say of them."""
        return self._without(self.Z[self.present])

    @remembered
    def _squares(self) -> Squares:
        return Squares.of(self.apart, np.ones(len(self.apart)))

    def _without(self, X: Floats) -> Floats:
        return np.asarray(X - self.beside @ (self.beside.T @ X))

    def explained(self, beliefs: Beliefs) -> tuple[Floats, Beliefs]:
        """Return coefficients of the traits, and the beliefs of lines with entries less what they explain.

        Factors and offsets have a ridge each: traits that tell much of the one may tell nothing of the other.
        """
        means, sure = beliefs.means[self.present].astype(np.float64), beliefs.covariances[self.present]
        left = self._without(means)
        second = left.T @ left + square(sure.sum(axis=0, dtype=np.float64), means.shape[1])
        coefficients = self.coefficients(self.apart.T @ left, second)
        return coefficients, Beliefs(means - self.Z[self.present] @ coefficients, sure)

    def coefficients(self, right: Floats, second: Floats) -> Floats:
        """Return those of the traits, given what traits and lines, less what is beside traits, sum up to.

        `right` are the sums of their products, `second` the sums of the expected squares of the lines.
        """
        d, found = right.shape[1], np.zeros_like(right)
        for group in (slice(0, d - self.bias), slice(d - self.bias, d)):
            if group.start < group.stop:
                count = len(self.apart)
                ridge = most_likely_ridge(self._squares, right[:, group], second[group, group], count)
                if np.isfinite(ridge):
                    found[:, group] = self._squares.solved(right[:, group], ridge)
        return found
