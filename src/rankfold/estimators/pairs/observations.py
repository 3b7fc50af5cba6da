"""What models of pairs are fitted to: outcomes, classes or comparisons of pairs, each as a cost."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import special

from rankfold.costs.losses import Loss
from rankfold.costs.pairs import MultinomialPairs, OfPairs, Pairs
from rankfold.costs.ranking import RankedPairs
from rankfold.estimators.pairs.paired_features import PairedFeatures

Floats = NDArray[Any]
_HELD_OUT = 0.1  # of the pairs, to choose the rank


@dataclass(frozen=True, eq=False)
class Observations(ABC):
    """What is known of pairs with these features: a mean of losses, and what it is a mean of."""

    features: PairedFeatures

    @property
    @abstractmethod
    def size(self) -> int:
        """How many terms the mean loss has."""

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix of all coefficients."""
        return self.features.shape

    @property
    def limits(self) -> str:
        """What the two numbers of that shape are."""
        return "one more than the features of each side"

    @abstractmethod
    def cost(self) -> OfPairs:
        """Return the mean loss, as a function of the coefficients."""

    @abstractmethod
    def losses(self, L: Floats, R: Floats) -> Floats:
        """Return the loss of each term at the coefficients L Rᵀ."""

    @abstractmethod
    def split(self, rng: np.random.RandomState) -> tuple[Self, Self]:
        """Return a part to fit to and a part that is held out, a tenth of the pairs."""


@dataclass(frozen=True, eq=False)
class Outcomes(Observations):
    """A number y for each pair, or 0 or 1."""

    y: Floats
    weights: Floats
    loss: str

    @property
    def size(self) -> int:
        """How many pairs there are."""
        return self.y.size

    def cost(self) -> OfPairs:
        """Return the mean of the losses of ŷ."""
        left, right, pairs = self.features.left, self.features.right, self.features.pairs
        return Pairs(left.matrix, right.matrix, self.y, self.loss, pairs, self.weights, linear=True)

    def losses(self, L: Floats, R: Floats) -> Floats:
        """Return the loss of each ŷ."""
        value, _, _ = Loss.named(self.loss)(self.features.scores(L, R), self.y)
        return np.asarray(self.weights * value)

    def split(self, rng: np.random.RandomState) -> tuple[Self, Self]:
        """Return the pairs to fit to and those held out."""
        train, test = _held_out_pairs(self.size, rng)
        return self._take(train), self._take(test)

    def _take(self, some: NDArray[Any]) -> Self:
        return replace(self, features=self.features.take(some), y=self.y[some], weights=self.weights[some])


@dataclass(frozen=True, eq=False)
class Classes(Outcomes):
    """One of `count` classes for each pair, as a number in y."""

    count: int

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix of all coefficients, those of all classes side by side."""
        left, right = self.features.shape
        return left, right * self.count

    @property
    def limits(self) -> str:
        """What the two numbers of that shape are."""
        return f"{super().limits}, the right one times {self.count} classes"

    def cost(self) -> OfPairs:
        """Return the mean of -log P(y)."""
        left, right, pairs = self.features.left, self.features.right, self.features.pairs
        return MultinomialPairs(
            left.matrix, right.matrix, self.y, self.count, pairs, self.weights, linear=True
        )

    def losses(self, L: Floats, R: Floats) -> Floats:
        """Return -log P(y) of each pair."""
        logits = self.features.scores(L, R.reshape(-1, self.count, L.shape[1]))
        chances = special.log_softmax(logits, axis=1)
        return np.asarray(-self.weights * chances[np.arange(self.size), self.y])


@dataclass(frozen=True, eq=False)
class Comparisons(Observations):
    """Pair better[t] is to have a higher score than pair worse[t]."""

    better: NDArray[Any]
    worse: NDArray[Any]
    weights: Floats

    @property
    def size(self) -> int:
        """How many comparisons there are."""
        return self.better.size

    def cost(self) -> OfPairs:
        """Return the mean of the logistic losses of the differences."""
        left, right = self.features.left.matrix, self.features.right.matrix
        pairs = self.features.row_numbers
        return RankedPairs(left, right, pairs, self.better, self.worse, weights=self.weights, linear=True)

    def losses(self, L: Floats, R: Floats) -> Floats:
        """Return the loss of each difference."""
        scores = self.features.scores(L, R)
        return np.asarray(self.weights * np.logaddexp(0.0, scores[self.worse] - scores[self.better]))

    def split(self, rng: np.random.RandomState) -> tuple[Self, Self]:
        """Return the comparisons to fit to, and those with a pair that is held out."""
        unseen = np.zeros(self.features.count, dtype=bool)
        unseen[_held_out_pairs(unseen.size, rng)[1]] = True
        test = unseen[self.better] | unseen[self.worse]
        if test.all() or not test.any():
            raise ValueError("rank='auto' holds out comparisons, and there are too few of them: give a rank")
        return self._take(~test), self._take(test)

    def _take(self, some: NDArray[np.bool_]) -> Self:
        return replace(self, better=self.better[some], worse=self.worse[some], weights=self.weights[some])


def _held_out_pairs(count: int, rng: np.random.RandomState) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return which pairs to fit to, and which to hold out: a tenth of them, one at least."""
    if count < 2:
        raise ValueError(f"rank='auto' holds out a pair, and there is {count} sample: give a rank")
    order = rng.permutation(count)
    held_out = max(1, round(_HELD_OUT * count))
    return np.sort(order[held_out:]), order[:held_out]
