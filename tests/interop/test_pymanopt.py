"""Pymanopt's optimisers on every geometry; conversions against Pymanopt's own numerical checks."""

import numpy as np
import pymanopt
import pytest
from numpy.testing import assert_allclose
from pymanopt.optimizers import ConjugateGradient, TrustRegions

import rankfold as rf
from geometry.variants import PRODUCTS, VARIANTS, velocity, well_conditioned_point
from rankfold.interop.pymanopt import LowRank, TangentVector, as_problem


@pytest.fixture(scope="module")
def completion():
    data = rf.data.random_completion((300, 200), rank=3, oversampling=6, seed=0)
    return rf.Completion.from_triples(data)


@pytest.mark.parametrize("optimizer", [ConjugateGradient, TrustRegions])
@pytest.mark.parametrize("variant", VARIANTS)
def test_optimizers_reach_the_minimum(variant, optimizer, completion):
    problem = rf.Problem(completion, VARIANTS[variant](completion.shape, 3))
    run = optimizer(verbosity=0, min_gradient_norm=1e-9, max_iterations=2000).run
    result = run(as_problem(problem), initial_point=problem.start())
    assert completion.value(*problem.geometry.factors(result.point)) < 1e-13 * completion.value_at_zero


TARGET = np.random.default_rng(0).standard_normal((7, 5))


def dense_problem(variant):
    """‖W − A‖² by autodiff-like partial derivatives in the fields, as a user of Pymanopt writes it."""
    manifold = LowRank(VARIANTS[variant](TARGET.shape, 2))
    geometry = manifold.geometry

    def S(x):
        L, R = geometry.factors(geometry.point_type(*x))
        return 2 * (L @ R.T - TARGET)

    def gradient(*x):
        if variant.startswith(("GH", "UY")):
            L, R = x
            return [S(x) @ R, S(x).T @ L]
        U, B, V = x
        if variant == "embedded":
            return [S(x) @ V * B, np.diagonal(U.T @ S(x) @ V), S(x).T @ U * B]
        return [S(x) @ V @ B.T, U.T @ S(x) @ V, S(x).T @ U @ B]

    def hessian(*arrays):
        x, xi = arrays[: len(arrays) // 2], arrays[len(arrays) // 2 :]
        t = 1e-6
        up, down = (gradient(*(u + s * v for u, v in zip(x, xi, strict=True))) for s in (t, -t))
        return [(a - b) / (2 * t) for a, b in zip(up, down, strict=True)]

    decorate = pymanopt.function.numpy(manifold)
    cost = decorate(lambda *x: np.sum(S(x) ** 2) / 4)
    return manifold, pymanopt.Problem(
        manifold, cost, euclidean_gradient=decorate(gradient), euclidean_hessian=decorate(hessian)
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_partial_derivatives_become_the_gradient(variant):
    manifold, problem = dense_problem(variant)
    geometry = manifold.geometry
    x = well_conditioned_point(geometry, seed=1)
    L, R = geometry.factors(x)
    S = 2 * (L @ R.T - TARGET)
    expected = geometry.gradient(x, S @ R, S.T @ L)
    for one, two in zip(problem.riemannian_gradient(x), expected, strict=True):
        assert_allclose(one, two, atol=1e-10)


@pytest.mark.parametrize("variant", PRODUCTS)
def test_second_derivatives_become_the_hessian(variant):
    manifold, problem = dense_problem(variant)
    geometry = manifold.geometry
    x = well_conditioned_point(geometry, seed=1)
    xi = geometry.random_tangent(x, seed=2)
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    S, dS = 2 * (L @ R.T - TARGET), 2 * velocity(geometry, x, xi)
    expected = geometry.hessian(x, xi, S @ R, S.T @ L, dS @ R + S @ dR, dS.T @ L + S.T @ dL)
    for one, two in zip(problem.riemannian_hessian(x, TangentVector(xi)), expected, strict=True):
        assert_allclose(one, two, atol=1e-6)


def test_embedded_names_the_way_to_second_derivatives():
    manifold = LowRank(rf.Embedded((7, 5), 2))
    x = manifold.random_point()
    with pytest.raises(NotImplementedError, match="use as_problem"):
        manifold.euclidean_to_riemannian_hessian(x, x, x, manifold.random_tangent_vector(x))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_manifold_agrees_with_the_geometry(variant):
    geometry = VARIANTS[variant]((9, 6), 2)
    manifold = LowRank(geometry)
    assert manifold.dim == geometry.dimension
    x, y = geometry.random_point(0), geometry.random_point(1)
    xi, eta = (TangentVector(geometry.random_tangent(x, seed)) for seed in (2, 3))
    assert manifold.inner_product(x, xi, eta) == geometry.inner(
        x, geometry.tangent_type(*xi), geometry.tangent_type(*eta)
    )
    assert_allclose(manifold.norm(x, 3 * xi - xi / 2), 2.5 * manifold.norm(x, xi))
    assert manifold.norm(x, manifold.zero_vector(x) + -xi + xi) == 0
    carried = manifold.transport(x, y, xi)
    assert_allclose(manifold.norm(y, manifold.to_tangent_space(y, carried) - carried), 0, atol=1e-8)
    assert_allclose(manifold.norm(x, manifold.random_tangent_vector(x)), 1)
