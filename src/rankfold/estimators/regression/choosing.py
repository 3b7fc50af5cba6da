"""Choosing the rank and the regularisation of a regression."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import KFold, check_cv

from rankfold.estimators.fitting import Minimisation
from rankfold.estimators.regression.criteria import SelectionPath, degrees_of_freedom, information
from rankfold.estimators.regression.observations import Observations, fits
from rankfold.run.display import progress


@dataclass(frozen=True, eq=False)
class Candidates:
    """Ranks and weights of the penalty to choose from, and how to minimise for each."""

    ranks: NDArray[np.int64]
    regularizations: NDArray[np.float64]
    minimisation: Minimisation

    def cross_validated(self, data: Observations, cv: Any, random_state: Any) -> SelectionPath:
        """Score by the mean squared error of held-out responses; a number of folds shuffles them."""
        folds = (
            KFold(int(cv), shuffle=True, random_state=random_state)
            if isinstance(cv, Integral)
            else check_cv(cv)
        )
        squares = np.zeros((self.ranks.size, self.regularizations.size))
        held_out = 0.0
        with progress(self.minimisation.verbose, "cross-validation") as tell:
            for k, (train, test) in enumerate(folds.split(data.X, data.Y)):
                seen, unseen = data.take(train), data.take(test)
                for j, weight in enumerate(self.regularizations):
                    of_ranks = fits(seen, self.ranks, weight, self.minimisation)
                    squares[:, j] += [unseen.squares(fit) for fit in of_ranks]
                held_out += float(unseen.weights @ unseen.known.sum(axis=1))
                tell(f"fold {k + 1}  held-out error {(squares / held_out).min():.6g}")
        return SelectionPath("cv", self.ranks, self.regularizations, squares / held_out)

    def by_criterion(self, data: Observations, criterion: str) -> SelectionPath:
        """Score by what is left of the responses, and how many degrees of freedom that took."""
        targets = data.Y.shape[1]
        d = np.linalg.svd(data.centred_X, compute_uv=False)
        size = int(np.count_nonzero(data.known[data.weights > 0]))
        scores = np.zeros((self.ranks.size, self.regularizations.size))
        for j, weight in enumerate(self.regularizations):
            for i, fit in enumerate(fits(data, self.ranks, weight, self.minimisation)):
                freedom = degrees_of_freedom(d, weight, targets, int(self.ranks[i]))
                freedom += targets * data.fit_intercept
                scores[i, j] = information(criterion, data.squares(fit), size, freedom)
        return SelectionPath(criterion, self.ranks, self.regularizations, scores)
