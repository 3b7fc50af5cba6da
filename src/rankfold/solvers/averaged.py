"""A start where entries are few: least squares of the sides in turn that know how unsure each line is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.entries.arrays import to_numpy
from rankfold.entries.operators import Indicator
from rankfold.geometry.base import Point
from rankfold.linalg import asarray_like, svd_of_product
from rankfold.problem import Problem

Floats = NDArray[Any]
Product = Callable[[Floats], Floats]
# A part of the mean square of the data: by then the largest pairs are right, and further sweeps are slower
# than Gauss–Newton steps (1000², r = 5, ρ = 1.3, κ = 1: 22 to 241 sweeps; κ = 1e5: 8).
_FITTED = 1e-2
# Sweeps in which the noise falls by less than a hundredth get nowhere, once the first are over; nor do any
# that leave most of it, which have shrunk to W = 0.
_FIRST, _WINDOW, _STILL, _NOTHING = 20, 5, 0.99, 0.3
_MOST = 300
_OUTSTANDING = 30.0  # σ² over what noise alone would give a direction
_UNSURE = 0.1  # the first covariance of a line, as a part of that before any entry is seen
_STREAM = (0, 3)  # of random numbers, shared with no data


class Lines(NamedTuple):
    """The mean of each line's factor, and its covariance."""

    means: Floats
    covariances: Floats

    @property
    def squares(self) -> Floats:
        """E[x xᵀ] of each line, the triangle from the diagonal on."""
        i, j = np.triu_indices(self.means.shape[1])
        squares: Floats = self.means[:, i] * self.means[:, j] + self.covariances[:, i, j]
        return squares


class Start(NamedTuple):
    """A point, and how many of its singular pairs stand out of the noise."""

    x: Point
    pairs: int


def averaged(problem: Problem, like: Point) -> Start | None:
    """Return a point near W, or near its largest pairs; None where no sweeps find it.

    Variational Bayes for W = L Rᵀ (Lim and Teh, 2007) with data as exact as they turn out to be: the factors
    of each line have a mean and a covariance, given those of the other side, and what is left of the data,
    the uncertainty of the fit included, is the noise of the next sweep. Where a line has hardly more entries
    than unknowns, plain least squares believe whatever fits them; here such lines count for little until
    the others know better. Unlike a ridge, that takes nothing from lines which are known.
    """
    cost, rank = problem.cost, problem.geometry.rank
    assert isinstance(cost, Completion)
    store, power = cost.observed, cost.value_at_zero
    known = Indicator(store)
    values = store.of_data(lambda data: data[:, 0], np.float64)
    rng, prior = np.random.default_rng(_STREAM), np.sqrt(power / rank)
    L, R = (_drawn(rng, d, rank, prior) for d in cost.shape)
    noises = [power]
    while len(noises) <= _MOST and noises[-1] > _FITTED * power and not _stands_still(noises):
        problem.counts.gradients += 1
        L, _, _ = _solved(known.__matmul__, values.__matmul__, R, noises[-1] / prior, noises[-1])
        R, blocks, sums = _solved(
            known.transposed_times, values.transposed_times, L, noises[-1] / prior, noises[-1]
        )
        noises.append(power + _change(R, blocks, sums) / store.size)
    if noises[-1] > _NOTHING * power:
        return None
    own = problem.geometry.factors(like)[0]
    _, s, _ = to_numpy(*svd_of_product(L.means, R.means))
    of_noise = noises[-1] * max(cost.shape) * (cost.shape[0] * cost.shape[1] / store.size)
    x = problem.geometry.from_factors(*(asarray_like(side.means, own) for side in (L, R)))
    return Start(x, max(1, int(np.sum(s**2 > _OUTSTANDING * of_noise))))


def _drawn(rng: np.random.Generator, lines: int, rank: int, prior: float) -> Lines:
    means = np.sqrt(prior) * rng.standard_normal((lines, rank))
    return Lines(means, np.broadcast_to(_UNSURE * prior * np.eye(rank), (lines, rank, rank)))


def _stands_still(noises: list[float]) -> bool:
    return len(noises) > _FIRST and noises[-1] > _STILL * noises[-1 - _WINDOW]


def _change(lines: Lines, blocks: Floats, sums: Floats) -> float:
    """Return Σ E[(v − x·y)²] − Σ v² over all entries, given Σ E[y yᵀ] and Σ v E[y] of each line."""
    squares = lines.means[:, :, None] * lines.means[:, None, :] + lines.covariances
    return float(np.sum(blocks * squares) - 2 * np.sum(lines.means * sums))


def _solved(
    known: Product, values: Product, other: Lines, ridge: float, noise: float
) -> tuple[Lines, Floats, Floats]:
    """Return the lines of one side given the other, with their blocks Σ E[y yᵀ] and sums Σ v E[y]."""
    rank = other.means.shape[1]
    sums, triangles = values(other.means), known(other.squares)
    blocks = np.empty((len(sums), rank, rank))
    i, j = np.triu_indices(rank)
    blocks[:, i, j] = blocks[:, j, i] = triangles
    inverses = np.linalg.inv(blocks + ridge * np.eye(rank))
    return Lines((inverses @ sums[:, :, None])[:, :, 0], noise * inverses), blocks, sums
