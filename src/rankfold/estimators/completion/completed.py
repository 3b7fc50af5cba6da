"""What a fitted completion model is asked for, and how it takes in new entries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.data.triples import Triples
from rankfold.estimators.completion.entries import completion_of, named_entries
from rankfold.estimators.completion.folding import Line, Other, updated
from rankfold.estimators.completion.labels import Lookup
from rankfold.estimators.completion.neighbours import Neighbours, Recommendations, directions, forget, largest
from rankfold.estimators.completion.offsets import predictions
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.fingerprint import fingerprint
from rankfold.estimators.fitting import all_or_nothing
from rankfold.estimators.inputs import SIDES, column_of, pair_columns
from rankfold.estimators.tensors import like_given, without_tensors

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

_BLOCK = 1 << 18  # predictions made at a time
Side = Literal["row", "column"]


class CompletedMatrix:
    """What `MatrixCompletion` does once fitted: mean + b_i + c_j + L_i·R_j, by position or by label."""

    bias: bool
    loss: str | Loss
    factors_: tuple[NDArray[Any], NDArray[Any]]
    biases_: Offsets
    shape_: tuple[int, int]
    rank_: int
    regularization_: float
    row_labels_: NDArray[Any] | None
    col_labels_: NDArray[Any] | None
    observed_: Pattern
    data_fingerprint_: str

    def predict(self, X: Any) -> Any:
        """Return the values predicted at pairs.

        A row that the model has never seen has no offset and no factor of its own: the prediction is the
        mean plus the column's offset; likewise for a column; for a pair of which neither is known, the mean.
        (Without `bias` these are 0.) `fold_in` does better where entries of the new row are known.

        Given a torch tensor, returns one.
        """
        check_is_fitted(self)
        columns = pair_columns(X)
        validate_data(self, X, reset=False, skip_check_array=True)
        rows, cols = (self._lookup(k).find(column, f"X[{{}}, {k}]") for k, column in enumerate(columns))
        return like_given(X, self.predict_at(rows, cols))

    def predict_at(self, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the values predicted at positions, counted from 0; -1 is a row or column never seen."""
        check_is_fitted(self)
        L, R = self.factors_
        out = np.empty(len(rows))
        for start in range(0, out.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            i, j = rows[block], cols[block]
            low_rank = np.einsum("pk,pk->p", L[i], R[j], dtype=np.float64)
            low_rank[(i < 0) | (j < 0)] = 0.0
            out[block] = self._loss.expected(predictions(self.biases_, i, j) + low_rank)
        return out

    def recommend(self, rows: Any, n: int = 10, exclude_seen: bool = True) -> Recommendations:
        """Return the columns with the largest predictions for each of some rows.

        Parameters
        ----------
        rows
            Labels or positions; a single one will do.
        n
            How many columns for each row, or fewer if there are not so many.
        exclude_seen
            Whether to leave out the columns that a row has entries in already.

        Returns
        -------
        Recommendations
            Three arrays `rows`, `cols` and `scores` of one length, best first within each row; its
            `_asdict()` makes a table.

        Examples
        --------
        >>> import rankfold as rf
        >>> pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
        >>> model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
        >>> model.recommend(["bob", "cyd"]).cols.tolist()
        ['Heat', 'Dune']
        """
        wanted, positions = self._positions(rows, 0, n)

        def scores(part: NDArray[Any]) -> NDArray[Any]:
            found: NDArray[Any] = self._loss.expected(self._block(part))
            if exclude_seen:
                forget(found, part, self.observed_)
            return found

        query, cols, found = largest(positions, self.shape_[1], n, scores)
        return Recommendations(wanted[query], self._lookup(1).names(cols), found)

    def similar(self, items: Any, n: int = 10, *, side: Side = "column") -> Neighbours:
        """Return the columns (or rows) most like each of some columns (or rows).

        Likeness is the cosine between columns of the low-rank part W = L Rᵀ: the same for every way to write
        W as a product, and not touched by offsets.

        Parameters
        ----------
        items
            Labels or positions; a single one will do.
        n
            How many for each item; the item itself is not among them.
        side
            "column" or "row": what the items are.

        Returns
        -------
        Neighbours
            Three arrays `items`, `neighbours` and `cosines` of one length, most alike first.
        """
        k = _side(side)
        wanted, positions = self._positions(items, k, n)
        A = directions(self.factors_[k], self.factors_[1 - k])

        def cosines(part: NDArray[Any]) -> NDArray[Any]:
            found: NDArray[Any] = A[part] @ A.T
            found[np.arange(len(part)), part] = -np.inf
            return found

        query, others, found = largest(positions, self.shape_[k], n, cosines)
        return Neighbours(wanted[query], self._lookup(k).names(others), found)

    def fold_in(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        side: Side = "row",
    ) -> Self:
        """Return a model of new rows, from their entries in known columns, without a refit.

        Its columns are those of this model, unchanged, and its rows are those of X alone: `predict`,
        `recommend` and `similar` work on it. With `side="column"`, a model of new columns and the same rows.

        Parameters
        ----------
        X, y, sample_weight
            Entries as for `fit`. Rows are new labels, or positions counted from 0 among the new ones; columns
            must be known to this model.
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
        check_is_fitted(self)
        k = _side(side)
        columns, values = named_entries(X, y)
        labels, lines = self._lookup(k).numbered(columns[k], f"X[{{}}, {k}]")
        places = self._lookup(1 - k).require(columns[1 - k], f"X[{{}}, {1 - k}]")
        size = int(lines.max()) + 1 if labels is None else labels.size
        line, pattern = self._solved(k, lines, places, values, sample_weight, Line.new(size, self.rank_))
        folded: Self = clone(self)
        vars(folded).update({name: value for name, value in vars(self).items() if name.endswith("_")})
        folded._put(k, labels, line)
        folded.observed_ = pattern if k == 0 else pattern.columns(np.arange(self.shape_[0]), self.shape_[0])
        folded.data_fingerprint_ = fingerprint(labels, lines, places, values)
        return folded

    @all_or_nothing
    def partial_fit(self, X: Any, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Take in more entries, of known and of new rows and columns, without a refit.

        First the rows that have new entries are solved for, with all columns held, then the columns that
        have new entries. What the other entries of these rows and columns said is remembered (by their
        positions; sample weights of earlier entries are taken to have been 1). Rank and regularisation stay.
        For the square loss.
        """
        if not hasattr(self, "factors_"):
            return self.fit(X, y, sample_weight)  # type: ignore[attr-defined,no-any-return]
        if not self._loss.is_square:
            raise ValueError("partial_fit takes the square loss: fit again, or fold_in new rows or columns")
        columns, values = named_entries(X, y)
        places = [self._grown(k, column) for k, column in enumerate(columns)]
        for k in (0, 1):
            touched, lines = np.unique(places[k], return_inverse=True)
            seen = self.observed_
            known = seen.rows(touched) if k == 0 else seen.columns(touched, self.shape_[1])
            offsets, factors = self._offsets(k).copy(), self.factors_[k].copy()
            before = Line(offsets[touched], factors[touched], known.counts.astype(np.float64))
            line, _ = self._solved(k, lines, places[1 - k], values, sample_weight, before, known)
            offsets[touched], factors[touched] = line.offsets, line.factors
            self._put(k, self._lookup(k).labels, Line(offsets, factors, line.counts))
        self.observed_ = self.observed_.extended(places[0], places[1], self.shape_[0])
        self.data_fingerprint_ = fingerprint(np.array(self.data_fingerprint_), *places, values)
        return self

    def as_linear_operator(self) -> LinearOperator:
        """Return the completed matrix, offsets included, as a SciPy `LinearOperator`; it is never formed."""
        from scipy.sparse.linalg import aslinearoperator

        check_is_fitted(self)
        (L, R), (mean, b, c) = self.factors_, self.biases_
        left = np.column_stack([L, mean + b, np.ones(len(L))])
        right = np.column_stack([R, np.ones(len(R)), c])
        return aslinearoperator(left) @ aslinearoperator(right).T

    def _lookup(self, k: int) -> Lookup:
        """What finds rows (0) or columns (1) by label; made when first needed, and kept."""
        labels = (self.row_labels_, self.col_labels_)[k]
        known: dict[int, Lookup] = vars(self).setdefault("_lookups", {})
        if k not in known or known[k].labels is not labels or known[k].size != self.shape_[k]:
            known[k] = Lookup(labels, self.shape_[k], SIDES[k])
        return known[k]

    def _positions(self, items: Any, k: int, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
        check_is_fitted(self)
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n!r}")
        wanted = column_of(np.atleast_1d(_to_array(items)), f"{SIDES[k]}s[{{}}]")
        return wanted, self._lookup(k).require(wanted, f"{SIDES[k]}s[{{}}]")

    def _block(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return whole rows of the matrix."""
        (L, R), (mean, b, c) = self.factors_, self.biases_
        return np.asarray((L[rows] @ R.T).astype(np.float64) + (mean + b[rows])[:, None] + c)

    @property
    def _loss(self) -> Loss:
        return Loss.named(self.loss) if isinstance(self.loss, str) else self.loss

    def _grown(self, k: int, column: NDArray[Any]) -> NDArray[Any]:
        """Make room for what is new on a side, and return the positions of a column of names."""
        labels, places = self._lookup(k).enlarged(column, f"X[{{}}, {k}]")
        size = int(places.max(initial=self.shape_[k] - 1)) + 1
        more = size - self.shape_[k]
        if more:
            offsets = np.append(self._offsets(k), np.zeros(more))
            factors = np.pad(self.factors_[k], ((0, more), (0, 0)))
            self._put(k, labels, Line(offsets, factors, np.empty(0)))
            if k == 0:
                self.observed_ = self.observed_.extended(np.empty(0, int), np.empty(0, int), size)
        return places

    def _solved(
        self,
        k: int,
        lines: NDArray[Any],
        places: NDArray[Any],
        values: NDArray[Any],
        sample_weight: Any,
        before: Line,
        known: Pattern | None = None,
    ) -> tuple[Line, Pattern]:
        """Return lines of side k fitted to entries, and the positions of these."""
        shape = len(before.offsets), self.shape_[1 - k]
        cost = completion_of(Triples(lines, places, values, shape), sample_weight, self.loss, np.float64)
        other = Other(self.biases_.mean + self._offsets(1 - k), self.factors_[1 - k])
        line = updated(cost, before, other, self.regularization_, self.bias, known)
        return line, Pattern.of(cost.observed.by_row)

    def _put(self, k: int, labels: NDArray[Any] | None, line: Line) -> None:
        """Take `line` for the rows (0) or columns (1)."""
        factors = line.factors.astype(self.factors_[k].dtype, copy=False)
        if k == 0:
            self.row_labels_, self.factors_ = labels, (factors, self.factors_[1])
            self.biases_ = self.biases_._replace(rows=line.offsets)
        else:
            self.col_labels_, self.factors_ = labels, (self.factors_[0], factors)
            self.biases_ = self.biases_._replace(cols=line.offsets)
        self.shape_ = len(self.factors_[0]), len(self.factors_[1])

    def _offsets(self, k: int) -> NDArray[np.float64]:
        return self.biases_.cols if k else self.biases_.rows


def _side(side: str) -> int:
    if side not in SIDES:
        raise ValueError(f"side must be 'row' or 'column', not {side!r}")
    return SIDES.index(side)


def _to_array(items: Any) -> NDArray[Any]:
    (items,) = without_tensors(items)
    return np.asarray(items.to_numpy() if hasattr(items, "to_numpy") else items)
