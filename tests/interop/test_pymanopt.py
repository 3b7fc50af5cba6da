"""Pymanopt's optimisers on every geometry; conversions against Pymanopt's own numerical checks."""

import numpy as np
import pymanopt
import pytest
import torch
from numpy.testing import assert_allclose
from pymanopt.optimizers import ConjugateGradient, TrustRegions

import rankfold as rf
from geometry.variants import VARIANTS, every, velocity, well_conditioned_point
from rankfold.interop.pymanopt import LowRank, TangentVector, _product, as_problem


@pytest.mark.parametrize("optimizer", [ConjugateGradient, TrustRegions])
@every
def test_optimizers_reach_the_minimum(name, optimizer):
    data = VARIANTS[name].completion((60, 50), rank=3, oversampling=6, seed=0)
    completion = rf.Completion.from_triples(data)
    problem = rf.Problem(completion, VARIANTS[name](completion.shape, 3))
    run = optimizer(verbosity=0, min_gradient_norm=1e-9, max_iterations=2000).run
    manifold = LowRank(problem.geometry)
    result = run(as_problem(problem), initial_point=manifold.unwrapped(problem.start()))
    x = manifold.point(result.point)
    assert completion.value(*problem.geometry.factors(x)) < 1e-13 * completion.value_at_zero


def target(name):
    A = np.random.default_rng(0).standard_normal((7, 5))
    return A @ A.T if VARIANTS[name].symmetric else A


def dense_problem(name):
    """½‖W − A‖² with derivatives in the fields by autodiff, as a user of Pymanopt writes it."""
    geometry = VARIANTS[name]((7, 5), 2)

    def cost(*fields):
        L, R = geometry.factors(geometry.point_type(*fields))
        return ((L @ R.T - torch.from_numpy(target(name))) ** 2).sum() / 2

    manifold = LowRank(geometry)
    return manifold, pymanopt.Problem(manifold, pymanopt.function.pytorch(manifold)(cost))


@every
def test_partial_derivatives_become_the_gradient(name):
    manifold, problem = dense_problem(name)
    geometry = manifold.geometry
    x = well_conditioned_point(geometry, seed=1)
    L, R = geometry.factors(x)
    S = L @ R.T - target(name)
    expected = geometry.gradient(x, S @ R, S.T @ L)
    found = manifold.tangent(problem.riemannian_gradient(manifold.unwrapped(x)))
    for one, two in zip(found, expected, strict=True):
        assert_allclose(one, two, atol=1e-10)


@every
def test_second_derivatives_become_the_hessian(name):
    manifold, problem = dense_problem(name)
    geometry = manifold.geometry
    x = well_conditioned_point(geometry, seed=1)
    xi = geometry.random_tangent(x, seed=2)
    (L, R), (dL, dR) = geometry.factors(x), geometry.tangent_factors(x, xi)
    S, dS = L @ R.T - target(name), velocity(geometry, x, xi)
    expected = geometry.hessian(x, xi, S @ R, S.T @ L, dS @ R + S @ dR, dS.T @ L + S.T @ dL)
    found = problem.riemannian_hessian(manifold.unwrapped(x), manifold.unwrapped(TangentVector(xi)))
    for one, two in zip(manifold.tangent(found), expected, strict=True):
        assert_allclose(one, two, atol=1e-10)


@every
def test_trust_regions_take_an_autodiff_cost(name):
    """The best approximation of rank 2 is that of the singular value decomposition."""
    manifold, problem = dense_problem(name)
    x = manifold.unwrapped(well_conditioned_point(manifold.geometry, seed=1))
    result = TrustRegions(verbosity=0, min_gradient_norm=1e-8).run(problem, initial_point=x)
    least = np.sum(np.linalg.svd(target(name), compute_uv=False)[2:] ** 2) / 2
    assert_allclose(result.cost, least, rtol=1e-8)


def test_a_geometry_of_another_kind_is_told_the_way():
    with pytest.raises(NotImplementedError, match="use as_problem"):
        _product(rf.Embedded((7, 5), 2))


@every
def test_the_manifold_agrees_with_the_geometry(name):
    geometry = VARIANTS[name]((9, 6), 2)
    manifold = LowRank(geometry)
    assert manifold.dim == geometry.dimension
    assert manifold.typical_dist == np.sqrt(geometry.dimension)
    ours = geometry.random_point(0)
    x, y = manifold.unwrapped(ours), manifold.unwrapped(geometry.random_point(1))
    vectors = [geometry.random_tangent(ours, seed) for seed in (2, 3)]
    xi, eta = (manifold.unwrapped(TangentVector(vector)) for vector in vectors)
    assert manifold.inner_product(x, xi, eta) == geometry.inner(ours, *vectors)
    assert all(np.array_equal(*pair) for pair in zip(manifold.point(x), ours, strict=True))
    assert_allclose(manifold.norm(x, 3 * xi - xi / 2), 2.5 * manifold.norm(x, xi))
    assert manifold.norm(x, manifold.zero_vector(x) + -xi + xi) == 0
    carried = manifold.transport(x, y, xi)
    assert_allclose(manifold.norm(y, manifold.to_tangent_space(y, carried) - carried), 0, atol=1e-8)
    assert_allclose(manifold.norm(x, manifold.random_tangent_vector(x)), 1)
