"""Several responses by coefficients of low rank: any loss, with or without missing responses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Cost
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.offsets import WithOffsets
from rankfold.costs.regression import Regression
from rankfold.costs.regularisers import Frobenius
from rankfold.entries.devices import usable_device
from rankfold.estimators.fitting import Geometries, problem_of
from rankfold.estimators.regression.free_offsets import FreeOffsets
from rankfold.linalg.primitives import on_host
from rankfold.problem import Problem
from rankfold.run.result import Result
from rankfold.run.stopping import Stop, StopKind
from rankfold.run.trace import Trace, TraceRow

Floats = NDArray[Any]
Run = Callable[[Problem, Any], Result]  # from a start


class Fit(NamedTuple):
    """R Lᵀx + intercept predicts y (or a logit, or a logarithm). A closed form has no run."""

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
    loss: Loss = field(default_factory=lambda: Loss.named("square"))

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
    def used(self) -> NDArray[np.bool_]:
        """Where there is a response that counts."""
        return self.known & (self.weights > 0)[:, None]

    @property
    def closed_form(self) -> bool:
        """Whether the best fit of a rank is known: least squares, with every response."""
        return self.loss.is_square and bool(self.known.all())

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

    def losses(self, fit: Fit) -> float:
        """The sum of the losses of a fit: of squared errors, for the square loss."""
        known = self.used  # what counts for nothing may be predicted to be infinite
        predicted = ((self.X @ fit.L) @ fit.R.T + fit.intercept)[known]
        with np.errstate(over="ignore"):  # a candidate may predict an infinite count: it is not chosen
            losses = self.loss(predicted, self.Y[known])[0]
        return float(np.broadcast_to(self.weights[:, None], known.shape)[known] @ losses)

    def run_of(self, fit: Fit, regularization: float) -> tuple[Trace, Stop]:
        """How a fit went; a closed form is one step from B = 0 to the minimum. Values are per response."""
        if fit.run is not None:
            return fit.run.trace, fit.run.stop
        at_zero = float(self.variances @ (self.weights @ self.known))
        penalty = regularization * float(np.vdot(fit.L.T @ fit.L, fit.R.T @ fit.R))
        values = at_zero / self.Y.size, (self.losses(fit) + penalty) / self.Y.size
        trace = Trace([TraceRow(k, value, nan, nan) for k, value in enumerate(values)])
        return trace, Stop("closed form: every response is known", StopKind.CONVERGED)


def fits(
    data: Observations, ranks: Iterable[int], regularization: float, geometry: str | Geometries, run: Run,
    device: str = "cpu",
) -> Iterator[Fit]:  # fmt: skip
    """Return a fit of each rank: a closed form or, if responses lack or have another loss, that of `run`."""
    square, filled = data.loss.is_square, None
    weight = regularization / data.Y.size
    if square:
        filled = _filled(data, usable_device(device))
    if filled and data.closed_form:
        C, V = map(on_host, filled.path(weight))
        for rank in ranks:
            L, R = C[:, :rank], V[:, :rank]
            yield Fit(L, R, data.y_mean - R @ (data.x_mean @ L), None)
        return
    core, predictors = _predictions(data, device)
    plain = Mapped(core, predictors, Features(None, data.Y.shape[1]))
    cost = plain + Frobenius(regularization / np.count_nonzero(data.used))
    for rank in ranks:
        problem = problem_of(cost, rank, geometry)
        # From the closed form with means in place of the missing responses.
        start = problem.geometry.from_svd(*filled.closed_form(rank, weight)) if filled else None
        result = run(problem, start)
        L, R = map(on_host, problem.geometry.factors(result.x))
        yield Fit(L, R, _intercept(data, core, predictors.times(L), R) - R @ (data.x_mean @ L), result)


def _filled(data: Observations, device: str) -> Regression:
    """The regression with means in place of missing responses; on a GPU, X is factored there."""
    X, Y = data.centred_X, np.sqrt(data.weights)[:, None] * np.nan_to_num(data.Y - data.y_mean)
    if device == "cpu":
        return Regression(X, Y)
    from rankfold.costs.features_on_gpu import brought

    return Regression(brought(X, device), brought(Y, device))


def _intercept(data: Observations, core: Any, A: Floats, R: Floats) -> Floats:
    """What is added to A Rᵀ, the predictions by centred predictors."""
    if not data.fit_intercept:
        return np.zeros(len(R))
    if isinstance(core, FreeOffsets):
        return core.offsets(A, R)
    return np.asarray(data.y_mean + core.offsets(A, R).cols)


def _predictions(data: Observations, device: str) -> tuple[Cost, Features]:
    """The cost of the predictions, offsets eliminated, and the predictors of the rows that it is about."""
    rows = np.flatnonzero(data.used.any(axis=1))
    known, square = data.used[rows], data.loss.is_square
    i, j = np.nonzero(known)
    # √w is in the weights here, not in the rows: the offsets of weighted rows would not be constants.
    values, weights = (data.Y[rows] - (data.y_mean if square else 0.0))[known], data.weights[rows][i]
    cost = Completion(i, j, values, known.shape, weights=weights, loss=data.loss)
    cost = cost.on(device)
    predictors = Features((data.X - data.x_mean)[rows], data.X.shape[1])
    if not data.fit_intercept:
        return cost, predictors
    return WithOffsets(cost, mean=None, rows=None, cols=0.0) if square else _free(cost), predictors


def _free(cost: Completion) -> FreeOffsets:
    if cost.device is None:
        return FreeOffsets(cost)
    from rankfold.estimators.regression.free_offsets_on_gpu import GpuFreeOffsets

    return GpuFreeOffsets(cost)
