"""What all estimators on pairs share: their settings, how they are fitted, and their scores."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rankfold.costs.base import Cost
from rankfold.costs.regularisers import Frobenius
from rankfold.entries.given_arrays import check_size, plain
from rankfold.estimators.fitting import Geometries, fit_model, problem_of, record_run, try_model
from rankfold.estimators.inputs import (
    checked_features,
    checked_rank,
    checked_regularization,
    finite_answers,
    is_auto,
)
from rankfold.estimators.pairs.observations import Observations
from rankfold.estimators.pairs.paired_features import PairedFeatures
from rankfold.estimators.rank_errors import RankErrors, choose_rank
from rankfold.estimators.tensors import without_tensors
from rankfold.fingerprint import fingerprint
from rankfold.linalg.primitives import on_host
from rankfold.problem import Problem
from rankfold.solvers import Method

Floats = NDArray[Any]
_TRIAL_TOL = 1e-6  # `tol` of the fits that are compared to choose the rank


class PairModel(BaseEstimator):
    """ŷ = xᵀWz + xᵀa + zᵀb + c, or one such function for each class."""

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
        device: str = "cpu",
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
        self.device = device
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    def _given_features(self, X: Any) -> PairedFeatures:
        """Return the features of the pairs that the model is fitted to."""
        if self.left is None:
            check_size("X", X)
        return self._features(X)

    def _fit(self, known: Observations, centre: float, *data: Any) -> None:
        """Fit to what is known of pairs, less `centre`; `data` are what it was made of."""
        cost = known.cost().on(self.device)
        problem = self._problem(cost, known.size, self._choose_rank(known))
        last: tuple[Any, Any] | None = None
        if self.warm_start and hasattr(self, "factors_"):
            L, R = self.factors_
            last = cost.as_factor(L), cost.as_factor(R.reshape(-1, R.shape[-1]))
        result = fit_model(self, problem, last)
        L, R = map(on_host, result.factors)
        record_run(self, result.trace, result.stop)
        terms = cost.linear_terms(L, R)
        self.factors_ = L, R.reshape(len(terms.R) + 1, *terms.R.shape[1:])
        self.rank_ = int(L.shape[1])
        self.left_coef_, self.right_coef_, self.intercept_ = terms.a, terms.b, terms.c + centre
        self.centre_ = centre
        tables = known.features
        known_tables = () if tables.pairs is None else (tables.left.matrix, tables.right.matrix)
        self.data_fingerprint_ = fingerprint(*data, *known_tables)

    def _problem(self, cost: Cost, terms: int, rank: int) -> Problem:
        # The cost is a mean over so many terms, λ stands beside their sum.
        weight = checked_regularization(self.regularization)
        return problem_of(cost + Frobenius(weight / terms), rank, self.geometry)

    def _choose_rank(self, known: Observations) -> int:
        largest = min(known.shape)
        self.rank_path_: RankErrors | None = None
        if not is_auto(self.rank):
            left, right = known.shape
            return checked_rank(self.rank, largest, f"the lesser of {left} and {right}, {known.limits}")
        train, test = known.split(check_random_state(self.random_state))
        cost = train.cost().on(self.device)

        def losses(rank: int) -> Floats:
            problem = self._problem(cost, train.size, rank)
            result = try_model(self, problem, tol=max(self.tol, _TRIAL_TOL))
            return test.losses(*map(on_host, result.factors))

        self.rank_path_ = choose_rank(largest, losses, self.verbose)
        return self.rank_path_.chosen

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = checked_features(self, *without_tensors(plain("X", X)), reset=False, dtype=self._dtype())
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
