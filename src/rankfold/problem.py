"""A cost seen through a geometry: value, Riemannian gradient and Hessian at a point."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.data_metric import DataMetric
from rankfold.geometry.base import Geometry, Point, Tangent
from rankfold.geometry.full_rank import FullRank
from rankfold.geometry.lazily import introduce, lazily, made, takes_sums
from rankfold.linalg import gram, trace
from rankfold.linalg.tall import Tall, reals
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
    """A problem at one point: everything is computed when first asked for, and then remembered.

    Formulas work on `tall`, the point whose tall arrays take part in sums that are yet to be made; so do
    methods that are said to be lazy, and `made` makes arrays of what comes out.
    """

    def __init__(self, problem: Problem, x: Point) -> None:
        self.problem = problem
        self.x = x

    @remembered
    def _evaluation(self) -> Evaluation:
        self.problem.counts.gradients += 1
        cost = self.problem.cost
        evaluate = cost.evaluate_factored if self.problem.geometry.has_factors else cost.evaluate_ahead
        return Evaluation.of(evaluate(*self.factors))

    @remembered
    def tall(self) -> Point:
        """The point, as formulas take it."""
        return self.lazily(self.x)

    @remembered
    def factors(self) -> tuple[Array, Array]:
        """The factors (L, R)."""
        all_tall = getattr(self.problem.geometry, "small_fields", None) == ()  # then they are its fields
        L, R = self.problem.geometry.factors(self.x) if all_tall else reals(self.lazy_factors)
        return L, R

    @property
    def lazy_factors(self) -> tuple[Array, Array]:
        """The factors, as formulas take them."""
        return self.problem.geometry.factors(self.tall)

    @property
    def partials(self) -> tuple[Array, Array]:
        """The partial derivatives (f_L, f_R)."""
        _, f_L, f_R = self._evaluation
        if not self.problem.geometry.symmetric:
            return f_L, f_R
        half = (f_L + f_R) / 2  # those of the symmetric part of S
        return half, half

    @remembered
    def lazy_partials(self) -> tuple[Array, Array]:
        """The partial derivatives, as formulas take them."""
        if not takes_sums(self.problem.geometry):
            return self.partials
        f_L, f_R = map(Tall.of, self.partials)
        return f_L, f_R

    def lazily(self, z: Point | Tangent) -> Point | Tangent:
        """A point or a tangent, as formulas take it."""
        return lazily(self.problem.geometry, z)

    def made(self, z: Point | Tangent) -> Point | Tangent:
        """A point or a tangent in arrays, like those of the point."""
        return made(z, self.x[0])

    @remembered
    def data_metric(self) -> DataMetric | None:
        """The metric of the cost's data, formed here; None where the cost has no curvature."""
        self.problem.counts.blocks += 1
        symmetric = self.problem.geometry.symmetric
        return DataMetric.formed(self.problem.cost, *self.factors, symmetric=symmetric)

    def lifted(self, dL: Array, dR: Array) -> Tangent:
        """The horizontal vector along which the factors change by (dL, dR), as far as W is concerned."""
        return self.made(self.lazily_lifted(dL, dR))

    def lazily_lifted(self, dL: Array, dR: Array, before: Here | None = None) -> Tangent:
        """The same, lazy; its products with the derivatives here, and those `before`, will be asked for."""
        geometry = self.problem.geometry
        if not takes_sums(geometry):
            return geometry.lift(self.x, dL, dR)
        change = Tall.of(dL), Tall.of(dR)
        seen = [here.lazy_partials for here in (self, before) if here is not None]
        introduce((change, self.tall), *((change, partials) for partials in seen))
        return geometry.lift(self.tall, *change)

    @remembered
    def value(self) -> float:
        """The cost."""
        return float(self._evaluation.value)

    @remembered
    def gradient(self) -> Tangent:
        """The Riemannian gradient (equation Riemannian_gradient), a horizontal vector."""
        return self.made(self.lazy_gradient)

    @remembered
    def lazy_gradient(self) -> Tangent:
        """The same, lazy."""
        return self.problem.geometry.gradient(self.tall, *self.lazy_partials)

    @remembered
    def gradient_norm(self) -> float:
        """The gradient's norm in the geometry's metric."""
        return float(np.sqrt(max(self.slope(self.lazy_gradient), 0.0)))

    def told(self, gradient_norm: float) -> None:
        """Take over the gradient's norm from whoever knows it already."""
        vars(self)["gradient_norm"] = gradient_norm

    def slope(self, xi: Tangent) -> float:
        """The derivative of the cost along ξ, which is ⟨grad, ξ⟩ in every metric, at fewer products."""
        f_L, f_R = self.lazy_partials
        dL, dR = self.problem.geometry.tangent_factors(self.tall, self.lazily(xi))
        return trace(gram(f_L, dL)) + trace(gram(f_R, dR))

    def length(self, xi: Tangent) -> float:
        """The length of ξ in the geometry's metric."""
        return self.problem.geometry.norm(self.tall, self.lazily(xi))

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
