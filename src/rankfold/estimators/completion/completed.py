"""What a fitted completion model is asked for, and how it takes in new entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.data.numbering import Positions
from rankfold.data.triples import Triples
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.entries import (
    check_labelled,
    completion_of,
    given_values,
    named_entries,
)
from rankfold.estimators.completion.folding import Earlier, Lines, design, solve
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.offsets import predictions
from rankfold.estimators.completion.pattern import counted
from rankfold.estimators.completion.reported import Reported
from rankfold.estimators.completion.reporting import kept_entries
from rankfold.estimators.completion.side.learnt import lines_of
from rankfold.estimators.completion.streaming import Information, checked_forget, information_of, said
from rankfold.estimators.fitting import all_or_nothing
from rankfold.estimators.inputs import checked_places
from rankfold.estimators.tensors import like_given, without_tensors
from rankfold.fingerprint import fingerprint

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

_BLOCK = 1 << 18  # predictions made at a time


class CompletedMatrix(Reported):
    """What `MatrixCompletion` does once fitted: mean + b_i + c_j + L_i·R_j, by position or by label."""

    bias: bool
    clip: bool
    loss: str | Loss
    biases_: Offsets
    rank_: int
    regularization_: float
    shrinkage_: Shrinkage | None
    value_range_: tuple[float, float] | None
    information_: Information | None

    @overload
    def predict(
        self,
        X: Any,
        return_std: Literal[False] = False,
        *,
        row_features: Any = None,
        col_features: Any = None,
    ) -> NDArray[Any]: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True], *, row_features: Any = None, col_features: Any = None
    ) -> tuple[NDArray[Any], NDArray[Any]]: ...

    def predict(
        self, X: Any, return_std: bool = False, *, row_features: Any = None, col_features: Any = None
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[Any]]:
        """Return the values predicted at pairs, given as for `fit`; of Triples, the values are ignored.

        With `return_std`, a pair (values, deviations): the standard deviation of an entry about its
        prediction, noise included, which the Bayesian finish knows; `predict_interval` gives intervals.

        A row that the model has never seen has no offset and no factor of its own: the prediction is the
        mean plus the column's offset; likewise for a column; for a pair of which neither is known, the mean.
        (Without `bias` these are 0.) `fold_in` does better where entries of the new row are known. Of a row
        with features that `fit` was given, or that are given here (of new rows, as for `fit`), the prediction
        is what they make one expect.
        Of a model of positions, a position outside the matrix is an error, and a row without entries is
        predicted like one never seen. Given a torch tensor, returns one.
        """
        model = self._with_new(row_features, col_features)
        rows, cols = model._find(X)
        values = like_given(X, model.predict_at(rows, cols))
        return (values, like_given(X, model.std_at(rows, cols))) if return_std else values

    def predict_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the values predicted at positions, counted from 0; -1 is a row or column never seen."""
        return self._in_range(self.expected_at(rows, cols))

    def _in_range(self, values: NDArray[Any]) -> NDArray[Any]:
        if not self.clip:
            return values
        if self.value_range_ is None:
            raise ValueError(
                "this model was saved before models knew the range of their data: fit it again to clip"
            )
        return np.asarray(np.clip(values, *self.value_range_))

    def expected_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return what `predict_at` does, but never clipped."""
        check_is_fitted(self)
        L, R = self.factors_
        rows, cols = checked_places(rows, cols, self.shape_)
        out = np.empty(len(rows))
        for start in range(0, out.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            i, j = rows[block], cols[block]
            low_rank = np.einsum("pk,pk->p", L[i], R[j], dtype=np.float64)
            low_rank[(i < 0) | (j < 0)] = 0.0  # what was never seen has no factor
            out[block] = self._loss.expected(predictions(self.biases_, i, j) + low_rank)
        return out

    def score(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> float:
        """Return R², the part of the variance of y that `predict(X)` explains; of Triples, without y."""
        from sklearn.metrics import r2_score

        values, predicted, weights = without_tensors(given_values(X, y), self.predict(X), sample_weight)
        return float(r2_score(values, predicted, sample_weight=weights))

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
        if known is not None and about[0] is not None and about[1] is not None:
            cost, others = self._asked(axis, *entries)
            new = said(cost.observed.plain.by_row, design(others.factors, self.bias))
            grown = (kept * old + more for old, more in zip(about, new, strict=True))
            self.information_ = known.with_lines(axis, touched, *grown)
        lines = self._solved(axis, *entries, earlier, expected)
        self._replace(axis, self._index(axis).labels, whole.replaced(touched, lines))

    def as_linear_operator(self) -> LinearOperator:
        """Return the completed matrix, offsets included, as a SciPy `LinearOperator`; it is never formed."""
        from scipy.sparse.linalg import aslinearoperator

        check_is_fitted(self)
        (L, R), (mean, b, c) = self.factors_, self.biases_
        left = np.column_stack([L, mean + b, np.ones(len(L))])
        right = np.column_stack([R, np.ones(len(R)), c])
        return aslinearoperator(left) @ aslinearoperator(right).T

    def _scores(self, rows: NDArray[Any]) -> NDArray[Any]:
        (L, R), (mean, b, c) = self.factors_, self.biases_
        whole = (L[rows] @ R.T).astype(np.float64) + (mean + b[rows])[:, None] + c
        return np.asarray(self._loss.expected(whole))

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

        `expected` is what features make one expect of them; of a line without any, what is of all such.
        """
        cost, others = self._asked(axis, numbers, places, values, sample_weight)
        mine = axis.of(self.features_)
        if expected is None and mine is not None:
            expected = np.repeat(mine.coefficients[:1], cost.shape[0], axis=0)
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
