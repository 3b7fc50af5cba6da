"""What each step tells the trace and stopping rules: its length, 0 if none was taken, and what it took."""

from math import isnan

import pytest

import rankfold as rf

METHODS = [
    rf.GradientDescent(), rf.ConjugateGradient(), rf.TrustRegion(), rf.TrustRegion(metric="data"),
    rf.GaussNewton(), rf.RankContinuation(), rf.ReweightedContinuation(), rf.Auto(),
]  # fmt: skip
MODELS = rf.TrustRegion, rf.GaussNewton, rf.ReweightedContinuation  # which iterate inside of a step


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_steps_have_a_length_and_counts_until_none_is_left(method):
    data = rf.data.random_completion((40, 30), 2, 4, seed=0)
    problem = rf.Problem.of(rf.Completion.from_triples(data), rank=2)
    state = method.init(problem, problem.start())
    assert state.report.backtracks == state.report.inner_iterations == 0
    for _ in range(300):
        assert not state.stationary
        before, spent = state, problem.counts.hessians
        state = method.step(problem, state)
        report, products = state.report, problem.counts.hessians - spent
        if state.x is before.x:
            assert report.step == 0
        else:
            assert report.step > 0 or (isnan(report.step) and report.note), "a new rank, or ridge"
        assert report.backtracks >= 0
        assert report.inner_iterations == (products if isinstance(method, MODELS) else 0)
        assert isnan(report.radius) or report.radius > 0
        if state.stalled:
            break
    assert state.stalled
    assert report.step == 0
