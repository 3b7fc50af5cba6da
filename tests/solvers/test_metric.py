"""The metric of the data: a preconditioner on the horizontal space of every geometry, and what it saves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankfold as rf
from dense import DenseCost
from geometry.variants import VARIANTS, bounded_symmetry, minus, seeds, velocity, well_conditioned_point
from rankfold.costs.data_metric import SHARE
from rankfold.costs.offsets import GivenOffsets
from rankfold.linalg import svd_of_product
from rankfold.solvers import conjugate_gradient
from rankfold.solvers.base import StepReport
from rankfold.solvers.conjugate_gradient import taken_up
from rankfold.solvers.metric import CHOICES, Metric
from rankfold.solvers.progress import Progress

LIFTED = [name for name in VARIANTS if VARIANTS[name].example.has_lift]
few = settings(max_examples=8, deadline=None)
sizes = st.sampled_from([((9, 7), 3), ((12, 5), 5), ((4, 11), 1)])


def problem_at(name, size, seed, dtype=np.float64, weights=False):
    rank, shape = size[1], VARIANTS[name].shape(size[0])
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.uniform(size=shape) < 0.6)
    rows, cols = np.append(rows, 0), np.append(cols, 0)
    values = rng.standard_normal(rows.size).astype(dtype)
    w = rng.uniform(0.5, 2, rows.size) if weights else None
    observed = rf.Completion.from_observed(
        rf.entries.observed.Observed.from_triples(rows, cols, values, shape, w, "keep", False)
    )
    problem = rf.Problem(observed, VARIANTS[name](shape, rank))
    x = well_conditioned_point(problem.geometry, seed)
    return problem, problem.at(type(x)(*(part.astype(dtype) for part in x)))


def dense_gradient(here):
    """Ẇ of the gradient in the metric of the data, from the formula, at the factors as they are."""
    observed, (L, R), (f_L, f_R) = here.problem.cost.observed, here.factors, here.partials
    weights = np.zeros(observed.shape)
    data = observed.by_row.data
    np.add.at(
        weights, (observed.by_row.keys, observed.by_row.indices), data[:, 1] if observed.weighted else 1.0
    )
    A = np.einsum("ij,jk,jl->ikl", weights, R, R)
    B = np.einsum("ij,ik,il->jkl", weights, L, L)
    if here.problem.geometry.symmetric:  # a line is a row and a column at once
        A = B = (A + B) / 2
    RR, LL = R.T @ R, L.T @ L
    average = np.mean(
        [
            np.mean(np.trace(np.linalg.solve(M, blocks), axis1=1, axis2=2)) / len(M)
            for M, blocks in ((RR, A), (LL, B))
        ]
    )
    dL = np.linalg.solve(A / average + SHARE * RR, f_L[:, :, None])[:, :, 0]
    dR = np.linalg.solve(B / average + SHARE * LL, f_R[:, :, None])[:, :, 0]
    return dL @ R.T + L @ dR.T


@pytest.mark.parametrize("name", LIFTED)
@few
@given(size=sizes, seed=seeds, weights=st.booleans())
def test_agrees_with_a_dense_construction(name, size, seed, weights):
    problem, here = problem_at(name, size, seed, weights=weights)
    expected = dense_gradient(here)
    for metric in (Metric(here), Metric.chosen("auto", here), Metric.chosen("data", here)):
        found = velocity(problem.geometry, here.x, metric.gradient(here))
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", LIFTED)
@few
@given(size=sizes, seed=seeds)
def test_is_symmetric_positive_definite_and_keeps_horizontality(name, size, seed):
    problem, here = problem_at(name, size, seed)
    geometry, x, metric = problem.geometry, here.x, Metric(here)
    xi, eta = geometry.random_tangent(x, seed), geometry.random_tangent(x, seed + 1)
    P_xi, P_eta = metric.preconditioned(here, xi), metric.preconditioned(here, eta)
    unit = geometry.norm(x, P_xi) + geometry.norm(x, P_eta)
    assert geometry.inner(x, P_xi, eta) == pytest.approx(geometry.inner(x, xi, P_eta), abs=1e-10 * unit)
    assert geometry.inner(x, P_xi, xi) > 0
    for project in (geometry.to_tangent, geometry.to_horizontal):
        assert geometry.norm(x, minus(project(x, P_xi), P_xi)) <= 1e-9 * unit
    again = metric.preconditioned(here, here.gradient)
    assert geometry.norm(x, minus(again, metric.gradient(here))) <= 1e-9 * geometry.norm(x, again)


@pytest.mark.parametrize("name", LIFTED)
@few
@given(size=sizes, seed=seeds)
def test_nothing_changes_along_the_fibres_of_either_point(name, size, seed):
    """The one where the blocks are formed and the one where they are used, each moved by itself."""
    problem, formed = problem_at(name, size, seed)
    geometry = problem.geometry
    here = problem.at(geometry.retract(formed.x, geometry.random_tangent(formed.x, seed)))
    expected = velocity(geometry, here.x, Metric(formed).gradient(here))
    if VARIANTS[name].is_quotient:
        M, N = (bounded_symmetry(geometry, seed + k, condition=10) for k in (1, 2))
        formed, here = problem.at(geometry.act(formed.x, M)), problem.at(geometry.act(here.x, N))
    found = velocity(geometry, here.x, Metric(formed).gradient(here))
    np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_float32_in_float32_out():
    _, here = problem_at("GH-preconditioned", ((9, 7), 3), 0, np.float32)
    assert {part.dtype for part in Metric(here).gradient(here)} == {np.dtype(np.float32)}


def completion(oversampling=3.0, **options):
    data = rf.data.random_completion((150, 120), 3, oversampling, seed=0)
    values = (data.values > 0).astype(float) if "loss" in options else data.values
    return rf.Completion(data.rows, data.cols, values, data.shape, **options)


@pytest.mark.parametrize("name", ["GH-preconditioned", "GH-invariant", "UBV-spd", "UY-invariant", "embedded"])
@pytest.mark.parametrize("solver", [rf.ConjugateGradient, rf.GradientDescent])
def test_takes_fewer_iterations_on_few_entries(name, solver):
    cost = completion()
    problem = rf.Problem(cost, VARIANTS[name](cost.shape, 3))
    work = {}
    for metric in ("geometry", "auto"):
        result = rf.minimize(problem, solver(metric=metric), tolerance=1e-14, max_iterations=1000)
        assert result.converged
        work[metric] = result.iterations
        assert (result.trace["blocks"].sum() > 0) == (metric == "auto")
    assert work["auto"] <= 0.75 * work["geometry"]


def test_preconditions_the_trust_region():
    problem = rf.Problem.of(completion(), 3)
    result = rf.minimize(problem, rf.TrustRegion(metric="data"), tolerance=1e-18)
    assert result.converged
    assert result.trace["blocks"].sum() > 0


def test_costs_without_blocks_run_as_before():
    problem = rf.Problem.of(DenseCost((9, 7), 0), 2)
    runs = [rf.minimize(problem, rf.ConjugateGradient(metric=m), x0=problem.geometry.random_point(0),
                        max_iterations=8, tolerance=0) for m in ("geometry", "auto")]  # fmt: skip
    assert np.array_equal(runs[0].trace["value"], runs[1].trace["value"])
    with pytest.raises(TypeError, match="has no metric of the data"):
        rf.minimize(problem, rf.ConjugateGradient(metric="data"), x0=problem.geometry.random_point(0))


def test_large_ranks_are_left_to_the_geometry_unless_asked():
    cost = completion()
    for rank, expected in ((20, True), (21, False)):
        problem = rf.Problem.of(cost, rank)
        here = problem.at(problem.geometry.random_point(0))
        assert (Metric.chosen("auto", here).formed is here) == expected
        assert Metric.chosen("data", here).formed is here
        far = problem.at(problem.geometry.random_point(1))
        assert Metric(here).moved(far).formed is far  # one that was asked for is kept


def test_without_any_curvature_the_geometry_measures():
    """Beyond their margin, no entry of a squared hinge curves."""
    cost = rf.Completion([0, 1], [0, 1], [1.0, 1.0], (2, 2), loss="squared_hinge")
    problem = rf.Problem.of(cost, 1)
    here = problem.at(problem.geometry.from_factors(np.full((2, 1), 2.0), np.full((2, 1), 2.0)))
    assert here.data_metric is None
    assert Metric.chosen("auto", here) == Metric()


def test_blocks_are_formed_again_once_the_factors_have_turned_or_curvatures_moved():
    problem, formed = problem_at("GH-preconditioned", ((9, 7), 3), 0)
    far = problem.at(problem.geometry.random_point(5))
    near = problem.at(formed.x)
    assert Metric(formed).moved(near) == Metric(formed, 1)
    ages, metric = [], Metric.chosen("data", formed)
    for age in range(1, 10):  # from the first step on
        metric = metric.moved(near, lambda age=age: ages.append(age) or 0.05)
    assert ages == [1, 2, 4, 8]
    assert metric == Metric(formed, 9)
    assert metric.moved(near, lambda: 1.0) == Metric(formed, 10)
    assert Metric(formed, 7).moved(near, lambda: 0.051) == Metric(near)
    assert Metric(formed).moved(far) == Metric(far)
    assert Metric(formed, 2).moved(far) == Metric(formed, 3)  # looked at when the age is a power of two
    logistic = rf.Problem.of(completion(loss="logistic"), 2)
    here = logistic.at(logistic.start())
    assert Metric(here, 6).moved(here) == Metric(here, 7)
    other = logistic.at(here.x)
    assert Metric(here, 7).moved(other).formed is other


def test_blocks_are_formed_again_after_a_step_too_short_for_blocks_that_fit():
    problem, formed = problem_at("GH-preconditioned", ((9, 7), 3), 0)
    here, unit = problem.at(formed.x), formed.data_metric.unit
    metric = Metric(formed, 3)
    assert metric.tried(here, 0.51 * unit) is metric
    assert metric.tried(here, 0.49 * unit).moved(here) == Metric(here)
    assert metric.tried(here, 0.49 * unit).data is metric.data  # until then
    assert Metric(formed).tried(here, 0.0) == Metric(formed)  # the step was made in another one
    assert Metric().tried(here, 0.0) == Metric()
    logistic = rf.Problem.of(completion(loss="logistic"), 2)
    curved = logistic.at(logistic.start())
    assert Metric(curved, 3).tried(curved, 0.0) == Metric(
        curved, 3
    )  # searches may well end before the minimum


def test_lines_that_were_far_off_where_blocks_were_formed_cost_few_iterations():
    """What all columns in a row lack, the row's block lacks; as a whole, the factors have hardly turned."""
    data = rf.data.random_completion((1000, 800), 3, oversampling=8, seed=0)
    problem, L, R = rf.Problem.of(rf.Completion.from_triples(data), 3), data.L, data.R
    seen, towards = data.cols[data.rows == 0], L[0] / np.linalg.norm(L[0])
    lacking = R.copy()
    lacking[seen] -= 0.95 * np.outer(R[seen] @ towards, towards)
    rng, iterations = np.random.default_rng(0), []
    near = [Z + 1e-3 * rng.standard_normal(Z.shape) for Z in (L, R)]
    here = problem.at(problem.geometry.from_factors(*near))
    for formed in (here, problem.at(problem.geometry.from_factors(L, lacking))):
        metric, count = Metric(formed), 0
        assert metric.data.turned(*here.factors) < 0.05
        state = conjugate_gradient._downhill(here, metric, metric.lazy_gradient(here), StepReport())
        while state.value > 1e-16 * problem.cost.value_at_zero:
            state, count = rf.ConjugateGradient().step(problem, state), count + 1
        iterations.append(count)
    assert iterations[1] <= 2 * iterations[0]  # where they stay, 33 instead of 8


