"""Metrics and projections against the paper's tables (misprints corrected), written densely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import rankfold as rf
from geometry.variants import QUOTIENTS, VARIANTS, minus, seeds, sizes, well_conditioned_point

few = settings(max_examples=25, deadline=None)
inv = np.linalg.inv


def metric_of_table(geometry, x, xi, eta):
    """Table spaces, and the two metrics that the paper compares with."""
    tr = np.trace
    if isinstance(geometry, rf.FullRank):
        Q_G, Q_H = x.G.T @ x.G, x.H.T @ x.H
        weights = {
            "invariant": (inv(Q_G), inv(Q_H)),
            "preconditioned": (Q_H, Q_G),
            "euclidean": (np.eye(geometry.rank),) * 2,
        }[geometry.metric]
        return tr(weights[0] @ xi.G.T @ eta.G) + tr(weights[1] @ xi.H.T @ eta.H)
    if isinstance(geometry, rf.Polar):
        B = inv(x.B)
        return tr(xi.U.T @ eta.U) + tr(B @ xi.B @ B @ eta.B) + tr(xi.V.T @ eta.V)
    if isinstance(geometry, rf.SubspaceProjection):
        weight = inv(x.Y.T @ x.Y) if geometry.metric == "invariant" else np.eye(geometry.rank)
        return tr(xi.U.T @ eta.U) + tr(weight @ xi.Y.T @ eta.Y)
    return tr(xi.M.T @ eta.M) + tr(xi.Up.T @ eta.Up) + tr(xi.Vp.T @ eta.Vp)


@pytest.mark.parametrize("name", VARIANTS)
@few
@given(size=sizes(), seed=seeds)
def test_metric_is_the_table_s(name, size, seed):
    geometry = VARIANTS[name](*size)
    x = well_conditioned_point(geometry, seed)
    xi, eta = geometry.random_tangent(x, seed), geometry.random_tangent(x, seed + 1)
    assert geometry.inner(x, xi, eta) == pytest.approx(metric_of_table(geometry, x, xi, eta), abs=1e-10)


@pytest.mark.parametrize("name", QUOTIENTS)
@few
@given(size=sizes(largest=8), seed=seeds)
def test_horizontal_projection_is_the_orthogonal_one(name, size, seed):
    """Against a least-squares projection onto a basis of the vertical space, in the table's metric."""
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    rng = np.random.default_rng(seed)
    eta = geometry.to_tangent(x, geometry._ambient(x, lambda y: rng.standard_normal(y.shape)))
    basis = [geometry.vertical(x, unit.reshape(rank, rank)) for unit in np.eye(rank * rank)]

    def inner(u, v):
        return metric_of_table(geometry, x, u, v)

    G = np.array([[inner(u, v) for u in basis] for v in basis])
    weights = np.linalg.lstsq(G, np.array([inner(u, eta) for u in basis]), rcond=1e-10)[0]
    truth = eta
    for w, u in zip(weights, basis, strict=True):
        truth = minus(truth, type(u)(*(w * part for part in u)))
    gap = minus(geometry.to_horizontal(x, eta), truth)
    assert geometry.norm(x, gap) <= 1e-9 * geometry.norm(x, eta)


HORIZONTAL = {
    "GH-invariant": lambda x, z: z.G.T @ x.G @ x.H.T @ x.H - x.G.T @ x.G @ x.H.T @ z.H,
    "GH-preconditioned": lambda x, z: inv(x.G.T @ x.G) @ x.G.T @ z.G - z.H.T @ x.H @ inv(x.H.T @ x.H),
    "UBV-spd": lambda x, z: z.U.T @ x.U + inv(x.B) @ z.B - z.B @ inv(x.B) + z.V.T @ x.V,
    "UY-invariant": lambda x, z: _skew(z.U.T @ x.U + inv(x.Y.T @ x.Y) @ z.Y.T @ x.Y),
    "UY-euclidean": lambda x, z: _skew(z.U.T @ x.U + z.Y.T @ x.Y),
}


def _skew(A):
    return A - A.T


@pytest.mark.parametrize("name", QUOTIENTS)
@few
@given(size=sizes(), seed=seeds)
def test_horizontal_vectors_satisfy_the_table_s_equation(name, size, seed):
    geometry = VARIANTS[name](*size)
    x = well_conditioned_point(geometry, seed)
    xi = geometry.random_tangent(x, seed)
    assert np.abs(HORIZONTAL[name](x, xi)).max() <= 1e-10 * (1 + max(np.abs(y).max() for y in x)) ** 4
