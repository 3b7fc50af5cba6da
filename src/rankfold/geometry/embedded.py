"""W = U Σ Vᵀ as a submanifold of R^{d1×d2} (section 6.4, Table ingredients_embedded)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankfold.geometry.base import Geometry, LineCoefficients
from rankfold.geometry.product import random_signed_permutation
from rankfold.geometry.spaces import PositiveVector, Space, Stiefel
from rankfold.linalg import (
    Array,
    add_product,
    asarray_like,
    diagonal,
    eps,
    gram,
    gram_factor,
    namespace,
    polar,
    thin_svd,
    trace,
)


class SVDFactors(NamedTuple):
    """A point of `Embedded`: W = U diag(s) Vᵀ."""

    U: Array
    s: Array
    V: Array


class SVDTangent(NamedTuple):
    """A tangent vector of `Embedded`: the matrix U M Vᵀ + Up Vᵀ + U Vpᵀ, with UᵀUp = 0 and VᵀVp = 0."""

    M: Array
    Up: Array
    Vp: Array


class Embedded(Geometry):
    """Matrices of rank r as a submanifold of all d1×d2 matrices, with the Euclidean metric.

    Examples
    --------
    >>> import rankfold as rf
    >>> geometry = rf.Embedded((6, 5), rank=2)
    >>> x = geometry.random_point(seed=0)
    >>> x.U.shape, x.s.shape, x.V.shape
    ((6, 2), (2,), (5, 2))
    """

    point_type = SVDFactors
    tangent_type = SVDTangent
    small_fields = ("s", "M")
    second_order = True

    def spaces(self) -> tuple[Space, ...]:
        """Return what each of U, s and V must be."""
        return Stiefel(), PositiveVector(), Stiefel()

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return (self.shape[0], self.rank), (self.rank,), (self.shape[1], self.rank)

    def factors(self, x: SVDFactors) -> tuple[Array, Array]:
        """Return (UΣ, V)."""
        return x.U * x.s, x.V

    def tangent_factors(self, x: SVDFactors, xi: SVDTangent) -> tuple[Array, Array]:
        """Return (UM + Up, Vp Σ⁻¹)."""
        return x.U @ xi.M + xi.Up, xi.Vp / x.s

    def line(self, x: SVDFactors, xi: SVDTangent) -> LineCoefficients:
        """W + tξ, which is linear in t, as (UΣ + t(UM + Up)) Vᵀ + U (tVp)ᵀ with 2r columns."""
        xp = namespace(x.U)
        Ls = [x.U * x.s, x.U], [x.U @ xi.M + xi.Up, 0 * x.U]
        Rs = [x.V, 0 * x.V], [0 * x.V, xi.Vp]
        return [xp.concat(L, axis=1) for L in Ls], [xp.concat(R, axis=1) for R in Rs]

    def from_svd(self, U: Array, s: Array, V: Array) -> SVDFactors:
        """Return (U, s, V)."""
        self._check_svd(U, s, V)
        return SVDFactors(U, s, V)

    def act(self, z: SVDFactors | SVDTangent, M: Array) -> SVDFactors | SVDTangent:
        """Permute and flip the singular pairs by the signed permutation M."""
        P = asarray_like(M, z[1])
        if isinstance(z, SVDTangent):
            return SVDTangent(P.T @ z.M @ P, z.Up @ P, z.Vp @ P)
        return SVDFactors(z.U @ P, abs(P.T) @ z.s, z.V @ P)

    def random_symmetry(self, seed: int | None = None) -> np.ndarray[Any, Any]:
        """Return a random signed permutation: all the freedom that a singular value decomposition has."""
        return random_signed_permutation(self.rank, seed)

    def inner(self, x: SVDFactors, xi: SVDTangent, eta: SVDTangent) -> float:
        """Return the Euclidean inner product of the two matrices."""
        return trace(gram(xi.M, eta.M)) + trace(gram(xi.Up, eta.Up)) + trace(gram(xi.Vp, eta.Vp))

    def to_tangent(self, x: SVDFactors, z: SVDTangent) -> SVDTangent:
        """Return the same matrix U M Vᵀ + Up Vᵀ + U Vpᵀ, with Up and Vp made normal to U and V."""
        in_U, in_V = gram(x.U, z.Up), gram(x.V, z.Vp)
        return SVDTangent(z.M + in_U + in_V.T, add_product(z.Up, x.U, -in_U), add_product(z.Vp, x.V, -in_V))

    def to_horizontal(self, x: SVDFactors, eta: SVDTangent) -> SVDTangent:
        """Return η itself: there is no quotient."""
        return eta

    def _ambient(self, x: SVDFactors, entries: Any) -> SVDTangent:
        return SVDTangent(entries(x.s[:, None] * x.s[None, :]), entries(x.U), entries(x.V))

    def retract(self, x: SVDFactors, xi: SVDTangent) -> SVDFactors:
        """Return the best approximation of W + ξ of rank r, from the SVD of a core of at most 2r×2r."""
        xp = namespace(x.U)
        (R_U, N_U), (R_V, N_V) = _thin_factors(xi)
        zeros = xp.zeros_like(R_U @ R_V.T)
        top = xp.concat([diagonal(x.s) + xi.M, R_V.T], axis=1)
        core = xp.concat([top, xp.concat([R_U, zeros], axis=1)], axis=0)
        A, s, Ct = thin_svd(core)
        A, s, C = A[:, : self.rank], s[: self.rank], Ct[: self.rank, :].T
        U = add_product(x.U @ A[: self.rank, :], xi.Up, N_U @ A[self.rank :, :])
        V = add_product(x.V @ C[: self.rank, :], xi.Vp, N_V @ C[self.rank :, :])
        # `polar` keeps rounding errors of orthonormality from adding up; the floor keeps the rank.
        return SVDFactors(polar(U), xp.clip(s, min=float(s[0]) * eps(s)), polar(V))

    def transport(self, x: SVDFactors, xi: SVDTangent, y: SVDFactors) -> SVDTangent:
        """Project the matrix ξ = (UM + Up)Vᵀ + U Vpᵀ onto the tangent space at y."""
        left = x.U @ xi.M + xi.Up
        on_V = left @ gram(x.V, y.V) + x.U @ gram(xi.Vp, y.V)
        on_U = x.V @ gram(left, y.U) + xi.Vp @ gram(x.U, y.U)
        return _project(y, on_V, on_U)

    def gradient(self, x: SVDFactors, f_L: Array, f_R: Array) -> SVDTangent:
        """Project S, given by S V = f_L and SᵀU = f_R Σ⁻¹."""
        return _project(x, f_L, f_R / x.s)

    def lift(self, x: SVDFactors, dL: Array, dR: Array) -> SVDTangent:
        """Return dL Vᵀ + U (dR Σ)ᵀ, with the parts that are not normal moved to M."""
        return self.to_tangent(x, SVDTangent(0 * diagonal(x.s), dL, dR * x.s))

    def lowered(self, x: SVDFactors, xi: SVDTangent) -> tuple[Array, Array]:
        """(ξ V, ξᵀUΣ): the matrix ξ is the derivative of the cost itself."""
        return add_product(xi.Up, x.U, xi.M), add_product(xi.Vp, x.V, xi.M.T) * x.s

    def hessian(
        self, x: SVDFactors, xi: SVDTangent, f_L: Array, f_R: Array, df_L: Array, df_R: Array
    ) -> SVDTangent:
        """Project Ṡ, plus the curvature terms S Vp Σ⁻¹ and Sᵀ Up Σ⁻¹ (Vandereycken 2013, Proposition 2.2).

        df_L = Ṡ V + S Vp Σ⁻¹ and df_R Σ⁻¹ = ṠᵀU + SᵀU M Σ⁻¹ + SᵀUp Σ⁻¹ hold both together.
        """
        S_U, in_U = f_R / x.s, gram(x.U, df_L)
        dV = df_R / x.s - S_U @ (xi.M / x.s)
        M = in_U - gram(S_U, xi.Vp / x.s)
        return SVDTangent(M, add_product(df_L, x.U, -in_U), add_product(dV, x.V, -gram(x.V, dV)))


def _project(x: SVDFactors, Z_V: Array, Z_U: Array) -> SVDTangent:
    """Return the orthogonal projection of a matrix Z onto the tangent space, from Z_V = Z V and Z_U = ZᵀU."""
    M = gram(x.U, Z_V)
    return SVDTangent(M, add_product(Z_V, x.U, -M), add_product(Z_U, x.V, -M.T))


def _thin_factors(xi: SVDTangent) -> list[tuple[Array, Array]]:
    """Return (R, N) for Z = Up and for Z = Vp: Z = (Z N) R with Z N orthonormal.

    Directions that are lost in the rounding of ξ are left out. There always are some when 2r > d, for then
    the complement of U has fewer than r dimensions.
    """
    xp = namespace(xi.M)
    parts = [xp.linalg.svd(gram_factor(Z).T) for Z in (xi.Up, xi.Vp)]
    lost = 100 * eps(xi.M) * max(float(xp.linalg.matrix_norm(xi.M)), *(float(s[0]) for _, s, _ in parts))
    thin = []
    for _, s, Et in parts:
        k = int(xp.sum(xp.astype(s > lost, xp.int64)))
        thin.append((s[:k, None] * Et[:k, :], Et[:k, :].T / s[:k]))
    return thin
