"""Matrix completion as a scikit-learn regressor on pairs (row, column)."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.data.triples import Triples
from rankfold.estimators.completion.choosing import Choice, choose_weight
from rankfold.estimators.completion.completed import CompletedMatrix
from rankfold.estimators.completion.entries import (
    completion_of,
    refuse_without_room,
    training_triples,
    warn_if_all_equal,
)
from rankfold.estimators.completion.lines import FactorPair
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.penalised import Penalised
from rankfold.estimators.fitting import Geometries, all_or_nothing, fit_problem, problem_of, record_run
from rankfold.estimators.inputs import checked_rank, checked_regularization, is_auto
from rankfold.fingerprint import fingerprint
from rankfold.problem import Problem
from rankfold.run.blas import one_blas_thread
from rankfold.run.checkpoint import Checkpoint
from rankfold.run.driver import Callback
from rankfold.run.stopping import RelativeChange, Stop, StopKind
from rankfold.run.trace import Trace, TraceRow
from rankfold.selection.identifiability import shortages
from rankfold.selection.rank import RankPath, choose_rank
from rankfold.selection.sampling import sample_lines
from rankfold.solvers import ConjugateGradient, Method

MAX_ENTRIES = 1_000_000  # that the choice of rank and regularisation looks at, about
# Regularised fits slow down once and for all; without a regulariser a plateau may come before the end, and
# the default solver has to see 20 slow iterations before it tries something else.
_WINDOW, _PLAIN_WINDOW = 3, 25
_EXACT = 1e-20  # of the value at W = 0: data that a matrix of this rank fits exactly


class MatrixCompletion(CompletedMatrix, RegressorMixin, BaseEstimator):
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
        "square", "huber", "logistic" or "squared_hinge" (y is 0 or 1), "poisson" (counts) or a
        `rankfold.Loss`. `predict` gives probabilities for "logistic", expected counts for "poisson".
    geometry
        "auto", "full_rank", "polar", "subspace", "embedded", or a geometry class.
    solver
        "auto", another solver's name, or a solver.
    tol
        The fit has converged when over three iterations (25 without regularisation) the cost fell by at most
        this part of itself.
    max_iter
        The most iterations of the last fit; a `ConvergenceWarning` says if they did not suffice.
    dtype
        Of the data and the factors while fitting: "float64", or "float32" in less memory.
    warm_start
        Whether `fit` starts from the factors, and with the regularisation, that the last `fit` found, if
        rows, columns and rank are the same.
    shape
        (m, n) says that pairs are positions, counted from 0, in a matrix of that size; one outside it is an
        error. By default the ids of rows and columns are labels, integers too: of whatever size and sign.
    random_state
        Decides which entries are held out, and start points: an int for the same result each time.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per iteration, and per rank and λ tried.

    Attributes
    ----------
    factors_ : (L, R)
        Of shapes (rows, rank) and (columns, rank).
    biases_ : (mean, rows, cols)
        The offsets; all zero without `bias`.
    shape_, rank_, regularization_
        The size of the matrix, and what was used where "auto" was asked for.
    row_labels_, col_labels_ : array or None
        What the rows and columns are called, in the order of the factors; None where X held positions
        (`shape`, or Triples without labels).
    counts_ : (rows, cols)
        How many entries each row and each column was fitted to.
    n_iter_, trace_, converged_, stop_reason_
        Iterations of the last fit, what each did, and how it ended.
    stop_kind_ : str
        How it ended in one word, the value of a `rankfold.stopping.StopKind`, such as "interrupted".
    rank_path_ : RankPath or None
        Held-out errors by rank, where the rank was chosen.
    regularization_path_ : RegularizationPath or None
        Held-out errors by λ, where λ was chosen.
    observed_ : (indptr, indices)
        The positions that the model was fitted to: row i has columns indices[indptr[i]:indptr[i + 1]].
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
        tol: float = 1e-4,
        max_iter: int = 500,
        dtype: DTypeLike = "float64",
        warm_start: bool = False,
        shape: tuple[int, int] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.bias = bias
        self.regularization = regularization
        self.loss = loss
        self.geometry = geometry
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.warm_start = warm_start
        self.shape = shape
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
            Pairs (row, column), as an array, a list, a pandas or polars DataFrame or a torch tensor. Either
            side holds labels: all integers, all strings or all datetime64; with `shape`, positions. Or
            `rankfold.data.Triples`, which `rankfold.data.read_triples` returns, and no y; those without
            labels hold positions.
        y
            The value of each entry. Pairs that come twice are two observations.
        sample_weight
            What each entry counts; weight 2 is the same as giving the entry twice.
        callback, checkpoint, resume
            As in `rankfold.minimize`, for the last fit. To resume, give the same data and an integer
            `random_state`. Ctrl-C during the last fit leaves a fitted model, the best so far; before it,
            while rank and λ are chosen, it raises `KeyboardInterrupt`, for there is no model yet.
        """
        data = training_triples(X, y, self.shape)
        refuse_without_room(data.shape, self.rank, self.dtype)
        validate_data(self, np.empty((0, 2)) if isinstance(X, Triples) else X, skip_check_array=True)
        last = self._last_factors(data)
        self.row_labels_, self.col_labels_ = data.row_labels, data.col_labels
        with one_blas_thread():  # as in `minimize`, and between its calls
            self._fit(data, sample_weight, last, callback=callback, checkpoint=checkpoint, resume=resume)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _last_factors(self, data: Triples) -> FactorPair | None:
        """What the last fit found, if this one is to start from it and has the same rows and columns."""
        if not (self.warm_start and hasattr(self, "factors_")):
            return None
        L, R = self.factors_
        labels: Any = (self.row_labels_, data.row_labels), (self.col_labels_, data.col_labels)
        same = all(np.array_equal(*both) for both in labels)
        return (L, R) if same and (len(L), len(R)) == data.shape else None

    def _fit(self, data: Triples, sample_weight: Any, last: FactorPair | None, **run: Any) -> None:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        cost = self._cost(data, sample_weight)
        sample = sample_lines(cost, MAX_ENTRIES, seed) if is_auto(self.regularization) else None
        penalised = Penalised.of(cost, self.bias)
        self.biases_ = penalised.offsets
        del cost  # with offsets and the square loss the fit works on a copy without the offsets
        self.rank_ = self._choose_rank(penalised, seed)
        last = last if last and last[0].shape[1] == self.rank_ else None
        weight, path, factors = self._choose_weight(sample, last is not None, seed)
        del sample
        self.regularization_, self.regularization_path_ = weight, path
        why = [] if weight else shortages(penalised.completion, self.rank_)
        if why:  # what too few entries leave open stays open without a regulariser: predictions by chance
            message = f"the fit is not unique: {'; '.join(why)}. Lower the rank, or set regularization"
            warnings.warn(message, UserWarning, stacklevel=4)
        problem = problem_of(penalised.cost(weight), self.rank_, self.geometry)
        start = last if run["resume"] is None else None  # a checkpoint has a point of its own
        if start is None and weight and run["resume"] is None:
            start = penalised.swept(factors, weight) if factors else penalised.start(weight, self.rank_, seed)
            if start is None:
                self._take_zero(problem)
                return
        self._minimise(problem, penalised, start, **run)

    def _cost(self, data: Triples, sample_weight: Any) -> Completion:
        """Check the settings and the data, note what the data are, and return the cost of fitting them."""
        cost = completion_of(data, sample_weight, self.loss, self.dtype)
        warn_if_all_equal(np.asarray(data.values))
        if not is_auto(self.regularization):
            checked_regularization(self.regularization, "'auto' or ")
        if not is_auto(self.rank):
            why = "the lesser of {} rows and {} columns".format(*cost.shape)
            checked_rank(self.rank, min(cost.shape), why)
        elif self.bias and not cost.quadratic:
            raise ValueError(f"rank='auto' with the loss {self.loss!r} takes bias=False; or give a rank")
        side = cost.observed.by_row
        labels = data.row_labels, data.col_labels
        self.data_fingerprint_ = fingerprint(*labels, side.indptr, side.indices, side.data)
        self.shape_, self.observed_ = cost.shape, Pattern.of(side)
        self.counts_ = cost.observed.counts
        return cost

    def _choose_rank(self, penalised: Penalised, seed: int) -> int:
        self.rank_path_: RankPath | None = None
        if not is_auto(self.rank):
            return int(self.rank)
        sample = sample_lines(penalised.completion, MAX_ENTRIES, seed)
        path = choose_rank(sample, seed=seed, verbose=self.verbose)
        self.rank_path_ = replace(path, factors=None)  # they are of a sample, and lack what was held out
        return path.chosen

    def _choose_weight(self, sample: Completion | None, warm: bool, seed: int) -> Choice:
        """Choose λ by a sample of the data; there is none where λ is given. A warm start keeps the last λ."""
        if sample is None:
            return Choice(float(self.regularization))
        if warm:
            return Choice(self.regularization_)
        return choose_weight(sample, self.bias, self.rank_, self.geometry, seed, self.verbose)

    def _take_zero(self, problem: Problem) -> None:
        """Take W = 0 for the model."""
        value = float(problem.cost.value_at_zero)
        L, R = (np.zeros((d, self.rank_), self.dtype) for d in self.shape_)
        self.factors_ = L, R
        stop = Stop("with this regularization, W = 0 is best", StopKind.CONVERGED)
        record_run(self, Trace([TraceRow(0, value, 0.0, 0.0)]), stop)

    def _minimise(self, problem: Problem, penalised: Penalised, start: FactorPair | None, **run: Any) -> None:
        weight = self.regularization_
        # Where W loses rank the penalty has a kink, and at its bottom there is no way down.
        accepted = (StopKind.STALLED,) if weight else ()
        result = fit_problem(
            problem,
            accepted,
            solver=ConjugateGradient() if is_auto(self.solver) and weight else self.solver,
            x0=None if start is None else problem.geometry.from_factors(*start),
            max_iterations=self.max_iter,
            tolerance=_EXACT,
            stop=RelativeChange(self.tol, _WINDOW if weight else _PLAIN_WINDOW),
            verbose=self.verbose,
            **run,
        )
        self.factors_ = penalised.balanced(*result.factors)
        stop = Stop(result.stop_reason, StopKind.CONVERGED) if result.stop.kind in accepted else result.stop
        record_run(self, result.trace, stop)
