"""LMaFit: nonlinear successive over-relaxation on W = G Hᵀ.

Z. Wen, W. Yin, Y. Zhang, "Solving a low-rank factorization model for matrix completion by a nonlinear
successive over-relaxation algorithm", Mathematical Programming Computation 4 (2012) 333-361.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, isnan, nan
from typing import ClassVar

import numpy as np
from scipy.linalg import qr

from rankfold.baselines.entries import Floats, observed_entries, require_geometry, residual
from rankfold.entries.observed import Observed
from rankfold.entries.operators import SparseMatrix
from rankfold.geometry.full_rank import FullRank, FullRankFactors
from rankfold.problem import Problem
from rankfold.solvers.base import StepReport

# The constants of the published code.
_SLOW = 0.7  # a residual that keeps more than this of itself asks for more relaxation
_FIRST_INCREMENT = 1.0
_DROP = 10.0  # a drop along the diagonal of R this many times the others' mean marks the rank
_PATIENCE = (5, 50)  # iterations before the rank may, and must, be decreased
_STAGNATION = 1e-3  # relative change of the residual below which the rank is increased


@dataclass(frozen=True, kw_only=True)
class LMaFitState:
    """The factors and P_Ω(G Hᵀ − W*) as sparse values, ω − 1 with its increment, and the current rank.

    `x` has the rank of the geometry: where the current rank is smaller, columns of zeros follow.
    """

    x: FullRankFactors
    value: float
    sparse: tuple[Floats, Floats]
    excess: float = 0.0
    increment: float = _FIRST_INCREMENT
    rank: int
    since_rank: int = 0
    settled: bool = True
    report: StepReport = field(default_factory=StepReport)
    stalled: str = ""
    gradient_norm: float = nan
    gradient_free: ClassVar[bool] = True


@dataclass(frozen=True)
class LMaFit:
    """Alternating least squares for ‖G Hᵀ − Z‖² with Z = G Hᵀ + ω P_Ω(W* − G Hᵀ), and ω adapted.

    Z is kept as low rank plus sparse. A step that does not lower the residual is undone and ω set to 1; one
    that lowers it by less than 30% raises ω. Runs on `FullRank` points.

    Parameters
    ----------
    rank_strategy
        `"fixed"`; `"decreasing"`: from the geometry's rank down, once, to where the diagonal of R in a
        pivoted QR factorisation of G drops; `"increasing"`: from `first_rank` up to the geometry's, by one
        whenever the residual stagnates.
    first_rank
        Where `"increasing"` starts.

    Examples
    --------
    >>> import rankfold as rf
    >>> from rankfold.baselines import LMaFit
    >>> cost = rf.Completion.from_triples(rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0))
    >>> rf.minimize(rf.Problem(cost, rf.FullRank(cost.shape, rank=2)), LMaFit()).converged
    True
    """

    rank_strategy: str = "fixed"
    first_rank: int = 1
    state_types: ClassVar[tuple[type, ...]] = (LMaFitState,)

    def __post_init__(self) -> None:
        if self.rank_strategy not in ("fixed", "decreasing", "increasing"):
            raise ValueError(
                f"rank_strategy must be 'fixed', 'decreasing' or 'increasing', not {self.rank_strategy!r}"
            )
        if self.first_rank < 1:
            raise ValueError(f"first_rank must be at least 1, not {self.first_rank}")

    def init(self, problem: Problem, x0: FullRankFactors) -> LMaFitState:
        """Start at x0 with ω = 1."""
        require_geometry("LMaFit", problem, FullRank)
        full = problem.geometry.rank
        rank = min(self.first_rank, full) if self.rank_strategy == "increasing" else full
        x = _padded(x0.G[:, :rank], x0.H[:, :rank], full)
        value, sparse = _error(observed_entries("LMaFit", problem), x)
        settled = self.rank_strategy == "fixed"
        return LMaFitState(x=x, value=value, sparse=sparse, rank=rank, settled=settled)

    def step(self, problem: Problem, state: LMaFitState) -> LMaFitState:
        """Update G, then H, then ω and, if asked for, the rank."""
        observed = observed_entries("LMaFit", problem)
        x, drops = self._relaxed(observed, state)
        problem.counts.gradients += 1
        value, sparse = _error(observed, x)
        tried = replace(state, x=x, value=value, sparse=sparse, since_rank=state.since_rank + 1)
        ratio = np.sqrt(value / state.value) if state.value else inf
        if isnan(ratio):
            stuck = "the least-squares update is not finite"
            return replace(state, stalled=stuck, report=StepReport(step=0.0))
        adapted = self._rank_adapted(observed, tried, drops, abs(1 - ratio))
        if adapted is not None:
            return adapted
        if ratio >= 1:
            increment = max(0.1 * state.excess, 0.1 * state.increment)
            stuck = "" if state.excess else "a step with ω = 1 does not lower the residual: rounding is left"
            state = replace(state, excess=0.0, increment=increment, since_rank=tried.since_rank)
            return replace(state, report=StepReport(step=0.0, note="undone"), stalled=stuck)
        increment, excess = state.increment, state.excess
        if ratio > _SLOW:
            increment = max(increment, 0.25 * excess)
            excess += increment
        return replace(tried, excess=excess, increment=increment, report=StepReport(step=1.0 + state.excess))

    def _relaxed(self, observed: Observed, state: LMaFitState) -> tuple[FullRankFactors, Floats]:
        """G₊ = orth(Z H), H₊ = Zᵀ G₊, and the diagonal of R from the factorisation of Z H."""
        k, weight = state.rank, 1.0 + state.excess
        G, H = (np.ascontiguousarray(factor[:, :k]) for factor in state.x)
        S = SparseMatrix(observed, state.sparse)
        Z_H = G @ (H.T @ H) - weight * (S @ H)
        if state.settled or self.rank_strategy == "increasing":
            Q, R = np.linalg.qr(Z_H)
        else:
            Q, R, _ = qr(Z_H, mode="economic", pivoting=True)
        H = H @ (G.T @ Q) - weight * S.transposed_times(Q)
        return _padded(Q, H, state.x.G.shape[1]), np.abs(np.diag(R))

    def _rank_adapted(
        self, observed: Observed, state: LMaFitState, diagonal: Floats, change: float
    ) -> LMaFitState | None:
        """Return the state with another rank, or None where the rank stays."""
        k, full = state.rank, state.x.G.shape[1]
        if self.rank_strategy == "increasing" and k < full and change < _STAGNATION and state.since_rank > 1:
            # The new columns are zero: orthonormalising Z H makes a direction of the one in G.
            report = StepReport(step=1.0, note=f"rank {k} -> {k + 1}")
            return replace(state, rank=k + 1, excess=0.0, since_rank=0, report=report)
        if state.settled or self.rank_strategy != "decreasing" or k == 1:
            return None
        drops = diagonal[:-1] / np.maximum(diagonal[1:], np.finfo(float).tiny)
        others = drops.sum() - drops.max()
        drop = (k - 1) * drops.max() / others if others > 0 else inf
        soon, latest = _PATIENCE
        if not ((drop > _DROP and state.since_rank > soon) or state.since_rank > latest):
            return None
        rank = max(int(np.argmax(drops)) + 1, k // 10, 1)
        x = _padded(state.x.G[:, :rank], state.x.H[:, :rank], full)
        value, sparse = _error(observed, x)
        report = StepReport(step=1.0, note=f"rank {k} -> {rank}")
        state = replace(state, x=x, value=value, sparse=sparse, report=report)
        return replace(state, rank=rank, excess=0.0, since_rank=0, settled=True)


def _padded(G: Floats, H: Floats, rank: int) -> FullRankFactors:
    missing = rank - G.shape[1]
    if not missing:
        return FullRankFactors(G, H)
    return FullRankFactors(*(np.hstack([factor, np.zeros((len(factor), missing))]) for factor in (G, H)))


def _error(observed: Observed, x: FullRankFactors) -> tuple[float, tuple[Floats, Floats]]:
    """Return f and P_Ω(G Hᵀ − W*), the latter in the two orders of Ω."""
    by_row, by_column = residual(observed, x.G, x.H).values
    return float(by_row @ by_row) / observed.size, (by_row, by_column)
