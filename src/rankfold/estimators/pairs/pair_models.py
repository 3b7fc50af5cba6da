"""Bilinear models on pairs of things, each with features of its own, as scikit-learn estimators."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from rankfold.costs.losses import Loss
from rankfold.costs.mapped import Features
from rankfold.costs.pairs import Pairs, checked_pairs
from rankfold.costs.regularisers import Frobenius
from rankfold.estimators.fingerprint import fingerprint
from rankfold.estimators.fitting import Geometries, all_or_nothing, fit_problem, problem_of, warm_point
from rankfold.estimators.tensors import TensorScore, like_given, without_tensors
from rankfold.run.stopping import RelativeChange

Floats = NDArray[Any]


class _PairModel(BaseEstimator):
    """What the regressor and the classifier share: ŷ = xᵀWz + xᵀa + zᵀb + c."""

    factors_: tuple[Floats, Floats]

    def __init__(
        self,
        rank: int = 5,
        *,
        n_left: int | None = None,
        left: Any = None,
        right: Any = None,
        regularization: float = 1e-4,
        geometry: str | Geometries = "auto",
        solver: Any = "auto",
        max_iterations: int = 500,
        tolerance: float = 1e-13,
        warm_start: bool = False,
        verbose: int = 0,
    ):
        self.rank = rank
        self.n_left = n_left
        self.left = left
        self.right = right
        self.regularization = regularization
        self.geometry = geometry
        self.solver = solver
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.warm_start = warm_start
        self.verbose = verbose

    def _fit(self, X: Any, y: Floats, centre: float, loss: str | Loss, sample_weight: Any) -> None:
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        sides, where = self._sides(X)
        used = np.flatnonzero(weights)
        if where is None:
            sides = [side.take(used) for side in sides]
        else:
            where = where[used]
        # Weights with mean 1, so that λ means the same whatever their unit.
        weights = weights[used] * (used.size / weights.sum())
        cost = Pairs(sides[0].matrix, sides[1].matrix, y[used] - centre, loss, where, weights)
        rank = min(self._rank(), *cost.shape)
        problem = problem_of(cost + Frobenius(self.regularization), rank, self.geometry)
        result = fit_problem(
            problem,
            solver=self.solver,
            x0=warm_point(problem, *self.factors_) if self.warm_start and hasattr(self, "factors_") else None,
            max_iterations=self.max_iterations,
            tolerance=0.0,
            stop=RelativeChange(self.tolerance, window=5),
            verbose=self.verbose,
        )
        L, R = result.factors
        self.factors_, self.n_iter_ = (L, R), max(result.iterations, 1)
        self.left_coef_, self.right_coef_ = L[:-1] @ R[-1], R[:-1] @ L[-1]
        self.intercept_, self.centre_ = float(L[-1] @ R[-1]) + centre, centre
        tables = () if where is None else (side.matrix for side in sides)
        self.data_fingerprint_ = fingerprint(X, y, weights, *tables)

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = validate_data(self, *without_tensors(X), reset=False, dtype=self._dtype())
        sides, where = self._sides(X)
        A, B = (side.times(factor) for side, factor in zip(sides, self.factors_, strict=True))
        if where is not None:
            A, B = A[where[:, 0]], B[where[:, 1]]
        return np.asarray(np.einsum("pk,pk->p", A, B) + self.centre_)

    def _rank(self) -> int:
        rank: Any = self.rank
        if not (isinstance(rank, (int, np.integer)) and rank >= 1):
            raise ValueError(f"rank must be a positive integer, not {rank!r}")
        return int(rank)

    def _dtype(self) -> Any:
        return np.float64 if self.left is None else "numeric"

    def _sides(self, X: Floats) -> tuple[list[Features], Any]:
        """The features of both sides with a constant, and the pairs; None if each row is a pair."""
        if (self.left is None) != (self.right is None):
            raise ValueError("give both tables, left and right, or neither")
        if self.left is not None:
            left, right = without_tensors(self.left, self.right)
            tables = [Features.checked("left", left), Features.checked("right", right)]
            n1, n2 = (table.matrix.shape[0] for table in tables)
            where = checked_pairs(X, len(X), n1, n2, names=("X", "left", "right"))
            return [table.with_constant() for table in tables], where
        n_left = (X.shape[1] + 1) // 2 if self.n_left is None else self.n_left
        if not 0 < n_left <= X.shape[1]:
            raise ValueError(f"n_left must be from 1 to {X.shape[1]}, the number of columns; got {n_left!r}")
        ones = np.ones((len(X), 1))
        parts = [np.hstack([part, ones]) for part in (X[:, :n_left], X[:, n_left:])]
        return [Features(part, part.shape[1]) for part in parts], None


class PairRegressor(TensorScore, RegressorMixin, _PairModel):
    """Predict a number for a pair of things from the features of both: xᵀWz + xᵀa + zᵀb + c, W of low rank.

    Without tables, a row of X holds the features of both things: first those of the left one, `n_left` of
    them, then those of the right one. With the tables `left` and `right`, a row of features per thing, X
    holds pairs of integers, a row of `left` and one of `right`: features are not repeated for each pair.

    Parameters
    ----------
    rank
        The largest rank of the matrix [[W, a], [bᵀ, c]] of all coefficients.
    n_left
        How many columns of X belong to the left thing; by default half of them, the middle one included.
    left, right
        Features of things, arrays or SciPy sparse matrices; then X holds pairs of row numbers.
    regularization
        λ >= 0: the mean loss is minimised with λ times the sum of all squared coefficients added.
    geometry, solver, max_iterations, verbose
        Where and how to minimise, see `rankfold.minimize`.
    tolerance
        The fit ends when five iterations change what is minimised by no more than this part of it.
    warm_start
        Whether `fit` starts from the coefficients that the last `fit` found, if there are as many.

    Attributes
    ----------
    factors_
        (L, R) with [[W, a], [bᵀ, c]] = L Rᵀ.
    left_coef_, right_coef_, intercept_
        a, b and c.
    n_iter_
        Iterations of the solver.
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
        X, y, sample_weight = without_tensors(X, y, sample_weight)
        X, y = validate_data(self, X, y, dtype=self._dtype(), y_numeric=True)
        y = y.astype(np.float64, copy=False)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self._fit(X, y, float(np.average(y, weights=weights)), "square", weights)
        return self

    def predict(self, X: Any) -> Any:
        """Return the outcomes expected for the pairs X."""
        return like_given(X, self._scores(X))


class PairClassifier(TensorScore, ClassifierMixin, _PairModel):
    """Predict which of two classes a pair is of, by logistic regression on xᵀWz + xᵀa + zᵀb + c.

    Pairs are given as to `PairRegressor`: as columns of features, or as row numbers of the tables `left` and
    `right`.

    Parameters
    ----------
    rank, n_left, left, right
        As for `PairRegressor`.
    regularization, geometry, solver, max_iterations, tolerance, warm_start, verbose
        As for `PairRegressor`.

    Attributes
    ----------
    classes_
        The two labels; a score above 0 means the second.
    factors_, left_coef_, right_coef_, intercept_, n_iter_, data_fingerprint_
        As of `PairRegressor`; the model is one of the log-odds of the second class.

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

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to the labels y, of two kinds, of the pairs X."""
        X, y, sample_weight = without_tensors(X, y, sample_weight)
        X, y = validate_data(self, X, y, dtype=self._dtype())
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size > 2:
            kind = type_of_target(y)
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        if self.classes_.size < 2:
            raise ValueError(f"y must hold two classes; it has one class only: {self.classes_[0]}")
        self._fit(X, codes.astype(np.float64), 0.0, "logistic", sample_weight)
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
