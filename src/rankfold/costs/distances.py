"""Learning low-rank distances: from the distances of pairs, or from which of two points is nearer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankfold.costs.base import Array, Cost, LineBlocks
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.of_distances import OfDistances, downhill_semidefinite
from rankfold.entries.given_arrays import real_vector, unmasked
from rankfold.entries.observed import Observed

Floats = NDArray[Any]


class _Measured(Mapped):
    """A cost of the distances of points, whose features may make the coordinates: D(X W Xᵀ)."""

    def __init__(self, core: Cost, points: Features, count: int):
        super().__init__(OfDistances(core, count), points, points)
        self.has_line_blocks = points.matrix is None and core.has_line_blocks

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return those of the points, where these have no features."""
        if not self.has_line_blocks:
            return super().line_blocks(L, R)
        (A,), (B,), _ = self._map((L,), (R,))
        return self.core.line_blocks(A, B)

    def sampled_polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64] | None:
        """The polynomial of a sample of the distances, where these are enough."""
        As, Bs, _ = self._map(Ls, Rs)
        return self.core.sampled_polynomial(As, Bs)

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return a positive semidefinite start, as U, s, U."""
        if self.X.matrix is None:
            return self.core.start(rank, seed)
        return downhill_semidefinite(self, rank, seed)

    def _map(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> tuple[list[Floats], list[Floats], Any]:
        """Map L and R that are one array once, and keep them one."""
        if len(Ls) == len(Rs) and all(L is R for L, R in zip(Ls, Rs, strict=True)):
            As, _, dtype = super()._map(Ls, Ls[:0])
            return As, As, dtype
        return super()._map(Ls, Rs)

    def _back(self, example: Array, dtype: Any, f_A: Floats, f_B: Floats) -> tuple[Array, Array]:
        if f_A is f_B:
            f, _ = super()._back(example, dtype, f_A, f_A[:, :0])
            return f, f
        return super()._back(example, dtype, f_A, f_B)


class Distances(_Measured):
    """f(W) = (1/m) Σ w_p ℓ(D_ij, y_p) over m pairs of points, with D_ij = (x_i − x_j)ᵀ W (x_i − x_j).

    Without features, points are the rows of Y, W = Y Yᵀ, and this is the completion of a Euclidean distance
    matrix. With features X it learns the metric of a Mahalanobis distance. Minimise it on
    `PositiveSemidefinite`. A pass takes O(m r) operations, and O(nnz(X) r) with features.

    Parameters
    ----------
    pairs
        Integers of shape (m, 2), the two points of each pair; in any order, and as often as you like.
    values
        The squared distance y of each pair.
    size
        The number of points; by default, as many as `pairs` or `features` have.
    features
        One row of features per point, an array or a SciPy sparse matrix; W is then a matrix of features.
    weights
        Factors w >= 0 of the terms, 1 if not given.
    loss
        "square", "huber" or another `Loss`.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [3.0, 4.0]])
    >>> pairs = np.array([[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]])
    >>> cost = rf.Distances(pairs, [9.0, 16.0, 25.0, 16.0, 9.0])
    >>> cost.value(points, points)
    0.0
    """

    def __init__(
        self,
        pairs: ArrayLike,
        values: ArrayLike,
        size: int | None = None,
        features: Any = None,
        weights: ArrayLike | None = None,
        loss: str | Loss = "square",
    ):
        given = real_vector("values", values)
        where = checked_tuples("pairs", pairs, 2)
        if len(where) != given.size:
            raise ValueError(f"pairs and values must be equally long; got {len(where)} and {given.size}")
        points, count = checked_points("pairs", where, size, features)
        loss = Loss.named(loss) if isinstance(loss, str) else loss
        loss.check_values(given)
        # Pairs often come as a triangle of the matrix; turned by turns, rows and columns see as many of them.
        where = np.where((np.arange(len(where)) % 2 == 0)[:, None], where, where[:, ::-1])
        i, j = where.T
        store = Observed.from_triples(i, j, given, (count, count), weights, "keep", False)
        super().__init__(Completion.from_observed(store, loss), points, count)


class Triplets(_Measured):
    """f(W) = (1/m) Σ w_t ℓ(D_ik − D_ij) over m triplets: point i is nearer to j than to k.

    Parameters
    ----------
    triplets
        Integers of shape (m, 3), the points i, j and k of each triplet.
    size, features, weights
        As of `Distances`.
    loss
        "logistic", log(1 + exp(−δ)) for the difference δ = D_ik − D_ij, which makes exp(δ) the odds of an
        answer; or "squared_hinge", max(0, 1 − δ)², for a margin of 1.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> cost = rf.Triplets([[0, 1, 2]], loss="squared_hinge")
    >>> Y = np.array([[0.0], [1.0], [1.2]])  # 0 is nearer to 1 than to 2, by 1.44 − 1
    >>> round(cost.value(Y, Y), 4)
    0.3136
    """

    def __init__(
        self,
        triplets: ArrayLike,
        size: int | None = None,
        features: Any = None,
        weights: ArrayLike | None = None,
        loss: str | Loss = "logistic",
    ):
        where = checked_tuples("triplets", triplets, 3)
        points, count = checked_points("triplets", where, size, features)
        loss = Loss.named(loss) if isinstance(loss, str) else loss
        differences, which = np.unique(where[:, 1:], axis=0, return_inverse=True)
        shape = count, len(differences)
        ones = np.ones(len(where))
        store = Observed.from_triples(where[:, 0], which.ravel(), ones, shape, weights, "keep", False)
        rows = np.repeat(np.arange(len(differences)), 2)
        signs = np.tile([-1.0, 1.0], len(differences))
        B = sparse.csr_array((signs, (rows, differences.ravel())), shape=(len(differences), count))
        core = Mapped(Completion.from_observed(store, loss), Features(None, count), Features(B, count))
        super().__init__(core, points, count)


def checked_tuples(name: str, given: ArrayLike, width: int) -> NDArray[np.int64]:
    """Return distinct points of each pair or triplet as integers, or say what is wrong with them."""
    where = np.asarray(unmasked(name, given))
    if where.ndim != 2 or where.shape[1] != width or not len(where) or where.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be integers of shape (m, {width}), m >= 1; got shape {where.shape} of {where.dtype}"
        )
    given, where = where, where.astype(np.int64)  # beyond which unsigned integers become negative
    if (where < 0).any():
        at = int(np.argmax((where < 0).any(1)))
        raise ValueError(f"{name}[{at}] is {given[at].tolist()}: points are numbered from 0")
    again = (where == np.roll(where, 1, axis=1)).any(1)
    if again.any():
        at = int(np.argmax(again))
        raise ValueError(f"{name}[{at}] is {where[at].tolist()}: a point is no pair with itself")
    return where


def checked_points(
    name: str, where: NDArray[np.int64], size: int | None, features: Any
) -> tuple[Features, int]:
    """Return the features of the points, the identity if there are none, and how many points there are."""
    last = int(where.max())
    if features is None:
        count = last + 1 if size is None else int(size)
        points = Features(None, count)
    else:
        points = Features.checked("features", features)
        count = int(points.matrix.shape[0])
        if size is not None and size != count:
            raise ValueError(f"size is {size}, but features has {count} rows: leave size out")
    if last >= count:
        raise ValueError(f"{name} has the point {last}, and there are {count} points, numbered from 0")
    return points, count
