"""Everything stays on the device of the points given: array-api-strict's second device refuses to mix."""

import array_api_strict as xp
import numpy as np
import pytest

import rankfold as rf
from geometry.variants import VARIANTS

SHAPE, RANK = (12, 10), 3
THERE = xp.Device("device1")
TARGET = np.random.default_rng(0).standard_normal((12, RANK)) @ np.random.default_rng(1).standard_normal(
    (RANK, 10)
)


def cost():
    C = xp.asarray(TARGET, device=THERE)

    def partials(L, R):
        E = L @ R.T - C
        return float(xp.sum(E * E)) / 2, E @ R, E.T @ L

    def derivative(L, R, dL, dR):
        E, dE = L @ R.T - C, dL @ R.T + L @ dR.T
        return dE @ R + E @ dR, dE.T @ L + E.T @ dL

    return rf.Custom.from_partials(partials, SHAPE, derivative, like=C)


def problem_and_start(variant):
    problem = VARIANTS[variant].problem(cost(), RANK)
    return problem, problem.geometry.random_point(0, like=xp.asarray(0.0, device=THERE))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    "solver", [rf.GradientDescent(), rf.ConjugateGradient(), rf.GaussNewton(), rf.TrustRegion()]
)
def test_solvers(variant, solver):
    problem, x0 = problem_and_start(variant)
    result = rf.minimize(problem, solver, x0, max_iterations=4)
    assert result.value < problem.at(x0).value
    assert all(part.device == THERE for part in result.x)


@pytest.mark.parametrize("solver", [rf.RankContinuation(), rf.ReweightedContinuation()])
def test_continuation(solver):
    problem, x0 = problem_and_start("GH-preconditioned")
    result = rf.minimize(problem, solver, x0, max_iterations=200)
    assert result.value < 1e-6 * problem.at(x0).value
    assert all(part.device == THERE for part in result.x)


@pytest.mark.parametrize("variant", VARIANTS)
def test_symmetries(variant):
    problem, x0 = problem_and_start(variant)
    geometry = problem.geometry
    moved = geometry.act(x0, geometry.random_symmetry(0))
    assert all(part.device == THERE for part in moved)
