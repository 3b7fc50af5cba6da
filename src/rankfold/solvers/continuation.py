"""Rank continuation: solve at rank 1, append what the gradient shows most of, solve again, and so on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rankfold.geometry.base import Point
from rankfold.problem import Problem
from rankfold.solvers.base import Method, Nested, Report
from rankfold.solvers.conjugate_gradient import ConjugateGradient
from rankfold.solvers.growth import collapsed, grown, truncated


@dataclass(frozen=True, kw_only=True)
class ContinuationState(Nested):
    """The inner solver's state at the present rank, the last rank, and whether it is time to change.

    `x` is a point of the problem's geometry at the rank `rank`, which below `limit` is not the problem's own:
    `problem.geometry.factors(x)` gives L and R with as many columns.
    """

    rank: int
    limit: int
    ripe: bool = False
    stalled: str = ""
    stationary: bool = False


@dataclass(frozen=True)
class RankContinuation:
    """Another solver at rank 1, 2, ..., r, each rank starting from the last with directions of the gradient.

    A spectral start shows only those singular pairs of an ill-conditioned matrix that stand above the noise
    of sampling. Here each pair is looked for once the larger ones are explained, so that it stands out.

    Parameters
    ----------
    solver
        The method that works at each rank.
    start
        The rank to start with: so many singular pairs of x0 are kept.
    grow
        How many directions to add at a time.
    slow
        Below the last rank, grow as soon as an iteration lowers the value by less than this part of it. 0.1
        is fastest with entries to spare (three times the degrees of freedom or more); 1e-3 solves more of the
        instances with fewer.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((200, 200), rank=3, oversampling=6, seed=0, condition=1e4)
    >>> cost = rf.Completion.from_triples(data)
    >>> problem = rf.Problem(cost, rf.FullRank(cost.shape, rank=3, metric="preconditioned"))
    >>> result = rf.minimize(problem, rf.RankContinuation(), tolerance=1e-20)
    >>> result.converged
    True
    >>> [row.note for row in result.trace if row.note]
    ['rank 1', 'rank 2', 'rank 3']
    """

    solver: Method[Any] = field(default_factory=ConjugateGradient)
    start: int = 1
    grow: int = 1
    slow: float = 0.1

    def __post_init__(self) -> None:
        for name in ("start", "grow"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)!r}")
        if not 0 <= self.slow < 1:
            raise ValueError(f"slow must be at least 0 and below 1, not {self.slow!r}")

    def init(self, problem: Problem, x0: Point) -> ContinuationState:
        """Start from the leading singular pairs of x0."""
        limit = problem.geometry.rank
        start = min(self.start, limit)
        x = truncated(problem, x0, start) if start < limit else x0
        return self._at(problem, x, start, limit)

    def step(self, problem: Problem, state: ContinuationState) -> ContinuationState:
        """Let the solver take a step; or change the rank, when it has done what it can at this one."""
        if state.ripe:
            return self._changed(problem, state)
        inner = self.solver.step(problem.with_rank(state.rank), state.inner)
        gain = state.value - inner.value
        slow = inner.report.step != 0 and gain < self.slow * state.value
        ripe = bool(inner.stalled) or (slow and state.rank < state.limit)
        return replace(state, inner=inner, ripe=ripe, report=inner.report)

    def _changed(self, problem: Problem, state: ContinuationState) -> ContinuationState:
        here = problem.with_rank(state.rank)
        lost = collapsed(here, state.x)
        if lost:
            # What rounding has swallowed is not in the data: more ranks would only be swallowed again.
            rank = state.rank - lost
            return self._at(problem, truncated(here, state.x, rank), rank, limit=rank)
        if state.rank < state.limit:
            x = grown(here, state.x, min(self.grow, state.limit - state.rank))
            if x is not None:
                rank = min(state.rank + self.grow, state.limit)
                return self._at(problem, x, rank, state.limit)
        # Either the solver has stalled at the last rank, or no further direction lowers the value.
        why = getattr(state.inner, "stalled", "") or f"rank {state.rank} leaves nothing to explain"
        stationary = not state.inner.stalled or bool(getattr(state.inner, "stationary", False))
        return replace(state, report=Report(step=0.0), stalled=why, stationary=stationary)

    def _at(self, problem: Problem, x: Point, rank: int, limit: int) -> ContinuationState:
        inner = self.solver.init(problem.with_rank(rank), x)
        return ContinuationState(inner=inner, rank=rank, limit=limit, report=Report(note=f"rank {rank}"))
