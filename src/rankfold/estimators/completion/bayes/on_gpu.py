"""Sweeps of variational Bayes on a GPU: entries and beliefs stay there, and small matrices are on the host.

Sums over the entries of a line are products of the sparse matrix of their weights with what the lines across
are expected to be, E[F Fᵀ] packed in triangles: `kernels.gpu.product`, by some of its columns at a time. Then
each line has a small system of its own, many of which are solved at once. Bits repeat.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.gpu import GpuObserved
from rankfold.entries.gpu_checks import tensor_of
from rankfold.entries.gpu_side import GpuSide
from rankfold.estimators.completion.bayes.beliefs import Beliefs, Prior, fewest, prior_of, square
from rankfold.estimators.completion.bayes.variational import State, Variational
from rankfold.linalg.primitives import on_host

Floats = NDArray[Any]
Tensor = Any
_WIDTH = 128  # columns that entries are multiplied by at a time
_AT_ONCE = 1 << 25  # numbers of small systems that are solved at a time


@dataclass(frozen=True, eq=False)
class GpuVariational(Variational):
    """The model of some entries that are on a GPU, and what it knows of their lines."""

    gpu: Any = None
    lines: tuple[Any, ...] = ()

    @classmethod
    def of_entries(cls, model: Variational, gpu: Any) -> Self:
        """Take a model of entries in memory, and the same entries on a GPU."""
        known = {field.name: getattr(model, field.name) for field in fields(model)}
        lines = (_Lines.of(model, k, side) for k, side in enumerate((gpu.by_row, gpu.by_column)))
        return cls(**known, gpu=gpu, lines=tuple(lines))

    @property
    def store(self) -> GpuObserved:
        """The entries on the GPU."""
        store: GpuObserved = self.gpu
        return store

    def _certain(self, means: Floats) -> Beliefs:
        n, d = means.shape
        there = self.store.asarray(means)
        return Beliefs(there, there.new_zeros((n, d * (d + 1) // 2)))

    def home(self, state: State) -> State:
        """Return a state whose beliefs are NumPy arrays."""
        rows, cols = (Beliefs(*map(on_host, side)) for side in state.sides)
        return state._replace(sides=(rows, cols))

    def _prior(self, k: int, side: Beliefs) -> tuple[Prior, Floats | None]:
        lines: _Lines = self.lines[k]
        means, sure = _double(side.means), side.covariances
        coefficients = None
        if lines.traits is not None:
            means, sure = means[lines.traits.present], sure[lines.traits.present]
            coefficients = lines.traits.coefficients(means, sure)
            means = means - lines.traits.Z[lines.traits.present] @ _like(means, coefficients)
        return lines.most_likely(means, sure, self.bias, self.floor), coefficients

    def _expected(self, k: int, prior: Prior, coefficients: Floats | None) -> Tensor:
        lines: _Lines = self.lines[k]
        mean, slope = _like(lines.logs, prior.mean), _like(lines.logs, prior.slope)
        means = mean + torch.clamp(lines.logs - prior.least, min=0.0)[:, None] * slope
        if lines.traits is None or coefficients is None:
            return means
        return means + lines.traits.Z @ _like(means, coefficients)

    def _squares_about(self, expected: Tensor, side: Beliefs) -> Floats:
        off = _double(side.means) - expected
        return np.asarray(on_host(off.T @ off) + _summed(side.covariances, off.shape[1]))

    def _posteriors(
        self, k: int, other: Beliefs, noise: float, prior: Prior, expected: Tensor
    ) -> tuple[Beliefs, float, float]:
        lines: _Lines = self.lines[k]
        second, first = lines.sums(other, self.bias, self.centre)
        squares = lines.squares(self.centre)
        precision = _like(first, prior.precision)
        pulls = expected @ precision
        found = []
        for part in _parts(len(pulls), len(prior.mean)):
            sums = _Sums(second[part], first[part], squares[part])
            found.append(sums.solved(precision, pulls[part], 1 / noise))
        means, covariances, errors, logs = (torch.cat(parts) for parts in zip(*found, strict=True))
        kind = other.means.dtype
        beliefs = Beliefs(means.to(kind), covariances.to(kind))
        return beliefs, float(errors.sum()), float(logs.sum())


class _Traits(NamedTuple):
    """`Regressed` on a GPU: traits of all lines, and of those `present` what is beside and apart."""

    of: Any
    Z: Tensor
    present: Tensor
    beside: Tensor
    apart: Tensor

    def coefficients(self, means: Tensor, covariances: Tensor) -> Floats:
        """Return what the traits are multiplied by, given the beliefs of lines that are present."""
        left = means - self.beside @ (self.beside.T @ means)
        second = on_host(left.T @ left) + _summed(covariances, means.shape[1])
        return np.asarray(self.of.coefficients(on_host(self.apart.T @ left), second))


class _Lines(NamedTuple):
    """The lines of a side: their entries, and what a prior is made of.

    `fit` times the means of lines that count is their regression on a constant and `fitted`, the logarithms.
    """

    side: GpuSide
    logs: Tensor
    fit: Tensor
    fitted: Tensor
    first: float
    traits: _Traits | None

    @classmethod
    def of(cls, model: Variational, k: int, side: GpuSide) -> Self:
        """Bring there what a model knows of a side."""
        traits, logs = model.traits[k], model.logs[k]
        counted = logs if traits is None else logs[traits.present]
        first = fewest(counted)
        fitted = np.maximum(counted - first, 0.0)
        both = np.column_stack([np.ones(len(fitted)), fitted])
        fit = np.linalg.pinv(both, rcond=np.finfo(np.float64).eps * max(both.shape))
        known = None
        if traits is not None:
            Z, beside, apart = (_like(side.start, part) for part in (traits.Z, traits.beside, traits.apart))
            known = _Traits(traits, Z, _index(side.start, np.flatnonzero(traits.present)), beside, apart)
        on_logs, on_fit, on_fitted = (_like(side.start, part) for part in (logs, fit, fitted))
        return cls(side, on_logs, on_fit, on_fitted, first, known)

    def most_likely(self, means: Tensor, covariances: Tensor, bias: bool, least: float) -> Prior:
        """`beliefs.most_likely`, by sums that are made on the GPU."""
        n, d = means.shape
        line = on_host(self.fit @ means) if bias else np.zeros((2, d))
        mean, slope = _like(means, line)
        off = means - mean - self.fitted[:, None] * slope
        covariance = (on_host(off.T @ off) + _summed(covariances, d)) / n
        return prior_of(line, covariance, self.first, least)

    def sums(self, other: Beliefs, bias: bool, centre: float) -> tuple[Tensor, Tensor]:
        """Return Σ w E[F Fᵀ], in triangles, and Σ w (y − centre) E[F] over the entries of each line.

        F is [f, o] of the line across: `kernels.posteriors`.
        """
        F, value = _expectations(other.means, bias), self.side.value.double()
        weight = torch.ones_like(value) if self.side.weight is None else self.side.weight.double()
        i, j, known = _places(other.means.shape[1], bias)
        second = []
        for first in range(0, len(i), _WIDTH):
            part = slice(first, first + _WIDTH)
            block = F[:, _index(F, i[part])] * F[:, _index(F, j[part])]
            unsure = np.flatnonzero(known[part] >= 0)
            covariances = other.covariances[:, _index(F, known[part][unsure])]
            block[:, _index(F, unsure)] += _double(covariances)
            second.append(self._times(weight, block))
        return torch.cat(second, dim=1), self._times(weight * (value - centre), F)

    def squares(self, centre: float) -> Tensor:
        """Σ w (y − centre)² of each line."""
        numbers = (self.side.value.double() - centre) ** 2
        numbers = numbers if self.side.weight is None else numbers * self.side.weight.double()
        return self._times(numbers, numbers.new_ones((self.side.length, 1)))[:, 0]

    def _times(self, numbers: Tensor, block: Tensor) -> Tensor:
        """The sparse matrix with these numbers for its entries times a block."""
        return replace(self.side, value=numbers).swept(kernels.gpu.product, (block.contiguous(),))


class _Sums(NamedTuple):
    """What the entries of some lines summed up to: `second` and `first` of `_Lines.sums`, and `squares`."""

    second: Tensor
    first: Tensor
    squares: Tensor

    def solved(self, precision: Tensor, pulls: Tensor, alpha: float) -> tuple[Tensor, ...]:
        """Return means, triangles of covariances, expected squares of what is left, logs of determinants."""
        d = pulls.shape[1]
        i, j = (_index(pulls, part) for part in np.tril_indices(d))
        S = self.second.new_empty((len(pulls), d, d))
        S[:, i, j] = S[:, j, i] = self.second[:, : len(i)]
        pulled = self.first[:, :d] - self.second[:, len(i) : len(i) + d]
        X = _inverse_roots(precision + alpha * S)
        C = X.mT @ X
        x = (C @ (pulls + alpha * pulled)[:, :, None])[:, :, 0]
        errors = self.squares - 2 * self.first[:, d] + self.second[:, -1]
        errors = errors - 2 * (pulled * x).sum(1) + (S * (C + x[:, :, None] * x[:, None, :])).sum((1, 2))
        roots = X.diagonal(dim1=1, dim2=2)
        logs = 2 * torch.log(torch.where(roots > 0, roots, 1.0)).sum(1)
        return x, C[:, i, j], errors, logs


def _inverse_roots(Q: Tensor) -> Tensor:
    """Return lower triangles X with Q⁻¹ = XᵀX for many small Q; a pivot that is rounding makes its row 0."""
    d = Q.shape[1]
    L, failed = torch.linalg.cholesky_ex(Q)
    X = torch.linalg.solve_triangular(L, torch.eye(d, dtype=Q.dtype, device=Q.device), upper=False)
    lost = kernels.posteriors.SINGULAR * Q.diagonal(dim1=1, dim2=2)
    singular = (failed != 0) | (L.diagonal(dim1=1, dim2=2) ** 2 <= lost).any(1)
    if bool(singular.any()):
        X[singular] = _eliminated(Q[singular], lost[singular])
    return X


def _eliminated(Q: Tensor, lost: Tensor) -> Tensor:
    """`_inverse_roots` by elimination, row by row, which leaves out what is lost."""
    d = Q.shape[1]
    X = torch.eye(d, dtype=Q.dtype, device=Q.device).repeat(len(Q), 1, 1)
    for k in range(d):
        pivot = Q[:, k, k]
        kept = pivot > lost[:, k]
        root = torch.where(kept, 1 / torch.sqrt(torch.where(kept, pivot, 1.0)), 0.0)[:, None]
        Q[:, k], X[:, k] = Q[:, k] * root, X[:, k] * root
        factor = Q[:, k, k + 1 :, None].clone()
        Q[:, k + 1 :] -= factor * Q[:, k : k + 1]
        X[:, k + 1 :] -= factor * X[:, k : k + 1]
    return X


def _expectations(means: Tensor, bias: bool) -> Tensor:
    """E[F] of lines: f = [v, 1] and o = c, or, without offsets, f = z and o = 0."""
    z, one = means.double(), torch.ones((len(means), 1), dtype=torch.float64, device=means.device)
    return torch.cat([z[:, :-1], one, z[:, -1:]] if bias else [z, 0 * one], dim=1)


def _places(d: int, bias: bool) -> tuple[Floats, Floats, Floats]:
    """Rows and columns of a triangle of E[F Fᵀ], and which covariance of unknowns belongs there, or -1."""
    i, j = np.tril_indices(d + 1)
    unknown = np.array([*range(d - 1), -1, d - 1] if bias else [*range(d), -1])
    a, b = unknown[i], unknown[j]
    return i, j, np.where((a < 0) | (b < 0), -1, a * (a + 1) // 2 + b)


def _parts(lines: int, d: int) -> Iterator[slice]:
    """Yield some lines at a time."""
    step = max(1, _AT_ONCE // d**2)
    for first in range(0, lines, step):
        yield slice(first, first + step)


def _summed(covariances: Tensor, d: int) -> Floats:
    """The sum of all covariances."""
    return square(on_host(covariances.sum(0, dtype=torch.float64)), d)


def _double(tensor: Any) -> Tensor:
    return tensor.double()


def _index(example: Tensor, places: Floats) -> Tensor:
    """Places of numbers, where an example is."""
    return torch.as_tensor(places, dtype=torch.int64, device=example.device)


def _like(example: Tensor, numbers: Floats) -> Tensor:
    """Numbers in double precision, where an example is."""
    return tensor_of(numbers).to(example.device, torch.float64)
