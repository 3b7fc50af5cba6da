"""Sums and multiples of costs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import ANY_SHAPE, Array, Cost, Evaluation


class Combination(Cost):
    """Σ a_k f_k(W), written `f + 0.1 * g`.

    Parameters
    ----------
    terms
        Pairs (a_k, f_k). All f_k that have a shape must have the same. The start point is that of the first
        which offers one.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 1], [0, 1], [1.0, 2.0], (2, 2)) + 0.1 * rf.Frobenius(1.0)
    >>> cost.quadratic, cost.value_at_zero
    (True, 2.5)
    """

    def __init__(self, terms: Iterable[tuple[float, Cost]]):
        self.terms = tuple(_flat(terms))
        shapes = {term.shape for _, term in self.terms if term.shape != ANY_SHAPE}
        if len(shapes) > 1:
            raise ValueError(f"costs that are added must have one shape; got {sorted(shapes)}")
        self.shape = shapes.pop() if shapes else ANY_SHAPE
        self.quadratic = all(term.quadratic for _, term in self.terms)
        self.nonnegative = all(a >= 0 and term.nonnegative for a, term in self.terms)
        self.has_start = any(term.has_start for _, term in self.terms)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        (a, first), *others = [(a, term.evaluate(L, R)) for a, term in self.terms]
        value, f_L, f_R = (a * part for part in first)
        for a, more in others:
            value, f_L, f_R = value + a * more.value, f_L + a * more.f_L, f_R + a * more.f_R
        return Evaluation(value, f_L, f_R)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        (a, first), *others = [(a, term.derivative(L, R, dL, dR)) for a, term in self.terms]
        df_L, df_R = (a * part for part in first)
        for a, more in others:
            df_L, df_R = df_L + a * more[0], df_R + a * more[1]
        return df_L, df_R

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        return sum(a * term.value(L, R) for a, term in self.terms)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ), if all terms are quadratic."""
        if not self.quadratic:
            return super().polynomial(Ls, Rs)
        coefficients = np.zeros(2 * (len(Ls) + len(Rs)) - 3)
        for a, term in self.terms:
            coefficients += a * term.polynomial(Ls, Rs)
        return coefficients

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start point of the first term that offers one."""
        for _, term in self.terms:
            if term.has_start:
                return term.start(rank, seed)
        return super().start(rank, seed)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        return sum(a * term.value_at_zero for a, term in self.terms)


def _flat(terms: Iterable[tuple[float, Cost]]) -> Iterable[tuple[float, Cost]]:
    """Terms with those of inner combinations in their place, so that a sum of sums is one sum."""
    for a, term in terms:
        if not isfinite(a):
            raise ValueError(f"a cost can be multiplied by finite numbers only; got {a}")
        if type(term) is Combination:  # a subclass knows more of itself than its terms tell
            yield from ((a * b, inner) for b, inner in term.terms)
        else:
            yield a, term