@pytest.mark.parametrize("solver", [rf.ConjugateGradient, rf.GradientDescent, rf.TrustRegion])
def test_an_unknown_metric_is_refused(solver):
    with pytest.raises(ValueError, match="metric must be one of 'auto', 'data', 'geometry', not 'x'"):
        solver(metric="x")


@pytest.fixture(scope="module")
def solution():
    """A problem, and the singular value decomposition of the matrix that fits it."""
    problem = rf.Problem.of(completion(oversampling=8.0), 3)
    result = rf.minimize(problem, tolerance=1e-26)
    assert result.converged
    return problem, svd_of_product(*result.x)


def test_from_a_good_start_the_default_forms_the_metric_once_after_two_steps():
    problem = rf.Problem.of(completion(oversampling=12), 3)
    x = problem.start()
    assert 0.01 < problem.at(x).value / problem.cost.value_at_zero < 0.5
    result = rf.minimize(problem, x0=x, tolerance=1e-20)
    assert result.converged
    assert (result.trace["blocks"].tolist()[:3], result.trace["blocks"].sum()) == ([0, 0, 1], 1)
    first = rf.ConjugateGradient().init(problem, x)
    assert (first.metric, first.trial.start) == (Metric(wait=2), x)
    assert taken_up(rf.ConjugateGradient(), problem, x).metric.formed is not None  # in the midst of a run
    assert taken_up(rf.TrustRegion(), problem, x).radius == rf.TrustRegion().init(problem, x).radius
    here = problem.at(x)
    assert Metric(wait=2).moved(here) == Metric(wait=1)
    assert Metric(wait=1).moved(here) == Metric(here)


