"""Sweeps of shrunken least squares: one of them beside dense formulas, and what they find."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.solvers import shrunk as module
from rankfold.solvers.shrunk import shrunk


def problem_of(shape=(300, 350), rank=3, oversampling=5.0, condition=1e3, seed=0, change=None, **options):
    data = rf.data.random_completion(
        shape, rank, oversampling, seed, min_per_line=True, condition=condition, **options
    )
    given = {} if change is None else {"weights": np.full(len(data.values), change)}
    return data, rf.Problem.of(rf.Completion.from_triples(data, **given), rank)


def test_a_half_sweep_is_a_ridge_solution_with_the_variance_of_each_pair():
    data, problem = problem_of((9, 8), 2, 1.5)
    rng = np.random.default_rng(1)
    Y, s, misfit = np.linalg.qr(rng.standard_normal((8, 2)))[0], np.array([3.0, 0.5]), 0.7
    X, sigmas, turned = module._solved(problem.cost.observed.by_row, Y, s, misfit)
    for i in range(9):
        on = data.rows == i
        B = Y[data.cols[on]]
        expected = np.linalg.solve(B.T @ B + np.diag(misfit * 9 / s**2), B.T @ data.values[on])
        assert_allclose((X * sigmas)[i] @ turned.T, Y @ expected, atol=1e-12)
    assert_allclose(X.T @ X, np.eye(2), atol=1e-12)
    assert sigmas[0] >= sigmas[1]


def test_what_is_wrong_is_drawn_anew_beside_the_rest():
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    given, wrong = X.copy(), np.array([False, True, False, True])
    found = module._redrawn(rng, X, wrong)
    assert np.array_equal(X, given)
    assert np.array_equal(found[:, ~wrong], X[:, ~wrong])
    assert_allclose(found.T @ found, np.eye(4), atol=1e-12)
    assert np.all(np.abs(found[:, wrong].T @ X[:, wrong]) < 0.9)
    assert module._redrawn(rng, X, np.zeros(4, bool)) is X
    drawn = np.random.default_rng(1)
    found = module._redrawn(np.random.default_rng(1), X, np.array([False, True, False, False]))
    other = drawn.standard_normal(30)
    kept = np.delete(X, 1, axis=1)
    beside = other - kept @ (kept.T @ other)  # what was wrong may come again: it is not kept out
    assert_allclose(np.abs(found[:, 1] @ beside), np.linalg.norm(beside), rtol=1e-12)


@pytest.mark.parametrize("geometry", [rf.FullRank, rf.Embedded, rf.Polar], ids=lambda kind: kind.__name__)
def test_all_pairs_are_found(geometry):
    data, problem = problem_of()
    problem = rf.Problem(problem.cost, geometry(data.shape, 3))
    found = shrunk(problem, problem.start())
    L, R = problem.geometry.factors(found)
    assert data.relative_error(L, R) < 3e-4  # the least pair has 1e-3 of the whole
    assert problem.counts.gradients >= 4


def test_weights_and_single_precision_change_little():
    data, problem = problem_of()
    _, weighted = problem_of(change=1.0)
    x0 = problem.start()
    L, R = problem.geometry.factors(shrunk(problem, x0))
    assert_allclose(L @ R.T, np.matmul(*_factors(weighted, x0)), rtol=1e-6, atol=1e-9)
    single = rf.Problem.of(problem.cost.astype(np.float32), 3)
    L, R = _factors(single, single.start())
    assert L.dtype == R.dtype == np.float32
    assert data.relative_error(L, R.T) < 3e-4


def _factors(problem, x0):
    L, R = problem.geometry.factors(shrunk(problem, x0))
    return L, R.T


def test_with_noise_what_stands_out_is_enough():
    data, problem = problem_of(condition=30.0, noise=1e-2, oversampling=8.0)
    found = shrunk(problem, problem.start())
    oracle = rf.minimize(problem, "cg", problem.geometry.from_factors(data.L, data.R))
    from_here = rf.minimize(problem, "cg", found)
    assert_allclose(from_here.value, oracle.value, rtol=1e-9)
    assert from_here.iterations <= 20


def test_where_entries_are_few_nothing_is_found():
    _, problem = problem_of((100, 100), 5, 1.3)
    assert shrunk(problem, problem.start()) is None


def test_bits_are_those_of_any_number_of_threads(monkeypatch):
    _, problem = problem_of()
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("RANKFOLD_NUM_THREADS", threads)
        found.append(shrunk(problem, problem.start()))
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def always_waiting(monkeypatch, patience, **constants):
    """Every pair counts as one of W, and none stands out until so many half-sweeps were calm."""
    told = {"_FAINT": 0.0, "_LEVERAGE": np.inf, "_CLEAR": np.inf, "_OUTSTANDING": 0.0, "_STILL": 1e-6}
    for name, value in (told | {"_PATIENCE": patience} | constants).items():
        monkeypatch.setattr(module, name, value)
    fitted, misfit = [], module._misfit
    monkeypatch.setattr(module, "_misfit", lambda *a: fitted.append(a[1] @ a[2].T) or misfit(*a))
    return fitted


@pytest.mark.parametrize("patience", [2, 3, 4, 5])
def test_so_many_half_sweeps_without_gain_end_it_with_their_pairs(monkeypatch, patience):
    fitted = always_waiting(monkeypatch, patience)
    _, problem = problem_of((60, 50), condition=3.0, noise=0.1)
    found = shrunk(problem, problem.start())
    assert len(fitted) == patience
    assert problem.counts.gradients == patience // 2
    L, R = problem.geometry.factors(found)
    assert_allclose(L @ R.T, fitted[-1], atol=1e-9 * np.abs(fitted[-1]).max())


@pytest.mark.parametrize(("change", "sweeps"), [({}, 3), ({"_STILL": np.inf}, 7), ({"_LEVERAGE": 0.0}, 7)])
def test_it_ends_where_pairs_do_not_stand_out_or_at_last(monkeypatch, change, sweeps):
    fitted = always_waiting(monkeypatch, 3, _OUTSTANDING=np.inf, _MOST=7, **change)
    _, problem = problem_of((60, 50), condition=3.0, noise=0.1)
    assert shrunk(problem, problem.start()) is None
    assert len(fitted) == sweeps


@pytest.mark.parametrize("shape", [(30, 120), (120, 30)])
def test_the_noise_of_a_direction_is_the_misfit_of_as_many_entries_as_a_line_would_need(monkeypatch, shape):
    """σ² of noise alone: the misfit times the lines, over the part of the entries that is known."""
    fitted, misfits = [], module._misfit
    monkeypatch.setattr(module, "_misfit", lambda *a: fitted.append(a[1] @ a[2].T) or misfits(*a))
    data, problem = problem_of(shape, condition=100.0, seed=2)
    assert shrunk(problem, problem.start()) is not None
    ratios = []
    for sweep, W in enumerate(fitted):
        misfit = np.mean((W[data.rows, data.cols] - data.values) ** 2)
        noise = misfit * shape[sweep % 2] * W.size / len(data.values)
        ratios.append(np.linalg.svd(W, compute_uv=False)[2] ** 2 / noise)
    assert max(ratios[:-1]) <= 3000 < ratios[-1]


def test_the_misfit_is_that_of_a_sample_where_there_is_one():
    _, problem = problem_of((60, 50), condition=3.0, noise=0.1)
    L, R = problem.geometry.factors(problem.start())
    assert module._misfit(problem.cost, L, R) == pytest.approx(problem.cost.value(L, R))
    problem.cost.sampled_polynomial = lambda Ls, Rs: np.array([7.0])
    assert module._misfit(problem.cost, L, R) == 7.0
