"""W = Y Yᵀ, up to Y O: symmetric positive semidefinite matrices of fixed rank."""

from __future__ import annotations

from typing import Any, NamedTuple

from array_api_compat import array_namespace

from rankfold.geometry.base import POINTS, LineCoefficients, normal, own_stream
from rankfold.geometry.full_rank import coupled
from rankfold.geometry.product import ProductGeometry, Structure, random_orthogonal
from rankfold.geometry.spaces import EuclideanFullColumnRank, FullColumnRank
from rankfold.linalg import (
    Array,
    asarray_like,
    eps,
    gram,
    gram_factor,
    gram_in_basis,
    inverse_gram,
    norm_of_product,
    pair_sums,
    skew,
    sym,
    trace,
)

# Where a matrix has fewer positive eigenvalues than a point must have, those missing get this part of the
# largest singular value: small beside the data, and large enough for solvers to turn.
_MISSING = 1e-8


class SymmetricFactor(NamedTuple):
    """A point or a tangent vector of `PositiveSemidefinite`."""

    Y: Array


class PreconditionedFullColumnRank(EuclideanFullColumnRank):
    """Matrices of full column rank with the metric Tr(YᵀY ξᵀη), that of the cost ¼‖Y Yᵀ‖² but for a part."""

    def inner(self, Y: Array, xi: Array, eta: Array) -> float:
        """Tr(YᵀY ξᵀη)."""
        return trace(gram(Y, Y) @ gram(xi, eta))

    def gradient(self, Y: Array, phi: Array) -> Array:
        """φ (YᵀY)⁻¹."""
        return phi @ inverse_gram(Y)

    def lowered(self, Y: Array, xi: Array) -> Array:
        """ξ YᵀY."""
        return xi @ gram(Y, Y)

    def hessian(self, Y: Array, xi: Array, phi: Array, dphi: Array) -> Array:
        """D grad[ξ] + A(ξ, grad): that of G Hᵀ with the metric of the other factor, where G = H = Y."""
        γ = self.gradient(Y, phi)
        return coupled(Y, xi, γ, dphi, Y, xi, γ)


class _Rotation(NamedTuple):
    """Yᵀη in the eigenbasis E of YᵀY, whose eigenvalues are λ."""

    λ: Array
    E: Array
    N: Array

    @classmethod
    def of(cls, x: SymmetricFactor, eta: SymmetricFactor) -> _Rotation:
        T, _, graded = gram_factor(x.Y)
        _, s, Et = array_namespace(x.Y).linalg.svd(T)
        return cls(s * s, Et.T, gram_in_basis(x.Y, eta.Y, Et.T, graded))

    def back(self, numerator: Array, denominator: Array) -> Array:
        """Ω, from (numerator − numeratorᵀ) / denominator in the eigenbasis."""
        return self.E @ ((numerator - numerator.T) / denominator) @ self.E.T


def _euclidean_generator(x: SymmetricFactor, eta: SymmetricFactor) -> Array:
    """Solve QΩ + ΩQ = 2 skew(Yᵀη), with Q = YᵀY."""
    rotation = _Rotation.of(x, eta)
    return rotation.back(rotation.N, pair_sums(rotation.λ))


def _invariant_generator(x: SymmetricFactor, eta: SymmetricFactor) -> Array:
    """Solve Q²Ω + ΩQ² = 2 skew(Q Yᵀη), with Q = YᵀY."""
    rotation = _Rotation.of(x, eta)
    return rotation.back(rotation.λ[:, None] * rotation.N, pair_sums(rotation.λ**2))


def _preconditioned_generator(x: SymmetricFactor, eta: SymmetricFactor) -> Array:
    """Ω = skew((YᵀY)⁻¹Yᵀη), which solves QΩQ = skew(Yᵀη Q)."""
    return skew(inverse_gram(x.Y) @ gram(x.Y, eta.Y))


_METRICS = {
    "invariant": Structure((FullColumnRank(),), _invariant_generator, random_orthogonal),
    "preconditioned": Structure(
        (PreconditionedFullColumnRank(),), _preconditioned_generator, random_orthogonal
    ),
    "euclidean": Structure(  # straight lines are geodesics
        (EuclideanFullColumnRank(),), _euclidean_generator, random_orthogonal, second_order=True
    ),
}


