"""Steps of the method by lines: how long, in which direction, and when there is none."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.estimators.completion import alternating
from rankfold.estimators.completion.alternating import Alternating, AlternatingState, Lines
from rankfold.estimators.completion.joint import Joint
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.problem import Counts

EPS = float(np.finfo(np.float64).eps)


def test_other_costs_are_refused_by_name():
    cost = rf.Completion([0, 1], [0, 1], [1.0, 2.0], (2, 2))
    with pytest.raises(TypeError, match="minimises a cost by lines, such as Joint, not Completion"):
        rf.minimize(rf.Problem(cost, Lines((2, 2), 1, bias=False)), Alternating())


@pytest.mark.parametrize("unit", [2.0**-40, 1.0, 2.0**40])
@pytest.mark.parametrize(("roundings", "found"), [(3, False), (6, True), (1e6, True)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_fall_of_a_few_roundings_is_none_in_any_unit(unit, roundings, found, sign):
    part = roundings * EPS  # of the value, by which the parabola falls up to t = 1
    step = alternating._least(unit * np.array([sign, -2 * part, part]))
    assert (step is not None) == found
    if found:
        assert step[0] == pytest.approx(1.0, abs=1e-6)
        assert step[1] == pytest.approx(unit * (sign - part), rel=4 * EPS)


def test_the_step_is_to_the_least_value_ahead():
    for rising in ([1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 0.0]):  # the first falls on the other side
        assert alternating._least(np.array(rising)) is None
    two_minima = np.polynomial.Polynomial([9.0, -12.0, 22.0, -12.0, 2.25])
    step, value = alternating._least(two_minima.coef)
    assert step == pytest.approx(
        max(root.real for root in two_minima.deriv().roots() if abs(root.imag) < 1e-9)
    )
    assert value == pytest.approx(two_minima(step))
    assert value <= two_minima(np.linspace(0, 4, 40_001)).min() + 1e-9


class Along:
    """A cost that is a function of how far the line has been followed."""

    def __init__(self, function):
        self.function, self.asked = function, []

    def value(self, G, H):
        self.asked.append((float(G[0, 0]), float(H[0, 0])))
        return self.function(*self.asked[-1])


def whole(function, conjugate=True, value=None):
    """The step found from (0, 0), where G is how far the sweep was followed, H the other direction."""
    cost = Along(function)
    problem, zero = SimpleNamespace(cost=cost, counts=Counts()), np.zeros((1, 1))
    state = AlternatingState(x=FullRankFactors(zero, zero), value=function(0, 0) if value is None else value)
    sweep, other = FullRankFactors(zero + 1, zero), FullRankFactors(zero, zero + 1)
    found = alternating._whole(problem, state, sweep, other if conjugate else sweep)
    assert problem.counts.values == len(cost.asked)
    return found, cost.asked, sweep, other


def test_the_sweep_is_tried_and_then_the_direction_and_the_better_is_doubled():
    found, asked, sweep, _ = whole(lambda g, h: (g - 1.2) ** 2 + h)
    assert asked == [(1, 0), (0, 1), (2, 0)]
    assert (found.step, found.value) == (1.0, pytest.approx(0.04))
    assert found.direction is sweep
    found, asked, _, other = whole(lambda g, h: 10 - g - 2 * h)  # no more than four sweeps
    assert asked == [(1, 0), (0, 1), (0, 2), (0, 4)]
    assert (found.step, found.value) == (4.0, 2.0)
    assert found.direction is other
    _, asked, *_ = whole(lambda g, h: 10 - g, conjugate=False)
    assert asked == [(1, 0), (2, 0), (4, 0)]


def test_a_direction_that_gains_no_more_than_the_sweep_is_given_up_for_it():
    found, asked, sweep, _ = whole(lambda g, h: abs(g - 1) + abs(h - 1))
    assert asked == [(1, 0), (0, 1), (2, 0)]
    assert found.direction is sweep


@pytest.mark.parametrize("unit", [2.0**-40, 1.0, -1.0, 2.0**40])
@pytest.mark.parametrize(("roundings", "gains"), [(2, False), (8, True)])
def test_a_gain_of_a_few_roundings_is_none(unit, roundings, gains):
    def function(g, h):
        return unit - (g == 1) * roundings * EPS * abs(unit)

    assert (whole(function)[0] is not None) == gains


def test_a_value_that_is_not_finite_is_no_gain():
    found, *_ = whole(lambda g, h: np.nan if g else np.inf, value=1.0)
    assert found is None


def test_the_direction_is_conjugate_to_the_last_one_where_that_helps():
    cost = SimpleNamespace(roots=(np.array([2.0]), np.array([3.0])))

    def pair(g, h):
        return FullRankFactors(np.full((1, 1), g), np.full((1, 1), h))

    def direction(sweep, before, last):
        state = AlternatingState(x=pair(0.0, 0.0), value=1.0, direction=last, sweep=before)
        return tuple(float(part[0, 0]) for part in alternating._conjugate(cost, sweep, state))

    beta = (2 * 1 + 3 * 4 - 2 * 1 * 2) / (2 * 4)  # lines count by their roots
    assert direction(pair(1.0, 2.0), pair(2.0, 0.0), pair(1.0, 1.0)) == pytest.approx(
        (1.0 + beta, 2.0 + beta)
    )
    assert direction(pair(1.0, 0.0), pair(2.0, 0.0), pair(1.0, 1.0)) == (1.0, 0.0)  # below 0: the sweep
    assert direction(pair(1.0, 2.0), pair(0.0, 0.0), pair(1.0, 1.0)) == (1.0, 2.0)
    assert direction(pair(1.0, 2.0), None, None) == (1.0, 2.0)


def test_a_run_that_goes_on_is_at_no_minimum():
    zero = FullRankFactors(np.zeros((1, 1)), np.zeros((1, 1)))
    state = AlternatingState(x=zero, value=1.0)
    assert (state.stalled, state.stationary, state.gradient_free) == ("", False, True)


def begun():
    """Six lines, four entries: a problem, and the first state of a run."""
    joint = Joint.of(rf.Completion([0, 0, 1, 2], [0, 1, 1, 0], [1.0, 2.0, 3.0, 4.0], (3, 2)), 0.1)
    problem = rf.Problem(joint, Lines((3, 2), 1, bias=False))
    x = FullRankFactors(np.array([[1.0], [2.0], [0.5]]), np.array([[1.0], [-1.0]]))
    return joint, problem, Alternating().init(problem, x)


def test_where_no_step_lowers_the_value_none_is_told(monkeypatch):
    _, problem, state = begun()
    after = Alternating().step(problem, state)
    monkeypatch.setattr(alternating, "_exact", lambda *args: None)
    last = Alternating().step(problem, after)
    assert after.report.step > 0
    assert (last.x, last.report.step, last.stationary, bool(last.stalled)) == (after.x, 0.0, True, True)


def test_the_length_of_a_step_is_told_in_the_norm_of_the_penalty():
    joint, problem, state = begun()
    x, after = state.x, Alternating().step(problem, state)
    moved = [new - old for new, old in zip(after.x, x, strict=True)]
    due = sum(float(root @ (way**2).sum(axis=1)) for root, way in zip(joint.roots, moved, strict=True))
    assert after.report.step == pytest.approx(np.sqrt(due))


class Falling:
    """A cost whose polynomials along two directions are given: one moves G, the other H."""

    def __init__(self, along_sweep, along_direction):
        self.polynomials, self.asked = (along_sweep, along_direction), []

    def polynomial(self, Ls, Rs):
        np.testing.assert_array_equal([Ls[0], Rs[0]], np.full((2, 1, 1), 5.0))
        return np.array(self.polynomials[int(Rs[1][0, 0])])

    def value(self, G, H):
        self.asked.append((float(G[0, 0]), float(H[0, 0])))
        return 0.125


RISES, FALLS, VANISHES = [1.0, 1.0, 1.0], [1.0, -1.0, 1.0], [1.0, -2.0, 1.0 + 1e-9]


@pytest.mark.parametrize(
    ("polynomials", "conjugate", "step", "along", "value", "tried"),
    [
        ((RISES, FALLS), True, 0.5, "direction", 0.75, 1),
        ((FALLS, RISES), True, 0.5, "sweep", 0.75, 2),
        ((RISES, RISES), True, None, None, None, 2),
        ((FALLS, None), False, 0.5, "sweep", 0.75, 1),
        ((RISES, None), False, None, None, None, 1),
        # what is left of a sum by cancellation is its rounding: it is computed
        ((RISES, VANISHES), True, 1.0, "direction", 0.125, 1),
        ((VANISHES, RISES), True, 1.0, "sweep", 0.125, 2),
    ],
)
def test_the_exact_step_is_along_the_direction_or_else_along_the_sweep(
    polynomials, conjugate, step, along, value, tried
):
    cost, five, zero = Falling(*polynomials), np.full((1, 1), 5.0), np.zeros((1, 1))
    problem = SimpleNamespace(cost=cost, counts=Counts())
    state = AlternatingState(x=FullRankFactors(five, five), value=1.0)
    sweep, other = FullRankFactors(zero + 1, zero), FullRankFactors(zero, zero + 1)
    found = alternating._exact(problem, state, sweep, other if conjugate else sweep)
    assert problem.counts.polynomials == tried
    assert problem.counts.values == len(cost.asked) == (value == 0.125)
    if step is None:
        assert found is None
        return
    assert (found.step, found.value) == (pytest.approx(step), pytest.approx(value))
    assert found.direction is (sweep if along == "sweep" else other)
    moved = {"sweep": (5.0 + step, 5.0), "direction": (5.0, 5.0 + step)}[along]
    assert cost.asked in ([], [pytest.approx(moved)])


@pytest.mark.parametrize(("columns", "bias", "rank"), [(3, True, 2), (3, False, 3), (1, True, 1)])
def test_factors_of_a_point_are_its_columns_without_offsets(columns, bias, rank):
    lines, rng = Lines((4, 3), columns, bias), np.random.default_rng(0)
    x = FullRankFactors(rng.standard_normal((4, columns)), rng.standard_normal((3, columns)))
    L, R = lines.factors(x)
    np.testing.assert_array_equal(L, x.G[:, :rank])
    np.testing.assert_array_equal(R, x.H[:, :rank])
    assert (lines.rank, lines.columns) == (rank, columns)
    assert lines._shapes() == ((4, columns), (3, columns))
    assert not any(space.flaw(0 * X) for space, X in zip(lines.spaces(), x, strict=True))
