"""Learning on pairs: a bilinear function of the features of two entities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import ArrayLike, NDArray

from rankfold.costs.base import Array, Cost
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.multinomial import Multinomial
from rankfold.entries.given_arrays import check_size, own_indices, unmasked
from rankfold.linalg import on_gpu
from rankfold.linalg.primitives import on_host


class LinearTerms(NamedTuple):
    """The parts of ŷ = xᵀWz + xᵀa + zᵀb + c, with W = L Rᵀ."""

    L: Array
    R: Array
    a: Array
    b: Array
    c: Any


class OfPairs(Mapped):
    """What costs of pairs share: the linear terms, where there is a constant feature on both sides."""

    def __init__(self, core: Cost, X: Features, Z: Features, linear: bool):
        super().__init__(core, X, Z)
        self.linear = linear

    def linear_terms(self, L: Array, R: Array) -> LinearTerms:
        """Return the parts of ŷ = xᵀWz + xᵀa + zᵀb + c at a point of a cost with `linear=True`."""
        if not self.linear:
            raise ValueError("this cost has no linear terms: build it with linear=True")
        return self._parts(L, R)

    def _parts(self, L: Array, R: Array) -> LinearTerms:
        return LinearTerms(L[:-1], R[:-1], L[:-1] @ R[-1], R[:-1] @ L[-1], float(L[-1] @ R[-1]))


class Pairs(OfPairs):
    """f(W) = (1/n) Σ w_p ℓ(x_pᵀ W z_p, y_p) over n pairs of feature vectors.

    Entities are given once and pairs by their indices, so that features are neither repeated nor multiplied
    once per pair: a pass takes O((nnz(X) + nnz(Z)) r + n r) operations. It is completion of the matrix
    X W Zᵀ, whose entries are the predictions.

    Parameters
    ----------
    X, Z
        Features, one row per entity: arrays or SciPy sparse matrices (kept as CSR). If X, Z or y is a torch
        tensor on a GPU, the cost is there; `on` brings one in memory there.
    y
        The outcome of each pair.
    loss
        "square", "logistic", "huber", "poisson", "squared_hinge" or a `Loss`.
    pairs
        Integers of shape (n, 2), the rows of X and of Z that form each pair; a pair may come more than once.
        If not given, row p of X meets row p of Z.
    weights
        Factors w >= 0 of the terms, 1 if not given.
    linear
        Whether to add xᵀa + zᵀb + c, by a constant feature on both sides. W then has one more row and column,
        [[W, a], [bᵀ, c]], and up to two more in rank: allow for them. `linear_terms` takes it apart.

    Examples
    --------
    >>> import numpy as np
    >>> cost = Pairs([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], y=[1.0, 4.0], pairs=[[0, 0], [1, 1]])
    >>> cost.shape, cost.value(np.array([[1.0], [2.0]]), np.array([[1.0]]))
    ((2, 1), 0.0)
    """

    def __init__(
        self,
        X: Any,
        Z: Any,
        y: ArrayLike,
        loss: str | Loss = "square",
        pairs: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        linear: bool = False,
    ):
        place = _place_of(X, Z, y)
        given: Any = (on_host(A) if on_gpu.holds(A) else A for A in (y, pairs, weights))
        y, pairs, weights = given
        outcomes = _outcomes(y)
        met = met_features(X, Z, pairs, outcomes.size, linear)
        core = Completion(met.rows, met.cols, outcomes, met.shape, weights, loss, "keep", place)
        super().__init__(core, met.X, met.Z, linear)


class MultinomialPairs(OfPairs):
    """f(W) = -(1/n) Σ w_p log P(y_p) over n pairs of feature vectors, of K classes each.

    The logit of class k is xᵀW_k z. W is the matrix of all of them, d1 × (d2 K), whose column K j + k belongs
    to feature j of z and class k: so of low rank, the classes share what they look at in x. P is the softmax
    of the K logits of a pair. The cost of a pass is O((nnz(X) + K nnz(Z)) r + n K r).

    Parameters
    ----------
    X, Z
        Features, one row per entity: arrays or SciPy sparse matrices.
    y
        The class of each pair, an integer from 0 to K - 1.
    classes
        K, how many there are.
    pairs, weights
        As for `Pairs`.
    linear
        Whether to add linear terms, by a constant feature on both sides: every W_k is then [[W, a], [bᵀ, c]].
        `linear_terms` takes them apart: R as (d2, K, r), and a, b and c with a row for each class.

    Examples
    --------
    >>> cost = MultinomialPairs([[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], y=[0, 2], classes=3)
    >>> cost.shape
    (2, 3)
    """

    def __init__(
        self,
        X: Any,
        Z: Any,
        y: ArrayLike,
        classes: int,
        pairs: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        linear: bool = False,
    ):
        codes = own_indices("y", y, classes, np.int64)
        met = met_features(X, Z, pairs, codes.size, linear)
        core = Multinomial(met.rows, met.cols, codes, met.shape, classes, weights, duplicates="keep")
        super().__init__(core, met.X, met.Z.repeated(classes), linear)
        self.classes = classes

    def _parts(self, L: Array, R: Array) -> LinearTerms:
        """R comes as (d2, K, r), and a, b and c with a row for each class."""
        R = R.reshape(-1, self.classes, R.shape[1])
        return LinearTerms(L[:-1], R[:-1], R[-1] @ L[:-1].T, (R[:-1] @ L[-1]).T, R[-1] @ L[-1])


class MetFeatures(NamedTuple):
    """Features of the entities that come in pairs, and the positions of each pair's two among them."""

    X: Features
    Z: Features
    rows: NDArray[Any]
    cols: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """How many entities there are on each side."""
        return self.X.matrix.shape[0], self.Z.matrix.shape[0]


def met_features(X: Any, Z: Any, pairs: ArrayLike | None, count: int, linear: bool) -> MetFeatures:
    """Check the features and the pairs, `count` of them, and add constant features if asked for."""
    features = [Features.checked("X", X), Features.checked("Z", Z)]
    if linear:
        features = [side.with_constant() for side in features]
    where = checked_pairs(pairs, count, *(side.matrix.shape[0] for side in features))
    indices = []
    for k in (0, 1):
        # Entities without a pair have no say in the cost, and rows without entries are only overhead.
        used, index = np.unique(where[:, k], return_inverse=True)
        if used.size < features[k].matrix.shape[0]:
            features[k] = features[k].take(used)
        indices.append(index)
    return MetFeatures(features[0], features[1], indices[0], indices[1])


def _place_of(*given: Any) -> Any:
    """The GPU that data are given on, or None."""
    return next((device(A) for A in given if on_gpu.holds(A)), None)


def _outcomes(y: ArrayLike) -> NDArray[Any]:
    y = np.asarray(unmasked("y", y))
    if y.ndim != 1 or not y.size or y.dtype.kind not in "fiub":
        raise ValueError(f"y must be a vector of numbers, one per pair; got shape {y.shape} of {y.dtype}")
    if not np.isfinite(y).all():
        at = int(np.argmin(np.isfinite(y)))
        raise ValueError(f"y[{at}] is {y[at]}; all must be finite: leave unknown pairs out")
    check_size("y", y)
    return y


def checked_pairs(
    pairs: ArrayLike | None, count: int, n1: int, n2: int, names: tuple[str, str, str] = ("pairs", "X", "Z")
) -> NDArray[Any]:
    """Rows of both tables of each pair, checked; `names` are those of the pairs and the tables in errors."""
    if pairs is None:
        if not n1 == n2 == count:
            raise ValueError(
                f"without pairs, X, Z and y must have one length; got {n1}, {n2} and {count} rows: "
                "to combine entities freely, give pairs, an (n, 2) array of row numbers of X and Z"
            )
        return np.stack([np.arange(count)] * 2, axis=1)
    where = np.asarray(unmasked(names[0], pairs))
    if where.shape != (count, 2) or where.dtype.kind not in "iu":
        raise ValueError(
            f"{names[0]} must be integers of shape ({count}, 2), one pair for each outcome; "
            f"got shape {where.shape} of {where.dtype}"
        )
    wrong = (where < 0) | (where >= np.array([n1, n2]))
    if wrong.any():
        p, k = (int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(
            f"{names[0]}[{p}, {k}] is {where[p, k]}, out of range: must be from 0 to {(n1, n2)[k] - 1}, "
            f"a row of {names[1 + k]}"
        )
    return where
