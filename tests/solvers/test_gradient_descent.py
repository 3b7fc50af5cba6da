"""One step of gradient descent, and of Gauss–Newton, where what is tried is told."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.solvers import gauss_newton
from rankfold.solvers.damped_model import DampedModel, Minimiser
from rankfold.solvers.gauss_newton import GaussNewtonState
from rankfold.solvers.metric import Metric


@pytest.mark.parametrize("metric", ["geometry", "data"])
def test_a_step_goes_down_the_gradient_in_its_metric(metric):
    cost = rf.Completion.from_triples(rf.data.random_completion((9, 7), 2, 1.5, seed=0))
    problem = rf.Problem(cost, rf.FullRank((9, 7), 2))
    x = problem.geometry.random_point(0)
    solver = rf.GradientDescent(first_step=1e-3, metric=metric)
    state = solver.init(problem, x)
    assert (state.guess, state.x) == (1e-3, x)
    after = solver.step(problem, state)
    uphill = (Metric.of(state.here) if metric == "data" else Metric()).gradient(state.here)
    assert_allclose(after.x.G, x.G - 1e-3 * uphill.G, atol=1e-13)
    assert_allclose(after.x.H, x.H - 1e-3 * uphill.H, atol=1e-13)
    assert after.guess == 2e-3
    assert after.report.step == pytest.approx(1e-3 * problem.geometry.norm(x, uphill))
    assert after.report.backtracks == 0


def test_a_step_that_is_too_long_is_halved_until_a_quarter_of_the_promise_is_kept():
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    x = problem.geometry.random_point(0)
    solver = rf.GradientDescent(first_step=256.0)
    state = solver.init(problem, x)
    after = solver.step(problem, state)
    g, slope = state.here.gradient, state.gradient_norm**2
    trials = 256.0 / 2.0 ** np.arange(20)
    falls = [state.value - problem.value(type(x)(x.G - t * g.G, x.H - t * g.H)) for t in trials]
    k = next(k for k, t in enumerate(trials) if falls[k] >= 0.25 * t * slope)
    assert after.report.backtracks == k > 1
    assert after.guess == 2 * trials[k]
    assert after.report.step == pytest.approx(trials[k] * state.gradient_norm)


def stepped(monkeypatch, value, values, decreases, damping=2.0, noise=0.0, **state):
    """A step of Gauss–Newton from a value to others, one for each damping that is tried."""
    here = SimpleNamespace(value=value, noise=noise)
    theirs, promised, asked = iter(values), iter(decreases), []

    def minimised(damping, tolerance, most):
        asked.append((damping, tolerance, most))
        return Minimiser(1, 2, next(promised), 7)

    model = SimpleNamespace(minimised=minimised, length=lambda dL, dR: 10.0 * dL + dR)
    monkeypatch.setattr(DampedModel, "at", lambda here: model)
    monkeypatch.setattr(gauss_newton, "_moved", lambda here, found: SimpleNamespace(value=next(theirs)))
    given = GaussNewtonState(here=here, damping=damping, **state)
    return rf.GaussNewton(inner_tolerance=0.5, max_inner=9).step(None, given), asked, here


def test_what_a_step_tells_of_the_dampings_that_were_tried(monkeypatch):
    after, asked, _ = stepped(monkeypatch, 16.0, [17.0, 16.0, 4.0], [8.0, 8.0, 6.0], left=0.25)
    assert asked == [(2.0, 0.25, 9), (16.0, 0.25, 9), (128.0, 0.25, 9)]
    assert (after.value, after.damping, after.left) == (4.0, 0.2 * 128.0, 0.25)
    report = after.report
    assert (report.step, report.backtracks, report.inner_iterations, report.rho) == (12.0, 2, 21, 2.0)
    assert (after.stalled, after.stationary) == ("", False)


@pytest.mark.parametrize(
    ("promised", "stationary"), [((1000.0, 900.0), True), ((1000.5, 900.0), False), ((900.0, 1000.5), False)]
)
def test_the_largest_promise_says_whether_rounding_could_break_it(monkeypatch, promised, stationary):
    """A thousand roundings are the most that it could; then the model promises nothing any more."""
    after, asked, here = stepped(monkeypatch, 16.0, [17.0, 17.0], [*promised, 1.0], noise=1.0)
    assert (after.stalled, after.stationary) == (gauss_newton.NO_DECREASE, stationary)
    assert (after.here, after.damping, len(asked)) == (here, 2.0, 3)
    report = after.report
    assert (report.step, report.backtracks, report.inner_iterations) == (0.0, 2, 21)


def test_after_ten_dampings_it_stays(monkeypatch):
    after, asked, here = stepped(monkeypatch, 16.0, [16.0] * 10, [5.0] * 10, noise=1.0, damping=1e-9)
    assert [damping for damping, *_ in asked] == pytest.approx(
        [1e-9, *(1e-6 * 8.0 ** np.arange(9))], rel=1e-9, abs=0
    )
    assert (after.stalled, after.stationary, after.here) == (gauss_newton.NO_STEP, True, here)
    assert (after.report.backtracks, after.report.inner_iterations) == (10, 70)


def test_the_damping_stays_above_its_floor(monkeypatch):
    for damping, due in ((1e-11, 2e-12), (1e-12, 1e-12)):
        assert stepped(monkeypatch, 2.0, [1.0], [1.0], damping=damping)[0].damping == pytest.approx(
            due, rel=1e-9, abs=0
        )
