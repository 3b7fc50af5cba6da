"""What a fitted completion model does with features of its lines, and of new ones."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.bayes.uncertainty import Uncertainty
from rankfold.estimators.completion.folding import Lines
from rankfold.estimators.completion.side.given import Given
from rankfold.estimators.completion.side.learnt import Learnt, LearntFeatures, lines_of, new_traits
from rankfold.estimators.recommending import SideName


class Featured(Uncertainty):
    """Rows and columns of which features may say what to expect, before any entry does."""

    rank_: int
    features_: Learnt

    @abstractmethod
    def _append(self, axis: Axis, labels: Any, size: int, expected: NDArray[Any] | None) -> None:
        """Have `size` lines on an axis: the new ones, without entries, are what is expected of them."""

    @abstractmethod
    def _lines(self, axis: Axis) -> Lines:
        """Return all rows, or all columns."""

    def fold_in(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        side: SideName = "row",
        features: Any = None,
    ) -> Self:
        """Return a model of new rows, from their entries in known columns, without a refit.

        Its columns are those of this model, unchanged, and its rows are those of X alone: `predict`,
        `recommend` and `similar` work on it. With `side="column"`, a model of new columns and the same rows.

        Parameters
        ----------
        X, y, sample_weight
            Entries as for `fit`. Rows are labels, for a model of positions too: each different one is a new
            row, whatever this model calls its own. Columns must be known to this model.
        side
            What is new: "row" or "column".
        features
            Features of what is new, as for `fit`, if that was given any of its side.

        Examples
        --------
        >>> import rankfold as rf
        >>> pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
        >>> model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
        >>> model.fold_in([("dan", "Dune")], [5.0]).recommend("dan").cols.tolist()
        ['Heat']
        """
        axis = Axis.named(side)
        found: list[LearntFeatures | None] = []
        solve = partial(self._new_lines_with, axis, sample_weight, features, found)
        folded = self._folded(axis, X, y, solve)
        folded.features_ = axis.pair(found[0], axis.other.of(self.features_))
        vars(folded)["information_"] = None
        return folded

    def _new_lines_with(
        self, axis: Axis, sample_weight: Any, features: Any, learnt: list[LearntFeatures | None],
        labels: NDArray[Any], numbers: Any, places: Any, values: Any,
    ) -> Any:  # fmt: skip
        """Return new lines of an axis; put what their features say into the list `learnt`."""
        mine, expected = axis.of(self.features_), None
        if mine is not None:
            mine = mine._replace(expected=np.repeat(mine.coefficients[:1], len(labels), axis=0))
        if features is not None:
            named, Z = new_traits(features, axis, labels, mine)
            if mine is not None:
                order = np.argsort(labels)
                at = order[np.minimum(np.searchsorted(labels, named, sorter=order), len(labels) - 1)]
                here = labels[at] == named
                mine.expected[at[here]] = mine.of(Z[here])
        expected = None if mine is None else mine.expected
        learnt.append(mine)
        return self._solved(axis, numbers, places, values, sample_weight, expected=expected)  # type: ignore[call-arg]

    def _take_in(self, given: Given) -> None:
        """Give lines without entries what their features make one expect; add those that are new."""
        for axis, side in zip(Axis, given, strict=True):
            mine = axis.of(self.features_)
            if side is None or mine is None:
                continue
            blank = np.flatnonzero(axis.of(self.counts_) == 0)
            if blank.size and mine.coefficients.any():
                lines = lines_of(mine.expected[blank] + mine.unseen, self.rank_, self.posterior_, axis)
                labels = axis.of((self.row_labels_, self.col_labels_))
                self._replace(axis, labels, self._lines(axis).replaced(blank, lines))
            if side.labels is not None:
                self._add(axis, side.labels, mine.of(side.Z))

    def _add(self, axis: Axis, names: NDArray[Any], expected: NDArray[Any]) -> None:
        """Add the lines that are new among those of some names; what is expected of known ones stays."""
        index, mine = self._index(axis), axis.of(self.features_)
        new = np.flatnonzero(index.find(names) < 0)
        if mine is None or not new.size:
            return
        labels, places = index.enlarged(names[new], "labels[{}]")
        rows = np.empty((new.size, expected.shape[1]))
        rows[places - index.size] = expected[new]
        mine = mine._replace(expected=np.vstack([mine.expected, rows]))
        self.features_ = axis.pair(mine, axis.other.of(self.features_))
        self._append(axis, labels, index.size + new.size, rows + mine.unseen)

    def _take_new(self, row_features: Any, col_features: Any) -> None:
        """Add the rows and columns that have features, and that the model does not know."""
        for axis, features in zip(Axis, (row_features, col_features), strict=True):
            if features is not None:
                mine = axis.of(self.features_)
                known = self._index(axis).labels
                labels, Z = new_traits(features, axis, known, mine)
                self._add(axis, labels, mine.of(Z) if mine is not None else Z)

    def _with_new(self, row_features: Any, col_features: Any) -> Self:
        """Return a model that knows rows and columns with features too; this one, if none are given."""
        if row_features is None and col_features is None:
            return self
        made = copy(self)
        vars(made).pop("_indexes", None)
        made._take_new(row_features, col_features)
        return made

    def _blank(self, axis: Axis) -> NDArray[np.bool_]:
        """Return the lines of an axis without entries, and without features that are of use."""
        blank, mine = super()._blank(axis), axis.of(self.features_)
        return blank if mine is None else np.asarray(blank & mine.unknown)
