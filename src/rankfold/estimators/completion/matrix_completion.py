"""Matrix completion as a scikit-learn regressor on pairs (row, column)."""

from __future__ import annotations

import os
import warnings
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.estimators.completion.completed import CompletedMatrix
from rankfold.estimators.completion.entries import completion_of, training_triples
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.regularization import (
    MAX_ENTRIES,
    Factors,
    Penalised,
    choose_weight,
    sample_lines,
)
from rankfold.estimators.fingerprint import fingerprint
from rankfold.estimators.fitting import Geometries, all_or_nothing, fit_problem, problem_of
from rankfold.estimators.tensors import TensorScore
from rankfold.problem import Problem
from rankfold.run.checkpoint import Checkpoint
from rankfold.run.driver import Callback
from rankfold.run.result import Result
from rankfold.run.stopping import RelativeChange, StopKind
from rankfold.run.trace import Row, Trace
from rankfold.selection.identifiability import shortages
from rankfold.selection.rank import RankPath, choose_rank
from rankfold.solvers import ConjugateGradient, Method

# Regularised fits slow down once and for all; without a regulariser a plateau may come before the end, and
# the default solver has to see 20 slow iterations before it tries something else.
_WINDOW, _PLAIN_WINDOW = 3, 25
_EXACT = 1e-20  # of the value at W = 0: data that a matrix of this rank fits exactly


