"""How a fitted completion model takes in new entries, rows and columns: a stream of them, without a refit."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.data.numbering import Positions
from rankfold.data.triples import Triples
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.entries import check_labelled, completion_of, named_entries
from rankfold.estimators.completion.folding import Earlier, Lines, design, solve
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.pattern import counted
from rankfold.estimators.completion.reporting import kept_entries
from rankfold.estimators.completion.side.featured import Featured
from rankfold.estimators.completion.side.learnt import lines_of
from rankfold.estimators.completion.streaming import Information, checked_forget, information_of, said
from rankfold.estimators.fitting import all_or_nothing
from rankfold.fingerprint import fingerprint


class Streamed(Featured):
    """Rows and columns that change as entries come: one side is solved for while the other one stays."""

    bias: bool
    loss: str | Loss
    biases_: Offsets
    regularization_: float
    shrinkage_: Shrinkage | None
    information_: Information | None
    _entries: Triples | None = None  # as many of them as a report needs; no file holds them

    @all_or_nothing
    def partial_fit(
        self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None, *,
        row_features: Any = None, col_features: Any = None, forget: float = 0.0,
    ) -> Self:  # fmt: skip
        """Take in more entries, of known and of new rows and columns, without a refit.

        First the rows that have new entries are solved for, while all columns stay as they are, then the
        columns that have new entries. What their other entries said is remembered as a quadratic function of
        each line, so that a call costs what the new entries ask for, however many there were before (and a
        copy of the model's arrays). Rank and regularisation stay. Square loss only. A model of positions
        keeps its shape: there are no rows and columns outside it.

        Parameters
        ----------
        X, y, sample_weight
            Entries as for `fit`. A first call without a fit is a fit.
        row_features, col_features
            Features of new rows and columns, as for `fit`, if that was given any.
        forget
            The part, from 0 to 1, of what earlier entries said that rows and columns with new entries forget:
            with 0.1, an entry weighs 0.9 of what it did for each call that brings its line new ones.

        Examples
        --------
        >>> import rankfold as rf
        >>> data = rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0)
        >>> X, y = list(zip(data.rows.tolist(), data.cols.tolist())), data.values
        >>> model = rf.MatrixCompletion(rank=2, bias=False, regularization=0.1).fit(X[:-50], y[:-50])
        >>> model.partial_fit(X[-50:], y[-50:]).partial_fit([(1000, 3)], [1.0]).shape_
        (61, 50)
        """
        kept = checked_forget(forget)
        if not hasattr(self, "factors_"):
            features = {"row_features": row_features, "col_features": col_features}
            return self.fit(X, y, sample_weight, **features)  # type: ignore[attr-defined,no-any-return]
        if not self._loss.is_square:
            raise ValueError("partial_fit takes the square loss: fit again, or fold_in new rows or columns")
        for axis in Axis:
            check_labelled(X, axis, self._index(axis))
        names, values = named_entries(X, y)
        self._take_new(row_features, col_features)
        places = self._grown(Axis.ROW, names[0]), self._grown(Axis.COLUMN, names[1])
        if self.information_ is None and not self._swept:
            self.information_ = information_of(self.observed_, self.factors_, self.bias)
        for axis in Axis:
            self._take_entries(axis, places, values, sample_weight, kept)
        self._seen = self._seen.appended(*places, self.shape_[0])
        rows, cols = (counted(a.of(self.counts_), a.of(places), a.of(self.shape_)) for a in Axis)
        self.counts_ = rows, cols
        if self._entries is not None:
            self._entries = kept_entries(self._entries, Triples(*places, values, self.shape_))
        self.data_fingerprint_ = fingerprint(np.array(self.data_fingerprint_), *places, values)
        return self

    def _take_entries(
        self, axis: Axis, places: tuple[Positions, Positions], values: Any, sample_weight: Any, kept: float
    ) -> None:
        """Solve for the lines of an axis that have new entries, at places of both axes."""
        touched, numbers = np.unique(axis.of(places), return_inverse=True)
        whole, known = self._lines(axis), self.information_
        about = (None, None) if known is None else known.of(axis, touched)
        earlier = Earlier(whole.some(touched), axis.of(self.counts_)[touched], about[0], about[1], kept)
        mine = axis.of(self.features_)
        expected = None if mine is None else mine.expected[touched]
        entries = numbers, axis.other.of(places), values, sample_weight
        if known is not None:
            cost, others = self._asked(axis, *entries)
            new = said(cost.observed.plain.by_row, design(others.factors, self.bias))
            grown = (kept * old + more for old, more in zip(known.of(axis, touched), new, strict=True))
            self.information_ = known.with_lines(axis, touched, *grown)
        lines = self._solved(axis, *entries, earlier, expected)
        self._replace(axis, self._index(axis).labels, whole.replaced(touched, lines))

    @property
    def _loss(self) -> Loss:
        return Loss.named(self.loss) if isinstance(self.loss, str) else self.loss

    @property
    def _swept(self) -> bool:
        """Whether factors are those of the Bayesian finish."""
        return self.posterior_ is not None and self.posterior_.sweeps > 0

    def _grown(self, axis: Axis, names: NDArray[Any]) -> Positions:
        """Make room for what is new on an axis, and return the positions of names."""
        labels, places = self._index(axis).enlarged(names, axis.where)
        size, before = int(places.max(initial=axis.of(self.shape_) - 1)) + 1, axis.of(self.shape_)
        if size > before:
            mine = axis.of(self.features_)
            if mine is not None:
                mine = mine.extended(size)
                self.features_ = axis.pair(mine, axis.other.of(self.features_))
            self._append(axis, labels, size, None if mine is None else mine.expected[before:])
        return places

    def _append(
        self, axis: Axis, labels: NDArray[Any] | None, size: int, expected: NDArray[Any] | None
    ) -> None:
        """Have `size` lines on an axis: the new ones, without entries, are what is expected of them."""
        more = size - axis.of(self.shape_)
        expected = np.zeros((more, self.rank_ + self.bias)) if expected is None else expected
        lines = lines_of(expected, self.rank_, self.posterior_, axis)
        self._replace(axis, labels, self._lines(axis).joined(lines))
        self._seen = self._seen._replace(height=self.shape_[0])
        rows, cols = (np.pad(n, (0, d - n.size)) for n, d in zip(self.counts_, self.shape_, strict=True))
        self.counts_ = rows, cols
        if self.information_ is not None:
            self.information_ = self.information_.extended(axis, size)

    def _asked(
        self, axis: Axis, numbers: Positions, places: Positions, values: Any, sample_weight: Any
    ) -> tuple[Completion, Lines]:
        """Entries of lines of an axis as a cost, and the lines of the other axis that they are at."""
        near, places = np.unique(places, return_inverse=True)
        data = Triples(numbers, places, values, (int(numbers.max()) + 1, len(near)))
        cost = completion_of(data, sample_weight, self.loss, np.float64)
        return cost, self._lines(axis.other).some(near)

    def _solved(
        self, axis: Axis, numbers: Positions, places: Positions, values: Any, sample_weight: Any,
        earlier: Earlier | None = None, expected: NDArray[Any] | None = None,
    ) -> Lines:  # fmt: skip
        """Return lines of an axis fitted to entries, at places of the other axis, which stays as it is.

        `expected` is what features make one expect of them, if there are any.
        """
        cost, others = self._asked(axis, numbers, places, values, sample_weight)
        about = self.biases_.mean, others, earlier, 0.0 if expected is None else expected
        if self._swept and self.posterior_ is not None:
            return self.posterior_.solved(axis, cost, *about)
        other = Lines(self.biases_.mean + others.offsets, others.factors)
        shrinkage = None if self.shrinkage_ is None else axis.of(self.shrinkage_)
        found = solve(cost, other, self.regularization_, shrinkage, earlier, expected)
        if self.posterior_ is None:
            return found
        return found._replace(covariances=self.posterior_.solved(axis, cost, *about).covariances)

    def _lines(self, axis: Axis) -> Lines:
        """All rows, or all columns."""
        sure = None if self.posterior_ is None else axis.of(self.posterior_.covariances)
        return Lines(axis.of((self.biases_.rows, self.biases_.cols)), axis.of(self.factors_), sure)

    def _replace(self, axis: Axis, labels: NDArray[Any] | None, lines: Lines) -> None:
        """Take others for the rows, or for the columns."""
        other = self._lines(axis.other)
        factors = lines.factors.astype(axis.of(self.factors_).dtype, copy=False)
        self.factors_ = axis.pair(factors, other.factors)
        self.biases_ = Offsets(self.biases_.mean, *axis.pair(lines.offsets, other.offsets))
        self.shape_ = len(self.factors_[0]), len(self.factors_[1])
        if self.posterior_ is not None and lines.covariances is not None:
            sure = lines.covariances.astype(factors.dtype, copy=False)
            rows, cols = axis.pair(sure, axis.other.of(self.posterior_.covariances))
            self.posterior_ = self.posterior_._replace(rows=rows, cols=cols)
        others = axis.other.of((self.row_labels_, self.col_labels_))
        self.row_labels_, self.col_labels_ = axis.pair(labels, others)
