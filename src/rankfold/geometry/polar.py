"""W = U B Vᵀ, up to (UO, OᵀBO, VO): the polar factorisation (section 3.2)."""

from __future__ import annotations

from typing import NamedTuple

from rankfold.geometry.base import LineCoefficients
from rankfold.geometry.product import ProductGeometry, Structure, random_orthogonal, random_signed_permutation
from rankfold.geometry.spaces import PositiveDefinite, PositiveDiagonal, Stiefel
from rankfold.linalg import (
    Array,
    add_product,
    asarray_like,
    diagonal,
    gram,
    lyapunov,
    namespace,
    pair_sums,
    skew,
    sym,
)

_STIEFEL = Stiefel()


class PolarFactors(NamedTuple):
    """A point or a tangent vector of `Polar`."""

    U: Array
    B: Array
    V: Array


def _generator(x: PolarFactors, eta: PolarFactors) -> Array:
    """Ω with ΩB² + B²Ω = B(skew(Uᵀη_U) + skew(Vᵀη_V) − 2 skew(B⁻¹η_B))B.

    In the eigenbasis of B, not of B², which would square the condition number.
    """
    b, E = namespace(x.B).linalg.eigh(x.B)
    turn = E.T @ (skew(gram(x.U, eta.U)) + skew(gram(x.V, eta.V))) @ E
    stretch = E.T @ eta.B @ E
    right = b[:, None] * turn * b[None, :] + (b[:, None] - b[None, :]) * stretch
    return E @ (right / pair_sums(b * b)) @ E.T


def _inverse(B: Array) -> Array:
    return namespace(B).linalg.inv(B)


_MIDDLES = {
    "spd": Structure(
        (_STIEFEL, PositiveDefinite(), _STIEFEL), _generator, random_orthogonal, second_order=True
    ),
    "diagonal": Structure(
        (_STIEFEL, PositiveDiagonal(), _STIEFEL), None, random_signed_permutation, second_order=True
    ),
}


