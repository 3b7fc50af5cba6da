"""RTRMC: W = U Yᵀ with Y eliminated by least squares, and U sought on the Grassmann manifold.

N. Boumal, P.-A. Absil, "RTRMC: a Riemannian trust-region method for low-rank matrix completion", NIPS 2011;
"Low-rank matrix completion via preconditioned optimization on the Grassmann manifold", Linear Algebra and its
Applications 475 (2015) 200-239.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import pi, sqrt
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from rankfold import kernels
from rankfold.baselines.entries import Floats, check_arrays, observed_entries, require_geometry, run_lines
from rankfold.entries.observed import Observed
from rankfold.geometry.subspace import SubspaceFactors, SubspaceProjection
from rankfold.linalg import gram, polar
from rankfold.problem import Counts, Problem
from rankfold.solvers.base import StepReport
from rankfold.solvers.truncated_cg import Proposal
from rankfold.solvers.trust_region import TrustRegion, TrustRegionState

_ROUNDING = float(np.finfo(np.float64).eps)


class Subspace(NamedTuple):
    """An orthonormal basis of a subspace, or a horizontal vector there."""

    U: Floats


class _Grassmann:
    """Subspaces by orthonormal bases U; horizontal vectors H have UᵀH = 0, and the Euclidean metric."""

    def zero(self, x: Subspace) -> Subspace:
        return Subspace(np.zeros_like(x.U))

    def inner(self, x: Subspace, xi: Subspace, eta: Subspace) -> float:
        return float(np.sum(xi.U * eta.U))

    def norm(self, x: Subspace, xi: Subspace) -> float:
        return sqrt(self.inner(x, xi, xi))

    def retract(self, x: Subspace, xi: Subspace) -> Subspace:
        return Subspace(polar(x.U + xi.U))


@dataclass(frozen=True)
class Eliminated:
    """What is known at U: the best Y, the Cholesky factor of each column's normal matrix, and derivatives.

    `value` is ½ mean w (UYᵀ − W*)² on Ω + ½ λ²/|Ω| ‖UYᵀ‖² off Ω, `gradient` its gradient in U; `error` is
    the mean w (UYᵀ − W*)² alone, the cost of `rankfold.Completion`.
    """

    U: Floats
    Y: Floats
    cholesky: Floats
    value: float
    error: float
    gradient: Floats

    def __post_init__(self) -> None:
        d, r = np.shape(self.U)
        shapes = (d, r), (len(self.Y), r), (len(self.Y), r, r), (d, r)
        names = "U", "Y", "cholesky", "gradient"
        check_arrays(*((name, getattr(self, name), shape) for name, shape in zip(names, shapes, strict=True)))


@dataclass(frozen=True)
class Reduced:
    """The cost as a function of U alone. `at` gives what solvers ask of a problem at a point."""

    observed: Observed
    shift: float  # λ²
    exact_hessian: bool
    counts: Counts
    geometry: _Grassmann = field(default_factory=_Grassmann)

    def at(self, x: Subspace) -> Seen:
        """Eliminate Y, and differentiate."""
        return self.seen(self.eliminate(np.ascontiguousarray(x.U)))

    def seen(self, known: Eliminated) -> Seen:
        """Return what is known at a point in the words of solvers."""
        x, gradient, noise = Subspace(known.U), Subspace(known.gradient), _ROUNDING * abs(known.value)
        return Seen(self, known, x, known.value, gradient, self.geometry.norm(x, gradient), noise)

    def eliminate(self, U: Floats) -> Eliminated:
        """Solve the least-squares problem of each column, then evaluate along the rows."""
        check_arrays(("U", U, (self.observed.shape[0], U.shape[-1])))
        least_squares, run = kernels.least_squares, kernels.pool.run
        self.counts.gradients += 1
        observed, r, weighted = self.observed, U.shape[1], self.observed.weighted
        columns, d2 = observed.by_column, observed.shape[1]
        Q, Y = np.empty((d2 * r, r)), np.empty((d2, r))
        kernel = least_squares.normal_equations(r, weighted)
        run_lines(kernel, columns, r * r, U, self.shift, Q, Y)
        cholesky = Q.reshape(d2, r, r)
        run(least_squares.factorise, columns.chunks[1], d2 * r**3, (columns.bounds, cholesky, self.shift))
        run(least_squares.substitute, columns.chunks[1], d2 * r**2, (columns.bounds, cholesky, Y))
        rows = observed.by_row
        sums, G = np.empty((rows.chunks[1], 2)), np.empty_like(U)
        run_lines(least_squares.gradient(r, weighted), rows, 2 * r, U, Y, self.shift, sums, G)
        errors, squares = sums.sum(axis=0)
        value = (errors + self.shift * (float(np.sum(Y * Y)) - squares)) / (2 * observed.size)
        gradient = _normal(U, G) / observed.size
        return Eliminated(U, Y, cholesky, float(value), float(errors) / observed.size, gradient)

    def hessian(self, at: Eliminated, H: Floats) -> Floats:
        """Differentiate the gradient along H, Y following U."""
        least_squares, run = kernels.least_squares, kernels.pool.run
        self.counts.hessians += 1
        U, Y, observed, r = at.U, at.Y, self.observed, at.U.shape[1]
        check_arrays(("a tangent", H, U.shape))
        kernel, H = least_squares.derivative(r, observed.weighted), np.ascontiguousarray(H)
        columns = observed.by_column
        dY = np.empty_like(Y)
        run_lines(kernel, columns, 4 * r, Y, U, np.zeros_like(Y), H, self.shift, dY)
        run(least_squares.substitute, columns.chunks[1], dY.size * r, (columns.bounds, at.cholesky, dY))
        dG = np.empty_like(U)
        run_lines(kernel, observed.by_row, 4 * r, U, Y, H, -dY, self.shift, dG)
        # (I − UUᵀ) D(gradient) of the extension whose gradient lacks λ² U YᵀY, minus H Uᵀ(gradient).
        return np.asarray((_normal(U, dG) + self.shift * (H @ gram(Y, Y))) / observed.size)


@dataclass(frozen=True)
class Seen:
    """The reduced problem at a point, in the words of `rankfold.problem.Here`."""

    problem: Reduced
    known: Eliminated
    x: Subspace
    value: float
    gradient: Subspace
    gradient_norm: float
    noise: float

    @property
    def tall(self) -> Subspace:
        """The point, as formulas take it: in arrays, which is all there is here."""
        return self.x

    def lazily(self, z: Subspace) -> Subspace:
        """A point or a tangent, as formulas take it."""
        return z

    def made(self, z: Subspace) -> Subspace:
        """A point or a tangent in arrays."""
        return z

    def hessian(self, xi: Subspace) -> Subspace:
        """The Hessian along ξ; the identity for RTRMC-1."""
        return Subspace(self.problem.hessian(self.known, xi.U)) if self.problem.exact_hessian else xi


@dataclass(frozen=True, kw_only=True)
class RTRMCState:
    """Where it is, the radius with its bound, and proposals that are still good after a rejected step."""

    at: Eliminated
    radius: float
    max_radius: float
    pending: tuple[Proposal, ...] = ()
    report: StepReport = field(default_factory=StepReport)
    stalled: str = ""
    stationary: bool = False

    @property
    def x(self) -> SubspaceFactors:
        """The point (U, Y)."""
        return SubspaceFactors(self.at.U, self.at.Y)

    @property
    def value(self) -> float:
        """The cost of the problem, without the regulariser."""
        return self.at.error

    @property
    def gradient_norm(self) -> float:
        """The norm of the reduced cost's gradient."""
        return float(np.linalg.norm(self.at.gradient))


