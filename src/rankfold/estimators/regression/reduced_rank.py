"""Multi-output linear regression whose coefficients have low rank."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import KFold
from sklearn.utils.validation import (
    _check_sample_weight,
    _get_feature_names,
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from rankfold.estimators.fingerprint import fingerprint
from rankfold.estimators.fitting import Geometries, all_or_nothing
from rankfold.estimators.regression.criteria import CRITERIA, SelectionPath, degrees_of_freedom, information
from rankfold.estimators.regression.observations import Fit, Observations, fits
from rankfold.estimators.tensors import TensorScore, like_given, without_tensors

Floats = NDArray[Any]
# In units of the mean squared singular value of the predictors.
RIDGES = np.logspace(-3, 3, 13)
_NUMBER = int, float, np.number


class ReducedRankRegression(TensorScore, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Linear regression of several responses with a coefficient matrix of low rank, and ridge.

    Minimises Σ w_i (y_ij - b_j - x_i·B_j)² over the known responses, plus ridge ‖B‖², over all B of at most
    the given rank. Where all responses are known, that is a closed form (singular value decompositions);
    with missing ones it is minimised over the matrices of that rank, offsets b eliminated.

    Scale the predictors first (`StandardScaler`) if a ridge is to treat them alike.

    Parameters
    ----------
    rank
        The largest rank of the coefficients, or the criterion that chooses it: "cv" (cross-validated squared
        error), "aic", "bic" or "gcv" (generalised cross-validation).
    ridge
        The penalty of the squared coefficients, as `alpha` of scikit-learn's `Ridge`; or "auto": chosen
        from a grid by the criterion that `rank` names, by cross-validation if `rank` is a number.
    fit_intercept
        Whether to fit b. If not, data are expected to be centred.
    cv
        Number of folds for "cv", or a splitter such as `RepeatedKFold`.
    geometry, solver, max_iterations, verbose
        For missing responses only: where and how to minimise, see `rankfold.minimize`.
    tolerance
        With missing responses, the fit ends when five iterations change the squared error by no more than
        this part of it.
    random_state
        Shuffles the folds.

    Attributes
    ----------
    coef_
        (n_targets, n_features), or (n_features,) if y is a vector.
    intercept_
        (n_targets,), or a number.
    rank_, ridge_
        The rank of the coefficients, at most that asked for, and the ridge.
    components_
        (rank_, n_targets): orthonormal directions of the fitted responses, largest variance first.
    x_rotations_
        (n_features, rank_): `(X - mean) @ x_rotations_` are the coordinates of the fit along the components.
    explained_variance_, explained_variance_ratio_
        The variance of each of these coordinates, and its part of the responses' whole variance.
    path_
        The criterion for every rank and ridge tried (a table if printed; `path_.plot()`), or None.
    n_iter_
        Iterations of the solver; 0 for the closed form.
    target_names_
        The names of y's columns where y is a table, else None.
    data_fingerprint_
        A digest of what the model was fitted to; `rankfold.save` keeps it.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> rng = np.random.default_rng(0)
    >>> X, noise = rng.standard_normal((100, 6)), rng.standard_normal((100, 5))
    >>> Y = X @ rng.standard_normal((6, 2)) @ rng.standard_normal((2, 5)) + 0.1 * noise
    >>> model = rf.ReducedRankRegression(rank="bic").fit(X, Y)
    >>> model.rank_, model.coef_.shape, bool(model.score(X, Y) > 0.99)
    (2, (5, 6), True)
    """

    def __init__(
        self,
        rank: int | str = 2,
        *,
        ridge: float | str = 0.0,
        fit_intercept: bool = True,
        cv: Any = 5,
        geometry: str | Geometries = "auto",
        solver: Any = "auto",
        max_iterations: int = 500,
        tolerance: float = 1e-13,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.geometry = geometry
        self.solver = solver
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X
            (n_samples, n_features), finite.
        y
            (n_samples,) or (n_samples, n_targets), NaN where unknown.
        sample_weight
            Weight of each sample, 1 if not given.
        """
        X, y, sample_weight = without_tensors(X, y, sample_weight)
        self.target_names_ = _names(y)
        X = validate_data(self, X, dtype=np.float64)
        if y is None:
            raise ValueError("this estimator requires y to be passed, but the target y is None")
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan", input_name="y")
        data = self._observations(X, y, sample_weight)
        choices = self._choices(data)
        self.path_ = None if choices is None else self._select(data, *choices)
        rank, ridge = (self.rank, self.ridge) if self.path_ is None else self.path_.best
        limit = min(data.X.shape[1], data.Y.shape[1])
        fit = next(fits(data, [min(int(rank), limit)], float(ridge), self._minimize_options()))
        self.ridge_, self.n_iter_ = float(ridge), fit.iterations
        self.data_fingerprint_ = fingerprint(X, y, data.weights)
        self._present(data, fit, vector=y.ndim == 1)
        return self

    def predict(self, X: Any) -> Any:
        """Return the responses of the samples X."""
        check_is_fitted(self)
        numbers = validate_data(self, *without_tensors(X), reset=False, dtype=np.float64)
        return like_given(X, np.asarray(numbers @ self.coef_.T + self.intercept_))

    def _observations(self, X: Floats, y: Floats, sample_weight: ArrayLike | None) -> Observations:
        Y = y[:, None] if y.ndim == 1 else y
        check_consistent_length(X, Y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        data = Observations(X, Y, weights, self.fit_intercept)
        unknown = ~(data.known & (weights > 0)[:, None]).any(axis=0)
        if unknown.any():
            at = int(np.argmax(unknown))
            raise ValueError(f"y[:, {at}] has no known value (of positive weight): leave this response out")
        return data

    def _minimize_options(self) -> dict[str, Any]:
        names = "geometry", "solver", "max_iterations", "tolerance", "verbose"
        return {name: getattr(self, name) for name in names}

    def _choices(self, data: Observations) -> tuple[str, NDArray[np.int64], Floats] | None:
        """The criterion, and the ranks and ridges among which it chooses; None if both are given."""
        rank, ridge = _checked(self.rank, self.ridge)
        by_name, free = isinstance(rank, str), isinstance(ridge, str)
        if not by_name and not free:
            return None
        limit = min(data.X.shape[1], data.Y.shape[1])
        ranks = np.arange(1, limit + 1) if by_name else np.array([min(rank, limit)])
        ridges = data.scale * RIDGES if free else np.array([ridge], dtype=np.float64)
        return (rank if by_name else "cv"), ranks, ridges

    def _select(
        self, data: Observations, criterion: str, ranks: NDArray[np.int64], ridges: Floats
    ) -> SelectionPath:
        options = self._minimize_options()
        scores = np.zeros((ranks.size, ridges.size))
        if criterion == "cv":
            folds = self.cv
            if isinstance(folds, (int, np.integer)):
                folds = KFold(int(folds), shuffle=True, random_state=self.random_state)
            held_out = 0.0
            for train, test in folds.split(data.X, data.Y):
                part, rest = data.take(train), data.take(test)
                for j, ridge in enumerate(ridges):
                    scores[:, j] += [rest.squares(fit) for fit in fits(part, ranks, ridge, options)]
                held_out += float(rest.weights @ rest.known.sum(axis=1))
            return SelectionPath(criterion, ranks, ridges, scores / held_out)
        targets = data.Y.shape[1]
        d = np.linalg.svd(data.centred_X, compute_uv=False)
        size = int(np.count_nonzero(data.known[data.weights > 0]))
        for j, ridge in enumerate(ridges):
            for i, fit in enumerate(fits(data, ranks, ridge, options)):
                freedom = degrees_of_freedom(d, ridge, targets, int(ranks[i])) + targets * self.fit_intercept
                scores[i, j] = information(criterion, data.squares(fit), size, freedom)
        return SelectionPath(criterion, ranks, ridges, scores)

    def _present(self, data: Observations, fit: Fit, vector: bool) -> None:
        B = fit.L @ fit.R.T
        self.coef_: Floats = B[:, 0] if vector else B.T
        self.intercept_: Any = float(fit.intercept[0]) if vector else fit.intercept
        # The singular values and right singular vectors of the fitted responses.
        _, s, Vt = np.linalg.svd(np.linalg.qr(data.centred_X @ fit.L)[1] @ fit.R.T, full_matrices=False)
        r = int(np.count_nonzero(s > s[:1] * max(data.X.shape) * np.finfo(np.float64).eps))
        V = Vt[:r].T * np.sign(Vt[np.arange(r), np.argmax(np.abs(Vt[:r]), axis=1)])  # one sign of two
        self.rank_, self.components_, self.x_rotations_ = r, V.T, B @ V
        self.explained_variance_ = s[:r] ** 2 / data.weights.sum()
        self.explained_variance_ratio_ = self.explained_variance_ / (data.variances.sum() or 1.0)


def _checked(rank: Any, ridge: Any) -> tuple[Any, Any]:
    if not (rank in CRITERIA if isinstance(rank, str) else isinstance(rank, (int, np.integer)) and rank >= 1):
        raise ValueError(f"rank must be a positive integer or one of {CRITERIA}, not {rank!r}")
    if not (
        ridge == "auto" if isinstance(ridge, str) else isinstance(ridge, _NUMBER) and 0 <= ridge < np.inf
    ):
        raise ValueError(f"ridge must be a finite number of at least 0, or 'auto', not {ridge!r}")
    return rank, ridge


def _names(Y: Any) -> Any:
    """The names of a table's columns, if all of them are strings."""
    try:
        return _get_feature_names(Y)
    except TypeError:  # some are
        return None
