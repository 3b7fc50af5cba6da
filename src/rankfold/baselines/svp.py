"""SVP: singular value projection, gradient descent on all matrices with a rank-r SVD after each step.

P. Jain, R. Meka, I. Dhillon, "Guaranteed rank minimization via singular value projection", NIPS 2010.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from rankfold.baselines.entries import Floats, observed_entries, require_geometry, residual
from rankfold.entries.lanczos import dominant_svd
from rankfold.entries.observed import Observed
from rankfold.entries.operators import SparseMatrix
from rankfold.geometry.embedded import Embedded, SVDFactors
from rankfold.problem import Problem
from rankfold.solvers.base import StepReport

_DECREASE = 1e-4  # of the Armijo condition (Nocedal and Wright 2006, Procedure 3.1)
_MAX_TRIALS = 30
# Residuals of the SVD relative to the step's expected length. At 1e-2, iteration counts are those of 1e-6.
_ACCURACY = 1e-2


@dataclass(frozen=True, eq=False)
class _LowRankPlusSparse:
    """The matrix U diag(s) Vᵀ − t P_Ω(W − W*), low rank plus sparse, known by its products."""

    x: SVDFactors
    t: float
    sparse: SparseMatrix

    @property
    def shape(self) -> tuple[int, int]:
        return self.sparse.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.sparse.dtype

    def __matmul__(self, X: Floats) -> Floats:
        U, s, V = self.x
        return np.asarray((U * s) @ (V.T @ X) - self.t * (self.sparse @ X))

    def transposed_times(self, X: Floats) -> Floats:
        U, s, V = self.x
        return np.asarray((V * s) @ (U.T @ X) - self.t * self.sparse.transposed_times(X))


@dataclass(frozen=True, kw_only=True)
class SVPState:
    """A point, its residual on Ω in both orders, and the norm of the Euclidean gradient 2/|Ω| P_Ω(W − W*)."""

    x: SVDFactors
    value: float
    sparse: tuple[Floats, Floats]
    gradient_norm: float
    report: StepReport = field(default_factory=StepReport)
    stalled: str = ""
    stationary: bool = False


@dataclass(frozen=True)
class SVP:
    """W ← SVD_r(W − t P_Ω(W − W*)) with t = d1 d2 / (|Ω| (1 + δ)), halved until Armijo's condition holds.

    The condition is the one for projected steps, f(W₊) ≤ f(W) + c ⟨∇f(W), W₊ − W⟩ (Bertsekas 1976): with
    −t‖∇f(W)‖² in place of the inner product no step would pass, for the projection removes most of a sparse
    gradient. The SVD is of a matrix known by its products, by block Lanczos started at the last singular
    vectors, as accurate as the step is long. Runs on `Embedded` points.

    Parameters
    ----------
    delta
        δ, the isometry constant hoped for; 1/3 as published.

    Examples
    --------
    >>> import rankfold as rf
    >>> from rankfold.baselines import SVP
    >>> cost = rf.Completion.from_triples(rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0))
    >>> rf.minimize(rf.Problem(cost, rf.Embedded(cost.shape, rank=2)), SVP()).converged
    True
    """

    state_types: ClassVar[tuple[type, ...]] = (SVPState,)

    delta: float = 1 / 3

    def init(self, problem: Problem, x0: SVDFactors) -> SVPState:
        """Start at x0."""
        require_geometry("SVP", problem, Embedded)
        return _located(observed_entries("SVP", problem), x0, StepReport())

    def step(self, problem: Problem, state: SVPState) -> SVPState:
        """Step down the Euclidean gradient and project, at ever smaller t if need be."""
        observed = observed_entries("SVP", problem)
        density = observed.size / (observed.shape[0] * observed.shape[1])
        t = 1 / (density * (1 + self.delta))
        for trial in range(_MAX_TRIALS):
            x = _projected(observed, state, t, density)
            problem.counts.gradients += 1
            report = StepReport(step=t * observed.size / 2 * state.gradient_norm, backtracks=trial)
            there = _located(observed, x, report)
            # On Ω, W₊ − W is the difference of the residuals; ∇f = 2/|Ω| times the residual.
            inner = 2 * (float(state.sparse[0] @ there.sparse[0]) / observed.size - state.value)
            if there.value < state.value and there.value <= state.value + _DECREASE * inner:
                return there
            t /= 2
        reason = "no projected gradient step lowers the value by more than rounding"
        return replace(state, report=StepReport(step=0.0), stalled=reason, stationary=True)


def _projected(observed: Observed, state: SVPState, t: float, density: float) -> SVDFactors:
    # P_Ω of a tangent error E has the norm √density ‖E‖, and t P_Ω(E) projects to about t · density · E.
    length = t * sqrt(density * observed.size * state.value)
    tolerance = max(_ACCURACY * length / float(state.x.s[0]), 1e-15)
    A = _LowRankPlusSparse(state.x, t, SparseMatrix(observed, state.sparse))
    return SVDFactors(*dominant_svd(A, len(state.x.s), first=state.x.V, tolerance=tolerance))


def _located(observed: Observed, x: SVDFactors, report: StepReport) -> SVPState:
    sparse = residual(observed, x.U * x.s, x.V).values
    value = float(sparse[0] @ sparse[0]) / observed.size
    norm = 2 * sqrt(value / observed.size)
    return SVPState(x=x, value=value, sparse=sparse, gradient_norm=norm, report=report)
