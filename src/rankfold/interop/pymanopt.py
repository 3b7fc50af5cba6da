"""Geometries as Pymanopt manifolds, and problems as Pymanopt problems, so that its optimisers run on them.

Needs the package pymanopt.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

import pymanopt
from pymanopt.manifolds.manifold import Manifold
from pymanopt.tools import ndarraySequenceMixin

from rankfold.geometry.base import Geometry, Point
from rankfold.geometry.embedded import Embedded
from rankfold.geometry.product import ProductGeometry
from rankfold.linalg import Array
from rankfold.problem import Here, Problem


class TangentVector(ndarraySequenceMixin, list[Array]):
    """The fields of a tangent vector, with the arithmetic that Pymanopt's optimisers use."""

    def __add__(self, other: Iterable[Array]) -> TangentVector:
        return TangentVector(u + v for u, v in zip(self, other, strict=True))

    def __sub__(self, other: Iterable[Array]) -> TangentVector:
        return TangentVector(u - v for u, v in zip(self, other, strict=True))

    def __mul__(self, factor: Any) -> TangentVector:
        return TangentVector(factor * u for u in self)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> TangentVector:
        return TangentVector(u / divisor for u in self)

    def __neg__(self) -> TangentVector:
        return TangentVector(-u for u in self)


class LowRank(Manifold):
    """A geometry of rankfold as a Pymanopt manifold.

    Points are the geometry's own named tuples; a cost for Pymanopt takes their fields as arguments, and must
    be a function of W alone. Where points have one field only (`PositiveSemidefinite`), that array takes
    their place, as Pymanopt would have it: `point` makes the geometry's point of it again. To use a cost of
    rankfold with its kernels, see `as_problem`.

    Examples
    --------
    >>> import pymanopt, rankfold as rf
    >>> from rankfold.interop.pymanopt import LowRank
    >>> manifold = LowRank(rf.FullRank((4, 3), rank=1))
    >>> @pymanopt.function.numpy(manifold)
    ... def cost(G, H):
    ...     return ((G @ H.T - 1.0) ** 2).sum()
    >>> @pymanopt.function.numpy(manifold)
    ... def gradient(G, H):
    ...     S = 2 * (G @ H.T - 1.0)
    ...     return S @ H, S.T @ G
    >>> problem = pymanopt.Problem(manifold, cost, euclidean_gradient=gradient)
    >>> start = manifold.geometry.random_point(seed=0)
    >>> result = pymanopt.optimizers.ConjugateGradient(verbosity=0).run(problem, initial_point=start)
    >>> bool(result.cost < 1e-9)
    True
    """

    def __init__(self, geometry: Geometry):
        self.geometry = geometry
        fields = len(geometry.spaces())
        super().__init__(f"rankfold {geometry!r}", geometry.dimension, point_layout=fields)

    def inner_product(self, point: Point, tangent_vector_a: Any, tangent_vector_b: Any) -> float:
        """Return the metric."""
        xi, eta = self.tangent(tangent_vector_a), self.tangent(tangent_vector_b)
        return self.geometry.inner(self.point(point), xi, eta)

    def norm(self, point: Point, tangent_vector: Any) -> float:
        """Return the length of a tangent vector."""
        return self.geometry.norm(self.point(point), self.tangent(tangent_vector))

    def projection(self, point: Any, vector: Any) -> Any:
        """Return the horizontal part of ambient matrices."""
        x = self.point(point)
        tangent = self.geometry.to_tangent(x, self.tangent(vector))
        return self._theirs(self.geometry.to_horizontal(x, tangent))

    to_tangent_space = projection  # of a vector that is horizontal but for rounding

    def retraction(self, point: Any, tangent_vector: Any) -> Any:
        """Return the point reached along a tangent vector."""
        return self.unwrapped(self.geometry.retract(self.point(point), self.tangent(tangent_vector)))

    def transport(self, point_a: Any, point_b: Any, tangent_vector_a: Any) -> Any:
        """Carry a tangent vector from one point to another."""
        xi = self.tangent(tangent_vector_a)
        return self._theirs(self.geometry.transport(self.point(point_a), xi, self.point(point_b)))

    def random_point(self) -> Any:
        """Return the point of a random W."""
        return self.unwrapped(self.geometry.random_point())

    def random_tangent_vector(self, point: Any) -> Any:
        """Return a random tangent vector of unit length."""
        return self._theirs(self.geometry.random_tangent(self.point(point)))

    def zero_vector(self, point: Any) -> Any:
        """Return the zero vector."""
        return self._theirs(self.geometry.zero(self.point(point)))

    def euclidean_to_riemannian_gradient(self, point: Any, euclidean_gradient: Any) -> Any:
        """Convert the partial derivatives of a function of W in the fields of the point."""
        geometry, x = self.geometry, self.point(point)
        if isinstance(geometry, Embedded):
            return TangentVector(geometry.gradient(x, *_factor_partials(x, euclidean_gradient)))
        return self._theirs(_product(geometry).structure.gradient(x, self.tangent(euclidean_gradient)))

    def euclidean_to_riemannian_hessian(
        self, point: Any, euclidean_gradient: Any, euclidean_hessian: Any, tangent_vector: Any
    ) -> Any:
        """Convert second derivatives of a function of W in the fields of the point."""
        x, xi = self.point(point), self.tangent(tangent_vector)
        if isinstance(self.geometry, Embedded):
            both = [_factor_partials(x, partials) for partials in (euclidean_gradient, euclidean_hessian)]
            return TangentVector(self.geometry.hessian(x, xi, *both[0], *both[1]))
        geometry = _product(self.geometry)
        both = [self.tangent(partials) for partials in (euclidean_gradient, euclidean_hessian)]
        return self._theirs(geometry.to_horizontal(x, geometry.structure.hessian(x, xi, *both)))

    def embedding(self, point: Any, tangent_vector: Any) -> Any:
        """Return the change of the point's fields along a tangent vector, which autodiff asks for.

        Those of `Embedded` are other ones than its tangent's: U and V can do it all, while s stays.
        """
        if not isinstance(self.geometry, Embedded):
            return self._theirs(self.tangent(tangent_vector))
        dL, dR = self.geometry.tangent_factors(point, self.tangent(tangent_vector))
        return TangentVector((dL / point.s, 0 * point.s, dR))

    @property
    def typical_dist(self) -> float:
        """The length of a vector of dimension many ones: where trust regions begin to be bounded."""
        return sqrt(self.dim)

    def point(self, point: Any) -> Point:
        """Return a point of Pymanopt as one of the geometry."""
        if isinstance(point, self.geometry.point_type):
            return point
        return self.geometry.point_type(*([point] if self.point_layout == 1 else point))

    def tangent(self, vector: Any) -> Any:
        """Return a tangent vector of Pymanopt as one of the geometry."""
        return self.geometry.tangent_type(*([vector] if self.point_layout == 1 else vector))

    def unwrapped(self, fields: Any) -> Any:
        """Return a point or vector as Pymanopt takes it: where it has one field only, that array."""
        return fields[0] if self.point_layout == 1 else fields

    def _theirs(self, vector: Any) -> Any:
        return self.unwrapped(TangentVector(vector))


