"""What `PositiveSemidefinite` has of its own: nearest points, symmetric parts, growth that stays in it."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.solvers.growth import descending_pairs, grown

METRICS = ("invariant", "preconditioned", "euclidean")


def svd(W, rank):
    U, s, Vt = np.linalg.svd(W)
    return U[:, :rank], s[:rank], Vt[:rank].T


def with_eigenvalues(values, seed=0):
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((6, 6)))[0][:, : len(values)]
    return (Q * values) @ Q.T, Q


def test_the_nearest_point_keeps_the_positive_eigenvalues_of_the_symmetric_part():
    W, Q = with_eigenvalues([3.0, 2.0, -1.0])
    x = rf.PositiveSemidefinite((6, 6), 2).nearest(*svd(W, 2))
    assert_allclose(x.Y @ x.Y.T, (Q[:, :2] * [3.0, 2.0]) @ Q[:, :2].T, atol=1e-12)
    U, s, V = (np.linalg.qr(np.random.default_rng(k).standard_normal((6, 2)))[0] for k in (1, 2, 3))
    s = np.array([2.0, 1.0])
    x = rf.PositiveSemidefinite((6, 6), 2).nearest(U, s, V)
    W = (U * s) @ V.T
    values, E = np.linalg.eigh((W + W.T) / 2)
    assert_allclose(x.Y @ x.Y.T, (E[:, -2:] * values[-2:]) @ E[:, -2:].T, atol=1e-12)


def test_where_positive_eigenvalues_are_missing_tiny_ones_take_their_place():
    W, Q = with_eigenvalues([4.0, -3.0, -1.0])
    geometry = rf.PositiveSemidefinite((6, 6), 3)
    x = geometry.validate(geometry.nearest(*svd(W, 3)))
    found = np.linalg.eigvalsh(x.Y @ x.Y.T)[::-1]
    assert_allclose(found[:3], [4.0, 4e-8, 4e-8], rtol=1e-6)
    assert_allclose(abs(Q[:, 0] @ x.Y), [2.0, 0.0, 0.0], atol=1e-6)


def test_a_small_positive_eigenvalue_is_no_missing_one():
    W, _ = with_eigenvalues([1.0, 1e-12])
    x = rf.PositiveSemidefinite((6, 6), 2).from_svd(*svd(W, 2))
    assert np.linalg.eigvalsh(x.Y.T @ x.Y)[0] == pytest.approx(1e-12, rel=1e-3)


@pytest.mark.parametrize("values", [[3.0, -2.0], [-3.0, 2.0]])
def test_from_svd_refuses_what_is_not_semidefinite(values):
    W, _ = with_eigenvalues(values)
    with pytest.raises(ValueError, match=r"W must be symmetric and positive semidefinite .* `nearest`"):
        rf.PositiveSemidefinite((6, 6), 2).from_svd(*svd(W, 2))


def test_from_svd_allows_rounding_only():
    W, _ = with_eigenvalues([3.0, 2.0])
    geometry = rf.PositiveSemidefinite((6, 6), 2)
    E = np.random.default_rng(5).standard_normal((6, 6))
    x = geometry.from_svd(*svd(W + 1e-10 * (E - E.T), 2))
    assert_allclose(x.Y @ x.Y.T, W, atol=1e-8)
    with pytest.raises(ValueError, match="relative"):
        geometry.from_svd(*svd(W + 1e-6 * (E - E.T), 2))


def test_other_geometries_are_their_own_nearest():
    U, s, V = svd(np.random.default_rng(0).standard_normal((6, 6)), 2)
    geometry = rf.FullRank((6, 6), 2)
    for one, two in zip(geometry.nearest(U, s, V), geometry.from_svd(U, s, V), strict=True):
        assert_allclose(one, two)


@pytest.mark.parametrize("metric", METRICS)
def test_the_gradient_is_that_of_f_of_y_y_transposed(metric):
    """(S + Sᵀ) Y, converted to the metric: by hand, from the definition of each."""
    cost = DenseCost((6, 6))
    geometry = rf.PositiveSemidefinite((6, 6), 2, metric=metric)
    x = geometry.random_point(3)
    S, Q = np.tanh(x.Y @ x.Y.T - cost.C), x.Y.T @ x.Y
    factor = {"invariant": Q, "preconditioned": np.linalg.inv(Q), "euclidean": np.eye(2)}[metric]
    here = rf.Problem(cost, geometry).at(x)
    assert_allclose(here.gradient.Y, (S + S.T) @ x.Y @ factor, atol=1e-12)
    for part in here.partials:
        assert_allclose(part, (S + S.T) @ x.Y / 2, atol=1e-12)


def test_descending_pairs_are_the_least_eigenvalues_outside_the_matrix():
    cost = DenseCost((60, 60))
    Y = np.random.default_rng(1).standard_normal((60, 2))
    S = np.tanh(Y @ Y.T - cost.C)
    out = np.eye(60) - Y @ np.linalg.pinv(Y)
    values, E = np.linalg.eigh(out @ (S + S.T) @ out / 2)
    down, s, U = descending_pairs(cost, Y, Y, 2)
    assert_allclose(down, -U)
    assert_allclose(s, -values[:2], rtol=1e-2)
    assert_allclose(np.abs(np.sum(U * E[:, :2], axis=0)), 1.0, atol=0.05)


def test_no_more_pairs_descend_than_eigenvalues_are_negative():
    """Eigenvalues of S are far below 1: −0.08 in the first direction, 0.16 in the others."""
    cost = rf.Completion.from_dense(np.diag([1.0, -2.0, -2.0, -2.0, -2.0]))
    Y = np.zeros((5, 1))
    Y[4] = 1e-3
    down, s, U = descending_pairs(cost, Y, Y, 2)
    assert_allclose(s, [0.08])
    assert_allclose(abs(U), np.eye(5)[:, :1], atol=1e-9)
    assert_allclose(down, -U)


@pytest.mark.parametrize("metric", METRICS)
def test_growth_lowers_the_value_and_stays_semidefinite(metric):
    data = rf.data.random_completion((40, 40), rank=3, oversampling=5, seed=0)
    values = np.einsum("kr,kr->k", data.L[data.rows], data.L[data.cols])
    cost = rf.Completion(data.rows, data.cols, values, data.shape)
    problem = rf.Problem(cost, rf.PositiveSemidefinite((40, 40), 1, metric=metric))
    x = rf.minimize(problem, rf.ConjugateGradient(), max_iterations=30).x
    larger = grown(problem, x)
    assert larger.Y.shape == (40, 2)
    assert problem.with_rank(2).value(larger) < problem.value(x)


def test_nothing_grows_where_the_gradient_has_no_negative_eigenvalue():
    """‖W + 1‖²: whatever is added makes it larger."""
    cost = rf.Completion.from_dense(-np.eye(5))
    problem = rf.Problem(cost, rf.PositiveSemidefinite((5, 5), 1))
    assert grown(problem, problem.geometry.random_point(0)) is None


def test_costs_of_symmetric_data_are_completed_from_a_triangle():
    """Entries of the upper triangle alone: blocks of rows and columns are taken together."""
    Y = np.random.default_rng(0).standard_normal((60, 2))
    rows, cols = np.triu_indices(60)
    seen = np.random.default_rng(1).uniform(size=rows.size) < 0.4
    seen |= rows == cols
    rows, cols = rows[seen], cols[seen]
    cost = rf.Completion(rows, cols, np.sum(Y[rows] * Y[cols], axis=1), (60, 60))
    for metric in METRICS:
        problem = rf.Problem(cost, rf.PositiveSemidefinite((60, 60), 2, metric=metric))
        result = rf.minimize(problem, tolerance=1e-20)
        assert result.converged
        L, R = result.factors
        assert L is R
        assert_allclose(L @ L.T, Y @ Y.T, atol=1e-7)


@pytest.mark.parametrize(("off", "fits"), [(0.5, True), (2.0, False)])
def test_a_matrix_may_be_off_by_the_root_of_rounding(off, fits):
    geometry = rf.PositiveSemidefinite((6, 6), 2)
    U = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 3)))[0]
    angle = off * float(np.finfo(float).eps) ** 0.5  # V is U, turned by so much
    V = np.column_stack([U[:, 0], np.cos(angle) * U[:, 1] + np.sin(angle) * U[:, 2]])
    given = U[:, :2], np.array([1.0, 1.0]), V
    if fits:
        Y = geometry.from_svd(*given).Y
        assert_allclose(Y @ Y.T, U[:, :2] @ V.T, atol=1e-7)
    else:
        with pytest.raises(ValueError, match=r"symmetric and positive semidefinite \(it is .* off, relative"):
            geometry.from_svd(*given)
