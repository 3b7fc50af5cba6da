import itertools
from dataclasses import replace

import numpy as np
import pytest

import rankfold as rf
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.run.checkpoint import Checkpoint
from rankfold.solvers.gauss_newton import GaussNewtonState


def problem_of(shape, rank, oversampling, seed=0, **options):
    data = rf.data.random_completion(shape, rank, oversampling, seed, min_per_line=True, **options)
    cost = rf.Completion.from_triples(data)
    return data, rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))


def test_solves_what_plain_methods_do_not():
    data, problem = problem_of((300, 350), 5, 1.5, condition=10.0)
    plain = rf.minimize(problem, rf.ConjugateGradient(), tolerance=1e-18, max_iterations=800)
    assert data.relative_error(*plain.factors) > 1e-2
    result = rf.minimize(problem, rf.ReweightedContinuation(), tolerance=1e-18, max_iterations=1500)
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-6


def test_other_geometries_are_told_what_to_do():
    data, problem = problem_of((60, 50), 2, 4.0)
    problem = rf.Problem(problem.cost, rf.Embedded(data.shape, 2))
    with pytest.raises(TypeError, match="FullRank"):
        rf.minimize(problem, rf.ReweightedContinuation())


def test_the_trace_holds_the_cost_without_the_ridge():
    _, problem = problem_of((60, 50), 2, 3.0)
    result = rf.minimize(problem, rf.ReweightedContinuation(), tolerance=0, max_iterations=12)
    assert result.state.weights is not None
    at = problem.cost.value(*problem.geometry.factors(result.state.x))
    assert np.isclose(result.trace[-1].value, at)


def test_resumes_to_the_same_values(tmp_path):
    _, problem = problem_of((60, 50), 2, 3.0, condition=10.0)
    method = rf.ReweightedContinuation()
    whole = rf.minimize(problem, method, tolerance=1e-14, max_iterations=1000)
    assert whole.converged
    for k in range(0, whole.iterations, 23):
        path = tmp_path / f"run{k}"
        rf.minimize(problem, method, tolerance=1e-14, max_iterations=k, checkpoint=Checkpoint(path, every=1))
        resumed = rf.minimize(problem, method, tolerance=1e-14, max_iterations=1000, resume=path)
        rows = [[repr(row._replace(seconds=0.0)) for row in result.trace] for result in (resumed, whole)]
        assert rows[0] == rows[1], "the evaluations are counted alike too"


def stages(problem):
    """Where a stage begins: (iteration, rank, whether there is a ridge)."""
    result = rf.minimize(problem, rf.ReweightedContinuation(), tolerance=1e-20, max_iterations=1000)
    notes = [(k, row.note.split(", ")) for k, row in enumerate(result.trace) if row.note.startswith("rank")]
    return [(k, rank, kind != "no ridge") for k, (rank, kind) in notes]


@pytest.mark.parametrize("factor", [2.0**-20, 2.0**20])
def test_the_path_does_not_depend_on_the_unit_of_the_data(factor):
    data, problem = problem_of((60, 50), 2, 3.0, condition=10.0)
    cost = rf.Completion(data.rows, data.cols, factor * data.values, data.shape)
    expected = stages(problem)
    assert [ridge for _, _, ridge in expected].count(False) == 1
    assert stages(rf.Problem(cost, problem.geometry)) == expected


def test_the_last_solve_begins_with_a_tenth_of_the_matrix_as_radius():
    _, problem = problem_of((60, 50), 2, 3.0, condition=10.0)
    method = rf.ReweightedContinuation()
    state = method.init(problem, problem.start())
    while state.weights is not None:
        state = method.step(problem, state)
    L, R = problem.geometry.factors(state.x)
    assert state.inner.radius == pytest.approx(0.1 * np.linalg.norm(L @ R.T))


def test_the_ridge_is_halved_ten_times_at_the_last_rank_and_then_dropped():
    _, problem = problem_of((60, 50), 2, 3.0, noise=0.3)
    result = rf.minimize(problem, rf.ReweightedContinuation(), tolerance=0, max_iterations=3000)
    notes = [row.note.split() for row in result.trace if row.note.startswith("rank")]
    assert notes[-1] == ["rank", "2,", "no", "ridge"]
    path = [(int(rank[0]), float(ridge)) for _, rank, _, ridge in notes[:-1]]
    assert path[0][0] == 1
    for (rank, ridge), (later_rank, later_ridge) in itertools.pairwise(path):
        grown = later_rank == rank + 1
        assert later_rank in (rank, rank + 1)
        assert later_ridge == pytest.approx(ridge if grown else ridge / 2, rel=0.05)  # two digits are shown
    assert [rank for rank, _ in path].count(2) == 11


