"""Every geometry and variant, and strategies that draw instances of them."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

import rankfold as rf

VARIANTS = {
    "GH-invariant": lambda shape, rank: rf.FullRank(shape, rank, metric="invariant"),
    "GH-preconditioned": lambda shape, rank: rf.FullRank(shape, rank, metric="preconditioned"),
    "GH-euclidean": lambda shape, rank: rf.FullRank(shape, rank, metric="euclidean"),
    "UBV-spd": lambda shape, rank: rf.Polar(shape, rank, middle="spd"),
    "UBV-diagonal": lambda shape, rank: rf.Polar(shape, rank, middle="diagonal"),
    "UY-invariant": lambda shape, rank: rf.SubspaceProjection(shape, rank, metric="invariant"),
    "UY-euclidean": lambda shape, rank: rf.SubspaceProjection(shape, rank, metric="euclidean"),
    "embedded": rf.Embedded,
}
QUOTIENTS = [name for name in VARIANTS if name not in ("GH-euclidean", "UBV-diagonal", "embedded")]
PRODUCTS = [name for name in VARIANTS if name != "embedded"]


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
    return geometry.from_svd(U, np.asarray(singular_values, dtype=float), V)


def well_conditioned_point(geometry, seed):
    """Return a point with singular values between 1 and 3, moved along its fibre."""
    rng = np.random.default_rng(seed)
    x = point_with(geometry, np.sort(rng.uniform(1, 3, geometry.rank))[::-1], seed)
    return geometry.act(x, bounded_symmetry(geometry, seed, condition=10))


def bounded_symmetry(geometry, seed, condition):
    """Return an element of the symmetry group; of GL(r), one with the given condition number."""
    M = geometry.random_symmetry(seed)
    if not (isinstance(geometry, rf.FullRank) and geometry.metric != "euclidean"):
        return M
    A, _, Ct = np.linalg.svd(M)
    return (A * np.logspace(0, -np.log10(condition), geometry.rank)) @ Ct


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
