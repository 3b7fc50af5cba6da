"""The rules of conjugate gradients at their bounds: places and searches are told."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from rankfold.solvers import conjugate_gradient as module
from rankfold.solvers.base import Nested, StepReport
from rankfold.solvers.conjugate_gradient import ConjugateGradientState, Trial, on_trial
from rankfold.solvers.metric import Metric
from rankfold.solvers.progress import Progress


def conjugate(squared, overlap, along, before=8.0, slope=-8.0, calibration=2.0, beta="PR+", trial=None):
    state = SimpleNamespace(squared=before, slope=slope, trial=trial)
    turn = SimpleNamespace(
        squared=squared, overlap=overlap, along=along, calibration=calibration, t=0.25, report="told",
        here=SimpleNamespace(value=3.0, gradient_norm=4.0),
        directions=lambda beta: (("direction", beta), "known"),
        metric=SimpleNamespace(tried=lambda here, t: ("tried", here, t)),
    )  # fmt: skip
    after = rf.ConjugateGradient(beta=beta)._conjugate(state, turn)
    assert (after.here, after.t, after.report, after.known) == (turn.here, 0.25, "told", "known")
    assert after.metric == ("tried", turn.here, 0.25)
    assert after.squared == max(squared, 0.0)
    assert after.steepest == (after.direction == ("direction", 0.0))
    return after


@pytest.mark.parametrize(
    ("given", "beta", "slope", "calibration"),
    [
        ((4.0, 1.0, 2.0), 0.375, -3.25, 1.6),
        ((4.0, 2.0, 2.0), 0.25, -3.5, 1.6),  # an overlap of half the square is not yet too much
        ((4.0, 2.01, 2.0), 0.0, -4.0, 1.6),
        ((4.0, -2.0, 2.0), 0.75, -2.5, 1.6),
        ((4.0, -2.01, 2.0), 0.0, -4.0, 1.6),
        ((10.0, 2.0, 9.0), 0.0, -10.0, 0.0),  # a slope of a tenth of the square is too little
        ((10.0, 2.0, 8.5), 1.0, -1.5, 0.0),
        ((4.0, 1.0, 8.0, 8.0, -8.0), 0.375, -1.0, 0.0),
        ((4.0, 1.0, 2.0, 0.0, -8.0), 0.0, -4.0, 0.0),
        ((4.0, 1.0, 2.0, 8.0, 0.0), 0.0, -4.0, 0.0),
        ((-1.0, 1.0, 2.0), 0.0, -0.0, 1.6),
    ],
)
def test_the_next_direction(given, beta, slope, calibration):
    after = conjugate(*given)
    assert after.direction == ("direction", beta)
    assert after.slope == pytest.approx(slope)
    assert after.calibration == pytest.approx(calibration)
    assert after.steepest == (beta == 0.0)


@pytest.mark.parametrize(("rule", "beta"), [("PR+", 3 / 8), ("HS", 3 / 10), ("DY", 4 / 10)])
def test_each_rule_has_its_quotient(rule, beta):
    assert conjugate(4.0, 1.0, 2.0, beta=rule).direction == ("direction", pytest.approx(beta))


def test_a_trial_takes_note_of_each_step():
    trial = Trial("start", Progress(40, (9.0,), (8.0,)))
    after = conjugate(4.0, 1.0, 2.0, trial=trial).trial
    assert after == Trial("start", Progress(40, (9.0, 3.0), (8.0, 4.0)))
    assert conjugate(4.0, 1.0, 2.0).trial is None
    assert Trial("start").progress == Progress(40)


def state_of(here, **given):
    told = {"metric": Metric(), "squared": 4.0, "direction": "direction", "slope": -4.0, "t": 0.5}
    told |= {"steepest": True, "calibration": 1.0}
    return ConjugateGradientState(here=here, **(told | given))


def place(quadratic, straight):
    geometry = SimpleNamespace(straight=straight)
    return SimpleNamespace(
        problem=SimpleNamespace(cost=SimpleNamespace(quadratic=quadratic), geometry=geometry)
    )


@pytest.mark.parametrize(
    ("quadratic", "straight", "given", "due"),
    [
        (False, True, {}, (0.5, ("wolfe", 0.5, 1e-3, 0.3))),
        (False, True, {"t": 0.0}, (7.0, ("wolfe", 7.0, 1e-3, 0.3))),
        (True, False, {}, (7.0, ("armijo", 7.0, 1e-3))),
        (True, True, {}, (0.0, ("sampled", 1.0))),
        (True, True, {"calibration": 3.0}, (0.0, "exact")),
        (True, True, {"calibration": 0.0}, (0.0, "exact")),
    ],
)
def test_how_far_to_go_is_searched_by_what_the_cost_allows(monkeypatch, quadratic, straight, given, due):
    monkeypatch.setattr(module, "first_step", lambda here, direction, slope: 7.0)
    monkeypatch.setattr(module, "wolfe", lambda here, direction, slope, *rest: ("wolfe", *rest))
    monkeypatch.setattr(module, "armijo", lambda here, direction, slope, *rest: ("armijo", *rest))
    monkeypatch.setattr(module, "exact", lambda here, direction: "exact")

    monkeypatch.setattr(module, "sampled", lambda here, direction, by: None if by == 3.0 else ("sampled", by))
    solver = rf.ConjugateGradient(decrease=1e-3, curvature=0.3)
    assert solver._line_search(state_of(place(quadratic, straight), **given)) == due


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("taken", ["step", None])
def test_where_all_is_known_in_grams_no_guess_is_needed(monkeypatch, fits, taken):
    monkeypatch.setattr(module, "fits", lambda here, direction: fits)
    monkeypatch.setattr(module, "turned_in_grams", lambda *given: ("in grams", *given[1:]) if taken else None)
    monkeypatch.setattr(module, "turned", lambda *given: ("turned", *given[1:]))
    monkeypatch.setattr(rf.ConjugateGradient, "_line_search", lambda self, state: (0.7, taken))
    state = state_of("here", known="known")
    guess, turn = rf.ConjugateGradient()._turned(state)
    assert guess == (0.0 if fits else 0.7)
    if taken is None:
        assert turn is None
    elif fits:
        assert turn == ("in grams", "direction", state.metric, 1.0, "known")
    else:
        assert turn == ("turned", "direction", state.metric, "step")


@pytest.mark.parametrize("floor", [True, False])
def test_without_a_step_down_the_gradient_it_stays(monkeypatch, floor):
    asked = []
    monkeypatch.setattr(rf.ConjugateGradient, "_turned", lambda self, state: (0.7, None))
    monkeypatch.setattr(module, "at_noise_floor", lambda *given: asked.append(given) or floor)
    state = state_of("here")
    after = rf.ConjugateGradient().step(None, state)
    assert asked == [("here", "direction", -4.0, 0.7)]
    assert (after.here, after.stalled, after.stationary) == ("here", module.NO_STEP, floor)
    assert after.report == StepReport(step=0.0, radius=after.report.radius, rho=after.report.rho)


def test_a_direction_begun_anew_keeps_the_guess_and_asks_all_the_data(monkeypatch):
    monkeypatch.setattr(rf.ConjugateGradient, "_turned", lambda self, state: (0.7, None))
    here = SimpleNamespace(value=3.0, gradient_norm=4.0, slope=lambda uphill: 9.0, made=lambda z: z)
    monkeypatch.setattr(module, "scale", lambda a, uphill: (a, uphill))
    metric = SimpleNamespace(lazy_gradient=lambda here: "uphill")
    trial = Trial("start", Progress(40))
    after = rf.ConjugateGradient().step(None, state_of(here, steepest=False, metric=metric, trial=trial))
    assert (after.direction, after.squared, after.slope) == ((-1.0, "uphill"), 9.0, -9.0)
    assert (after.t, after.calibration, after.steepest, after.stalled) == (0.5, 0.0, True, "")
    assert (after.report.note, after.report.step) == ("restart", 0.0)
    assert after.trial == Trial("start", Progress(40, (3.0,), (4.0,)))


def test_a_slope_that_rounding_turned_is_none(monkeypatch):
    monkeypatch.setattr(module, "scale", lambda a, uphill: (a, uphill))
    here = SimpleNamespace(slope=lambda uphill: -1e-30, made=lambda z: z)
    state = module._downhill(here, Metric(), "uphill", StepReport())
    assert (state.squared, state.slope, state.t, state.calibration, state.steepest) == (
        0.0,
        0.0,
        0.0,
        1.0,
        True,
    )


def test_a_metric_that_there_is_not_is_not_on_trial():
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 2))
    state = rf.ConjugateGradient().init(problem, problem.geometry.random_point(0))
    assert state.trial is None
    assert not on_trial(state)
    tried = state_of("here", trial=Trial("start"))
    assert on_trial(tried)
    assert on_trial(Nested(inner=Nested(inner=tried)))
    assert not on_trial(Nested(inner=state))
    assert not on_trial(SimpleNamespace())


@pytest.mark.parametrize("stalled", [True, False])
@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize("trial", [True, False])
@pytest.mark.parametrize("stagnates", [True, False])
def test_a_metric_on_trial_is_given_up_where_it_stagnates_or_gets_stuck(
    monkeypatch, stalled, stationary, trial, stagnates
):
    monkeypatch.setattr(module, "_begun_again", lambda problem, start: ("again", problem, start))
    after = SimpleNamespace(stalled="why" if stalled else "", stationary=stationary)
    monkeypatch.setattr(rf.ConjugateGradient, "_stepped", lambda self, state: after)
    progress = Progress(40, (1.0,) * 41, (1.0,) * 41) if stagnates else Progress(40, (1.0,) * 40, (1.0,) * 40)
    state = state_of("here", trial=Trial("start", progress) if trial else None)
    found = rf.ConjugateGradient().step("problem", state)
    again = trial and (stagnates or (stalled and not stationary))
    assert found == (("again", "problem", "start") if again else after)


def test_what_blocks_make_of_derivatives_is_left_to_the_metric_of_the_data():
    partials = np.ones((3, 2)), np.ones((2, 2))
    formed = SimpleNamespace(data_metric=SimpleNamespace(solved=lambda seen, *given: ("solved", seen, given)))
    assert Metric().solved(np.ones(2), partials) is partials
    assert Metric().solved(None, partials) is partials
    assert Metric(formed).solved(None, partials) is partials
    assert Metric(formed).solved("seen", partials) == ("solved", "seen", partials)
    rows, cols = SimpleNamespace(basis="of rows"), SimpleNamespace(basis="of cols")
    formed.data_metric = SimpleNamespace(rows=rows, cols=cols)
    assert Metric(formed).bases == (("of cols",), ("of rows",))
    assert Metric().bases == ((), ())
