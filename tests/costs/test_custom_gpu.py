"""Custom costs on a GPU, where there is one: the numbers of the CPU, and nothing leaves the device."""

import pytest
import torch
from numpy.testing import assert_allclose

import rankfold as rf
from costs.catalogue import Cube
from geometry.variants import VARIANTS

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
SHAPE = 40, 30


def smooth(L, R):
    """Log-cosh of the distance to a matrix of rank 3."""
    row, column = (torch.arange(d, dtype=L.dtype, device=L.device)[:, None] for d in SHAPE)
    E = L @ R.T - torch.cos(row @ torch.ones_like(column).T * 0.3 + column.T * 0.2)
    return (torch.nn.functional.softplus(2 * E) - E).mean()


def on(device, variant):
    like = torch.zeros(1, dtype=torch.float64, device=device)
    problem = VARIANTS[variant].problem(rf.Custom(smooth, SHAPE, like=like), 3)
    return problem, problem.geometry.random_point(0, like=like)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_same_numbers_on_both(variant):
    problem, x = on("cpu", variant)
    xi = problem.geometry.random_tangent(x, 1)
    results = []
    for device in ("cpu", "cuda"):
        there, eta = (type(z)(*(part.to(device) for part in z)) for z in (x, xi))
        here = problem.at(there)
        found = (*here.gradient, *here.hessian(eta))
        assert all(part.device.type == device for part in found)
        results.append([part.cpu() for part in found])
    for one, two in zip(*results, strict=True):
        assert_allclose(one, two, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("solver", ["cg", rf.TrustRegion()], ids=["cg", "trust region"])
def test_minimised_there(variant, solver):
    problem, x0 = on("cuda", variant)
    result = rf.minimize(problem, solver, x0, max_iterations=60)
    assert all(part.device.type == "cuda" for part in result.x)
    assert result.value < 0.9 * problem.at(x0).value


def test_double_backward_there():
    cost = rf.Custom(lambda L, R: (Cube.apply(L @ R.T) ** 2).mean(), SHAPE)
    plain = [torch.randn(d, 2, dtype=torch.float64) for d in SHAPE * 2]
    there = cost.derivative(*(factor.cuda() for factor in plain))
    for one, two in zip(there, cost.derivative(*plain), strict=True):
        assert_allclose(one.cpu(), two, rtol=1e-9, atol=1e-10)
