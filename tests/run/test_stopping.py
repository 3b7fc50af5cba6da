import copy
import itertools
import time

import numpy as np
import pytest
from run_toys import HeavyBall, Script, make_problem

from rankfold.run import stopping as st
from rankfold.run.driver import minimize
from rankfold.run.trace import Trace, TraceRow
from rankfold.solvers.base import StepReport


def trace(*values, norms=None, **last):
    norms = norms or [1.0] * len(values)
    rows = [
        TraceRow(k, value, norm, 0.1 * k) for k, (value, norm) in enumerate(zip(values, norms, strict=True))
    ]
    return Trace([*rows[:-1], rows[-1]._replace(**last)])


@pytest.mark.parametrize(
    ("rule", "stops", "goes_on", "reason", "converged"),
    [
        (st.ValueBelow(0.5), trace(1, 0.5), trace(1, 0.51), "value 0.5 <= 0.5", True),
        (st.ValueBelow(0.1, 5.0), trace(1, 0.5), trace(1, 0.51), "value 0.5 <= 0.1 × 5", True),
        (
            st.GradientNorm(absolute=0.1),
            trace(1, 1, norms=[9, 0.1]),
            trace(1, 1, norms=[9, 0.2]),
            "gradient norm 0.1 <= 0.1",
            True,
        ),
        (
            st.GradientNorm(relative=0.5),
            trace(1, 1, norms=[4, 2]),
            trace(1, 1, norms=[4, 2.1]),
            "gradient norm 2 <= 2",
            True,
        ),
        (st.StepBelow(1e-3), trace(1, 1, step=1e-3), trace(1, 1, step=1e-2), "step 0.001 <= 0.001", True),
        (
            st.RelativeChange(0.1),
            trace(2, 1.9),
            trace(2, 1.7),
            "relative change 0.05 <= 0.1 over one iteration",
            True,
        ),
        (
            st.RelativeChange(0.1, window=2),
            trace(2, 1.0, 1.9),
            trace(2, 1.9, 1.7),
            "relative change 0.05 <= 0.1 over 2 iterations",
            True,
        ),
        (st.Iterations(2), trace(1, 1, 1), trace(1, 1), "2 iterations done, the limit is 2", False),
        (st.Seconds(0.1), trace(1, 1), trace(1), "0.1 s spent, the limit is 0.1 s", False),
    ],
)
def test_each_rule(rule, stops, goes_on, reason, converged):
    assert rule(goes_on) is None
    assert rule(stops) == st.Stop(reason, st.StopKind.CONVERGED if converged else st.StopKind.LIMIT)
    assert len({rule, copy.copy(rule)}) == 1  # rules are values: equal ones are one
    # In a run, too, the rule is what ends it.
    script = [
        {"value": r.value, "gradient_norm": r.gradient_norm, "report": StepReport(step=r.step)} for r in stops
    ]
    seconds = stops[-1].seconds if isinstance(rule, st.Seconds) else 0
    result = minimize(
        make_problem(), Script(tuple(script)), tolerance=0, stop=rule, callback=lambda _: time.sleep(seconds)
    )
    assert result.converged is converged
    assert result.stop_reason == reason or isinstance(rule, st.Seconds)
    assert result.stop_reason.split()[1:] == reason.split()[1:], "only the time itself may differ"
    assert result.iterations == len(stops) - 1


def test_iterations_without_a_step_do_not_count_as_standing_still():
    rejected = trace(2, 2, step=0.0)
    assert st.StepBelow(1.0)(rejected) is None
    assert st.RelativeChange(0.1)(rejected) is None
    assert st.StepBelow(1.0)(trace(2, 2)) is None, "a method that reports no step never stops by it"
    assert st.RelativeChange(0.1)(trace(2, 2)).converged, "one that reports none may still stand still"
    steps = [TraceRow(k, 2.0, 1.0, 0.0, step=step) for k, step in enumerate([1.0, 0.0, 1.0, 1.0, 0.0])]
    assert st.RelativeChange(0.1)(Trace(steps[:4])).converged, "it is the last one that counts"
    assert st.RelativeChange(0.1)(Trace(steps)) is None


def test_relative_change_at_zero():
    stop = st.RelativeChange(1e-3)(trace(0.0, 0.0))
    assert stop.reason == "relative change 0 <= 0.001 over one iteration"
    assert stop.converged
    assert st.RelativeChange(1e-3)(trace(1.0, 0.0)) is None


YES, NO = st.Iterations(0), st.Iterations(9)  # on the one-row trace below
HIT, MISS = st.ValueBelow(1.0), st.ValueBelow(0.5)


