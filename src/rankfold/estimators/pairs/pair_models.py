"""Bilinear models on pairs of things, each with features of its own, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from rankfold.costs.losses import Loss
from rankfold.costs.regularisers import Frobenius
from rankfold.entries.given_arrays import check_size, plain, unmasked
from rankfold.estimators.fitting import (
    Geometries,
    all_or_nothing,
    fit_model,
    problem_of,
    record_run,
    try_model,
)
from rankfold.estimators.inputs import (
    checked_rank,
    checked_regularization,
    checked_weights,
    finite_answers,
    is_auto,
)
from rankfold.estimators.pairs.paired_features import PairedFeatures
from rankfold.estimators.rank_errors import RankErrors, choose_rank
from rankfold.estimators.tensors import TensorScore, like_given, without_tensors
from rankfold.fingerprint import fingerprint
from rankfold.problem import Problem
from rankfold.solvers import Method

Floats = NDArray[Any]
_HELD_OUT = 0.1  # of the pairs, to choose the rank
_TRIAL_TOL = 1e-6  # `tol` of the fits that are compared to choose the rank


class _PairModel(BaseEstimator):
    """What the regressor and the classifier share: ŷ = xᵀWz + xᵀa + zᵀb + c."""

    _loss: str
    factors_: tuple[Floats, Floats]

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        n_left: int | None = None,
        left: Any = None,
        right: Any = None,
        regularization: float = 0.1,
        geometry: str | Geometries = "auto",
        solver: str | Method[Any] = "auto",
        max_iter: int = 500,
        tol: float = 1e-13,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.n_left = n_left
        self.left = left
        self.right = right
        self.regularization = regularization
        self.geometry = geometry
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _fit(self, X: Any, y: Floats, weights: Floats, centre: float) -> None:
        if self.left is None:
            check_size("X", X)
        used = np.flatnonzero(weights)
        data, outcomes, some = self._features(X).take(used), y[used] - centre, weights[used]
        self.rank_ = self._choose_rank(data, outcomes, some)
        cost = data.cost(outcomes, self._loss, some)
        problem = self._problem(cost, outcomes.size, self.rank_)
        last = self.factors_ if self.warm_start and hasattr(self, "factors_") else None
        result = fit_model(self, problem, last)
        self.factors_ = result.factors
        record_run(self, result.trace, result.stop)
        terms = cost.linear_terms(*self.factors_)
        self.left_coef_, self.right_coef_, self.intercept_ = terms.a, terms.b, terms.c + centre
        self.centre_ = centre
        tables = () if data.pairs is None else (data.left.matrix, data.right.matrix)
        self.data_fingerprint_ = fingerprint(X, y, weights, *tables)

    def _problem(self, cost: Any, pairs: int, rank: int) -> Problem:
        # The cost is a mean over the pairs, λ stands beside their sum.
        weight = checked_regularization(self.regularization)
        return problem_of(cost + Frobenius(weight / pairs), rank, self.geometry)

    def _choose_rank(self, data: PairedFeatures, y: Floats, weights: Floats) -> int:
        largest = min(data.shape)
        self.rank_path_: RankErrors | None = None
        if not is_auto(self.rank):
            why = "the lesser of {} and {}, one more than the features of each side".format(*data.shape)
            return checked_rank(self.rank, largest, why)
        if y.size < 2:
            raise ValueError(f"rank='auto' holds out a pair, and there is {y.size} sample: give a rank")
        order = check_random_state(self.random_state).permutation(y.size)
        held_out = max(1, round(_HELD_OUT * y.size))
        test, train = order[:held_out], np.sort(order[held_out:])
        cost = data.take(train).cost(y[train], self._loss, weights[train])
        unseen, loss = data.take(test), Loss.named(self._loss)

        def losses(rank: int) -> Floats:
            problem = self._problem(cost, train.size, rank)
            result = try_model(self, problem, tol=max(self.tol, _TRIAL_TOL))
            scores = unseen.scores(*result.factors)
            return np.asarray(weights[test] * loss(scores, y[test])[0])

        self.rank_path_ = choose_rank(largest, losses, self.verbose)
        return self.rank_path_.chosen

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, *without_tensors(plain("X", X)), reset=False, dtype=self._dtype())
        with np.errstate(over="ignore", invalid="ignore"):
            return finite_answers(self._features(X).scores(*self.factors_) + self.centre_)

    def _dtype(self) -> Any:
        return np.float64 if self.left is None else "numeric"

    def _features(self, X: Floats) -> PairedFeatures:
        if self.left is None and self.right is None:
            return PairedFeatures.of_columns(X, self.n_left)
        if self.left is None or self.right is None:
            raise ValueError("give both tables, left and right, or neither")
        return PairedFeatures.of_tables(X, *without_tensors(self.left, self.right))


class PairRegressor(TensorScore, RegressorMixin, _PairModel):
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

    _loss = "square"

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to the outcomes y of the pairs X."""
        X, y, sample_weight = without_tensors(plain("X", X), plain("y", y), sample_weight)
        X, y = validate_data(self, X, y, dtype=self._dtype(), y_numeric=True)
        y = y.astype(np.float64, copy=False)
        check_size("y", y)
        weights = checked_weights(sample_weight, len(X))
        self._fit(X, y, weights, centre=float(np.average(y, weights=weights)))
        return self

    def predict(self, X: Any) -> Any:
        """Return the outcomes expected for the pairs X."""
        return like_given(X, self._scores(X))


class PairClassifier(TensorScore, ClassifierMixin, _PairModel):
    """Predict which of two classes a pair is of, by logistic regression on xᵀWz + xᵀa + zᵀb + c.

    Pairs are given as to `PairRegressor`: as columns of features, or as row numbers of the tables `left` and
    `right`.

    Parameters are those of `PairRegressor`, and so are the attributes, of a model of the log-odds of the
    second class.

    Attributes
    ----------
    classes_
        The two labels; a score above 0 means the second.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 6))  # three features of each thing
    >>> y = np.where(X[:, 0] * X[:, 4] > 0, "binds", "does not")
    >>> model = rf.PairClassifier(rank=2, n_left=3).fit(X, y)
    >>> bool(model.score(X, y) > 0.9), model.predict_proba(X[:2]).shape
    (True, (2, 2))
    """

    _loss = "logistic"

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to the labels y, of two kinds, of the pairs X."""
        X, y, sample_weight = without_tensors(plain("X", X), unmasked("y", y), sample_weight)
        X, y = validate_data(self, X, y, dtype=self._dtype())
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size > 2:
            kind = type_of_target(y)
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if self.classes_.size < 2:
            raise ValueError(f"y must hold two classes; it has one class only: {self.classes_[0]}")
        self._fit(X, codes.astype(np.float64), checked_weights(sample_weight, len(X)), centre=0.0)
        return self

    def decision_function(self, X: Any) -> Any:
        """Return the log-odds of the second class."""
        return like_given(X, self._scores(X))

    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of both classes."""
        p = special.expit(self._scores(X))
        return like_given(X, np.column_stack([1 - p, p]))

    def predict(self, X: Any) -> Any:
        """Return the more probable class."""
        second = self._scores(X) > 0
        return like_given(X, self.classes_[second.astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
