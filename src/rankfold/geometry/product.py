"""Geometries that are a product of factor spaces divided by a symmetry (sections 3 and 4 of the paper)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from rankfold.geometry.base import Geometry, Point, Tangent
from rankfold.geometry.spaces import FactorSpace
from rankfold.linalg import Array


class ProductGeometry(Geometry):
    """Everything that follows from the product alone; only Π and the chain rule couple the factors."""

    @abstractmethod
    def partials(self, x: Point, f_L: Array, f_R: Array) -> Tangent:
        """Return φ, the partial derivatives of the cost in the fields of x, by the chain rule."""

    @abstractmethod
    def partials_derivative(
        self, x: Point, xi: Tangent, f_L: Array, f_R: Array, df_L: Array, df_R: Array
    ) -> Tangent:
        """Return φ̇, the directional derivatives of φ along ξ."""

    @abstractmethod
    def spaces(self) -> tuple[FactorSpace, ...]:
        """Return the factor spaces."""

    @abstractmethod
    def vertical(self, x: Point, A: Array) -> Tangent:
        """Return the vertical vector that the r×r matrix A generates (Table spaces)."""

    @abstractmethod
    def generator(self, x: Point, eta: Tangent) -> Array | None:
        """Return the r×r matrix that generates the vertical part of η; None where fibres have no extent."""

    def to_horizontal(self, x: Point, eta: Tangent) -> Tangent:
        """Π: remove the vertical part (Table projections)."""
        A = self.generator(x, eta)
        return eta if A is None else _added_to(self.vertical(x, -A), eta)

    def inner(self, x: Point, xi: Tangent, eta: Tangent) -> float:
        """Return the sum of the factors' metrics."""
        return sum(space.inner(y, u, v) for space, y, u, v in zip(self.spaces(), x, xi, eta, strict=True))

    def to_tangent(self, x: Point, z: Tangent) -> Tangent:
        """Ψ, factor by factor."""
        return self._each("project", x, z)

    def retract(self, x: Point, xi: Tangent) -> Point:
        """Retract factor by factor (Table retraction)."""
        return self._each("retract", x, xi)

    def transported_inner(self, x: Point, xi: Tangent, y: Point, eta: Tangent) -> float:
        """Return ⟨ξ, η⟩ at y: Ψ and Π are orthogonal projections, and η, being horizontal, undoes them."""
        return self.inner(y, xi, eta)

    def gradient(self, x: Point, f_L: Array, f_R: Array) -> Tangent:
        """Convert φ to the gradient factor by factor (Table gradient_Hessian). It is horizontal by itself."""
        return self._each("gradient", x, self.partials(x, f_L, f_R))

    def hessian(self, x: Point, xi: Tangent, f_L: Array, f_R: Array, df_L: Array, df_R: Array) -> Tangent:
        """Π of the covariant derivative of the gradient in the total space (equation Riemannian_hessian)."""
        phi = self.partials(x, f_L, f_R)
        dphi = self.partials_derivative(x, xi, f_L, f_R, df_L, df_R)
        return self.to_horizontal(x, self._each("hessian", x, xi, phi, dphi))

    def _each(self, verb: str, x: Point, *vectors: Tangent) -> Any:
        parts = zip(self.spaces(), x, *vectors, strict=True)
        return self.point_type(*(getattr(space, verb)(*arguments) for space, *arguments in parts))


def _added_to(fresh: Tangent, eta: Tangent) -> Tangent:
    """Return fresh + η in the arrays of `fresh`: the pages of new tall arrays would cost most."""
    parts = []
    for part, v in zip(fresh, eta, strict=True):
        part += v
        parts.append(part)
    return type(fresh)(*parts)


def random_orthogonal(rank: int, seed: int | None) -> np.ndarray[Any, Any]:
    """Return a random r×r orthogonal matrix."""
    Q, R = np.linalg.qr(np.random.default_rng(seed).standard_normal((rank, rank)))
    return np.asarray(Q * np.sign(np.diagonal(R)))


def random_signed_permutation(rank: int, seed: int | None) -> np.ndarray[Any, Any]:
    """Return a random r×r permutation matrix with signs."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.eye(rank)[rng.permutation(rank)] * rng.choice([-1.0, 1.0], size=rank))
