"""Least squares of several responses by coefficients of low rank, with or without missing responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.offsets import WithOffsets
from rankfold.costs.regression import Regression
from rankfold.costs.regularisers import Frobenius
from rankfold.estimators.fitting import fit_problem, problem_of
from rankfold.run.stopping import RelativeChange

Floats = NDArray[Any]


class Fit(NamedTuple):
    """ŷ = L Rᵀ x + intercept, up to transposes: the coefficients are L Rᵀ, features by responses."""

    L: Floats
    R: Floats
    intercept: Floats
    iterations: int


@dataclass(frozen=True)
class Observations:
    """Predictors, responses (NaN where unknown) and weights."""

    X: Floats
    Y: Floats
    weights: Floats
    fit_intercept: bool

    def take(self, rows: NDArray[Any]) -> Observations:
        """Some of the observations."""
        return replace(self, X=self.X[rows], Y=self.Y[rows], weights=self.weights[rows])

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where there is a response."""
        return ~np.isnan(self.Y)

    @property
    def x_mean(self) -> Floats:
        """The mean of the predictors; 0 if there is no intercept."""
        if not self.fit_intercept:
            return np.zeros(self.X.shape[1])
        return np.asarray(np.average(self.X, axis=0, weights=self.weights))

    @property
    def y_mean(self) -> Floats:
        """The mean of each response's known values; 0 where there are none."""
        if not self.fit_intercept:
            return np.zeros(self.Y.shape[1])
        counts = self.weights @ self.known
        return np.asarray(self.weights @ np.nan_to_num(self.Y) / np.where(counts > 0, counts, 1.0))

    @property
    def centred_X(self) -> Floats:
        """Rows √w (x - mean): least squares with weights are least squares of these."""
        return np.asarray(np.sqrt(self.weights)[:, None] * (self.X - self.x_mean))

    @property
    def scale(self) -> float:
        """The mean squared singular value of the predictors; 1 if they are constant."""
        return float(np.sum(self.centred_X**2)) / self.X.shape[1] or 1.0

    @property
    def variances(self) -> Floats:
        """The variance of each response's known values."""
        deviations = np.nan_to_num(self.Y - self.y_mean)
        return np.asarray(self.weights @ deviations**2 / (self.weights @ self.known))

    def squares(self, fit: Fit) -> float:
        """The sum of squared errors of a fit."""
        errors = self.Y - (self.X @ fit.L) @ fit.R.T - fit.intercept
        return float(self.weights @ np.nan_to_num(errors) ** 2 @ np.ones(self.Y.shape[1]))


def fits(data: Observations, ranks: Any, ridge: float, options: dict[str, Any]) -> Iterator[Fit]:
    """The best fit of each rank."""
    X, x_mean, y_mean = data.centred_X, data.x_mean, data.y_mean
    roots = np.sqrt(data.weights)[:, None]
    closed = Regression(X, roots * np.nan_to_num(data.Y - y_mean))  # with missing ones: a good start point
    if data.known.all():
        C, V = closed.path(ridge / data.Y.size)
        for rank in ranks:
            L, R = C[:, :rank], V[:, :rank]
            yield Fit(L, R, y_mean - R @ (x_mean @ L), 0)
        return
    core, cost = _with_missing(data, y_mean, ridge)
    for rank in ranks:
        yield _minimised(core, cost, closed.closed_form(rank, ridge / data.Y.size), data, options)


def _with_missing(data: Observations, y_mean: Floats, ridge: float) -> tuple[Any, Any]:
    """The cost of the predictions, offsets eliminated, and that of the coefficients."""
    known = data.known & (data.weights > 0)[:, None]
    used = np.flatnonzero(known.any(axis=1))
    known = known[used]
    rows, cols = np.nonzero(known)
    values = (data.Y[used] - y_mean)[known]
    core: Any = Completion(rows, cols, values, known.shape, weights=data.weights[used][rows])
    if data.fit_intercept:
        core = WithOffsets(core, mean=None, rows=None, cols=0.0)
    # √w is in the weights here, not in the rows: the offsets of weighted rows would not be constants.
    predictors = Features((data.X - data.x_mean)[used], data.X.shape[1])
    return core, Mapped(core, predictors, Features(None, known.shape[1])) + Frobenius(ridge / values.size)


def _minimised(core: Any, cost: Any, start: Any, data: Observations, options: dict[str, Any]) -> Fit:
    options = dict(options)
    problem = problem_of(cost, start[1].size, options.pop("geometry"))
    settled = RelativeChange(options.pop("tolerance"), window=5)
    x0 = problem.geometry.from_svd(*start)
    result = fit_problem(problem, x0=x0, tolerance=0.0, stop=settled, **options)
    L, R = problem.geometry.factors(result.x)
    offsets = np.zeros(data.Y.shape[1])
    if data.fit_intercept:
        offsets = core.offsets(cost.terms[0][1].X.times(L), R).cols
    return Fit(L, R, data.y_mean + offsets - R @ (data.x_mean @ L), result.iterations)
