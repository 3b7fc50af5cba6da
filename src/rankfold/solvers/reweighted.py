"""Near the information limit: rank continuation along a path of reweighted ridges that fades away."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace

from rankfold.costs.factor_ridge import FactorRidge
from rankfold.geometry.base import Point
from rankfold.geometry.full_rank import FullRank
from rankfold.linalg import svd_of_product
from rankfold.problem import Problem
from rankfold.solvers.base import Method, Nested, StepReport
from rankfold.solvers.conjugate_gradient import ConjugateGradient, taken_up
from rankfold.solvers.growth import curvature, dominant_pairs, grown, truncated
from rankfold.solvers.trust_region import TrustRegion

_FIRST = 0.5  # the first threshold, relative to the gradient's norm at W = 0, above which nothing would grow
_FADE = 0.5  # from one threshold to the next: 0.7 solved no more instances, and took longer
_LAST = 10  # thresholds after the last rank is reached: 2⁻¹⁰ of a ridge no longer turns anything
_RADIUS = 0.1  # of the last solve, relative to ‖W‖
_STAGE = 100  # most iterations of a stage
# A ridge has done its work when the misfit is this part of that at W = 0: what is left to do is converge.
_FITTED = 1e-12


@dataclass(frozen=True, kw_only=True)
class ReweightedState(Nested):
    """The inner solver's state on the ridged cost, and where on the path it is.

    `weights` is None once the ridge is gone. `threshold` is what a singular value of the gradient must
    exceed for the rank to grow; `scale` turns it into the singular value of W that it stands for.
    """

    rank: int
    misfit: float
    threshold: float
    scale: float
    weights: Any = None
    taken: int = 0
    after: int = 0
    ripe: bool = False

    @property
    def value(self) -> float:
        """The cost at the point, without the ridge."""
        return self.misfit

    @property
    def stalled(self) -> str:
        """Why the inner solver cannot go on, once there is no ridge."""
        return str(self.inner.stalled) if self.weights is None else ""

    @property
    def stationary(self) -> bool:
        """Whether only rounding stops it."""
        return self.weights is None and bool(self.inner.stationary)


@dataclass(frozen=True)
class ReweightedContinuation:
    """Rank continuation for few entries: each rank is held back by a ridge, which fades and then is dropped.

    With hardly more entries than degrees of freedom, a rank that is too low for the data overfits the lines
    with few entries, and the next ranks build on that. A ridge w_i = λ/(1 + σ_i/ε), with ε the singular value
    that a gradient of λ stands for, holds back what is as small as the misfit and lets alone what is larger:
    the weights of iteratively reweighted least squares for Σ log(1 + σ_i/ε) (Fazel et al. 2003; Mohan and
    Fazel 2012). λ is halved, the rank grows when a singular value of the gradient exceeds λ, and the last
    solve is free of the ridge. For `FullRank` geometries, whose balanced factors the ridge acts on.

    Parameters
    ----------
    solver
        The method for every stage with a ridge.
    finish
        The method for the last solve, free of the ridge: near the limit the Hessian is so ill conditioned
        that conjugate gradients crawl where many inner iterations of a Newton step do not. A trust region
        starts with a radius of a tenth of ‖W‖.
    slow
        A stage ends when an iteration lowers the value by less than this part of it.

    Examples
    --------
    >>> import rankfold as rf
    >>> data = rf.data.random_completion((150, 150), 2, 2.0, seed=0, condition=10, min_per_line=True)
    >>> cost = rf.Completion.from_triples(data)
    >>> problem = rf.Problem.of(cost, rank=2)
    >>> rf.minimize(problem, rf.ReweightedContinuation(), tolerance=1e-16, max_iterations=2000).converged
    True
    """

    state_types: ClassVar[tuple[type, ...]] = (ReweightedState, FactorRidge)

    solver: Method[Any] = field(default_factory=ConjugateGradient)
    finish: Method[Any] = field(default_factory=lambda: TrustRegion(max_inner=400))
    slow: float = 3e-4

    def init(self, problem: Problem, x0: Point) -> ReweightedState:
        """Start from the leading singular pair of x0, with a ridge that lets hardly more through."""
        if not isinstance(problem.geometry, FullRank):
            raise TypeError(
                f"ReweightedContinuation works on FullRank geometries, not on {problem.geometry!r}: "
                "solve there, then bring the point over with `geometry.convert(x, source)`"
            )
        x = truncated(problem, x0, 1) if problem.geometry.rank > 1 else x0
        L, R = problem.geometry.factors(x)
        U, s, V = dominant_pairs(problem.cost, L[:, :0], R[:, :0], 1)
        scale = 1 / curvature(problem.cost, 0 * U, V, U)
        return self._stage(problem, x, 1, threshold=_FIRST * float(s[0]), scale=scale, after=0)

    def step(self, problem: Problem, state: ReweightedState) -> ReweightedState:
        """Let the solver take a step; or go on to the next stage of the path."""
        if state.ripe:
            return self._next(problem, state)
        if state.weights is None:
            inner = self.finish.step(problem.with_rank(state.rank), state.inner)
            return replace(state, inner=inner, misfit=inner.value, report=inner.report)
        ridged = FactorRidge(problem.cost, state.weights)
        present = replace(problem.with_rank(state.rank), cost=ridged)
        inner = self.solver.step(present, state.inner)
        slow = inner.report.step != 0 and state.inner.value - inner.value < self.slow * inner.value
        taken = state.taken + 1
        ripe = slow or bool(inner.stalled) or taken >= _STAGE
        misfit = max(inner.value - ridged.ridge(*present.geometry.factors(inner.x)), 0.0)
        return replace(state, inner=inner, misfit=misfit, taken=taken, ripe=ripe, report=inner.report)

    def _next(self, problem: Problem, state: ReweightedState) -> ReweightedState:
        x, rank, threshold, after = state.x, state.rank, state.threshold, state.after
        last = rank == problem.geometry.rank
        if after >= _LAST or state.value <= _FITTED * problem.cost.value_at_zero:
            threshold = 0.0
        elif not last and (larger := grown(problem.with_rank(rank), x, 1, threshold)) is not None:
            x, rank = larger, rank + 1
        else:
            threshold, after = _FADE * threshold, after + last
        return self._stage(problem, x, rank, threshold, state.scale, after)

    def _stage(
        self, problem: Problem, x: Point, rank: int, threshold: float, scale: float, after: int
    ) -> ReweightedState:
        present = problem.with_rank(rank)
        U, s, V = svd_of_product(*present.geometry.factors(x))
        x = present.geometry.from_svd(U, s, V)
        weights = None
        if threshold > 0:
            weights = threshold / (1 + np.array([float(value) for value in s]) / (scale * threshold))
            inner = taken_up(self.solver, replace(present, cost=FactorRidge(problem.cost, weights)), x)
            note = f"rank {rank}, ridge {threshold:.2g}"
        else:
            finish = self.finish
            if isinstance(finish, TrustRegion):
                radius = _RADIUS * float(array_namespace(s).linalg.vector_norm(s))
                finish = replace(finish, initial_radius=radius)
            inner = finish.init(present, x)
            note = f"rank {rank}, no ridge"
        misfit = problem.cost.value(U * s, V)
        return ReweightedState(
            inner=inner, rank=rank, misfit=misfit, threshold=threshold, scale=scale, weights=weights,
            after=after, report=StepReport(note=note),
        )  # fmt: skip
