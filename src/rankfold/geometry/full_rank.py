"""W = G Hᵀ, up to (G M⁻¹, H Mᵀ): the full-rank factorisation (section 3.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from rankfold.geometry.base import Curve
from rankfold.geometry.product import ProductGeometry, random_orthogonal
from rankfold.geometry.spaces import EuclideanFullColumnRank, FactorSpace, FullColumnRank
from rankfold.linalg import (
    Array,
    asarray_like,
    gram,
    gram_factor,
    gram_in_basis,
    inverse_gram,
    pair_sums,
    sym,
    trace,
)


class Factors(NamedTuple):
    """A point or a tangent vector of `FullRank`."""

    G: Array
    H: Array


class FullRank(ProductGeometry):
    """Matrices W = G Hᵀ with G (d1×r) and H (d2×r) of full column rank.

    Parameters
    ----------
    shape, rank
        The shape and the rank of W.
    metric
        `"invariant"`: Tr((GᵀG)⁻¹ξ_Gᵀη_G) + Tr((HᵀH)⁻¹ξ_Hᵀη_H), the paper's, on the quotient by GL(r).
        `"preconditioned"`: Tr(HᵀH ξ_Gᵀη_G) + Tr(GᵀG ξ_Hᵀη_H), on the same quotient: the metric of the cost
        ½‖W‖², block by block, which makes gradients scale like Newton steps of a quadratic cost.
        `"euclidean"`: Tr(ξ_Gᵀη_G) + Tr(ξ_Hᵀη_H), which GL(r) does not leave invariant: the total space.

    Examples
    --------
    >>> import rankfold as rf
    >>> geometry = rf.FullRank((6, 5), rank=2)
    >>> x = geometry.random_point(seed=0)
    >>> x.G.shape, x.H.shape, geometry.dimension
    ((6, 2), (5, 2), 18)
    """

    point_type = tangent_type = Factors
    straight = True

    def __new__(cls, shape: tuple[int, int], rank: int, metric: str = "invariant") -> FullRank:
        """Choose the class of the metric, as `pathlib.Path` chooses the class of the system."""
        if metric not in _CLASSES:
            raise ValueError(f"metric must be one of {', '.join(map(repr, _CLASSES))}, not {metric!r}")
        chosen: FullRank = object.__new__(_CLASSES[metric])
        return chosen

    def __init__(self, shape: tuple[int, int], rank: int, metric: str = "invariant") -> None:
        super().__init__(shape, rank)
        self.metric = metric

    def __getnewargs__(self) -> tuple[tuple[int, int], int, str]:
        return self.shape, self.rank, self.metric

    def __repr__(self) -> str:
        return f"FullRank({self.shape}, rank={self.rank}, metric={self.metric!r})"

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return (self.shape[0], self.rank), (self.shape[1], self.rank)

    def factors(self, x: Factors) -> tuple[Array, Array]:
        """Return (G, H)."""
        return x.G, x.H

    def tangent_factors(self, x: Factors, xi: Factors) -> tuple[Array, Array]:
        """Return (ξ_G, ξ_H)."""
        return xi.G, xi.H

    def line(self, x: Factors, xi: Factors) -> Curve:
        """(G + tξ_G)(H + tξ_H)ᵀ."""
        return (x.G, xi.G), (x.H, xi.H)

    def from_svd(self, U: Array, s: Array, V: Array) -> Factors:
        """Return the balanced factors G = U s^½, H = V s^½."""
        self._check_svd(U, s, V)
        roots = array_namespace(s).sqrt(s)
        return Factors(U * roots, V * roots)

    def act(self, z: Factors, M: Array) -> Factors:
        """(G M⁻¹, H Mᵀ): equation balanced-group-action."""
        M = asarray_like(M, z.G)
        return Factors(z.G @ array_namespace(M).linalg.inv(M), z.H @ M.T)

    def random_symmetry(self, seed: int | None = None) -> np.ndarray[Any, Any]:
        """Return a random invertible matrix."""
        return np.random.default_rng(seed).standard_normal((self.rank, self.rank))

    def vertical(self, x: Factors, A: Array) -> Factors:
        """(−GΛ, HΛᵀ) with Λ = A, so that Π(η) = (η_G + GΛ, η_H − HΛᵀ)."""
        return Factors(x.G @ -A, x.H @ A.T)

    def partials(self, x: Factors, f_L: Array, f_R: Array) -> Factors:
        """φ_G = f_L, φ_H = f_R."""
        return Factors(f_L, f_R)

    def partials_derivative(
        self, x: Factors, xi: Factors, f_L: Array, f_R: Array, df_L: Array, df_R: Array
    ) -> Factors:
        """φ̇_G = df_L, φ̇_H = df_R."""
        return Factors(df_L, df_R)

    def spaces(self) -> tuple[FactorSpace, ...]:
        """Return two spaces of matrices of full column rank."""
        return FullColumnRank(), FullColumnRank()

    def generator(self, x: Factors, eta: Factors) -> Array | None:
        """Solve the Sylvester equation M X + X M = GᵀG Hᵀη_H − η_GᵀG HᵀH, M = GᵀG HᵀH, for X = Λᵀ.

        In the balanced gauge, where G N and H K both have the Gram matrix diag(σ), it decouples, and no
        Gram matrix is multiplied by another: σ are the singular values of W itself.
        """
        (T_G, N_G, graded_G), (T_H, N_H, graded_H) = gram_factor(x.G), gram_factor(x.H)
        xp = array_namespace(x.G)
        A, σ, Ct = xp.linalg.svd(T_G @ T_H.T)
        N, K = N_G @ (A * xp.sqrt(σ)), N_H @ (Ct.T * xp.sqrt(σ))
        in_H = gram_in_basis(x.H, eta.H, K, graded_H)
        in_G = gram_in_basis(eta.G, x.G, N, graded_G)
        X = (σ[:, None] * in_H - in_G * σ[None, :]) / pair_sums(σ * σ)
        return N @ X.T @ K.T


class _Euclidean(FullRank):
    """Tr(ξ_Gᵀη_G) + Tr(ξ_Hᵀη_H): the total space, in which (GO, HO) with orthogonal O is an isometry."""

    second_order = True

    @property
    def dimension(self) -> int:
        """The dimension of the total space."""
        return sum(self.shape) * self.rank

    def spaces(self) -> tuple[FactorSpace, ...]:
        return EuclideanFullColumnRank(), EuclideanFullColumnRank()

    def random_symmetry(self, seed: int | None = None) -> np.ndarray[Any, Any]:
        return random_orthogonal(self.rank, seed)

    def generator(self, x: Factors, eta: Factors) -> None:
        return None


class _Preconditioned(FullRank):
    """Tr(HᵀH ξ_Gᵀη_G) + Tr(GᵀG ξ_Hᵀη_H): each factor measured in the metric that the other one induces."""

    def inner(self, x: Factors, xi: Factors, eta: Factors) -> float:
        return trace(gram(x.H, x.H) @ gram(xi.G, eta.G)) + trace(gram(x.G, x.G) @ gram(xi.H, eta.H))

    def gradient(self, x: Factors, f_L: Array, f_R: Array) -> Factors:
        """(φ_G (HᵀH)⁻¹, φ_H (GᵀG)⁻¹)."""
        return Factors(f_L @ inverse_gram(x.H), f_R @ inverse_gram(x.G))

    def generator(self, x: Factors, eta: Factors) -> Array:
        """Λ = ½(η_HᵀH (HᵀH)⁻¹ − (GᵀG)⁻¹Gᵀη_G)."""
        in_H = gram(eta.H, x.H) @ inverse_gram(x.H)
        in_G = inverse_gram(x.G) @ gram(x.G, eta.G)
        return (in_H - in_G) / 2

    def hessian(self, x: Factors, xi: Factors, f_L: Array, f_R: Array, df_L: Array, df_R: Array) -> Factors:
        """Π of D grad[ξ] + A(ξ, grad), whose connection couples the factors (Koszul formula)."""
        γ = self.gradient(x, f_L, f_R)
        along_G = _coupled(x.G, xi.G, γ.G, df_L, x.H, xi.H, γ.H)
        along_H = _coupled(x.H, xi.H, γ.H, df_R, x.G, xi.G, γ.G)
        return Factors(*self.to_horizontal(x, Factors(along_G, along_H)))


def _coupled(G: Array, ξ: Array, γ: Array, dφ: Array, H: Array, ξ_H: Array, γ_H: Array) -> Array:
    """(φ̇_G − γ_G sym(Hᵀξ_H) + ξ_G sym(Hᵀγ_H) − G sym(ξ_Hᵀγ_H)) (HᵀH)⁻¹."""
    inner = dφ - γ @ sym(gram(H, ξ_H)) + ξ @ sym(gram(H, γ_H)) - G @ sym(gram(ξ_H, γ_H))
    return inner @ inverse_gram(H)


_CLASSES: dict[str, Any] = {
    "invariant": FullRank,
    "euclidean": _Euclidean,
    "preconditioned": _Preconditioned,
}
