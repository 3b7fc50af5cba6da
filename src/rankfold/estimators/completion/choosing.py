"""The weight of the penalty: given, or chosen by entries held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.estimators.completion.offsets import predictions
from rankfold.estimators.completion.penalised import Penalised
from rankfold.estimators.completion.starts import FactorPair, Start
from rankfold.estimators.fitting import Geometries, problem_of
from rankfold.run.display import progress
from rankfold.run.driver import minimize
from rankfold.run.stopping import RelativeChange, StopKind
from rankfold.selection.holding_out import hold_out, losses_of
from rankfold.selection.paths import axes_or_new, marked, table
from rankfold.solvers import ConjugateGradient

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Candidates are λ_max times powers of this, from the first on, until so many in a row lowered the held-out
# loss by less than a part of it that no user would notice.
_RATIO, _PATIENCE, _MAX_CANDIDATES, _NOTICED = 0.7, 2, 15, 5e-4
_HELD_OUT = 0.1
# Loose: candidates are compared by an error that no longer changes in its fourth digit.
_LOOSE, _LOOSE_ITERATIONS = RelativeChange(1e-4, window=3), 40


@dataclass(frozen=True)
class RegularizationPath:
    """Held-out error by the weight of the penalty, and the weight chosen from it.

    Attributes
    ----------
    regularizations, errors
        The weights λ tried, from the largest on, and the mean loss of the held-out entries at each.
    chosen
        The λ with the smallest error.

    Examples
    --------
    >>> print(RegularizationPath((2.0, 1.4), (0.5, 0.25), 1.4))
    regularization  held-out error
                 2             0.5
               1.4            0.25 <- chosen
    """

    regularizations: tuple[float, ...]
    errors: tuple[float, ...]
    chosen: float

    def __str__(self) -> str:
        columns = self.regularizations, self.errors
        return table("regularization  held-out error", "{:14.6g}  {:14.6g}", columns, self.chosen)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors over the weight, on a logarithmic axis."""
        ax = axes_or_new(ax)
        ax.plot(self.regularizations, self.errors, "o-", label="held out")
        label = f"{self.chosen:.4g}"
        return marked(ax, self.chosen, label, xscale="log", xlabel="regularization", ylabel="mean loss")


class Choice(NamedTuple):
    """The weight of the penalty and, where it was chosen, what was tried and the factors found with it.

    One of the factors is that of all rows, or of all columns; the other one may be that of a sample.
    """

    weight: float
    path: RegularizationPath | None = None
    factors: FactorPair | None = None


class _Candidate(NamedTuple):
    weight: float
    error: float
    factors: FactorPair | None


def choose_weight(
    completion: Completion, bias: bool, rank: int, geometry: str | Geometries, seed: int, verbose: int = 0
) -> Choice:
    """Choose λ by the loss of a tenth of the entries, held out."""
    train, test = hold_out(completion, _HELD_OUT, seed)
    fit = Penalised.of(train, bias)
    largest = fit.largest_weight(seed)
    best = _Candidate(largest, inf, None)
    weights, errors, in_vain = [], [], 0
    with progress(verbose, "choosing the regularization") as tell:
        for candidate in _candidates(fit, test, largest, rank, geometry, seed):
            weights.append(candidate.weight)
            errors.append(candidate.error)
            tell(f"λ {candidate.weight:.4g}  held-out loss {candidate.error:.6g}")
            in_vain = 0 if candidate.error < (1 - _NOTICED) * best.error else in_vain + 1
            best = candidate if candidate.error < best.error else best
            if in_vain == _PATIENCE:
                break
    return Choice(best.weight, RegularizationPath(tuple(weights), tuple(errors), best.weight), best.factors)


def _candidates(
    fit: Penalised, test: Any, largest: float, rank: int, geometry: str | Geometries, seed: int
) -> Iterator[_Candidate]:
    """Fit with one weight after the other, each fit from where the last one ended."""
    if not largest:
        return  # offsets explain everything: there is nothing to choose between
    offsets = predictions(fit.offsets, *test[:2])
    weight = _RATIO * largest
    start = fit.start(weight, rank, seed)
    for _ in range(_MAX_CANDIDATES):
        if start.factors is None:
            return
        L, R = _loosely(fit, weight, start.factors, rank, geometry)
        predicted = offsets + np.einsum("pk,pk->p", L[test[0]], R[test[1]])
        yield _Candidate(weight, float(losses_of(fit.completion, test, predicted).mean()), (L, R))
        weight, start = _RATIO * weight, Start.at(fit.lifted(L, R))


def _loosely(
    fit: Penalised, weight: float, factors: FactorPair, rank: int, geometry: str | Geometries
) -> FactorPair:
    problem = problem_of(fit.cost(weight), rank, geometry)
    result = minimize(
        problem,
        ConjugateGradient(),
        problem.geometry.from_factors(*factors),
        max_iterations=_LOOSE_ITERATIONS,
        tolerance=0.0,
        stop=_LOOSE,
    )
    if result.stop.kind is StopKind.INTERRUPTED:
        raise KeyboardInterrupt  # there is no model yet
    if result.error is not None:
        raise result.error
    L, R = result.factors
    return L, R
