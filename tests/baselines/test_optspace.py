"""OptSpace: the exact middle, descent, and the trimmed start."""

import numpy as np
import pytest
from baseline_instances import completion, instance, solve
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.baselines import OptSpace, spectral_start


def make_problem(**options):
    data = instance(**options)
    return data, rf.Problem(completion(data), rf.Polar(data.shape, 3))


def test_the_middle_solves_the_least_squares_problem():
    data, problem = make_problem(noise=0.3)
    U, B, V = OptSpace().init(problem, problem.start()).x
    rows, cols = data.rows, data.cols
    products = (U[rows][:, :, None] * V[cols][:, None, :]).reshape(len(rows), 9)
    best = np.linalg.lstsq(products, data.values)[0].reshape(3, 3)
    assert_allclose(B, best, atol=1e-9 * np.abs(best).max())
    assert_allclose(U.T @ U, np.eye(3), atol=1e-13)


def test_the_gradient_is_normal_to_both_subspaces():
    _, problem = make_problem()
    state = OptSpace().init(problem, problem.start())
    gradient = state.here.gradient
    size = np.linalg.norm(gradient.U)
    assert np.linalg.norm(gradient.B) < 1e-8 * size
    assert np.linalg.norm(state.x.U.T @ gradient.U) < 1e-10 * size


def test_it_recovers_the_matrix():
    data, problem = make_problem(oversampling=6)
    result = solve(problem, OptSpace(), x0=spectral_start(problem))
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-9
    assert (np.diff(result.trace["value"]) < 0).all()


def test_trimming_leaves_crowded_lines_out():
    data = instance(oversampling=3)
    rows = np.concatenate([data.rows, np.zeros(100, int)])
    cols = np.concatenate([data.cols, np.arange(100)])
    values = np.concatenate([data.values, np.full(100, 1e3)])
    _, first = np.unique(rows * 100 + cols, return_index=True)
    cost = rf.Completion(rows[first], cols[first], values[first], data.shape)
    problem = rf.Problem(cost, rf.Embedded(data.shape, 3))
    assert np.abs(problem.start().U[0]).max() > 0.9
    assert np.abs(spectral_start(problem).U[0]).max() < 1e-12


def test_without_crowded_lines_the_start_is_the_usual_one():
    _, problem = make_problem(oversampling=8)
    assert_allclose(spectral_start(problem).B, problem.start().B, rtol=1e-12)


def test_it_runs_on_polar_points():
    data = instance()
    with pytest.raises(TypeError, match="OptSpace keeps its points in a Polar"):
        rf.minimize(rf.Problem(completion(data), rf.FullRank(data.shape, 3)), OptSpace())
