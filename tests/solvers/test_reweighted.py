import numpy as np
import pytest

import rankfold as rf
from rankfold.run.checkpoint import Checkpoint
from rankfold.solvers.reweighted import Ridged


def problem_of(shape, rank, oversampling, seed=0, **options):
    data = rf.data.random_completion(shape, rank, oversampling, seed, min_per_line=True, **options)
    cost = rf.Completion.from_triples(data)
    return data, rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))


def test_solves_what_plain_methods_do_not():
    data, problem = problem_of((300, 350), 5, 1.5, condition=10.0)
    plain = rf.minimize(problem, rf.ConjugateGradient(), tolerance=1e-18, max_iterations=800)
    assert data.relative_error(*problem.geometry.factors(plain.x)) > 1e-2
    result = rf.minimize(problem, rf.ReweightedContinuation(), tolerance=1e-18, max_iterations=1500)
    assert result.converged
    assert data.relative_error(*problem.geometry.factors(result.x)) < 1e-6


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
    for k in range(0, whole.iterations, 11):
        path = tmp_path / f"run{k}"
        rf.minimize(problem, method, tolerance=1e-14, max_iterations=k, checkpoint=Checkpoint(path, every=1))
        resumed = rf.minimize(problem, method, tolerance=1e-14, max_iterations=1000, resume=path)
        assert np.array_equal(resumed.trace["value"], whole.trace["value"])
        assert list(resumed.trace["note"]) == list(whole.trace["note"])


def test_ridged_derivatives_and_polynomial():
    _, problem = problem_of((12, 10), 2, 2.0)
    cost = Ridged(problem.cost, np.array([0.3, 0.7]))
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
