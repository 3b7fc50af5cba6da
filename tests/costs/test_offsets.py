"""Completion with offsets: what the suite of every cost does not ask."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from costs.suite import factors, polynomial_is_exact
from rankfold.costs import offset_system as offsets
from rankfold.costs.offsets import GivenOffsets

SHAPE = 9, 7
rng = np.random.default_rng(0)
WHERE = rng.choice(63, 40, replace=False)
ROWS, COLS, VALUES = WHERE // 7, WHERE % 7, 3 + rng.standard_normal(40)


WEIGHTS = rng.uniform(0.5, 2.0, 40)


def build(shape=SHAPE, weights=None, **ridges):
    rows, cols = (ROWS, COLS) if shape == SHAPE else (COLS, ROWS)
    return rf.WithOffsets(rf.Completion(rows, cols, VALUES, shape, weights), **ridges)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize(
    "ridges",
    [
        {},
        {"mean": None, "rows": 2.0, "cols": 0.0},
        {"mean": None, "rows": None, "cols": 0.0},
        {"mean": None, "rows": 0.0, "cols": None},
        {"mean": 0.0, "rows": None, "cols": None},
        {"mean": 1.0, "rows": None, "cols": 0.0},
    ],
)
def test_wide_matrices_and_conjugate_gradients(ridges, weights, monkeypatch):
    L, R = factors(SHAPE, 2, count=1)
    cost = build(weights=weights, **ridges)
    tall = cost.evaluate(L, R)
    transposed = {{"rows": "cols", "cols": "rows"}.get(name, name): ridge for name, ridge in ridges.items()}
    turned = build(SHAPE[::-1], weights, **transposed)
    wide = turned.evaluate(R, L)
    monkeypatch.setattr(offsets, "MAX_FACTORED", 0)
    iterated = build(weights=weights, **ridges)
    assert iterated._system.factor is None
    assert [len(each._system.K) for each in (cost, turned, iterated)] == [8] * 3  # of the shorter side, and μ
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


def test_errors():
    with pytest.raises(ValueError, match="square loss only"):
        rf.WithOffsets(rf.Completion(ROWS, COLS, VALUES, SHAPE, loss="huber"))
    for wrong in ({"rows": 0.0}, {"rows": -1.0}, {"cols": np.inf}, dict.fromkeys(("mean", "rows", "cols"))):
        given = {"mean": 0.0, "rows": 5.0, "cols": 5.0, **wrong}
        words = ", ".join(f"{name}={given[name]}" for name in ("mean", "rows"))
        with pytest.raises(ValueError, match=rf"at most one zero; got {words} and cols={given['cols']}"):
            build(**wrong)
    with pytest.raises(ValueError, match="one offset for each of 9 rows and 7 columns"):
        GivenOffsets(rf.Completion(ROWS, COLS, VALUES, SHAPE), np.zeros(7), np.zeros(9))


def test_an_offset_that_is_off_is_zero_and_a_free_one_is_the_mean_of_its_entries():
    zero = np.zeros((9, 1)), np.zeros((7, 1))
    mean, rows, cols = build(mean=None, rows=None, cols=0.0).offsets(*zero)
    assert mean == 0
    assert not rows.any()
    assert_allclose(cols, [VALUES[j == COLS].mean() for j in range(7)], rtol=1e-12)
    assert_allclose(build(mean=0.0, rows=None, cols=None).offsets(*zero).mean, VALUES.mean(), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:.*no observed entry")
def test_a_free_offset_without_entries_is_zero(monkeypatch):
    long, short, values = [0, 0, 2], [0, 1, 0], [1.0, 2.0, 4.0]
    tall, wide = rf.Completion(long, short, values, (4, 2)), rf.Completion(short, long, values, (2, 4))
    square = rf.Completion(short, long, values, (4, 4))  # its columns are what is not eliminated
    for factored in (4096, 0):
        monkeypatch.setattr(offsets, "MAX_FACTORED", factored)
        for cost, side in ((tall, "rows"), (wide, "cols"), (square, "cols")):
            ridges = {"mean": None, "rows": None, "cols": None, side: 0.0}
            found = rf.WithOffsets(cost, **ridges).offsets(*(np.zeros((d, 1)) for d in cost.shape))
            assert_allclose(getattr(found, side), [1.5, 0, 4, 0], atol=1e-12)


def test_weighted_values_of_single_precision_are_multiplied_in_double():
    rng = np.random.default_rng(0)
    y, w = (rng.uniform(1, 2, 12).astype(np.float32) for _ in range(2))
    cost = rf.Completion(*np.indices((4, 3)).reshape(2, -1), y, (4, 3), w)
    weights, values = offsets._on_pattern(cost.observed)
    V = rng.standard_normal((3, 1))
    for S, numbers in ((weights, w.astype(float)), (values, w.astype(float) * y.astype(float))):
        np.testing.assert_allclose(S @ V, numbers.reshape(4, 3) @ V, rtol=1e-14)
