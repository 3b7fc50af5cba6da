"""Gauss–Newton: its model against dense matrices, the same step for all factors of W, and its damping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS, bounded_symmetry, seeds, well_conditioned_point
from rankfold.costs.base import Evaluation
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.run import stopping
from rankfold.solvers import by_name, gauss_newton
from rankfold.solvers.damped_model import DampedModel, Minimiser

few = settings(max_examples=6, deadline=None)


def completion(shape=(9, 7), seed=0, weights=False, **options):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.uniform(size=shape) < 0.7)
    w = rng.uniform(0.5, 2, rows.size) if weights else None
    values = rng.standard_normal(rows.size)
    values = (values > 0).astype(float) if options.get("loss") == "logistic" else values
    return rf.Completion(rows, cols, values, shape, weights=w, **options)


COSTS = {
    "completion": completion(),
    "weighted": completion(weights=True),
    "logistic": completion(loss="logistic"),
    "sum": completion() + 0.1 * rf.Frobenius(0.3),
    "ridge": FactorRidge(completion(), np.array([0.1, 0.2, 0.4])),
    "without blocks": DenseCost((9, 7)),
}


def here_of(cost, seed=0, variant="GH-preconditioned"):
    problem = VARIANTS[variant].problem(cost, 3)
    return problem.at(well_conditioned_point(problem.geometry, seed))


def dense_form(here):
    """B and M as matrices of the numbers of (dL, dR), column by column from their formulas."""
    L, R = here.factors
    size, d = L.size + R.size, len(L)
    B, M = np.empty((size, size)), np.empty((size, size))
    for k, unit in enumerate(np.eye(size)):
        dL, dR = unit[: L.size].reshape(L.shape), unit[L.size :].reshape(R.shape)
        B[:, k] = np.concatenate(here.problem.cost.gauss_newton(L, R, dL, dR)).ravel()
        M[:, k] = np.concatenate([dL @ R.T @ R, dR @ L.T @ L]).ravel()
    return B, M, d


def average(here, B):
    """c: Tr(M⁻¹B) over the number of unknowns of a side, in the mean of both sides."""
    L, R = here.factors
    r, d = L.shape[1], len(L)
    traces = []
    for first, count, Y in ((0, d, R), (d, len(R), L)):
        lines = [slice((first + i) * r, (first + i + 1) * r) for i in range(count)]
        traces.append(np.mean([np.trace(np.linalg.solve(Y.T @ Y, B[i, i])) / r for i in lines]))
    return float(np.mean(traces))


@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize("damping", [1.0, 1e-2])
def test_the_minimiser_solves_the_damped_normal_equations(name, damping):
    here = here_of(COSTS[name])
    B, M, d = dense_form(here)
    assert_allclose(B, B.T, atol=1e-12 * np.abs(B).max())
    model = DampedModel.at(here)
    if name != "without blocks":
        assert model.scale == pytest.approx(average(here, B), rel=1e-10)
    partials = np.concatenate(here.partials).ravel()
    eta = np.linalg.solve(B + damping * model.scale * M, -partials)
    found = model.minimised(damping, 1e-12, 500)
    assert_allclose(np.concatenate(found[:2]).ravel(), eta, atol=1e-6 * np.abs(eta).max())
    assert found.decrease == pytest.approx(-partials @ eta / 2, rel=1e-8)
    assert model.length(*found[:2]) == pytest.approx(np.sqrt(eta @ M @ eta), rel=1e-6)
    assert found.dL.shape == (d, 3)


def test_without_blocks_the_scale_is_the_curvature_down_the_gradient():
    here = here_of(COSTS["without blocks"])
    B, M, _ = dense_form(here)
    down = np.linalg.solve(M, np.concatenate(here.partials).ravel())
    assert DampedModel.at(here).scale == pytest.approx(down @ B @ down / (down @ M @ down), rel=1e-9)


def test_the_minimiser_is_horizontal_in_the_metric_of_the_damping():
    here = here_of(COSTS["completion"])
    L, R = here.factors
    dL, dR, *_ = DampedModel.at(here).minimised(0.1, 1e-13, 500)
    left, right = np.linalg.solve(L.T @ L, L.T @ dL), np.linalg.solve(R.T @ R, R.T @ dR).T
    assert_allclose(left, right, atol=1e-6 * np.abs(left).max())


@pytest.mark.parametrize("name", [name for name in VARIANTS if VARIANTS[name].is_quotient])
@few
@given(seed=seeds)
def test_a_step_is_the_same_along_a_fibre(name, seed):
    here = here_of(COSTS["completion"], seed, name)
    geometry, problem = here.problem.geometry, here.problem
    solver = rf.GaussNewton(inner_tolerance=1e-12)
    moved = geometry.act(here.x, bounded_symmetry(geometry, seed, condition=10))
    one, two = (solver.step(problem, solver.init(problem, x)) for x in (here.x, moved))
    assert one.value == pytest.approx(two.value, rel=1e-6)
    assert one.report.step == pytest.approx(two.report.step, rel=1e-6)
    W, other = (np.matmul(L, R.T) for L, R in map(geometry.factors, (one.x, two.x)))
    assert_allclose(other, W, atol=1e-6 * np.abs(W).max())


@pytest.mark.parametrize("name", [name for name in VARIANTS if not VARIANTS[name].symmetric])
def test_a_step_goes_along_the_same_change_of_w_on_every_geometry(name):
    """To first order: retractions differ in the second."""
    reference = here_of(COSTS["completion"])
    L, R = reference.factors
    problem = rf.Problem(reference.problem.cost, VARIANTS[name](reference.problem.cost.shape, 3))
    x = problem.geometry.from_factors(L, R)
    W, changes = L @ R.T, []
    for where in (reference, problem.at(x)):
        state = rf.GaussNewton(damping=1e5, inner_tolerance=1e-12)
        after = state.step(where.problem, state.init(where.problem, where.x))
        A, B = where.problem.geometry.factors(after.x)
        changes.append(A @ B.T - W)
    assert_allclose(changes[1], changes[0], atol=1e-3 * np.abs(changes[0]).max())


@pytest.fixture
def start():
    problem = rf.Problem(DenseCost((9, 7)), rf.FullRank((9, 7), 3))
    return rf.GaussNewton().init(problem, problem.geometry.random_point(0))


class Worse(DenseCost):
    """So many values after the first are no lower than it."""

    tries = 0
    asked = 0

    def evaluate(self, L, R):
        value, f_L, f_R = super().evaluate(L, R)
        self.asked += L.shape[1] == 3  # wider ones are asked for products with the gradient
        bad = L.shape[1] == 3 and 1 < self.asked <= 1 + self.tries
        return Evaluation(1e6 if bad else value, f_L, f_R)


@pytest.mark.parametrize(
    ("first", "tries", "last"),
    [(2.0, 0, 2.0), (2.0, 1, 16.0), (2.0, 3, 1024.0), (2.0, 9, 2.0 * 8.0**9), (1e-9, 9, 1e-6 * 8.0**8)],
)
def test_the_damping_rises_until_the_value_falls(first, tries, last):
    cost = Worse((9, 7))
    cost.tries = tries
    problem = rf.Problem(cost, rf.FullRank((9, 7), 3))
    solver = rf.GaussNewton(damping=first)
    state = solver.init(problem, problem.geometry.random_point(0))
    before = state.value
    after = solver.step(problem, state)
    assert after.damping == pytest.approx(0.2 * last)
    assert after.report.backtracks == tries
    assert after.left == after.value / before < 1
    assert after.report.rho > 0
    assert after.report.step > 0


def test_where_no_damping_helps_it_stalls_and_that_is_no_minimum():
    cost = Worse((9, 7))
    cost.tries = 10
    problem = rf.Problem(cost, rf.FullRank((9, 7), 3))
    solver = rf.GaussNewton()
    state = solver.init(problem, problem.geometry.random_point(0))
    assert state.value < 1e6
    after = solver.step(problem, state)
    assert (after.stalled, after.stationary) == (gauss_newton.NO_STEP, False)
    assert after.report.step == 0
    assert after.report.backtracks == 10
    assert after.x is state.x


@pytest.mark.parametrize(
    ("promised", "stalled", "stationary"),
    [
        (0.5, gauss_newton.NO_DECREASE, True),
        (1.0, gauss_newton.NO_DECREASE, True),
        (900, gauss_newton.NO_STEP, True),
        (1100, gauss_newton.NO_STEP, False),
    ],
)
def test_what_rounding_may_break_is_no_promise(monkeypatch, start, promised, stalled, stationary):
    """A step that goes nowhere is promised a decrease of so many times the rounding of the value."""
    L, R = start.here.factors
    nothing = Minimiser(0 * L, 0 * R, promised * start.here.noise, 1)
    monkeypatch.setattr(DampedModel, "minimised", lambda *_: nothing)
    after = rf.GaussNewton().step(start.here.problem, start)
    assert (after.stalled, after.stationary) == (stalled, stationary)


def near_an_exact_fit():
    data = rf.data.random_completion((300, 300), 4, 1.5, seed=0, min_per_line=True)
    problem = rf.Problem.of(rf.Completion.from_triples(data), 4)
    return problem.at(problem.geometry.from_factors(data.L + 1e-3, data.R))


def test_the_damping_has_a_floor():
    here = near_an_exact_fit()
    small = gauss_newton.GaussNewtonState(here=here, damping=1e-13)
    assert rf.GaussNewton().step(here.problem, small).damping == 1e-12


def test_a_good_step_asks_for_a_better_one(monkeypatch, start):
    asked = []
    monkeypatch.setattr(
        DampedModel, "minimised", lambda *given: asked.append(given[2]) or Minimiser(0, 0, 0.0, 0)
    )
    for left in (1.0, 0.25, 4.0):
        state = type(start)(here=start.here, damping=1.0, left=left)
        rf.GaussNewton(inner_tolerance=0.1).step(start.here.problem, state)
    assert asked == pytest.approx([0.1, 0.05, 0.1])


def test_at_an_exact_fit_it_stops_where_rounding_is_all_that_is_left():
    data = rf.data.random_completion((200, 150), rank=5, oversampling=4, seed=0)
    problem = rf.Problem.of(rf.Completion.from_triples(data), 5)
    result = rf.minimize(problem, rf.GaussNewton(), tolerance=0.0, max_iterations=60)
    assert result.stop.kind is stopping.StopKind.STATIONARY
    assert result.value < 1e-26 * problem.cost.value_at_zero


def test_products_are_counted_and_bounded():
    here = here_of(COSTS["completion"])
    model, counts = DampedModel.at(here), here.problem.counts
    assert counts.blocks == 1
    for most in (1, 2, 100):
        before = counts.hessians
        spent = model.minimised(1e-3, 1e-9, most).products
        assert spent == counts.hessians - before
        assert spent == most if most < 3 else 3 < spent < 100
    result = rf.minimize(here.problem, rf.GaussNewton(max_inner=3), here.x, max_iterations=5)
    assert list(result.trace["inner_iterations"][1:]) == list(result.trace["hessians"][1:])
    assert result.trace["inner_iterations"].max() <= 3 * 10


def test_line_blocks_save_products_where_entries_are_few():
    here = near_an_exact_fit()
    model = DampedModel.at(here)
    plain = DampedModel(here, model.scale, model.metrics, None)
    with_blocks, without = (m.minimised(1e-6, 1e-4, 2000).products for m in (model, plain))
    assert 2 * with_blocks < without


def test_curvature_that_is_none_damps_by_the_metric_alone():
    """Poisson's loss far below zero: exp(w) and its derivatives underflow, and the blocks are zero."""
    cost = rf.Completion([0, 1], [0, 1], [0.0, 0.0], (2, 2), loss="poisson")
    problem = rf.Problem(cost, rf.FullRank((2, 2), 1))
    x = problem.geometry.from_factors(np.full((2, 1), -800.0), np.ones((2, 1)))
    model = DampedModel.at(problem.at(x))
    assert (model.blocks, model.scale) == (None, 1.0)