def test_the_first_ridge_is_half_of_what_would_hold_everything_back():
    data, problem = problem_of((60, 50), 2, 3.0)
    state = rf.ReweightedContinuation().init(problem, problem.start())
    S = np.zeros(data.shape)
    S[data.rows, data.cols] = -2 * data.values / len(data.values)  # the gradient at W = 0
    U, s, Vt = np.linalg.svd(S)
    bend = 2 * np.mean((U[data.rows, 0] * Vt[0, data.cols]) ** 2)
    assert state.threshold == pytest.approx(s[0] / 2, rel=1e-3)
    assert state.scale == pytest.approx(1 / bend, rel=0.05)
    L, R = problem.geometry.factors(state.x)
    sigma = np.linalg.norm(L @ R.T)  # of rank 1
    assert state.weights == pytest.approx(state.threshold / (1 + sigma / (state.scale * state.threshold)))
    assert np.linalg.norm(L) == pytest.approx(np.linalg.norm(R))
    assert state.value == pytest.approx(problem.cost.value(L, R))


def test_it_stalls_only_without_a_ridge():
    _, problem = problem_of((60, 50), 2, 3.0)
    state = rf.ReweightedContinuation().init(problem, problem.start())
    stuck = replace(state, inner=replace(state.inner, stalled="why", stationary=True))
    assert (stuck.stalled, stuck.stationary) == ("", False)
    free = replace(stuck, weights=None)
    assert (free.stalled, free.stationary) == ("why", True)
    assert not replace(free, inner=replace(free.inner, stationary=False)).stationary


def test_a_stage_ends_when_its_solver_slows_down_or_has_had_its_time():
    _, problem = problem_of((60, 50), 2, 3.0)
    method = rf.ReweightedContinuation(slow=0.0)
    state = method.init(problem, problem.start())
    after = method.step(problem, state)
    assert (state.taken, after.taken) == (0, 1)
    gain = (state.inner.value - after.inner.value) / after.inner.value
    for factor in (0.0, 0.99, 1.01):
        slowed = rf.ReweightedContinuation(slow=factor * gain).step(problem, state)
        assert slowed.ripe == (factor > 1)
    assert not method.step(problem, replace(state, taken=98)).ripe
    assert method.step(problem, replace(state, taken=99)).ripe


def test_ridged_derivatives_and_polynomial():
    _, problem = problem_of((12, 10), 2, 2.0)
    cost = FactorRidge(problem.cost, np.array([0.3, 0.7]))
    rng = np.random.default_rng(0)
    L, dL = rng.standard_normal((2, 12, 2))
    R, dR = rng.standard_normal((2, 10, 2))
    coefficients = cost.polynomial([L, dL], [R, dR])
    value, f_L, f_R = cost.evaluate(L, R)
    assert np.isclose(coefficients[0], value)
    assert np.isclose(cost.value(L, R), value)
    assert np.isclose(coefficients[1], np.sum(f_L * dL) + np.sum(f_R * dR))
    assert np.isclose(np.polyval(coefficients[::-1], 1.0), cost.value(L + dL, R + dR))
    df_L, df_R = cost.derivative(L, R, dL, dR)
    h = 1e-6
    _, up_L, up_R = cost.evaluate(L + h * dL, R + h * dR)
    assert np.allclose((up_L - f_L) / h, df_L, atol=1e-4)
    assert np.allclose((up_R - f_R) / h, df_R, atol=1e-4)


def test_gauss_newton_serves_for_all_stages():
    data, problem = problem_of((150, 160), 3, 1.8, condition=10.0)
    method = rf.ReweightedContinuation(rf.GaussNewton(), rf.GaussNewton())
    result = rf.minimize(problem, method, tolerance=1e-20, max_iterations=400)
    assert result.converged
    assert data.relative_error(*result.factors) < 1e-6
    assert isinstance(result.state.inner, GaussNewtonState)
