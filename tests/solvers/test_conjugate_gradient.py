"""The directions of conjugate gradients, from their definitions, and how far it goes along them."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.geometry.base import lincomb, scale
from rankfold.solvers.line_search import calibrated, minimiser

SHAPE = (60, 50)


def completion_problem(geometry=None, **options):
    data = rf.data.random_completion(SHAPE, rank=3, oversampling=4, seed=0, **options)
    cost = rf.Completion(data.rows, data.cols, data.values, data.shape)
    return rf.Problem(cost, geometry or rf.FullRank(SHAPE, 3, metric="preconditioned"))


def steps(problem, solver, count, x0=None):
    state = solver.init(problem, problem.start() if x0 is None else x0)
    for _ in range(count):
        before, state = state, solver.step(problem, state)
        yield before, state


def beta(rule, geometry, before, after):
    """From the textbook: y = g₊ − T g, and ⟨T g, T d⟩ taken as ⟨g, d⟩."""
    g, d = after.here.gradient, geometry.transport(before.x, before.direction, after.x)
    change = lincomb(1.0, g, -1.0, geometry.transport(before.x, before.here.gradient, after.x))
    along = geometry.inner(after.x, g, d) - geometry.inner(before.x, before.here.gradient, before.direction)
    if rule == "PR+":
        return geometry.inner(after.x, g, change) / before.gradient_norm**2
    return geometry.inner(after.x, g, change if rule == "HS" else g) / along


@pytest.mark.parametrize("rule", ["PR+", "HS", "DY"])
@pytest.mark.parametrize("geometry", [rf.Polar(SHAPE, 3), rf.FullRank(SHAPE, 3, metric="preconditioned")])
def test_the_next_direction_is_by_the_rule_named(rule, geometry):
    conjugate = 0
    for before, after in steps(
        completion_problem(geometry), rf.ConjugateGradient(rule, metric="geometry"), 15
    ):
        g, carried = after.here.gradient, geometry.transport(before.x, before.direction, after.x)
        overlap = geometry.transported_inner(before.x, before.here.gradient, after.x, g)
        expected = lincomb(-1.0, g, beta(rule, geometry, before, after), carried)
        slope = geometry.inner(after.x, g, expected)
        lost = abs(overlap) > 0.5 * after.gradient_norm**2  # Powell's restart
        assert after.steepest == (lost or not slope < -0.1 * after.gradient_norm**2)
        if after.steepest:
            expected, slope = scale(-1.0, g), -(after.gradient_norm**2)
        for found, due in zip(after.direction, expected, strict=True):
            assert_allclose(found, due, rtol=1e-6, atol=1e-9 * np.abs(due).max())
        assert after.slope == pytest.approx(slope)
        conjugate += not after.steepest
    assert conjugate >= 5


def test_a_step_on_a_straight_line_is_exact_and_needs_no_trial():
    problem = completion_problem()
    for before, after in steps(problem, rf.ConjugateGradient(), 5):
        assert after.t == pytest.approx(minimiser(before.here.polynomial(before.direction)))
        length = after.t * problem.geometry.norm(before.x, before.direction)
        assert after.report.step == pytest.approx(length)
    assert problem.counts.values == 0


def test_a_direction_that_leads_nowhere_is_given_up_for_the_gradient():
    """Where no step goes down a conjugate direction, the next one is tried down the gradient, from there."""
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    solver = rf.ConjugateGradient()
    *_, (_, state) = steps(problem, solver, 3, problem.geometry.random_point(0))
    uphill = type(state)(**{**vars(state), "direction": state.here.gradient, "steepest": False})
    restarted = solver.step(problem, uphill)
    assert (restarted.report.note, restarted.report.step) == ("restart", 0.0)
    assert restarted.steepest
    assert restarted.x is state.x
    assert restarted.t == state.t > 0  # the first guess of the next search
    assert not restarted.stalled
    assert solver.step(problem, restarted).value < state.value


@pytest.mark.parametrize("rule", ["PR+", "HS", "DY"])
def test_a_gradient_that_rounding_makes_zero_is_not_divided_by(rule):
    """Where the metric is nearly singular, ⟨g, g⟩ may come out as 0 though there still is a way down."""
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    solver = rf.ConjugateGradient(rule)
    state = solver.init(problem, problem.geometry.random_point(0))
    vars(state.here)["gradient_norm"] = 0.0
    flat = type(state)(**{**vars(state), "slope": -0.0})
    after = solver.step(problem, flat)
    assert after.value < state.value
    assert after.steepest
    assert after.calibration == 0.0


@pytest.mark.parametrize(
    ("rule", "along", "beta"),
    [("PR+", 1.0, 0.2), ("HS", 1.0, 0.4), ("DY", 1.0, 0.5), ("HS", -1.0, 0.0), ("DY", -2.0, 0.0)],
)
def test_beta_by_its_rule(rule, along, beta):
    state = SimpleNamespace(squared=4.0, slope=-1.0)
    assert rf.ConjugateGradient(beta=rule)._beta(1.0, 0.2, along, state) == pytest.approx(beta)


@pytest.mark.parametrize(
    ("left", "due"),
    [(0.0, 2.0), (0.2, 2.5), (-0.25, 1.6), (0.3, 2 / 0.7), (-0.3, 2 / 1.3), (0.31, 0.0), (-0.31, 0.0)],
)
def test_a_sample_s_steps_are_corrected_by_what_the_last_one_left_of_the_slope(left, due):
    assert calibrated(2.0, left) == pytest.approx(due)
