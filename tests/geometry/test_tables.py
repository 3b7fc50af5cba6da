"""Metrics and projections against the paper's tables (misprints corrected), written densely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from geometry.variants import (
    VARIANTS,
    every,
    minus,
    quotients,
    random_ambient,
    seeds,
    sizes,
    well_conditioned_point,
)

few = settings(max_examples=10, deadline=None)


@every
@few
@given(size=sizes(), seed=seeds)
def test_metric_is_the_table_s(name, size, seed):
    geometry = VARIANTS[name](*size)
    x = well_conditioned_point(geometry, seed)
    xi, eta = geometry.random_tangent(x, seed), geometry.random_tangent(x, seed + 1)
    assert geometry.inner(x, xi, eta) == pytest.approx(VARIANTS[name].metric(x, xi, eta), abs=1e-10)


@quotients
@few
@given(size=sizes(largest=8), seed=seeds)
def test_horizontal_projection_is_the_orthogonal_one(name, size, seed):
    """Against a least-squares projection onto a basis of the vertical space, in the table's metric."""
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    eta = geometry.to_tangent(x, random_ambient(geometry, x, seed))
    basis = [geometry.vertical(x, unit.reshape(rank, rank)) for unit in np.eye(rank * rank)]

    def inner(u, v):
        return VARIANTS[name].metric(x, u, v)

    G = np.array([[inner(u, v) for u in basis] for v in basis])
    weights = np.linalg.lstsq(G, np.array([inner(u, eta) for u in basis]), rcond=1e-10)[0]
    truth = eta
    for w, u in zip(weights, basis, strict=True):
        truth = minus(truth, type(u)(*(w * part for part in u)))
    gap = minus(geometry.to_horizontal(x, eta), truth)
    assert geometry.norm(x, gap) <= 1e-9 * geometry.norm(x, eta)


@quotients
@few
@given(size=sizes(), seed=seeds)
def test_horizontal_vectors_satisfy_the_table_s_equation(name, size, seed):
    geometry = VARIANTS[name](*size)
    x = well_conditioned_point(geometry, seed)
    xi = geometry.random_tangent(x, seed)
    size = 1 + max(np.abs(y).max() for y in x)
    assert np.abs(VARIANTS[name].horizontal(x, xi)).max() <= 1e-10 * size**4
