"""A low-rank distance, learned from distances of pairs or from triplets, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.metrics import r2_score
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from rankfold.costs.factor_penalty import FactorPenalty
from rankfold.costs.losses import Loss
from rankfold.entries.given_arrays import check_size, plain
from rankfold.estimators.distances.measured_points import MeasuredPoints, as_loss
from rankfold.estimators.fitting import all_or_nothing, fit_model, record_run, try_model
from rankfold.estimators.inputs import (
    checked_rank,
    checked_regularization,
    checked_weights,
    finite_answers,
    is_auto,
)
from rankfold.estimators.rank_errors import RankErrors, choose_rank
from rankfold.estimators.tensors import like_given, without_tensors
from rankfold.fingerprint import fingerprint
from rankfold.geometry import PositiveSemidefinite
from rankfold.problem import Problem
from rankfold.solvers import Method

Floats = NDArray[Any]
_HELD_OUT = 0.1  # of the pairs or triplets, to choose the rank
_TRIAL_TOL = 1e-6  # `tol` of the fits that are compared to choose the rank


class LowRankDistance(BaseEstimator):
    """Learn (x_i − x_j)ᵀ W (x_i − x_j), a squared distance with W = Y Yᵀ positive semidefinite of low rank.

    `fit` takes pairs of points, with their squared distances, or triplets (i, j, k): i is nearer to j than to
    k. With `points`, a row of features for each point, this is the metric of a Mahalanobis distance, and new
    points are `transform`ed to Yᵀx, where distances are Euclidean. Without it, points have coordinates of
    their own, the rows of Y: from some of the distances between points, all are completed.

    Parameters
    ----------
    rank
        The rank of W; "auto" chooses it by a tenth of the pairs or triplets, held out.
    points
        Features, an array or a SciPy sparse matrix with a row for each point that X names; None if points
        have no features.
    loss
        "auto": "square" for distances, "logistic" for triplets. See `Distances` and `Triplets`.
    regularization
        λ >= 0, the weight of Tr W = ‖Y‖² beside the sum of the losses. Choose 0 for exact distances.
    solver
        How to minimise, see `rankfold.minimize`.
    max_iter
        The most iterations; a `ConvergenceWarning` tells that they did not suffice.
    tol
        The fit ends when five iterations change what is minimised by no more than this part of it.
    warm_start
        Whether `fit` starts from what the last `fit` found, if it has the same size.
    random_state
        Of the choice of what is held out.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per iteration, and per rank tried.

    Attributes
    ----------
    factor_
        Y, with W = Y Yᵀ: a row for each feature; or for each point, centred, without features.
    rank_, rank_path_
        The rank, and the held-out error for every rank tried, or None.
    n_iter_, converged_, stop_reason_, trace_
        Iterations of the solver, and how they went and ended.
    data_fingerprint_
        A digest of what the model was fitted to; `rankfold.save` keeps it.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> rng = np.random.default_rng(0)
    >>> places = rng.standard_normal((50, 2))
    >>> pairs = np.argwhere(np.triu(rng.uniform(size=(50, 50)) < 0.4, 1))
    >>> y = ((places[pairs[:, 0]] - places[pairs[:, 1]]) ** 2).sum(axis=1)
    >>> model = rf.LowRankDistance(rank=2, regularization=0).fit(pairs, y)
    >>> exact = ((places[0] - places[1:]) ** 2).sum(axis=1)
    >>> bool(np.allclose(model.predict([[0, k] for k in range(1, 50)]), exact, rtol=1e-4))
    True
    """

    factor_: Floats

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        points: Any = None,
        loss: str | Loss = "auto",
        regularization: float = 0.1,
        solver: str | Method[Any] = "auto",
        max_iter: int = 500,
        tol: float = 1e-13,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.points = points
        self.loss = loss
        self.regularization = regularization
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to the squared distances y of the pairs X, or to the triplets X without y."""
        X, y, sample_weight = without_tensors(
            plain("X", X), None if y is None else plain("y", y), sample_weight
        )
        if y is None:
            X = validate_data(self, X, dtype="numeric")
        else:
            X, y = validate_data(self, X, y, dtype="numeric")
            y = y.astype(np.float64, copy=False)
            check_size("y", y)
        weights = checked_weights(sample_weight, len(X))
        used = np.flatnonzero(weights)
        (points,) = without_tensors(self.points)
        data = MeasuredPoints.of(X, y, points).take(used)
        self.rank_ = self._choose_rank(data, weights[used])
        last = (self.factor_,) * 2 if self.warm_start and hasattr(self, "factor_") else None
        result = fit_model(self, self._problem(data, weights[used], self.rank_), last)
        self.factor_ = data.centred(np.asarray(result.factors[0]))
        record_run(self, result.trace, result.stop)
        table = () if data.points is None else (data.points.matrix,)
        self.data_fingerprint_ = fingerprint(X, np.zeros(0) if y is None else y, weights, *table)
        return self

    def _problem(self, data: MeasuredPoints, weights: Floats, rank: int) -> Problem:
        # The cost is a mean, λ stands beside the sum.
        weight = checked_regularization(self.regularization) / (2 * len(weights))
        cost = data.cost(self.loss, weights)
        penalised = cost + FactorPenalty(weight, weight) if weight else cost
        return Problem(penalised, PositiveSemidefinite(cost.shape, rank, metric="preconditioned"))

    def _choose_rank(self, data: MeasuredPoints, weights: Floats) -> int:
        self.rank_path_: RankErrors | None = None
        if not is_auto(self.rank):
            why = f"the number of {'points' if data.points is None else 'features'}"
            return checked_rank(self.rank, data.size, why)
        if len(weights) < 2:
            raise ValueError(
                f"rank='auto' holds out a sample, and there is {len(weights)} sample: give a rank"
            )
        order = check_random_state(self.random_state).permutation(len(weights))
        held_out = max(1, round(_HELD_OUT * len(weights)))
        test, train = order[:held_out], np.sort(order[held_out:])
        seen, unseen, loss = data.take(train), data.take(test), as_loss(self.loss, data.values is None)

        def losses(rank: int) -> Floats:
            problem = self._problem(seen, weights[train], rank)
            result = try_model(self, problem, tol=max(self.tol, _TRIAL_TOL))
            found = unseen.measures(np.asarray(result.factors[0]))
            return np.asarray(weights[test] * loss(found, unseen.targets)[0])

        self.rank_path_ = choose_rank(data.size, losses, self.verbose)
        return self.rank_path_.chosen

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the squared distance of each pair; of each triplet, how much farther k is from i than j."""
        check_is_fitted(self)
        given = validate_data(self, *without_tensors(plain("X", X)), reset=False, dtype="numeric")
        (points,) = without_tensors(self.points)
        data = MeasuredPoints.of(given, None, points, len(self.factor_))
        with np.errstate(over="ignore", invalid="ignore"):
            return like_given(X, finite_answers(data.measures(self.factor_)))

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return R² of the squared distances of pairs, or without y the part of the triplets that holds."""
        X, y, sample_weight = without_tensors(X, y, sample_weight)
        found = self.predict(X)
        if y is None:
            return float(np.average(found > 0, weights=checked_weights(sample_weight, len(found))))
        return float(r2_score(y, found, sample_weight=sample_weight))

    def transform(self, X: Any) -> NDArray[Any]:
        """Return Yᵀx for rows x of features; without features, the coordinates of the points numbered X."""
        check_is_fitted(self)
        (given,) = without_tensors(X)
        if self.points is not None:
            return like_given(X, MeasuredPoints.coordinates(given, self.factor_))
        return like_given(X, self.factor_[MeasuredPoints.numbers(given, len(self.factor_))])

    def fit_transform(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> NDArray[Any]:
        """Fit, and return the coordinates of all points."""
        self.fit(X, y, sample_weight)
        return self.factor_ if self.points is None else self.transform(self.points)
