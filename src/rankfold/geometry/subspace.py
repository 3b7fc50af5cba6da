"""W = U Yᵀ, up to (UO, YO): the subspace-projection factorisation (section 3.3)."""

from __future__ import annotations

from typing import NamedTuple

from rankfold.geometry.product import ProductGeometry, Structure, random_orthogonal
from rankfold.geometry.spaces import EuclideanFullColumnRank, FullColumnRank, Stiefel
from rankfold.linalg import (
    Array,
    add_product,
    asarray_like,
    gram,
    gram_factor,
    gram_in_basis,
    identity_like,
    lyapunov,
    namespace,
    pair_sums,
    skew,
    sym,
)


class SubspaceFactors(NamedTuple):
    """A point or a tangent vector of `SubspaceProjection`."""

    U: Array
    Y: Array


def _invariant_generator(x: SubspaceFactors, eta: SubspaceFactors) -> Array:
    """Solve QΩ̃ + Ω̃Q = 2Q skew(Uᵀη_U)Q + 2 skew(Q Yᵀη_Y), then QΩ + ΩQ = Ω̃, with Q = YᵀY.

    Both at once in the eigenbasis E of Q, whose eigenvalues λ are the squared singular values of Y.
    """
    T, _, graded = gram_factor(x.Y)
    _, s, Et = namespace(x.Y).linalg.svd(T)
    λ, E = s * s, Et.T
    turn = E.T @ skew(gram(x.U, eta.U)) @ E
    stretch = λ[:, None] * gram_in_basis(x.Y, eta.Y, E, graded)
    right = 2 * λ[:, None] * turn * λ[None, :] + stretch - stretch.T
    return E @ (right / pair_sums(λ) ** 2) @ E.T


def _euclidean_generator(x: SubspaceFactors, eta: SubspaceFactors) -> Array:
    """Solve (I + Q)Ω + Ω(I + Q) = 2 skew(Uᵀη_U + Yᵀη_Y), with Q = YᵀY."""
    Q = gram(x.Y, x.Y)
    identity = identity_like(Q, Q.shape[0])
    return lyapunov(identity + Q, 2 * skew(gram(x.U, eta.U) + gram(x.Y, eta.Y)))


_METRICS = {
    "invariant": Structure((Stiefel(), FullColumnRank()), _invariant_generator, random_orthogonal),
    "euclidean": Structure(  # straight lines are geodesics of Y
        (Stiefel(), EuclideanFullColumnRank()), _euclidean_generator, random_orthogonal, second_order=True
    ),
}


class SubspaceProjection(ProductGeometry):
    """Matrices W = U Yᵀ with orthonormal U (d1×r) and Y (d2×r) of full column rank, on the quotient by O(r).

    Parameters
    ----------
    shape, rank
        The shape and the rank of W.
    metric
        `"invariant"`: Tr(ξ_Uᵀη_U) + Tr((YᵀY)⁻¹ξ_Yᵀη_Y), the paper's (equation metric_uy).
        `"euclidean"`: Tr(ξ_Uᵀη_U) + Tr(ξ_Yᵀη_Y) (equation euclidean_uy).

    Examples
    --------
    >>> import rankfold as rf
    >>> geometry = rf.SubspaceProjection((6, 5), rank=2)
    >>> x = geometry.random_point(seed=0)
    >>> x.U.shape, x.Y.shape
    ((6, 2), (5, 2))
    """

    point_type = tangent_type = SubspaceFactors
    structures = _METRICS
    small_fields = ()

    def __init__(self, shape: tuple[int, int], rank: int, metric: str = "invariant") -> None:
        super().__init__(shape, rank, metric=metric)
        self.metric = metric

    def from_svd(self, U: Array, s: Array, V: Array) -> SubspaceFactors:
        """Return (U, V diag(s))."""
        self._check_svd(U, s, V)
        return SubspaceFactors(U, V * s)

    def act(self, z: SubspaceFactors, M: Array) -> SubspaceFactors:
        """(UO, YO) with O = M: equation equivalence-classes-subspace-proj."""
        O = asarray_like(M, z.U)
        return SubspaceFactors(z.U @ O, z.Y @ O)

    def lift(self, x: SubspaceFactors, dL: Array, dR: Array) -> SubspaceFactors:
        """Π(Ψ(dL), dR + Y sym(UᵀdL)): what Ψ takes off dL = ξ_U + U S, (U S)Yᵀ, is U (Y S)ᵀ."""
        S = sym(gram(x.U, dL))
        xi: SubspaceFactors = self.to_horizontal(
            x, SubspaceFactors(add_product(dL, x.U, -S), add_product(dR, x.Y, S))
        )
        return xi

    def lowered(self, x: SubspaceFactors, xi: SubspaceFactors) -> tuple[Array, Array]:
        """Undo the gradient; what Ψ took off f_L is U sym(Uᵀf_L), and Uᵀf_L = UᵀSY = f_RᵀY."""
        f_L, f_R = self.structure.lowered(x, xi)
        return add_product(f_L, x.U, sym(gram(f_R, x.Y))), f_R

    def vertical(self, x: SubspaceFactors, A: Array) -> SubspaceFactors:
        """(UΩ, YΩ) with Ω the skew part of A."""
        Ω = skew(A)
        return SubspaceFactors(x.U @ Ω, x.Y @ Ω)
