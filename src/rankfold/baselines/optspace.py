"""OptSpace: descent over pairs of subspaces, with the best r×r matrix between them.

R. Keshavan, A. Montanari, S. Oh, "Matrix completion from a few entries", IEEE Transactions on Information
Theory 56 (2010) 2980-2998, and the authors' code, whose regulariser has weight zero by default.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from rankfold import kernels
from rankfold.baselines.entries import Floats, check_arrays, observed_entries, require_geometry, run_lines
from rankfold.entries.lanczos import dominant_svd
from rankfold.entries.observed import Observed
from rankfold.entries.operators import SparseMatrix
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.geometry.base import Point
from rankfold.geometry.polar import Polar, PolarFactors
from rankfold.linalg import gram, polar
from rankfold.problem import Problem
from rankfold.solvers.base import Located, StepReport
from rankfold.solvers.line_search import NO_STEP

# The constants of the published code.
_FIRST_STEP = 0.1
_DECREASE = 0.5
_MAX_TRIALS = 20
_CROWDED = 2.0  # lines with more than this multiple of the mean number of entries are trimmed


@dataclass(frozen=True, kw_only=True)
class OptSpaceState(Located):
    """Where it is: a `Polar` point whose B, diagonal by a choice of bases, is the best for its subspaces."""


@dataclass(frozen=True)
class OptSpace:
    """Gradient steps on Gr(r, d1) × Gr(r, d2) at fixed B, each followed by the exact least-squares B.

    Lengths and the first trial step are those of the published normalisation: factors √d1 U and √d2 V, data
    of mean square r. Steps are halved until Armijo's condition holds. B solves r²×r² normal equations, which
    one pass over Ω assembles. Runs on `Polar` points; `optspace.spectral_start` is its own start.

    Examples
    --------
    >>> import rankfold as rf
    >>> from rankfold.baselines import OptSpace, spectral_start
    >>> cost = rf.Completion.from_triples(rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0))
    >>> problem = rf.Problem(cost, rf.Polar(cost.shape, rank=2))
    >>> rf.minimize(problem, OptSpace(), x0=spectral_start(problem)).converged
    True
    """

    state_types: ClassVar[tuple[type, ...]] = (OptSpaceState,)

    def init(self, problem: Problem, x0: PolarFactors) -> OptSpaceState:
        """Start at the subspaces of x0, with the best B between them."""
        require_geometry("OptSpace", problem, Polar)
        observed = observed_entries("OptSpace", problem)
        return OptSpaceState(here=problem.at(_best_middle(observed, x0.U, x0.V)))

    def step(self, problem: Problem, state: OptSpaceState) -> OptSpaceState:
        """Move the two subspaces down the gradient, then solve for B."""
        observed, here = observed_entries("OptSpace", problem), state.here
        U, B, V = here.x
        # At the best B, UᵀSV = 0: this gradient is normal to U and V, and its B part vanishes.
        down = here.gradient
        # c²|Ω|/2 turns the mean square into the published cost, of data scaled by c to mean square r.
        scale = len(B) / problem.cost.value_at_zero * observed.size / 2
        slope = scale * (np.sum(down.U**2) / len(U) + np.sum(down.V**2) / len(V))
        t = _FIRST_STEP
        for trial in range(_MAX_TRIALS):
            U_t = polar(U - (t * scale / len(U)) * down.U)
            V_t = polar(V - (t * scale / len(V)) * down.V)
            problem.counts.values += 1
            value = problem.cost.value(U_t @ B, V_t)
            if value < here.value and value <= here.value - _DECREASE * t * slope:
                there = problem.at(_best_middle(observed, U_t, V_t))
                return OptSpaceState(here=there, report=StepReport(step=t, backtracks=trial))
            t /= 2
        return replace(state, report=StepReport(step=0.0), stalled=NO_STEP, stationary=True)


def spectral_start(problem: Problem, seed: int = 0) -> Point:
    """Return the rank-r SVD of the trimmed data, times d1 d2/|Ω|: OptSpace's own start, on any geometry.

    Rows and columns with more than twice the mean number of entries are left out: their singular values
    would tell of their numbers, not of W*.
    """
    observed = observed_entries("OptSpace", problem)
    rows, columns = observed.by_row, observed.by_column
    values = _trimmed(rows, columns), _trimmed(columns, rows)
    U, s, V = dominant_svd(SparseMatrix(observed, values), problem.geometry.rank, seed)
    d1, d2 = observed.shape
    return problem.geometry.from_svd(U, s * (d1 * d2 / observed.size), V)


def _trimmed(side: SortedEntries, other: SortedEntries) -> Floats:
    """Return the values of `side`, those in crowded lines of either side set to zero."""
    crowded, across = (np.asarray(s.counts > _CROWDED * s.counts.mean()) for s in (side, other))
    return np.where(crowded[side.keys] | across[side.indices], 0.0, side.data[:, 0])


def _best_middle(observed: Observed, U: Floats, V: Floats) -> PolarFactors:
    """Return the point of the best U B Vᵀ, in the bases of the two subspaces that make B diagonal.

    vec(B) solves Σ (u uᵀ ⊗ v vᵀ) vec(B) = Σ y u ⊗ v over Ω. Row by row the sums over v are r×r matrices, so
    that the r²×r² one is a product of two tall matrices.
    """
    d1, r = U.shape
    V = np.ascontiguousarray(V)
    check_arrays(("V", V, (observed.shape[1], r)))
    Q, q = np.empty((d1 * r, r)), np.empty((d1, r))
    kernel = kernels.least_squares.normal_equations(r, weighted=False)
    run_lines(kernel, observed.by_row, r * r, V, 0.0, Q, q)
    pairs = (U[:, :, None] * U[:, None, :]).reshape(d1, r * r)
    normal = gram(pairs, Q.reshape(d1, r * r)).reshape(r, r, r, r).transpose(0, 2, 1, 3).reshape(r * r, r * r)
    B = np.linalg.lstsq(normal, gram(U, q).reshape(r * r))[0].reshape(r, r)
    A, s, Ct = np.linalg.svd(B)
    s = np.maximum(s, s[0] * np.finfo(float).eps)  # a `Polar` point has a positive definite middle
    return PolarFactors(U @ A, np.diag(s), V @ Ct.T)
