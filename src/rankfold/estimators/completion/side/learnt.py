"""What a fitted model knows of features: what to expect of a line that has some, and no entries yet."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.offsets import Offsets
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.bayes.beliefs import triangle
from rankfold.estimators.completion.bayes.posterior import Posterior
from rankfold.estimators.completion.folding import Lines
from rankfold.estimators.completion.joint import Joint
from rankfold.estimators.completion.penalised import Fitted
from rankfold.estimators.completion.side.given import Given, named
from rankfold.estimators.completion.side.implicit import NAMES
from rankfold.estimators.completion.side.tables import given_table
from rankfold.estimators.completion.side.traits import Traits

Floats = NDArray[Any]


class LearntFeatures(NamedTuple):
    """Features of the rows, or of the columns, of a fitted model.

    Attributes
    ----------
    traits
        How traits z are made of features.
    coefficients
        [1, z] times this is what is expected of a line: its factor and, with `bias`, its offset. All 0 where
        the features were of no use.
    expected
        That of the lines of the model.
    unseen
        What is added for a line without entries: how far those with entries are from what is expected of
        them, on an average over entries. What is asked for of new lines are entries, and lines with many are
        not like those with few.
    """

    traits: Traits
    coefficients: Floats
    expected: Floats
    unseen: Floats

    def of(self, Z: Floats) -> Floats:
        """Return what is expected of lines with these traits."""
        return np.asarray(self.coefficients[0] + Z @ self.coefficients[1:])

    def extended(self, size: int) -> LearntFeatures:
        """Return the same for `size` lines, of which the new ones have no features."""
        more = np.repeat(self.coefficients[:1], size - len(self.expected), axis=0)
        return self._replace(expected=np.vstack([self.expected, more]))

    @property
    def implicit(self) -> bool:
        """Whether nobody gave these features: they say where entries are."""
        names = self.traits.encoding.names
        return names is not None and set(names) <= set(NAMES)

    def beside(self, traits: Traits) -> LearntFeatures:
        """Return the same of these lines for other traits, which say nothing of any line."""
        nothing = np.zeros((traits.basis.shape[1], self.expected.shape[1]))
        return self._replace(traits=traits, coefficients=np.vstack([self.coefficients[:1], nothing]))

    def lowered(self, by: float) -> LearntFeatures:
        """Return the same for lines with offsets that are less by so much."""
        A, expected = self.coefficients.copy(), self.expected.copy()
        A[0, -1] -= by
        expected[:, -1] -= by
        return self._replace(coefficients=A, expected=expected)

    @property
    def unknown(self) -> NDArray[np.bool_]:
        """Of which lines nothing particular is expected."""
        return np.asarray((self.expected == self.coefficients[0]).all(axis=1))


Learnt = tuple[LearntFeatures | None, LearntFeatures | None]


def fitted_coefficients(joint: Joint, factors: FactorPair, offsets: Offsets) -> tuple[Any, Any]:
    """Return the coefficients that a fit by sweeps ends with, beside offsets that are apart from the mean."""
    found: list[Floats | None] = []
    for axis, expecting in zip(Axis, joint.expecting, strict=True):
        if expecting is None:
            found.append(None)
            continue
        own = axis.of((offsets.rows, offsets.cols))
        X = np.column_stack([axis.of(factors), own]) if joint.bias else axis.of(factors)
        found.append(expecting.coefficients(X, joint.bias))
    return found[0], found[1]


def learnt(
    given: Given, traits: tuple[Any, Any], implicit: Given, fitted: Fitted, counts: Any, bias: bool
) -> tuple[Learnt, Offsets]:
    """Return what a fit has learnt, coefficients of None were of no use, and the offsets beside it.

    Where features that were given were not, and implicit ones were, these say what is expected of the lines
    of the model, and nothing of new ones. A line never seen has no offset. Where implicit features say what
    lines are like that few have seen, that would make it one of these: it is to be as lines are on an average
    over entries, so that offsets are counted from there.
    """
    found: list[LearntFeatures | None] = []
    mean, *offsets = fitted.offsets
    for k, (axis, side, Z, own) in enumerate(zip(Axis, given, traits, implicit, strict=True)):
        A = axis.of(fitted.coefficients)
        X = np.column_stack([axis.of(fitted.factors), offsets[k]])[:, : fitted.factors[0].shape[1] + bias]
        if own is None:
            found.append(None if side is None else _of_lines(side.traits, Z, A, X, axis.of(counts)))
            continue
        made = _of_lines(own.traits, own.Z, A, X, axis.of(counts))
        if bias:
            by = float(np.average(offsets[k], weights=axis.of(counts)))
            made, mean, offsets[k] = made.lowered(by), mean + by, offsets[k] - by
        found.append(made if side is None else made.beside(side.traits))
    return (found[0], found[1]), Offsets(mean, offsets[0], offsets[1])


def _of_lines(traits: Traits, Z: Floats, A: Floats | None, X: Floats, counts: Any) -> LearntFeatures:
    """What was learnt of lines X with traits Z."""
    if A is None:
        nothing = np.zeros((1 + Z.shape[1], X.shape[1]))
        return LearntFeatures(traits, nothing, np.zeros(X.shape), np.zeros(X.shape[1]))
    expected = A[0] + Z @ A[1:]
    return LearntFeatures(traits, A, expected, np.average(X - expected, axis=0, weights=counts))


def lines_of(expected: Floats, rank: int, posterior: Posterior | None, axis: Axis) -> Lines:
    """Return lines that are what is expected of them, and as sure as the prior."""
    offsets = expected[:, rank] if expected.shape[1] > rank else np.zeros(len(expected))
    sure = None
    if posterior is not None:
        sure = np.repeat(triangle(axis.of(posterior.priors).covariance)[None], len(expected), axis=0)
    return Lines(offsets, expected[:, :rank], sure)


def new_traits(
    features: Any, axis: Axis, known: NDArray[Any] | None, mine: LearntFeatures | None
) -> tuple[NDArray[Any], Floats]:
    """Return the labels of features that are given to a fitted model, and their traits."""
    what = named(axis)
    if mine is None or mine.implicit:
        raise ValueError(f"this model was fitted without {what}")
    if known is None:
        raise ValueError(f"this model knows {axis.value}s by position: {what} of all of them belong to fit")
    table = given_table(features, axis, None, known)
    assert table.labels is not None  # as those of the entries have some
    return table.labels, mine.traits(table, what)
