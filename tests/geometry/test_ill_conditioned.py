"""Where Gram matrices formed once lose everything: W with condition number up to 1e10."""

from __future__ import annotations

import numpy as np
import pytest

from geometry.variants import VARIANTS, dense, every, minus, point_with, random_ambient
from rankfold.geometry.base import scale
from rankfold.linalg import gram_factor

RANK, SHAPE = 5, (60, 50)


def ill_conditioned(name, condition, seed=0):
    geometry = VARIANTS[name](SHAPE, RANK)
    return geometry, point_with(geometry, np.logspace(0, -np.log10(condition), RANK), seed)


@every
@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
@pytest.mark.parametrize("seed", range(5))
def test_projection_is_idempotent_and_horizontal(name, condition, seed):
    geometry, x = ill_conditioned(name, condition, seed)
    eta = geometry.to_tangent(x, random_ambient(geometry, x, seed))
    eta = scale(1 / geometry.norm(x, eta), eta)
    once = geometry.to_horizontal(x, eta)
    assert geometry.norm(x, minus(geometry.to_horizontal(x, once), once)) <= 1e-8
    if not VARIANTS[name].is_quotient:
        return
    vertical = geometry.vertical(x, np.random.default_rng(seed).standard_normal((RANK, RANK)))
    assert abs(geometry.inner(x, once, vertical)) <= 1e-8 * geometry.norm(x, vertical)


@every
@pytest.mark.parametrize("condition", [1e6, 1e8, 1e10])
def test_gradient_is_finite_and_accurate(name, condition):
    """⟨grad, ξ⟩ = ⟨S, Ẇ⟩, with S = W − C known densely."""
    geometry, x = ill_conditioned(name, condition)
    S = dense(geometry, x) - np.random.default_rng(1).standard_normal(geometry.shape)
    L, R = geometry.factors(x)
    gradient = geometry.gradient(x, S @ R, S.T @ L)
    assert all(np.all(np.isfinite(part)) for part in gradient)
    xi = geometry.random_tangent(x, 2)
    (dL, dR) = geometry.tangent_factors(x, xi)
    truth = np.sum(S * (dL @ R.T + L @ dR.T))
    assert geometry.inner(x, gradient, xi) == pytest.approx(truth, abs=1e-6 * geometry.norm(x, gradient))


@every
@pytest.mark.parametrize("condition", [1e6, 1e8, 1e10])
def test_retraction_is_finite_and_accurate(name, condition):
    """Against the same retraction written densely, with SVDs in place of Grams."""
    geometry, x = ill_conditioned(name, condition)
    xi = scale(0.1, geometry.random_tangent(x, 2))
    y = geometry.retract(x, xi)
    geometry.validate(y)
    truth = VARIANTS[name].retraction(x, xi)
    W = dense(geometry, y)
    assert np.abs(W - truth).max() <= 1e-9 * np.abs(truth).max()


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
