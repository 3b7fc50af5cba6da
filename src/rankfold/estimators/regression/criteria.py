"""Choosing the rank and the regularisation of a regression: criteria, and the path of their values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, check_cv

from rankfold.estimators.regression.observations import Fit, Observations
from rankfold.run.display import progress
from rankfold.selection.paths import axes_or_new, marked, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
CRITERIA = "cv", "aic", "bic", "gcv"
_PATIENCE = 3  # weights, or ranks, in a row that may be no better before the path ends: no other one will be


@dataclass(frozen=True, eq=False)
class SelectionPath:
    """A criterion for every rank and weight of the penalty tried; the least value is the choice.

    Attributes
    ----------
    criterion
        "cv" (mean loss of held-out responses: their mean squared error), "aic", "bic" or "gcv".
    ranks, regularizations
        What was tried.
    scores
        The criterion, a row per rank and a column per weight of the penalty; infinite where not tried.
    """

    criterion: str
    ranks: NDArray[np.int64]
    regularizations: Floats
    scores: Floats

    @property
    def best(self) -> tuple[int, float]:
        """The rank and the regularization of the least score; of equal ones the least rank."""
        i, j = np.unravel_index(int(np.argmin(self.scores)), self.scores.shape)
        return int(self.ranks[i]), float(self.regularizations[j])

    def __str__(self) -> str:
        weights = self.regularizations[np.argmin(self.scores, axis=1)]
        header = f"rank  {self.criterion:>12}  regularization"
        columns = self.ranks, self.scores.min(axis=1), weights
        return table(header, "{:4d}  {:12.6g}  {:14.4g}", columns, self.best[0])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the score of each rank with the best regularization for it."""
        ax = axes_or_new(ax)
        rank, weight = self.best
        ax.plot(self.ranks, self.scores.min(axis=1), "o-")
        label = f"rank {rank}, regularization {weight:.3g}"
        return marked(ax, rank, label, xlabel="rank", ylabel=self.criterion)


def information(criterion: str, squares: float, size: int, freedom: float) -> float:
    """Return the criterion of a fit that leaves the sum of squares `squares` on `size` responses.

    It is infinite for a fit with nothing left over, about which such a criterion knows nothing.
    """
    if freedom >= size or squares <= 0:
        return np.inf
    if criterion == "gcv":
        return float(size * squares / (size - freedom) ** 2)
    price = 2.0 if criterion == "aic" else float(np.log(size))
    return float(size * np.log(squares / size) + price * freedom)


def degrees_of_freedom(singular_values: Any, regularization: float, targets: int, rank: int) -> float:
    """Return r (p + k - r) for k responses and p = Σ d² / (d² + λ), the effective number of predictors.

    It is the dimension of the matrices of rank r between p predictors and k responses; a rank above p has no
    room to unfold.
    """
    squares = np.asarray(singular_values, dtype=np.float64) ** 2
    squares = squares[squares > 0]
    p = float(np.sum(squares / (squares + regularization)))
    r = min(float(rank), p)
    return r * (p + targets - r)


@dataclass(frozen=True, eq=False)
class Candidates:
    """Ranks and weights of the penalty to choose from, and how to fit with them."""

    ranks: NDArray[np.int64]
    regularizations: Floats
    fits: Callable[..., Iterator[Fit]]  # to observations, of each of some ranks, with one regularization

    def cross_validated(self, data: Observations, cv: Any, random_state: Any, verbose: int) -> SelectionPath:
        """Score by the mean loss of held-out responses; a number of folds shuffles them.

        Where there is a closed form, every rank is tried with every weight. Else the weight is chosen at the
        largest rank, from the largest down until several in vain, and the rank with that weight, from 1 on
        until several in vain.
        """
        folds = list(_folds(cv, len(data.X), random_state).split(data.X, data.Y))
        with progress(verbose, "cross-validation") as tell:
            score = partial(self._held_out, data, folds, tell)
            if data.closed_form:
                scores = score(self.ranks, self.regularizations)
            else:
                scores = np.full((self.ranks.size, self.regularizations.size), np.inf)
                for j in reversed(range(self.regularizations.size)):
                    scores[-1:, [j]] = score(self.ranks[-1:], self.regularizations[[j]])
                    if int(np.argmin(scores[-1])) - j == _PATIENCE:
                        break
                best = int(np.argmin(scores[-1]))
                for i in range(self.ranks.size - 1):
                    scores[[i], best] = score(self.ranks[[i]], self.regularizations[[best]])[0]
                    if i - int(np.argmin(scores[: i + 1, best])) == _PATIENCE:
                        break
        return SelectionPath("cv", self.ranks, self.regularizations, scores)

    def _held_out(
        self, data: Observations, folds: Any, tell: Callable[[str], None], ranks: Any, weights: Floats
    ) -> Floats:
        """The mean loss of held-out responses for each of some ranks and weights."""
        losses, held_out = np.zeros((len(ranks), len(weights))), 0.0
        for k, (train, test) in enumerate(folds):
            seen, unseen = data.take(train), data.take(test)
            for j, weight in enumerate(weights):
                fitted = self.fits(seen, ranks=ranks, regularization=weight)
                losses[:, j] += [unseen.losses(fit) for fit in fitted]
            held_out += float(unseen.weights @ unseen.known.sum(axis=1))
            tell(f"fold {k + 1}  held-out loss {np.min(losses / held_out, initial=np.inf):.6g}")
        return losses / held_out

    def by_criterion(self, data: Observations, criterion: str) -> SelectionPath:
        """Score by what is left of the responses, and how many degrees of freedom that took."""
        targets = data.Y.shape[1]
        d = np.linalg.svd(data.centred_X, compute_uv=False)
        size = int(np.count_nonzero(data.known[data.weights > 0]))
        scores = np.zeros((self.ranks.size, self.regularizations.size))
        for j, weight in enumerate(self.regularizations):
            for i, fit in enumerate(self.fits(data, ranks=self.ranks, regularization=weight)):
                freedom = degrees_of_freedom(d, weight, targets, int(self.ranks[i]))
                freedom += targets * data.fit_intercept
                scores[i, j] = information(criterion, data.losses(fit), size, freedom)
        return SelectionPath(criterion, self.ranks, self.regularizations, scores)


def _folds(cv: Any, samples: int, random_state: Any) -> Any:
    """Return what splits samples: no more folds than there are samples, or what the user gives."""
    if not isinstance(cv, Integral):
        return check_cv(cv)
    if samples < 2:
        raise ValueError(
            "1 sample leaves none to hold out: give rank and regularization, or choose by another criterion"
        )
    return KFold(min(int(cv), samples), shuffle=True, random_state=random_state)
