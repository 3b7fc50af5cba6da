"""Matrix completion as a scikit-learn regressor on pairs (row, column)."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator, RegressorMixin

from rankfold.costs.losses import Loss
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.triples import Triples
from rankfold.distributed.spreading import SpreadTriples
from rankfold.entries.devices import usable_device
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion import spread
from rankfold.estimators.completion.bayes.finishing import finished, wanted
from rankfold.estimators.completion.completed import CompletedMatrix
from rankfold.estimators.completion.entries import (
    note_columns,
    refuse_without_room,
    training_entries,
)
from rankfold.estimators.completion.fit_steps import MAX_ENTRIES, begun, chosen, unasked
from rankfold.estimators.completion.joint import Joint
from rankfold.estimators.completion.last_fit import how_to_finish, last_fit, last_point
from rankfold.estimators.completion.side.deciding import expectations
from rankfold.estimators.completion.side.given import Given, given_sides, traits_of, wished
from rankfold.estimators.completion.side.learnt import learnt
from rankfold.estimators.fitting import Geometries, all_or_nothing, record_run
from rankfold.estimators.inputs import seed_of
from rankfold.run.blas import one_blas_thread
from rankfold.run.checkpoint import Checkpoint
from rankfold.run.driver import Callback
from rankfold.selection.identifiability import shortages
from rankfold.selection.sampling import sampled
from rankfold.solvers import Method


class MatrixCompletion(CompletedMatrix, RegressorMixin, BaseEstimator):
    """Predict the entries of a matrix from those that are known, by a matrix of low rank.

    Entry (i, j) is predicted by p_ij = mean + b_i + c_j + L_i·R_j, with offsets b and c of rows and columns.
    Offsets and factors are one model: together they minimise, over the n_i and m_j entries in row i and
    column j, Σ w_ij ℓ(p_ij, y_ij) + λ (Σ √n_i ‖L_i‖² + Σ √m_j ‖R_j‖²) + ρ_r Σ b_i² + ρ_c Σ c_j².

    Parameters
    ----------
    rank
        The number of columns of L and R, or as many as the lesser side has. "auto" is 10 unless entries held
        out say that another rank is better, at each rank with the best λ, by more than a standard error: so
        that ratings get rank enough, and a matrix of lower rank is found exactly. A rank given is faster.
    bias
        Whether there are offsets. Their shrinkages ρ_r and ρ_c are estimated: the variance of the noise by
        that of the offsets of either side, which is the most likely one given the entries.
    regularization
        λ >= 0, in the unit of y for the square loss. "auto" chooses it, from offsets alone (W = 0) down to 0,
        by a tenth of the entries held out (of some rows or columns, if there are more than a million;
        several times, if they are few). `bias=False` with `regularization=0.0` is plain matrix completion.
    loss
        "square", "huber", "logistic" or "squared_hinge" (y is 0 or 1), "poisson" (counts) or a
        `rankfold.Loss`. `predict` gives probabilities for "logistic", expected counts for "poisson".
    geometry
        "auto", "full_rank", "polar", "subspace", "embedded", or a geometry class.
    solver
        "auto", another solver's name, or a solver. With both this and `geometry` "auto", rows and columns are
        solved for in turn, accelerated by conjugate gradients, which finds the minimum also where W has a
        lower rank than `rank`; plain matrix completion is minimised on a geometry.
    bayesian
        Whether the fit is finished by variational Bayes (square loss only): rows and columns are Gaussians,
        drawn from priors that depend on how many entries they have; priors and noise are estimated. "auto":
        where λ is chosen, for as many sweeps as entries held out are predicted best with, none if the fit
        alone is best, and, with rank "auto", at twice the rank if that is better. True: one sweep at least;
        False: none, and nothing is known of how sure a prediction is.
    clip
        Whether predictions, and the ends of intervals, are kept within the range of the known values: right
        for ratings on a scale, of which none are beyond its ends. Not so for measurements, whose largest may
        be yet to come: therefore no by default.
    tol
        The fit has converged when over three iterations (25 without regularisation) the cost fell by at most
        this part of itself. "auto" is 1e-6, and 1e-4 for a λ > 0 that was chosen: by fits as loose as that.
    max_iter
        The most iterations of the last fit; a `ConvergenceWarning` says if they did not suffice.
    dtype
        Of the data and the factors while fitting: "float64", or "float32" in less memory.
    device
        "cuda": the last fit, one on a geometry, and its Bayesian finish are on a GPU (with torch and Triton);
        rank, λ and sweeps are chosen on the CPU, and what is found is NumPy's. "auto": so if there is a GPU.
    warm_start
        Whether `fit` starts from the factors, and with the regularisation, that the last `fit` found, if
        rows, columns and rank are the same.
    shape
        (m, n) says that pairs are positions, counted from 0, in a matrix of that size; one outside it is an
        error. By default the ids of rows and columns are labels, integers too: of whatever size and sign.
    random_state
        Decides which entries are held out, and start points: an int for the same result each time.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per iteration, and per rank or λ tried.
    row_features, col_features
        Features, unless `fit` is given others; not kept in files, as what was learnt from them is. None:
        which columns a row has entries in, and which rows a column (`rankfold.implicit_features`), where
        entries held out are predicted clearly better so and λ is chosen, of less than 300,000 entries and
        for the square loss. False: nothing.

    Attributes
    ----------
    factors_ : (L, R)
        Of shapes (rows, rank) and (columns, rank).
    biases_ : (mean, rows, cols)
        The offsets; all zero without `bias`.
    shape_, rank_, regularization_
        The size of the matrix, and what was used where "auto" was asked for.
    shrinkage_ : (rows, cols) or None
        ρ_r and ρ_c, in numbers of entries: alone, an offset of a row with n of them shrinks by n / (n + ρ_r).
    row_labels_, col_labels_ : array or None
        What the rows and columns are called, in the order of the factors; None where X held positions
        (`shape`, or Triples without labels).
    value_range_ : (least, largest)
        Of the values that it was fitted to; None in models that earlier versions saved.
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
    posterior_ : Posterior or None
        Covariances of rows and columns, their priors and the noise, if the model knows how sure it is.
    features_ : (rows, cols)
        What was learnt from features, given or implicit, None for a side without: `LearntFeatures`.
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

    Entries on disk, which may be more than memory holds:

    >>> import tempfile
    >>> folder = rf.data.sort_into(tempfile.mkdtemp(), data, shape=data.shape)
    >>> spilled = rf.MatrixCompletion(rank=2, bias=False, regularization=0.0).fit(folder)
    >>> bool(abs(spilled.predict(X[-9:]) - y[-9:]).max() < 1e-4)
    True
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        bias: bool = True,
        regularization: float | Literal["auto"] = "auto",
        loss: str | Loss = "square",
        geometry: str | Geometries = "auto",
        solver: str | Method[Any] = "auto",
        bayesian: bool | Literal["auto"] = "auto",
        clip: bool = False,
        tol: float | Literal["auto"] = "auto",
        max_iter: int = 500,
        dtype: DTypeLike = "float64",
        device: str = "cpu",
        warm_start: bool = False,
        shape: tuple[int, int] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
        row_features: Any = None,
        col_features: Any = None,
    ):
        self.rank = rank
        self.bias = bias
        self.regularization = regularization
        self.loss = loss
        self.geometry = geometry
        self.solver = solver
        self.bayesian = bayesian
        self.clip = clip
        self.tol = tol
        self.max_iter = max_iter
        self.dtype = dtype
        self.device = device
        self.warm_start = warm_start
        self.shape = shape
        self.random_state = random_state
        self.verbose = verbose
        self.row_features = row_features
        self.col_features = col_features

    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        row_features: Any = None,
        col_features: Any = None,
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
            labels hold positions. Or a `rankfold.data.SortedFolder`, which `rankfold.data.sort_into` returns,
            of entries that outgrow memory: the fit is the same, but without a Bayesian finish where the
            covariances outgrow the memory that was given to sort. Or what `rankfold.distributed.read`
            returns, in every process alike.
        y
            The value of each entry. Pairs that come twice are two observations.
        sample_weight
            What each entry counts; weight 2 is the same as giving the entry twice (but for what is chosen or
            estimated by entries held out, which are others then).
        row_features, col_features
            Features of rows and columns, here or as settings (for searches and pipelines): a pandas DataFrame
            with labels as its index, a pair (labels, table), or an array or SciPy matrix whose line i belongs
            to position i, or to the label i. Columns of text are taken for categories, NaN for a feature as
            it is on average; features are centred and scaled inside. What they make one expect is a part of
            the model: rows and columns with features are predicted without entries. They are of no effect
            where entries held out are predicted worse with them.
        callback, checkpoint, resume
            As in `rankfold.minimize`, for the last fit. To resume, give the same data and an integer
            `random_state`. Ctrl-C leaves a fitted model, the best so far, also while rank and λ are chosen.
        """
        usable_device(self.device)  # what is missing is said before any work
        if isinstance(X, SpreadTriples):
            of_rows, of_cols = wished(self, (row_features, col_features))
            more = {"y": y, "sample_weight": sample_weight, "shape": self.shape}
            spread.refuse_beside(more | {"row_features": of_rows, "col_features": of_cols})
            spread.fit(self, X, MAX_ENTRIES, callback=callback, checkpoint=checkpoint, resume=resume)
            return self
        data = training_entries(X, y, self.shape)
        refuse_without_room(data.shape, self.rank, self.dtype)
        note_columns(self, X)
        last = last_point(self, data)
        wishes = wished(self, (row_features, col_features))
        given, free = given_sides(self, wishes, X, data), (wishes[0] is not False, wishes[1] is not False)
        self.row_labels_, self.col_labels_ = data.row_labels, data.col_labels
        with one_blas_thread():  # as in `minimize`, and between its calls
            run = {"callback": callback, "checkpoint": checkpoint, "resume": resume}
            self._fit(data, sample_weight, last, given, free, run)
        self._take_in(given)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags

    def _fit(
        self, data: Triples | SortedFolder, sample_weight: Any, last: FactorPair | None, given: Given,
        free: tuple[bool, bool], run: dict[str, Any],
    ) -> None:  # fmt: skip
        seed = seed_of(self.random_state)
        cost = begun(self, data, sample_weight)
        traits = traits_of(given, data)
        choice = chosen(self, cost, last, seed)
        choice, expecting = expectations(choice, cost, traits, sampled(cost, MAX_ENTRIES, seed), seed)
        choice, expecting, implicit = unasked(self, cost, choice, free, expecting, seed)
        choice, verdict = how_to_finish(self, cost, choice, seed)
        self.rank_, self.regularization_, self.shrinkage_ = choice.rank, choice.weight, choice.shrinkage
        self.regularization_path_, self.rank_path_ = choice.path, choice.rank_path
        joint = replace(Joint.of(cost, choice.weight, choice.shrinkage), expecting=expecting)
        why = [] if choice.weight else shortages(cost, self.rank_)
        if why:  # what too few entries leave open stays open without a regulariser: predictions by chance
            message = f"the fit is not unique: {'; '.join(why)}. Lower the rank, or set regularization"
            warnings.warn(message, UserWarning, stacklevel=4)
        run |= {"max_iterations": self.max_iter, "verbose": self.verbose}
        fitted = last_fit(self, joint, choice, seed, run)
        fitted, self.posterior_ = finished(joint, fitted, wanted(self, cost), verdict, self.device)
        self.factors_, self.information_ = fitted.factors, None
        self.features_, self.biases_ = learnt(given, traits, implicit, fitted, self.counts_, self.bias)
        record_run(self, fitted.trace, fitted.stop)
