"""A cost seen through a geometry: value, Riemannian gradient and Hessian at a point."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.data_metric import DataMetric
from rankfold.geometry.base import Geometry, Point, Tangent
from rankfold.geometry.full_rank import FullRank
from rankfold.linalg import gram, trace
from rankfold.remembered import remembered


@dataclass
class Counts:
    """How often the cost was asked, by kind: what a method's work is measured in."""

    values: int = 0
    gradients: int = 0
    hessians: int = 0
    polynomials: int = 0
    blocks: int = 0


@dataclass(frozen=True)
class Problem:
    """Minimise `cost` over the points of `geometry`.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 0, 1, 2], [0, 1, 1, 0], [1.0, 2.0, 4.0, 3.0], shape=(3, 2))
    >>> problem = rf.Problem.of(cost, rank=1)
    >>> here = problem.at(problem.geometry.random_point(seed=0))
    >>> here.value > 0 and here.gradient_norm > 0
    True
    """

    cost: Cost
    geometry: Geometry
    counts: Counts = field(default_factory=Counts, compare=False, repr=False)

    def __post_init__(self) -> None:
        if tuple(self.cost.shape) != tuple(self.geometry.shape):
            raise ValueError(
                f"cost.shape {tuple(self.cost.shape)} and geometry.shape {self.geometry.shape} differ: "
                "build both with the same shape (rows, columns)"
            )
        if self.cost.factored and not self.geometry.has_factors:
            raise ValueError(
                f"a penalty on single factors is no function of W, and points of {self.geometry!r} stand for "
                "W: with the same W, they would have different values. Use FullRank(metric='euclidean'), "
                "whose points are the factors, or rankfold.Nuclear, what is left of it at the best factors"
            )

    @classmethod
    def of(cls, cost: Cost, rank: int) -> Problem:
        """Minimise `cost` over matrices of rank `rank`, on the geometry that measures best for most costs.

        That is `FullRank` with the preconditioned metric; the docs show the measurements ("How to choose").
        """
        return cls(cost, FullRank((cost.shape[0], cost.shape[1]), rank, metric="preconditioned"))

    def at(self, x: Point) -> Here:
        """Return the problem as seen from the point `x`."""
        return Here(self, x)

    def with_rank(self, rank: int) -> Problem:
        """Return the same problem over matrices of another rank; both count into the same `counts`."""
        return self if rank == self.geometry.rank else replace(self, geometry=self.geometry.with_rank(rank))

    def with_rank_of(self, x: Point) -> Problem:
        """Return the same problem over matrices of the rank of `x`, which a method may have changed."""
        return self.with_rank(int(self.geometry.factors(x)[0].shape[1]))

    def value(self, x: Point) -> float:
        """Cost at `x` alone: cheaper than `at(x).value` when no derivative will be asked for."""
        self.counts.values += 1
        return self.cost.value(*self.geometry.factors(x))

    def start(self, seed: int = 0) -> Point:
        """Return the cost's own start point, on this geometry."""
        return self.geometry.nearest(*self.cost.start(self.geometry.rank, seed))


class Here:
    """A problem at one point: everything is computed when first asked for, and then remembered."""

    def __init__(self, problem: Problem, x: Point) -> None:
        self.problem = problem
        self.x = x

    @remembered
    def _evaluation(self) -> Evaluation:
        self.problem.counts.gradients += 1
        cost, geometry = self.problem.cost, self.problem.geometry
        evaluate = cost.evaluate_factored if geometry.has_factors else cost.evaluate
        return Evaluation.of(evaluate(*geometry.factors(self.x)))

    @property
    def factors(self) -> tuple[Array, Array]:
        """The factors (L, R)."""
        return self.problem.geometry.factors(self.x)

    @property
    def partials(self) -> tuple[Array, Array]:
        """The partial derivatives (f_L, f_R)."""
        _, f_L, f_R = self._evaluation
        if not self.problem.geometry.symmetric:
            return f_L, f_R
        half = (f_L + f_R) / 2  # those of the symmetric part of S
        return half, half

    @remembered
    def data_metric(self) -> DataMetric | None:
        """The metric of the cost's data, formed here; None where the cost has no curvature."""
        self.problem.counts.blocks += 1
        symmetric = self.problem.geometry.symmetric
        return DataMetric.formed(self.problem.cost, *self.factors, symmetric=symmetric)

    def lifted(self, dL: Array, dR: Array) -> Tangent:
        """The horizontal vector along which the factors change by (dL, dR), as far as W is concerned."""
        return self.problem.geometry.lift(self.x, dL, dR)

    @property
    def value(self) -> float:
        """The cost."""
        return self._evaluation.value

    @remembered
    def gradient(self) -> Tangent:
        """The Riemannian gradient (equation Riemannian_gradient), a horizontal vector."""
        _, f_L, f_R = self._evaluation
        return self.problem.geometry.gradient(self.x, f_L, f_R)

    @remembered
    def gradient_norm(self) -> float:
        """The gradient's norm in the geometry's metric."""
        return float(np.sqrt(max(self.slope(self.gradient), 0.0)))

    def slope(self, xi: Tangent) -> float:
        """The derivative of the cost along ξ, which is ⟨grad, ξ⟩ in every metric, at fewer products."""
        _, f_L, f_R = self._evaluation
        dL, dR = self.problem.geometry.tangent_factors(self.x, xi)
        return trace(gram(f_L, dL)) + trace(gram(f_R, dR))

    def hessian(self, xi: Tangent) -> Tangent:
        """The Riemannian Hessian along the horizontal vector `xi` (equation Riemannian_hessian)."""
        geometry, cost = self.problem.geometry, self.problem.cost
        self.problem.counts.hessians += 1
        _, f_L, f_R = self._evaluation
        L, R = geometry.factors(self.x)
        df_L, df_R = cost.derivative(L, R, *geometry.tangent_factors(self.x, xi))
        return geometry.hessian(self.x, xi, f_L, f_R, df_L, df_R)

    @property
    def noise(self) -> float:
        """How far rounding alone may change the value: what is smaller is no decrease."""
        rounding = float(np.finfo(np.float64).eps)
        return rounding * (abs(self.value) + rounding * abs(self.problem.cost.value_at_zero))

    def polynomial(self, xi: Tangent) -> NDArray[np.float64]:
        """Coefficients, constant first, of the cost along the linearised curve x + t xi (section 6.1)."""
        self.problem.counts.polynomials += 1
        return self.problem.cost.polynomial(*self.problem.geometry.line(self.x, xi))

    def sampled_polynomial(self, xi: Tangent) -> NDArray[np.float64] | None:
        """Like `polynomial`, but from a sample of the data; None where the cost has none to offer."""
        found = self.problem.cost.sampled_polynomial(*self.problem.geometry.line(self.x, xi))
        self.problem.counts.polynomials += found is not None
        return found
