"""Completion of tables of categories as a scikit-learn classifier on pairs (row, column)."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from rankfold.costs.base import Cost
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.data.labels import LabelIndex
from rankfold.data.numbering import numbered
from rankfold.entries.given_arrays import unmasked
from rankfold.estimators.categories.table import Cells, KnownEntries, probabilities
from rankfold.estimators.fitting import all_or_nothing, fit_model, record_run, try_model
from rankfold.estimators.inputs import (
    checked_rank,
    checked_regularization,
    checked_weights,
    is_auto,
    pair_columns,
    to_numpy,
)
from rankfold.estimators.rank_errors import RankErrors, choose_rank
from rankfold.estimators.tensors import TensorScore, like_given, without_tensors
from rankfold.fingerprint import fingerprint
from rankfold.geometry import FullRank
from rankfold.problem import Problem
from rankfold.solvers import Method

Floats = NDArray[Any]
_HELD_OUT = 0.1  # of the entries, to choose the rank


class CategoricalCompletion(TensorScore, ClassifierMixin, BaseEstimator):
    """Predict the entries of a table of categories from those that are known, by logits of low rank.

    Each column of the table has as many logits as it has categories: that of category k in row i and column j
    is (L_i + c)·R_jk, and the softmax of those of an entry are its probabilities. L, c and R minimise the sum
    of -log P over the known entries plus λ (‖L‖² + ‖c‖² + ‖R‖²).

    Parameters
    ----------
    rank
        The number of columns of L and R; "auto" chooses it by a tenth of the entries, held out. What all rows
        have in common, c, may take one of them.
    shared
        Whether every class can occur in every column, as stars in a table of ratings. By default a column has
        the classes that it has in the data, as answers to different questions.
    regularization
        λ >= 0, the weight of the penalty beside the sum of the losses.
    solver
        How to minimise, see `rankfold.minimize`; "tr" is trust regions.
    max_iter
        The most iterations; a `ConvergenceWarning` tells that they did not suffice.
    tol
        The fit ends when five iterations change what is minimised by no more than this part of it.
    warm_start
        Whether `fit` starts from the factors that the last `fit` found, if there are as many rows and logits.
    random_state
        Of the choice of the entries that are held out.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per iteration, and per rank tried.

    Attributes
    ----------
    classes_
        All labels in y.
    row_labels_, col_labels_
        What the rows and columns are called, in order.
    starts_, categories_
        Column j has the classes `classes_[categories_[starts_[j]:starts_[j + 1]]]`.
    factors_
        (L, R); the last row of L is c, and R has a row for each category of each column.
    class_prior_
        The share of each class in y: what is predicted in a column that is new.
    rank_, rank_path_
        The rank, and the held-out error for every rank tried, or None.
    n_iter_, converged_, stop_reason_, trace_
        Iterations of the solver, and how they went and ended; the trace's values are per entry.
    data_fingerprint_
        A digest of what the model was fitted to.

    Examples
    --------
    >>> import rankfold as rf
    >>> answers = {("ann", "drink"): "tea", ("ann", "pet"): "cat", ("bob", "drink"): "beer",
    ...            ("bob", "pet"): "dog", ("cyd", "drink"): "tea", ("dan", "pet"): "dog"}
    >>> model = rf.CategoricalCompletion(rank=2, regularization=0.1)
    >>> model = model.fit(list(answers), list(answers.values()))
    >>> model.predict([("cyd", "pet"), ("dan", "drink")]).tolist()
    ['cat', 'beer']
    >>> model.predict_proba([("eve", "pet")]).shape, model.classes_.tolist()  # eve is new
    ((1, 4), ['beer', 'cat', 'dog', 'tea'])
    """

    factors_: tuple[Floats, Floats]

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        shared: bool = False,
        regularization: float = 1.0,
        solver: str | Method[Any] = "tr",
        max_iter: int = 500,
        tol: float = 1e-6,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.rank = rank
        self.shared = shared
        self.regularization = regularization
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to known entries: pairs (row, column) of labels, and the category of each.

        X is an array, a list, a pandas or polars DataFrame or a torch tensor, as for `MatrixCompletion`. The
        known cells of a DataFrame are `cells = frame.stack()`, with `list(cells.index)` and `cells`. A pair
        that comes twice is two observations.
        """
        names = pair_columns(X)
        labels, sample_weight = without_tensors(unmasked("y", y), sample_weight)
        labels = column_or_1d(to_numpy(labels), warn=True)
        if labels.size != names[0].size:
            raise ValueError(f"X has {names[0].size} pairs and y has {labels.size} labels: one for each")
        if not labels.size:
            raise ValueError("Found array with 0 sample(s): X is empty; give at least one known entry")
        check_classification_targets(labels)
        validate_data(self, X, skip_check_array=True)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError(f"y must hold two classes; it has one class only: {self.classes_[0]}")
        weights = checked_weights(sample_weight, labels.size)
        self._fit(self._known(names, codes, weights))
        self.class_prior_ = np.bincount(codes, weights, self.classes_.size) / weights.sum()
        self.data_fingerprint_ = fingerprint(*names, labels, weights)
        return self

    def _known(self, names: tuple[Floats, Floats], codes: Floats, weights: Floats) -> KnownEntries:
        """Number rows and columns, and note what each column may hold."""
        used = np.flatnonzero(weights)
        rows, cols, codes = names[0][used], names[1][used], codes[used]
        (self.row_labels_, rows), (self.col_labels_, cols) = numbered(rows), numbered(cols)
        shape, count = (self.row_labels_.size, self.col_labels_.size), self.classes_.size
        cells = Cells.of(cols, codes, shape[1], count, bool(self.shared))
        self.starts_, self.categories_ = cells
        return KnownEntries(rows, cols, cells.places(cols, codes, count), weights[used], shape, cells)

    def _fit(self, known: KnownEntries) -> None:
        cost = known.cost()
        rank = self._choose_rank(known, cost.shape)
        last = self.factors_ if self.warm_start and hasattr(self, "factors_") else None
        result = fit_model(self, self._problem(cost, known.size, rank), last)
        self.factors_, self.rank_ = result.factors, rank
        record_run(self, result.trace, result.stop)

    def _problem(self, cost: Cost, entries: int, rank: int) -> Problem:
        # The cost is a mean over the entries, λ stands beside their sum. As a function of W the penalty is
        # 2λ‖W‖_*, with kinks where W loses rank; as one of L and R, in the metric of these, it is smooth.
        weight = checked_regularization(self.regularization)
        penalised = FactorRidge(cost, np.full(rank, 2 * weight / entries))
        return Problem(penalised, FullRank(cost.shape, rank, metric="euclidean"))

    def _choose_rank(self, known: KnownEntries, shape: tuple[int, int]) -> int:
        largest = min(shape)
        self.rank_path_: RankErrors | None = None
        if not is_auto(self.rank):
            why = "the lesser of {} and {}, one more than the rows and the categories of all columns"
            return checked_rank(self.rank, largest, why.format(*shape))
        if known.size < 2:
            raise ValueError(f"rank='auto' holds out an entry, and there is {known.size} sample: give a rank")
        order = check_random_state(self.random_state).permutation(known.size)
        held_out = max(1, round(_HELD_OUT * known.size))
        train, test = known.take(order[held_out:]), known.take(order[:held_out])
        cost = train.cost()

        def losses(rank: int) -> Floats:
            return test.losses(*try_model(self, self._problem(cost, train.size, rank)).factors)

        self.rank_path_ = choose_rank(largest, losses, self.verbose)
        return self.rank_path_.chosen

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probabilities of the classes at pairs, a column for each class.

        A class that a column has not has probability 0. Of a row never seen, c alone decides; in a column
        never seen, all classes are as likely as they are in y.
        """
        check_is_fitted(self)
        names = pair_columns(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        rows = LabelIndex(self.row_labels_.size, self.row_labels_, "row").find(names[0], "X[{}, 0]")
        cols = LabelIndex(self.col_labels_.size, self.col_labels_, "column").find(names[1], "X[{}, 1]")
        out = np.tile(self.class_prior_, (rows.size, 1))
        known = np.flatnonzero(cols >= 0)
        cells, cols = Cells(self.starts_, self.categories_), cols[known]
        chances = probabilities(rows[known], cols, cells, *self.factors_)
        out[known] = 0.0
        entry, place = np.nonzero(np.arange(chances.shape[1]) < cells.counts[cols][:, None])
        out[known[entry], cells.classes[cells.starts[cols[entry]] + place]] = chances[entry, place]
        return like_given(X, out)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at pairs."""
        chances = np.asarray(without_tensors(self.predict_proba(X))[0])
        return like_given(X, self.classes_[chances.argmax(axis=1)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = tags.input_tags.string = True
        return tags
