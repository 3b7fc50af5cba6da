"""Whether the observed entries determine a matrix of a given rank, near a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.geometry.base import Tangent, lincomb, scale
from rankfold.geometry.full_rank import FullRank
from rankfold.problem import Here, Problem

_ITERATIONS = 200  # of a round of the probe: as many as a slow fit takes
_ROUNDS = 3
_SETTLED = 1e-10  # the part of the probe's image at which a round ends
_ROUNDING = 1e-13  # the part of a random direction's image below which an image is rounding
_FREE = 1e-8  # a direction that the entries see this much less of than of a random one is free
_NOTHING = 1e-9  # no more of a unit vector is left by rounding alone where there is no null space


@dataclass(frozen=True)
class Identifiability:
    """What the entries leave open at a fit of rank r.

    `free` is about how many directions they do not determine: the dimension of the local Jacobian's null
    space, estimated from one random direction. 0 when there are none, and at least 1 when there are some.
    """

    rank: int
    dimension: int  # the degrees of freedom, r(d1 + d2 − r)
    entries: int
    rows: NDArray[np.int64]  # with fewer than r entries: each has free directions of its own
    cols: NDArray[np.int64]
    free: float

    @property
    def unique(self) -> bool:
        """Whether the fit is, as far as this can tell, the only one near it."""
        return self.entries >= self.dimension and not (self.rows.size or self.cols.size) and self.free < 0.5

    def __str__(self) -> str:
        if self.unique:
            freedom = f"{self.dimension} degrees of freedom of rank {self.rank}"
            return f"{self.entries} entries determine the {freedom}"
        why = _shortages(self.rank, self.rows, self.cols, self.entries, self.dimension)
        return "; ".join([f"not unique: about {self.free:.0f} directions are free", *why])


def shortages(cost: Completion, rank: int) -> list[str]:
    """Say why counting alone shows that the entries do not determine a matrix of this rank; else nothing."""
    dimension = rank * (sum(cost.shape) - rank)
    return _shortages(rank, *_short_lines(cost, rank), cost.observed.size, dimension)


def _short_lines(cost: Completion, rank: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    observed = cost.observed
    return np.flatnonzero(observed.by_row.counts < rank), np.flatnonzero(observed.by_column.counts < rank)


def _shortages(
    rank: int, rows: NDArray[np.int64], cols: NDArray[np.int64], entries: int, dimension: int
) -> list[str]:
    why = [
        f"{lines.size} {name} have fewer than {rank} entries (the first: {lines[:5].tolist()})"
        for name, lines in (("rows", rows), ("columns", cols))
        if lines.size
    ]
    if entries < dimension:
        why.append(f"{entries} entries cannot determine {dimension} degrees of freedom")
    return why


def identifiability(cost: Completion, L: Any, R: Any, seed: int = 0) -> Identifiability:
    """Say whether the entries of `cost` determine L Rᵀ among the matrices of its rank near it.

    Examples
    --------
    >>> L, R = np.random.default_rng(0).standard_normal((2, 30, 2))
    >>> rows, cols = np.nonzero(np.arange(30)[:, None] + np.arange(30) != 7)  # 8 rows lack an entry
    >>> cost = Completion(rows, cols, np.sum(L[rows] * R[cols], axis=1), (30, 30))
    >>> identifiability(cost, L, R).unique
    True
    """
    L, R = np.asarray(L, dtype=np.float64), np.asarray(R, dtype=np.float64)
    rank, observed = L.shape[1], cost.observed
    geometry = FullRank(cost.shape, rank, metric="preconditioned")
    rows, cols = _short_lines(cost, rank)
    side = observed.by_row
    i, j = side.keys.astype(np.int64), side.indices.astype(np.int64)
    # The squared loss with L Rᵀ as the data: there its Hessian is JᵀJ, however good the fit.
    fitted = Completion(i, j, np.einsum("pk,pk->p", L[i], R[j]), cost.shape, duplicates="keep")
    zeros = Completion.from_observed(fitted.observed.with_values(lambda _i, _j, y: 0 * y))
    free = _null_dimension(Problem(fitted, geometry).at(geometry.from_factors(L, R)), zeros, seed)
    return Identifiability(rank, geometry.dimension, observed.size, rows, cols, free)


def _null_dimension(here: Here, zeros: Completion, seed: int) -> float:
    """Return dim · ‖ξ_0‖² for the part ξ_0 of a random unit ξ in the null space: its mean is that dimension.

    That number alone would not tell a null space of dimension 1, of which ξ may have little, from none. So
    what is left of ξ is made a unit vector, and probed again: it is in the null space if J takes it to 0.
    """
    geometry, x = here.problem.geometry, here.x
    xi = geometry.random_tangent(x, seed)
    image = here.hessian(xi)
    floor = _ROUNDING**2 * geometry.inner(x, image, image)
    seen, dimension = _seen(here, zeros, xi), float(geometry.dimension)
    estimate = 0.0
    for _ in range(_ROUNDS):
        xi = geometry.to_horizontal(x, _outside_range(here, xi, floor))
        length = geometry.norm(x, xi)
        estimate = estimate or dimension * length**2
        if length <= _NOTHING:
            return 0.0
        xi = scale(1 / length, xi)
        if _seen(here, zeros, xi) <= _FREE * seen:
            return max(estimate, 1.0)
    return 0.0


def _outside_range(here: Here, xi: Tangent, floor: float) -> Tangent:
    """Return the part of ξ in the null space of JᵀJ.

    Conjugate gradients for JᵀJ η = JᵀJ ξ, from η = 0, converge to the rest. They end at images of the squared
    length `floor`, whose direction would be an accident of rounding.
    """
    geometry, x = here.problem.geometry, here.x
    r = here.hessian(xi)
    d, r_r = r, geometry.inner(x, r, r)
    stop = max(_SETTLED**2 * r_r, floor)
    for _ in range(_ITERATIONS):
        if r_r <= stop:
            break
        image = here.hessian(d)
        alpha = r_r / geometry.inner(x, d, image)
        xi, r = lincomb(1.0, xi, -alpha, d), lincomb(1.0, r, -alpha, image)
        before, r_r = r_r, geometry.inner(x, r, r)
        d = lincomb(1.0, r, r_r / before, d)
    return xi


def _seen(here: Here, zeros: Completion, xi: Tangent) -> float:
    """Return ‖J ξ‖ in root mean square: the change of the entries along ξ, by itself and not as ξᵀJᵀJ ξ.

    That product would have the rounding of JᵀJ ξ, and hide what is below its root. `zeros` has the same
    entries, all 0.
    """
    geometry = here.problem.geometry
    (L, R), (dL, dR) = geometry.factors(here.x), geometry.tangent_factors(here.x, xi)
    return float(np.sqrt(zeros.value(np.hstack([dL, L]), np.hstack([R, dR]))))
