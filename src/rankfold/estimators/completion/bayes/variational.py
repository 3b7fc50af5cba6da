"""Variational Bayes for a matrix of low rank with offsets: alternating least squares with covariances.

The entries are y_ij = μ + b_i + c_j + u_i·v_j + noise of variance σ²/w_ij. The posterior is taken to be a
Gaussian for each row, [u_i, b_i], times one for each column, [v_j, c_j], with full covariances. A sweep finds
the best Gaussians of the rows given those of the columns, then those of the columns given these; before each,
the prior that makes the side's lines most likely; and at last the noise. Each raises the evidence bound

    E log p(y | x, z) − Σ KL(q(x_i) ‖ prior) − Σ KL(q(z_j) ‖ prior).

A weight is the same as so many repetitions of an entry. The bound rises for long after predictions are best:
the posterior, which is too sure since rows and columns do not know of each other, drops weak directions. When
to stop is for entries held out to say (`judging`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.costs.losses import Loss
from rankfold.entries.lines import FactorPair
from rankfold.entries.observed import Observed
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.entries.store import EntryStore
from rankfold.estimators.completion.bayes.beliefs import Beliefs, Prior, in_blocks, most_likely, square
from rankfold.estimators.completion.offsets import side_counts
from rankfold.estimators.completion.side.expecting import Expecting
from rankfold.estimators.completion.side.regressed import Regressed
from rankfold.linalg import namespace

Floats = NDArray[Any]
_SQUARE = Loss.named("square")
BLOCK = 1 << 18  # entries looked at a time


class State(NamedTuple):
    """Beliefs of rows and columns, their priors, the noise σ², and what the bound is made of.

    `error` is Σ w E[(y − p)²], `logs` the sums of the logarithms of the covariances' determinants, and
    `coefficients` what the traits of lines, if they have any, are multiplied by in the means of the priors.
    """

    sides: tuple[Beliefs, Beliefs]
    priors: tuple[Prior, Prior]
    noise: float
    error: float
    logs: tuple[float, float]
    coefficients: tuple[Floats | None, Floats | None] = (None, None)

    @property
    def swept(self) -> bool:
        """Whether there are covariances, which a sweep brings."""
        return bool(self.sides[0].covariances.any())

    @property
    def finite(self) -> bool:
        """Whether all of it is."""
        arrays = (array for side in self.sides for array in side)
        return bool(np.isfinite(self.error)) and all(map(_all_finite, arrays))


@dataclass(frozen=True, eq=False)
class Variational:
    """The model of some entries.

    `centre` is what is taken off all values, which changes nothing but rounding; `floor` the least variance
    of the noise, without which exact data would let it fall to 0.
    """

    observed: Observed
    bias: bool
    centre: float
    weight: float
    floor: float
    logs: tuple[Floats, Floats]
    traits: tuple[Regressed | None, Regressed | None] = (None, None)

    @classmethod
    def of(
        cls,
        observed: Observed,
        bias: bool,
        expecting: tuple[Expecting | None, Expecting | None] = (None, None),
    ) -> Self:
        """Look at the entries."""
        centre, scale, weight = _spread(observed.by_row.data, bias)
        logs = (np.log1p(side_counts(observed.by_row)), np.log1p(side_counts(observed.by_column)))
        # The expected squares of residuals are differences of sums of squares, exact to the rounding of
        # these; 2/3 of the digits lies safely above that, and 10⁻⁵ of the data's deviation is no noise.
        floor = float(np.finfo(observed.dtype).eps) ** (2 / 3) * scale
        rows, cols = (
            None if each is None or each.idle else Regressed(each.Z, each.present, log, bias)
            for each, log in zip(expecting, logs, strict=True)
        )
        return cls(observed, bias, centre, weight, floor, logs, (rows, cols))

    def start(self, point: FactorPair) -> State:
        """Begin at a point of `Joint`: G = [L, μ + b] and H = [R, c], or L and R without offsets."""
        G, H = (np.array(X, dtype=self.observed.dtype) for X in point)
        G[:, -1] -= self.centre  # 0 without offsets
        sides = tuple(self._certain(X) for X in (G, H))
        rows, cols = (self._prior(k, side) for k, side in enumerate(sides))
        error = self._squares(*point)
        noise = max(error / self.weight, self.floor)
        found = (rows[0], cols[0]), noise, error, (0.0, 0.0), (rows[1], cols[1])
        return State((sides[0], sides[1]), *found)

    def _certain(self, means: Floats) -> Beliefs:
        """Beliefs without variances."""
        n, d = means.shape
        return Beliefs(means, np.zeros((n, d * (d + 1) // 2), means.dtype))

    def home(self, state: State) -> State:
        """Return a state whose beliefs are NumPy arrays."""
        return state

    def swept(self, state: State) -> State:
        """Return the state after one sweep."""
        sides, logs, error = list(state.sides), list(state.logs), state.error
        priors, coefficients = list(state.priors), list(state.coefficients)
        for k in (0, 1):
            priors[k], coefficients[k] = self._prior(k, sides[k])
            expected = self._expected(k, priors[k], coefficients[k])
            sides[k], error, logs[k] = self._posteriors(k, sides[1 - k], state.noise, priors[k], expected)
        noise = max(error / self.weight, self.floor)
        found = (priors[0], priors[1]), noise, error, (logs[0], logs[1]), (coefficients[0], coefficients[1])
        return State((sides[0], sides[1]), *found)

    def _prior(self, k: int, side: Beliefs) -> tuple[Prior, Floats | None]:
        """The most likely prior of a side, and what traits are multiplied by in its means."""
        traits = self.traits[k]
        if traits is None:
            return most_likely(side, self.logs[k], self.bias, self.floor), None
        coefficients, rest = traits.explained(side)
        return most_likely(rest, self.logs[k][traits.present], self.bias, self.floor), coefficients

    def _posteriors(
        self, k: int, other: Beliefs, noise: float, prior: Prior, expected: Floats
    ) -> tuple[Beliefs, float, float]:
        """`posteriors` of a side."""
        return posteriors(self.observed.sides[k], self.centre, other, self.bias, noise, prior, expected)

    def _expected(self, k: int, prior: Prior, coefficients: Floats | None) -> Floats:
        """The means of the prior, line by line."""
        means, traits = prior.means(self.logs[k]), self.traits[k]
        return means if traits is None or coefficients is None else means + traits.Z @ coefficients

    def bound(self, state: State) -> float:
        """Return the evidence bound of a state that was swept."""
        total = -0.5 * (self.weight * np.log(2 * np.pi * state.noise) + state.error / state.noise)
        for k, (side, prior, logs) in enumerate(zip(state.sides, state.priors, state.logs, strict=True)):
            n, d = side.means.shape
            squares = self._squares_about(self._expected(k, prior, state.coefficients[k]), side)
            divergence = np.sum(prior.precision * squares) + n * np.linalg.slogdet(prior.covariance)[1]
            total -= 0.5 * (divergence - logs - n * d)
        return float(total)

    def _squares_about(self, expected: Floats, side: Beliefs) -> Floats:
        """Σ E[(x − expected)(x − expected)ᵀ] over the lines of a side."""
        off = side.means - expected
        summed = square(side.covariances.sum(axis=0, dtype=np.float64), off.shape[1])
        return np.asarray(off.T @ off + summed)

    @property
    def store(self) -> EntryStore:
        """The entries, for passes over all of them."""
        return self.observed

    def _squares(self, G: Floats, H: Floats) -> float:
        """Σ w (y − p)² at a point."""
        if self.bias:
            ones = [np.ones((len(X), 1)) for X in (G, H)]
            G, H = np.hstack([G, ones[0]]), np.hstack([H[:, :-1], ones[1], H[:, -1:]])
        store = self.store
        return store.value(store.asarray(G), store.asarray(H), _SQUARE) * store.size


def _all_finite(array: Any) -> bool:
    xp = namespace(array)
    return bool(xp.all(xp.isfinite(array)))


def posteriors(
    entries: SortedEntries, centre: float, other: Beliefs, bias: bool, noise: float, prior: Prior,
    expected: Floats, known: Floats | None = None,
) -> tuple[Beliefs, float, float]:  # fmt: skip
    """Return the beliefs of lines given those of the other side; Σ w E[(y − p)²]; Σ log det of covariances.

    `expected` are the means of the prior, line by line; `known` is what earlier entries summed up to:
    Σ w E[f fᵀ] (its lower triangle), E[o f], E[o²], and then Σ w (y − centre) E[f] and E[o].
    """
    dtype, precision = other.means.dtype, prior.precision
    # Of many entries, what covariances add up to is as exact as anyone could ask for in half the memory.
    both = in_blocks(other, bias, dtype if kernels.layout.are_few(len(entries.data)) else np.float32)
    pulls = np.ascontiguousarray(expected @ precision)
    d, lines = len(prior.mean), entries.lines
    width = (d + 1) * (d + 4) // 2  # sums of a line
    means, covariances = (np.empty((lines, size), dtype) for size in (d, d * (d + 1) // 2))
    errors, dets = np.empty(lines), np.empty(lines)
    found = means, covariances, errors, dets
    for part, side in entries.parts():
        before = np.empty((0, width)) if known is None else known[part]
        own = pulls[part], before, tuple(array[part] for array in found)
        kernels.pool.run(
            kernels.posteriors.update, side.chunks[1], len(side.data) * width + side.lines * d**3,
            (_passed(side, centre), both, bias, 1 / noise, precision, *own),
        )  # fmt: skip
    return Beliefs(means, covariances), float(errors.sum()), float(dets.sum())


def _passed(entries: SortedEntries, centre: float) -> tuple[Any, ...]:
    """Entries as the kernels want them."""
    return *entries.passed, np.uint64(entries.data.shape[1]), centre


def products(X: Floats, Z: Floats, bias: bool) -> Floats:
    """Return b + c + u·v for row p and column p."""
    r = X.shape[1] - bias
    found = np.einsum("pk,pk->p", X[:, :r], Z[:, :r], dtype=np.float64)
    return np.asarray(found + X[:, -1] + Z[:, -1] if bias else found)


def _spread(data: Floats, bias: bool) -> tuple[float, float, float]:
    """Return the mean of the values (0 without offsets), their mean square about it, and their weight."""

    def summed(term: Callable[[Floats, Floats], Floats]) -> float:
        return sum(float(term(*block).sum()) for block in _blocks(data))

    weight = summed(lambda _, w: w)
    if not weight:
        return 0.0, 1.0, 1.0
    centre = summed(lambda y, w: y * w) / weight if bias else 0.0
    scale = summed(lambda y, w: (y - centre) ** 2 * w) / weight
    size = max(float(np.abs(y).max()) for y, _ in _blocks(data))
    least = (float(np.finfo(data.dtype).eps) * size) ** 2
    return centre, max(scale, least, np.finfo(np.float64).tiny), weight


def _blocks(data: Floats) -> Iterator[tuple[Floats, Floats]]:
    """Yield values and weights of some entries at a time."""
    for first in range(0, len(data), BLOCK):
        block = data[first : first + BLOCK].astype(np.float64)
        yield block[:, 0], block[:, 1] if block.shape[1] == 2 else np.ones(len(block))