class Concave(DenseCost):
    """A cost whose model bends down everywhere."""

    def gauss_newton(self, L, R, dL, dR):
        return tuple(-50 * part for part in super().gauss_newton(L, R, dL, dR))


def test_a_model_that_bends_down_promises_nothing():
    found = DampedModel.at(here_of(Concave((9, 7)))).minimised(1e-6, 0.1, 100)
    assert (found.decrease, found.products) == (0.0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"damping": 0.0}, "damping must be positive, not 0.0"),
        ({"inner_tolerance": 1.0}, "inner_tolerance must be between 0 and 1, not 1.0"),
        ({"inner_tolerance": 0.0}, "inner_tolerance must be between 0 and 1, not 0.0"),
        ({"max_inner": 0}, "max_inner must be at least 1, not 0"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        rf.GaussNewton(**options)


def test_has_a_name():
    assert by_name("gn") == rf.GaussNewton(damping=1.0, inner_tolerance=0.03, max_inner=400)


@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 100))
def test_float32_points_stay_float32(seed):
    data = rf.data.random_completion((60, 50), rank=2, oversampling=6, seed=seed)
    problem = rf.Problem.of(rf.Completion.from_triples(data).astype(np.float32), 2)
    result = rf.minimize(problem, rf.GaussNewton(), tolerance=1e-8, max_iterations=50)
    assert result.x.G.dtype == np.float32
    assert result.converged
