"""Learning to rank pairs: from comparisons, which of two pairs goes together better."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.losses import Loss
from rankfold.costs.pairs import OfPairs, met_features
from rankfold.entries.devices import usable_device
from rankfold.entries.given_arrays import own_indices, own_numbers
from rankfold.fingerprint import fingerprint

_BLOCK = 1 << 16  # entries whose rows of both factors are gathered at a time


class RankedPairs(OfPairs):
    """f(W) = (1/n) Σ w_t ℓ(s_better(t) - s_worse(t)) over n comparisons of pairs, with the scores s = xᵀWz.

    With the logistic loss, log(1 + exp(-difference)), this is the model of Bradley and Terry: RankNet's loss,
    and that of Bayesian personalised ranking (BPR). Each score is computed once however many comparisons a
    pair is in: a pass takes O((nnz(X) + nnz(Z)) r + pairs r + n) operations.

    Parameters
    ----------
    X, Z
        Features, one row per entity: arrays or SciPy sparse matrices; `scipy.sparse.eye_array(n)` for things
        without features.
    pairs
        Integers of shape (p, 2), the rows of X and of Z that form each pair.
    better, worse
        The rows of `pairs` that are compared: pair better[t] is to have a higher score than pair worse[t].
    loss
        "logistic", "squared_hinge", "huber", "square" or a `Loss`: ℓ(difference, 1).
    weights
        Factors w >= 0 of the comparisons, 1 if not given.
    linear
        Whether scores have the terms xᵀa + zᵀb + c, by a constant feature on both sides. c is in every score
        and in no difference, and so is xᵀa if pairs are compared that have x in common: a ridge makes them 0.

    Attributes
    ----------
    pairs_compared, comparisons
        How many there are.

    Examples
    --------
    >>> import numpy as np
    >>> pairs = [[0, 0], [0, 1], [1, 2], [1, 1]]
    >>> cost = RankedPairs(np.eye(2), np.eye(3), pairs, better=[0, 2], worse=[1, 3])
    >>> L, R = np.array([[1.0], [2.0]]), np.array([[9.0], [0.0], [9.0]])
    >>> cost.shape, cost.value(L, R) < 1e-3
    ((2, 3), True)
    """

    def __init__(
        self,
        X: Any,
        Z: Any,
        pairs: ArrayLike,
        better: ArrayLike,
        worse: ArrayLike,
        loss: str | Loss = "logistic",
        weights: ArrayLike | None = None,
        linear: bool = False,
    ):
        count = len(np.atleast_1d(np.asarray(pairs)))
        if not count:
            raise ValueError("pairs is empty: give those that are compared")
        met = met_features(X, Z, pairs, count, linear)
        core = _Comparisons(met.rows, met.cols, met.shape, better, worse, loss, weights)
        super().__init__(core, met.X, met.Z, linear)
        self.pairs_compared, self.comparisons = core.rows.size, core.better.size

    @classmethod
    def from_triplets(cls, X: Any, Z: Any, triplets: ArrayLike, **options: Any) -> RankedPairs:
        """Take rows (i, j, k): thing i of X goes better with thing j of Z than with thing k.

        Examples
        --------
        >>> import numpy as np
        >>> cost = RankedPairs.from_triplets(np.eye(2), np.eye(3), [[0, 0, 1], [1, 2, 1], [0, 0, 2]])
        >>> cost.pairs_compared, cost.comparisons
        (5, 3)
        """
        where = np.asarray(triplets)
        if where.ndim != 2 or where.shape[1] != 3 or where.dtype.kind not in "iu":
            raise ValueError(
                "triplets must be integers of shape (n, 3), a row of X, a better and a worse row of Z; "
                f"got shape {where.shape} of {where.dtype}"
            )
        pairs, index = np.unique(np.vstack([where[:, :2], where[:, ::2]]), axis=0, return_inverse=True)
        better, worse = np.split(index.ravel(), 2)
        return cls(X, Z, pairs, better, worse, **options)


class _Comparisons(Cost):
    """Mean loss of the differences between entries of a matrix: what `RankedPairs` is in X W Zᵀ.

    S = ∇f is sparse, with an entry for each pair: the slopes of the losses that it is in, those in which it
    is the worse one taken negative.
    """

    def __init__(
        self,
        rows: NDArray[Any],
        cols: NDArray[Any],
        shape: tuple[int, int],
        better: ArrayLike,
        worse: ArrayLike,
        loss: str | Loss,
        weights: ArrayLike | None,
    ):
        self.loss = Loss.named(loss) if isinstance(loss, str) else loss
        order = np.argsort(rows, kind="stable")
        place = np.empty(order.size, np.int64)
        place[order] = np.arange(order.size)
        self.rows, self.cols = rows[order], cols[order]
        self.indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
        self.better = place[own_indices("better", better, order.size, np.int64)]
        self.worse = place[own_indices("worse", worse, order.size, np.int64)]
        if not self.better.size or self.better.size != self.worse.size:
            raise ValueError(
                "better and worse must name two pairs for each comparison, one at least; "
                f"got {self.better.size} and {self.worse.size}"
            )
        self.weights = None if weights is None else _checked_weights(weights, self.better.size)
        self.shape, self.quadratic = shape, False
        self.nonnegative = self.loss.nonnegative

    def on(self, device: str) -> Cost:
        """Return the same cost with its pairs and comparisons on a GPU."""
        place = usable_device(device)
        if place == "cpu":
            return self
        from rankfold.costs.comparisons_on_gpu import GpuComparisons
        from rankfold.costs.positions_on_gpu import Positions

        positions = Positions(self.rows, self.cols, self.shape, place)
        return GpuComparisons(positions, self.better, self.worse, self.loss, self.weights)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        value, slopes, _ = self._losses(self._entries(L, R))
        S = self._sparse(slopes, L.dtype)
        return Evaluation(float(value.sum()), S @ R, S.T @ L)

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        return float(self._losses(self._entries(L, R))[0].sum())

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        _, slopes, seconds = self._losses(self._entries(L, R))
        change = self._entries(dL, R) + self._entries(L, dR)
        S = self._sparse(slopes, L.dtype)
        dS = self._sparse(seconds * (change[self.better] - change[self.worse]), L.dtype)
        return dS @ R + S @ dR, dS.T @ L + S.T @ dL

    def _entries(self, L: NDArray[Any], R: NDArray[Any]) -> NDArray[np.float64]:
        """Entries of L Rᵀ at the pairs, in float64 also for float32 factors."""
        out = np.empty(self.rows.size)
        for start in range(0, out.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            np.einsum("pk,pk->p", L[self.rows[part]], R[self.cols[part]], out=out[part], dtype=np.float64)
        return out

    def _losses(self, entries: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """What each comparison adds to the mean, and its first and second derivatives."""
        difference = entries[self.better] - entries[self.worse]
        scale = 1 / difference.size if self.weights is None else self.weights / difference.size
        value, slope, second = self.loss(difference, np.ones_like(difference))
        return scale * value, scale * slope, scale * second

    def _sparse(self, numbers: NDArray[np.float64], dtype: Any) -> Any:
        """A sparse matrix with the sum, at each pair, of the numbers of its comparisons."""
        size = self.rows.size
        sums = np.bincount(self.better, numbers, size) - np.bincount(self.worse, numbers, size)
        return sparse.csr_array((sums.astype(dtype, copy=False), self.cols, self.indptr), self.shape)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        return float(self._losses(np.zeros(self.rows.size))[0].sum())

    def fingerprint(self) -> dict[str, str | float]:
        """That of the pairs and of which are compared, and of the loss."""
        loss = f"{getattr(self.loss.formula, '__qualname__', '')}({self.loss.parameter!r})"
        pairs = fingerprint(self.rows, self.cols, self.better, self.worse, self.weights)
        return {"comparisons": pairs, "loss": loss}


def _checked_weights(weights: ArrayLike, size: int) -> NDArray[np.float64]:
    own = own_numbers("weights", weights).astype(np.float64)
    if own.size != size or own.min() < 0:
        raise ValueError(f"weights must be {size} numbers of zero or more, one for each comparison")
    return own
