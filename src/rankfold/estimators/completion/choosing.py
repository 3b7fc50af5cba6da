"""The weight of the penalty: given, or chosen by entries held out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.estimators.completion.lines import FactorPair
from rankfold.estimators.completion.offsets import predictions
from rankfold.estimators.completion.penalised import LIFT, Penalised
from rankfold.estimators.fitting import Geometries, problem_of, try_out
from rankfold.run.display import progress
from rankfold.run.stopping import RelativeChange
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
_LOOSE: dict[str, Any] = {"stop": RelativeChange(1e-4, window=3), "max_iterations": 40}


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


def choose_weight(
    completion: Completion, bias: bool, rank: int, geometry: str | Geometries, seed: int, verbose: int
) -> Choice:
    """Choose λ by the loss of a tenth of the entries, held out."""
    train, test = hold_out(completion, _HELD_OUT, seed)
    fit = Penalised.of(train, bias)
    best, least, in_vain = Choice(fit.largest_weight(seed)), inf, 0
    tried: dict[float, float] = {}
    with progress(verbose, "choosing the regularization") as tell:
        for candidate, error in _candidates(fit, test, best.weight, rank, geometry, seed):
            tried[candidate.weight] = error
            tell(f"λ {candidate.weight:.4g}  held-out loss {error:.6g}")
            in_vain = 0 if error < (1 - _NOTICED) * least else in_vain + 1
            best, least = (candidate, error) if error < least else (best, least)
            if in_vain == _PATIENCE:
                break
    return best._replace(path=RegularizationPath(tuple(tried), tuple(tried.values()), best.weight))


def _candidates(
    fit: Penalised, test: Any, largest: float, rank: int, geometry: str | Geometries, seed: int
) -> Iterator[tuple[Choice, float]]:
    """Fit with one weight after the other, each fit from where the last one ended; yield fits and errors."""
    if not largest:
        return  # offsets explain everything: there is nothing to choose between
    offsets = predictions(fit.offsets, *test[:2])
    weight = _RATIO * largest
    factors = fit.start(weight, rank, seed)
    for _ in range(_MAX_CANDIDATES):
        if factors is None:
            return
        problem = problem_of(fit.cost(weight), rank, geometry)
        x0 = problem.geometry.from_factors(*factors)
        L, R = try_out(problem, solver=ConjugateGradient(), x0=x0, tolerance=0.0, **_LOOSE).factors
        predicted = offsets + np.einsum("pk,pk->p", L[test[0]], R[test[1]])
        yield Choice(weight, None, (L, R)), float(losses_of(fit.completion, test, predicted).mean())
        weight, factors = _RATIO * weight, fit.balanced(L, R, least=LIFT)
