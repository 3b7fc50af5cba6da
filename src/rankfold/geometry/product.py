"""Geometries that are a product of factor spaces divided by a symmetry (sections 3 and 4 of the paper)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import iadd
from typing import Any, ClassVar

import numpy as np

from rankfold.geometry.base import Geometry, LineCoefficients, Point, Tangent
from rankfold.geometry.spaces import FactorSpace
from rankfold.linalg import Array


@dataclass(frozen=True)
class Structure:
    """What a choice of metric (or of the space of a factor) decides of a product geometry.

    The metric is the sum of the factors'; a metric that couples them overrides the three methods.
    """

    #: the space of each field of a point, with its metric
    spaces: tuple[FactorSpace, ...]
    #: (x, η) ↦ the r×r matrix that generates the vertical part of η; None where fibres have no extent
    generator: Callable[[Point, Tangent], Array] | None
    #: (r, seed) ↦ a random element of the symmetry group
    random_symmetry: Callable[[int, int | None], np.ndarray[Any, Any]]
    #: whether t ↦ `retract(x, t ξ)` has no covariant acceleration at 0
    second_order: bool = False

    def inner(self, x: Point, xi: Tangent, eta: Tangent) -> float:
        """Return the sum of the factors' metrics."""
        return sum(space.inner(y, u, v) for space, y, u, v in zip(self.spaces, x, xi, eta, strict=True))

    def gradient(self, x: Point, phi: Tangent) -> Tangent:
        """Convert φ, the partial derivatives in the fields of x, to the gradient (Table gradient_Hessian)."""
        return self.each("gradient", x, phi)

    def lowered(self, x: Point, xi: Tangent) -> Tangent:
        """Return the φ of which ξ is the gradient, as far as the spaces of the factors tell it."""
        return self.each("lowered", x, xi)

    def hessian(self, x: Point, xi: Tangent, phi: Tangent, dphi: Tangent) -> Tangent:
        """Return the covariant derivative of the gradient in the total space, from φ and its change φ̇."""
        return self.each("hessian", x, xi, phi, dphi)

    def each(self, verb: str, x: Point, *vectors: Tangent) -> Any:
        """Do with each field of x what `verb` says in its space."""
        parts = zip(self.spaces, x, *vectors, strict=True)
        return type(x)(*(getattr(space, verb)(*arguments) for space, *arguments in parts))


class ProductGeometry(Geometry):
    """Everything that follows from the product alone; only Π and the chain rule couple the factors.

    A subclass without an option sets `structure`. One with an option names what each of its values stands for
    in `structures`, and hands the chosen value to `__init__` under the option's name. Points have the two
    fields L and R, unless a subclass says otherwise.
    """

    structure: Structure
    structures: ClassVar[Mapping[str, Structure]] = {}

    def __init__(self, shape: tuple[int, int], rank: int, **option: str) -> None:
        super().__init__(shape, rank)
        self.option = option
        for name, value in option.items():
            if value not in self.structures:
                names = ", ".join(map(repr, self.structures))
                raise ValueError(f"{name} must be one of {names}, not {value!r}")
            self.structure = self.structures[value]
        self.second_order = self.structure.second_order

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.option.items())
        return f"{type(self).__name__}({self.shape}, rank={self.rank}{options})"

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return (self.shape[0], self.rank), (self.shape[1], self.rank)

    def factors(self, x: Point) -> tuple[Array, Array]:
        """Return (L, R), the fields of x."""
        return x[0], x[1]

    def tangent_factors(self, x: Point, xi: Tangent) -> tuple[Array, Array]:
        """Return the fields of ξ."""
        return xi[0], xi[1]

    def line(self, x: Point, xi: Tangent) -> LineCoefficients:
        """(L + tξ_L)(R + tξ_R)ᵀ."""
        return (x[0], xi[0]), (x[1], xi[1])

    def partials(self, x: Point, f_L: Array, f_R: Array) -> Tangent:
        """Return φ, the partial derivatives of the cost in the fields of x, by the chain rule."""
        return self.tangent_type(f_L, f_R)

    def partials_derivative(
        self, x: Point, xi: Tangent, f_L: Array, f_R: Array, df_L: Array, df_R: Array
    ) -> Tangent:
        """Return φ̇, the directional derivatives of φ along ξ."""
        return self.tangent_type(df_L, df_R)

    @abstractmethod
    def vertical(self, x: Point, A: Array) -> Tangent:
        """Return the vertical vector that the r×r matrix A generates (Table spaces)."""

    def spaces(self) -> tuple[FactorSpace, ...]:
        """Return the factor spaces."""
        return self.structure.spaces

    def random_symmetry(self, seed: int | None = None) -> np.ndarray[Any, Any]:
        """Return a random element of the symmetry group."""
        return self.structure.random_symmetry(self.rank, seed)

    def to_horizontal(self, x: Point, eta: Tangent) -> Tangent:
        """Π: remove the vertical part (Table projections)."""
        generator = self.structure.generator
        return eta if generator is None else _added_to(self.vertical(x, -generator(x, eta)), eta)

    def inner(self, x: Point, xi: Tangent, eta: Tangent) -> float:
        """Return the metric of the structure, by default the sum of the factors' metrics."""
        return self.structure.inner(x, xi, eta)

    def to_tangent(self, x: Point, z: Tangent) -> Tangent:
        """Ψ, factor by factor."""
        return self.structure.each("project", x, z)

    def retract(self, x: Point, xi: Tangent) -> Point:
        """Retract factor by factor (Table retraction)."""
        return self.structure.each("retract", x, xi)

    def transported_inner(self, x: Point, xi: Tangent, y: Point, eta: Tangent) -> float:
        """Return ⟨ξ, η⟩ at y: Ψ and Π are orthogonal projections, and η, being horizontal, undoes them."""
        return self.inner(y, xi, eta)

    def gradient(self, x: Point, f_L: Array, f_R: Array) -> Tangent:
        """Convert φ to the gradient. It is horizontal by itself."""
        return self.structure.gradient(x, self.partials(x, f_L, f_R))

    def hessian(self, x: Point, xi: Tangent, f_L: Array, f_R: Array, df_L: Array, df_R: Array) -> Tangent:
        """Π of the covariant derivative of the gradient in the total space (equation Riemannian_hessian)."""
        phi = self.partials(x, f_L, f_R)
        dphi = self.partials_derivative(x, xi, f_L, f_R, df_L, df_R)
        return self.to_horizontal(x, self.structure.hessian(x, xi, phi, dphi))


def _added_to(fresh: Tangent, eta: Tangent) -> Tangent:
    """Return fresh + η in the arrays of `fresh`: the pages of new tall arrays would cost most."""
    return type(fresh)(*map(iadd, fresh, eta))


def random_invertible(rank: int, seed: int | None) -> np.ndarray[Any, Any]:
    """Return a random r×r matrix, which is invertible."""
    return np.random.default_rng(seed).standard_normal((rank, rank))


def random_orthogonal(rank: int, seed: int | None) -> np.ndarray[Any, Any]:
    """Return a random r×r orthogonal matrix."""
    Q, R = np.linalg.qr(np.random.default_rng(seed).standard_normal((rank, rank)))
    return np.asarray(Q * np.sign(np.diagonal(R)))


def random_signed_permutation(rank: int, seed: int | None) -> np.ndarray[Any, Any]:
    """Return a random r×r permutation matrix with signs."""
    rng = np.random.default_rng(seed)
    return np.asarray(np.eye(rank)[rng.permutation(rank)] * rng.choice([-1.0, 1.0], size=rank))
