"""Each factor space by itself: gradients and derivatives are each other's adjoints, in its own metric."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankfold.geometry.positive_semidefinite import PreconditionedFullColumnRank
from rankfold.geometry.spaces import (
    EuclideanFullColumnRank,
    FullColumnRank,
    PositiveDefinite,
    PositiveDiagonal,
    Stiefel,
)

RNG = np.random.default_rng(0)
TALL, SQUARE = (7, 3), (3, 3)
ROOT = RNG.standard_normal(SQUARE)
POINTS = {
    Stiefel: np.linalg.qr(RNG.standard_normal(TALL))[0],
    EuclideanFullColumnRank: RNG.standard_normal(TALL),
    FullColumnRank: RNG.standard_normal(TALL),
    PreconditionedFullColumnRank: RNG.standard_normal(TALL),
    PositiveDefinite: ROOT @ ROOT.T + np.eye(3),
    PositiveDiagonal: np.diag([3.0, 1.5, 0.4]),
}
each = pytest.mark.parametrize("kind", POINTS, ids=lambda kind: kind.__name__)


def tangents(space, y, count=2):
    rng = np.random.default_rng(1)
    return [space.project(y, rng.standard_normal(y.shape)) for _ in range(count)]


@each
def test_the_gradient_says_how_a_linear_function_changes(kind):
    space, y = kind(), POINTS[kind]
    (xi,) = tangents(space, y, 1)
    phi = np.random.default_rng(2).standard_normal(y.shape)
    g = space.gradient(y, phi)
    assert space.inner(y, g, xi) == pytest.approx(np.sum(phi * xi))
    assert_allclose(space.project(y, g), g, atol=1e-12 * np.abs(g).max())


@each
def test_a_lowered_vector_is_the_derivative_that_it_is_the_gradient_of(kind):
    space, y = kind(), POINTS[kind]
    (xi,) = tangents(space, y, 1)
    phi = space.lowered(y, xi)
    assert_allclose(space.gradient(y, phi), xi, atol=1e-10 * np.abs(xi).max())
    assert_allclose(space.project(y, phi), phi, atol=1e-10 * np.abs(phi).max())


@each
def test_projections_stay_and_leave_what_is_normal(kind):
    space, y = kind(), POINTS[kind]
    rng = np.random.default_rng(3)
    Z = rng.standard_normal(y.shape)
    xi, (eta,) = space.project(y, Z), tangents(space, y, 1)
    assert_allclose(space.project(y, xi), xi, atol=1e-12)
    assert np.sum((Z - xi) * eta) == pytest.approx(0.0, abs=1e-12)


@each
def test_retractions_stay_in_the_space_and_start_along_the_vector(kind):
    space, y = kind(), POINTS[kind]
    xi, h = 0.3 * tangents(space, y, 1)[0], 1e-5
    assert space.flaw(y) == space.flaw(space.retract(y, xi)) == ""
    assert_allclose(space.retract(y, 0 * xi), y, atol=1e-12)
    slope = (space.retract(y, h * xi) - space.retract(y, -h * xi)) / (2 * h)
    assert_allclose(slope, xi, atol=1e-8)


@each
def test_hessians_of_linear_functions_and_of_others_are_symmetric(kind):
    """Of f(y) = ⟨φ, y⟩ + ½‖C y‖²: its second derivative along ξ is C² ξ."""
    space, y = kind(), POINTS[kind]
    rng = np.random.default_rng(4)
    C = rng.standard_normal((len(y), len(y)))
    phi, (xi, eta) = rng.standard_normal(y.shape) + C.T @ C @ y, tangents(space, y)
    H_xi, H_eta = (space.hessian(y, z, phi, C.T @ C @ z) for z in (xi, eta))
    size = space.inner(y, H_xi, H_xi) ** 0.5 + space.inner(y, H_eta, H_eta) ** 0.5
    if kind in (Stiefel, EuclideanFullColumnRank, FullColumnRank, PreconditionedFullColumnRank):
        assert_allclose(space.project(y, H_xi), H_xi, atol=1e-10 * np.abs(H_xi).max())
        one, two = space.inner(y, H_xi, eta), space.inner(y, xi, H_eta)
        assert one == pytest.approx(two, abs=1e-10 * size)
    else:  # of matrices whose skew or other parts do not count
        S = space.project(y, C.T @ C)
        H_xi, H_eta = (space.hessian(y, z, phi, S @ z + z @ S) for z in (xi, eta))
        assert space.inner(y, H_xi, eta) == pytest.approx(space.inner(y, xi, H_eta), rel=1e-9)


def test_known_products_spare_a_projection_its_own():
    space, U = Stiefel(), POINTS[Stiefel]
    Z, known = RNG.standard_normal(TALL), RNG.standard_normal(SQUARE)
    assert_allclose(space.project(U, Z, U.T @ Z), space.project(U, Z), atol=1e-14)
    assert_allclose(space.project(U, Z, known), Z - U @ (known + known.T) / 2, atol=1e-14)


def test_a_diagonal_space_sees_the_diagonal_alone():
    space, B = PositiveDiagonal(), POINTS[PositiveDiagonal]
    Z = np.random.default_rng(5).standard_normal(SQUARE)
    b, z = np.diag(B), np.diag(Z)
    assert_allclose(space.project(B, Z), np.diag(z))
    assert_allclose(space.gradient(B, Z), np.diag(b**2 * z))
    assert_allclose(space.retract(B, np.diag(z)), np.diag(b * np.exp(z / b)))
    assert_allclose(space.lowered(B, np.diag(z)), np.diag(z / b**2))
    assert_allclose(space.hessian(B, np.diag(z), Z, 2 * Z), np.diag(b**2 * 2 * z + z * b * z))
    assert space.inner(B, np.diag(z), np.diag(b)) == pytest.approx(np.sum(z / b))
