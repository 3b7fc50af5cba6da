"""Choosing the rank: held-out entries along a path of growing ranks, each the start of the next."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.geometry.full_rank import FullRank
from rankfold.problem import Problem
from rankfold.run.display import progress
from rankfold.selection.holding_out import hold_out, losses_of
from rankfold.solvers.continuation import ContinuationState, RankContinuation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Each rank is solved until an iteration gains less than this part of the value: loose, but tight enough that
# a rank does not look better than the one before merely for having had more iterations.
_SLOW = 0.02
_MAX_STEPS = 100  # at one rank
# The path ends when so many ranks in a row were no better than the best: overfitting only grows from there.
_PATIENCE = 2
# A fit with more degrees of freedom than this part of the entries is not worth looking at.
_MAX_FREEDOM = 0.9


@dataclass(frozen=True)
class RankPath:
    """Held-out error by rank, and the rank chosen from it.

    Attributes
    ----------
    ranks, errors, standard_errors
        The ranks tried, the mean loss of the held-out entries at each, and the standard error of that mean.
    fits
        The value of the cost on the entries that were not held out.
    chosen
        The least rank whose error is within one standard error of the smallest (Breiman et al. 1984).
    factors
        (L, R) of the fit at the chosen rank, without the held-out entries: a start for fitting all of them.
    """

    ranks: tuple[int, ...]
    errors: tuple[float, ...]
    standard_errors: tuple[float, ...]
    fits: tuple[float, ...]
    chosen: int
    factors: tuple[Any, Any] = field(repr=False)

    def __str__(self) -> str:
        lines = ["rank  held-out error  standard error           fit"]
        for k, error, deviation, fit in zip(
            self.ranks, self.errors, self.standard_errors, self.fits, strict=True
        ):
            mark = " <- chosen" if k == self.chosen else ""
            lines.append(f"{k:4d}  {error:14.6g}  {deviation:14.3g}  {fit:12.6g}{mark}")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors with their standard errors over the rank, on a logarithmic axis."""
        from matplotlib.ticker import MaxNLocator

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(layout="constrained").add_subplot()
        ax.errorbar(self.ranks, self.errors, self.standard_errors, fmt="o-", capsize=3, label="held out")
        ax.plot(self.ranks, self.fits, "s--", markersize=3, label="fit")
        ax.axvline(self.chosen, color="gray", linewidth=0.8, label=f"chosen: {self.chosen}")
        ax.set_yscale("log")
        ax.set_xlabel("rank")
        ax.set_ylabel("mean loss")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend()
        return ax


def choose_rank(
    cost: Completion, max_rank: int | None = None, held_out: float = 0.1, seed: int = 0, verbose: int = 0
) -> RankPath:
    """Choose the rank for a completion problem by its error on entries held out.

    Parameters
    ----------
    cost
        The entries and their loss.
    max_rank
        The largest rank to try; by default, as many as the entries could determine. The path ends earlier
        once the error no longer falls.
    held_out
        The part of the entries to hold out.
    seed
        Of the choice of these.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per rank.

    Returns
    -------
    RankPath

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((200, 150), rank=3, oversampling=6, seed=0, noise=0.01)
    >>> path = rf.choose_rank(rf.Completion.from_triples(data))
    >>> path.chosen
    3
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must be between 0 and 1, not {held_out!r}")
    train, test = hold_out(cost, held_out, seed)
    limit = _largest_rank(train) if max_rank is None else max_rank
    geometry = FullRank(cost.shape, limit, metric="preconditioned")
    problem = Problem(train, geometry)
    method = RankContinuation(slow=_SLOW)
    first = problem.with_rank(1)
    state = method.init(first, first.start())
    rows: list[tuple[float, float, float]] = []
    fits: list[tuple[Any, Any]] = []
    with progress(verbose, "choosing the rank") as tell:
        for k in range(1, limit + 1):
            state = _solved(problem, method, state, limit, k)
            if state.rank < k:
                break  # nothing was left to explain
            L, R = problem.geometry.factors(state.x)
            losses = losses_of(cost, test, np.einsum("pk,pk->p", L[test[0]], R[test[1]]))
            rows.append((float(losses.mean()), float(losses.std(ddof=1) / np.sqrt(len(losses))), state.value))
            fits.append((L, R))
            tell(f"rank {k}  held-out error {rows[-1][0]:.6g}")
            if k - 1 - int(np.argmin([row[0] for row in rows])) >= _PATIENCE:
                break
    errors, deviations, values = zip(*rows, strict=True)
    best = int(np.argmin(errors))
    chosen = next(k for k, error in enumerate(errors) if error <= errors[best] + deviations[best])
    return RankPath(tuple(range(1, len(rows) + 1)), errors, deviations, values, chosen + 1, fits[chosen])


def _solved(
    problem: Problem, method: RankContinuation, state: ContinuationState, limit: int, rank: int
) -> ContinuationState:
    """Return the state at the end of the work at `rank`, or a stalled one at a lower rank."""
    state = replace(state, limit=limit)
    for _ in range(_MAX_STEPS):
        if state.stalled or (state.rank == rank and state.ripe):
            break
        state = method.step(problem, state)
    return replace(state, ripe=not state.stalled)


def _largest_rank(cost: Completion) -> int:
    ranks = np.arange(1, min(cost.shape) + 1)
    fits = ranks * (sum(cost.shape) - ranks) <= _MAX_FREEDOM * cost.observed.size
    return max(1, int(np.count_nonzero(np.logical_and.accumulate(fits))))
