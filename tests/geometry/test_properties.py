"""One property suite for every geometry: a new one joins `VARIANTS` and is tested."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import rankfold as rf
from geometry.variants import (
    VARIANTS,
    bounded_symmetry,
    dense,
    every,
    located,
    minus,
    point_with,
    quotients,
    random_ambient,
    seeds,
    sizes,
    velocity,
    well_conditioned_point,
)
from rankfold.geometry.base import lincomb, scale
from rankfold.geometry.product import random_signed_permutation

few = settings(max_examples=6, deadline=None)


@every
@few
@given(size=sizes(), seed=seeds)
def test_gradient_is_the_derivative_of_the_cost(name, size, seed):
    problem, here = located(name, size, seed)
    check = rf.check_gradient(problem, here.x, seed)
    assert check.ok, check


@every
@few
@given(size=sizes(), seed=seeds)
def test_gradient_is_horizontal(name, size, seed):
    problem, here = located(name, size, seed)
    g = here.gradient
    assert problem.geometry.is_horizontal(here.x, g, 1e-10)
    assert problem.geometry.norm(here.x, minus(problem.geometry.to_tangent(here.x, g), g)) <= 1e-12 * (
        1 + here.gradient_norm
    )


@every
@few
@given(size=sizes(), seed=seeds)
def test_projections_are_idempotent(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    tangent = geometry.to_tangent(x, random_ambient(geometry, x, seed))
    horizontal = geometry.to_horizontal(x, tangent)
    unit = geometry.norm(x, tangent)
    assert geometry.norm(x, minus(geometry.to_tangent(x, tangent), tangent)) <= 1e-12 * unit
    assert geometry.norm(x, minus(geometry.to_horizontal(x, horizontal), horizontal)) <= 1e-12 * unit
    assert geometry.norm(x, minus(geometry.to_tangent(x, horizontal), horizontal)) <= 1e-12 * unit


@quotients
@few
@given(size=sizes(), seed=seeds)
def test_horizontal_is_orthogonal_to_every_vertical_vector(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    xi = geometry.random_tangent(x, seed)
    for k in range(3):
        vertical = geometry.vertical(x, np.random.default_rng([seed, k]).standard_normal((rank, rank)))
        assert abs(geometry.inner(x, xi, vertical)) <= 1e-12 * max(1.0, geometry.norm(x, vertical))
        assert np.abs(velocity(geometry, x, vertical)).max() <= 1e-12 * np.abs(dense(geometry, x)).max() * 10
        if geometry.norm(x, vertical) > 1e-8:  # O(1) has no skew generators
            assert geometry.is_vertical(x, vertical)
            assert not geometry.is_horizontal(x, vertical)
            mixed = lincomb(1.0, xi, 1 / geometry.norm(x, vertical), vertical)
            assert not geometry.is_vertical(x, mixed)
            assert not geometry.is_horizontal(x, mixed)


@every
@few
@given(size=sizes(), seed=seeds)
def test_lift_is_horizontal_with_the_same_velocity_and_lowered_is_its_adjoint(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    if not geometry.has_lift:
        assert name == "UBV-diagonal"
        return
    x, rng = well_conditioned_point(geometry, seed), np.random.default_rng(seed)
    (L, R), (dL, dR) = geometry.factors(x), (rng.standard_normal((d, rank)) for d in geometry.shape)
    z, xi = geometry.lift(x, dL, dR), geometry.random_tangent(x, seed)
    dW = dL @ R.T + L @ dR.T
    expected = (dW + dW.T) / 2 if geometry.symmetric else dW
    np.testing.assert_allclose(velocity(geometry, x, z), expected, atol=1e-10)
    scale_z = 1 + geometry.norm(x, z)
    assert geometry.norm(x, minus(geometry.to_tangent(x, z), z)) <= 1e-10 * scale_z
    assert geometry.norm(x, minus(geometry.to_horizontal(x, z), z)) <= 1e-10 * scale_z
    f_L, f_R = geometry.lowered(x, xi)
    assert geometry.norm(x, minus(geometry.gradient(x, f_L, f_R), xi)) <= 1e-10
    assert geometry.inner(x, z, xi) == pytest.approx(np.sum(dL * f_L) + np.sum(dR * f_R), abs=1e-10 * scale_z)


@every
@few
@given(size=sizes(), seed=seeds)
def test_nothing_changes_along_the_fibre(name, size, seed):
    problem, here = located(name, size, seed)
    geometry = problem.geometry
    M = bounded_symmetry(geometry, seed + 1, condition=1e3)
    there = problem.at(geometry.act(here.x, M))
    xi, eta = geometry.random_tangent(here.x, seed), geometry.random_tangent(here.x, seed + 1)
    xi2, eta2 = geometry.act(xi, M), geometry.act(eta, M)

    def near(a, b):
        return a == pytest.approx(b, rel=1e-8, abs=1e-8 * (1 + here.gradient_norm))

    assert near(geometry.inner(there.x, xi2, eta2), geometry.inner(here.x, xi, eta))
    assert near(there.gradient_norm, here.gradient_norm)
    assert near(
        geometry.inner(there.x, there.hessian(xi2), eta2), geometry.inner(here.x, here.hessian(xi), eta)
    )
    moved, moved2 = geometry.retract(here.x, scale(0.3, xi)), geometry.retract(there.x, scale(0.3, xi2))
    np.testing.assert_allclose(dense(geometry, moved2), dense(geometry, moved), atol=1e-9)
    carried = geometry.transport(here.x, eta, moved)
    carried2 = geometry.transport(there.x, eta2, moved2)
    np.testing.assert_allclose(
        velocity(geometry, moved2, carried2), velocity(geometry, moved, carried), atol=1e-8
    )


@every
@few
@given(size=sizes(), seed=seeds)
def test_retraction_is_on_the_manifold_and_leaves_along_the_tangent(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    geometry.validate(geometry.retract(x, scale(0.3, geometry.random_tangent(x, seed))))
    check = rf.check_retraction(geometry, x, seed)
    assert check.ok, check


@every
def test_points_and_tangents_of_a_seed_are_drawn_again(name):
    geometry = VARIANTS[name]((12, 9), 4)
    x, other = geometry.random_point(7), geometry.random_point(8)
    for draw in (geometry.random_point, lambda seed: geometry.random_tangent(x, seed)):
        for once, again in zip(draw(7), draw(7), strict=True):
            np.testing.assert_array_equal(once, again)
    assert any(not np.array_equal(a, b) for a, b in zip(x, other, strict=True))


@every
def test_a_thousand_steps_stay_on_the_manifold(name):
    geometry = VARIANTS[name]((12, 9), 4)
    x = geometry.random_point(0)
    for k in range(1000):
        x = geometry.retract(x, scale(0.5, geometry.random_tangent(x, k)))
    geometry.validate(x)
    for field, Q in x._asdict().items():
        if field in "UV":
            assert np.abs(Q.T @ Q - np.eye(4)).max() <= 1e-12
        if field == "B":
            assert np.linalg.eigvalsh(Q)[0] > 0


@pytest.mark.parametrize("length", [1e3, 1e8, 1e100])
def test_b_stays_positive_definite_however_long_the_step(length):
    for middle in ("spd", "diagonal"):
        geometry = rf.Polar((6, 5), 3, middle=middle)
        x = geometry.random_point(0)
        y = geometry.retract(x, scale(length, geometry.random_tangent(x, 1)))
        assert np.all(np.isfinite(y.B))
        assert np.linalg.eigvalsh(y.B)[0] > 0


@every
@few
@given(size=sizes(), seed=seeds)
def test_transport_lands_in_the_horizontal_space(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    xi = geometry.random_tangent(x, seed)
    y = geometry.retract(x, scale(0.3, xi))
    eta = geometry.transport(x, xi, y)
    twice = geometry.to_horizontal(y, geometry.to_tangent(y, eta))
    assert geometry.norm(y, minus(twice, eta)) <= 1e-12 * (1 + geometry.norm(y, eta))
    other = geometry.random_tangent(y, seed + 1)
    assert geometry.transported_inner(x, xi, y, other) == pytest.approx(
        geometry.inner(y, eta, other), abs=1e-10 * (1 + geometry.norm(y, eta))
    )


@every
@few
@given(size=sizes(), seed=seeds)
def test_transport_to_the_same_point_is_the_identity(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    xi = geometry.random_tangent(x, seed)
    assert geometry.norm(x, minus(geometry.transport(x, xi, x), xi)) <= 1e-12


def point_of_square(geometry):
    """Return a point whose W is symmetric and positive semidefinite."""
    Y = np.random.default_rng(3).standard_normal((geometry.shape[0], geometry.rank))
    return geometry.from_factors(Y, Y)


@every
@pytest.mark.parametrize("target", VARIANTS)
def test_conversions_keep_w(name, target):
    for shape, rank in [((9, 6), 3), ((5, 8), 5), ((4, 4), 1)]:
        source = VARIANTS[name](shape, rank)
        other = VARIANTS[target](source.shape, rank)
        if other.symmetric and not source.symmetric:
            square = VARIANTS[name](other.shape, rank)
            with pytest.raises(ValueError, match="W must be symmetric and positive semidefinite"):
                other.convert(square.random_point(3), square)
            source, x = square, point_of_square(square)
        else:
            x = source.random_point(3)
        W = dense(source, x)
        y = other.validate(other.convert(x, source))
        np.testing.assert_allclose(dense(other, y), W, atol=1e-12 * np.abs(W).max())


@every
@few
@given(size=sizes(largest=7), seed=seeds)
def test_dimension_counts_the_horizontal_space(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = point_with(geometry, np.arange(rank, 0, -1), seed)
    tangents = [geometry.random_tangent(x, k) for k in range(geometry.dimension + 3)]
    flat = np.array([np.concatenate([u.ravel() for u in xi]) for xi in tangents])
    assert np.linalg.matrix_rank(flat, tol=1e-8) == geometry.dimension


@every
@few
@given(size=sizes(), seed=seeds)
def test_the_line_is_the_linearised_curve(name, size, seed):
    shape, rank = size
    geometry = VARIANTS[name](shape, rank)
    x = well_conditioned_point(geometry, seed)
    xi = geometry.random_tangent(x, seed)
    Ls, Rs = geometry.line(x, xi)

    def along(t):
        return sum(L * t**i for i, L in enumerate(Ls)) @ sum(R * t**j for j, R in enumerate(Rs)).T

    np.testing.assert_allclose(along(0.0), dense(geometry, x), atol=1e-12 * np.abs(along(0.0)).max())
    np.testing.assert_allclose((along(1e-5) - along(-1e-5)) / 2e-5, velocity(geometry, x, xi), atol=1e-8)
    if geometry.straight:
        np.testing.assert_allclose(
            along(0.7),
            dense(geometry, geometry.retract(x, scale(0.7, xi))),
            atol=1e-12 * np.abs(along(0.7)).max(),
        )


@every
def test_check_geometry_passes(name):
    for shape, rank in [((8, 6), 3), ((3, 9), 3), ((5, 5), 1)]:
        check = rf.check_geometry(VARIANTS[name](shape, rank), seed=1)
        assert check.ok, check


@every
def test_zero_tangent_and_lincomb(name):
    geometry = VARIANTS[name]((5, 4), 2)
    x = geometry.random_point(0)
    xi = geometry.random_tangent(x, 0)
    assert geometry.norm(x, geometry.zero(x)) == 0
    assert geometry.norm(x, lincomb(2.0, xi, -2.0, xi)) == 0


def test_signs_of_a_random_permutation_are_drawn_one_by_one():
    found = [random_signed_permutation(4, seed) for seed in range(20)]
    for M in found:
        np.testing.assert_array_equal(abs(M) @ np.ones(4), np.ones(4))
        np.testing.assert_array_equal(abs(M).T @ np.ones(4), np.ones(4))
    assert any(set(M.sum(axis=0)) == {-1.0, 1.0} for M in found)
