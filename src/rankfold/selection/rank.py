"""Choosing the rank: held-out entries along a path of growing ranks, each the start of the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.distributed.entries import SpreadEntries
from rankfold.geometry.full_rank import FullRank
from rankfold.linalg.rows import added_up, at_hand, whole
from rankfold.problem import Problem
from rankfold.run.display import Tell, progress
from rankfold.run.driver import minimize
from rankfold.run.result import Progress
from rankfold.run.stopping import StopKind
from rankfold.selection.holding_out import Triples, hold_out, losses_of
from rankfold.selection.paths import axes_or_new, marked, table
from rankfold.solvers.continuation import ContinuationState, RankContinuation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Each rank is solved until an iteration gains less than this part of the value: loose, but tight enough that
# a rank does not look better than the one before merely for having had more iterations.
_SLOW = 0.02
_EXACT = 1e-16  # the part of the value at W = 0 at which a fit leaves nothing to further ranks
_MAX_ITERATIONS = 100  # per rank, on average: more than any path takes
# The path ends when so many ranks in a row were no better than the best: overfitting only grows from there.
_PATIENCE = 2
# A fit with more degrees of freedom than this part of the entries is not worth looking at.
MAX_FREEDOM = 0.9


@dataclass(frozen=True)
class RankPath:
    """Held-out error by rank, and the rank chosen from it.

    For each rank tried, the mean loss of the held-out entries, the standard error of that mean, and the value
    of the cost on the other entries. `chosen` is the least rank whose error is within one standard error of
    the smallest (Breiman et al. 1984). `factors` are (L, R) of that fit, without the entries held out: a
    start for fitting all of them. They are None in a fitted estimator, which has factors of all entries.
    """

    ranks: tuple[int, ...]
    errors: tuple[float, ...]
    standard_errors: tuple[float, ...]
    fits: tuple[float, ...]
    chosen: int
    factors: tuple[Any, Any] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        header = "rank   held-out loss  standard error           fit"
        columns = self.ranks, self.errors, self.standard_errors, self.fits
        return table(header, "{:4d}  {:14.6g}  {:14.3g}  {:12.6g}", columns, self.chosen)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors with their standard errors over the rank, on a logarithmic axis."""
        ax = axes_or_new(ax)
        ax.errorbar(self.ranks, self.errors, self.standard_errors, fmt="o-", capsize=3, label="held out")
        ax.plot(self.ranks, self.fits, "s--", markersize=3, label="fit")
        return marked(ax, self.chosen, str(self.chosen), yscale="log", xlabel="rank", ylabel="mean loss")


class _Judged(NamedTuple):
    error: float
    standard_error: float
    fit: float
    factors: tuple[Any, Any]


@dataclass(frozen=True)
class _Judge:
    """A callback: judges each rank by the entries held out, once solved, and says when the path ends."""

    cost: Completion
    test: Triples
    problem: Problem
    tell: Tell
    judged: list[_Judged] = field(default_factory=list)

    def __call__(self, progress: Progress) -> bool:
        """Return whether to go no further."""
        state: ContinuationState = progress.state
        if state.rank > len(self.judged):
            if not (state.slow or state.ripe or state.stalled):
                return False
            self.add(state)
        ranks = len(self.judged)
        best = 1 + int(np.argmin([judged.error for judged in self.judged]))
        # A lower rank than before: rounding has swallowed the last one, so nothing was left to explain.
        return state.rank < ranks or ranks == state.limit or ranks - best >= _PATIENCE

    def add(self, state: ContinuationState) -> None:
        """Judge the rank of `state`."""
        L, R = self.problem.geometry.factors(state.x)
        rows, cols, _ = self.test
        losses = losses_of(self.cost, self.test, np.einsum("pk,pk->p", at_hand(L)[rows], whole(R)[cols]))
        count, total = added_up(L, np.array([len(losses), losses.sum()])).tolist()
        error = total / count
        (squares,) = added_up(L, np.array([((losses - error) ** 2).sum()])).tolist()
        deviation = float(np.sqrt(squares / (count - 1) / count))
        self.judged.append(_Judged(error, deviation, state.value, (L, R)))
        self.tell(f"rank {state.rank}  held-out loss {error:.6g}")

    def path(self) -> RankPath:
        """Choose among the ranks judged."""
        errors, deviations, fits, factors = zip(*self.judged, strict=True)
        best = int(np.argmin(errors))
        chosen = next(k for k, error in enumerate(errors) if error <= errors[best] + deviations[best])
        ranks = tuple(range(1, len(errors) + 1))
        return RankPath(ranks, errors, deviations, fits, chosen + 1, factors[chosen])


def choose_rank(
    cost: Completion, max_rank: int | None = None, held_out: float = 0.1, seed: int = 0, verbose: int = 0
) -> RankPath:
    """Choose the rank for a completion problem by its error on entries held out.

    Ctrl-C raises KeyboardInterrupt, as there is no choice before the path has ended. Of entries that are
    spread over processes, others are held out than of the same entries in one.

    Parameters
    ----------
    max_rank
        The largest rank to try; by default, as many as the entries could determine. The path ends earlier
        once the error no longer falls.
    held_out, seed
        The part of the entries to hold out, and the seed by which they are chosen.
    verbose
        0: silent; 1: a live line, on a terminal; 2: a line per rank.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((200, 150), rank=3, oversampling=6, seed=0, noise=0.01)
    >>> rf.choose_rank(rf.Completion.from_triples(data)).chosen
    3
    """
    if not 0 < held_out < 1:
        raise ValueError(f"held_out must be between 0 and 1, not {held_out!r}")
    if max_rank is not None and not 1 <= max_rank <= min(cost.shape):
        raise ValueError(f"max_rank must be from 1 to {min(cost.shape)}, not {max_rank!r}")
    train, test = hold_out(cost, held_out, seed)
    last = max_rank or largest_rank(train)
    problem = Problem(train, FullRank(cost.shape, rank=1, metric="preconditioned"))
    method = RankContinuation(slow=_SLOW, last=last)
    if isinstance(cost.store, SpreadEntries) and cost.store.group.rank:
        verbose = 0
    with progress(verbose, "choosing the rank") as tell:
        judge = _Judge(cost, test, problem, tell)
        limit = _MAX_ITERATIONS * last
        result = minimize(problem, method, max_iterations=limit, tolerance=_EXACT, callback=judge)
        if result.error is not None:
            raise result.error
        if result.stop.kind is StopKind.INTERRUPTED:
            raise KeyboardInterrupt  # the ranks so far would say that none above is better
        if result.state.rank > len(judge.judged):
            judge.add(result.state)
    return judge.path()


def largest_rank(cost: Completion) -> int:
    """Return the largest rank that the entries could determine."""
    ranks = np.arange(1, min(cost.shape) + 1)
    fits = ranks * (sum(cost.shape) - ranks) <= MAX_FREEDOM * cost.store.size
    return max(1, int(np.count_nonzero(np.logical_and.accumulate(fits))))
