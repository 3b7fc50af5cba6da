"""What is believed of rows and columns: a Gaussian for each, and one more that they are all drawn from.

The unknowns of a row are x = [u, b], those of a column z = [v, c]: a factor and an offset, which is left out
of models without offsets. Lower triangles of symmetric matrices are held row by row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels

Floats = NDArray[Any]
# A prior is no narrower in any direction than this part of the variances of its unknowns: what has vanished
# may come back, slowly, and a precision is finite; that of an unknown without variance too.
_NARROWEST, _NOTHING = 1e-8, 1e-100


class Beliefs(NamedTuple):
    """Means, (n, d), and lower triangles of covariances, (n, d(d + 1)/2), of the lines of a side."""

    means: Floats
    covariances: Floats


class Prior(NamedTuple):
    """Before its entries are seen, a line with n is N(mean + slope · (log(1 + n) − least), covariance).

    How many entries a line has says something of them: films that many have seen are liked more. `least` is
    the logarithm of the fewest that a line had; lines with fewer, or none, are as those.
    """

    mean: Floats
    slope: Floats
    covariance: Floats
    least: float = 0.0

    def means(self, logs: Floats) -> Floats:
        """Return the mean of each line, given the logarithms."""
        return np.asarray(self.mean + np.maximum(logs - self.least, 0.0)[:, None] * self.slope)

    @property
    def precision(self) -> Floats:
        """Inverse of the covariance."""
        return inverses(self.covariance)

    def moved(self, by: Floats) -> Prior:
        """Return the prior of A (x − mean), A the matrix `by`."""
        return Prior(np.zeros_like(self.mean), by @ self.slope, by @ self.covariance @ by.T, self.least)


def most_likely(beliefs: Beliefs, logs: Floats, bias: bool, least: float) -> Prior:
    """Return the prior that makes the beliefs most likely; variances of 0 become `least`.

    Without offsets lines are drawn around 0: there is no constant that a mean could stand for.
    """
    means = beliefs.means.astype(np.float64)
    d = means.shape[1]
    line, first = np.zeros((2, d)), fewest(logs)
    logs = np.maximum(logs - first, 0.0)
    if bias:
        line = np.linalg.lstsq(np.column_stack([np.ones(len(means)), logs]), means, rcond=None)[0]
    off = means - line[0] - logs[:, None] * line[1]
    covariance = off.T @ off / len(means) + square(beliefs.covariances.mean(axis=0, dtype=np.float64), d)
    return prior_of(line, covariance, first, least)


def prior_of(line: Floats, covariance: Floats, fewest: float, least: float) -> Prior:
    """Return the prior of a regression line and the covariance about it; variances of 0 become `least`."""
    variances = np.diag(covariance)
    covariance = covariance + np.diag(np.where(variances > 0, _NARROWEST * variances, least))
    return Prior(line[0], line[1], covariance, fewest)


def fewest(logs: Floats) -> float:
    """Return the least of the logarithms of lines with entries."""
    return float(logs[logs > 0].min()) if np.any(logs > 0) else 0.0


def inverses(covariances: Floats) -> Floats:
    """Return the inverse of a covariance, or of many, no direction of which is taken to be too narrow."""
    units = np.sqrt(np.maximum(np.diagonal(covariances, axis1=-2, axis2=-1), _NOTHING))
    both = units[..., :, None] * units[..., None, :]
    variances, turn = np.linalg.eigh(covariances / both)
    inverse = (turn / np.maximum(variances, _NARROWEST)[..., None, :]) @ np.swapaxes(turn, -1, -2)
    return np.asarray(inverse / both)


def square(triangles: Floats, d: int) -> Floats:
    """Return symmetric matrices from their lower triangles, of one or of many."""
    i, j = np.tril_indices(d)
    whole = np.empty((*triangles.shape[:-1], d, d), triangles.dtype)
    whole[..., i, j] = whole[..., j, i] = triangles
    return whole


def triangle(matrices: Floats) -> Floats:
    """Return the lower triangles of symmetric matrices."""
    i, j = np.tril_indices(matrices.shape[-1])
    return np.ascontiguousarray(matrices[..., i, j])


def in_blocks(beliefs: Beliefs, bias: bool, dtype: DTypeLike) -> tuple[Floats, Floats]:
    """Return F and C of `kernels.posteriors`: what lines of the other side ask of these; C of a dtype.

    What multiplies their unknowns is f = [v, 1], and o = c stands alone; without offsets f = z and o = 0.
    """
    means, covariances = beliefs
    n, d = means.shape
    block, wide = kernels.posteriors.BLOCK, kernels.posteriors.WIDE_BLOCK
    F = np.zeros((n, _filled(d + 1, block)), means.dtype)
    F[:, :d] = means
    if bias:
        F[:, d - 1], F[:, d] = 1.0, means[:, -1]
    size = covariances.shape[1]
    C = np.zeros((n, _filled(size, wide)), dtype)
    C[:, :size] = covariances
    return F.reshape(-1, block), C.reshape(-1, wide)


def _filled(size: int, block: int) -> int:
    """So many numbers, or as many more as fill a block."""
    return -(-size // block) * block


def variances(rows: Beliefs, cols: Beliefs, bias: bool) -> Floats:
    """Return the variance of b + c + u·v for row p and column p of two sides of one length."""
    d = rows.means.shape[1]
    i, j = np.tril_indices(d)
    twice = np.where(i == j, 1.0, 2.0)
    total = np.zeros(len(rows.means))
    for own, other in ((rows, cols), (cols, rows)):
        f = other.means.astype(np.float64)
        if bias:
            f[:, -1] = 1.0
        total += np.einsum("pt,pt,pt,t->p", own.covariances, f[:, i], f[:, j], twice)
    both = twice * (i < d - 1) if bias else twice
    total += np.einsum("pt,pt,t->p", rows.covariances, cols.covariances, both)
    return np.maximum(total, 0.0)
