"""Every geometry with every option, what the tests must know of it, and strategies that draw instances.

A geometry that joins `VARIANTS` gets the property suite, the tables, the backends, the devices, the solver
grid and the checks. What can be asked of the geometry itself (is it a quotient, is its retraction of second
order, where do its fields live?) is asked of it; a `Variant` declares the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import rankfold as rf
from dense import DenseCost, OffDiagonal
from rankfold.geometry.product import ProductGeometry

inv, tr = np.linalg.inv, np.trace


@dataclass(frozen=True)
class Variant:
    """A geometry, and formulas of it that share nothing with its code."""

    make: Callable[..., rf.Geometry]
    #: (x, ξ, η) ↦ the metric, as the paper's tables write it
    metric: Callable[..., float]
    #: (x, ξ) ↦ the W that the retraction leads to, by dense singular value decompositions
    retraction: Callable[..., Any]
    #: (x, ξ) ↦ a matrix that vanishes if and only if ξ is horizontal (Table spaces); None without a quotient
    horizontal: Callable[..., Any] | None = None
    #: whether first-order solvers are known to crawl on it: a negative example of the paper
    slow: bool = False
    #: whether its matrices are symmetric and positive semidefinite, so that shapes are square
    symmetric: bool = False

    def __call__(self, shape, rank):
        return self.make(self.shape(shape), rank)

    def shape(self, shape):
        """Return the shape nearest to the one asked for that the geometry has: as many rows as columns."""
        return (shape[0], shape[0]) if self.symmetric else shape

    def problem(self, cost, rank):
        """Return the problem of a cost of matrices of any shape: of a block of those that are symmetric."""
        cost = OffDiagonal(cost) if self.symmetric else cost
        return rf.Problem(cost, self.make(cost.shape, rank))

    def completion(self, shape, rank, oversampling, seed, **options):
        """Return a random completion instance whose matrix the geometry holds."""
        data = rf.data.random_completion(self.shape(shape), rank, oversampling, seed, **options)
        if not self.symmetric:
            return data
        exact = [np.einsum("kr,kr->k", data.L[data.rows], Z[data.cols]) for Z in (data.R, data.L)]
        return replace(data, values=data.values - exact[0] + exact[1], R=data.L)

    @property
    def example(self):
        return self((6, 5), 2)

    @property
    def is_product(self):
        return isinstance(self.example, ProductGeometry)

    @property
    def is_quotient(self):
        return self.is_product and self.example.structure.generator is not None


def option(geometry, **chosen):
    """Return the geometry with an option chosen, as a function of shape and rank."""
    return lambda shape, rank: geometry(shape, rank, **chosen)


def orthonormal_factor(D):
    U, _, Vt = np.linalg.svd(D, full_matrices=False)
    return U @ Vt


def weighted_metric(weights):
    """Tr(M₁ξ₁ᵀη₁) + … with the r×r matrices M of each field."""
    return lambda x, xi, eta: sum(tr(M @ u.T @ v) for M, u, v in zip(weights(*x), xi, eta, strict=True))


def polar_metric(x, xi, eta):
    B = inv(x.B)
    return tr(xi.U.T @ eta.U) + tr(B @ xi.B @ B @ eta.B) + tr(xi.V.T @ eta.V)


def straight(x, xi):
    return (x.G + xi.G) @ (x.H + xi.H).T


def polar_retraction(x, xi):
    b, E = np.linalg.eigh(x.B)
    root, back = (E * np.sqrt(b)) @ E.T, (E / np.sqrt(b)) @ E.T
    c, F = np.linalg.eigh(back @ xi.B @ back)
    middle = root @ (F * np.exp(c)) @ F.T @ root
    return orthonormal_factor(x.U + xi.U) @ middle @ orthonormal_factor(x.V + xi.V).T


def subspace_retraction(x, xi):
    return orthonormal_factor(x.U + xi.U) @ (x.Y + xi.Y).T


def truncated(x, xi):
    r = x.s.size
    U, s, Vt = np.linalg.svd((x.U * x.s + x.U @ xi.M + xi.Up) @ x.V.T + x.U @ xi.Vp.T)
    return (U[:, :r] * s[:r]) @ Vt[:r]


def symmetric_retraction(x, xi):
    return (x.Y + xi.Y) @ (x.Y + xi.Y).T


def skew(A):
    return A - A.T


VARIANTS = {
    "GH-invariant": Variant(
        option(rf.FullRank, metric="invariant"),
        weighted_metric(lambda G, H: (inv(G.T @ G), inv(H.T @ H))),
        straight,
        lambda x, z: z.G.T @ x.G @ x.H.T @ x.H - x.G.T @ x.G @ x.H.T @ z.H,
    ),
    "GH-preconditioned": Variant(
        option(rf.FullRank, metric="preconditioned"),
        weighted_metric(lambda G, H: (H.T @ H, G.T @ G)),
        straight,
        lambda x, z: inv(x.G.T @ x.G) @ x.G.T @ z.G - z.H.T @ x.H @ inv(x.H.T @ x.H),
    ),
    "GH-euclidean": Variant(
        option(rf.FullRank, metric="euclidean"),
        weighted_metric(lambda G, H: (np.eye(G.shape[1]),) * 2),
        straight,
    ),
    "UBV-spd": Variant(
        option(rf.Polar, middle="spd"),
        polar_metric,
        polar_retraction,
        lambda x, z: z.U.T @ x.U + inv(x.B) @ z.B - z.B @ inv(x.B) + z.V.T @ x.V,
    ),
    "UBV-diagonal": Variant(option(rf.Polar, middle="diagonal"), polar_metric, polar_retraction, slow=True),
    "UY-invariant": Variant(
        option(rf.SubspaceProjection, metric="invariant"),
        weighted_metric(lambda U, Y: (np.eye(U.shape[1]), inv(Y.T @ Y))),
        subspace_retraction,
        lambda x, z: skew(z.U.T @ x.U + inv(x.Y.T @ x.Y) @ z.Y.T @ x.Y),
    ),
    "UY-euclidean": Variant(
        option(rf.SubspaceProjection, metric="euclidean"),
        weighted_metric(lambda U, Y: (np.eye(U.shape[1]),) * 2),
        subspace_retraction,
        lambda x, z: skew(z.U.T @ x.U + z.Y.T @ x.Y),
        slow=True,
    ),
    "embedded": Variant(
        rf.Embedded,
        lambda x, xi, eta: sum(np.sum(u * v) for u, v in zip(xi, eta, strict=True)),
        truncated,
    ),
    "YY-invariant": Variant(
        option(rf.PositiveSemidefinite, metric="invariant"),
        weighted_metric(lambda Y: (inv(Y.T @ Y),)),
        symmetric_retraction,
        lambda x, z: skew(x.Y.T @ z.Y @ inv(x.Y.T @ x.Y)),
        symmetric=True,
    ),
    "YY-preconditioned": Variant(
        option(rf.PositiveSemidefinite, metric="preconditioned"),
        weighted_metric(lambda Y: (Y.T @ Y,)),
        symmetric_retraction,
        lambda x, z: skew(x.Y.T @ z.Y @ x.Y.T @ x.Y),
        symmetric=True,
    ),
    "YY-euclidean": Variant(
        option(rf.PositiveSemidefinite, metric="euclidean"),
        weighted_metric(lambda Y: (np.eye(Y.shape[1]),)),
        symmetric_retraction,
        lambda x, z: skew(x.Y.T @ z.Y),
        symmetric=True,
    ),
}


def those(kind):
    """Give a test to all variants of this kind, by name; it keeps the kind, for `test_joining`."""

    def decorate(test):
        test.kind = kind
        names = [name for name, variant in VARIANTS.items() if kind(variant)]
        return pytest.mark.parametrize("name", names)(test)

    return decorate


every = those(lambda variant: True)
products = those(lambda variant: variant.is_product)
quotients = those(lambda variant: variant.is_quotient)


@st.composite
def sizes(draw, largest=12):
    """Draw (shape, rank): wide, tall and square, every rank from 1 to min(shape)."""
    shape = draw(st.tuples(st.integers(1, largest), st.integers(1, largest)))
    return shape, draw(st.integers(1, min(shape)))


seeds = st.integers(0, 2**32 - 4)


def point_with(geometry, singular_values, seed=0):
    """Return the point of a random W with the given singular values."""
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, geometry.rank)))[0] for d in geometry.shape)
    return geometry.from_svd(U, np.asarray(singular_values, dtype=float), U if geometry.symmetric else V)


def well_conditioned_point(geometry, seed):
    """Return a point with singular values between 1 and 3, moved along its fibre."""
    rng = np.random.default_rng(seed)
    x = point_with(geometry, np.sort(rng.uniform(1, 3, geometry.rank))[::-1], seed)
    return geometry.act(x, bounded_symmetry(geometry, seed, condition=10))


def located(name, size, seed):
    """Return a problem of that variant, at a point."""
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    problem = rf.Problem(DenseCost(geometry.shape, seed % 1000), geometry)
    return problem, problem.at(well_conditioned_point(problem.geometry, seed))


def bounded_symmetry(geometry, seed, condition):
    """Return an element of the symmetry group; of GL(r), one with the given condition number."""
    M = geometry.random_symmetry(seed)
    A, s, Ct = np.linalg.svd(M)
    if np.allclose(s, 1):  # orthogonal
        return M
    return (A * np.logspace(0, -np.log10(condition), geometry.rank)) @ Ct


def random_ambient(geometry, x, seed):
    """Return standard normal numbers in place of the fields of a tangent vector."""
    rng = np.random.default_rng(seed)
    zero = geometry.zero(x)
    return type(zero)(*(rng.standard_normal(part.shape) for part in zero))


def dense(geometry, x):
    """Return W."""
    L, R = geometry.factors(x)
    return np.asarray(L @ R.T)


def velocity(geometry, x, xi):
    """Return Ẇ."""
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    return np.asarray(dL @ R.T + L @ dR.T)


def minus(xi, eta):
    return type(xi)(*(u - v for u, v in zip(xi, eta, strict=True)))
