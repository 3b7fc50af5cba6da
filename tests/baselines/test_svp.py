"""SVP against the dense formula."""

import numpy as np
import pytest
from baseline_instances import completion, dense, instance, solve
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.baselines import SVP


def test_a_step_is_the_projected_gradient_step():
    data = instance(oversampling=8)
    W, mask = dense(data)
    problem = rf.Problem(completion(data), rf.Embedded(data.shape, 3))
    state = SVP().init(problem, problem.start())
    for _ in range(5):
        before, state = state, SVP().step(problem, state)
        t = mask.size / (mask.sum() * 4 / 3) / 2**state.report.backtracks
        X = (before.x.U * before.x.s) @ before.x.V.T
        U, s, Vt = np.linalg.svd(X - t * mask * (X - W))
        due = (U[:, :3] * s[:3]) @ Vt[:3]
        got = (state.x.U * state.x.s) @ state.x.V.T
        assert np.linalg.norm(got - due) <= 0.05 * np.linalg.norm(due - X)
        assert_allclose(state.report.step, t * np.linalg.norm(mask * (X - W)), rtol=1e-10)
        assert_allclose(state.gradient_norm, np.linalg.norm(2 / mask.sum() * mask * (got - W)), rtol=1e-10)


def test_it_recovers_the_matrix():
    data = instance(oversampling=8)
    problem = rf.Problem(completion(data), rf.Embedded(data.shape, 3))
    result = solve(problem, SVP())
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-9
    assert (np.diff(result.trace["value"]) < 0).all()


def test_a_minimum_is_a_stall_by_rounding():
    data = instance(oversampling=8, noise=0.1)
    problem = rf.Problem(completion(data), rf.Embedded(data.shape, 3))
    result = solve(problem, SVP(), iterations=2000)
    assert "rounding" in result.stop_reason
    assert result.converged


def test_it_backtracks_where_the_step_is_too_long():
    data = instance(oversampling=2)
    problem = rf.Problem(completion(data), rf.Embedded(data.shape, 3))
    result = solve(problem, SVP(delta=-0.7), iterations=20)
    assert result.trace["backtracks"].sum() > 0
    assert (np.diff(result.trace["value"]) < 0).all()


def test_it_runs_on_embedded_points():
    data = instance()
    with pytest.raises(TypeError, match="SVP keeps its points in a Embedded"):
        rf.minimize(rf.Problem(completion(data), rf.FullRank(data.shape, 3)), SVP())
