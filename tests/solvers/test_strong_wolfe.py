"""The search to the strong Wolfe conditions: they hold at its end, wherever it starts, on any line."""

from types import SimpleNamespace

import numpy as np
import pytest

from rankfold.solvers import line_search
from rankfold.solvers.line_search import wolfe

LINES = {  # values and slopes, falling at 0
    "steep, then flat": (lambda t: t - np.log(t + 0.01), lambda t: 1 - 1 / (t + 0.01)),
    "flat, then steep": (lambda t: np.exp(t) - 5 * t, lambda t: np.exp(t) - 5),
    "of many minima": (lambda t: np.cos(3 * t) + 0.1 * t**2 - t, lambda t: -3 * np.sin(3 * t) + 0.2 * t - 1),
    "a wall": (lambda t: -t + 0.1 / (2 - t) if t < 2 else np.inf, lambda t: -1 + 0.1 / (2 - t) ** 2),
    "quartic": (lambda t: (t - 1) ** 4 - 0.1 * t, lambda t: 4 * (t - 1) ** 3 - 0.1),
    "a well": (lambda t: -1 / (1 + (t - 3) ** 2), lambda t: 2 * (t - 3) / (1 + (t - 3) ** 2) ** 2),
}


def searched(monkeypatch, name, first, decrease=1e-4, curvature=1e-3):
    value, slope = LINES[name]
    trials = []

    def tried(here, direction, t):
        trials.append(t)
        known = np.isfinite(value(t))
        there = SimpleNamespace(value=value(t))
        return line_search._Trial(t, float(value(t)), float(slope(t)) if known else np.inf, there)

    monkeypatch.setattr(line_search, "_tried", tried)
    here = SimpleNamespace(value=float(value(0.0)), noise=1e-16)
    return wolfe(here, None, float(slope(0.0)), first, decrease, curvature), trials


@pytest.mark.parametrize("first", [1e-3, 0.1, 0.9, 3.0, 40.0])
@pytest.mark.parametrize("name", LINES)
def test_both_conditions_hold_where_it_ends(monkeypatch, name, first):
    value, slope = LINES[name]
    found, trials = searched(monkeypatch, name, first)
    assert found.t == trials[-1]
    assert found.backtracks == len(trials) - 1 < 25
    assert found.here.value == value(found.t) <= value(0.0) + 1e-4 * found.t * slope(0.0)
    assert abs(slope(found.t)) <= 1e-3 * abs(slope(0.0))


def test_a_bracket_that_is_as_narrow_as_slopes_are_exact_is_the_end(monkeypatch):
    """A kink has no slope that is small: the best trial is within 1e-4 of it."""
    monkeypatch.setitem(LINES, "a kink", (lambda t: abs(t - 1.3), lambda t: 1.0 if t >= 1.3 else -1.0))
    found, trials = searched(monkeypatch, "a kink", 0.7)
    assert found.backtracks == 50
    assert found.t == pytest.approx(1.3, rel=2e-4)
    assert found.t != pytest.approx(1.3, rel=1e-9)
    assert len(trials) < 50


def test_it_doubles_until_there_is_a_bracket(monkeypatch):
    monkeypatch.setitem(LINES, "far", (lambda t: (t - 100.0) ** 2, lambda t: 2 * (t - 100.0)))
    _, trials = searched(monkeypatch, "far", 1.0)
    assert trials[:8] == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
    assert trials[8] == pytest.approx(100.0)
    assert len(trials) == 9
