"""Recommendations from clicks, purchases or plays, as a scikit-learn estimator on pairs (user, item)."""

from __future__ import annotations

import os
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rankfold.data.numbering import Positions
from rankfold.data.triples import Triples
from rankfold.entries.lines import FactorPair
from rankfold.estimators.clicks.choosing import Choice, choose, list_qualities
from rankfold.estimators.clicks.objective import POWERS, Clicks, check_settings, click_completion, counts_of
from rankfold.estimators.completion.alternating import Alternating, Lines
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.entries import (
    named_entries,
    note_columns,
    refuse_without_room,
    training_triples,
)
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.estimators.fitting import all_or_nothing, fit_problem, record_run, warn_unless_converged
from rankfold.estimators.inputs import checked_places, is_auto, seed_of
from rankfold.estimators.rank_errors import RankErrors
from rankfold.estimators.recommending import Recommender
from rankfold.estimators.tensors import like_given, without_tensors
from rankfold.fingerprint import fingerprint
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.problem import Problem
from rankfold.run.blas import one_blas_thread
from rankfold.run.checkpoint import Checkpoint
from rankfold.run.driver import Callback
from rankfold.run.stopping import RelativeChange, Stop, StopKind
from rankfold.run.trace import Trace, TraceRow
from rankfold.selection.sampling import sample_lines

MAX_ENTRIES = 200_000  # that the choice of rank and regularisation looks at, about
_WINDOW = 3


