"""The parts of the line searches, against their definitions."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from rankfold.geometry.base import scale
from rankfold.solvers import line_search
from rankfold.solvers.line_search import (
    _between,
    _cubic_roots,
    _roots,
    _Trial,
    armijo,
    at_noise_floor,
    exact,
    first_step,
    minimiser,
    sampled,
    wolfe,
)


@pytest.fixture
def here():
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    return problem.at(problem.geometry.random_point(0))


def downhill(here):
    return scale(-1.0, here.gradient), -(here.gradient_norm**2)


def value_at(here, direction, t):
    return here.problem.value(here.problem.geometry.retract(here.x, scale(t, direction)))


@pytest.mark.parametrize("decrease", [1e-4, 0.25, 0.9])
def test_armijo_takes_the_first_halving_that_decreases_enough(here, decrease):
    direction, slope = downhill(here)
    taken = armijo(here, direction, slope, 64.0, decrease)
    halvings = 64.0 / 2.0 ** np.arange(20)
    enough = [value_at(here, direction, t) <= here.value + decrease * t * slope for t in halvings]
    assert taken.backtracks == enough.index(True) > 0
    assert taken.t == halvings[taken.backtracks]
    assert taken.here.value == pytest.approx(value_at(here, direction, taken.t))


def test_a_step_that_meets_the_wolfe_conditions_is_taken_at_once(here):
    direction, slope = downhill(here)
    found = wolfe(here, direction, slope, 100.0, 1e-4, 0.1)
    assert found.backtracks > 0
    again = wolfe(here, direction, slope, found.t, 1e-4, 0.1)
    assert (again.t, again.backtracks) == (found.t, 0)


def test_what_goes_straight_to_a_minimum_tries_no_other_step():
    cost = rf.Completion.from_triples(rf.data.random_completion((30, 20), 2, 4.0, 0))
    cost.sampled_polynomial = cost.polynomial
    problem = rf.Problem(cost, rf.FullRank((30, 20), 2))
    at = problem.at(problem.start())
    direction = scale(-1.0, at.gradient)
    best = minimiser(at.polynomial(direction))
    for step in (exact(at, direction), sampled(at, direction, 1.0)):
        assert (step.t, step.backtracks) == (best, 0)


@pytest.mark.parametrize("guess", [1e-3, 1e-1, 10.0, 1e3])
def test_wolfe_needs_few_trials(here, guess):
    """Doubling gets to the scale of the problem, cubic interpolation to the minimum."""
    direction, slope = downhill(here)
    best = wolfe(here, direction, slope, 1.0, 1e-4, 0.01).t
    assert wolfe(here, direction, slope, guess, 1e-4, 0.1).backtracks <= 5 + abs(np.log2(guess / best))


@pytest.mark.parametrize("unit", [1e-9, 1e12])
@pytest.mark.parametrize("guess", [1e-3, 0.02, 64.0])  # the second: beyond the minimum, lower than the start
def test_searches_do_not_depend_on_the_unit_of_the_cost(here, unit, guess):
    direction, slope = downhill(here)
    other = rf.Problem(unit * here.problem.cost, here.problem.geometry).at(here.x)
    for search, options in ((armijo, (0.25,)), (wolfe, (1e-4, 0.1))):
        one, two = (
            search(at, direction, s, guess, *options) for at, s in ((here, slope), (other, unit * slope))
        )
        assert two.backtracks == one.backtracks
        assert two.t == pytest.approx(one.t)


class Nowhere(DenseCost):
    """Finite at its start only."""

    def evaluate(self, L, R):
        found = super().evaluate(L, R)
        self.started, first = True, not hasattr(self, "started")
        return found if first else found._replace(value=np.nan)


@pytest.mark.parametrize("search", [armijo, lambda *a: wolfe(*a, 0.1)])
def test_a_cost_that_is_finite_nowhere_around_is_an_error(search):
    problem = rf.Problem(Nowhere((9, 7)), rf.FullRank((9, 7), 3))
    here = problem.at(problem.geometry.random_point(0))
    with pytest.raises(FloatingPointError, match="however short"):
        search(here, *downhill(here), 1.0, 1e-4)


def test_the_noise_floor_is_a_gain_of_a_thousand_roundings(here, monkeypatch):
    direction, _ = downhill(here)
    monkeypatch.setattr(here, "hessian", lambda xi: scale(-1.0, xi))  # no Newton step: the guess counts
    gain = 1e3 * here.noise
    assert at_noise_floor(here, direction, -gain / 2, 1.9)
    assert not at_noise_floor(here, direction, -gain / 2, 2.1)
    length = here.problem.geometry.norm(here.x, direction)
    monkeypatch.setattr(here, "hessian", lambda xi: scale(0.5 / length**2, xi))  # of curvature 0.5
    assert at_noise_floor(here, direction, -((0.49 * gain) ** 0.5), 1e9)
    assert not at_noise_floor(here, direction, -((0.51 * gain) ** 0.5), 1e-9)
    monkeypatch.setattr(here, "hessian", None)  # who needed no guess knows the whole line
    assert at_noise_floor(here, direction, -1e9, 0.0)


def test_rounding_hides_a_change_of_ten_roundings(here):
    noise = here.noise
    assert [line_search._hidden(here, units * noise) for units in (9.9, -9.9, 10.1, -10.1)] == [
        True, True, False, False,
    ]  # fmt: skip


def test_the_first_guess_for_other_costs_is_newton_s():
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3, metric="euclidean"))
    here = problem.at(problem.geometry.random_point(0))
    direction, slope = downhill(here)
    h = 1e-4
    around = [value_at(here, direction, t) for t in (-h, 0.0, h)]
    bend = (around[0] - 2 * around[1] + around[2]) / h**2
    assert bend > 0
    assert first_step(here, direction, slope) == pytest.approx(-slope / bend, rel=1e-3)


def test_without_curvature_the_first_guess_is_of_length_one(here, monkeypatch):
    direction, slope = downhill(here)
    monkeypatch.setattr(here, "hessian", lambda xi: scale(-1.0, xi))
    length = here.problem.geometry.norm(here.x, direction)
    assert first_step(here, direction, slope) == pytest.approx(1 / length)


def cubic(t):
    """(t − 1)² (t + 2): a minimum at 1."""
    return _Trial(t, (t - 1) ** 2 * (t + 2), 3 * t**2 - 3, None)


@pytest.mark.parametrize(("a", "b"), [(0.0, 3.0), (3.0, 0.0), (0.5, 1.2), (-0.5, 2.0)])
def test_interpolation_finds_the_minimum_of_a_cubic(a, b):
    assert _between(cubic(a), cubic(b)) == pytest.approx(1.0)


@pytest.mark.parametrize(("a", "b", "t"), [(0.98, 2.0, 1.082), (2.0, 0.98, 1.082), (0.0, 1.02, 0.918)])
def test_interpolation_keeps_a_tenth_of_the_bracket_off_its_ends(a, b, t):
    assert _between(cubic(a), cubic(b)) == pytest.approx(t)


def test_interpolation_halves_a_bracket_that_ends_where_the_cost_is_infinite():
    assert _between(cubic(0.0), _Trial(3.0, np.inf, np.inf, None)) == 1.5


@pytest.mark.parametrize("lower", [2.0, 4 / 3])  # a line, and a cubic that falls everywhere
def test_interpolation_halves_a_bracket_without_a_minimum(lower):
    assert _between(_Trial(0.0, 0.0, -1.0, None), _Trial(2.0, -lower, -1.0, None)) == pytest.approx(1.0)


@pytest.mark.parametrize("coefficients", [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 0.0, 2.0], [3.0, 0.0, 0.0]])
def test_no_step_where_the_polynomial_does_not_fall(coefficients):
    assert minimiser(np.array(coefficients)) == 0.0
    assert minimiser(np.array([3.0, -1.0, 0.5])) == pytest.approx(1.0)


def test_a_value_falls_by_what_was_promised_and_by_more_than_rounding():
    at = SimpleNamespace(value=4.0, noise=0.5)
    cases = [(3.25, -0.75), (3.25, -1.0), (3.5, -0.25), (3.0, 0.0)]
    assert [line_search._falls(at, *case) for case in cases] == [True, False, False, True]


@pytest.mark.parametrize("coefficients", [[0.0, np.inf, 1.0], [0.0, -1.0, np.nan]])
def test_no_step_where_the_polynomial_is_not_finite(coefficients):
    assert minimiser(np.array(coefficients)) == 0.0


class Sampled(rf.Completion):
    """Offers a sample that sees the minimum on each line at `short` of where it is."""

    short = 0.8

    def sampled_polynomial(self, Ls, Rs):
        coefficients = np.array(self.polynomial(Ls, Rs))
        return coefficients / self.short ** np.arange(len(coefficients))


def sampled_problem(metric="preconditioned"):
    data = rf.data.random_completion((60, 50), 3, 4.0, seed=0)
    cost = Sampled(data.rows, data.cols, data.values, data.shape)
    return rf.Problem(cost, rf.FullRank(cost.shape, 3, metric=metric))


def test_a_sampled_step_is_the_sample_s_times_the_calibration():
    problem = sampled_problem()
    here = problem.at(problem.start())
    direction, _ = downhill(here)
    exact = minimiser(here.polynomial(direction))
    taken = sampled(here, direction, 1.5)
    assert taken.t == pytest.approx(0.8 * 1.5 * exact)
    assert taken.backtracks == 0
    assert taken.here.value < here.value
    assert sampled(here, direction, 100.0) is None  # so far, the value is higher


def test_a_sample_that_sees_too_little_is_made_up_for():
    """After one short step, each is as long as the exact one: the slope that it left says by how much."""
    problem, solver = sampled_problem(), rf.ConjugateGradient()
    state = solver.init(problem, problem.start())
    factors = []
    for _ in range(6):
        exact = minimiser(state.here.polynomial(state.direction))
        state = solver.step(problem, state)
        factors.append(state.t / exact)
    assert factors[0] == pytest.approx(0.8)
    np.testing.assert_allclose(factors[2:], 1.0, atol=0.05)


def test_a_sample_that_misleads_is_asked_no_more(monkeypatch):
    problem, solver = sampled_problem(), rf.ConjugateGradient()
    monkeypatch.setattr(Sampled, "short", 0.4)
    state = solver.step(problem, solver.init(problem, problem.start()))
    assert state.calibration == 0.0
    exact = minimiser(state.here.polynomial(state.direction))
    assert solver.step(problem, state).t == pytest.approx(exact)


@pytest.mark.parametrize("slope", [1e308, np.inf])
@pytest.mark.filterwarnings("error")
def test_a_slope_of_any_size_leaves_the_next_trial_within_the_bracket(slope):
    """Beyond exp(300) squares of slopes overflow, and their quotients would be no numbers."""
    t = _between(_Trial(0.0, 1.0, -2.0, None), _Trial(3.0, slope, slope, None))
    assert 0.3 <= t <= 1.5


CUBIC, QUADRATIC = [1.0, -6.0, 11.0, -6.0], [2.0, 0.5, -1.0]
CUBICS = [
    CUBIC,
    [-0.5, 3.0, -5.5, 3.0],
    [0.2, 1.0, 0.9, -0.7],  # three real ones
    [1.0, 0.3, 0.8, -0.6],  # one, and a pair
    [0.01, -0.4, 1.0, 0.5],
    [1.0, 0.0, 0.0, -1e-9],
    [1e-9, 1.0, -0.5, -1.0],  # the first is far away
    [1e-40, 1.0, -0.5, -0.1],
    [-1e-22, 1e-11, 1.0, -0.9],  # as late in a run
    [1.0, 1.0, -1.0, -1e-25],
    [1.0, 1.0, -1.0, -1e-12],  # the last is next to nothing
    [1.0, -2.0, 1.0, 0.0],
]


@pytest.mark.parametrize("slopes", [*CUBICS, QUADRATIC, [0.0, 1.0, -2.0], [1.0, 2.0, 0.0], [3.0, 1.0]])
def test_roots_are_those_of_numpy(slopes):
    found = np.array(_roots(slopes))
    for root in np.roots(slopes):
        nearest = float(found[np.argmin(abs(found - root.real))])
        assert abs(nearest - root.real) <= 1e-9 * abs(root)
        if root.imag == 0:  # NumPy's own may be worse than this beside one that is far away
            terms = [Fraction(c) * Fraction(nearest) ** k for k, c in enumerate(slopes[::-1])]
            assert abs(sum(terms)) <= 1e-14 * max(map(abs, terms))


def test_a_root_of_several_is_found():
    np.testing.assert_allclose(_cubic_roots(1.0, -3.0, 3.0, -1.0), 1.0, rtol=1e-4)
    np.testing.assert_allclose(sorted(_cubic_roots(1.0, 0.0, -3.0, 2.0)), [-2.0, 1.0, 1.0], rtol=1e-7)


@pytest.mark.parametrize("unit", [1.0, 1e-30, 1e3])
def test_of_two_minima_that_are_as_good_the_nearer_one_is_taken(unit):
    """As where factors shrink along the line: W comes again with both signs, at t and 2 − t, here at 0.1."""
    quartic = np.polynomial.Polynomial([0.0, -2.0, 1.0]) + 0.19
    coefficients = (quartic**2).coef
    for nudged in range(5):
        for ulp in (-4e-16, 0.0, 4e-16):
            near = coefficients * (1 + ulp * (np.arange(5) == nudged))
            assert minimiser(near * unit ** -np.arange(5.0)) == pytest.approx(0.1 * unit, rel=1e-6)


def test_a_root_that_is_too_far_for_a_number_is_no_step():
    assert minimiser(np.array([0.0, -1.0, 1.0, 1.0, -1e-320])) == pytest.approx(1 / 3, rel=1e-14)


def test_the_roots_of_random_cubics_are_roots():
    for slopes in np.random.default_rng(0).standard_normal((200, 4)).tolist():
        real = np.sort([t.real for t in np.roots(slopes) if not t.imag])
        found = np.array(_cubic_roots(*slopes))
        assert len(found) == (3 if len(real) == 3 else 2)  # of a pair, the real part
        assert found[0] == min(found[: len(real)], key=abs)
        nearest = [min(found, key=lambda t, root=root: abs(t - root)) for root in real]
        np.testing.assert_allclose(nearest, real, rtol=1e-12)


def test_between_two_trials_that_are_flat_is_the_middle():
    assert line_search._between(*(line_search._Trial(t, 1.0, 0.0, None) for t in (0.0, 2.0))) == 1.0


@pytest.mark.parametrize("geometry", ["preconditioned", "invariant"])
def test_a_sample_that_misled_is_used_again_as_soon_as_it_would_not(geometry):
    problem = sampled_problem(geometry)
    solver, cost = rf.ConjugateGradient(metric="geometry"), problem.cost
    state = solver.init(problem, problem.start())
    passes = []
    for cost.short in (0.5, 0.5, 0.8, 0.8):
        state = solver.step(problem, state)
        passes.append(state.calibration)
    assert passes[:2] == [0.0, 0.0]
    assert passes[2] == pytest.approx(1 / 0.8)  # all the data were asked, and the sample beside them
    assert passes[3] == pytest.approx(1 / 0.8, rel=0.05)
