"""Multi-output linear regression whose coefficients have low rank."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from rankfold.costs.losses import Loss
from rankfold.entries.given_arrays import check_size, plain, with_holes
from rankfold.estimators.fitting import Geometries, all_or_nothing, fit_model, record_run, try_model
from rankfold.estimators.inputs import (
    checked_features,
    checked_rank,
    checked_regularization,
    checked_weights,
    finite_answers,
    is_auto,
    refuse_text,
)
from rankfold.estimators.regression.criteria import CRITERIA, Candidates
from rankfold.estimators.regression.observations import Fit, Observations, fits
from rankfold.estimators.tensors import TensorScore, like_given, without_tensors
from rankfold.fingerprint import fingerprint
from rankfold.linalg import thin_svd
from rankfold.problem import Problem
from rankfold.run.result import Result
from rankfold.solvers import Method

Floats = NDArray[Any]
# In units of the mean squared singular value of the predictors; 0 is for data without noise.
REGULARIZATIONS = np.concatenate([[0.0], np.logspace(-3, 3, 13)])
_TRIAL = 1e-7  # tolerance of fits that are compared, not kept


class ReducedRankRegression(TensorScore, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Linear regression of several responses with a coefficient matrix of low rank, and a ridge penalty.

    Minimises Σ w_i (y_ij - b_j - x_i·B_j)² over the known responses, plus λ‖B‖², over all B of at most the
    given rank. Where all responses are known, that is a closed form (singular value decompositions); with
    missing ones, or another loss, it is minimised over the matrices of that rank, offsets b eliminated.

    Scale the predictors first (`StandardScaler`) if the penalty is to treat them alike.

    Parameters
    ----------
    rank
        The rank of the coefficients; "auto" chooses it by held-out responses, or what `criterion` says.
    regularization
        λ >= 0, the weight of the squared coefficients beside the sum of the squared errors, as `alpha` of
        scikit-learn's `Ridge`; "auto" chooses it from a grid, 0 included, by what `criterion` says.
    loss
        "square", "huber", "logistic" or "squared_hinge" (y is 0 or 1), "poisson" (counts) or a convex
        `rankfold.Loss`. `predict` gives probabilities for "logistic", expected counts for "poisson".
    criterion
        What "auto" goes by: "cv" (cross-validated loss), or, for the square loss, the criteria "aic", "bic"
        and "gcv" (generalised cross-validation) of a fit to all the data.
    fit_intercept
        Whether to fit b. If not, data are expected to be centred.
    cv
        Number of folds for "cv" (of fewer samples, each is a fold), a splitter such as `RepeatedKFold`, or a
        list of pairs (train, test).
    geometry, solver
        For missing responses and other losses only, as the next three: where and how to minimise, see
        `rankfold.minimize`.
    max_iter
        The most iterations; a `ConvergenceWarning` tells that they did not suffice.
    tol
        The fit ends when five iterations change what is minimised by no more than this part of it.
    device
        Where fits are computed: "cpu"; "cuda", on a GPU (with torch and Triton); "auto", there if there is
        one. What is found is NumPy's.
    warm_start
        Whether `fit` starts from the coefficients that the last `fit` found, if there are as many.
    random_state
        Shuffles the folds.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per fold and per iteration.

    Attributes
    ----------
    coef_, intercept_
        (n_targets, n_features) and (n_targets,); (n_features,) and a number if y is a vector.
    rank_, regularization_
        The rank of the coefficients, at most that asked for, and the weight λ of the penalty.
    components_
        (rank_, n_targets): orthonormal directions of the fitted responses, largest variance first.
    x_rotations_
        (n_features, rank_): `(X - mean) @ x_rotations_` are the coordinates of the fit along the components.
    explained_variance_, explained_variance_ratio_
        The variance of each of these coordinates, and its part of the responses' whole variance (of that of
        all coordinates, if the loss is not the square).
    rank_path_, regularization_path_
        The criterion for every rank and λ tried (a table if printed; `rank_path_.plot()`); None where there
        was nothing to choose, one and the same where both were chosen.
    n_iter_, converged_, stop_reason_, trace_
        Iterations of the solver, and how they went and ended. The closed form is one step, without a
        gradient and a time; values are per response.
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
    >>> model = rf.ReducedRankRegression(random_state=0).fit(X, Y)
    >>> model.rank_, model.coef_.shape, bool(model.score(X, Y) > 0.99)
    (2, (5, 6), True)
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        regularization: float | Literal["auto"] = "auto",
        loss: str | Loss = "square",
        criterion: Literal["cv", "aic", "bic", "gcv"] = "cv",
        fit_intercept: bool = True,
        cv: Any = 5,
        geometry: str | Geometries = "auto",
        solver: str | Method[Any] = "auto",
        max_iter: int = 500,
        tol: float = 1e-10,
        device: str = "cpu",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.regularization = regularization
        self.loss = loss
        self.criterion = criterion
        self.fit_intercept = fit_intercept
        self.cv = cv
        self.geometry = geometry
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.device = device
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        X is (n_samples, n_features), finite; y is (n_samples,) or (n_samples, n_targets), NaN or masked where
        unknown. A sample has the weight 1 if not given.
        """
        X, y, sample_weight = without_tensors(plain("X", X), plain("y", with_holes(y)), sample_weight)
        self.target_names_ = _names(y)
        refuse_text(X, "leave it out, or encode it first (sklearn.preprocessing.OneHotEncoder)")
        X = checked_features(self, X, dtype=np.float64)
        if y is None:
            raise ValueError("this estimator requires y to be passed, but the target y is None")
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite="allow-nan", input_name="y")
        check_consistent_length(X, y)
        check_size("X", X)
        check_size("y", y, holes=True)
        weights = checked_weights(sample_weight, len(X))
        self._loss.check_values(y[~np.isnan(y)])
        data = Observations(X, y[:, None] if y.ndim == 1 else y, weights, self.fit_intercept, self._loss)
        unknown = ~data.used.any(axis=0)
        if unknown.any():
            at = int(np.argmax(unknown))
            name = f"y[:, {at}]" if self.target_names_ is None else f"column {self.target_names_[at]!s} of y"
            raise ValueError(f"{name} has no known value (of positive weight): leave this response out")
        rank, self.regularization_ = self._chosen(data)
        fit = next(fits(data, [rank], self.regularization_, self.geometry, self._run, self.device))
        record_run(self, *data.run_of(fit, self.regularization_))
        self.data_fingerprint_ = fingerprint(X, y, weights)
        self._present(data, fit, vector=y.ndim == 1)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the expected responses of the samples X."""
        check_is_fitted(self)
        numbers = checked_features(self, *without_tensors(plain("X", X)), reset=False, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            answers = np.asarray(self._loss.expected(numbers @ self.coef_.T + self.intercept_))
        return like_given(X, finite_answers(answers))

    @property
    def _loss(self) -> Loss:
        return Loss.named(self.loss) if isinstance(self.loss, str) else self.loss

    def _run(self, problem: Problem, x0: Any) -> Result:
        """Minimise, from the factors of the last fit if that is asked for."""
        last: tuple[Any, Any] | None = None
        if self.warm_start and hasattr(self, "coef_") and self.rank_:
            last = problem.cost.as_factor(self.x_rotations_), problem.cost.as_factor(self.components_.T)
        return fit_model(self, problem, last, x0)

    def _chosen(self, data: Observations) -> tuple[int, float]:
        """The rank and the regularization, chosen where they are to be."""
        (q, k), by_rank, by_weight = data.shape, is_auto(self.rank), is_auto(self.regularization)
        why = f"the lesser of {q} features and {k} responses"
        ranks, weights = np.arange(1, min(q, k) + 1), data.scale * REGULARIZATIONS
        if not by_rank:
            ranks = np.array([checked_rank(self.rank, min(q, k), why)])
        if not by_weight:
            weights = np.array([checked_regularization(self.regularization, "'auto' or ")])
        if self.criterion not in CRITERIA:
            raise ValueError(f"criterion must be one of {CRITERIA}, not {self.criterion!r}")
        if self.criterion != "cv" and not data.loss.is_square:
            raise ValueError(f"criterion={self.criterion!r} is for the square loss: set criterion='cv'")
        self.rank_path_ = self.regularization_path_ = None
        if ranks.size == weights.size == 1:
            return int(ranks.item()), float(weights.item())
        run = partial(try_model, self, tol=max(self.tol, _TRIAL))
        candidates = Candidates(
            ranks, weights, partial(fits, geometry=self.geometry, run=run, device=self.device)
        )
        if self.criterion == "cv":
            path = candidates.cross_validated(data, self.cv, self.random_state, self.verbose)
        else:
            path = candidates.by_criterion(data, self.criterion)
        self.rank_path_ = path if by_rank else None
        self.regularization_path_ = path if by_weight else None
        return path.best

    def _present(self, data: Observations, fit: Fit, vector: bool) -> None:
        B = fit.L @ fit.R.T
        self.coef_: Floats = B[:, 0] if vector else B.T
        self.intercept_: Any = float(fit.intercept[0]) if vector else fit.intercept
        # The singular values and right singular vectors of the fitted responses.
        _, s, Vt = thin_svd(np.linalg.qr(data.centred_X @ fit.L)[1] @ fit.R.T)
        r = int(np.count_nonzero(s > s[:1] * max(data.X.shape) * np.finfo(np.float64).eps))
        V = Vt[:r].T * np.sign(Vt[np.arange(r), np.argmax(np.abs(Vt[:r]), axis=1)])  # one sign of two
        self.rank_, self.components_, self.x_rotations_ = r, V.T, B @ V
        whole = data.variances.sum() if data.loss.is_square else np.sum(s**2) / data.weights.sum()
        self.explained_variance_ = s[:r] ** 2 / data.weights.sum()
        self.explained_variance_ratio_ = self.explained_variance_ / (whole or 1.0)


def _names(Y: Any) -> NDArray[Any] | None:
    """The names of a table's columns, if all of them are strings."""
    for attribute in ("columns", "column_names"):  # of pandas and polars, and of pyarrow
        names = list(getattr(Y, attribute, ()))
        if names and all(isinstance(name, str) for name in names):
            return np.array(names, dtype=object)
    return None
