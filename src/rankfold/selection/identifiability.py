"""Whether the observed entries determine a matrix of a given rank, near a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.geometry.base import lincomb
from rankfold.geometry.full_rank import FullRank
from rankfold.problem import Here, Problem

_ITERATIONS = 200  # of the probe: as many as a slow fit takes
_SETTLED = 1e-10  # the part of the probe's image at which it ends


@dataclass(frozen=True)
class Identifiability:
    """What the entries leave open at a fit of rank r.

    `free` is about how many directions they do not determine: the dimension of the local Jacobian's null
    space, estimated from one random direction. A fraction of one, when there are none.
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
    free = _null_dimension(Problem(fitted, geometry).at(geometry.from_factors(L, R)), seed)
    return Identifiability(rank, geometry.dimension, observed.size, rows, cols, free)


def _null_dimension(here: Here, seed: int) -> float:
    """Return dim · ‖ξ_0‖² for the part ξ_0 of a random unit ξ in the null space: its mean is that dimension.

    Conjugate gradients for JᵀJ η = JᵀJ ξ, from η = 0, converge to the part of ξ outside the null space.
    """
    geometry, x = here.problem.geometry, here.x
    xi = geometry.random_tangent(x, seed)
    r = here.hessian(xi)
    d, r_r = r, geometry.inner(x, r, r)
    stop = _SETTLED**2 * r_r
    for _ in range(_ITERATIONS):
        if r_r <= stop:
            break
        image = here.hessian(d)
        alpha = r_r / geometry.inner(x, d, image)
        xi, r = lincomb(1.0, xi, -alpha, d), lincomb(1.0, r, -alpha, image)
        before, r_r = r_r, geometry.inner(x, r, r)
        d = lincomb(1.0, r, r_r / before, d)
    return geometry.dimension * geometry.inner(x, xi, xi)
