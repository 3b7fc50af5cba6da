"""Whether the observed entries determine a matrix of a given rank, near a fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from rankfold.costs.completion import Completion

Floats = NDArray[Any]
_ITERATIONS = 500  # of a round of the probe: more than a slow fit takes
_ROUNDS = 3
_SETTLED = 1e-10  # the part of the probe's image at which a round ends
_ROUNDING = 1e-13  # the part of a random direction's image below which an image is rounding
_UNSEEN = 1e-13  # the part of a block's largest eigenvalue below which one is rounding
_FREE = 1e-8  # a direction that the entries see this much less of than of a random one is free
_NOTHING = 1e-9  # of a random unit vector: no null space has as little of it, but for one in millions


@dataclass(frozen=True)
class Identifiability:
    """What the entries leave open at a fit of rank r.

    `free` is about how many directions they do not determine: the dimension of the local Jacobian's null
    space, estimated from one random direction, or counted where parts of the matrix have no entry that links
    them. 0 when there are none, at least 1 when there are some, and NaN when that could not be told: where
    entries hardly link parts of the matrix, the probe takes longer to see it than a fit takes to be found.
    """

    rank: int
    dimension: int  # the degrees of freedom, r(d1 + d2 − r)
    entries: int
    rows: NDArray[np.int64]  # with fewer than r entries: each has free directions of its own
    cols: NDArray[np.int64]
    free: float

    @property
    def unique(self) -> bool:
        """Whether the fit is known to be the only one near it."""
        return self._enough and self.free < 0.5

    @property
    def known(self) -> bool:
        """Whether it could be told if the fit is unique."""
        return not self._enough or not np.isnan(self.free)

    @property
    def _enough(self) -> bool:
        """Whether there are as many entries as it takes, in all and in every line."""
        return self.entries >= self.dimension and not (self.rows.size or self.cols.size)

    def __str__(self) -> str:
        freedom = f"{self.dimension} degrees of freedom of rank {self.rank}"
        if self.unique:
            return f"{self.entries} entries determine the {freedom}"
        if not self.known:
            return f"unknown: whether {self.entries} entries determine the {freedom} takes too long to tell"
        why = _shortages(self.rank, self.rows, self.cols, self.entries, self.dimension)
        if np.isnan(self.free):
            return "; ".join(["not unique", *why])
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
    dimension = rank * (sum(cost.shape) - rank)
    rows, cols = _short_lines(cost, rank)
    side = observed.by_row
    i, j = side.keys.astype(np.int64), side.indices.astype(np.int64)
    apart = float(_apart(i, j, cost.shape, rank))
    if apart or (rank == 1 and L.all() and R.all()):  # of rank 1, that is all that can be free
        return Identifiability(rank, dimension, observed.size, rows, cols, apart)
    pattern = Completion(i, j, np.zeros(len(i)), cost.shape, duplicates="keep")
    free = _null_dimension(_Probe(pattern, L, R), dimension, seed)
    return Identifiability(rank, dimension, observed.size, rows, cols, free)


def _apart(i: NDArray[np.int64], j: NDArray[np.int64], shape: tuple[int, int], rank: int) -> int:
    """Return how many directions are free because entries do not link parts of a matrix with each other.

    A part with n rows and m columns may turn its factors by any A, L A and R A⁻ᵀ: rank² directions, less
    (rank − n)(rank − m) in which few lines do not turn. To turn all parts alike changes nothing.
    """
    d1, lines = shape[0], sum(shape)
    graph = csr_array((np.ones(len(i), np.int8), (i, d1 + j)), shape=(lines, lines))
    count, part = connected_components(graph, directed=False)
    n, m = np.bincount(part[:d1], minlength=count), np.bincount(part[d1:], minlength=count)
    still = np.maximum(rank - n, 0) * np.maximum(rank - m, 0)
    return int(np.sum(rank**2 - still)) - rank**2 + max(rank - d1, 0) * max(rank - lines + d1, 0)


class _Probe:
    """J of W = L Rᵀ on the entries, in units in which each line by itself is seen alike in all directions.

    A direction is ξ = (dL, dR), one below the other. With P the blocks of JᵀJ on its diagonal, one for each
    line, u = P^½ ξ: lines with few entries, or with entries that are nearly dependent, converge as fast as
    others. Those (L A, −R Aᵀ) that leave W as it is are taken off.
    """

    def __init__(self, pattern: Completion, L: Floats, R: Floats) -> None:
        self.pattern, self.L, self.R = pattern, L, R
        values, self.turns = np.linalg.eigh(np.concatenate(pattern.line_blocks(L, R)))
        # What no entry of a line sees is in the null space in any unit.
        tops = values[:, -1:]
        self.roots = np.sqrt(np.where(values > _UNSEEN * tops, values, np.where(tops > 0, tops, 1.0)))
        r = L.shape[1]
        units = np.eye(r * r).reshape(-1, r, r)
        vertical = [self._scaled(np.vstack([L @ A, -R @ A.T]), self.roots).ravel() for A in units]
        self.vertical = np.linalg.qr(np.column_stack(vertical))[0]

    def horizontal(self, u: Floats) -> Floats:
        """Take off what leaves W as it is."""
        flat = u.ravel()
        return np.asarray(flat - self.vertical @ (self.vertical.T @ flat)).reshape(u.shape)

    def image(self, u: Floats) -> Floats:
        """Return P^-½ JᵀJ P^-½ u."""
        xi = self._scaled(u, 1 / self.roots)
        d1 = len(self.L)
        parts = self.pattern.gauss_newton(self.L, self.R, xi[:d1], xi[d1:])
        return self._scaled(np.vstack(parts), 1 / self.roots)

    def seen(self, u: Floats) -> float:
        """Return ‖J ξ‖ in root mean square: the change of the entries along ξ, by itself and not as ξᵀJᵀJ ξ.

        That product would have the rounding of JᵀJ ξ, and hide what is below its root.
        """
        xi, d1 = self._scaled(u, 1 / self.roots), len(self.L)
        return float(np.sqrt(self.pattern.value(np.hstack([xi[:d1], self.L]), np.hstack([self.R, xi[d1:]]))))

    def _scaled(self, u: Floats, by: Floats) -> Floats:
        """Stretch each line along the eigenvectors of its block."""
        along = np.einsum("ika,ik->ia", self.turns, u)
        return np.asarray(np.einsum("ika,ia->ik", self.turns, by * along))


def _null_dimension(probe: _Probe, dimension: int, seed: int) -> float:
    """Return dim · ‖u_0‖² for the part u_0 of a random unit u in the null space: its mean is that dimension.

    That number alone would not tell a null space of dimension 1, of which u may have little, from none. So
    what is left of u is made a unit vector, and probed again: it is in the null space if J takes it to 0.
    A probe leaves what is in the null space as it is: there is none if next to nothing is left of u. If
    neither is so in the end, the answer is not known, and NaN.
    """
    u = probe.horizontal(np.random.default_rng(seed).standard_normal(probe.roots.shape))
    u /= np.linalg.norm(u)
    floor, seen = _ROUNDING * float(np.linalg.norm(probe.image(u))), probe.seen(u)
    left = 1.0
    for _ in range(_ROUNDS):
        u = probe.horizontal(_outside_range(probe, u, floor))
        length = float(np.linalg.norm(u))
        left *= length
        if left <= _NOTHING:
            return 0.0
        u /= length
        if probe.seen(u) <= _FREE * seen:
            return max(dimension * left**2, 1.0)
    return float("nan")


def _outside_range(probe: _Probe, u: Floats, floor: float) -> Floats:
    """Return the part of u in the null space of K = P^-½ JᵀJ P^-½.

    Conjugate gradients for K v = K u, from v = 0, converge to the rest. They end at images of the length
    `floor`, whose direction would be an accident of rounding.
    """
    r = probe.image(u)
    d, r_r = r, float(np.vdot(r, r))
    stop = max(_SETTLED**2 * r_r, floor**2)
    for _ in range(_ITERATIONS):
        if r_r <= stop:
            break
        image = probe.image(d)
        alpha = r_r / float(np.vdot(d, image))
        u, r = u - alpha * d, r - alpha * image
        before, r_r = r_r, float(np.vdot(r, r))
        d = r + r_r / before * d
    return u
