"""RTRMC: the elimination against dense least squares, and its derivatives against finite differences."""

import numpy as np
import pytest
from baseline_instances import completion, instance, solve
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.baselines import RTRMC
from rankfold.baselines.rtrmc import Subspace

VARIANTS = [(0.0, False), (0.3, False), (0.0, True), (0.3, True)]


def make_reduced(regularization, weighted):
    data = instance((40, 30), oversampling=3, noise=0.2)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(data.values)) if weighted else None
    problem = rf.Problem(completion(data, weights=weights), rf.SubspaceProjection(data.shape, 3))
    C = np.zeros(data.shape)
    C[data.rows, data.cols] = 1.0 if weights is None else weights
    Wd = np.zeros(data.shape)
    Wd[data.rows, data.cols] = data.values
    return RTRMC(regularization=regularization).reduced(problem), problem.start(), C, Wd


def dense_value(U, Y, C, W, shift):
    """½ (Σ w (UYᵀ − W)² + λ² Σ over the rest (UYᵀ)²) / |Ω|."""
    X = U @ Y.T
    return float(np.sum(C * (X - W) ** 2) + shift * np.sum((C == 0) * X**2)) / (2 * np.sum(C > 0))


@pytest.mark.parametrize(("regularization", "weighted"), VARIANTS)
def test_elimination_finds_the_best_y(regularization, weighted):
    reduced, x, C, W = make_reduced(regularization, weighted)
    at = reduced.at(Subspace(x.U)).known
    assert_allclose(at.value, dense_value(x.U, at.Y, C, W, regularization**2), rtol=1e-12)
    for j in range(len(at.Y)):
        root = np.sqrt(np.where(C[:, j] > 0, C[:, j], regularization**2))
        best = np.linalg.lstsq(root[:, None] * x.U, root * W[:, j])[0]
        assert_allclose(at.Y[j], best, atol=1e-8 * np.abs(best).max())


@pytest.mark.parametrize(("regularization", "weighted"), VARIANTS)
def test_gradient_and_hessian_by_finite_differences(regularization, weighted):
    reduced, x, _, _ = make_reduced(regularization, weighted)
    here = reduced.at(Subspace(x.U))
    rng = np.random.default_rng(0)
    H, K = (rng.standard_normal(x.U.shape) for _ in range(2))
    H, K = H - x.U @ (x.U.T @ H), K - x.U @ (x.U.T @ K)
    H, K = H / np.linalg.norm(H), K / np.linalg.norm(K)
    h = 1e-4
    # The polar retraction is second order: its curve's second derivative is ⟨Hess H, H⟩.
    after, before = (reduced.at(reduced.geometry.retract(here.x, Subspace(t * H))) for t in (h, -h))
    slope = (after.value - before.value) / (2 * h)
    assert_allclose(slope, np.sum(here.known.gradient * H), rtol=1e-5)
    curvature = (after.value - 2 * here.value + before.value) / h**2
    image = here.hessian(Subspace(H)).U
    assert_allclose(curvature, np.sum(image * H), rtol=1e-4)
    assert_allclose(np.sum(image * K), np.sum(here.hessian(Subspace(K)).U * H), rtol=1e-9)
    # The whole vector: the gradient's change, projected back.
    change = (after.known.gradient - before.known.gradient) / (2 * h)
    change -= x.U @ (x.U.T @ change)
    assert_allclose(image, change, atol=1e-5 * np.abs(image).max())
    assert np.abs(x.U.T @ image).max() < 1e-12 * np.abs(image).max() * len(x.U)


@pytest.mark.parametrize("order", [1, 2])
def test_it_recovers_the_matrix(order):
    data = instance(oversampling=6)
    problem = rf.Problem(completion(data), rf.SubspaceProjection(data.shape, 3))
    result = solve(problem, RTRMC(order))
    assert result.converged
    assert data.relative_error(*result.x) < 1e-9
    # A residual is exact to rounding of the data: its square, to the product of the two.
    rounding = 1e-13 * np.sqrt(result.value * problem.cost.value_at_zero)
    assert_allclose(result.value, problem.value(result.x), rtol=1e-9, atol=rounding)


def test_the_first_radius_is_an_eighth_of_the_diameter_of_the_grassmann_manifold():
    problem = rf.Problem(completion(instance()), rf.SubspaceProjection((120, 100), 3))
    state = RTRMC().init(problem, problem.start())
    assert_allclose([state.max_radius, state.radius], np.sqrt(3) * np.pi / 2 / np.array([1, 8]))


def test_columns_with_too_few_entries_do_no_harm():
    rows, cols = np.divmod(np.arange(40 * 20), 20)
    keep = (cols > 1) | ((cols == 1) & (rows == 3))
    W = np.random.default_rng(0).standard_normal((40, 2)) @ np.random.default_rng(1).standard_normal((2, 20))
    with pytest.warns(UserWarning, match="no observed entry"):
        cost = rf.Completion(rows[keep], cols[keep], W[rows[keep], cols[keep]], (40, 20))
    result = solve(rf.Problem(cost, rf.SubspaceProjection(cost.shape, 2)), RTRMC())
    assert result.converged
    assert (result.x.Y[0] == 0).all()


def test_a_run_can_be_saved_and_resumed(tmp_path):
    data = instance(oversampling=6)
    problem = rf.Problem(completion(data), rf.SubspaceProjection(data.shape, 3))
    whole = rf.minimize(problem, RTRMC(1), max_iterations=12, tolerance=0)
    rf.minimize(problem, RTRMC(1), max_iterations=7, tolerance=0, checkpoint=tmp_path / "run.npz")
    resumed = rf.minimize(problem, RTRMC(1), max_iterations=12, tolerance=0, resume=tmp_path / "run.npz")
    assert resumed.value == whole.value


def test_options_are_checked():
    with pytest.raises(ValueError, match="order"):
        RTRMC(3)
    with pytest.raises(ValueError, match="regularization"):
        RTRMC(regularization=-1.0)
