"""Completion with offsets: against least squares in all unknowns, and on every geometry."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import rankfold as rf
from costs.suite import agrees_with_dense, derivatives_are_right_on, factors, polynomial_is_exact
from geometry.variants import VARIANTS
from rankfold.costs import offset_system as offsets

SHAPE = 9, 7
rng = np.random.default_rng(0)
WHERE = rng.choice(63, 40, replace=False)
ROWS, COLS, VALUES, WEIGHTS = WHERE // 7, WHERE % 7, 3 + rng.standard_normal(40), rng.uniform(0.5, 2, 40)
OPTIONS = {
    "plain": {},
    "ridges": {"mean": 2.0, "rows": 0.7, "cols": 3.0},
    "by counts": {"rows": 0.1, "cols": 0.2, "by_counts": True},
}


def dense(weights, mean=0.0, rows=5.0, cols=5.0, by_counts=False):
    """The same cost with the offsets from an explicit least-squares solution, differentiable in W."""
    w = np.ones(40) if weights is None else weights
    design = np.zeros((40, 17))
    design[np.arange(40), ROWS] = design[np.arange(40), 9 + COLS] = design[:, 16] = 1
    scales = design[:, :16].T @ w if by_counts else np.ones(16)
    ridges = np.append(scales * np.repeat([rows, cols], SHAPE), mean)
    A, rho, w = torch.from_numpy(design), torch.from_numpy(ridges), torch.from_numpy(w)
    H = A.T @ (w[:, None] * A) + torch.diag(rho)

    def f(W):
        e = torch.from_numpy(VALUES) - W[ROWS, COLS]
        beta = torch.linalg.solve(H, A.T @ (w * e))
        return ((w * (e - A @ beta) ** 2).sum() + (rho * beta**2).sum()) / 40

    return f


def build(options="plain", weights=None, shape=SHAPE):
    rows, cols = (ROWS, COLS) if shape == SHAPE else (COLS, ROWS)
    return rf.WithOffsets(rf.Completion(rows, cols, VALUES, shape, weights), **OPTIONS[options])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("options", OPTIONS)
def test_agrees_with_dense(options, weights):
    cost = build(options, weights)
    agrees_with_dense(cost, dense(weights, **OPTIONS[options]), rank=2)
    polynomial_is_exact(cost, rank=2)
    zero = torch.zeros(SHAPE, dtype=torch.float64)
    assert_allclose(cost.value_at_zero, float(dense(weights, **OPTIONS[options])(zero)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_on_every_geometry(variant):
    derivatives_are_right_on(variant, build("ridges"), rank=2)


def test_wide_matrices_and_conjugate_gradients(monkeypatch):
    L, R = factors(SHAPE, 2, count=1)
    tall = build().evaluate(L, R)
    wide = build(shape=SHAPE[::-1]).evaluate(R, L)
    monkeypatch.setattr(offsets, "MAX_FACTORED", 0)
    iterated = build()
    assert iterated._system.factor is None
    for value, f_L, f_R in ((wide.value, wide.f_R, wide.f_L), iterated.evaluate(L, R)):
        assert_allclose(value, tall.value, rtol=1e-11)
        assert_allclose(f_L, tall.f_L, atol=1e-11)
        assert_allclose(f_R, tall.f_R, atol=1e-11)
    polynomial_is_exact(iterated, rank=2)


def test_recovers_planted_offsets():
    rng = np.random.default_rng(1)
    d1, d2 = 60, 50
    G, H, b, c = (rng.standard_normal(s) for s in ((d1, 1), (d2, 1), d1, d2))
    b, c, G, H = b - b.mean(), c - c.mean(), G - G.mean(), H - H.mean()
    full = G @ H.T + b[:, None] + c + 3.0
    where = rng.choice(d1 * d2, 2000, replace=False)
    plain = rf.Completion(where // d2, where % d2, full.ravel()[where], (d1, d2))
    cost = rf.WithOffsets(plain, rows=1e-7, cols=1e-7)
    geometry = rf.FullRank(cost.shape, 1)
    result = rf.minimize(rf.Problem(cost, geometry), rf.TrustRegion(), tolerance=0.0)
    L, R = result.factors
    mean, rows, cols = cost.offsets(L, R)
    assert_allclose(L @ R.T + mean + rows[:, None] + cols, full, atol=1e-4)


def test_start_is_downhill_and_float32_stays():
    cost = build()
    U, s, V = cost.start(2)
    assert cost.value(0.3 * U * s, V) < cost.value_at_zero
    L, R, dL, dR = (a.astype(np.float32) for a in factors(SHAPE, 2))
    assert cost.evaluate(L, R).f_L.dtype == np.float32
    assert cost.derivative(L, R, dL, dR)[1].dtype == np.float32
    tensors = [torch.from_numpy(a) for a in (L, R)]
    assert isinstance(cost.evaluate(*tensors).f_R, torch.Tensor)


def test_errors():
    with pytest.raises(ValueError, match="square loss only"):
        rf.WithOffsets(rf.Completion(ROWS, COLS, VALUES, SHAPE, loss="huber"))
    with pytest.raises(ValueError, match=r"ridges must be finite.*got 0.0, 0.0 and 5.0"):
        rf.WithOffsets(rf.Completion(ROWS, COLS, VALUES, SHAPE), rows=0.0)