class MatrixCompletion(CompletedMatrix, TensorScore, RegressorMixin, BaseEstimator):
    """Predict the entries of a matrix from those that are known, by a matrix of low rank.

    Entry (i, j) is predicted by mean + b_i + c_j + L_i·R_j, with offsets b and c of rows and columns.

    Parameters
    ----------
    rank
        The number of columns of L and R; "auto" chooses it by entries held out (`rankfold.choose_rank`).
    bias
        Whether there are offsets. They are fitted first, alone, each shrunk as if it had 2 entries more.
    regularization
        λ >= 0, the weight of Σ √n_i ‖L_i‖² + Σ √m_j ‖R_j‖² beside the sum of the losses, with n_i and m_j
        entries in row i and column j; in the unit of y for the square loss. "auto" chooses it by a tenth of
        the entries held out (of some rows or columns, if there are more than a million). `bias=False` with
        `regularization=0.0` is plain matrix completion.
    loss
        "square", "huber", "logistic" (y is 0 or 1), "poisson" (counts) or a `rankfold.Loss`. `predict` gives
        probabilities for "logistic" and expected counts for "poisson".
    geometry
        "auto", "full_rank", "polar", "subspace", "embedded", or a geometry class.
    solver
        "auto", another solver's name, or a solver.
    tolerance
        The fit has converged when over three iterations (25 without regularisation) the cost fell by at most
        this part of itself.
    max_iterations
        The most iterations of the last fit; a `ConvergenceWarning` tells that they did not suffice.
    dtype
        Of the data and the factors while fitting: "float64", or "float32" in less memory.
    warm_start
        Whether `fit` starts from the factors, and with the regularisation, that the last `fit` found, if
        rows, columns and rank are the same.
    random_state
        Of the choice of held-out entries and of start points: an int for the same result each time.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per iteration, and per rank and λ tried.

    Attributes
    ----------
    factors_ : (L, R)
        Of shapes (rows, rank) and (columns, rank).
    biases_ : (mean, rows, cols)
        All zero without `bias`.
    shape_, rank_, regularization_
        The size of the matrix, and what was used where "auto" was asked for.
    row_labels_, col_labels_ : array or None
        What the rows and columns are called, in the order of the factors; None where X held positions.
    n_iter_, trace_, converged_, stop_reason_
        Iterations of the last fit, what each did, and how it ended.
    stop_kind_ : str
        How it ended in one word, the value of a `rankfold.stopping.StopKind`, such as "interrupted".
    rank_path_, regularization_path_
        Held-out errors by rank, and pairs (λ, held-out loss), where these were chosen; else None.
    observed_ : (indptr, indices)
        The positions that the model was fitted to, by row.
    data_fingerprint_ : str
        Equal for equal data, in whatever order.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0)
    >>> X, y = list(zip(data.rows, data.cols)), data.values
    >>> model = rf.MatrixCompletion(rank=2, bias=False, regularization=0.0).fit(X[:-9], y[:-9])
    >>> bool(abs(model.predict(X[-9:]) - y[-9:]).max() < 1e-4)
    True

    Labels, and a new row:

    >>> pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
    >>> model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
    >>> model.predict([("bob", "Heat"), ("dan", "Dune")]).shape  # dan is new: mean and Dune's offset
    (2,)
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = 5,
        *,
        bias: bool = True,
        regularization: float | Literal["auto"] = "auto",
        loss: str | Loss = "square",
        geometry: str | Geometries = "auto",
        solver: str | Method[Any] = "auto",
        tolerance: float = 1e-4,
        max_iterations: int = 500,
        dtype: DTypeLike = "float64",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.bias = bias
        self.regularization = regularization
        self.loss = loss
        self.geometry = geometry
        self.solver = solver
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.dtype = dtype
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        callback: Callback | None = None,
        checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
        resume: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit to known entries.

        Parameters
        ----------
        X
            Pairs (row, column), as an array, a list, a pandas or polars DataFrame or a torch tensor. Two
            columns of integers are positions counted from 0. If a side holds strings, both sides are labels.
            Or `rankfold.data.Triples`, which `rankfold.data.read_triples` returns, and no y.
        y
            The value of each entry. Pairs that come twice are two observations.
        sample_weight
            What each entry counts; weight 2 is the same as giving the entry twice.
        callback, checkpoint, resume
            As in `rankfold.minimize`, for the last fit. To resume, give the same data and an integer
            `random_state`. Ctrl-C during the last fit leaves a fitted model, the best so far; before it,
            while rank and λ are chosen, it raises `KeyboardInterrupt`, for there is no model yet.
        """
        data = training_triples(X, y)
        validate_data(self, np.empty((0, 2)) if data is X else X, skip_check_array=True)
        plain = completion_of(data, sample_weight, self.loss, self.dtype)
        side = plain.observed.by_row
        self.data_fingerprint_ = fingerprint(
            data.row_labels, data.col_labels, side.indptr, side.indices, side.data
        )
        warm = _Warm.of(self) if self.warm_start and hasattr(self, "factors_") else None
        self.row_labels_, self.col_labels_, self.shape_ = data.row_labels, data.col_labels, plain.shape
        with threadpool_limits(1, user_api="blas"):  # as in `minimize`, and between its calls
            self._fit(plain, warm, callback=callback, checkpoint=checkpoint, resume=resume)
        self.observed_ = Pattern.of(side)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = tags.input_tags.positive_only = True
        return tags

    def _fit(self, plain: Completion, warm: _Warm | None, **options: Any) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.rank_ = self._choose_rank(plain, seed)
        if warm is not None and not warm.fits(self):
            warm = None
        weight, found = self._choose_weight(plain, seed, warm)
        if not weight:
            _warn_of_shortages(plain, self.rank_)
        penalised = Penalised.of(plain, self.bias)
        self.regularization_, self.biases_ = weight, penalised.offsets
        factors = self._start(penalised, warm, found, seed) if options["resume"] is None else None
        problem = problem_of(penalised.cost(weight), self.rank_, self.geometry)
        if factors is None and options["resume"] is None and weight:
            self._all_zero(problem)
        else:
            self._minimise(problem, penalised, factors, **options)

    def _start(self, penalised: Penalised, warm: _Warm | None, found: Any, seed: int) -> Factors | None:
        """Return where to start; None for the cost's own start point or, with a penalty, if W = 0 is best."""
        weight = self.regularization_
        if warm is not None:
            return warm.factors
        if not weight:
            return None
        return penalised.start(weight, self.rank_, seed) if found is None else penalised.swept(found, weight)

    def _choose_rank(self, plain: Completion, seed: int) -> int:
        self.rank_path_: RankPath | None = None
        if isinstance(self.rank, str) and self.rank == "auto":
            part = Penalised.of(sample_lines(plain, MAX_ENTRIES, seed), self.bias)
            if self.bias and not plain.quadratic:
                raise ValueError(f"rank='auto' with the loss {self.loss!r} takes bias=False; or give a rank")
            self.rank_path_ = choose_rank(part.completion, seed=seed, verbose=self.verbose)
            return self.rank_path_.chosen
        rank: Any = self.rank
        largest = min(plain.shape)
        if not (isinstance(rank, Integral) and 1 <= int(rank) <= largest):
            raise ValueError(
                f"rank must be 'auto' or an integer from 1 to {largest}, the lesser of {plain.shape[0]} rows "
                f"and {plain.shape[1]} columns; got {rank!r}"
            )
        return int(rank)

    def _choose_weight(self, plain: Completion, seed: int, warm: _Warm | None) -> tuple[float, Any]:
        """Return λ, and the factors that its choice found, if there was one."""
        self.regularization_path_: tuple[tuple[float, float], ...] | None = None
        if isinstance(self.regularization, str):
            if self.regularization != "auto":
                raise ValueError(f"regularization must be 'auto' or a number, not {self.regularization!r}")
            if warm is not None:
                return warm.regularization, None
            choice = choose_weight(plain, self.bias, self.rank_, self.geometry, seed, self.verbose)
            self.regularization_path_ = choice.candidates
            return choice.weight, choice.factors
        weight: Any = self.regularization
        if not (isinstance(weight, Real) and 0 <= float(weight) < np.inf):
            raise ValueError(f"regularization must be 'auto' or finite and at least 0, not {weight!r}")
        return float(weight), None

    def _all_zero(self, problem: Problem) -> None:
        value = float(problem.cost.value_at_zero)
        L, R = (np.zeros((d, self.rank_), self.dtype) for d in self.shape_)
        self.factors_, self.n_iter_, self.trace_ = (L, R), 1, Trace([Row(0, value, 0.0, 0.0)])
        self.converged_, self.stop_reason_ = True, "with this regularization, W = 0 is best"
        self.stop_kind_ = StopKind.CONVERGED.value

    def _minimise(
        self, problem: Problem, penalised: Penalised, factors: Factors | None, **options: Any
    ) -> None:
        weight = self.regularization_
        auto = isinstance(self.solver, str) and self.solver == "auto"
        with warnings.catch_warnings():
            if weight:  # where W loses rank the penalty has a kink, and at its bottom there is no way down
                warnings.filterwarnings("ignore", message=".*stalled", category=ConvergenceWarning)
            result: Result = fit_problem(
                problem,
                solver=ConjugateGradient() if auto and weight else self.solver,
                x0=None if factors is None else problem.geometry.from_factors(*factors),
                max_iterations=self.max_iterations,
                tolerance=_EXACT,
                stop=RelativeChange(self.tolerance, _WINDOW if weight else _PLAIN_WINDOW),
                verbose=self.verbose,
                **options,
            )
        self.factors_ = penalised.balanced(*problem.geometry.factors(result.x))
        self.n_iter_, self.trace_ = max(result.iterations, 1), result.trace
        at_kink = bool(weight) and result.stop.kind is StopKind.STALLED
        self.converged_, self.stop_reason_ = result.converged or at_kink, result.stop_reason
        self.stop_kind_ = result.stop.kind.value


def _warn_of_shortages(plain: Completion, rank: int) -> None:
    """Without a regulariser, what too few entries leave open stays open: some predictions are chance."""
    why = shortages(plain, rank)
    if why:
        message = f"the fit is not unique: {'; '.join(why)}. Lower the rank, or set regularization"
        warnings.warn(message, UserWarning, stacklevel=4)


class _Warm(NamedTuple):
    """What the last fit found, for the next one to start from."""

    shape: tuple[int, int]
    row_labels: Any
    col_labels: Any
    factors: Factors
    regularization: float

    @classmethod
    def of(cls, model: MatrixCompletion) -> _Warm:
        labels = model.row_labels_, model.col_labels_
        return cls(model.shape_, *labels, model.factors_, model.regularization_)

    def fits(self, model: MatrixCompletion) -> bool:
        """Whether rows, columns and rank are the same as those that `model` is about to be fitted to."""
        same = (
            (mine is None) == (theirs is None) and (theirs is None or np.array_equal(mine, theirs))
            for mine, theirs in ((self.row_labels, model.row_labels_), (self.col_labels, model.col_labels_))
        )
        same_size = self.shape == model.shape_ and self.factors[0].shape[1] == model.rank_
        return same_size and all(same)
