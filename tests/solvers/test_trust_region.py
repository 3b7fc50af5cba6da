"""The trust region's radius, and its counts: what the model promises is set by hand, so that ρ is known."""

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from rankfold.geometry.base import lincomb
from rankfold.solvers import trust_region
from rankfold.solvers.line_search import moved
from rankfold.solvers.metric import Metric
from rankfold.solvers.truncated_cg import Proposal, truncated_cg

PROBLEM = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))


@pytest.fixture
def start():
    return rf.TrustRegion(initial_radius=0.5).init(PROBLEM, PROBLEM.geometry.random_point(0))


def stepped(monkeypatch, state, promised, at_boundary):
    """One step, given what the model promises relative to what the step gains."""
    eta = truncated_cg(state.here, state.radius, 1.0, 0.1, 100)[0][0].eta
    gain = state.value - moved(state.here, eta, 1.0).value
    proposal = Proposal(state.radius, eta, promised(gain, state.here.noise), at_boundary)
    monkeypatch.setattr(trust_region, "truncated_cg", lambda *_: ((proposal,), 1))
    return rf.TrustRegion().step(PROBLEM, state)


@pytest.mark.parametrize(
    ("rho", "at_boundary", "factor", "accepted"),
    [
        (0.05, True, 1 / 4, False),
        (0.2, True, 1 / 4, True),
        (0.5, True, 1, True),
        (0.9, False, 1, True),
        (0.9, True, 2, True),
    ],
)
def test_the_radius_follows_how_well_the_model_agreed(monkeypatch, start, rho, at_boundary, factor, accepted):
    after = stepped(monkeypatch, start, lambda gain, _: gain / rho, at_boundary)
    assert after.report.rho == pytest.approx(rho, rel=1e-6)
    assert after.radius == factor * start.radius
    assert (after.value < start.value) == accepted
    assert (after.report.step > 0) == accepted
    assert after.report.note == ("" if accepted else "rejected")


def test_the_radius_is_bounded(monkeypatch, start):
    near = type(start)(here=start.here, radius=0.5, max_radius=0.8)
    assert stepped(monkeypatch, near, lambda gain, _: gain, at_boundary=True).radius == 0.8


@pytest.mark.parametrize(("part", "stops"), [(0.5, True), (1.0, True), (2.0, False)])
def test_it_stops_where_the_model_promises_no_more_than_rounding(monkeypatch, start, part, stops):
    after = stepped(monkeypatch, start, lambda _, noise: part * noise, at_boundary=False)
    assert bool(after.stalled) == stops
    assert after.stationary == stops
    assert (after.x is start.x) == stops


def test_a_region_that_shrank_because_the_cost_is_not_finite_is_no_minimum(monkeypatch, start):
    report = rf.solvers.base.StepReport(note="rejected", rho=float("nan"))
    broken = type(start)(here=start.here, radius=0.5, max_radius=1.0, report=report)
    after = stepped(monkeypatch, broken, lambda _, noise: 0.5 * noise, at_boundary=False)
    assert after.stalled
    assert not after.stationary


@pytest.mark.parametrize("solver", [rf.TrustRegion(), rf.GradientDescent()])
def test_the_first_length_for_other_costs_is_newton_s_on_the_line_down_the_gradient(solver):
    x = PROBLEM.geometry.random_point(0)
    here, geometry = PROBLEM.at(x), PROBLEM.geometry
    newton = here.gradient_norm**2 / geometry.inner(x, here.hessian(here.gradient), here.gradient)
    assert newton > 0
    state = solver.init(PROBLEM, x)
    if isinstance(solver, rf.TrustRegion):
        assert state.radius == pytest.approx(newton * here.gradient_norm / 64)
    else:
        assert state.guess == pytest.approx(newton)


