"""Clocks, equal values, and states that say no more of themselves than they must."""

from dataclasses import replace
from itertools import count
from math import nan

import numpy as np
import pytest
from run_toys import HeavyBall, Script, make_problem

from rankfold.run import driver
from rankfold.run.driver import minimize
from rankfold.run.stopping import StopKind


def test_seconds_are_those_since_the_start_and_go_on_after_a_resume(tmp_path, monkeypatch):
    """By a clock that ticks each time somebody looks at it."""
    ticks = count(1000.0)
    monkeypatch.setattr(driver, "perf_counter", lambda: next(ticks))
    first = minimize(make_problem(), HeavyBall(), max_iterations=2, tolerance=0, checkpoint=tmp_path / "c")
    assert first.trace["seconds"].tolist() == [1, 2, 3]
    assert first.seconds == 3
    for _ in range(50):
        next(ticks)
    again = minimize(make_problem(), HeavyBall(), max_iterations=4, tolerance=0, resume=tmp_path / "c")
    assert again.trace["seconds"].tolist() == [1, 2, 3, 4, 5]


def test_of_equal_values_the_later_point_is_the_best():
    points = []
    result = minimize(
        make_problem(), Script((3.0, 1.0, 1.0, 2.0)), max_iterations=3, callback=lambda p: points.append(p.x)
    )
    assert result.x is points[2]


class Stuck(HeavyBall):
    def step(self, problem, state):
        return replace(super().step(problem, state), stalled="it is stuck")


def test_a_state_that_does_not_say_so_is_at_no_minimum():
    result = minimize(make_problem(), Stuck(), tolerance=0)
    assert (result.stop.kind, result.stop_reason) == (StopKind.STALLED, "stalled: it is stuck")
    assert not result.converged


def test_a_state_that_does_not_say_so_has_a_gradient(monkeypatch):
    problem = make_problem()
    honest = problem.cost.evaluate
    monkeypatch.setattr(
        problem.cost, "evaluate", lambda L, R: honest(L, R)._replace(f_L=np.full_like(L, nan))
    )
    with pytest.raises(ValueError, match=r"start point the value is \d.* and the gradient norm nan: start"):
        minimize(problem, HeavyBall())


def test_a_callback_stops_a_run_by_whatever_is_true():
    for answer, iterations in ((1, 0), ("stop", 0), (0, 3), (None, 3)):
        result = minimize(
            make_problem(), HeavyBall(), tolerance=0, max_iterations=3, callback=lambda _, a=answer: a
        )
        assert result.iterations == iterations
        assert result.stop.kind is (StopKind.LIMIT if iterations else StopKind.CALLBACK)
