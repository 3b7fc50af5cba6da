"""What a model of labelled rows and columns is asked for, whatever it predicts by."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rankfold.data.labels import LabelIndex, UnknownLabelError
from rankfold.data.numbering import Positions
from rankfold.data.triples import Triples
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.entries import check_labelled, named_entries, triple_positions
from rankfold.estimators.completion.growing import Growing
from rankfold.estimators.completion.neighbours import Neighbours, Recommendations, directions, forget, largest
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.inputs import given_labels, pair_columns
from rankfold.fingerprint import fingerprint

SideName = Literal["row", "column"]


class Recommender:
    """Rows and columns with factors and labels: what is best for a row, what is alike, what is new.

    A model says by `_scores` what it predicts for all columns, by `_solved` what new rows or columns are,
    given entries of theirs, and by `_replace` how it takes these in.
    """

    factors_: FactorPair
    shape_: tuple[int, int]
    row_labels_: NDArray[Any] | None
    col_labels_: NDArray[Any] | None
    counts_: tuple[NDArray[np.int64], NDArray[np.int64]]
    data_fingerprint_: str
    _seen: Growing  # what `observed_` is made of

    @property
    def observed_(self) -> Pattern:
        """The positions that the model was fitted to."""
        self._seen = self._seen.merged()
        return self._seen.base

    @observed_.setter
    def observed_(self, pattern: Pattern) -> None:
        self._seen = Growing.of(pattern)

    @abstractmethod
    def _scores(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Return the predictions for some rows, by position, in all columns."""

    def _in_range(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return predictions as they are shown: a model may clip them, in an order that stays."""
        return values

    @abstractmethod
    def _solved(
        self, axis: Axis, numbers: Positions, places: Positions, values: Any, sample_weight: Any
    ) -> Any:
        """Return lines of an axis fitted to entries, at places of the other axis, which stays as it is."""

    @abstractmethod
    def _replace(self, axis: Axis, labels: NDArray[Any] | None, lines: Any) -> None:
        """Take others for the rows, or for the columns."""

    def _named_entries(self, X: Any, y: Any) -> tuple[tuple[NDArray[Any], NDArray[Any]], NDArray[Any]]:
        """Return rows and columns of entries as the user calls them, and the values."""
        return named_entries(X, y)

    def recommend(self, rows: Any, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """Return the columns with the largest predictions for each of some rows, best first within each.

        The arrays `rows`, `cols` and `scores` have one length, and `pandas.DataFrame(...)` makes a table of
        them, with the names that rows and columns had in the DataFrame or the file that was fitted. A column
        without a single entry in the data is never recommended. A model that clips its predictions orders
        them first: those beyond the end of the range are shown as that end, the largest of them first.

        Parameters
        ----------
        rows
            Labels, or positions if the model was fitted to these; a single one will do.
        n
            How many columns for each row, or fewer if there are not so many.
        exclude_seen
            Whether to leave out the columns that a row has entries in already.

        Examples
        --------
        >>> import rankfold as rf
        >>> pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
        >>> model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
        >>> model.recommend(["bob", "cyd"]).cols.tolist()
        ['Heat', 'Dune']
        """
        wanted, positions = self._required(rows, Axis.ROW, n)

        def scores(part: NDArray[Any]) -> NDArray[Any]:
            found = self._scores(part)
            if exclude_seen:
                forget(found, part, self._seen)
            found[:, self._blank(Axis.COLUMN)] = -np.inf
            return found

        query, cols, found = largest(positions, self.shape_[1], n, scores)
        names = getattr(self, "feature_names_in_", ("rows", "cols"))
        best = self._index(Axis.COLUMN).names(cols)
        return Recommendations(wanted[query], best, self._in_range(found), (str(names[0]), str(names[1])))

    def similar(self, items: Any, n: int = 10, *, side: SideName = "column") -> Neighbours:
        """Return the columns (or rows) most like each of some columns (or rows), most alike first.

        Likeness is the cosine between columns (or rows) of the low-rank part W = L Rᵀ: the same for every way
        to write W as a product, and not touched by offsets. What has no entry in the data is like nothing.
        The arrays `given`, `neighbours` and `cosines` have one length, as those of `recommend` have.

        Parameters
        ----------
        items
            Labels, or positions if the model was fitted to these; a single one will do.
        n
            How many for each item; the item itself is not among them.
        side
            "column" or "row": what the items are.
        """
        axis = Axis.named(side)
        wanted, positions = self._required(items, axis, n)
        A = directions(axis.of(self.factors_), axis.other.of(self.factors_))

        def cosines(part: NDArray[Any]) -> NDArray[Any]:
            found: NDArray[Any] = A[part] @ A.T
            found[np.arange(len(part)), part] = -np.inf
            found[:, self._blank(axis)] = -np.inf
            return found

        query, others, found = largest(positions, axis.of(self.shape_), n, cosines)
        return Neighbours(wanted[query], self._index(axis).names(others), found)

    def fold_in(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        side: SideName = "row",
    ) -> Self:
        """Return a model of new rows, from their entries in known columns, without a refit.

        Its columns are those of this model, unchanged, and its rows are those of X alone: `predict`,
        `recommend` and `similar` work on it. This model learns nothing of them: asked for a new row, it still
        answers as for any that it has never seen (`partial_fit`, of `MatrixCompletion`, takes rows in). With
        `side="column"`, a model of new columns and the same rows.

        Parameters
        ----------
        X, y, sample_weight
            Entries as for `fit`. Rows are labels, for a model of positions too: each different one is a new
            row, whatever this model calls its own. Columns must be known to this model.
        side
            What is new: "row" or "column".

        Examples
        --------
        >>> import rankfold as rf
        >>> pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
        >>> model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
        >>> model.fold_in([("dan", "Dune")], [5.0]).recommend("dan").cols.tolist()
        ['Heat']
        """
        axis = Axis.named(side)
        return self._folded(axis, X, y, partial(self._new_lines, axis, sample_weight))

    def _new_lines(
        self, axis: Axis, sample_weight: Any, labels: NDArray[Any], numbers: Positions, places: Positions,
        values: Any,
    ) -> Any:  # fmt: skip
        """Return new lines of an axis, of which none is known but its entries."""
        return self._solved(axis, numbers, places, values, sample_weight)

    def _folded(self, axis: Axis, X: Any, y: Any, solve: Callable[..., Any]) -> Self:
        """Return a model of what `solve` finds for the new lines of an axis."""
        names, values = self._named_entries(X, y)
        labels, numbers = self._index(axis).numbered(axis.of(names))
        check_labelled(X, axis.other, self._index(axis.other))
        places = self._index(axis.other).require(axis.other.of(names), axis.other.where)
        folded: Self = clone(self)
        vars(folded).update({name: value for name, value in vars(self).items() if name.endswith("_")})
        folded._replace(axis, labels, solve(labels, numbers, places, values))
        none = Pattern(np.zeros(1, np.int64), self.observed_.indices[:0])
        folded.observed_ = none.extended(*axis.pair(numbers, places), folded.shape_[0])
        folded.counts_ = axis.pair(np.bincount(numbers), axis.other.of(self.counts_))
        folded.data_fingerprint_ = fingerprint(labels, numbers, places, values)
        return folded

    def _blank(self, axis: Axis) -> NDArray[np.bool_]:
        """Return of which lines of an axis nothing is known."""
        return np.asarray(axis.of(self.counts_) == 0)

    def _index(self, axis: Axis) -> LabelIndex:
        """What finds rows, or columns, by label; made when first needed, and kept."""
        check_is_fitted(self)
        size, labels = axis.of(self.shape_), axis.of((self.row_labels_, self.col_labels_))
        made: dict[Axis, LabelIndex] = vars(self).setdefault("_indexes", {})
        if axis not in made or made[axis].labels is not labels or made[axis].size != size:
            made[axis] = LabelIndex(size, labels, axis.value)
        return made[axis]

    def _find(self, X: Any) -> tuple[Positions, Positions]:
        """Return the positions of pairs, -1 for a row or column never seen."""
        rows, cols = self._index(Axis.ROW), self._index(Axis.COLUMN)
        if isinstance(X, Triples):
            return triple_positions(X, Axis.ROW, rows), triple_positions(X, Axis.COLUMN, cols)
        pairs = pair_columns(X)
        if hasattr(X, "columns"):  # pairs in a list need no names, whatever those of the fit were called
            validate_data(self, X, reset=False, skip_check_array=True)
        return rows.find(pairs[0], Axis.ROW.where), cols.find(pairs[1], Axis.COLUMN.where)

    def _required(self, items: Any, axis: Axis, n: int) -> tuple[NDArray[Any], Positions]:
        """Return rows, or columns, as the user calls them, and their positions."""
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n!r}")
        where = f"{axis.value}s[{{}}]"
        wanted = given_labels(items, where)
        try:
            return wanted, self._index(axis).require(wanted, where)
        except UnknownLabelError as error:
            remedy = f"what is new has a model of its own by fold_in(entries, side={axis.value!r})"
            raise UnknownLabelError(f"{error} ({remedy})") from None
