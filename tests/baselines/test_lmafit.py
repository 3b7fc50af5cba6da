"""LMaFit against its own formulas on dense matrices, and its rank strategies."""

from dataclasses import replace

import numpy as np
import pytest
from baseline_instances import completion, dense, instance, solve
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.baselines import LMaFit


def test_steps_are_those_of_the_dense_formulas():
    data = instance()
    W, mask = dense(data)
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 3))
    method = LMaFit()
    state = method.init(problem, problem.start())
    for _ in range(6):
        G, H = state.x
        Z = G @ H.T + (1 + state.excess) * mask * (W - G @ H.T)
        Q, _ = np.linalg.qr(Z @ H)
        following = method.step(problem, state)
        assert following.report.note == ""
        assert_allclose(following.x.G @ following.x.H.T, Q @ (Q.T @ Z), atol=1e-10)
        assert_allclose(following.value, np.mean((following.x.G @ following.x.H.T - W)[mask] ** 2))
        state = following


def test_relaxation_grows_where_a_step_leaves_most_of_the_residual():
    data = instance(oversampling=2.5)
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 3))
    method = LMaFit()
    state = method.init(problem, problem.start())
    grew = []
    for _ in range(12):
        before, state = state, method.step(problem, state)
        if state.report.note == "undone":
            continue
        grew.append(np.sqrt(state.value / before.value) > 0.7)
        increment = max(before.increment, 0.25 * before.excess) if grew[-1] else before.increment
        assert state.increment == increment
        assert state.excess == before.excess + grew[-1] * increment
        assert state.report.step == 1 + before.excess
    assert set(grew) == {False, True}


def test_a_step_that_does_not_lower_the_residual_is_undone():
    data = instance()
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 3))
    state = LMaFit().init(problem, problem.start())
    undone = LMaFit().step(problem, replace(state, excess=1000.0))
    assert (undone.report.note, undone.report.step) == ("undone", 0.0)
    assert (undone.x, undone.value) == (state.x, state.value)
    assert (undone.excess, undone.increment) == (0.0, 100.0)
    assert not undone.stalled


def test_it_recovers_the_matrix():
    data = instance()
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 3))
    result = solve(problem, LMaFit())
    assert result.converged
    assert data.relative_error(*result.x) < 1e-9


def test_the_residual_never_grows():
    data = instance(oversampling=2.5)
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 3))
    values = solve(problem, LMaFit(), iterations=200).trace["value"]
    assert (np.diff(values) <= 0).all()


def test_decreasing_rank_finds_the_true_one():
    data = instance(oversampling=8)
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 6))
    result = solve(problem, LMaFit("decreasing"))
    assert result.state.rank == 3
    # At once when it may, after five iterations.
    assert [(row.iteration, row.note) for row in result.trace if "->" in row.note] == [(6, "rank 6 -> 3")]
    assert result.converged


def test_increasing_rank_reaches_the_true_one():
    data = instance(oversampling=8)
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 3))
    result = solve(problem, LMaFit("increasing"))
    assert result.state.rank == 3
    assert [row.note for row in result.trace if "->" in row.note] == ["rank 1 -> 2", "rank 2 -> 3"]
    assert result.converged


def test_a_minimum_is_a_stall():
    data = instance(noise=0.1)
    problem = rf.Problem(completion(data), rf.FullRank(data.shape, 3))
    result = solve(problem, LMaFit(), iterations=3000)
    assert "ω = 1" in result.stop_reason


def test_what_it_is_not_made_for():
    data = instance()
    with pytest.raises(TypeError, match="LMaFit keeps its points in a FullRank"):
        rf.minimize(rf.Problem(completion(data), rf.Polar(data.shape, 3)), LMaFit())
    with pytest.raises(TypeError, match="square loss"):
        rf.minimize(rf.Problem(completion(data, loss="huber"), rf.FullRank(data.shape, 3)), LMaFit())
    weights = np.ones(len(data.values))
    with pytest.raises(TypeError, match="no weights"):
        rf.minimize(rf.Problem(completion(data, weights=weights), rf.FullRank(data.shape, 3)), LMaFit())
    with pytest.raises(ValueError, match="rank_strategy"):
        LMaFit("some")
