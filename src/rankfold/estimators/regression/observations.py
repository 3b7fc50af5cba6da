"""Least squares of several responses by coefficients of low rank, with or without missing responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Cost
from rankfold.costs.completion import Completion
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.offsets import WithOffsets
from rankfold.costs.regression import Regression
from rankfold.costs.regularisers import Frobenius
from rankfold.estimators.fitting import Minimisation, warm_point
from rankfold.problem import Problem
from rankfold.run.result import Result
from rankfold.run.stopping import Stop, StopKind
from rankfold.run.trace import Trace, TraceRow

Floats = NDArray[Any]
Factors = tuple[Floats, Floats]


class Fit(NamedTuple):
    """ŷ = R Lᵀx + intercept: the coefficients are L Rᵀ, features by responses. A closed form has no run."""

    L: Floats
    R: Floats
    intercept: Floats
    run: Result | None


@dataclass(frozen=True)
class Observations:
    """Predictors, responses (NaN where unknown) and weights."""

    X: Floats
    Y: Floats
    weights: Floats
    fit_intercept: bool

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the coefficients."""
        return self.X.shape[1], self.Y.shape[1]

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

    def run_of(self, fit: Fit, regularization: float) -> tuple[Trace, Stop]:
        """How a fit went; a closed form is one step from B = 0 to the minimum. Values are per response."""
        if fit.run is not None:
            return fit.run.trace, fit.run.stop
        at_zero = float(self.variances @ (self.weights @ self.known))
        penalty = regularization * float(np.vdot(fit.L.T @ fit.L, fit.R.T @ fit.R))
        values = at_zero / self.Y.size, (self.squares(fit) + penalty) / self.Y.size
        trace = Trace([TraceRow(k, value, nan, nan) for k, value in enumerate(values)])
        return trace, Stop("closed form: every response is known", StopKind.CONVERGED)


def fits(
    data: Observations, ranks: Iterable[int], regularization: float, minimisation: Minimisation
) -> Iterator[Fit]:
    """Return a fit of each rank, to compare them."""
    if data.known.all():
        yield from _closed_forms(data, ranks, regularization)
        return
    masked = _WithMissing.of(data, regularization)
    for rank in ranks:
        problem = minimisation.problem(masked.cost, rank)
        yield masked.fit(problem, minimisation.try_out(problem, masked.start(problem)))


def best_fit(
    data: Observations, rank: int, regularization: float, minimisation: Minimisation, warm: Factors | None
) -> Fit:
    """Return the fit of one rank; `warm` is (L, R) of an earlier one, from which iterations start."""
    if data.known.all():
        return next(_closed_forms(data, [rank], regularization))
    masked = _WithMissing.of(data, regularization)
    problem = minimisation.problem(masked.cost, rank)
    x0 = None if warm is None else warm_point(problem, *warm)
    return masked.fit(problem, minimisation.run(problem, masked.start(problem) if x0 is None else x0))


def _filled(data: Observations) -> Regression:
    """The cost of the coefficients, missing responses replaced by means."""
    return Regression(data.centred_X, np.sqrt(data.weights)[:, None] * np.nan_to_num(data.Y - data.y_mean))


def _closed_forms(data: Observations, ranks: Iterable[int], regularization: float) -> Iterator[Fit]:
    C, V = _filled(data).path(regularization / data.Y.size)
    for rank in ranks:
        L, R = C[:, :rank], V[:, :rank]
        yield Fit(L, R, data.y_mean - R @ (data.x_mean @ L), None)


@dataclass(frozen=True, eq=False)
class _WithMissing:
    """The cost of the coefficients where responses are missing; `core` is that of the predictions.

    `filled` is the cost with means in place of the missing responses.
    """

    data: Observations
    regularization: float
    filled: Regression
    core: Any
    predictors: Features
    cost: Cost

    @staticmethod
    def of(data: Observations, regularization: float) -> _WithMissing:
        known = data.known & (data.weights > 0)[:, None]
        used = np.flatnonzero(known.any(axis=1))
        known = known[used]
        rows, cols = np.nonzero(known)
        values = (data.Y[used] - data.y_mean)[known]
        core: Any = Completion(rows, cols, values, known.shape, weights=data.weights[used][rows])
        if data.fit_intercept:
            core = WithOffsets(core, mean=None, rows=None, cols=0.0)
        # √w is in the weights here, not in the rows: the offsets of weighted rows would not be constants.
        predictors = Features((data.X - data.x_mean)[used], data.X.shape[1])
        plain = Mapped(core, predictors, Features(None, known.shape[1]))
        cost = plain + Frobenius(regularization / values.size)
        return _WithMissing(data, regularization, _filled(data), core, predictors, cost)

    def start(self, problem: Problem) -> Any:
        """The closed form with means in place of the missing responses."""
        weight = self.regularization / self.data.Y.size
        return problem.geometry.from_svd(*self.filled.closed_form(problem.geometry.rank, weight))

    def fit(self, problem: Problem, run: Result) -> Fit:
        """The coefficients and the intercept that a run found."""
        L, R = problem.geometry.factors(run.x)
        offsets = np.zeros(len(R))
        if self.data.fit_intercept:
            offsets = self.core.offsets(self.predictors.times(L), R).cols
        return Fit(L, R, self.data.y_mean + offsets - R @ (self.data.x_mean @ L), run)
