"""Where Gram matrices formed once lose everything: W with condition number up to 1e10."""

from __future__ import annotations

import numpy as np
import pytest

import rankfold as rf
from geometry.variants import QUOTIENTS, VARIANTS, dense, minus, point_with
from rankfold.geometry.base import scale
from rankfold.linalg import gram_factor

RANK, SHAPE = 5, (60, 50)


def ill_conditioned(name, condition, seed=0):
    geometry = VARIANTS[name](SHAPE, RANK)
    return geometry, point_with(geometry, np.logspace(0, -np.log10(condition), RANK), seed)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_projection_is_idempotent_and_horizontal(name, condition, seed):
    geometry, x = ill_conditioned(name, condition, seed)
    rng = np.random.default_rng(seed)
    eta = geometry.to_tangent(x, geometry._ambient(x, lambda y: rng.standard_normal(y.shape)))
    eta = scale(1 / geometry.norm(x, eta), eta)
    once = geometry.to_horizontal(x, eta)
    assert geometry.norm(x, minus(geometry.to_horizontal(x, once), once)) <= 1e-8
    if name not in QUOTIENTS:
        return
    vertical = geometry.vertical(x, rng.standard_normal((RANK, RANK)))
    assert abs(geometry.inner(x, once, vertical)) <= 1e-8 * geometry.norm(x, vertical)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("condition", [1e6, 1e8, 1e10])
def test_gradient_is_finite_and_accurate(name, condition):
    """⟨grad, ξ⟩ = ⟨S, Ẇ⟩, with S = W − C known densely."""
    geometry, x = ill_conditioned(name, condition)
    S = dense(geometry, x) - np.random.default_rng(1).standard_normal(SHAPE)
    L, R = geometry.factors(x)
    gradient = geometry.gradient(x, S @ R, S.T @ L)
    assert all(np.all(np.isfinite(part)) for part in gradient)
    xi = geometry.random_tangent(x, 2)
    (dL, dR) = geometry.tangent_factors(x, xi)
    truth = np.sum(S * (dL @ R.T + L @ dR.T))
    assert geometry.inner(x, gradient, xi) == pytest.approx(truth, abs=1e-6 * geometry.norm(x, gradient))


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("condition", [1e6, 1e8, 1e10])
def test_retraction_is_finite_and_accurate(name, condition):
    """Against the same retraction written densely, with SVDs in place of Grams."""
    geometry, x = ill_conditioned(name, condition)
    xi = scale(0.1, geometry.random_tangent(x, 2))
    y = geometry.retract(x, xi)
    geometry.validate(y)
    truth = RETRACTIONS[type(geometry)](x, xi)
    W = dense(geometry, y)
    assert np.abs(W - truth).max() <= 1e-9 * np.abs(truth).max()


def _polar_factor(D):
    U, _, Vt = np.linalg.svd(D, full_matrices=False)
    return U @ Vt


def _retract_polar(x, xi):
    b, E = np.linalg.eigh(x.B)
    root, back = (E * np.sqrt(b)) @ E.T, (E / np.sqrt(b)) @ E.T
    c, F = np.linalg.eigh(back @ xi.B @ back)
    return _polar_factor(x.U + xi.U) @ root @ (F * np.exp(c)) @ F.T @ root @ _polar_factor(x.V + xi.V).T


def _retract_embedded(x, xi):
    U, s, Vt = np.linalg.svd((x.U * x.s + x.U @ xi.M + xi.Up) @ x.V.T + x.U @ xi.Vp.T)
    return (U[:, :RANK] * s[:RANK]) @ Vt[:RANK]


RETRACTIONS = {
    **{
        type(VARIANTS[n](SHAPE, RANK)): lambda x, xi: (x.G + xi.G) @ (x.H + xi.H).T
        for n in VARIANTS
        if n[:2] == "GH"
    },
    rf.Polar: _retract_polar,
    rf.SubspaceProjection: lambda x, xi: _polar_factor(x.U + xi.U) @ (x.Y + xi.Y).T,
    rf.Embedded: _retract_embedded,
}


@pytest.mark.parametrize(("condition", "graded"), [(1.0, False), (5.0, False), (1e6, True)])
def test_more_than_one_gram_is_taken_only_where_needed(condition, graded, monkeypatch):
    grams = []
    monkeypatch.setattr("rankfold.linalg.gram", lambda A, B: grams.append(A) or A.T @ B)
    _, x = ill_conditioned("UY-invariant", condition)
    assert (
        gram_factor(x.Y @ np.linalg.qr(np.random.default_rng(0).standard_normal((RANK, RANK)))[0]).graded
        == graded
    )
    assert (len(grams) > 1) == graded
