"""A start for ill-conditioned matrices: least squares of the sides in turn, shrunk as far as noise goes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.entries.arrays import to_numpy
from rankfold.entries.lines import solve_lines
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.geometry.base import Point
from rankfold.linalg import asarray_like, orthonormal, svd_of_product, thin_svd
from rankfold.problem import Problem

Floats = NDArray[Any]
# σ² over what noise alone would give a direction. From 3000 on conjugate gradients take no more iterations
# than for a well-conditioned matrix (4000², ranks 5 and 10, ρ = 3 to 8, κ = 10 to 1e7: 5 to 28); where the
# misfit no longer falls, as in data with noise, all that stands out of it is enough.
_CLEAR, _OUTSTANDING = 3e3, 3.0
# A direction that is not one of W: below the noise by far, or with a line whose leverage is so many times √d,
# or more. With 3 two of nine such at ρ ≤ 2 are taken for directions of W; with 0.8 nothing is found on P4.
_FAINT, _LEVERAGE = 1e-3, 2.0
_STILL, _PATIENCE = 0.9, 6  # half-sweeps that leave so much of the misfit gain nothing; how long to see
_MOST = 60  # half-sweeps: 8 to 50 were enough
_STREAM = (0, 2)  # of random numbers, shared with no data


def shrunk(problem: Problem, x0: Point) -> Point | None:
    """Return a point in which all r singular pairs of W stand out of the noise; None if none is found.

    The misfit of what is fitted so far is noise to what is not. So the coefficients of the singular pair i
    are taken to have the variance σ_i²/d, and the ridge of the pair is the misfit over it, which shrinks what
    the data do not show. Larger pairs are found first; the misfit falls, and with it the ridge of the next.
    Without ridges, directions that fit the noise of the largest pairs would stay. A direction that lies in
    one line, which has run away, is drawn anew. The first is the leading pair of x0, and others are random:
    further pairs of a bad start are worse than those.
    """
    cost = problem.cost
    assert isinstance(cost, Completion)
    factors = problem.geometry.factors(x0)
    _, sigmas, V = to_numpy(*svd_of_product(*factors))
    rng, r, store = np.random.default_rng(_STREAM), len(sigmas), cost.observed
    Y = orthonormal(np.concatenate([V[:, :1], _drawn(rng, len(V), r - 1)], axis=1))
    s, misfits, calm = np.full(r, sigmas[0]), [cost.value_at_zero], 0
    for sweep in range(_MOST):
        problem.counts.gradients += sweep % 2  # two half-sweeps pass over the entries as one gradient does
        X, s, Y = _solved((store.by_row, store.by_column)[sweep % 2], Y, s, misfits[-1])
        L, R = (X * s, Y) if sweep % 2 == 0 else (Y, X * s)
        misfits.append(_misfit(cost, L, R))
        noise = misfits[-1] * len(X) / (store.size / (cost.shape[0] * cost.shape[1]))
        leverages = np.square(np.ascontiguousarray(X.T)).max(axis=1)  # down columns takes 20 times as long
        wrong = (s**2 < _FAINT * noise) | (np.sqrt(len(X)) * leverages > _LEVERAGE)
        calm = 0 if wrong.any() else calm + 1
        still = calm >= _PATIENCE and misfits[-1] > _STILL * misfits[-2] > _STILL**2 * misfits[-3]
        if calm and s[-1] ** 2 > (_OUTSTANDING if still else _CLEAR) * noise:
            U, V = (X, Y) if sweep % 2 == 0 else (Y, X)
            return problem.geometry.from_svd(*(asarray_like(part, factors[0]) for part in (U, s, V)))
        if still:
            break
        s = np.where(wrong, np.sqrt(noise), s)
        Y = _redrawn(rng, X, wrong)
    return None


def _solved(side: SortedEntries, Y: Floats, s: Floats, misfit: float) -> tuple[Floats, Floats, Floats]:
    """Return X, s and Y, turned, of the ridge solution X diag(s) Yᵀ for the lines of one side."""
    ridges = np.broadcast_to(misfit * side.lines / s**2, (side.lines, len(s)))
    X, s, Ct = thin_svd(solve_lines(side, Y, ridges).astype(np.float64, copy=False))
    return X, s, Y @ Ct.T


def _misfit(cost: Completion, L: Floats, R: Floats) -> float:
    """Return the mean square of what is left of the data, of some rows where these are enough."""
    sampled = cost.sampled_polynomial([L], [R])
    return float((cost.polynomial([L], [R]) if sampled is None else sampled)[0])


def _redrawn(rng: np.random.Generator, X: Floats, wrong: NDArray[np.bool_]) -> Floats:
    """Return X with random directions, orthogonal to the others, instead of those that are wrong."""
    if not wrong.any():
        return X
    X = X.copy()
    X[:, wrong] = 0.0
    other = _drawn(rng, len(X), int(wrong.sum()))
    X[:, wrong] = orthonormal(other - X @ (X.T @ other))
    return X


def _drawn(rng: np.random.Generator, d: int, count: int) -> Floats:
    columns: Floats = rng.standard_normal((d, count)) / np.sqrt(d)
    return columns
