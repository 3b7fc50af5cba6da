"""Where line searches end: at so many trials, and at the last decrease that rounding does not hide."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from rankfold.geometry.base import scale
from rankfold.solvers import line_search
from rankfold.solvers.base import Located
from rankfold.solvers.line_search import (
    Step,
    _cubic_roots,
    _largest_root,
    _roots,
    armijo,
    at_noise_floor,
    exact,
    minimiser,
    sampled,
    wolfe,
)


def on_a_line(monkeypatch, value=lambda t: 0.0, noise=0.0, **at):
    """A place whose values along any direction are told, and where the search tries them."""
    tried = []

    def moved(here, direction, t):
        tried.append(t)
        there = SimpleNamespace(value=value(t), x=t)
        there.problem = SimpleNamespace(value=value)
        return there

    monkeypatch.setattr(line_search, "moved", moved)
    return SimpleNamespace(value=0.0, noise=noise, **at), tried


def test_backtracking_ends_after_fifty_halvings(monkeypatch):
    here, tried = on_a_line(monkeypatch, value=lambda t: 1.0)
    assert armijo(here, None, -1.0, 2.0**60, 0.25) is None
    assert tried == [2.0 ** (60 - k) for k in range(50)]


@pytest.mark.parametrize(("fall", "last"), [(2.0**-49, True), (2.0**-50, False)])
def test_the_last_trial_counts(monkeypatch, fall, last):
    here, _ = on_a_line(monkeypatch, value=lambda t: -t if t <= fall else 1.0)
    taken = armijo(here, None, -1.0, 1.0, 0.25)
    assert (taken is not None) == last
    if last:
        assert (taken.t, taken.backtracks) == (2.0**-49, 49)


def test_a_step_whose_promise_rounding_may_hide_is_not_tried(monkeypatch):
    """Of a slope of -1 and values that rounding is 1 of, steps of 10 and less."""
    here, tried = on_a_line(monkeypatch, value=lambda t: 1.0, noise=1.0)
    assert armijo(here, None, -1.0, 80.0, 0.25) is None
    assert tried == [80.0, 40.0, 20.0]


@pytest.mark.parametrize(("noise", "taken"), [(0.99, True), (1.0, False)])
def test_an_exact_step_must_gain_more_than_rounding(monkeypatch, noise, taken):
    monkeypatch.setattr(line_search, "recalibrated", lambda *_: 0.7)
    here, _ = on_a_line(monkeypatch, noise=noise, polynomial=lambda direction: np.array([5.0, -2.0, 1.0]))
    found = exact(here, None)
    assert (found is not None) == taken
    if taken:
        assert (found.t, found.backtracks, found.calibration, found.here.x) == (1.0, 0, 0.7, 1.0)


@pytest.mark.parametrize(("change", "taken"), [(-1e-9, True), (0.0, False), (1e-9, False)])
def test_a_sampled_step_must_lower_the_value(monkeypatch, change, taken):
    parabola = np.array([5.0, -2.0, 1.0])
    here, tried = on_a_line(monkeypatch, lambda t: change, sampled_polynomial=lambda direction: parabola)
    found = sampled(here, None, 0.5)
    assert tried == [0.5]
    assert (found is not None) == taken
    if taken:
        assert (found.t, found.backtracks, found.calibration) == (0.5, 0, 0.5)


def test_a_search_that_never_is_content_ends_at_the_minimum_with_all_its_trials():
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    here = problem.at(problem.geometry.random_point(0))
    direction, slope = scale(-1.0, here.gradient), -(here.gradient_norm**2)
    found = wolfe(here, direction, slope, 1.0, 1e-4, 0.0)
    near = wolfe(here, direction, slope, 1.0, 1e-4, 1e-3)
    assert found.backtracks == 50
    assert near.backtracks < 10
    assert found.t == pytest.approx(near.t, rel=1e-3)


def test_a_step_has_no_sample_and_a_place_is_not_stationary_unless_said():
    assert Step(1.0, None, 0).calibration == 0.0
    located = Located(here=None)
    assert (located.stalled, located.stationary) == ("", False)


def test_a_cubic_whose_first_coefficient_is_nothing_has_the_roots_of_the_rest():
    assert sorted(_roots([0.0, 1.0, -3.0, 2.0])) == pytest.approx([1.0, 2.0])


def test_what_division_by_a_root_leaves_may_be_nothing():
    """All of a t² + b t + c is below the least number there is, or nearly so."""
    assert _cubic_roots(1e-320, 1e-320 * 1e10, 1e-10, 1.0) == [-1e10, 0.0]


@pytest.mark.parametrize("p", [1.0, 0.3, 2.0])
@pytest.mark.parametrize("q", [1e-3, -1e-5, 1e-8, -1e-12])
def test_a_root_that_cancels_in_cardano_s_formula_has_all_its_digits(p, q):
    """Of u³ + p u + q, near -q/p; and moved by b, where it is not small."""
    due = -q / p
    for _ in range(5):
        due -= (due**3 + p * due + q) / (3 * due**2 + p)
    assert _largest_root(0.0, p, q) == pytest.approx(due, rel=1e-15, abs=0)


@pytest.mark.parametrize("unit", [1.0, 1e-100, 1e100])
@pytest.mark.parametrize(
    ("roots", "largest"), [((1, -2, 4), 4), ((1, 2, -7), -7), ((3, 1j, -1j), 3), ((0.5, 2j, -2j), 0.5)]
)
def test_the_largest_root_is_found_in_any_unit(roots, largest, unit):
    _, b, c, d = np.poly(roots).real
    assert _largest_root(b * unit, c * unit**2, d * unit**3) == pytest.approx(
        largest * unit, rel=1e-14, abs=0
    )


@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_one_coefficient_may_be_nearly_all_there_is_of_a_cubic(size):
    assert _largest_root(0.0, 0.0, size**3) == pytest.approx(-size, rel=1e-12, abs=0)
    assert abs(_largest_root(0.0, -(size**2), 1e-20 * size**3)) == pytest.approx(size, rel=1e-9, abs=0)
    assert _largest_root(size, 0.0, 1e-20 * size**3) == pytest.approx(-size, rel=1e-12, abs=0)


def test_a_polynomial_without_slopes_has_no_minimum():
    assert minimiser(np.array([3.0])) == 0.0


@pytest.mark.parametrize(
    ("curvature", "t", "slope", "floor"),
    [
        (0.0, 2.0, -500.0, True),
        (0.0, 2.0, -500.5, False),
        (-1.0, 2.0, -500.0, True),
        (np.inf, 2.0, -500.0, True),
        (np.nan, 2.0, -500.0, True),
        (0.001, 9.0, -1.0, True),
        (0.001, 9.0, -1.1, False),
        (1000.0, 1e9, -1000.0, True),
        (None, 0.0, -1e9, True),
    ],
)
def test_a_gain_of_a_thousand_roundings_is_none(curvature, t, slope, floor):
    """That of Newton's step where the line curves upwards; else, of the guess, if one was needed."""
    geometry = SimpleNamespace(inner=lambda x, xi, eta: xi * eta)
    here = SimpleNamespace(
        x=0, noise=1.0, problem=SimpleNamespace(geometry=geometry), hessian=lambda xi: curvature
    )
    assert at_noise_floor(here, 1.0, slope, t) == floor


@pytest.mark.parametrize("pair", [0.3 + 1j, -0.4 + 2j])
@pytest.mark.parametrize("root", [1e-7, -3e-6])
def test_the_only_real_root_has_all_its_digits_beside_a_pair_that_is_larger(pair, root):
    _, b, c, d = np.poly([root, pair, pair.conjugate()]).real
    assert _largest_root(b, c, d) == pytest.approx(root, rel=1e-14, abs=0)
