"""What each solver promises beyond reaching the minimum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS
from rankfold.costs.base import Evaluation
from rankfold.solvers.line_search import armijo, at_noise_floor, exact, minimiser, wolfe
from rankfold.solvers.truncated_cg import truncated_cg


@pytest.fixture(scope="module")
def data():
    return rf.data.random_completion((150, 100), rank=3, oversampling=5, seed=0)


# One of each geometry, with the metric that it has by default.
each = pytest.mark.parametrize(
    "variant", ["GH-invariant", "UBV-spd", "UY-invariant", "embedded", "YY-invariant"]
)


def on(variant, shape=(150, 100), rank=3, oversampling=5, **options):
    data = VARIANTS[variant].completion(shape, rank, oversampling, seed=0, **options)
    return problem_of(data, VARIANTS[variant](data.shape, rank))


def problem_of(data, geometry=None, **options):
    cost = rf.Completion.from_triples(data, **options)
    return rf.Problem(cost, geometry or rf.FullRank(data.shape, 3, metric="preconditioned"))


# Line searches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coefficients", "t"),
    [
        ([0.0, -1.0, 0.5], 1.0),
        ([5.0, 1.0, 1.0], 0.0),  # goes up
        ([0.0, 0.0, 0.0], 0.0),
        ([0.0, -1.0, 1.0, 0.0, 0.0], 0.5),  # zero leading coefficients
        ([0.0, -1.0, 8.0, -16.0, 8.0], 1.4571067811865476),  # two minima: the deeper is the farther
    ],
)
def test_minimiser_is_global(coefficients, t):
    found = minimiser(np.array(coefficients))
    grid = np.linspace(0, 3, 100001)
    best = grid[np.argmin(np.polynomial.polynomial.polyval(grid, coefficients))]
    assert found == pytest.approx(best, abs=1e-4)
    if t in (0.0, 0.5, 1.0):
        assert found == pytest.approx(t, abs=1e-12)


@pytest.mark.parametrize("constant", [0.0, 1.0, 1e30])
def test_minimiser_sees_decreases_below_the_rounding_of_the_constant(constant):
    assert minimiser(np.array([constant, -4e-18, 1e-18])) == pytest.approx(2.0)


def test_exact_step_is_where_the_slope_vanishes(data):
    problem = problem_of(data)
    here = problem.at(problem.start())
    direction = problem.geometry.random_tangent(here.x, 0)
    if problem.geometry.inner(here.x, here.gradient, direction) > 0:
        direction = type(direction)(*(-u for u in direction))
    taken = exact(here, direction)
    slope = problem.geometry.transported_inner(here.x, direction, taken.here.x, taken.here.gradient)
    first = problem.geometry.inner(here.x, here.gradient, direction)
    assert abs(slope) <= 1e-9 * abs(first)
    assert taken.here.value < here.value


@pytest.mark.parametrize("guess", [1e-6, 1e-2, 1.0, 1e3])
def test_wolfe_conditions_hold_from_any_guess(guess):
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    here = problem.at(problem.geometry.random_point(0))
    direction, slope = type(here.gradient)(*(-g for g in here.gradient)), -(here.gradient_norm**2)
    taken = wolfe(here, direction, slope, guess, decrease=1e-4, curvature=0.1)
    assert taken.here.value <= here.value + 1e-4 * taken.t * slope
    after = problem.geometry.transported_inner(here.x, direction, taken.here.x, taken.here.gradient)
    assert abs(after) <= 0.1 * abs(slope)


def test_searches_give_up_where_nothing_goes_down():
    problem = rf.Problem(DenseCost((5, 4)), rf.Embedded((5, 4), 2))
    here = problem.at(problem.geometry.random_point(0))
    uphill = here.gradient
    assert armijo(here, uphill, slope=-1.0, t=1.0, decrease=0.25) is None
    assert wolfe(here, uphill, -1.0, 1.0, 1e-4, 0.1) is None


class Rounded(DenseCost):
    """Every value after the first is four units in the last place too low, as rounding may have it."""

    asked = 0

    def evaluate(self, L, R):
        value, f_L, f_R = super().evaluate(L, R)
        self.asked += 1
        return Evaluation(value - 4 * np.spacing(value) * (self.asked > 1), f_L, f_R)


@pytest.mark.parametrize("t", [1.0, 1e-6])
@pytest.mark.parametrize(
    "search", [partial(armijo, decrease=0.25), partial(wolfe, decrease=1e-4, curvature=0.1)]
)
def test_a_decrease_by_rounding_is_none(search, t):
    problem = rf.Problem(Rounded((5, 4)), rf.Embedded((5, 4), 2))
    here = problem.at(problem.geometry.random_point(0))
    uphill, slope = here.gradient, -(here.gradient_norm**2)
    assert search(here, uphill, slope, t) is None


def test_the_noise_floor_is_where_newtons_step_gains_nothing():
    """Whatever the search began with: it is told nothing by a guess of 10⁹, nor by one of 10⁻³⁰."""
    problem = rf.Problem(DenseCost((5, 4)), rf.Embedded((5, 4), 2))
    start = problem.at(problem.geometry.random_point(0))
    end = problem.at(rf.minimize(problem, rf.TrustRegion(), start.x, tolerance=0, max_iterations=200).x)
    for here, floor in ((start, False), (end, True)):
        down = type(here.gradient)(*(-g for g in here.gradient))
        for guess in (1e-30, 1.0, 1e9):
            assert at_noise_floor(here, down, -(here.gradient_norm**2), guess) == floor


# Gradient descent --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "predicted"),
    [(None, [8.0, 4.0, 4.0]), (1.0, [8.0, 4.0, 2.0]), (0.0, [8.0, 2.0, 4.0]), (0.5, [8.0, 3.0, 3.0])],
)
def test_step_prediction_is_the_paper_s(update, predicted):
    """Guess 4; taken at once, after one halving (s = 2) and after two (s = 2, say)."""
    solver = rf.GradientDescent(update=update)
    assert [solver._predicted(4.0, s, j) for s, j in ((4.0, 0), (2.0, 1), (2.0, 2))] == predicted


@pytest.mark.parametrize("update", [None, 0.0, 0.5, 1.0])
def test_prediction_keeps_backtracks_near_one(data, update):
    result = rf.minimize(problem_of(data), rf.GradientDescent(update=update), tolerance=1e-16)
    assert result.converged
    assert 0.4 <= result.trace["backtracks"][1:].mean() <= 1.5


def test_first_step_is_the_global_minimiser_of_the_linearised_cost(data):
    problem = problem_of(data, rf.Polar(data.shape, 3))
    state = rf.GradientDescent(metric="geometry").init(problem, problem.start())
    here, geometry = state.here, problem.geometry
    Ls, Rs = geometry.line(here.x, type(here.gradient)(*(-g for g in here.gradient)))

    def along(t):
        return problem.cost.value(
            sum(L * t**i for i, L in enumerate(Ls)), sum(R * t**j for j, R in enumerate(Rs))
        )

    times = state.guess * np.linspace(0, 5, 200)
    assert along(state.guess) <= min(along(t) for t in times) + 1e-12


# Trust region ------------------------------------------------------------------------------------------


def test_initial_radius_is_the_paper_s(data):
    problem = problem_of(data, rf.Polar(data.shape, 3))
    state = rf.TrustRegion(metric="geometry").init(problem, problem.start())
    s0 = rf.GradientDescent(metric="geometry").init(problem, problem.start()).guess
    assert state.radius == pytest.approx(s0 / 64 * state.gradient_norm)
    assert state.max_radius == 1024 * state.radius


@each
def test_tail_is_superlinear(variant):
    result = rf.minimize(on(variant), rf.TrustRegion(), tolerance=1e-22)
    assert result.converged
    g = result.trace["gradient_norm"]
    g = g[g > 1e-13 * g[0]]  # what is above rounding
    drops = np.diff(np.log10(g))[-2:]
    assert drops[1] < 1.5 * drops[0] < -1  # each step gains half as many digits again, at least


def test_proposals_for_smaller_radii_are_what_a_fresh_solve_gives(data):
    problem = problem_of(data, rf.Polar(data.shape, 3))
    here = problem.at(problem.start())
    radius = 64 * rf.TrustRegion().init(problem, here.x).radius
    proposals, products = truncated_cg(here, radius, 1.0, 1e-3, 50)
    assert products > 1
    assert len(proposals) > 1
    for p in proposals:
        fresh = truncated_cg(here, p.radius, 1.0, 1e-3, 50)[0][0]
        gap = type(p.eta)(*(u - v for u, v in zip(p.eta, fresh.eta, strict=True)))
        assert problem.geometry.norm(here.x, gap) <= 1e-10 * problem.geometry.norm(here.x, p.eta)
        assert p.decrease == pytest.approx(fresh.decrease, rel=1e-10)
        assert p.at_boundary == fresh.at_boundary
        H = here.hessian(p.eta)
        inner = problem.geometry.inner
        model = inner(here.x, here.gradient, p.eta) + inner(here.x, H, p.eta) / 2
        assert p.decrease == pytest.approx(-model, rel=1e-9)
        if p.at_boundary:
            assert problem.geometry.norm(here.x, p.eta) == pytest.approx(p.radius)


def test_a_rejected_step_costs_no_hessian_product():
    """From a wild start with a huge radius the first steps overshoot."""
    problem = rf.Problem(DenseCost((12, 9)), rf.FullRank((12, 9), 3))
    result = rf.minimize(
        problem,
        rf.TrustRegion(initial_radius=1e3),
        x0=problem.geometry.random_point(5),
        tolerance=0,
        max_iterations=60,
    )
    trace = result.trace
    rejected = np.flatnonzero(np.array(trace["note"]) == "rejected")
    assert len(rejected) > 0
    after = [k + 1 for k in rejected if k + 1 < len(trace)]
    assert sum(trace["hessians"][k] == 0 for k in after) >= len(after) / 2
    assert all(trace["value"][k] == trace["value"][k - 1] for k in rejected)


def test_inner_iterations_stop_at_rounding(data):
    """Without the stop, tCG would spend its 100 products on digits that do not exist."""
    problem = problem_of(data)
    result = rf.minimize(problem, rf.TrustRegion(kappa=1e-30), tolerance=1e-20)
    assert result.converged
    assert result.trace["inner_iterations"].max() < 100


@dataclass(frozen=True)
class Diagonal:
    """A preconditioner that scales the G-part: symmetric and positive definite."""

    def __call__(self, here, xi):
        return type(xi)(0.5 * xi.G, xi.H)


def test_preconditioned_trust_region_reaches_the_minimum(data):
    problem = problem_of(data)
    result = rf.minimize(problem, rf.TrustRegion(preconditioner=Diagonal()), tolerance=1e-18)
    assert result.converged


# All of them -------------------------------------------------------------------------------------------

ALL = [rf.GradientDescent(), rf.ConjugateGradient(), rf.TrustRegion()]


@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
@each
def test_noisy_data_end_at_the_noise_floor_with_a_reason(solver, variant):
    problem = on(variant, (100, 80), rank=2, oversampling=6, noise=1e-3)
    result = rf.minimize(problem, solver, tolerance=0, max_iterations=3000)
    assert result.converged
    assert "rounding" in result.stop_reason
    assert result.trace[-1].step == 0.0  # none was taken
    if not isinstance(solver, rf.GradientDescent):  # which gets there slowly
        assert result.iterations < 200


@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
@each
def test_resume_after_a_kill_gives_the_same_trace(solver, variant, tmp_path):
    problem = on(variant)
    whole = rf.minimize(problem, solver, tolerance=0, max_iterations=12)
    path = tmp_path / "run.ckpt"
    for k in (1, 5, 8):
        rf.minimize(problem, solver, tolerance=0, max_iterations=k, checkpoint=rf.Checkpoint(path, every=1))
        again = rf.minimize(problem, solver, tolerance=0, max_iterations=12, resume=path)
        for column in set(whole.trace.array.dtype.names) - {"seconds"}:
            np.testing.assert_array_equal(whole.trace[column], again.trace[column], err_msg=column)
        for a, b in zip(whole.x, again.x, strict=True):
            np.testing.assert_array_equal(a, b)


class Breaks(DenseCost):
    """Gives NaN, or raises, after a few evaluations."""

    def __init__(self, shape, after, how):
        super().__init__(shape)
        self.left, self.how = after, how

    def evaluate(self, L, R):
        self.left -= 1
        found = super().evaluate(L, R)
        if self.left >= 0:
            return found
        if self.how == "raise":
            raise RuntimeError("the disk is gone")
        return found._replace(value=float("nan"), f_L=found.f_L * np.nan, f_R=found.f_R * np.nan)


@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("how", ["raise", "nan"])
def test_a_cost_that_breaks_leaves_the_best_point(solver, how):
    problem = rf.Problem(Breaks((8, 6), 8, how), rf.Polar((8, 6), 2))
    result = rf.minimize(
        problem, solver, x0=problem.geometry.random_point(0), tolerance=0, max_iterations=300
    )
    assert not result.converged
    assert np.isfinite(result.value)
    assert result.value == min(result.trace["value"])
    assert result.value < result.trace["value"][0]
    if how == "raise":
        assert "the disk is gone" in result.stop_reason


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rf.GradientDescent(update=2.0), "update must be None or between 0 and 1"),
        (lambda: rf.ConjugateGradient("FR"), "beta must be one of"),
    ],
)
def test_options_are_checked(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ALL, ids=lambda s: type(s).__name__)
def test_float32_in_gives_float32_out(solver, dtype, data):
    problem = problem_of(data, rf.Polar(data.shape, 3))
    x0 = type(problem.start())(*(y.astype(dtype) for y in problem.start()))
    result = rf.minimize(problem, solver, x0=x0, tolerance=1e-6)
    assert result.converged
    assert {y.dtype for y in result.x} == {np.dtype(dtype)}


def test_blas_is_held_to_one_thread_during_a_run_only(data):
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads():
        return {lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before, inside = threads(), []
        rf.minimize(problem_of(data), max_iterations=2, callback=lambda _: inside.append(threads()))
        assert all(found <= {1} for found in inside)
        assert threads() == before


@pytest.mark.parametrize("floor", [True, False])
def test_gradient_descent_stays_where_no_step_goes_down(monkeypatch, floor):
    module = "rankfold.solvers.gradient_descent"
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 2))
    state = rf.GradientDescent().init(problem, problem.geometry.random_point(0))
    monkeypatch.setattr(f"{module}.armijo", lambda *_: None)
    monkeypatch.setattr(f"{module}.at_noise_floor", lambda *_: floor)
    after = rf.GradientDescent().step(problem, state)
    assert (after.x, after.report.step, after.stationary) == (state.x, 0.0, floor)
    assert after.stalled
