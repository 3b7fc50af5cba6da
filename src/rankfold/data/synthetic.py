"""Synthetic completion problems whose solution is known: W* = L Rᵀ seen at random entries."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankfold.data import sampling
from rankfold.data.triples import Triples, index_dtype

Factor = NDArray[np.float64]
CHUNK = 1 << 16  # entries gathered at a time: both gathered factors stay in cache


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CompletionInstance(Triples):
    """Observed entries, as `Triples`, of a known low-rank matrix W* = L Rᵀ: L and R are without noise."""

    L: Factor
    R: Factor

    @property
    def rank(self) -> int:
        """The rank of W*."""
        return int(self.L.shape[1])

    @property
    def singular_values(self) -> Factor:
        """The r singular values of W*, largest first."""
        return np.linalg.svd(_core(self.L, self.R), compute_uv=False).astype(np.float64)

    def relative_error(self, L: ArrayLike, R: ArrayLike) -> float:
        """Return ‖L Rᵀ − W*‖_F / ‖W*‖_F, over the whole matrix and never forming it.

        The difference is [L, −L*] [R, R*]ᵀ, whose norm is that of the product of two small triangular
        matrices. Errors down to about 1e-15 are told apart.
        """
        L, R = np.asarray(L, dtype=np.float64), np.asarray(R, dtype=np.float64)
        if (len(L), len(R)) != self.shape or L.shape[1:] != R.shape[1:]:
            raise ValueError(f"L and R of shapes {L.shape} and {R.shape} do not make a matrix {self.shape}")
        if not (np.isfinite(L).all() and np.isfinite(R).all()):
            raise ValueError("L and R must be finite")
        difference = _core(np.hstack([L, -self.L]), np.hstack([R, self.R]))
        return float(np.linalg.norm(difference) / np.linalg.norm(_core(self.L, self.R)))

    def held_out(self, count: int, seed: int | np.random.Generator = 0) -> Triples:
        """Return `count` other entries of W*, uniform without replacement and free of noise."""
        d2 = self.shape[1]
        taken = np.unique(self.rows.astype(np.int64) * d2 + self.cols)
        left = self.shape[0] * d2 - len(taken)
        if not 0 <= count <= left:
            raise ValueError(f"count must be between 0 and {left}, the entries not observed, got {count}")
        rng = np.random.default_rng(seed)
        rows, cols = _coordinates(sampling.uniform(self.shape, count, rng, taken), self.shape)
        return Triples(rows, cols, _entries(self.L, self.R, rows, cols), self.shape)


def random_completion(
    shape: tuple[int, int],
    rank: int,
    oversampling: float,
    seed: int | np.random.Generator,
    condition: float | None = None,
    noise: float = 0.0,
    popularity: float | None = None,
    min_per_line: bool | int = False,
) -> CompletionInstance:
    """Draw a completion problem: a random matrix of given rank, and which of its entries are seen.

    W* = L Rᵀ with standard Gaussian factors, seen at round(oversampling·(d1+d2−r)·r) entries, uniform
    without replacement and sorted by row, then column.

    Parameters
    ----------
    oversampling : float
        How many entries are seen for each of the (d1+d2−r)·r degrees of freedom of W*.
    condition : float, optional
        Ratio of the largest to the smallest singular value of W*. Then W* = U diag(s) Vᵀ with random
        orthonormal U, V and log-spaced s, scaled to ‖W*‖_F² = d1·d2·r, its mean with Gaussian factors.
    noise : float
        Standard deviation of Gaussian noise on the seen values, relative to their root mean square.
    popularity : float, optional
        Exponent of a power law: the k-th most popular row is drawn with weight k^-popularity, and columns
        alike. Uniform by default.
    min_per_line : bool or int
        At least so many entries in each row and column (True: as many as the rank), as literature on the
        limits of recovery samples. Their total is kept: a few entries move from other lines.

    Examples
    --------
    >>> instance = random_completion((300, 200), rank=5, oversampling=3, seed=0, condition=10)
    >>> len(instance), instance.relative_error(instance.L, instance.R) < 1e-14
    (7425, True)
    """
    count = _entry_count(shape, rank, oversampling)
    _check_options(rank, condition, noise, popularity)
    least = _least_per_line(shape, rank, count, min_per_line)
    rng = np.random.default_rng(seed)
    L, R = (rng.standard_normal((size, rank)) for size in shape)
    if condition is not None:
        L, R = _spread(L, R, condition)
    if popularity is None:
        positions = sampling.uniform(shape, count, rng)
    else:
        positions = sampling.popular(shape, count, rng, popularity)
    if least:
        positions = sampling.repair(positions, shape, least, rng)
    rows, cols = _coordinates(positions, shape)
    del positions  # 8 bytes per entry, which the values need next
    values = _entries(L, R, rows, cols)
    if noise:
        scale = noise * math.sqrt(float(values @ values) / count)
        for part in _chunks(count):
            values[part] += scale * rng.standard_normal(len(values[part]))
    return CompletionInstance(rows, cols, values, shape, L=L, R=R)


def _entry_count(shape: tuple[int, int], rank: int, oversampling: float) -> int:
    d1, d2 = shape
    if min(shape) < 1:
        raise ValueError(f"shape must hold two positive integers, got {shape}")
    if not 1 <= rank <= min(shape):
        raise ValueError(f"rank must be between 1 and {min(shape)} = min(shape), got {rank}")
    if not (math.isfinite(oversampling) and oversampling > 0):
        raise ValueError(f"oversampling must be positive, got {oversampling}")
    count = round(oversampling * (d1 + d2 - rank) * rank)
    if not 1 <= count <= d1 * d2:
        raise ValueError(f"oversampling = {oversampling} asks for {count} of the {d1 * d2} entries there are")
    return count


def _check_options(rank: int, condition: float | None, noise: float, popularity: float | None) -> None:
    if condition is not None and not (math.isfinite(condition) and condition >= 1):
        raise ValueError(f"condition must be at least 1, got {condition}")
    if rank == 1 and condition not in (None, 1):
        raise ValueError(f"a matrix of rank 1 has condition number 1, got condition = {condition}")
    for name, number in (("noise", noise), ("popularity", popularity)):
        if number is not None and not (math.isfinite(number) and number >= 0):
            raise ValueError(f"{name} must not be negative, got {number}")


def _least_per_line(shape: tuple[int, int], rank: int, count: int, min_per_line: bool | int) -> int:
    least = rank if min_per_line is True else int(min_per_line)
    if not 0 <= least <= min(shape):
        raise ValueError(f"min_per_line must be between 0 and {min(shape)} = min(shape), got {least}")
    if least * max(shape) > count:
        raise ValueError(
            f"min_per_line = {least} needs {least * max(shape)} entries, "
            f"and there are {count}: raise oversampling"
        )
    return least


def _spread(L: Factor, R: Factor, condition: float) -> tuple[Factor, Factor]:
    """Return factors U diag(s) and V, bases of those of L and R, with log-spaced s."""
    U, V = (np.linalg.qr(factor)[0] for factor in (L, R))
    s = np.geomspace(condition, 1.0, L.shape[1])
    s *= math.sqrt(len(L) * len(R) * L.shape[1]) / np.linalg.norm(s)
    return U * s, V


def _core(L: Factor, R: Factor) -> Factor:
    """Return a small matrix with the singular values of L Rᵀ."""
    T_L, T_R = (np.asarray(np.linalg.qr(factor, mode="r")) for factor in (L, R))
    return np.asarray(T_L @ T_R.T)


def _coordinates(
    positions: sampling.Positions, shape: tuple[int, int]
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    dtype = index_dtype(shape)
    rows, cols = np.empty(len(positions), dtype), np.empty(len(positions), dtype)
    np.floor_divide(positions, shape[1], out=rows)
    np.remainder(positions, shape[1], out=cols)
    return rows, cols


def _entries(L: Factor, R: Factor, rows: NDArray[np.integer], cols: NDArray[np.integer]) -> Factor:
    """Return (L Rᵀ)[rows, cols]."""
    values = np.empty(len(rows))
    for part in _chunks(len(rows)):
        np.einsum("kr,kr->k", L[rows[part]], R[cols[part]], out=values[part])
    return values


def _chunks(count: int) -> list[slice]:
    return [slice(start, start + CHUNK) for start in range(0, count, CHUNK)]
