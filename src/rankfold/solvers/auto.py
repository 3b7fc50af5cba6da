"""The default solver: conjugate gradients, and more only where they get nowhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, ClassVar

from rankfold.geometry.base import Point
from rankfold.geometry.full_rank import FullRank
from rankfold.problem import Here, Problem
from rankfold.solvers.averaged import RANKS, averaged, suits
from rankfold.solvers.base import Method, Nested, StepReport
from rankfold.solvers.conjugate_gradient import ConjugateGradient, on_trial
from rankfold.solvers.continuation import RankContinuation
from rankfold.solvers.growth import truncated
from rankfold.solvers.progress import Progress
from rankfold.solvers.reweighted import ReweightedContinuation
from rankfold.solvers.shrunk import shrunk
from rankfold.solvers.spanned import spanned
from rankfold.solvers.trimmed import TrimmedContinuation
from rankfold.solvers.trimming import alike, determined, oversampling
from rankfold.solvers.trust_region import TrustRegion

# A spectral start with a misfit so many times that of W = 0 holds mostly sampling noise, scaled up. With
# condition number κ and ρ entries per degree of freedom, it is 0.3 at 4000², r = 5, ρ = 8; but 38 there with
# κ = 1e3, and 99 at 4000², r = 10, ρ = 3, κ = 1e5. There its leading pair alone is better than W = 0 (0.1 to
# 0.3): the matrix is ill conditioned. Where that pair is noise too (1.2 to 40 with few entries: 4000², r = 5,
# ρ = 3, or 1000² at ρ = 1.8), continuation would start no better than conjugate gradients, which may well do.
_BAD_START = 10.0
# Where W = 0 is better than the start, and the leading pair alone three times as good as all pairs, W is ill
# conditioned. With so many entries per degree of freedom `shrunk` then finds the pairs that the start does
# not show: all of them, in a seventh to two thirds of the time of the continuations (1000² to 4000², ranks 5
# to 30, ρ = 3 to 8, κ = 10 to 1e7). At ρ = 2 it finds none.
_LEADING, _ENTRIES = 1 / 3, 3.0
# A leading pair that takes more than so many parts in r of the value at W = 0 is seen before all others: then
# rank continuation has the best start, and with more entries in a line also the cheapest way (r = 30, κ = 10
# and more; at κ = 1 it takes one or two parts).
_SHARE = 3.0
# With fewer entries per degree of freedom `averaged` finds W where no other start does (1000², r = 5, κ = 1,
# ρ = 1.3), or its largest pairs. With more, conjugate gradients do as well, and a sweep costs r² per entry.
_FEW_ENTRIES = 2.5
# Of two pairs the start shows next to nothing where a line has few entries. Conjugate gradients then get
# nowhere from κ = 10 on and at ρ = 3 in every other run, and are no faster where they arrive (100² to 4000²,
# ρ = 2 to 4; at 4000², ρ = 4, κ = 1 by 0.15 s). At ρ = 6 they are.
_TWO_PAIRS = 4.5
# Conjugate gradients in the metric of the data that arrive bring the value to a tenth or less in ten
# iterations (300² to 4000², ranks 2 to 5, ρ = 1.5 to 3, κ = 1), those that do not to a fifth or more, once
# the first few are over. Where the value is as small as this they are left in peace: some rest on the way
# (2000², r = 3).
_CRAWL, _PART, _NEAR = 10, 0.2, 1e-6


@dataclass(frozen=True, kw_only=True)
class AutoState(Nested):
    """The state of the method at work, which one that is, and what stagnation is judged by."""

    level: int
    start: Point
    progress: Progress = field(default_factory=Progress)

    @property
    def stalled(self) -> str:
        """Why the method at work cannot go on."""
        return str(self.inner.stalled)

    @property
    def stationary(self) -> bool:
        """Whether only rounding stops it."""
        return bool(self.inner.stationary)


@dataclass(frozen=True)
class Auto:
    """Conjugate gradients; if they stagnate, the second order; from a better start, if it is ill conditioned.

    Where W = 0 is better than the start, it looks for another one. A leading pair that alone is better shows
    that W is ill conditioned: sweeps of shrunken least squares, or rank continuation, then find the others.
    Where it is not, and entries are few, averaged least squares find W or its largest pairs; at rank 1 a tree
    of entries does, and at rank 2 the second order comes first. These starts are for a `Completion` in memory
    with the square loss and as many entries as degrees of freedom. The second order is `TrimmedContinuation`
    there; for other costs it is `ReweightedContinuation` on `FullRank` geometries, on others the trust region
    from where it is, both after rank continuation has stagnated too. Where the start is better than W = 0
    nothing is computed to decide but what the methods know anyway, so that problems which conjugate gradients
    solve cost what they cost there. The trace's notes say what was decided, and when.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((300, 300), rank=4, oversampling=6, seed=0, condition=1e4)
    >>> cost = rf.Completion.from_triples(data)
    >>> result = rf.minimize(rf.Problem.of(cost, rank=4), tolerance=1e-20)
    >>> result.converged, [row.note.partition(": ")[2] for row in result.trace if row.note]
    (True, ['shrunken least squares first'])
    """

    state_types: ClassVar[tuple[type, ...]] = (
        AutoState,
        Progress,
        *ConjugateGradient.state_types,
        *RankContinuation.state_types,
        *ReweightedContinuation.state_types,
        *TrimmedContinuation.state_types,
        *TrustRegion.state_types,
    )

    def init(self, problem: Problem, x0: Point) -> AutoState:
        """Start with conjugate gradients at x0; where W = 0 is better than that, perhaps elsewhere."""
        zero, here = problem.cost.value_at_zero, problem.at(x0)
        if here.value > zero > 0 and (found := _elsewhere(problem, here)) is not None:
            return found
        return AutoState(inner=ConjugateGradient().begin(here, patient=True), level=0, start=x0)

    def step(self, problem: Problem, state: AutoState) -> AutoState:
        """Let the method at work take a step; or hand over to the next, if it stagnates."""
        methods = _methods(problem)
        now, last = methods[state.level], len(methods) - 1
        if state.level < last and (state.progress.stagnates or _crawls(problem, state)):
            # One that sets lines aside grows the rank by itself: better, but slower where the rank is high.
            trims = isinstance(methods[last], TrimmedContinuation) and problem.geometry.rank <= max(RANKS)
            level = last if trims else state.level + 1
            why = f"{type(now).__name__} stagnates: "
            if isinstance(methods[level], TrimmedContinuation):
                return _trimming(problem, state.start, why)
            # A trust region goes on from here; continuations look for what the start did not show.
            x = state.x if isinstance(methods[level], TrustRegion) else state.start
            report = StepReport(note=f"{why}{type(methods[level]).__name__} takes over")
            inner = methods[level].init(problem, x)
            return AutoState(inner=inner, level=level, start=state.start, report=report)
        inner = now.step(problem, state.inner)
        # At the ranks before the last, a plateau is what a continuation is after. While a metric is on trial,
        # conjugate gradients have another one to fall back on: but that solves less than to set lines aside.
        judged = getattr(inner, "rank", problem.geometry.rank) == problem.geometry.rank
        waits = on_trial(inner) and not isinstance(methods[last], TrimmedContinuation)
        progress = Progress()
        if judged and state.level < last and not waits:
            progress = state.progress.then(inner.value, inner.gradient_norm)
        return replace(state, inner=inner, progress=progress, report=inner.report)


def _elsewhere(problem: Problem, here: Here) -> AutoState | None:
    """Begin where a start that is worse than W = 0 does not lead; None where nothing better is known."""
    zero, methods, rank = problem.cost.value_at_zero, _methods(problem), problem.geometry.rank
    times = f"the start is {here.value / zero:.1f} times as bad as W = 0"
    if rank == 1:
        x = spanned(problem, here.x) if alike(problem) else None
        better = x is not None and problem.value(x) < zero
        return _begun(problem, x, here.x, f"{times}: from line to line along the entries") if better else None
    if not isinstance(methods[1], RankContinuation):
        return None
    leading = problem.with_rank(1).at(truncated(problem, here.x, 1)).value
    bad = f"{times}, its leading pair is not"
    clear = leading < min(zero, _LEADING * here.value)
    if clear and (x := _unveiled(problem, here.x)) is not None:
        return _begun(problem, x, here.x, f"{bad}: shrunken least squares first")
    seen = leading < (1 - _SHARE / rank) * zero
    few = _TWO_PAIRS if rank == 2 else _FEW_ENTRIES if rank in RANKS else 0.0
    if not seen and alike(problem) and oversampling(problem) < few:
        return _trimming(problem, here.x, f"{times}: ")
    if seen or (leading < zero and here.value > _BAD_START * zero):
        report = StepReport(note=f"{bad}: RankContinuation")
        return AutoState(inner=methods[1].init(problem, here.x), level=1, start=here.x, report=report)
    return None


def _begun(problem: Problem, x: Point, start: Point, note: str) -> AutoState:
    """Begin conjugate gradients at a better start."""
    inner = ConjugateGradient().begin(problem.at(x))
    return AutoState(inner=inner, level=0, start=start, report=StepReport(note=note))


def _trimming(problem: Problem, start: Point, why: str) -> AutoState:
    """Begin the last method, which sets lines aside: where `averaged` ends, if that finds anything."""
    methods, rank = _methods(problem), problem.geometry.rank
    note = f"{why}TrimmedContinuation takes over"
    found = averaged(problem, start) if suits(problem) else None
    if found is None:
        inner = TrimmedContinuation().init(problem, start)
    else:
        inner = replace(TrimmedContinuation(start=found.pairs).init(problem, found.x), start=start)
        note += f", from {found.pairs} of {rank} pairs of averaged least squares"
    return AutoState(inner=inner, level=len(methods) - 1, start=start, report=StepReport(note=note))


def _unveiled(problem: Problem, x0: Point) -> Point | None:
    """Return a point with all pairs of W, where sweeps of least squares find them."""
    can = determined(problem) and problem.cost.quadratic and oversampling(problem) >= _ENTRIES
    return shrunk(problem, x0) if can else None


def _crawls(problem: Problem, state: AutoState) -> bool:
    """Whether conjugate gradients in a metric on trial will hardly arrive, where lines can be set aside."""
    if state.level or not on_trial(state.inner) or not determined(problem):
        return False
    far = state.value > _NEAR * problem.cost.value_at_zero
    return far and state.progress.slower(_CRAWL, _PART)


@lru_cache(maxsize=16)  # every step asks for them
def _chosen(rank: int, full_rank: bool, lines: bool) -> tuple[Method[Any], ...]:
    second: Method[Any] = TrustRegion()
    if lines:
        second = TrimmedContinuation()
    elif rank > 1 and full_rank:
        second = ReweightedContinuation()
    if rank == 1:
        return ConjugateGradient(), second
    return ConjugateGradient(), RankContinuation(settled=0.02), second


def _methods(problem: Problem) -> tuple[Method[Any], ...]:
    # A continuation writes W in other factors, which a cost that depends on them does not allow.
    if problem.geometry.has_factors and problem.cost.factored is not False:
        return ConjugateGradient(), TrustRegion()
    full_rank = isinstance(problem.geometry, FullRank)
    return _chosen(problem.geometry.rank, full_rank, determined(problem))
