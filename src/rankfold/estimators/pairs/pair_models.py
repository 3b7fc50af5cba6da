"""Outcomes and classes of pairs of things, each with features of its own, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from rankfold.entries.given_arrays import check_size, plain, unmasked
from rankfold.estimators.fitting import all_or_nothing
from rankfold.estimators.inputs import checked_features, checked_weights
from rankfold.estimators.pairs.base import PairModel
from rankfold.estimators.pairs.observations import Classes, Outcomes
from rankfold.estimators.tensors import TensorScore, like_given, without_tensors


class PairRegressor(TensorScore, RegressorMixin, PairModel):
    """Predict a number for a pair of things from the features of both: xᵀWz + xᵀa + zᵀb + c, W of low rank.

    Without tables, a row of X holds the features of both things: first those of the left one, `n_left` of
    them, then those of the right one. With the tables `left` and `right`, a row of features per thing, X
    holds pairs of integers, a row of `left` and one of `right`: features are not repeated for each pair.

    Parameters
    ----------
    rank
        The rank of the matrix [[W, a], [bᵀ, c]] of all coefficients; "auto" chooses it by a tenth of the
        pairs, held out.
    n_left
        How many columns of X belong to the left thing; by default half of them, the middle one included.
    left, right
        Features of things, arrays or SciPy sparse matrices; then X holds pairs of row numbers.
    regularization
        λ >= 0, the weight of the sum of all squared coefficients beside the sum of the losses.
    geometry, solver
        Where and how to minimise, see `rankfold.minimize`.
    max_iter
        The most iterations; a `ConvergenceWarning` tells that they did not suffice.
    tol
        The fit ends when five iterations change what is minimised by no more than this part of it.
    device
        Where all is computed: "cpu"; "cuda", on a GPU (with torch and Triton); "auto", there if there is one.
        What is found is NumPy's.
    warm_start
        Whether `fit` starts from the coefficients that the last `fit` found, if there are as many.
    random_state
        Of the choice of the pairs that are held out.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per iteration, and per rank tried.

    Attributes
    ----------
    factors_
        (L, R) with [[W, a], [bᵀ, c]] = L Rᵀ.
    left_coef_, right_coef_, intercept_
        a, b and c.
    rank_, rank_path_
        The rank, and the held-out error for every rank tried, or None.
    n_iter_, converged_, stop_reason_, trace_
        Iterations of the solver, and how they went and ended; the trace's values are per pair.
    data_fingerprint_
        A digest of what the model was fitted to; `rankfold.save` keeps it.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> rng = np.random.default_rng(0)
    >>> users, items = rng.standard_normal((50, 4)), rng.standard_normal((30, 3))
    >>> pairs = np.argwhere(rng.uniform(size=(50, 30)) < 0.5)
    >>> y = users[pairs[:, 0], 0] * items[pairs[:, 1], 1] + 2.0
    >>> model = rf.PairRegressor(rank=2, left=users, right=items).fit(pairs, y)
    >>> bool(model.score(pairs, y) > 0.99)
    True
    """

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to the outcomes y of the pairs X."""
        X, y, sample_weight = without_tensors(plain("X", X), plain("y", y), sample_weight)
        X, y = checked_features(self, X, y, dtype=self._dtype())
        y = y.astype(np.float64, copy=False)
        check_size("y", y)
        weights = checked_weights(sample_weight, len(X))
        centre, used = float(np.average(y, weights=weights)), np.flatnonzero(weights)
        features = self._given_features(X).take(used)
        known = Outcomes(features, y[used] - centre, weights[used], "square")
        self._fit(known, centre, X, y, weights)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the outcomes expected for the pairs X."""
        return like_given(X, self._scores(X))


class PairClassifier(TensorScore, ClassifierMixin, PairModel):
    """Predict which class a pair is of, by logistic regression on xᵀWz + xᵀa + zᵀb + c.

    Of several classes, each has such a function, and the softmax of all is what the pair is likely to be. The
    coefficients of all classes together are one matrix of low rank, [W_1 ... W_K]: the classes share what
    they look at in the left thing.

    Pairs are given as to `PairRegressor`: as columns of features, or as row numbers of the tables `left` and
    `right`.

    Parameters are those of `PairRegressor`, and so are the attributes, of a model of the log-odds of the
    second class or, of several classes, of a logit for each:

    Attributes
    ----------
    classes_
        The labels; of two, a score above 0 means the second.
    factors_
        (L, R); of several classes, R has the shape (features + 1, classes, rank), and [[W, a], [bᵀ, c]] of
        class k is L R[:, k]ᵀ.
    left_coef_, right_coef_, intercept_
        a, b and c; of several classes, with a row for each.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 6))  # three features of each thing
    >>> y = np.where(X[:, 0] * X[:, 4] > 0, "binds", "does not")
    >>> model = rf.PairClassifier(rank=2, n_left=3).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), model.predict_proba(X[:2]).shape
    (True, (2, 2))
    >>> y = np.where(X[:, 1] * X[:, 5] > 1, "repels", y)
    >>> model = rf.PairClassifier(rank=3, n_left=3).fit(X, y)
    >>> bool(model.score(X, y) > 0.85), model.predict_proba(X[:2]).shape
    (True, (2, 3))
    """

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to the labels y, of two kinds or more, of the pairs X."""
        X, y, sample_weight = without_tensors(plain("X", X), unmasked("y", y), sample_weight)
        X, y = checked_features(self, X, y, dtype=self._dtype())
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        count = self.classes_.size
        if count < 2:
            raise ValueError(f"y must hold two classes; it has one class only: {self.classes_[0]}")
        weights = checked_weights(sample_weight, len(X))
        used = np.flatnonzero(weights)
        features = self._given_features(X).take(used)
        known = (
            Outcomes(features, codes[used].astype(np.float64), weights[used], "logistic")
            if count == 2
            else Classes(features, codes[used], weights[used], "multinomial", count)
        )
        self._fit(known, 0.0, X, codes.astype(np.float64), weights)
        return self

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the log-odds of the second class; of several classes, a column of logits for each."""
        return like_given(X, self._scores(X))

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes, a column for each."""
        scores = self._scores(X)
        if scores.ndim == 2:
            return like_given(X, special.softmax(scores, axis=1))
        p = special.expit(scores)
        return like_given(X, np.column_stack([1 - p, p]))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class."""
        scores = self._scores(X)
        best = scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)
        return like_given(X, self.classes_[best])
