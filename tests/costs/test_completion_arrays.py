"""Completion on other array libraries and in float32."""

import array_api_strict
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from rankfold.costs import Completion

rng = np.random.default_rng(0)
WHERE = rng.choice(40 * 30, 500, replace=False)
TRIPLES = WHERE // 30, WHERE % 30, rng.standard_normal(500)
FACTORS = [rng.standard_normal((d, 3)) for d in (40, 30, 40, 30)]
COST = Completion(*TRIPLES, (40, 30))


@pytest.mark.parametrize("xp", [torch, array_api_strict], ids=["torch", "strict"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results_come_back_in_kind(xp, dtype):
    L, R, dL, dR = (xp.asarray(factor.astype(dtype)) for factor in FACTORS)
    value, *arrays = COST.evaluate(L, R)
    arrays += COST.derivative(L, R, dL, dR)
    assert type(value) is float
    assert all(type(array) is type(L) and array.dtype == L.dtype for array in arrays)
    plain = [factor.astype(dtype) for factor in FACTORS]
    expected = [*COST.evaluate(*plain[:2])[1:], *COST.derivative(*plain)]
    for one, two in zip(arrays, expected, strict=True):
        assert_array_equal(np.asarray(one), two)
    assert_array_equal(COST.polynomial([L, dL], [R]), COST.polynomial([plain[0], plain[2]], [plain[1]]))


def test_float32_in_float32_out():
    L, R, dL, dR = (factor.astype(np.float32) for factor in FACTORS)
    single = COST.astype(np.float32)
    assert single.observed.by_row.across is COST.observed.by_row.across
    assert single.observed.dtype == np.float32
    for cost in (COST, single, Completion(*TRIPLES[:2], TRIPLES[2].astype(np.float32), (40, 30))):
        result = cost.evaluate(L, R)
        assert result.f_L.dtype == result.f_R.dtype == np.float32
        assert_allclose(result.value, COST.value(*FACTORS[:2]), rtol=1e-6)
        assert_allclose(result.f_L, COST.evaluate(*FACTORS[:2]).f_L, atol=1e-6)
        assert cost.derivative(L, R, dL, dR)[0].dtype == np.float32
        assert cost.polynomial([L, dL], [R, dR]).dtype == np.float64
    assert all(part.dtype == np.float32 for part in single.start(2))


def test_views_and_integers():
    L, R, *_ = FACTORS
    expected = COST.evaluate(L, R)
    wide = np.asfortranarray(np.hstack([L, L]))
    assert_array_equal(COST.evaluate(wide[:, :3], R).f_R, expected.f_R)
    assert COST.evaluate(np.ones((40, 1), int), R[:, :1]).f_L.dtype == np.float64
    assert COST.evaluate(L.astype(np.float32), R).f_L.dtype == np.float64


def test_torch_tensors_that_require_a_gradient():
    L, R = (torch.tensor(factor, requires_grad=True) for factor in FACTORS[:2])
    assert not COST.evaluate(L, R).f_L.requires_grad


def test_tensor_on_a_device():
    with pytest.raises(TypeError, match=r"on the CPU; got a tensor on meta"):
        COST.evaluate(torch.ones((40, 1), device="meta"), torch.ones((30, 1), device="meta"))


def test_nan_in_a_factor_is_not_hidden():
    L, R, *_ = FACTORS
    L = L.copy()
    L[TRIPLES[0][0], 0] = np.nan
    assert np.isnan(COST.evaluate(L, R).value)
