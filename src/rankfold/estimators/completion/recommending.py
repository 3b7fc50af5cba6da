"""The best columns for a row, and what is alike: what any model of factors and offsets can be asked."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.data.labels import LabelIndex
from rankfold.data.numbering import Positions
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.lines import FactorPair
from rankfold.estimators.completion.neighbours import Neighbours, Recommendations, directions, forget, largest
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.inputs import given_labels

SideName = Literal["row", "column"]


class Recommender:
    """What ranks rows and columns of a fitted matrix mean + b_i + c_j + L_i·R_j, by position or by label."""

    loss: str | Loss
    factors_: FactorPair
    biases_: Offsets
    shape_: tuple[int, int]
    rank_: int
    row_labels_: NDArray[Any] | None
    col_labels_: NDArray[Any] | None
    counts_: tuple[NDArray[np.int64], NDArray[np.int64]]
    observed_: Pattern

    def recommend(self, rows: Any, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """Return the columns with the largest predictions for each of some rows, best first within each.

        The arrays `rows`, `cols` and `scores` have one length; `_asdict()` makes a table of them. A column
        without a single entry in the data is never recommended.

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
        (L, R), (mean, b, c) = self.factors_, self.biases_

        def scores(part: NDArray[Any]) -> NDArray[Any]:
            whole = (L[part] @ R.T).astype(np.float64) + (mean + b[part])[:, None] + c
            found: NDArray[Any] = self._loss.expected(whole)
            if exclude_seen:
                forget(found, part, self.observed_)
            found[:, self.counts_[1] == 0] = -np.inf
            return found

        query, cols, found = largest(positions, self.shape_[1], n, scores)
        return Recommendations(wanted[query], self._index(Axis.COLUMN).names(cols), found)

    def similar(self, items: Any, n: int = 10, *, side: SideName = "column") -> Neighbours:
        """Return the columns (or rows) most like each of some columns (or rows), most alike first.

        Likeness is the cosine between columns (or rows) of the low-rank part W = L Rᵀ: the same for every way
        to write W as a product, and not touched by offsets. What has no entry in the data is like nothing.

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
            found[:, axis.of(self.counts_) == 0] = -np.inf
            return found

        query, others, found = largest(positions, axis.of(self.shape_), n, cosines)
        return Neighbours(wanted[query], self._index(axis).names(others), found)

    def _index(self, axis: Axis) -> LabelIndex:
        """What finds rows, or columns, by label; made when first needed, and kept."""
        check_is_fitted(self)
        size, labels = axis.of(self.shape_), axis.of((self.row_labels_, self.col_labels_))
        made: dict[Axis, LabelIndex] = vars(self).setdefault("_indexes", {})
        if axis not in made or made[axis].labels is not labels or made[axis].size != size:
            made[axis] = LabelIndex(size, labels, axis.value)
        return made[axis]

    def _required(self, items: Any, axis: Axis, n: int) -> tuple[NDArray[Any], Positions]:
        """Return rows, or columns, as the user calls them, and their positions."""
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n!r}")
        where = f"{axis.value}s[{{}}]"
        wanted = given_labels(items, where)
        return wanted, self._index(axis).require(wanted, where)

    @property
    def _loss(self) -> Loss:
        return Loss.named(self.loss) if isinstance(self.loss, str) else self.loss
