"""Averaged and shrunken least squares as a whole, beside the same written line by line."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.solvers import shrunk as shrinking
from rankfold.solvers.averaged import LATE, SOON, Patience, averaged
from rankfold.solvers.shrunk import shrunk


def problem_of(shape, rank, rho, unit=1.0, **options):
    data = rf.data.random_completion(shape, rank, rho, min_per_line=True, **options)
    values = unit * data.values
    problem = rf.Problem.of(rf.Completion(data.rows, data.cols, values, shape), rank)
    return data.rows, data.cols, values, problem


def posterior(lines, others, on, values, means, covariances, ridge, noise):
    """Mean and covariance of each line, given those of the other side."""
    r = means.shape[1]
    precisions = np.array([ridge * np.eye(r)] * len(lines))
    sums = np.zeros((len(lines), r))
    for k, o, v in zip(on, others, values, strict=True):
        precisions[k] += np.outer(means[o], means[o]) + covariances[o]
        sums[k] += v * means[o]
    inverses = np.linalg.inv(precisions)
    return np.einsum("kij,kj->ki", inverses, sums), noise * inverses


def swept(rows, cols, values, shape, rank, patience, seed=0):
    """L, R, the noise that was left after each sweep, and how many pairs stand out of the last."""
    power = np.mean(values**2)
    rng, prior = np.random.default_rng((0, 3, seed)), np.sqrt(power / rank)
    L, R = (np.sqrt(prior) * rng.standard_normal((d, rank)) for d in shape)
    covariances = np.broadcast_to(0.1 * prior * np.eye(rank), (shape[1], rank, rank))
    noises = [power]
    while len(noises) <= patience.most and noises[-1] > patience.fitted * power:
        if len(noises) > 20 and noises[-1] > patience.still * noises[-6]:
            break
        noise = noises[-1]
        L, of_rows = posterior(range(shape[0]), cols, rows, values, R, covariances, noise / prior, noise)
        R, covariances = posterior(range(shape[1]), rows, cols, values, L, of_rows, noise / prior, noise)
        left = (values - np.sum(L[rows] * R[cols], axis=1)) ** 2
        left += np.einsum("ki,kij,kj->k", L[rows], covariances[cols], L[rows])
        left += np.einsum("ki,kij,kj->k", R[cols], of_rows[rows], R[cols])
        left += np.einsum("kij,kij->k", of_rows[rows], covariances[cols])
        noises.append(np.mean(left))
    s = np.linalg.svd(L @ R.T, compute_uv=False)[:rank]
    of_noise = noises[-1] * max(shape) * shape[0] * shape[1] / len(values)
    return L, R, noises, max(1, np.sum(s**2 > patience.outstanding * of_noise))


BRIEF = Patience(1e-2, 0.99, 9, 2.0)


@pytest.mark.parametrize(
    ("shape", "rank", "rho", "condition", "noise", "patience", "seed", "unit"),
    [
        ((13, 19), 3, 1.9, 1.0, 0.0, SOON, 0, 1e3),
        ((19, 13), 3, 1.9, 4.0, 0.0, BRIEF, 1, 1e-4),
        ((15, 17), 2, 2.4, 3.0, 0.3, BRIEF._replace(outstanding=0.2), 0, 1e-4),
        ((15, 17), 3, 2.2, 1.0, 1e-3, LATE._replace(most=40), 2, 1e3),
    ],
)
def test_averaged_least_squares_are_variational_bayes(
    shape, rank, rho, condition, noise, patience, seed, unit
):
    rows, cols, values, problem = problem_of(shape, rank, rho, unit, seed=3, condition=condition, noise=noise)
    L, R, noises, pairs = swept(rows, cols, values, shape, rank, patience, seed)
    found = averaged(problem, problem.start(), seed=seed, patience=patience)
    assert problem.counts.gradients == len(noises) - 1
    if noises[-1] > 0.3 * noises[0]:
        assert found is None
        return
    assert found.pairs == pairs
    W = np.matmul(
        *(factor if k == 0 else factor.T for k, factor in enumerate(problem.geometry.factors(found.x)))
    )
    assert_allclose(W, L @ R.T, atol=1e-6 * np.abs(W).max())


def half_sweeps(rows, cols, values, shape, W0, rank, most):
    """The W of each half-sweep of shrunken least squares, and whether they end with all pairs clear."""
    rng = np.random.default_rng((0, 2))
    _, sigmas, Vt = np.linalg.svd(W0)
    drawn = rng.standard_normal((shape[1], rank - 1)) / np.sqrt(shape[1])
    Y = np.linalg.qr(np.concatenate([Vt[:1].T, drawn], axis=1))[0]
    s, misfit, found = np.full(rank, sigmas[0]), np.mean(values**2), []
    for sweep in range(most):
        on, others = (rows, cols) if sweep % 2 == 0 else (cols, rows)
        lines = shape[sweep % 2]
        Z = np.zeros((lines, rank))
        for k in range(lines):
            B = Y[others[on == k]]
            Z[k] = np.linalg.solve(B.T @ B + np.diag(misfit * lines / s**2), B.T @ values[on == k])
        X, s, Ct = np.linalg.svd(Z, full_matrices=False)
        Y = Y @ Ct.T
        W = (X * s) @ Y.T if sweep % 2 == 0 else Y @ (X * s).T
        found.append(W)
        misfit = np.mean((values - W[rows, cols]) ** 2)
        noise = misfit * lines * shape[0] * shape[1] / len(values)
        leverages = np.max(X**2, axis=0)
        wrong = (s**2 < 1e-3 * noise) | (np.sqrt(lines) * leverages > 2.0)
        if not wrong.any() and s[-1] ** 2 > 3e3 * noise:
            return found, True
        s = np.where(wrong, np.sqrt(noise), s)
        Y = X.copy()
        if wrong.any():
            other = rng.standard_normal((lines, wrong.sum())) / np.sqrt(lines)
            kept = X[:, ~wrong]
            Y[:, wrong] = np.linalg.qr(other - kept @ (kept.T @ other))[0]
    return found, False


@pytest.mark.parametrize(
    ("shape", "rank", "condition", "seed", "unit"),
    [((40, 61), 3, 30.0, 1, 1e-4), ((61, 40), 2, 1e3, 2, 1e3), ((50, 45), 4, 300.0, 4, 1.0)],
)
def test_shrunken_least_squares_are_ridge_regressions_in_turn(
    monkeypatch, shape, rank, condition, seed, unit
):
    rows, cols, values, problem = problem_of(shape, rank, 3.0, unit, seed=seed, condition=condition)
    x0 = problem.start()
    L, R = problem.geometry.factors(x0)
    due, clear = half_sweeps(rows, cols, values, shape, L @ R.T, rank, 24)
    seen, misfit = [], shrinking._misfit
    monkeypatch.setattr(shrinking, "_misfit", lambda *a: seen.append(a[1] @ a[2].T) or misfit(*a))
    monkeypatch.setattr(shrinking, "_MOST", 24)
    before = problem.counts.gradients
    found = shrunk(problem, x0)
    assert (found is not None) == clear
    assert len(seen) == len(due)
    assert problem.counts.gradients - before == len(due) // 2
    for W, expected in zip(seen, due, strict=True):
        assert_allclose(W, expected, atol=1e-6 * np.abs(expected).max())
    if clear:
        L, R = problem.geometry.factors(found)
        assert_allclose(L @ R.T, due[-1], atol=1e-6 * np.abs(due[-1]).max())


@pytest.mark.parametrize(
    ("misfits", "sweeps"),
    [
        ((1.0, 0.5, 0.49, 0.48, 0.47), 4),
        ((1.0, 0.95, 0.8, 0.79, 0.78), 5),
        ((1.0, 0.95, 0.9, 0.89), 3),
        ((1.0, 0.9, 0.8, 0.7, 0.68, 0.67), 6),
    ],
)
def test_two_half_sweeps_in_turn_that_gain_less_than_a_tenth_are_still(monkeypatch, misfits, sweeps):
    taken = iter(misfits)
    told = {"_FAINT": 0.0, "_LEVERAGE": np.inf, "_CLEAR": np.inf, "_OUTSTANDING": np.inf, "_PATIENCE": 3}
    for name, value in (told | {"_misfit": lambda *_: next(taken)}).items():
        monkeypatch.setattr(shrinking, name, value)
    *_, problem = problem_of((30, 25), 2, 4.0, seed=0)
    x0 = problem.start()
    assert shrunk(problem, x0) is None
    assert len(misfits) - len(list(taken)) == sweeps


def test_the_first_half_sweep_without_a_wrong_direction_may_be_the_last(monkeypatch):
    """Beside a misfit of 1e9 all directions are faint, beside one of 1e-30 all are clear."""
    taken = iter((1e9, 1e-30, 1e-30, 1e-30))
    monkeypatch.setattr(shrinking, "_misfit", lambda *_: next(taken))
    *_, problem = problem_of((30, 25), 2, 4.0, seed=0)
    assert shrunk(problem, problem.start()) is not None
    assert len(list(taken)) == 2