def test_only_the_default_choice_for_the_square_loss_waits_and_only_from_a_good_start(solution):
    problem, (U, s, V) = solution
    for part, waits in ((0.49, True), (0.51, False), (0.011, True), (0.009, False)):
        here = problem.at(problem.geometry.from_svd(U, (1 - part**0.5) * s, V))
        assert here.value == pytest.approx(part * problem.cost.value_at_zero)
        assert (Metric.chosen("auto", here, patient=True).wait == 2) == waits
        assert Metric.chosen("data", here, patient=True).formed is here
    cost = completion(loss="logistic")
    here = rf.Problem.of(cost, 3).at(rf.Problem.of(cost, 3).start())
    assert Metric.chosen("auto", here, patient=True).formed is here


def getting_nowhere(state):
    trial = state.trial
    return replace(state, trial=replace(trial, progress=Progress(40, (1.0,) * 41, (1.0,) * 41)))


def same_state(one, other):
    assert one.value == other.value
    assert (one.metric, one.trial, one.slope, one.t) == (other.metric, other.trial, other.slope, other.t)
    for a, b in zip((*one.x, *one.direction), (*other.x, *other.direction), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_metric_that_leads_nowhere_is_given_up_for_that_of_the_geometry_from_the_start():
    """So that whatever converges in the geometry's metric converges."""
    problem = rf.Problem.of(completion(), 3)
    auto, plain = rf.ConjugateGradient(), rf.ConjugateGradient(metric="geometry")
    start = problem.start()
    state = auto.init(problem, start)
    for _ in range(5):
        state = auto.step(problem, state)
    assert len(state.trial.progress.values) == 5
    state, expected = auto.step(problem, getting_nowhere(state)), plain.init(problem, start)
    assert (state.report.step, state.stalled) == (0.0, "")
    assert "again in the geometry's" in state.report.note
    for _ in range(4):
        same_state(state, expected)
        state, expected = auto.step(problem, state), plain.step(problem, expected)


def test_a_stall_in_the_metric_of_the_data_is_no_stall_unless_it_is_rounding(monkeypatch):
    problem = rf.Problem.of(completion(), 3)
    auto, asked = rf.ConjugateGradient(), rf.ConjugateGradient(metric="data")
    monkeypatch.setattr(rf.ConjugateGradient, "_turned", lambda self, state: (1.0, None))
    first = auto.init(problem, problem.start())
    after = auto.step(problem, first)
    assert (after.trial, after.stalled, after.metric) == (None, "", Metric())
    assert asked.step(problem, asked.init(problem, problem.start())).stalled
    monkeypatch.setattr(conjugate_gradient, "at_noise_floor", lambda *_: True)
    assert auto.step(problem, first).stationary


def test_only_a_metric_that_was_not_asked_for_is_on_trial():
    problem = rf.Problem.of(completion(), 3)
    tried = {m: rf.ConjugateGradient(metric=m).init(problem, problem.start()).trial for m in CHOICES}
    assert [m for m, trial in tried.items() if trial is not None] == ["auto"]
    assert tried["auto"].progress == Progress(40)


def test_auto_does_not_judge_a_method_whose_metric_is_on_trial_and_that_has_another_one():
    problem = rf.Problem.of(completion() + rf.Frobenius(0.0), 3)
    state = rf.Auto().step(problem, rf.Auto().init(problem, problem.start()))
    assert state.progress == Progress()
    state = rf.Auto().step(problem, replace(state, inner=getting_nowhere(state.inner)))
    assert state.level == 0
    assert rf.Auto().step(problem, state).progress.values[0] == state.value


def test_auto_judges_it_where_lines_can_be_set_aside():
    problem = rf.Problem.of(completion(), 3)
    state = rf.Auto().step(problem, rf.Auto().init(problem, problem.start()))
    assert state.progress.values == (state.value,)


class WithoutBlocks:
    """A store that answers what it must, and makes no blocks, as that on a GPU."""

    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        if name == "blocks":
            raise AttributeError(name)
        return getattr(self.store, name)


def test_a_store_without_blocks_is_left_to_the_geometry():
    cost = rf.Completion.from_observed(WithoutBlocks(completion().store))
    for each in (cost, GivenOffsets(cost, np.zeros(150), np.zeros(120)), cost + rf.Frobenius(0.1)):
        assert not each.has_line_blocks
    problem = rf.Problem.of(cost, 3)
    assert rf.minimize(problem, rf.ConjugateGradient(), max_iterations=3).trace["blocks"].sum() == 0
    with pytest.raises(TypeError, match="Completion knows no blocks"):
        cost.line_blocks(*problem.at(problem.start()).factors)