def test_a_start_without_a_gradient_has_a_radius_all_the_same():
    cost = DenseCost((4, 3))
    cost.C = 0 * cost.C
    geometry = rf.FullRank((4, 3), 1, metric="euclidean")
    x = type(geometry.random_point(0))(np.zeros((4, 1)), np.ones((3, 1)))
    assert rf.TrustRegion().init(rf.Problem(cost, geometry), x).radius == 1.0


def test_hessian_products_are_counted_and_bounded(start):
    spent = []
    for most in (1, 2, 100):
        before = PROBLEM.counts.hessians
        spent.append(truncated_cg(start.here, 1e9, 1.0, 1e-6, most)[1])
        assert spent[-1] == PROBLEM.counts.hessians - before
    assert spent[:2] == [1, 2]
    assert 2 < spent[2] < 100


def test_the_trace_counts_the_hessian_products_of_each_step():
    result = rf.minimize(PROBLEM, rf.TrustRegion(), PROBLEM.geometry.random_point(0), max_iterations=40)
    assert result.trace["inner_iterations"].max() > 1
    assert list(result.trace["inner_iterations"][1:]) == list(result.trace["hessians"][1:])


@pytest.mark.parametrize("geometry", [rf.Polar, rf.Embedded])
def test_at_an_exact_fit_it_stops_where_rounding_is_all_that_is_left(geometry):
    data = rf.data.random_completion((200, 150), rank=5, oversampling=4, seed=0)
    problem = rf.Problem(rf.Completion.from_triples(data), geometry(data.shape, 5))
    result = rf.minimize(problem, rf.TrustRegion(), tolerance=0.0, max_iterations=60)
    assert result.stop.kind is rf.stopping.StopKind.STATIONARY
    assert result.value < 1e-26 * problem.cost.value_at_zero
    assert result.trace["step"][-1] == 0


def residual(here, eta):
    """The norm of grad + Hess η, what is left of the model's gradient."""
    left = lincomb(1.0, here.gradient, 1.0, here.hessian(eta))
    return here.problem.geometry.norm(here.x, left)


@pytest.mark.parametrize("kappa", [0.3, 0.1, 1e-3])
def test_the_inner_iteration_ends_by_the_paper_s_rule(kappa):
    """‖r‖ ≤ ‖r₀‖ min(‖r₀‖^θ, κ), and not before: near a minimum, where nothing else ends it."""
    point = rf.minimize(PROBLEM, rf.TrustRegion(), tolerance=0, max_iterations=6).x
    here = PROBLEM.at(point)
    for theta in (0.0, 1.0):
        target = here.gradient_norm * min(here.gradient_norm**theta, kappa)
        proposals, products = truncated_cg(here, 1e9, theta, kappa, 100)
        assert residual(here, proposals[0].eta) <= 1.001 * target
        before = truncated_cg(here, 1e9, theta, kappa, products - 1)[0]
        assert residual(here, before[0].eta) > 0.999 * target


def test_the_constants_are_the_paper_s():
    solver = rf.TrustRegion()
    assert (solver.theta, solver.kappa, solver.max_inner) == (1.0, 0.1, 100)


def test_the_inner_iteration_is_preconditioned_by_what_was_asked_for(monkeypatch):
    cost = rf.Completion.from_triples(rf.data.random_completion((12, 9), 2, 2, seed=0))
    problem, given = rf.Problem.of(cost, 2), []

    def noting(*arguments):
        given.append(arguments[-1])
        return truncated_cg(*arguments)

    def mine(here, xi):
        return xi

    monkeypatch.setattr(trust_region, "truncated_cg", noting)
    for options in ({}, {"metric": "data"}, {"preconditioner": mine}):
        solver = rf.TrustRegion(**options)
        state = solver.init(problem, problem.geometry.random_point(0))
        solver.step(problem, state)
    plain, data, own = given
    assert plain is None
    assert own is mine
    for part, expected in zip(
        data(state.here, state.here.gradient), Metric.of(state.here).gradient(state.here), strict=True
    ):
        np.testing.assert_allclose(part, expected, atol=1e-10 * np.abs(expected).max())
