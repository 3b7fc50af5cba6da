"""Rank continuation: solve at rank 1, append what the gradient shows most of, solve again, and so on."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from rankfold.geometry.base import Point
from rankfold.problem import Problem
from rankfold.solvers.base import Method, Nested, StepReport
from rankfold.solvers.conjugate_gradient import ConjugateGradient, taken_up
from rankfold.solvers.growth import collapsed, grown, truncated


@dataclass(frozen=True, kw_only=True)
class ContinuationState(Nested):
    """The inner solver's state at the present rank, the last rank, and whether it is time to change.

    `x` is a point of the problem's geometry at the rank `rank`: of `problem.with_rank(rank).geometry`. `slow`
    says that the last iteration gained little, `ripe` that for this, or as nothing more can be gained, the
    rank is to change.
    """

    rank: int
    limit: int
    slow: bool = False
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
    last
        The rank to end with; if None, the problem's. It may be larger: the start point is then that of the
        problem's rank, which for a high `last` is much cheaper to find.
    settled
        The search for a direction in a `Completion` ends once one more product would let Σ σ² of what it has
        found grow by less than this part; with 0, after ten products. 0.02 saves more than half of the search
        where one direction stands out, as it does with entries to spare.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((200, 200), rank=3, oversampling=6, seed=0, condition=1e4)
    >>> cost = rf.Completion.from_triples(data)
    >>> result = rf.minimize(rf.Problem.of(cost, rank=3), rf.RankContinuation(), tolerance=1e-20)
    >>> result.converged, [row.note for row in result.trace if row.note]
    (True, ['rank 1', 'rank 2', 'rank 3'])
    """

    state_types: ClassVar[tuple[type, ...]] = (ContinuationState,)

    solver: Method[Any] = field(default_factory=ConjugateGradient)
    start: int = 1
    grow: int = 1
    slow: float = 0.1
    last: int | None = None
    settled: float = 0.0

    def __post_init__(self) -> None:
        for name in ("start", "grow", "last"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value!r}")
        if not 0 <= self.slow < 1:
            raise ValueError(f"slow must be at least 0 and below 1, not {self.slow!r}")
        if not 0 <= self.settled < 1:
            raise ValueError(f"settled must be at least 0 and below 1, not {self.settled!r}")

    def init(self, problem: Problem, x0: Point) -> ContinuationState:
        """Start from the leading singular pairs of x0."""
        if problem.cost.factored:
            raise TypeError(
                "RankContinuation writes W in other factors, and the penalty on single factors changes with "
                "these: use ConjugateGradient or TrustRegion"
            )
        given = problem.geometry.rank
        limit = problem.with_rank(self.last or given).geometry.rank  # an error, where there is no such rank
        start = min(self.start, given, limit)
        x = truncated(problem, x0, start) if start < given else x0
        return self._at(problem, x, start, limit)

    def step(self, problem: Problem, state: ContinuationState) -> ContinuationState:
        """Let the solver take a step; or change the rank, when it has done what it can at this one."""
        if state.ripe:
            return self._changed(problem, state)
        inner = self.solver.step(problem.with_rank(state.rank), state.inner)
        slow = inner.report.step != 0 and state.value - inner.value < self.slow * state.value
        ripe = bool(inner.stalled) or (slow and state.rank < state.limit)
        return replace(state, inner=inner, slow=slow, ripe=ripe, report=inner.report)

    def _changed(self, problem: Problem, state: ContinuationState) -> ContinuationState:
        present = problem.with_rank(state.rank)
        lost = collapsed(present, state.x)
        if lost:
            # What rounding has swallowed is not in the data: more ranks would only be swallowed again.
            rank = state.rank - lost
            return self._at(problem, truncated(present, state.x, rank), rank, limit=rank)
        more = min(self.grow, state.limit - state.rank)
        here = getattr(state.inner, "here", None)
        if more and (x := grown(present, state.x, more, settled=self.settled, here=here)) is not None:
            return self._at(problem, x, state.rank + more, state.limit)
        # Either the solver has stalled at the last rank, or no further direction lowers the value.
        why = state.inner.stalled or f"rank {state.rank} leaves nothing to explain"
        stationary = not state.inner.stalled or bool(getattr(state.inner, "stationary", False))
        return replace(state, report=StepReport(step=0.0), stalled=why, stationary=stationary)

    def _at(self, problem: Problem, x: Point, rank: int, limit: int) -> ContinuationState:
        inner = taken_up(self.solver, problem.with_rank(rank), x)
        return ContinuationState(inner=inner, rank=rank, limit=limit, report=StepReport(note=f"rank {rank}"))
