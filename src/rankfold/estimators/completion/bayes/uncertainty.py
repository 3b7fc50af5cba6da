"""What a fitted completion model says of how sure it is."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from rankfold.estimators.completion.bayes.posterior import Posterior
from rankfold.estimators.inputs import checked_places
from rankfold.estimators.recommending import Recommender
from rankfold.estimators.tensors import like_given


class Uncertainty(Recommender):
    """Standard deviations and intervals of predictions, from the posterior of a Bayesian finish."""

    posterior_: Posterior | None

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the lower and the upper ends of intervals that hold a part `coverage` of new entries.

        They reach from the prediction as many standard deviations down and up as entries held out ask for
        (conformal prediction: how far these were off, each in its own deviation), also where errors are not
        Gaussian. Without entries held out, which very few data do not allow, they are a Gaussian's. The
        promise is for entries that come as the known ones did, and for all of them together.

        Examples
        --------
        >>> import numpy as np, rankfold as rf
        >>> data = rf.data.random_completion((80, 60), rank=2, oversampling=5, seed=0, noise=0.3)
        >>> train, new = rf.data.split(data, 0.3, seed=0)
        >>> model = rf.MatrixCompletion(rank=2, random_state=0).fit(train)
        >>> low, high = model.predict_interval(new, coverage=0.9)
        >>> bool(0.85 < np.mean((low < new.values) & (new.values < high)) < 0.95)
        True
        """
        rows, cols = self._find(X)
        below, above = self._known_posterior().ends(coverage)
        values, deviations = self.expected_at(rows, cols), self.std_at(rows, cols)
        low, high = (self._in_range(values + far * deviations) for far in (below, above))
        return like_given(X, low), like_given(X, high)

    def std_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the standard deviations of entries at positions, as `predict_at` takes them."""
        posterior = self._known_posterior()
        return posterior.deviations(self.factors_, *checked_places(rows, cols, self.shape_))

    def _known_posterior(self) -> Posterior:
        check_is_fitted(self)
        if self.posterior_ is None:
            raise ValueError(
                "this model does not know how sure it is: fit it with bayesian=True and the square loss "
                "(the default, bayesian='auto', does where regularization is 'auto')"
            )
        return self.posterior_

    @abstractmethod
    def expected_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the values predicted at positions, not clipped."""
