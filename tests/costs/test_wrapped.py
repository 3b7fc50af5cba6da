"""Costs and metrics made of another cost: a ridge on its factors, the metric of its data."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from costs.losses import FORMULAS
from costs.suite import all_close, close, factors
from rankfold.costs.data_metric import SHARE, DataMetric
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.costs.without_lines import WithoutLines
from rankfold.linalg.lines import diagonal_sums

SHAPE = 6, 5
rng = np.random.default_rng(0)
WHERE = np.sort(rng.choice(30, 19, replace=False))
ROWS, COLS, Y = WHERE // 5, WHERE % 5, rng.integers(0, 4, 19).astype(float)
WEIGHTS, RIDGE = rng.uniform(0.5, 2, 19), np.array([0.3, 0.7])


def completion(loss="square", weights=WEIGHTS):
    return rf.Completion(ROWS, COLS, Y, SHAPE, weights, loss)


def ridged(loss="square"):
    y, v, w = (torch.from_numpy(a) for a in (Y, WEIGHTS, RIDGE))

    def value(L, R):
        W = (L @ R.T)[ROWS, COLS]
        return (
            (v * FORMULAS[loss](W, y)).mean() + (w * (L**2).sum(0)).sum() / 2 + (w * (R**2).sum(0)).sum() / 2
        )

    return FactorRidge(completion(loss), RIDGE), value


@pytest.mark.parametrize("loss", ["square", "poisson"])
def test_a_ridge_on_the_factors(loss):
    (cost, dense), points = ridged(loss), factors(SHAPE, 2)
    L, R, *along = (torch.from_numpy(a).requires_grad_() for a in points)
    value = dense(L, R)
    partials = torch.autograd.grad(value, (L, R), create_graph=True)
    change = torch.autograd.grad(sum((p * d).sum() for p, d in zip(partials, along, strict=True)), (L, R))
    close(cost.evaluate(*points[:2]).value, value.item())
    close(cost.value(*points[:2]), value.item())
    all_close(cost.evaluate(*points[:2])[1:], [p.detach().numpy() for p in partials])
    all_close(cost.derivative(*points), [d.numpy() for d in change])
    model = completion(loss).gauss_newton(*points)
    all_close(cost.gauss_newton(*points), [m + RIDGE * d for m, d in zip(model, points[2:], strict=True)])
    for found, plain in zip(
        cost.line_blocks(*points[:2]), completion(loss).line_blocks(*points[:2]), strict=True
    ):
        close(found, plain + np.diag(RIDGE))
    close(cost.ridge(*points[:2]), RIDGE @ (points[0] ** 2).sum(0) / 2 + RIDGE @ (points[1] ** 2).sum(0) / 2)


@pytest.mark.parametrize("terms", [(2, 2), (2, 1), (1, 2)])
def test_a_ridge_along_a_curve(terms):
    (cost, dense), drawn = ridged(), factors(SHAPE, 2)
    Ls, Rs = drawn[::2][: terms[0]], drawn[1::2][: terms[1]]
    found = cost.polynomial(Ls, Rs)
    for t in (-0.5, 0.0, 0.9):
        L, R = (sum(torch.from_numpy(A) * t**k for k, A in enumerate(As)) for As in (Ls, Rs))
        close(np.polynomial.polynomial.polyval(t, found), dense(L, R).item())


@pytest.mark.parametrize(
    ("loss", "quadratic", "nonnegative"), [("square", True, True), ("poisson", False, False)]
)
def test_what_a_wrapped_cost_is_known_for_is_what_the_cost_is(loss, quadratic, nonnegative):
    cost = completion(loss)
    for wrapped in (FactorRidge(cost, RIDGE), WithoutLines(cost, np.array([1]), np.array([2]))):
        assert wrapped.shape == SHAPE
        assert (wrapped.quadratic, wrapped.nonnegative) == (quadratic, nonnegative)
        assert wrapped.has_line_blocks
        assert wrapped.places is None
    ridge = FactorRidge(cost, RIDGE)
    assert ridge.fingerprint() == cost.fingerprint()
    assert ridge.value_at_zero == cost.value_at_zero
    for one, two in zip(ridge.start(2, seed=4), cost.start(2, seed=4), strict=True):
        assert_array_equal(one, two)


def balanced(L, R):
    U, s, Vt = np.linalg.svd(L @ R.T)
    r = L.shape[1]
    return U[:, :r] * np.sqrt(s[:r]), Vt[:r].T * np.sqrt(s[:r]), s[:r]


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_metric_of_the_data_is_solved_line_by_line(symmetric):
    """Blocks at balanced factors in units of their average, and a share of the other factor's square."""
    if symmetric:
        cost, L = (
            rf.Distances(np.stack([ROWS, COLS], 1)[ROWS != COLS], Y[ROWS != COLS], size=6),
            factors((6, 6), 2)[0],
        )
        R = L
    else:
        cost, (L, R) = completion(), factors(SHAPE, 2, count=1)
    x, y = factors((len(L), len(R)), 2, seed=1, count=1)
    L0, R0, s = balanced(L, R)
    rows, cols = cost.line_blocks(L0, R0)
    if symmetric:
        rows = cols = (rows + cols) / 2
    average = np.mean([np.mean(np.einsum("ikk->ik", blocks), axis=0) / s for blocks in (rows, cols)])
    metric = DataMetric.formed(cost, L, R, symmetric)
    assert_allclose(metric.unit, 1 / average, rtol=1e-6)
    found = metric.solve(L, R, x, y)
    for change, f, blocks, base, Z in zip(found, (x, y), (rows, cols), (R0, L0), (R, L), strict=True):
        K = np.linalg.pinv(base) @ Z
        for i, block in enumerate(blocks):
            seen = K.T @ (block / average + SHARE * np.diag(s)) @ K
            assert_allclose(
                change[i], np.linalg.solve(seen, f[i]), rtol=1e-4, atol=1e-5 * np.abs(change).max()
            )
    assert_allclose(metric.turned(L, R), 0.0, atol=1e-10)
    assert_array_equal(metric.scales, metric.rows.roots)


def test_how_far_factors_have_turned_is_that_of_the_side_that_has_more():
    L, R = factors(SHAPE, 2, count=1)
    metric = DataMetric.formed(completion(), L, R)
    Q = np.linalg.qr(np.hstack([L, rng.standard_normal((6, 2))]))[0]
    for angle in (0.3, 1.2):
        turned = Q[:, :2] @ np.diag([1.0, np.cos(angle)]) + Q[:, 2:] @ np.diag([0.0, np.sin(angle)])
        close(metric.turned(turned @ np.array([[2.0, 1], [0, 3]]), R), np.sin(angle) ** 2 / 2, 1e-6)


def test_where_a_cost_has_no_curvature_there_is_no_metric():
    L, R = factors(SHAPE, 2, count=1)
    assert DataMetric.formed(completion(weights=np.zeros(19)), L, R) is None
    blocks = completion().line_blocks(L, R)
    assert_allclose(diagonal_sums(blocks.rows), np.einsum("ikk->k", blocks.rows))
