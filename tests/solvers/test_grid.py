"""Every solver on every geometry, on problems whose minimum is known."""

from __future__ import annotations

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS

SOLVERS = {
    "gd": rf.GradientDescent(),
    "cg-pr": rf.ConjugateGradient("PR+"),
    "cg-hs": rf.ConjugateGradient("HS"),
    "cg-dy": rf.ConjugateGradient("DY"),
    "gn": rf.GaussNewton(),
    "tr": rf.TrustRegion(),
}


def completion(data, **options):
    return rf.Completion.from_triples(data, **options)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", VARIANTS)
def test_completion_recovers_the_matrix(name, solver):
    instance = VARIANTS[name].completion((120, 90), rank=3, oversampling=6, seed=1)
    problem = rf.Problem(completion(instance), VARIANTS[name](instance.shape, 3))
    slow = VARIANTS[name].slow and solver not in ("gn", "tr")
    result = rf.minimize(problem, SOLVERS[solver], tolerance=1e-18, max_iterations=150 if slow else 2000)
    assert np.all(np.diff(result.trace["value"]) <= 0)
    if slow:
        assert result.value < (0.5 if solver == "gd" else 1e-3) * result.trace["value"][0]
    else:
        assert result.converged, result.stop_reason
        assert instance.relative_error(*result.factors) <= 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", VARIANTS)
def test_a_smooth_cost_of_full_rank_is_minimised(name, solver):
    """f(W) = Σ log cosh(W − C) at rank min(shape) has its minimum 0 at W = C."""
    cost = DenseCost((4, 3), seed=2)
    C = cost.C
    if VARIANTS[name].symmetric:
        cost = DenseCost((4, 4))
        U, s, _ = point_of(C)
        C = cost.C = (U * s) @ U.T
    problem = rf.Problem(cost, VARIANTS[name]((4, 3), 3))
    U, s, V = point_of(C + 0.3 * np.random.default_rng(0).standard_normal(C.shape))
    near = problem.geometry.nearest(U[:, :3], s[:3], V[:, :3])
    result = rf.minimize(problem, SOLVERS[solver], x0=near, tolerance=1e-8, max_iterations=5000)
    assert result.converged, result.stop_reason
    L, R = result.factors
    np.testing.assert_allclose(L @ R.T, C, atol=1e-3)


def point_of(W):
    U, s, Vt = np.linalg.svd(W, full_matrices=False)
    return U, s, Vt.T


@pytest.mark.parametrize("name", VARIANTS)
def test_solvers_agree_on_the_minimum_of_a_noisy_problem(name):
    data = VARIANTS[name].completion((60, 50), rank=2, oversampling=6, seed=0, noise=0.1)
    problem = rf.Problem(completion(data), VARIANTS[name](data.shape, 2))
    values = [
        rf.minimize(problem, SOLVERS[s], tolerance=0, max_iterations=1000).value
        for s in ("cg-pr", "gn", "tr")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-2 if VARIANTS[name].slow else 1e-9)
    assert values[1] == pytest.approx(values[2], rel=1e-9)