def _factor_partials(point: Any, partials: Any) -> tuple[Array, Array]:
    """S V and SᵀU Σ, from the partial derivatives S V Σ in U and SᵀU Σ in V; that in s says nothing more."""
    f_U, _, f_V = partials
    return f_U / point.s, f_V


def _product(geometry: Geometry) -> ProductGeometry:
    if not isinstance(geometry, ProductGeometry):
        raise NotImplementedError(
            f"{geometry!r} does not take partial derivatives in its fields: use as_problem"
        )
    return geometry


def as_problem(problem: Problem) -> Any:
    """Return the Pymanopt problem of the same cost on the same geometry, with exact gradient and Hessian.

    The cost's own kernels do the work, once for value and gradient at a point. Give
    `initial_point=LowRank(problem.geometry).unwrapped(problem.start())` to an optimiser for the start of
    `rankfold.minimize`; but for points of one field, `problem.start()` alone is the same.

    Examples
    --------
    >>> import pymanopt, rankfold as rf
    >>> from rankfold.interop.pymanopt import as_problem
    >>> data = rf.data.random_completion((40, 30), rank=2, oversampling=5, seed=0)
    >>> problem = rf.Problem.of(rf.Completion.from_triples(data), rank=2)
    >>> optimizer = pymanopt.optimizers.TrustRegions(verbosity=0)
    >>> optimizer.run(as_problem(problem), initial_point=problem.start()).cost < 1e-10
    True
    """
    geometry, manifold = problem.geometry, LowRank(problem.geometry)
    fields = manifold.point_layout
    known: Here | None = None  # Pymanopt asks for value, gradient and Hessian at a point one by one

    def at(point: tuple[Array, ...]) -> Here:
        nonlocal known
        if known is None or any(u is not v for u, v in zip(known.x, point, strict=True)):
            known = problem.at(geometry.point_type(*point))
        return known

    def cost(*point: Array) -> float:
        return at(point).value

    def gradient(*point: Array) -> Any:
        return manifold.unwrapped(TangentVector(at(point).gradient))

    def hessian(*arrays: Array) -> Any:
        along = at(arrays[:fields]).hessian(geometry.tangent_type(*arrays[fields:]))
        return manifold.unwrapped(TangentVector(along))

    f, grad, hess = map(pymanopt.function.numpy(manifold), (cost, gradient, hessian))
    return pymanopt.Problem(manifold, f, riemannian_gradient=grad, riemannian_hessian=hess)
