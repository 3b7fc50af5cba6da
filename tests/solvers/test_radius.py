"""The trust region's rules at their very bounds: places whose values are told, without rounding or with."""

from dataclasses import replace
from math import nan
from types import SimpleNamespace

import pytest

import rankfold as rf
from rankfold.solvers import trust_region
from rankfold.solvers.base import StepReport
from rankfold.solvers.truncated_cg import Proposal
from rankfold.solvers.trust_region import TrustRegionState

PROBLEM = SimpleNamespace(geometry=SimpleNamespace(norm=lambda x, eta: 3.0))


def stepped(monkeypatch, value, there, decrease, noise=0.0, at_boundary=True, rest=(), **state):
    """One step from a value to another one, where so much was promised."""
    here, other = SimpleNamespace(value=value, noise=noise, x=0), SimpleNamespace(value=there)
    monkeypatch.setattr(trust_region, "moved", lambda here, eta, t: other)
    metric = SimpleNamespace(moved=lambda place: ("moved", place))
    pending = (Proposal(2.0, "eta", decrease, at_boundary), *rest)
    given = TrustRegionState(here=here, radius=9.0, max_radius=5.0, metric=metric, pending=pending)
    return rf.TrustRegion().step(PROBLEM, replace(given, **state)), here, other


@pytest.mark.parametrize(
    ("gain", "decrease", "radius", "accepted"),
    [
        (1.0, 10.0, 0.5, False),
        (1.125, 10.0, 0.5, True),
        (1.0, 4.0, 2.0, True),
        (3.0, 4.0, 2.0, True),
        (3.25, 4.0, 4.0, True),
        (9.0, 4.0, 4.0, True),
        (-1.0, 4.0, 0.5, False),
    ],
)
def test_agreement_of_a_tenth_a_quarter_and_three_quarters(monkeypatch, gain, decrease, radius, accepted):
    after, here, other = stepped(monkeypatch, 16.0, 16.0 - gain, decrease)
    assert (after.radius, after.here) == (radius, other if accepted else here)
    assert after.report == StepReport(
        step=3.0 if accepted else 0.0, radius=2.0, rho=gain / decrease, note="" if accepted else "rejected"
    )
    assert (after.pending, after.max_radius, after.stalled) == ((), 5.0, "")
    assert (after.metric == ("moved", other)) == accepted


def test_a_radius_grows_only_for_a_step_that_it_held_back_and_to_the_largest_at_most(monkeypatch):
    assert stepped(monkeypatch, 16.0, 12.0, 4.0, at_boundary=False)[0].radius == 2.0
    assert stepped(monkeypatch, 16.0, 12.0, 4.0, max_radius=3.0)[0].radius == 3.0


def test_after_a_rejected_step_comes_the_next_of_the_proposals(monkeypatch):
    rest = Proposal(0.7, "next", 1.0, True), Proposal(0.1, "last", 0.5, True)
    after, here, _ = stepped(monkeypatch, 16.0, 17.0, 4.0, rest=rest)
    assert (after.radius, after.pending, after.here) == (0.7, rest, here)
    assert stepped(monkeypatch, 16.0, 12.0, 4.0, rest=rest)[0].pending == ()


@pytest.mark.parametrize(
    ("value", "there", "ends"),
    [(1000.0, 1000.0, True), (1000.0, 1001.0, True), (1000.0, 999.0, False), (1001.0, 1001.0, False)],
)
def test_a_value_of_a_thousand_roundings_that_does_not_fall_is_zero(monkeypatch, value, there, ends):
    after, here, _ = stepped(monkeypatch, value, there, 2.0, noise=1.0)
    assert (after.stalled == trust_region._AT_ZERO) == after.stationary == ends
    if ends:
        assert after.here is here
        assert (after.report.step, after.report.radius, after.report.inner_iterations) == (0.0, 2.0, 0)
    else:
        assert after.report.rho == (value - there + 1000.0) / 1002.0


@pytest.mark.parametrize(
    ("note", "rho", "stationary"),
    [("rejected", nan, False), ("rejected", -1.0, True), ("", nan, True), ("", -1.0, True)],
)
def test_where_the_model_promises_nothing_it_ends(monkeypatch, note, rho, stationary):
    report = StepReport(note=note, rho=rho)
    after, here, _ = stepped(monkeypatch, 16.0, 12.0, 1.0, noise=1.0, report=report)
    assert after.stalled
    assert (after.here, after.stationary, after.report.step, after.report.radius) == (
        here,
        stationary,
        0.0,
        2.0,
    )


@pytest.mark.parametrize(
    ("value", "there", "decrease", "noise"),
    [(16.0, 12.0, 4.0, 0.0), (16.0, 17.0, 4.0, 0.0), (16.0, 12.0, 1.0, 1.0), (900.0, 900.0, 2.0, 1.0)],
)
def test_each_step_tells_the_products_that_it_took(monkeypatch, value, there, decrease, noise):
    """Taken, rejected, without a promise, and at zero."""
    asked = []

    def truncated_cg(*given):
        asked.append(given)
        return (Proposal(2.0, "eta", decrease, True),), 5

    monkeypatch.setattr(trust_region, "truncated_cg", truncated_cg)
    solver = rf.TrustRegion(theta=0.5, kappa=0.25, max_inner=6, preconditioner="mine")
    monkeypatch.setattr(rf, "TrustRegion", lambda: solver)
    metric = SimpleNamespace(formed=None, moved=lambda place: "moved")
    after, here, _ = stepped(monkeypatch, value, there, decrease, noise, pending=(), metric=metric)
    assert asked == [(here, 9.0, 0.5, 0.25, 6, "mine")]
    assert (after.report.inner_iterations, after.report.radius) == (5, 2.0)


def test_a_metric_preconditions_unless_a_preconditioner_was_given():
    formed = SimpleNamespace(formed="blocks", preconditioned="by blocks")
    plain = SimpleNamespace(formed=None)
    for given, metric, due in (
        (None, formed, "by blocks"), (None, plain, None), ("mine", formed, "mine"), ("mine", plain, "mine"),
    ):  # fmt: skip
        state = SimpleNamespace(metric=metric)
        assert rf.TrustRegion(preconditioner=given)._preconditioner(state) == due