class Polar(ProductGeometry):
    """Matrices W = U B Vᵀ with orthonormal U (d1×r) and V (d2×r).

    Parameters
    ----------
    shape, rank
        The shape and the rank of W.
    middle
        `"spd"`: B symmetric positive definite, on the quotient by O(r). `"diagonal"`: B diagonal with
        positive entries, the search space of the singular value decomposition, with no quotient left but
        signs and permutations.

    Examples
    --------
    >>> import rankfold as rf
    >>> geometry = rf.Polar((6, 5), rank=2)
    >>> x = geometry.random_point(seed=0)
    >>> x.U.shape, x.B.shape, x.V.shape
    ((6, 2), (2, 2), (5, 2))
    """

    point_type = tangent_type = PolarFactors
    structures = _MIDDLES
    small_fields = ("B",)

    def __init__(self, shape: tuple[int, int], rank: int, middle: str = "spd") -> None:
        super().__init__(shape, rank, middle=middle)
        self.middle = middle
        self.has_lift = middle != "diagonal"  # where two entries of that agree, a Ẇ has no one tangent

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return (self.shape[0], self.rank), (self.rank, self.rank), (self.shape[1], self.rank)

    def factors(self, x: PolarFactors) -> tuple[Array, Array]:
        """Return (UB, V)."""
        return x.U @ x.B, x.V

    def tangent_factors(self, x: PolarFactors, xi: PolarFactors) -> tuple[Array, Array]:
        """Return (ξ_U B + U ξ_B, ξ_V)."""
        return xi.U @ x.B + x.U @ xi.B, xi.V

    def line(self, x: PolarFactors, xi: PolarFactors) -> LineCoefficients:
        """(U + tξ_U)(B + tξ_B)(V + tξ_V)ᵀ, of degree 3 in t."""
        return (x.U @ x.B, xi.U @ x.B + x.U @ xi.B, xi.U @ xi.B), (x.V, xi.V)

    def from_svd(self, U: Array, s: Array, V: Array) -> PolarFactors:
        """Return (U, diag(s), V)."""
        self._check_svd(U, s, V)
        return PolarFactors(U, diagonal(s), V)

    def act(self, z: PolarFactors, M: Array) -> PolarFactors:
        """(UO, OᵀBO, VO) with O = M: equation equivalence-classes-polar."""
        O = asarray_like(M, z.U)
        return PolarFactors(z.U @ O, O.T @ z.B @ O, z.V @ O)

    def vertical(self, x: PolarFactors, A: Array) -> PolarFactors:
        """(UΩ, BΩ − ΩB, VΩ) with Ω the skew part of A."""
        Ω = skew(A)
        return PolarFactors(x.U @ Ω, x.B @ Ω - Ω @ x.B, x.V @ Ω)

    def lift(self, x: PolarFactors, dL: Array, dR: Array) -> PolarFactors:
        """Split Ẇ = (dL + U B sym(VᵀdR)) Vᵀ + U B Ψ(dR)ᵀ, and the first factor into ξ_U B + U ξ_B; then Π.

        With K = Uᵀ(ξ_U B + U ξ_B) = ωB + ξ_B, ω skew and ξ_B symmetric, ωB + Bω = 2 skew(K).
        """
        S = sym(gram(x.V, dR))
        left = add_product(dL, x.U, x.B @ S)
        K = gram(x.U, left)
        ω = lyapunov(x.B, 2 * skew(K))
        ξ_B = sym(K - ω @ x.B)
        ξ_U = add_product(left, x.U, -ξ_B) @ _inverse(x.B)
        xi: PolarFactors = self.to_horizontal(x, PolarFactors(ξ_U, ξ_B, add_product(dR, x.V, -S)))
        return xi

    def lowered(self, x: PolarFactors, xi: PolarFactors) -> tuple[Array, Array]:
        """Undo the gradient: f_L = (ξ_U + U sym(MB)) B⁻¹ and f_R = ξ_V + V sym(MᵀB), with M = UᵀSV.

        ξ tells the symmetric part of M by ξ_B, and its skew part k by kB + Bk = Uᵀξ_U − Vᵀξ_V.
        """
        s = self.structure.lowered(x, xi).B
        M = s + lyapunov(x.B, skew(gram(x.U, xi.U)) - skew(gram(x.V, xi.V)))
        f_L = add_product(xi.U, x.U, sym(M @ x.B)) @ _inverse(x.B)
        return f_L, add_product(xi.V, x.V, sym(M.T @ x.B))

    def partials(self, x: PolarFactors, f_L: Array, f_R: Array) -> PolarFactors:
        """φ_U = f_L B, φ_B = Uᵀf_L, φ_V = f_R."""
        return PolarFactors(f_L @ x.B, gram(x.U, f_L), f_R)

    def gradient(self, x: PolarFactors, f_L: Array, f_R: Array) -> PolarFactors:
        """Convert φ to the gradient factor by factor; Uᵀφ_U = φ_B B saves one Gram."""
        phi = self.partials(x, f_L, f_R)
        _, middle, _ = self.structure.spaces
        along_U = _STIEFEL.project(x.U, phi.U, phi.B @ x.B)
        return PolarFactors(along_U, middle.gradient(x.B, phi.B), _STIEFEL.gradient(x.V, phi.V))

    def partials_derivative(
        self, x: PolarFactors, xi: PolarFactors, f_L: Array, f_R: Array, df_L: Array, df_R: Array
    ) -> PolarFactors:
        """φ̇_U = df_L B + f_L ξ_B, φ̇_B = ξ_Uᵀf_L + Uᵀdf_L, φ̇_V = df_R."""
        return PolarFactors(df_L @ x.B + f_L @ xi.B, gram(xi.U, f_L) + gram(x.U, df_L), df_R)
