"""Sweeps that know how unsure each line is: one of them beside dense formulas, and what they find."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.entries.operators import Indicator
from rankfold.solvers import averaged as module
from rankfold.solvers.averaged import Lines, averaged


def problem_of(shape=(100, 110), rank=3, oversampling=1.6, condition=1.0, seed=0, **options):
    data = rf.data.random_completion(
        shape, rank, oversampling, seed, min_per_line=True, condition=condition, **options
    )
    return data, rf.Problem.of(rf.Completion.from_triples(data), rank)


def lines_of(rng, count, rank=2):
    roots = rng.standard_normal((count, rank, rank))
    return Lines(rng.standard_normal((count, rank)), roots @ roots.transpose(0, 2, 1))


def test_a_half_sweep_is_the_posterior_of_each_line_given_the_others():
    data, problem = problem_of((9, 8), 2)
    store, other = problem.cost.observed, lines_of(np.random.default_rng(1), 8)
    values = store.of_data(lambda data: data[:, 0], np.float64)
    found, blocks, sums = module._solved(Indicator(store).__matmul__, values.__matmul__, other, 0.3, 0.7)
    for i in range(9):
        on = data.rows == i
        Y, C = other.means[data.cols[on]], other.covariances[data.cols[on]]
        assert_allclose(blocks[i], Y.T @ Y + C.sum(axis=0))
        assert_allclose(sums[i], Y.T @ data.values[on])
        precision = blocks[i] + 0.3 * np.eye(2)
        assert_allclose(found.means[i], np.linalg.solve(precision, sums[i]))
        assert_allclose(found.covariances[i], 0.7 * np.linalg.inv(precision))


def test_the_noise_is_what_is_left_on_average_over_the_uncertainty():
    data, problem = problem_of((9, 8), 2)
    rng = np.random.default_rng(1)
    rows, cols, store = lines_of(rng, 9), lines_of(rng, 8), problem.cost.observed
    values = store.of_data(lambda data: data[:, 0], np.float64)
    _, blocks, sums = module._solved(
        Indicator(store).transposed_times, values.transposed_times, rows, 0.3, 0.7
    )
    due = 0.0
    for i, j, v in zip(data.rows, data.cols, data.values, strict=True):
        (x, A), (y, B) = (rows.means[i], rows.covariances[i]), (cols.means[j], cols.covariances[j])
        due += (v - x @ y) ** 2 + x @ B @ x + y @ A @ y + np.sum(A * B)
    assert_allclose(np.sum(data.values**2) + module._change(cols, blocks, sums), due)


@pytest.mark.parametrize("geometry", [rf.FullRank, rf.Polar], ids=lambda kind: kind.__name__)
def test_all_pairs_of_a_well_conditioned_matrix_are_found(geometry):
    data, problem = problem_of(oversampling=2.2)
    problem = rf.Problem(problem.cost, geometry(data.shape, 3))
    found = averaged(problem, problem.start())
    assert found.pairs == 3
    assert data.relative_error(*problem.geometry.factors(found.x)) < 0.3
    assert data.relative_error(*problem.geometry.factors(problem.start())) > 1
    assert 5 <= problem.counts.gradients <= 60


def test_of_an_ill_conditioned_matrix_the_leading_pair_is_found():
    data, problem = problem_of(condition=1e4, oversampling=2.0)
    found = averaged(problem, problem.start())
    assert found.pairs == 1
    assert data.relative_error(*problem.geometry.factors(found.x)) < 0.3


def test_single_precision_stays():
    _, problem = problem_of()
    single = rf.Problem.of(problem.cost.astype(np.float32), 3)
    found = averaged(single, single.start())
    assert found.pairs == 3
    assert all(factor.dtype == np.float32 for factor in single.geometry.factors(found.x))


def test_of_noise_nothing_is_found():
    data, _ = problem_of()
    values = np.random.default_rng(0).standard_normal(len(data.values))
    problem = rf.Problem.of(rf.Completion(data.rows, data.cols, values, data.shape), 3)
    assert averaged(problem, problem.start()) is None
    assert 20 <= problem.counts.gradients <= 300


def test_sweeps_end_when_five_of_them_gain_nothing():
    falling = [0.9**k for k in range(20)]
    assert not module._stands_still(falling, 0.99)
    assert not module._stands_still([*falling, falling[-1]], 0.99)
    assert module._stands_still([*falling, *[falling[-1] * 0.9981**k for k in range(1, 6)]], 0.99)
    assert not module._stands_still([*falling, *[falling[-1] * 0.997**k for k in range(1, 6)]], 0.99)
    assert not module._stands_still([1.0] * 20, 0.99)
    assert module._stands_still([1.0] * 21, 0.99)


def test_patient_sweeps_bring_out_pairs_that_others_leave_to_the_next_ranks():
    data, problem = problem_of((300, 350), 5, 2.0, condition=10.0)
    x0, W = problem.start(), data.L @ data.R.T
    (soon, few), (late, many) = (averaged(problem, x0, patience=each) for each in (module.SOON, module.LATE))
    assert (few, many) == (4, 5)
    away = [np.linalg.norm(x.G @ x.H.T - W) / np.linalg.norm(W) for x in (soon, late)]
    assert away[1] < 0.01 < away[0] < 0.3


def test_lines_begin_with_the_prior_s_spread_and_hardly_unsure():
    lines = module._drawn(np.random.default_rng(0), 4000, 3, 2.5)
    assert_allclose(np.cov(lines.means.T), 2.5 * np.eye(3), atol=0.2)
    assert_allclose(lines.covariances[[0, -1]], np.broadcast_to(0.25 * np.eye(3), (2, 3, 3)))


@pytest.mark.parametrize("most", [1, 4])
def test_there_are_no_more_sweeps_than_the_most(most):
    _, problem = problem_of((30, 35), oversampling=2.2)
    averaged(problem, problem.start(), patience=module.SOON._replace(fitted=0.0, most=most))
    assert problem.counts.gradients == most


@pytest.mark.parametrize(
    ("patience", "least", "most"), [(module.SOON, 1e-4, 1e-2), (module.LATE, 5e-8, 2e-6)]
)
def test_sweeps_end_once_what_is_left_is_a_small_part_of_the_data(patience, least, most):
    data, problem = problem_of((30, 35), oversampling=2.2)
    found = averaged(problem, problem.start(), patience=patience)
    assert found.pairs == 3
    assert least < data.relative_error(*problem.geometry.factors(found.x)) ** 2 < most


@pytest.mark.parametrize("patience", [module.SOON, module.LATE])
def test_noise_is_given_up_long_before_the_most_sweeps(patience):
    data, _ = problem_of((30, 35), oversampling=2.2)
    values = np.random.default_rng(0).standard_normal(len(data.values))
    problem = rf.Problem.of(rf.Completion(data.rows, data.cols, values, data.shape), 3)
    assert averaged(problem, problem.start(), patience=patience) is None
    assert 20 <= problem.counts.gradients <= 60


@pytest.mark.parametrize(
    ("rank", "rho", "weights", "suited"),
    [
        (2, 2.0, None, False),
        (3, 2.0, None, True),
        (12, 1.1, None, True),
        (13, 1.1, None, False),
        (3, 2.0, 2.0, False),
    ],
)
def test_which_problems_sweeps_are_for(rank, rho, weights, suited):
    data, problem = problem_of(rank=rank, oversampling=rho)
    if weights:
        cost = rf.Completion.from_triples(data, weights=np.full(len(data.values), weights))
        problem = rf.Problem.of(cost, rank)
    assert module.suits(problem) == suited
