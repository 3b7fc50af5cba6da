"""The posterior that a fitted model keeps: how sure its rows and columns are, and how new ones are found."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.offsets import Offsets
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.bayes.beliefs import Beliefs, Prior, inverses, square, triangle
from rankfold.estimators.completion.bayes.calibration import Calibration, gaussian_ends
from rankfold.estimators.completion.bayes.judging import variances_at
from rankfold.estimators.completion.bayes.variational import State, posteriors
from rankfold.estimators.completion.folding import Earlier, Lines
from rankfold.estimators.completion.offsets import side_counts

Floats = NDArray[Any]


class Posterior(NamedTuple):
    """Covariances of the lines, lower triangles by row: of the factor, then of the offset if there is one.

    Attributes
    ----------
    rows, cols
        The covariances of rows and columns, (n, d(d + 1)/2).
    priors
        What rows, and columns, are drawn from. Their means are 0: so are the factor and the offset of a line
        that was never seen.
    noise
        The variance of an entry about its expectation.
    sweeps
        How many sweeps of variational Bayes there were; with 0, factors and offsets are those of the fit.
    calibration
        How the deviations compare with the errors of entries held out; None if none were.
    """

    rows: Floats
    cols: Floats
    priors: tuple[Prior, Prior]
    noise: float
    sweeps: int
    calibration: Calibration | None

    @property
    def covariances(self) -> tuple[Floats, Floats]:
        """Those of rows, and of columns."""
        return self.rows, self.cols

    def ends(self, coverage: float) -> tuple[float, float]:
        """Return how many deviations below and above a prediction an interval ends."""
        if self.calibration is None:
            return gaussian_ends(coverage)
        return self.calibration.ends(coverage)

    def deviations(self, factors: FactorPair, i: Floats, j: Floats) -> Floats:
        """Return the deviations of entries at positions about their predictions; -1 is a line never seen."""
        bias = len(self.priors[0].mean) > factors[0].shape[1]
        sides = (
            self._with_unseen(axis, factors, bias, places) for axis, places in zip(Axis, (i, j), strict=True)
        )
        (rows, i), (cols, j) = sides
        spread = variances_at(rows, cols, bias, i, j)
        scale = 1.0 if self.calibration is None else self.calibration.scale
        return np.asarray(scale * np.sqrt(spread + self.noise))

    def _with_unseen(
        self, axis: Axis, factors: FactorPair, bias: bool, places: Floats
    ) -> tuple[Beliefs, Floats]:
        """Beliefs of the lines at places, and of one never seen; and where each place is among them."""
        lines, where = np.unique(places, return_inverse=True)
        means, covariances = axis.of(factors)[lines], axis.of(self.covariances)[lines]
        if bias:  # offsets matter to no variance
            means = np.column_stack([means, np.zeros(len(means), means.dtype)])
        means[lines < 0], covariances[lines < 0] = 0.0, triangle(axis.of(self.priors).covariance)
        return Beliefs(means, covariances), where

    def solved(
        self, axis: Axis, cost: Completion, mean: float, other: Lines, earlier: Earlier | None = None,
        expected: Floats | float = 0.0,
    ) -> Lines:  # fmt: skip
        """Return the lines of an axis that a cost has entries for, while those of the other one stay.

        `expected` is what features make one expect of each.
        """
        bias = len(self.priors[0].mean) > other.factors.shape[1]
        side, beliefs = cost.observed.plain.by_row, _beliefs(other, bias)
        prior, known = axis.of(self.priors), None
        counts = side_counts(side)
        if earlier is not None:
            before = earlier.counts.astype(np.float64)
            known = self._known(prior, earlier, prior.means(np.log1p(before)) + expected)
            counts = counts + before
        means = prior.means(np.log1p(counts)) + expected
        found, _, _ = posteriors(side, mean, beliefs, bias, self.noise, prior, means, known)
        r = other.factors.shape[1]
        offsets = found.means[:, r] if bias else np.zeros(len(found.means))
        return Lines(offsets, found.means[:, :r], found.covariances)

    def _known(self, prior: Prior, earlier: Earlier, means: Floats) -> Floats:
        """What the earlier entries of lines summed up to, by what was found from them; the part that is kept.

        A posterior N(x, C) had C⁻¹ = Λ + A/σ² and C⁻¹ x = Λ m + q/σ², which gives A and q.
        """
        bias = len(prior.mean) > earlier.lines.factors.shape[1]
        x, sure = _beliefs(earlier.lines, bias)
        d = x.shape[1]
        size, seen = d * (d + 1) // 2, earlier.counts > 0
        known = np.zeros((len(x), size + 2 * d + 2))
        alive = np.flatnonzero(np.diag(prior.covariance) > 0)
        A, i, j = np.zeros((int(seen.sum()), d, d)), alive[:, None], alive
        gained = inverses(square(sure[seen], d)[:, i, j]) - inverses(prior.covariance[i, j])
        values, turn = np.linalg.eigh(gained)  # entries take nothing away: below 0 is rounding
        A[:, i, j] = self.noise * (turn * np.maximum(values, 0.0)[:, None]) @ np.swapaxes(turn, 1, 2)
        q = np.einsum("ikm,im->ik", A, x[seen]) + self.noise * (x - means)[seen] @ prior.precision
        known[seen, :size], known[seen, -d - 1 : -1] = earlier.kept * triangle(A), earlier.kept * q
        return known


def _beliefs(lines: Lines, bias: bool) -> Beliefs:
    means = np.column_stack([lines.factors, lines.offsets]) if bias else lines.factors
    assert lines.covariances is not None  # lines of a model with a posterior have some
    return Beliefs(*(np.ascontiguousarray(part, np.float64) for part in (means, lines.covariances)))


def centred(
    state: State, bias: bool, centre: float, sweeps: int, calibration: Calibration | None
) -> tuple[FactorPair, Offsets, Posterior]:
    """Return factors, offsets and the posterior of a state, so that a line never seen has 0 for both.

    With x = m + x' and z likewise, u·v + b + c is u'·v' + (b' + u'·m_v) + (c' + v'·m_u) and a constant.
    """
    (rows, cols), d = state.sides, state.sides[0].means.shape[1]
    if not bias:
        offsets = Offsets(centre, np.zeros(len(rows.means)), np.zeros(len(cols.means)))
        found = Posterior(rows.covariances, cols.covariances, state.priors, state.noise, sweeps, calibration)
        return (rows.means, cols.means), offsets, found
    of_rows, of_cols = (prior.mean if sweeps else np.zeros(d) for prior in state.priors)
    constant = centre + of_rows[:-1] @ of_cols[:-1] + of_rows[-1] + of_cols[-1]
    moved = [
        _moved(side, mean, other)
        for side, mean, other in ((rows, of_rows, of_cols), (cols, of_cols, of_rows))
    ]
    priors = [
        prior.moved(_shear(other)) for prior, other in zip(state.priors, (of_cols, of_rows), strict=True)
    ]
    b, c = (side.means[:, -1].astype(np.float64) for side in moved)
    L, R = (np.ascontiguousarray(side.means[:, :-1]) for side in moved)
    posterior = Posterior(
        moved[0].covariances, moved[1].covariances, (priors[0], priors[1]), state.noise, sweeps, calibration
    )
    return (L, R), Offsets(float(constant), b, c), posterior


def centred_coefficients(state: State, bias: bool) -> tuple[Floats | None, Floats | None]:
    """Return what [1, z] of a line is multiplied by to say what is expected of it beside `centred` lines."""
    found = []
    for A, other in zip(state.coefficients, reversed(state.priors), strict=True):
        A = A @ _shear(other.mean).T if A is not None and bias else A
        found.append(None if A is None else np.vstack([np.zeros(A.shape[1]), A]))
    return found[0], found[1]


def _shear(other: Floats) -> Floats:
    """The matrix that adds u·m_v to b, m_v the factor of `other`."""
    A = np.eye(len(other))
    A[-1, :-1] = other[:-1]
    return A


def _moved(side: Beliefs, mean: Floats, other: Floats) -> Beliefs:
    """Beliefs of A (x − mean), A the shear."""
    A, d = _shear(other), len(mean)
    means = (side.means - mean) @ A.T
    covariances = triangle(A @ square(side.covariances, d) @ A.T)
    return Beliefs(*(part.astype(side.means.dtype, copy=False) for part in (means, covariances)))