@dataclass(frozen=True)
class RTRMC:
    """The trust region on Gr(r, d1) for the cost that is left when Y is the best one for U.

    Runs on `SubspaceProjection` points. Weights of the cost count as RTRMC's squared confidences.

    Parameters
    ----------
    order
        2: exact Hessian, RTRMC-2. 1: the identity in its place, RTRMC-1, a steepest descent. Both without
        the preconditioner of 2015, as the paper compares.
    regularization
        λ: entries outside Ω are asked to be zero with weight λ². 0 as in the authors' example.
    max_inner
        The most Hessian products of one step.

    Examples
    --------
    >>> import rankfold as rf
    >>> from rankfold.baselines import RTRMC
    >>> cost = rf.Completion.from_triples(rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=0))
    >>> problem = rf.Problem(cost, rf.SubspaceProjection(cost.shape, rank=2))
    >>> rf.minimize(problem, RTRMC()).converged
    True
    """

    state_types: ClassVar[tuple[type, ...]] = (RTRMCState, Eliminated, Proposal, Subspace)

    order: int = 2
    regularization: float = 0.0
    max_inner: int = 100

    def __post_init__(self) -> None:
        if self.order not in (1, 2):
            raise ValueError(f"order must be 1 or 2, not {self.order!r}")
        if not 0 <= self.regularization < float("inf"):
            raise ValueError(f"regularization must be finite and at least 0, not {self.regularization!r}")

    def reduced(self, problem: Problem) -> Reduced:
        """Return the problem in U alone."""
        observed = observed_entries("RTRMC", problem, weights=True)
        return Reduced(observed, self.regularization**2, self.order == 2, problem.counts)

    def init(self, problem: Problem, x0: SubspaceFactors) -> RTRMCState:
        """Start at the U of x0, with Δ̄ = √r π/2, the diameter of the Grassmann manifold, and Δ₀ = Δ̄/8."""
        require_geometry("RTRMC", problem, SubspaceProjection)
        diameter = sqrt(problem.geometry.rank) * pi / 2
        at = self.reduced(problem).eliminate(np.ascontiguousarray(x0.U))
        return RTRMCState(at=at, radius=diameter / 8, max_radius=diameter)

    def step(self, problem: Problem, state: RTRMCState) -> RTRMCState:
        """One step of `rankfold.TrustRegion` on the reduced problem."""
        reduced = self.reduced(problem)
        here: Any = reduced.seen(state.at)
        before = TrustRegionState(
            here=here, radius=state.radius, max_radius=state.max_radius, pending=state.pending
        )
        after: Any = TrustRegion(max_inner=self.max_inner, metric="geometry").step(
            cast(Problem, reduced), before
        )
        taken = ("radius", "pending", "report", "stalled", "stationary")
        return replace(state, at=after.here.known, **{name: getattr(after, name) for name in taken})


def _normal(U: Floats, Z: Floats) -> Floats:
    """Return the part of Z that is normal to U."""
    return np.asarray(Z - U @ gram(U, Z))
