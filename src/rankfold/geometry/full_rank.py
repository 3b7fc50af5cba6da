"""W = G Hᵀ, up to (G M⁻¹, H Mᵀ): the full-rank factorisation (section 3.1)."""

from __future__ import annotations

from typing import NamedTuple

from rankfold.geometry.product import ProductGeometry, Structure, random_invertible, random_orthogonal
from rankfold.geometry.spaces import EuclideanFullColumnRank, FullColumnRank
from rankfold.linalg import (
    Array,
    asarray_like,
    gram,
    gram_factor,
    gram_in_basis,
    inverse_gram,
    namespace,
    pair_sums,
    sym,
    trace,
)


class FullRankFactors(NamedTuple):
    """A point or a tangent vector of `FullRank`."""

    G: Array
    H: Array


def _balanced_generator(x: FullRankFactors, eta: FullRankFactors) -> Array:
    """Solve the Sylvester equation M X + X M = GᵀG Hᵀη_H − η_GᵀG HᵀH, M = GᵀG HᵀH, for X = Λᵀ.

    In the balanced gauge, where G N and H K both have the Gram matrix diag(σ), it decouples, and no
    Gram matrix is multiplied by another: σ are the singular values of W itself.
    """
    (T_G, N_G, graded_G), (T_H, N_H, graded_H) = gram_factor(x.G), gram_factor(x.H)
    xp = namespace(x.G)
    A, σ, Ct = xp.linalg.svd(T_G @ T_H.T)
    N, K = N_G @ (A * xp.sqrt(σ)), N_H @ (Ct.T * xp.sqrt(σ))
    in_H = gram_in_basis(x.H, eta.H, K, graded_H)
    in_G = gram_in_basis(eta.G, x.G, N, graded_G)
    X = (σ[:, None] * in_H - in_G * σ[None, :]) / pair_sums(σ * σ)
    return N @ X.T @ K.T


def _preconditioned_generator(x: FullRankFactors, eta: FullRankFactors) -> Array:
    """Λ = ½(η_HᵀH (HᵀH)⁻¹ − (GᵀG)⁻¹Gᵀη_G)."""
    in_H = gram(eta.H, x.H) @ inverse_gram(x.H)
    in_G = inverse_gram(x.G) @ gram(x.G, eta.G)
    return (in_H - in_G) / 2


class Preconditioned(Structure):
    """Tr(HᵀH ξ_Gᵀη_G) + Tr(GᵀG ξ_Hᵀη_H): each factor measured in the metric that the other one induces."""

    def inner(self, x: FullRankFactors, xi: FullRankFactors, eta: FullRankFactors) -> float:
        """Return the metric."""
        return trace(gram(x.H, x.H) @ gram(xi.G, eta.G)) + trace(gram(x.G, x.G) @ gram(xi.H, eta.H))

    def gradient(self, x: FullRankFactors, phi: FullRankFactors) -> FullRankFactors:
        """(φ_G (HᵀH)⁻¹, φ_H (GᵀG)⁻¹)."""
        phi_G, phi_H = phi  # partial derivatives, which may come as a plain list
        return FullRankFactors(phi_G @ inverse_gram(x.H), phi_H @ inverse_gram(x.G))

    def lowered(self, x: FullRankFactors, xi: FullRankFactors) -> FullRankFactors:
        """(ξ_G HᵀH, ξ_H GᵀG)."""
        return FullRankFactors(xi.G @ gram(x.H, x.H), xi.H @ gram(x.G, x.G))

    def hessian(
        self, x: FullRankFactors, xi: FullRankFactors, phi: FullRankFactors, dphi: FullRankFactors
    ) -> FullRankFactors:
        """D grad[ξ] + A(ξ, grad), whose connection couples the factors (Koszul formula)."""
        γ, (dphi_G, dphi_H) = self.gradient(x, phi), dphi
        along_G = coupled(x.G, xi.G, γ.G, dphi_G, x.H, xi.H, γ.H)
        return FullRankFactors(along_G, coupled(x.H, xi.H, γ.H, dphi_H, x.G, xi.G, γ.G))


def coupled(G: Array, ξ: Array, γ: Array, dφ: Array, H: Array, ξ_H: Array, γ_H: Array) -> Array:
    """(φ̇_G − γ_G sym(Hᵀξ_H) + ξ_G sym(Hᵀγ_H) − G sym(ξ_Hᵀγ_H)) (HᵀH)⁻¹."""
    inner = dφ - γ @ sym(gram(H, ξ_H)) + ξ @ sym(gram(H, γ_H)) - G @ sym(gram(ξ_H, γ_H))
    return inner @ inverse_gram(H)


_INVARIANT, _EUCLIDEAN = (FullColumnRank(),) * 2, (EuclideanFullColumnRank(),) * 2
_METRICS = {
    "invariant": Structure(_INVARIANT, _balanced_generator, random_invertible),
    "preconditioned": Preconditioned(_INVARIANT, _preconditioned_generator, random_invertible),
    # GL(r) does not leave it invariant, and O(r), which does, is not divided out: fibres have no extent.
    "euclidean": Structure(_EUCLIDEAN, None, random_orthogonal, second_order=True),
}


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

    point_type = tangent_type = FullRankFactors
    structures = _METRICS
    small_fields = ()
    straight = True

    def __init__(self, shape: tuple[int, int], rank: int, metric: str = "invariant") -> None:
        super().__init__(shape, rank, metric=metric)
        self.metric = metric
        self.has_factors = self.structure.generator is None

    @property
    def dimension(self) -> int:
        """The dimension of the quotient, or of the total space where nothing is divided out."""
        return super().dimension if self.structure.generator else sum(self.shape) * self.rank

    def from_svd(self, U: Array, s: Array, V: Array) -> FullRankFactors:
        """Return the balanced factors G = U s^½, H = V s^½."""
        self._check_svd(U, s, V)
        roots = namespace(s).sqrt(s)
        return FullRankFactors(U * roots, V * roots)

    def act(self, z: FullRankFactors, M: Array) -> FullRankFactors:
        """(G M⁻¹, H Mᵀ): equation balanced-group-action."""
        M = asarray_like(M, z.G)
        return FullRankFactors(z.G @ namespace(M).linalg.inv(M), z.H @ M.T)

    def lift(self, x: FullRankFactors, dL: Array, dR: Array) -> FullRankFactors:
        """Π(dL, dR)."""
        xi: FullRankFactors = self.to_horizontal(x, FullRankFactors(dL, dR))
        return xi

    def lowered(self, x: FullRankFactors, xi: FullRankFactors) -> tuple[Array, Array]:
        """Undo the gradient: (ξ_G HᵀH, ξ_H GᵀG) for the preconditioned metric."""
        f_L, f_R = self.structure.lowered(x, xi)
        return f_L, f_R

    def vertical(self, x: FullRankFactors, A: Array) -> FullRankFactors:
        """(−GΛ, HΛᵀ) with Λ = A, so that Π(η) = (η_G + GΛ, η_H − HΛᵀ)."""
        return FullRankFactors(x.G @ -A, x.H @ A.T)
