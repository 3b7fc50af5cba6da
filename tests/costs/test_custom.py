"""Costs that users write: autodiff and given partials, on every geometry."""

import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import rankfold as rf
from costs.suite import (
    agrees_with_dense,
    close,
    derivatives_are_right_on,
    factors,
    gradient_products_are_right,
)
from geometry.variants import VARIANTS

SHAPE = 8, 6
C = np.random.default_rng(0).standard_normal(SHAPE)


def log_cosh(W):
    E = W - W.new_tensor(C)
    return (torch.nn.functional.softplus(2 * E) - E).sum()


class Cube(torch.autograd.Function):
    """W³ without a rule for forward mode, as an operation of one's own may be."""

    generate_vmap_rule = False

    @staticmethod
    def forward(W):
        return W**3

    @staticmethod
    def setup_context(context, inputs, output):
        context.save_for_backward(*inputs)

    @staticmethod
    def backward(context, grad):
        (W,) = context.saved_tensors
        return 3 * W**2 * grad


def cubes(W):
    return (Cube.apply(W) ** 2).sum()


def partials(L, R):
    E = L @ R.T - C
    S = np.tanh(E)
    return np.sum(np.logaddexp(0, 2 * E) - E), S @ R, S.T @ L


def derivative(L, R, dL, dR):
    S = np.tanh(L @ R.T - C)
    dS = (1 - S**2) * (dL @ R.T + L @ dR.T)
    return dS @ R + S @ dR, dS.T @ L + S.T @ dL


COSTS = {
    "torch": rf.Custom(lambda L, R: log_cosh(L @ R.T), SHAPE),
    "numpy": rf.Custom.from_partials(partials, SHAPE, derivative),
}


@pytest.mark.parametrize("name", COSTS)
def test_agrees_with_dense(name):
    agrees_with_dense(COSTS[name], log_cosh, rank=3)
    gradient_products_are_right(COSTS[name], log_cosh, rank=3)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", COSTS)
def test_on_every_geometry(name, variant):
    derivatives_are_right_on(variant, COSTS[name], rank=2, seed=1)


def test_falls_back_to_reverse_mode_twice():
    cost = rf.Custom(lambda L, R: cubes(L @ R.T), SHAPE)
    agrees_with_dense(cost, cubes, rank=2)
    assert not cost._derivative.__self__.forward
    assert COSTS["torch"]._derivative.__self__.forward


def test_other_errors_of_f_are_not_hidden():
    cost = rf.Custom(lambda L, R: (L @ R).sum(), SHAPE)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        cost.derivative(*factors(SHAPE, 2))


def test_differences_are_close_enough_to_minimise():
    cost = rf.Custom.from_partials(partials, SHAPE)
    arrays = factors(SHAPE, 2)
    for one, two in zip(cost.derivative(*arrays), derivative(*arrays), strict=True):
        close(one, two, 1e-8)
    for one in cost.derivative(*arrays[:2], 0 * arrays[2], 0 * arrays[3]):
        assert not one.any()
    values = [
        rf.minimize(rf.Problem(c, rf.Polar(SHAPE, 2)), rf.TrustRegion()).value
        for c in (cost, COSTS["numpy"], COSTS["torch"])
    ]
    assert_allclose(values, values[1], rtol=1e-10)


def test_results_come_back_in_kind():
    plain = factors(SHAPE, 2)
    expected = [*COSTS["torch"].evaluate(*plain[:2])[1:], *COSTS["torch"].derivative(*plain)]
    for xp in (torch, array_api_strict):
        for dtype in (xp.float64, xp.float32):
            arrays = [xp.asarray(a, dtype=dtype) for a in plain]
            found = COSTS["torch"].evaluate(*arrays[:2])
            assert type(found.value) is float
            for one, two in zip([*found[1:], *COSTS["torch"].derivative(*arrays)], expected, strict=True):
                assert type(one) is type(arrays[0])
                assert one.dtype == dtype
                assert_allclose(np.asarray(one), two, atol=1e-5)


def test_composes_and_is_minimised_with_tensors():
    cost = COSTS["torch"] + rf.Nuclear(0.5) + rf.Frobenius(0.1)
    geometry = rf.FullRank(SHAPE, 2)
    tensors = geometry.random_point(0, like=torch.zeros(1, dtype=torch.float64))
    results = [
        rf.minimize(rf.Problem(cost, geometry), rf.TrustRegion(), x0)
        for x0 in (tensors, geometry.random_point(0))
    ]
    assert isinstance(results[0].x.G, torch.Tensor)
    assert_allclose(results[0].value, results[1].value, rtol=1e-10)


def test_a_function_of_the_factors_is_refused_with_the_remedy():
    ridge = rf.Custom(lambda L, R: (L**2).sum() + (R**2).sum(), SHAPE)
    with pytest.raises(ValueError, match=r"not on W = L Rᵀ alone.*rankfold.Nuclear"):
        ridge.evaluate(*factors(SHAPE, 2, count=1))
    almost = rf.Custom(lambda L, R: log_cosh(L @ R.T) + 1e-3 * L[0, 0], SHAPE)
    with pytest.raises(ValueError, match="depends on how W is factored"):
        almost.evaluate(*factors(SHAPE, 2, count=1))


def test_partials_of_a_wrong_shape():
    cost = rf.Custom.from_partials(lambda L, R: (0.0, L.T, R), SHAPE)
    with pytest.raises(ValueError, match=r"partials must have the shapes of L and R, \(8, 2\) and \(6, 2\)"):
        cost.evaluate(*factors(SHAPE, 2, count=1))


def test_value_at_zero_and_a_start_without_gradient():
    assert_allclose(COSTS["torch"].value_at_zero, float(log_cosh(torch.zeros(SHAPE, dtype=torch.float64))))
    flat = rf.Custom(lambda L, R: ((L @ R.T) ** 4).sum(), SHAPE)
    U, s, V = flat.start(2)
    assert_allclose(U.T @ U, np.eye(2), atol=1e-12)
    assert (s > 0).all()
    assert V.shape == (6, 2)


def test_torch_is_imported_only_where_used():
    code = (
        "import sys, rankfold as rf; rf.Custom.from_partials(None, (2, 2)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
