"""Ranking pairs of things, each with features of its own, as a scikit-learn estimator."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from rankfold.data.numbering import label_column, numbered
from rankfold.entries.given_arrays import check_size, plain, unmasked
from rankfold.estimators.fitting import Geometries, all_or_nothing
from rankfold.estimators.inputs import checked_features, checked_weights, to_numpy
from rankfold.estimators.pairs.base import PairModel
from rankfold.estimators.pairs.observations import Comparisons
from rankfold.estimators.tensors import like_given, without_tensors
from rankfold.solvers import Method

Floats = NDArray[Any]


class PairRanker(PairModel):
    """Put pairs in order: xᵀWz + xᵀa + zᵀb + c is to be higher for the pair that is better, W of low rank.

    It learns from comparisons, and minimises Σ log(1 + exp(score of the worse - score of the better)) + λ
    (all squared coefficients): RankNet's loss and that of Bayesian personalised ranking (BPR). Compared are
    pairs of one group with different grades in y: by how much they differ is of no matter. So grades may be
    ratings of users who use the scale differently, or clicks (1) beside pairs without one (0).

    Pairs are given as to `PairRegressor`: as columns of features, or as row numbers of the tables `left` and
    `right`. For things without features, give `scipy.sparse.eye_array(n)` as their table.

    Parameters are those of `PairRegressor`, and so are the attributes. λ stands beside the sum over all
    comparisons, which are more than the pairs.

    Parameters
    ----------
    max_comparisons
        If there are more comparisons than this, so many are drawn from them.

    Attributes
    ----------
    n_comparisons_
        How many comparisons the model was fitted to.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> rng = np.random.default_rng(0)
    >>> users, films = rng.standard_normal((50, 4)), rng.standard_normal((30, 3))
    >>> pairs = np.argwhere(rng.uniform(size=(50, 30)) < 0.5)
    >>> taste = users[pairs[:, 0], 0] * films[pairs[:, 1], 1]
    >>> stars = np.digitize(taste + users[pairs[:, 0], 2], [-1.0, 0.0, 1.0])  # some users are hard to please
    >>> model = rf.PairRanker(rank=2, left=users, right=films).fit(pairs, stars)
    >>> bool(model.score(pairs, stars) > 0.97)
    True
    """

    def __init__(
        self,
        rank: int | Literal["auto"] = "auto",
        *,
        n_left: int | None = None,
        left: Any = None,
        right: Any = None,
        max_comparisons: int = 1_000_000,
        regularization: float = 0.1,
        geometry: str | Geometries = "auto",
        solver: str | Method[Any] = "auto",
        max_iter: int = 500,
        tol: float = 1e-13,
        device: str = "cpu",
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        super().__init__(
            rank, n_left=n_left, left=left, right=right, regularization=regularization, geometry=geometry,
            solver=solver, max_iter=max_iter, tol=tol, device=device, warm_start=warm_start,
            random_state=random_state, verbose=verbose,
        )  # fmt: skip
        self.max_comparisons = max_comparisons

    @all_or_nothing
    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> Self:
        """Fit to the grades y, higher for better, of the pairs X.

        `groups` says which pairs are compared with each other: a label for each pair, integers or strings,
        such as the query or the session that it belongs to. By default, pairs with the same left thing are
        compared where there are tables, and all with all where there are none. A comparison weighs the
        product of the weights of its pairs: a weight of 2 is a repetition.
        """
        X, y, sample_weight = without_tensors(plain("X", X), plain("y", y), sample_weight)
        X, y = checked_features(self, X, y, dtype=self._dtype())
        y = y.astype(np.float64, copy=False)
        check_size("y", y)
        weights = checked_weights(sample_weight, len(X))
        places = self._groups(X, groups)
        used = np.flatnonzero(weights)
        ranks = _Order.of(places[used], y[used])
        self._check_limit()
        better, worse = ranks.drawn(self.max_comparisons, check_random_state(self.random_state))
        features, some = self._given_features(X).take(used), weights[used]
        self._fit(
            Comparisons(features, better, worse, some[better] * some[worse]), 0.0, X, y, weights, places
        )
        self.n_comparisons_ = int(better.size)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the scores of the pairs X: within a group, a higher one is better."""
        return like_given(X, self._scores(X))

    def score(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> float:
        """Return the part of all comparisons that `predict` puts in the right order, equal scores half.

        Comparisons are those of `fit`; a part of 0.5 is chance. Of two grades, it is the area under the ROC
        curve of each group, weighted by its comparisons.
        """
        scores = np.asarray(without_tensors(self.predict(X))[0])
        X, y, sample_weight = without_tensors(plain("X", X), plain("y", y), sample_weight)
        grades = np.asarray(column_or_1d(to_numpy(y)), dtype=np.float64)
        places = self._groups(np.asarray(to_numpy(X)), groups)
        if grades.size != scores.size:
            raise ValueError(f"X has {scores.size} pairs and y has {grades.size} grades: one for each")
        weights = checked_weights(sample_weight, grades.size)
        better, worse = _Order.of(places, grades).drawn(self.max_comparisons, np.random.RandomState(0))
        right = 0.5 + 0.5 * np.sign(scores[better] - scores[worse])
        return float(np.average(right, weights=weights[better] * weights[worse]))

    def _groups(self, X: Floats, groups: ArrayLike | None) -> NDArray[Any]:
        """Number the groups, and return that of each pair."""
        if groups is None:
            return np.zeros(len(X), np.int64) if self.left is None else X[:, 0].astype(np.int64)
        names = label_column(to_numpy(unmasked("groups", without_tensors(groups)[0])), "groups[{}]")
        if names.size != len(X):
            raise ValueError(f"groups must have a label for each of the {len(X)} pairs; got {names.size}")
        return numbered(names)[1]

    def _check_limit(self) -> None:
        limit: Any = self.max_comparisons
        if not isinstance(limit, Integral) or limit is True or limit < 1:
            raise ValueError(f"max_comparisons must be a positive integer; got {limit!r}")


class _Order(NamedTuple):
    """Pairs sorted by group and, within it, by grade.

    Pair `order[p]` is better than the `lower[p]` ones from `order[first[p]]` on.
    """

    order: NDArray[np.int64]
    first: NDArray[np.int64]
    lower: NDArray[np.int64]

    @staticmethod
    def of(groups: NDArray[Any], grades: Floats) -> _Order:
        order = np.lexsort((grades, groups))
        new_group = np.diff(groups[order], prepend=groups[order][:1]) != 0
        new_grade = new_group | (np.diff(grades[order], prepend=grades[order][:1]) != 0)
        place = np.arange(order.size)
        first = np.maximum.accumulate(np.where(new_group, place, 0))
        equal = np.maximum.accumulate(np.where(new_grade, place, 0))
        return _Order(order, first, equal - first)

    def drawn(self, most: int, rng: np.random.RandomState) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the better and the worse pair of each comparison or, if there are more, of `most` of them.

        These are drawn one from each of `most` equally long runs of comparisons: every pair is as often
        among them as its share.
        """
        ends = np.cumsum(self.lower)
        total = int(ends[-1]) if ends.size else 0
        if not total:
            raise ValueError(
                f"there is nothing to compare: of n_samples = {ends.size} pairs, no two of one group have "
                "different grades in y (see groups)"
            )
        chosen = np.arange(total)
        if total > most:
            chosen = ((np.arange(most) + rng.uniform(size=most)) * (total / most)).astype(np.int64)
        better = np.searchsorted(ends, chosen, side="right")
        worse = self.first[better] + chosen - (ends - self.lower)[better]
        return self.order[better], self.order[worse]
