"""The features of pairs: two tables and pairs of their rows, or two tables row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.mapped import Features
from rankfold.costs.pairs import checked_pairs

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PairedFeatures:
    """Pair p is row `pairs[p, 0]` of `left` and `pairs[p, 1]` of `right`; without `pairs`, row p of both."""

    left: Features
    right: Features
    pairs: NDArray[Any] | None

    @staticmethod
    def of_columns(X: Floats, n_left: int | None) -> PairedFeatures:
        """Return pairs whose features stand side by side in X, half of them on each side by default."""
        columns = X.shape[1]
        if columns < 2:
            raise ValueError(f"X has n_features = {columns}: a pair has features of both its sides")
        n_left = (columns + 1) // 2 if n_left is None else n_left
        if not 0 < n_left < columns:
            limits = f"from 1 to {columns - 1}, below the number of columns"
            raise ValueError(f"n_left must be {limits}; got {n_left!r}")
        left, right = X[:, :n_left], X[:, n_left:]
        return PairedFeatures(Features(left, n_left), Features(right, columns - n_left), None)

    @staticmethod
    def of_tables(X: NDArray[Any], left: Any, right: Any) -> PairedFeatures:
        """Return pairs of rows of two tables, whose numbers are in X."""
        tables = Features.checked("left", left), Features.checked("right", right)
        n_left, n_right = (table.matrix.shape[0] for table in tables)
        pairs = checked_pairs(X, len(X), n_left, n_right, names=("X", "left", "right"))
        return PairedFeatures(*tables, pairs)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of [[W, a], [bᵀ, c]], the coefficients of ŷ = xᵀWz + xᵀa + zᵀb + c."""
        return self.left.size + 1, self.right.size + 1

    @property
    def count(self) -> int:
        """How many pairs there are."""
        return int(self.left.matrix.shape[0]) if self.pairs is None else len(self.pairs)

    @property
    def row_numbers(self) -> NDArray[Any]:
        """The rows of both tables of each pair."""
        return np.stack([np.arange(self.count)] * 2, axis=1) if self.pairs is None else self.pairs

    def take(self, rows: NDArray[Any]) -> PairedFeatures:
        """Return some of the pairs."""
        if self.pairs is not None:
            return replace(self, pairs=self.pairs[rows])
        return replace(self, left=self.left.take(rows), right=self.right.take(rows))

    def scores(self, L: Floats, R: Floats) -> Floats:
        """Return ŷ of each pair, for the coefficients L Rᵀ; for R of (d2, K, r), K of them."""
        A, B = self.left.times(L[:-1]) + L[-1], self.right.times(R[:-1].reshape(len(R) - 1, -1))
        B = B.reshape(-1, *R.shape[1:]) + R[-1]
        if self.pairs is not None:
            A, B = A[self.pairs[:, 0]], B[self.pairs[:, 1]]
        return np.asarray(np.einsum("pr,p...r->p...", A, B))
