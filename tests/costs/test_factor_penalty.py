"""λ_L‖L‖² + λ_R‖R‖²: on the geometries whose points are the factors, and refused on all others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import rankfold as rf
from costs.catalogue import TARGET, log_cosh, plain
from costs.suite import factors
from geometry.variants import VARIANTS, every

SHAPE = TARGET.shape
PENALTY = rf.FactorPenalty(left=0.3, right=0.7)


def euclidean(cost, rank=2):
    return rf.Problem(cost, rf.FullRank(cost.shape, rank, metric="euclidean"))


def test_value_partials_and_their_change():
    L, R, dL, dR = factors(SHAPE, 2)
    value, f_L, f_R = PENALTY.evaluate(L, R)
    assert value == pytest.approx(0.3 * np.sum(L**2) + 0.7 * np.sum(R**2))
    assert PENALTY.value(L, R) == value
    assert_allclose(f_L, 0.6 * L)
    assert_allclose(f_R, 1.4 * R)
    df_L, df_R = PENALTY.derivative(L, R, dL, dR)
    assert_allclose(df_L, 0.6 * dL)
    assert_allclose(df_R, 1.4 * dR)


def test_blocks_are_second_derivatives():
    rows, cols = PENALTY.line_blocks(*factors(SHAPE, 2, count=1))
    assert_allclose(rows, np.broadcast_to(0.6 * np.eye(2), (6, 2, 2)))
    assert_allclose(cols, np.broadcast_to(1.4 * np.eye(2), (5, 2, 2)))


def test_the_polynomial_is_that_of_the_curve():
    L0, R0, L1, R1, L2, _ = factors(SHAPE, 2, count=3)
    found = PENALTY.polynomial((L0, L1, L2), (R0, R1))
    assert found.shape == (7,)
    for t in (-0.7, 0.4, 1.3):
        value = PENALTY.value(L0 + t * L1 + t * t * L2, R0 + t * R1)
        assert np.polynomial.polynomial.polyval(t, found) == pytest.approx(value)


@every
def test_it_is_refused_where_points_stand_for_w_alone(name):
    geometry = VARIANTS[name](SHAPE, 2)
    assert geometry.has_factors == (name == "GH-euclidean" or geometry.symmetric)
    cost = rf.Custom(lambda L, R: (L @ R.T).sum() ** 2, geometry.shape)
    for penalised in (cost + PENALTY, cost + 0.1 * PENALTY, 2.0 * (PENALTY + cost)):
        if geometry.has_factors:
            rf.Problem(penalised, geometry)
        else:
            with pytest.raises(
                ValueError, match=r"no function of W.*FullRank\(metric='euclidean'\).*Nuclear"
            ):
                rf.Problem(penalised, geometry)


def test_derivatives_and_invariance_over_the_factors():
    """Nothing is divided out: every vector is horizontal, and rotations change no number."""
    problem = euclidean(plain() + PENALTY)
    geometry, x = problem.geometry, problem.geometry.random_point(3)
    assert rf.check_gradient(problem, x).ok
    assert rf.check_hessian(problem, x).ok
    here, O = problem.at(x), geometry.random_symmetry(1)
    there = problem.at(geometry.act(x, O))
    assert geometry.is_horizontal(x, here.gradient, 1e-14)
    xi = geometry.random_tangent(x, 4)
    assert there.value == pytest.approx(here.value, rel=1e-12)
    pairs = ((here.gradient, there.gradient), (here.hessian(xi), there.hessian(geometry.act(xi, O))))
    for one, two in pairs:
        for part, moved in zip(geometry.act(one, O), two, strict=True):
            assert_allclose(part, moved, atol=1e-12)


@pytest.mark.parametrize("metric", ["invariant", "preconditioned", "euclidean"])
def test_on_semidefinite_matrices_it_is_the_trace(metric):
    cost = rf.Completion.from_dense(np.eye(6) + 0.1) + PENALTY
    problem = rf.Problem(cost, rf.PositiveSemidefinite((6, 6), 2, metric=metric))
    x = problem.geometry.random_point(0)
    traced = rf.Problem(cost.terms[0][1] + rf.Nuclear(1.0), problem.geometry)
    assert problem.value(x) == pytest.approx(traced.value(x))
    assert_allclose(problem.at(x).gradient.Y, traced.at(x).gradient.Y, atol=1e-12)
    assert problem.geometry.is_horizontal(x, problem.at(x).gradient, 1e-10)
    assert rf.check_hessian(problem, seed=1).ok


@pytest.mark.parametrize(
    "solver", [rf.ConjugateGradient(), rf.TrustRegion(), rf.GradientDescent(), rf.Auto()]
)
def test_at_the_best_factors_it_is_a_nuclear_norm(solver):
    """2 √(λ_L λ_R) ‖W‖_*, with λ_L LᵀL = λ_R RᵀR."""
    full = rf.Completion.from_dense(TARGET)
    penalty = rf.FactorPenalty(0.02, 0.005)
    over_factors = rf.minimize(euclidean(full + penalty), solver, tolerance=0, max_iterations=3000)
    nuclear = full + rf.Nuclear(2 * 0.01)
    over_w = rf.minimize(rf.Problem.of(nuclear, 2), rf.TrustRegion(), tolerance=0)
    assert over_factors.value == pytest.approx(over_w.value, rel=1e-8)
    L, R = over_factors.factors
    assert_allclose(0.02 * L.T @ L, 0.005 * R.T @ R, atol=1e-5)


def with_ridge(left, right):
    return rf.Custom(lambda L, R: log_cosh(L @ R.T) + left * (L**2).sum() + right * (R**2).sum(), SHAPE)


def test_custom_costs_may_have_such_terms_over_the_factors():
    own, sum_ = with_ridge(0.3, 0.7), rf.Custom(lambda L, R: log_cosh(L @ R.T), SHAPE) + PENALTY
    problem = euclidean(own)
    assert rf.check_gradient(problem).ok
    assert rf.check_hessian(problem).ok
    values = [
        rf.minimize(euclidean(cost), s, tolerance=0).value for cost in (own, sum_) for s in ("tr", "auto")
    ]
    assert_allclose(values, values[0], rtol=1e-9)
    for x in (problem.geometry.random_point(0), problem.geometry.random_point(1)):
        assert_allclose(problem.at(x).gradient.G, euclidean(sum_).at(x).gradient.G, atol=1e-12)


def test_custom_costs_with_such_terms_are_refused_elsewhere():
    for cost in (with_ridge(0.3, 0.7), with_ridge(0.3, 0.7) + rf.Frobenius(1.0)):
        for geometry in (rf.FullRank(SHAPE, 2), rf.Polar(SHAPE, 2), rf.Embedded(SHAPE, 2)):
            problem = rf.Problem(cost, geometry)
            with pytest.raises(
                ValueError, match=r"depends on how W is factored.*FullRank\(metric='euclidean'\)"
            ):
                _ = problem.at(geometry.random_point(0)).value
    with pytest.raises(ValueError, match="depends on how W is factored"):
        with_ridge(0.3, 0.7).gradient_products(*factors(SHAPE, 2, count=1))(*factors(SHAPE, 1, count=1)[::-1])


def test_a_basis_of_the_factors_must_not_matter_anywhere():
    cost = rf.Custom(lambda L, R: log_cosh(L @ R.T) + 1e-2 * L[0, 0], SHAPE)
    with pytest.raises(ValueError, match=r"f\(L O, R O\) must be f\(L, R\) .* by \de-\d+ relative"):
        _ = euclidean(cost).at(euclidean(cost).geometry.random_point(0)).value


def test_what_is_known_of_sums():
    custom = rf.Custom(lambda L, R: (L @ R.T).sum(), SHAPE)
    assert [cost.factored for cost in (plain(), custom, PENALTY)] == [False, None, True]
    sums = (plain() + rf.Frobenius(1.0), plain() + custom, custom + PENALTY, 2.0 * PENALTY)
    assert [cost.factored for cost in sums] == [False, None, True, True]
    assert (plain() + PENALTY).quadratic


def test_tensors_stay_tensors():
    L, R = (torch.from_numpy(a) for a in factors(SHAPE, 2, count=1))
    found = (plain() + PENALTY).evaluate_factored(L, R)
    assert isinstance(found.f_L, torch.Tensor)
    assert isinstance(found.value, float)


def test_continuations_are_no_way_to_it():
    problem = euclidean(plain() + PENALTY)
    with pytest.raises(TypeError, match="other factors"):
        rf.RankContinuation().init(problem, problem.start())
    with pytest.raises(TypeError, match="no function of W"):
        rf.ReweightedContinuation().init(problem, problem.start())


@pytest.mark.parametrize("weights", [(-1.0, 0.0), (0.0, np.nan), (np.inf, 1.0)])
def test_weights_are_checked(weights):
    name = "left" if weights[0] != 0.0 else "right"
    with pytest.raises(ValueError, match=f"{name} must be finite and zero or more"):
        rf.FactorPenalty(*weights)
