"""The factor spaces the geometries are products of: Stiefel, full column rank, SPD, positive diagonal.

Each owns its tangent projection Ψ (Table projections), its metric (Table spaces), its retraction (Table
retraction), and its conversion of partial derivatives to gradient and Hessian (Table gradient_Hessian).
`hessian` is the covariant derivative of the gradient, ∇_ξ grad = Ψ(D grad[ξ] + A(ξ, grad)), written in the
partial derivative φ and its directional derivative φ̇ (`dphi`).
"""

from __future__ import annotations

from typing import Protocol

from rankfold.linalg import (
    Array,
    add_product,
    afresh,
    eps,
    gram,
    gram_factor,
    gram_in_basis,
    identity_like,
    inverse_gram,
    namespace,
    polar,
    spd_exp,
    sym,
    trace,
)

# Of columns that depend on each other Grams leave a smallest singular value of at most 2 eps: the worst of
# 2000 random matrices of 2 to 30 columns.
_ROUNDING = 8.0


class Space(Protocol):
    """Where a field of a point lives."""

    def flaw(self, y: Array) -> str:
        """What keeps y from being a point of the space, in words with the remedy; empty if nothing does."""


class FactorSpace(Space, Protocol):
    """What a product geometry asks of each of its factors."""

    def project(self, y: Array, z: Array) -> Array:
        """Ψ: the tangent part of an ambient matrix."""

    def inner(self, y: Array, xi: Array, eta: Array) -> float:
        """The Riemannian metric."""

    def retract(self, y: Array, xi: Array) -> Array:
        """Move from y along xi."""

    def gradient(self, y: Array, phi: Array) -> Array:
        """The Riemannian gradient from the partial derivative φ."""

    def lowered(self, y: Array, xi: Array) -> Array:
        """The φ of which xi is the gradient; where several are, the one that is tangent."""

    def hessian(self, y: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        """The covariant derivative of the gradient along xi, from φ and φ̇."""


class Stiefel:
    """Matrices with orthonormal columns, UᵀU = I, with the Euclidean metric."""

    def project(self, U: Array, Z: Array, UtZ: Array | None = None) -> Array:
        """Z − U sym(UᵀZ), with UᵀZ where it is known already."""
        return add_product(Z, U, -sym(gram(U, Z) if UtZ is None else UtZ))

    def inner(self, U: Array, xi: Array, eta: Array) -> float:
        """Tr(ξᵀη)."""
        return trace(gram(xi, eta))

    def retract(self, U: Array, xi: Array) -> Array:
        """uf(U + ξ), of second order; by the Gram of U + ξ, not I + ξᵀξ, so that errors do not add up."""
        return polar(U + xi)

    def gradient(self, U: Array, phi: Array) -> Array:
        """Ψ(φ)."""
        return self.project(U, phi)

    def lowered(self, U: Array, xi: Array) -> Array:
        """ξ itself; φ may also have a part U S with symmetric S."""
        return xi

    def hessian(self, U: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        """Ψ(φ̇ − ξ sym(Uᵀφ))."""
        return self.project(U, add_product(dphi, xi, -sym(gram(U, phi))))

    def flaw(self, U: Array) -> str:
        """Columns that are not orthonormal."""
        xp = namespace(U)
        error = float(xp.max(xp.abs(gram(U, U) - identity_like(U, U.shape[1]))))
        if error <= eps(U) ** 0.5:
            return ""
        return f"must have orthonormal columns (off by {error:.1e}): take Q of its QR decomposition"


class EuclideanFullColumnRank:
    """Matrices of full column rank with the Euclidean metric Tr(ξᵀη)."""

    def project(self, Y: Array, Z: Array) -> Array:
        """Every matrix is tangent: the space is open."""
        return Z

    def inner(self, Y: Array, xi: Array, eta: Array) -> float:
        """Tr(ξᵀη)."""
        return trace(gram(xi, eta))

    def retract(self, Y: Array, xi: Array) -> Array:
        """Y + ξ, along geodesics of the Euclidean metric."""
        return Y + xi

    def gradient(self, Y: Array, phi: Array) -> Array:
        """φ itself."""
        return phi

    def lowered(self, Y: Array, xi: Array) -> Array:
        """ξ itself."""
        return xi

    def hessian(self, Y: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        """φ̇ itself: the metric is constant."""
        return dphi

    def flaw(self, Y: Array) -> str:
        """Columns that are linearly dependent to working precision."""
        factor, xp = gram_factor(Y), namespace(Y)
        s = xp.linalg.svdvals(factor.T)
        independent = float(s[-1]) > _ROUNDING * eps(Y) * float(s[0])
        if independent and factor.graded:
            Q = afresh(Y @ factor.N)  # of columns that cancel exactly a zero: no rounding tells of them
            independent = float(xp.min(xp.linalg.diagonal(gram(Q, Q)))) > 0
        if independent:
            return ""
        return "must have linearly independent columns: use `from_svd` or `random_point`, or lower the rank"


class FullColumnRank(EuclideanFullColumnRank):
    """Matrices of full column rank with the GL(r)-invariant metric Tr((YᵀY)⁻¹ξᵀη).

    The retraction Y + ξ is of first order here, for straight lines are not geodesics of this metric.
    """

    def inner(self, Y: Array, xi: Array, eta: Array) -> float:
        """Tr((YᵀY)⁻¹ξᵀη)."""
        _, N, graded = gram_factor(Y)
        return trace(gram_in_basis(xi, eta, N, graded))

    def gradient(self, Y: Array, phi: Array) -> Array:
        """φ YᵀY."""
        return phi @ gram(Y, Y)

    def lowered(self, Y: Array, xi: Array) -> Array:
        """ξ (YᵀY)⁻¹."""
        return xi @ inverse_gram(Y)

    def connection(self, Y: Array, xi: Array, eta: Array) -> Array:
        """A_Y(ξ, η), what ∇_ξ η adds to the directional derivative of η."""
        inverse = inverse_gram(Y)
        return (
            Y @ (inverse @ sym(gram(eta, xi)))
            - eta @ (inverse @ sym(gram(Y, xi)))
            - xi @ (inverse @ sym(gram(Y, eta)))
        )

    def hessian(self, Y: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        """φ̇ YᵀY + 2φ sym(Yᵀξ) + A_Y(ξ, grad).

        It is GL(r)-equivariant: an ill-conditioned Y is first made orthonormal, where no inverse hurts.
        """
        T, N, graded = gram_factor(Y)
        if graded:
            changed = (Y, N), (xi, N), (phi, T.T), (dphi, T.T)
            return self._hessian(*(afresh(A @ S) for A, S in changed)) @ T
        return self._hessian(Y, xi, phi, dphi)

    def _hessian(self, Y: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        Q = gram(Y, Y)
        return dphi @ Q + phi @ (2 * sym(gram(Y, xi))) + self.connection(Y, xi, phi @ Q)


class PositiveDefinite:
    """Symmetric positive definite matrices with the affine-invariant metric Tr(B⁻¹ξB⁻¹η)."""

    def project(self, B: Array, Z: Array) -> Array:
        """sym(Z)."""
        return sym(Z)

    def inner(self, B: Array, xi: Array, eta: Array) -> float:
        """Tr(B⁻¹ξB⁻¹η)."""
        solve = namespace(B).linalg.solve
        return trace(solve(B, xi) @ solve(B, eta))

    def retract(self, B: Array, xi: Array) -> Array:
        """B^½ exp(B^-½ ξ B^-½) B^½: the exponential map."""
        return spd_exp(B, xi)

    def gradient(self, B: Array, phi: Array) -> Array:
        """B sym(φ) B."""
        return B @ sym(phi) @ B

    def lowered(self, B: Array, xi: Array) -> Array:
        """B⁻¹ ξ B⁻¹."""
        solve = namespace(B).linalg.solve
        return sym(solve(B, solve(B, xi).T))

    def hessian(self, B: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        """B sym(φ̇) B + sym(ξ sym(φ) B)."""
        return B @ sym(dphi) @ B + sym(xi @ sym(phi) @ B)

    def flaw(self, B: Array) -> str:
        """A matrix that is not symmetric, or not positive definite."""
        xp = namespace(B)
        scale = float(xp.max(xp.abs(B)))
        if float(xp.max(xp.abs(B - B.T))) > eps(B) ** 0.5 * scale:
            return "must be symmetric: give (B + Bᵀ)/2, or start from `from_svd`"
        least = float(xp.linalg.eigh(sym(B))[0][0])
        if least <= 0:
            return (
                f"must be positive definite (its least eigenvalue is {least:.1e}): "
                "start from `from_svd`, or lower the rank"
            )
        return ""


class PositiveDiagonal:
    """Diagonal r×r matrices with positive entries and the metric Tr(B⁻¹ξB⁻¹η)."""

    def project(self, B: Array, Z: Array) -> Array:
        """Return the diagonal part of Z."""
        return Z * identity_like(Z, Z.shape[0])

    def inner(self, B: Array, xi: Array, eta: Array) -> float:
        """Tr(B⁻¹ξB⁻¹η)."""
        xp = namespace(B)
        b, u, v = (xp.linalg.diagonal(M) for M in (B, xi, eta))
        return float(xp.sum((u / b) * (v / b)))

    def retract(self, B: Array, xi: Array) -> Array:
        """B exp(B⁻¹ξ): the exponential map."""
        return self.project(B, spd_exp(B, xi))

    def gradient(self, B: Array, phi: Array) -> Array:
        """B² times the diagonal part of φ."""
        return self.project(B, B @ B @ phi)

    def lowered(self, B: Array, xi: Array) -> Array:
        """ξ B⁻²."""
        squares = namespace(B).linalg.diagonal(B) ** 2
        return xi / squares

    def hessian(self, B: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        """B² diag(φ̇) + ξ B diag(φ)."""
        return self.project(B, B @ B @ dphi + xi @ B @ phi)

    def flaw(self, B: Array) -> str:
        """A matrix that is not diagonal, or has an entry that is not positive."""
        xp = namespace(B)
        if float(xp.max(xp.abs(B - self.project(B, B)))) > 0:
            return "must be diagonal: start from `from_svd`, or use middle='spd'"
        least = float(xp.min(xp.linalg.diagonal(B)))
        return "" if least > 0 else f"must have a positive diagonal (its least entry is {least:.1e})"


class PositiveVector:
    """Vectors with positive entries: the singular values of `Embedded`, which has its own tangent space."""

    def flaw(self, s: Array) -> str:
        """An entry that is not positive."""
        least = float(namespace(s).min(s))
        return "" if least > 0 else f"must be positive (its least entry is {least:.1e}): lower `rank`"