@pytest.mark.parametrize("parts", list(itertools.product([YES, NO, HIT, MISS], repeat=3)))
def test_truth_tables(parts):
    a, b, c = parts
    here = trace(1.0)
    on = [rule in (YES, HIT) for rule in parts]
    met = [rule is HIT for rule in parts]
    for composed, stops in [
        (a | b, on[0] or on[1]),
        (a & b, on[0] and on[1]),
        (a | b & c, on[0] or (on[1] and on[2])),
        ((a | b) & c, (on[0] or on[1]) and on[2]),
    ]:
        assert (composed(here) is not None) is stops
    either, both = (a | b)(here), (a & b)(here)
    assert either is None or either.converged is (met[0] or met[1])
    assert both is None or both.converged is (met[0] or met[1])


def test_reasons_are_joined():
    assert (HIT | YES)(trace(1.0)).reason == "value 1 <= 1 and 0 iterations done, the limit is 0"
    assert (HIT | NO)(trace(1.0)).reason == "value 1 <= 1"


@pytest.mark.parametrize("bad", [lambda: HIT | 3, lambda: HIT & None])
def test_only_rules_compose(bad):
    with pytest.raises(TypeError):
        bad()


@pytest.mark.parametrize(
    "bad",
    [
        lambda: st.GradientNorm(),
        lambda: st.GradientNorm(absolute=-1),
        lambda: st.GradientNorm(relative=np.nan),
        lambda: st.StepBelow(np.inf),
        lambda: st.RelativeChange(-1e-3),
        lambda: st.RelativeChange(1e-3, window=0),
        lambda: st.Iterations(-1),
        lambda: st.Seconds(-0.1),
    ],
)
def test_senseless_limits_are_refused(bad):
    with pytest.raises(ValueError, match=r"must be|give absolute"):
        bad()


def test_a_nan_threshold_never_stops():
    assert st.ValueBelow(np.nan)(trace(1.0)) is None


def test_tolerance_is_relative_to_the_value_at_zero():
    problem = make_problem()
    result = minimize(problem, HeavyBall(), tolerance=1e-6, max_iterations=2000)
    assert result.converged
    assert result.stop_reason.startswith("value ")
    assert result.trace[-1].value <= 1e-6 * problem.cost.value_at_zero < result.trace[-2].value


@pytest.mark.parametrize(
    ("scale", "nonnegative", "tolerance"),
    [(-1.0, True, 0.5), (0.0, True, 0.5), (np.inf, True, 0.5), (2.0, False, 0.5), (2.0, True, 0)],
)
def test_tolerance_is_left_out_where_it_has_no_scale(monkeypatch, scale, nonnegative, tolerance):
    problem = make_problem()
    monkeypatch.setattr(type(problem.cost), "value_at_zero", scale)
    monkeypatch.setattr(type(problem.cost), "nonnegative", nonnegative)
    result = minimize(problem, Script((0.0, -5.0, -6.0)), max_iterations=3, tolerance=tolerance)
    assert result.stop_reason == "3 iterations done, the limit is 3"


def test_tolerance_is_a_part_of_a_value_at_zero_however_small(monkeypatch):
    problem = make_problem()
    monkeypatch.setattr(type(problem.cost), "value_at_zero", 1e-9)
    result = minimize(problem, Script((1.0, 6e-10, 4e-10)), tolerance=0.5)
    assert (result.stop_reason, result.converged) == ("value 4e-10 <= 0.5 × 1e-09", True)


@pytest.mark.parametrize("stationary", [False, True])
def test_a_stalled_method_stops_and_says_whether_that_is_a_minimum(stationary):
    script = Script(
        (3.0, 1.0, {"value": 2.0, "stalled": "rounding hides the decrease", "stationary": stationary})
    )
    result = minimize(make_problem(), script)
    assert result.stop_reason == "stalled: rounding hides the decrease"
    assert result.converged is stationary
    # The point that converged is the last; one that merely ended is the best.
    assert result.value == (2.0 if stationary else 1.0)


def test_a_method_that_stalls_at_the_limit_has_stalled():
    end = {"value": 2.0, "stalled": "rounding", "stationary": True}
    assert minimize(make_problem(), Script((3.0, end)), max_iterations=1).stop_reason == "stalled: rounding"


def test_a_start_that_is_good_enough_takes_no_step():
    result = minimize(make_problem(), Script((0.0,)))
    assert (result.iterations, result.converged) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"tolerance": -1.0}, ValueError),
        ({"tolerance": np.nan}, ValueError),
        ({"max_iterations": -1}, ValueError),
        ({"stop": 1e-3}, TypeError),
    ],
)
def test_bad_arguments_are_named(arguments, error):
    with pytest.raises(error, match=next(iter(arguments))):
        minimize(make_problem(), HeavyBall(), **arguments)


def test_rules_are_put_together_with_rules_alone():
    for put in (lambda a, b: a | b, lambda a, b: a & b):
        for other in (5, None, "rule"):
            with pytest.raises(TypeError, match="unsupported operand"):
                put(YES, other)
