import numpy as np

import rankfold as rf
from rankfold.run.checkpoint import Checkpoint
from rankfold.solvers import Auto, by_name


def problem_of(shape, rank, oversampling, seed=0, **options):
    data = rf.data.random_completion(shape, rank, oversampling, seed, min_per_line=True, **options)
    cost = rf.Completion.from_triples(data)
    return data, rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="preconditioned"))


def decisions(result):
    return [row.note for row in result.trace if "RankContinuation" in row.note or "Reweighted" in row.note]


def test_easy_instances_run_exactly_as_conjugate_gradients():
    _, problem = problem_of((300, 300), 4, 8.0)
    plain = rf.minimize(problem, rf.ConjugateGradient(), tolerance=1e-20)
    auto = rf.minimize(problem, "auto", tolerance=1e-20)
    assert auto.converged
    assert np.array_equal(plain.trace["value"], auto.trace["value"])
    for work in ("gradients", "polynomials", "values", "hessians"):
        assert np.array_equal(plain.trace[work], auto.trace[work])


def test_noise_is_no_stagnation():
    _, problem = problem_of((300, 300), 4, 8.0, noise=0.1)
    auto = rf.minimize(problem, "auto", max_iterations=200)
    assert auto.converged
    assert decisions(auto) == []


def test_a_bad_start_goes_to_continuation_at_once():
    data, problem = problem_of((2000, 2000), 5, 4.0, condition=1e4)
    auto = rf.minimize(problem, "auto", tolerance=1e-20)
    assert auto.converged
    assert auto.trace[0].note.endswith("RankContinuation")
    assert data.relative_error(*problem.geometry.factors(auto.x)) < 1e-8


def test_a_start_whose_leading_pair_is_noise_is_left_to_conjugate_gradients():
    _, problem = problem_of((4000, 4000), 5, 3.0)
    at_start = problem.cost.value(*problem.geometry.factors(problem.start()))
    assert at_start > 10 * problem.cost.value_at_zero
    auto = rf.minimize(problem, "auto", tolerance=1e-20)
    assert auto.converged
    assert decisions(auto) == []


def test_escalates_to_the_second_order_near_the_limit():
    data, problem = problem_of((300, 350), 5, 1.5, condition=10.0)
    auto = rf.minimize(problem, "auto", tolerance=1e-18, max_iterations=2000)
    assert auto.converged
    assert decisions(auto)[-1] == "RankContinuation stagnates: ReweightedContinuation takes over"
    assert data.relative_error(*problem.geometry.factors(auto.x)) < 1e-6


def test_other_geometries_end_with_the_trust_region():
    _, problem = problem_of((80, 80), 3, 1.4, condition=100.0)
    problem = rf.Problem(problem.cost, rf.Polar(problem.cost.shape, 3))
    auto = rf.minimize(problem, "auto", tolerance=1e-18, max_iterations=400)
    assert "TrustRegion" in "".join(row.note for row in auto.trace)


def test_resumes_on_every_level(tmp_path):
    _, problem = problem_of((80, 80), 3, 1.5, condition=10.0)
    whole = rf.minimize(problem, "auto", tolerance=1e-12, max_iterations=300)
    assert whole.state.level == 2
    for k in range(0, 300, 37):
        path = tmp_path / f"run{k}"
        rf.minimize(problem, "auto", tolerance=1e-12, max_iterations=k, checkpoint=Checkpoint(path, every=1))
        resumed = rf.minimize(problem, "auto", tolerance=1e-12, max_iterations=300, resume=path)
        assert np.array_equal(resumed.trace["value"], whole.trace["value"])


def test_is_the_default():
    assert by_name("auto") == Auto()
