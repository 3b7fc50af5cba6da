"""Costs that users write: what the suite of every cost does not ask."""

import subprocess
import sys

import array_api_strict
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import rankfold as rf
from costs.catalogue import SHAPE, TARGET, cubes, log_cosh, partials, partials_change
from costs.suite import close, factors

TORCH = rf.Custom(lambda L, R: log_cosh(L @ R.T), SHAPE)
GIVEN = rf.Custom.from_partials(partials, SHAPE, partials_change)


def test_falls_back_to_reverse_mode_twice():
    for cost, forward in ((rf.Custom(lambda L, R: cubes(L @ R.T), SHAPE), False), (TORCH, True)):
        cost.derivative(*factors(SHAPE, 2))
        assert cost._derivative.__self__.forward == forward


def test_other_errors_of_f_are_not_hidden():
    cost = rf.Custom(lambda L, R: (L @ R).sum(), SHAPE)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        cost.derivative(*factors(SHAPE, 2))


def test_a_function_of_numpy_is_answered_with_what_to_write():
    cost = rf.Custom(lambda L, R: np.sum((L @ R.T) ** 2), SHAPE)
    with pytest.raises(TypeError) as caught:
        cost.evaluate(*factors(SHAPE, 2)[:2])
    assert any("write it with functions of torch" in note for note in caught.value.__notes__)


def test_without_torch_the_extra_is_named_before_any_work(monkeypatch):
    monkeypatch.setattr("rankfold.costs.custom.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rankfold\[torch\]', or .*from_partials"):
        rf.Custom(lambda L, R: (L @ R.T).sum(), SHAPE)
    assert rf.Custom.from_partials(partials, SHAPE).shape == SHAPE


def test_differences_are_close_enough_to_minimise():
    cost = rf.Custom.from_partials(partials, SHAPE)
    arrays = factors(SHAPE, 2)
    for one, two in zip(cost.derivative(*arrays), partials_change(*arrays), strict=True):
        close(one, two, 1e-8)
    for one in cost.derivative(*arrays[:2], 0 * arrays[2], 0 * arrays[3]):
        assert not one.any()
    values = [
        rf.minimize(rf.Problem(c, rf.Polar(SHAPE, 2)), rf.TrustRegion()).value for c in (cost, GIVEN, TORCH)
    ]
    assert_allclose(values, values[1], rtol=1e-10)


@pytest.mark.parametrize(("scale", "least"), [(1e3, 0.0), (0.0, 1e-8)])
def test_differences_are_taken_in_proportion_to_the_point(scale, least):
    arrays, asked = factors(SHAPE, 2), []
    point = [scale * A for A in arrays[:2]]

    def recorded(L, R):
        asked.append(np.vstack([L - point[0], R - point[1]]))
        return 0.0, L, R

    found = rf.Custom.from_partials(recorded, SHAPE).derivative(*point, *arrays[2:])
    size = max(np.linalg.norm(np.vstack(point)), least)
    assert_allclose([np.linalg.norm(step) for step in asked], 2.0 ** (-52 / 3) * size, rtol=1e-6)
    assert_allclose(asked[0], -asked[1], atol=1e-9 * size)
    for one, two in zip(found, arrays[2:], strict=True):
        assert_allclose(one, two, rtol=1e-6, atol=1e-9)


def test_rotations_must_not_matter_where_factors_do():
    def partials(L, R):
        weights = np.array([1.0, 4.0])
        return float(np.sum(weights * L * L)), 2 * weights * L, 0 * R

    L, R = factors(SHAPE, 2)[:2]
    with pytest.raises(ValueError, match="depends on the basis of L and R"):
        rf.Custom.from_partials(partials, SHAPE).evaluate_factored(L, R)
    ridge = rf.Custom.from_partials(lambda L, R: (float(np.sum(L * L)), 2 * L, 0 * R), SHAPE)
    assert ridge.evaluate_factored(L, R).value == np.sum(L * L)


def test_arrays_of_another_library_come_back():
    arrays = [array_api_strict.asarray(a) for a in factors(SHAPE, 2)]
    for one in (*TORCH.evaluate(*arrays[:2])[1:], *TORCH.derivative(*arrays)):
        assert type(one) is type(arrays[0])


def test_the_value_at_zero_is_that_of_the_arrays_asked_for():
    """Not of those evaluated last: f tells the dtype that it is given."""
    for like, bits in ((None, 64), (torch.zeros(1), 32), (np.zeros(1, np.float32), 32)):
        cost = rf.Custom(lambda L, R: (L @ R.T).sum() * 0 + L.element_size() * 8, SHAPE, like)
        for dtype in (np.float64, np.float32):
            cost.evaluate(*(a.astype(dtype) for a in factors(SHAPE, 2, count=1)))
            assert cost.value_at_zero == bits


def test_data_elsewhere_are_named_as_the_cause():
    data = torch.zeros(SHAPE, device="meta", dtype=torch.float64)
    cost = rf.Custom(lambda L, R: ((L @ R.T - data) ** 2).sum(), SHAPE)
    with pytest.raises(RuntimeError) as caught:
        _ = cost.value_at_zero
    assert any("give like=data" in note for note in caught.value.__notes__)


def test_composes_and_is_minimised_with_tensors():
    cost = TORCH + rf.Nuclear(0.5) + rf.Frobenius(0.1)
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
    with pytest.raises(ValueError, match=r"partials must have the shapes of L and R, \(6, 2\) and \(5, 2\)"):
        cost.evaluate(*factors(SHAPE, 2, count=1))


def test_value_at_zero_and_a_start_without_gradient():
    assert_allclose(TORCH.value_at_zero, np.log(2 * np.cosh(TARGET)).sum())
    flat = rf.Custom(lambda L, R: ((L @ R.T) ** 4).sum(), SHAPE)
    U, s, V = flat.start(2)
    assert_allclose(U.T @ U, np.eye(2), atol=1e-12)
    assert (s > 0).all()
    assert V.shape == (5, 2)


def test_torch_is_imported_only_where_used():
    code = (
        "import sys, rankfold as rf; rf.Custom.from_partials(None, (2, 2)); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