class ImplicitFeedback(Recommender, BaseEstimator):
    """Recommend from what users chose, where nothing says what they disliked: clicks, purchases, plays.

    A pair (user, item) with n clicks should be predicted as 1, with the weight 1 + α n; all other pairs as 0,
    with the weight 1. W = L Rᵀ minimises the sum of these weighted squares (`Completion + Unobserved`)
    plus λ (Σ n_i^¾ ‖L_i‖² + Σ m_j^¼ ‖R_j‖²), with α times the clicks of user i and of item j as n_i and m_j.
    No pair without a click is visited: an iteration takes time in proportion to the clicks.

    Parameters
    ----------
    rank
        The number of columns of L and R. "auto" is 128, or 32 if lists of clicks held out are worse
        with 128 by more than a standard error. A rank given is faster.
    alpha
        What a click weighs, beside a pair without one. With a λ that was chosen for it, it matters little.
    regularization
        λ >= 0. "auto" chooses it by where a tenth of the clicks, held out, come in the lists of their users:
        by NDCG@20 (of some users or items, if there are more than 200,000 clicks).
    tol
        The fit has converged when over three iterations the cost fell by at most this part of itself.
    max_iter
        The most iterations of the last fit; a `ConvergenceWarning` says if they did not suffice.
    dtype
        Of the data and the factors while fitting: "float64", or "float32" in less memory.
    warm_start
        Whether `fit` starts from the factors, and with the regularisation, that the last `fit` found, if
        users, items and rank are the same.
    shape
        (m, n) says that pairs are positions, counted from 0; by default ids are labels, integers too.
    random_state
        Decides which clicks are held out, and start points: an int for the same result each time.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per iteration, and per rank or λ tried.

    Attributes
    ----------
    factors_ : (L, R)
        Of shapes (users, rank) and (items, rank).
    shape_, rank_, regularization_
        The numbers of users and items, and what was used where "auto" was asked for.
    row_labels_, col_labels_ : array or None
        What users and items are called, in the order of the factors; None where X held positions.
    counts_ : (rows, cols)
        How many items each user was seen with, and how many users each item.
    n_iter_, trace_, converged_, stop_reason_, stop_kind_
        Iterations of the last fit, what each did, and how it ended. The trace's value is the objective,
        divided by the number of pairs seen.
    rank_path_ : RankErrors or None
        1 − NDCG@20 of the clicks held out by rank, where the rank was chosen.
    regularization_path_ : RegularizationPath or None
        The same by λ, where λ was chosen.
    observed_ : (indptr, indices)
        The pairs seen: user i has items indices[indptr[i]:indptr[i + 1]].
    data_fingerprint_ : str
        Equal for equal data, in whatever order.

    Examples
    --------
    >>> import rankfold as rf
    >>> clicks = [("ann", "Dune"), ("ann", "Solaris"), ("bob", "Dune"), ("bob", "Solaris"), ("bob", "Alien"),
    ...           ("cyd", "Heat"), ("cyd", "Ronin"), ("dan", "Heat"), ("dan", "Ronin"), ("dan", "Thief")]
    >>> model = rf.ImplicitFeedback(rank=2, regularization=0.1, random_state=0).fit(clicks)
    >>> model.recommend(["ann", "cyd"], n=1).cols.tolist()
    ['Alien', 'Thief']

    Someone new, without a refit:

    >>> model.fold_in([("eve", "Ronin")]).recommend("eve", n=1).cols.tolist()
    ['Heat']
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        alpha: float = 4.0,
        regularization: float | Literal["auto"] = "auto",
        tol: float = 1e-4,
        max_iter: int = 200,
        dtype: DTypeLike = "float64",
        warm_start: bool = False,
        shape: tuple[int, int] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.alpha = alpha
        self.regularization = regularization
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
        """Fit to clicks.

        Parameters
        ----------
        X
            Pairs (user, item), in any form that `MatrixCompletion.fit` takes; or `rankfold.data.Triples`,
            whose values are the counts, and no y.
        y
            How many clicks each pair has, not negative, or any other confidence that it was meant; 1 by
            default. The clicks of a pair that comes twice add up. A pair of 0 clicks weighs what one that is
            not given does, but counts as seen.
        sample_weight
            What each click of a pair counts: weight 2 is twice the clicks.
        callback, checkpoint, resume
            As in `rankfold.minimize`, for the last fit. To resume, give the same data and an integer
            `random_state`. Ctrl-C leaves a fitted model, the best so far, also while rank and λ are chosen.
        """
        data = training_triples(X, counts_of(X, y), self.shape)
        refuse_without_room(data.shape, self.rank, self.dtype)
        note_columns(self, X)
        check_settings(self.rank, self.alpha, self.regularization, data.shape)
        last = self._last_point(data)
        self.row_labels_, self.col_labels_ = data.row_labels, data.col_labels
        with one_blas_thread():  # as in `minimize`, and between its calls
            cost = self._cost(data, sample_weight)
            self._fit(cost, last, callback=callback, checkpoint=checkpoint, resume=resume)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the scores of pairs, given as for `fit`: near 1 for what a user would choose, near 0 else.

        A user or an item that the model has never seen has the score 0. Given a torch tensor, returns one.
        """
        return like_given(X, self.predict_at(*self._find(X)))

    def predict_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the scores at positions, counted from 0; -1 is a user or an item never seen."""
        check_is_fitted(self)
        rows, cols = checked_places(rows, cols, self.shape_)
        L, R = self.factors_
        scores = np.einsum("pk,pk->p", L[rows], R[cols], dtype=np.float64)
        return np.where((rows < 0) | (cols < 0), 0.0, scores)

    def score(self, X: Any, y: ArrayLike | None = None) -> float:
        """Return NDCG@20 of the lists that `recommend` makes, where the pairs of X are what should be found.

        y, the clicks of each pair, says which are: those above 0. Users never seen are left out, items never
        seen are not found. `rankfold.metrics` has more.
        """
        (values,) = without_tensors(X.values if isinstance(X, Triples) else counts_of(X, y))
        rows, cols = self._find(X)
        new = np.flatnonzero(cols < 0)
        cols = cols.copy()
        cols[new] = self.shape_[1] + np.arange(len(new))
        kept = (rows >= 0) & (np.asarray(values) > 0)
        if not kept.any():
            raise ValueError("X has no click of a user that the model has seen")
        pairs = np.unique(np.stack([rows[kept], cols[kept]]), axis=1)
        return float(list_qualities(self.factors_, self.observed_, (pairs[0], pairs[1])).mean())

    def _last_point(self, data: Triples) -> FactorPair | None:
        """What the last fit found, if this one is to start from it and has the same users and items."""
        if not (self.warm_start and hasattr(self, "factors_") and self.shape_ == tuple(data.shape)):
            return None
        labels: Any = (self.row_labels_, data.row_labels), (self.col_labels_, data.col_labels)
        same = all(np.array_equal(*both) for both in labels)
        return self.factors_ if same and all(factor.any() for factor in self.factors_) else None

    def _cost(self, data: Triples, sample_weight: Any) -> Clicks:
        """Note what the data are, and return the cost of fitting them, without a penalty."""
        completion = click_completion(data, sample_weight, float(self.alpha), self.dtype)
        side = completion.observed.plain.by_row
        labels = data.row_labels, data.col_labels
        self.data_fingerprint_ = fingerprint(*labels, side.indptr, side.indices, side.data)
        self.shape_, self.observed_ = completion.shape, Pattern.of(side)
        self.counts_ = completion.observed.counts
        return Clicks.of(completion)

    def _fit(self, cost: Clicks, last: FactorPair | None, **run: Any) -> None:
        seed = seed_of(self.random_state)
        choice = self._choose(cost, last, seed)
        self.rank_, self.regularization_ = choice.rank, choice.weight
        self.regularization_path_: RegularizationPath | None = choice.path
        self.rank_path_: RankErrors | None = choice.rank_path
        cost = cost.at(choice.weight)
        largest, start = cost.started(choice.rank, seed)
        if choice.point is not None:
            start = cost.completed(*choice.point)
        if choice.weight >= largest:
            start = np.zeros_like(start[0]), np.zeros_like(start[1])
        if choice.interrupted or choice.weight >= largest:
            self._take(cost, start, choice.interrupted)
            return
        problem = Problem(cost, Lines(cost.shape, choice.rank, bias=False))
        x0 = FullRankFactors(*start) if run["resume"] is None else None  # a checkpoint has a point of its own
        result = fit_problem(
            problem, solver=Alternating(), x0=x0, tolerance=0.0, stop=RelativeChange(self.tol, _WINDOW),
            max_iterations=self.max_iter, verbose=self.verbose, **run,
        )  # fmt: skip
        self.factors_ = cost.joint.balanced(*result.x)
        record_run(self, result.trace, result.stop)

    def _choose(self, cost: Clicks, last: FactorPair | None, seed: int) -> Choice:
        """Choose what is to be chosen by a sample of the data. A warm start keeps what the last fit used."""
        rank = None if is_auto(self.rank) else min(int(self.rank), *cost.shape)
        weight = None if is_auto(self.regularization) else float(self.regularization)
        if last is not None and rank in (None, last[0].shape[1]):
            return Choice(last[0].shape[1], self.regularization_ if weight is None else weight, last)
        if rank is not None and weight is not None:
            return Choice(rank, weight)
        sample = sample_lines(cost.joint.completion, MAX_ENTRIES, seed)
        return choose(sample, rank, weight, seed, self.verbose, cost.shape)

    def _take(self, cost: Clicks, point: FactorPair, interrupted: bool) -> None:
        """Take a point for the model as it is."""
        stop = Stop("with this regularization, W = 0 is best", StopKind.CONVERGED)
        if interrupted:
            stop = Stop("interrupted while rank and regularization were chosen", StopKind.INTERRUPTED)
        self.factors_ = point
        trace = Trace([TraceRow(0, cost.value(*point), 0.0, 0.0)])
        warn_unless_converged(trace, stop)
        record_run(self, trace, stop)

    def _scores(self, rows: NDArray[Any]) -> NDArray[Any]:
        L, R = self.factors_
        return np.asarray(L[rows] @ R.T, dtype=np.float64)

    def _named_entries(self, X: Any, y: Any) -> tuple[tuple[NDArray[Any], NDArray[Any]], NDArray[Any]]:
        return named_entries(X, counts_of(X, y))

    def _solved(
        self, axis: Axis, numbers: Positions, places: Positions, values: Any, sample_weight: Any
    ) -> NDArray[Any]:
        shape = int(numbers.max()) + 1, axis.other.of(self.shape_)
        data = Triples(numbers, places, values, shape)
        completion = click_completion(data, sample_weight, float(self.alpha), np.float64)
        other = np.asarray(axis.other.of(self.factors_), dtype=np.float64)
        return Clicks.of(completion, self.regularization_, axis.pair(*POWERS)).solved(0, other)

    def _replace(self, axis: Axis, labels: NDArray[Any] | None, lines: NDArray[Any]) -> None:
        other = axis.other.of(self.factors_)
        self.factors_ = axis.pair(lines.astype(other.dtype, copy=False), other)
        rows, cols = axis.pair(labels, axis.other.of((self.row_labels_, self.col_labels_)))
        self.row_labels_, self.col_labels_ = rows, cols
        self.shape_ = len(self.factors_[0]), len(self.factors_[1])