class PositiveSemidefinite(ProductGeometry):
    """Symmetric positive semidefinite matrices W = Y Yᵀ with Y (n×r) of full column rank, modulo O(r).

    Costs see W = L Rᵀ with L = R = Y, and only the symmetric part of their gradient S counts: the derivative
    in Y is f_L + f_R = (S + Sᵀ) Y.

    Parameters
    ----------
    shape, rank
        The shape of W, which is square, and its rank.
    metric
        `"invariant"`: Tr((YᵀY)⁻¹ξᵀη), which every invertible change of the columns of Y leaves the same.
        `"preconditioned"`: Tr(YᵀY ξᵀη), which makes gradients scale like Newton steps of a quadratic cost.
        `"euclidean"`: Tr(ξᵀη), that of Bures and Wasserstein on the quotient.

    Examples
    --------
    >>> import rankfold as rf
    >>> geometry = rf.PositiveSemidefinite((6, 6), rank=2)
    >>> x = geometry.random_point(seed=0)
    >>> x.Y.shape, geometry.dimension
    ((6, 2), 11)
    """

    point_type = tangent_type = SymmetricFactor
    structures = _METRICS
    straight = True
    symmetric = True
    has_factors = True

    def __init__(self, shape: tuple[int, int], rank: int, metric: str = "invariant") -> None:
        super().__init__(shape, rank, metric=metric)
        self.metric = metric
        if self.shape[0] != self.shape[1]:
            raise ValueError(f"shape must be square, for symmetric matrices; got {self.shape}")

    @property
    def dimension(self) -> int:
        """The dimension of the quotient."""
        return self.shape[0] * self.rank - self.rank * (self.rank - 1) // 2

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return ((self.shape[0], self.rank),)

    def factors(self, x: SymmetricFactor) -> tuple[Array, Array]:
        """Return (Y, Y)."""
        return x.Y, x.Y

    def tangent_factors(self, x: SymmetricFactor, xi: SymmetricFactor) -> tuple[Array, Array]:
        """Return (ξ, ξ)."""
        return xi.Y, xi.Y

    def line(self, x: SymmetricFactor, xi: SymmetricFactor) -> LineCoefficients:
        """(Y + tξ)(Y + tξ)ᵀ."""
        return (x.Y, xi.Y), (x.Y, xi.Y)

    def partials(self, x: SymmetricFactor, f_L: Array, f_R: Array) -> SymmetricFactor:
        """φ = f_L + f_R."""
        return SymmetricFactor(f_L + f_R)

    def partials_derivative(
        self, x: SymmetricFactor, xi: SymmetricFactor, f_L: Array, f_R: Array, df_L: Array, df_R: Array
    ) -> SymmetricFactor:
        """φ̇ = df_L + df_R."""
        return SymmetricFactor(df_L + df_R)

    def from_svd(self, U: Array, s: Array, V: Array) -> SymmetricFactor:
        """Return the point of W = U diag(s) Vᵀ, which must be symmetric and positive semidefinite."""
        x = self.nearest(U, s, V)
        gap = norm_of_product([U * s, -x.Y], [V, x.Y]) / float(s[0])
        if gap > eps(s) ** 0.5:
            raise ValueError(
                f"W must be symmetric and positive semidefinite (it is {gap:.1e} off, relative): "
                "`nearest` gives the point of the matrix nearest to it that is"
            )
        return x

    def nearest(self, U: Array, s: Array, V: Array) -> SymmetricFactor:
        """Return the point of the positive semidefinite matrix of rank r nearest to W = U diag(s) Vᵀ.

        By the r largest eigenvalues of (W + Wᵀ)/2; those that are not positive are replaced by tiny ones.
        """
        self._check_svd(U, s, V)
        xp = array_namespace(U)
        Q = xp.linalg.qr(xp.concat([U, V], axis=1))[0]
        values, E = xp.linalg.eigh(sym((gram(Q, U) * s) @ gram(V, Q)))
        λ, E = xp.flip(values, axis=0)[: self.rank], xp.flip(E, axis=1)[:, : self.rank]
        largest = float(s[0])
        λ = xp.where(λ > 100 * eps(s) * largest, λ, xp.full_like(λ, _MISSING * largest))
        return SymmetricFactor(Q @ (E * xp.sqrt(λ)))

    def random_point(self, seed: int | None = None, like: Array | None = None) -> SymmetricFactor:
        """Return the point of W = Y Yᵀ with Gaussian Y, in the dtype of `like`."""
        return SymmetricFactor(normal(own_stream(seed, POINTS), (self.shape[0], self.rank), like))

    def act(self, z: SymmetricFactor, M: Any) -> SymmetricFactor:
        """Y O with O = M."""
        return SymmetricFactor(z.Y @ asarray_like(M, z.Y))

    def lift(self, x: SymmetricFactor, dL: Array, dR: Array) -> SymmetricFactor:
        """Return the horizontal vector of the symmetric part of Ẇ = dL Yᵀ + Y dRᵀ: Π((dL + dR)/2)."""
        xi: SymmetricFactor = self.to_horizontal(x, SymmetricFactor((dL + dR) / 2))
        return xi

    def lowered(self, x: SymmetricFactor, xi: SymmetricFactor) -> tuple[Array, Array]:
        """Undo the gradient: f_L = f_R, each half of φ."""
        half = self.structure.lowered(x, xi).Y / 2
        return half, half

    def vertical(self, x: SymmetricFactor, A: Array) -> SymmetricFactor:
        """YΩ with Ω the skew part of A."""
        return SymmetricFactor(x.Y @ skew(A))
