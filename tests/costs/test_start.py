"""Where a run starts: leading directions, as many as asked for, and no further than the cost falls."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from dense import DenseCost
from rankfold.costs.start import FLOOR, downhill_start, filled_up_svd, shortened


@pytest.mark.parametrize("given", [1, 2])
def test_missing_directions_are_drawn_beside_those_there_are_with_tiny_values(given):
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((d, 2)))[0][:, :given] for d in (9, 6))
    s = np.array([5.0, 2.0])[:given]
    made, again, other = (filled_up_svd(U, s, V, 4, seed) for seed in (3, 3, 4))
    for X, found in ((U, made[0]), (V, made[2])):
        assert_array_equal(found[:, :given], X)
        assert_allclose(found.T @ found, np.eye(4), atol=1e-12)
    assert made[1].tolist() == [*s, *[5.0 * FLOOR] * (4 - given)]
    assert_array_equal(again[0], made[0])
    assert not np.allclose(other[0], made[0])


def test_what_is_there_is_no_less_than_tiny_and_never_more():
    U, V = np.eye(4)[:, :3], np.eye(5)[:, :3]
    found = filled_up_svd(U, np.array([2.0, 1.0, 0.0]), V, 3, 0)
    assert found[0] is U
    assert found[1].tolist() == [2.0, 1.0, 2.0 * FLOOR]
    for largest in (np.inf, 0.0):
        assert filled_up_svd(U, np.array([largest, 1.0, 0.0]), V, 3, 0)[1].tolist()[1:] == [1.0, FLOOR]


def test_a_start_is_halved_until_the_cost_is_lower_than_at_zero():
    cost = rf.Completion([0, 1], [0, 1], [1.0, 300.0], (2, 2), loss="poisson")
    s = np.array([800.0, 400.0])
    found = shortened(cost, np.eye(2), s, np.eye(2))
    halvings = [s / 2.0**k for k in range(12)]
    with np.errstate(over="ignore", invalid="ignore"):
        lower = [cost.value(np.diag(each), np.eye(2)) < cost.value_at_zero for each in halvings]
    assert 0 < lower.index(True) < 11
    assert_array_equal(found, halvings[lower.index(True)])


def test_a_start_of_a_square_is_as_long_as_its_model_says():
    cost = rf.Completion([0, 1], [0, 1], [1.0, 3.0], (2, 2))
    s = np.array([800.0, 400.0])
    assert shortened(cost, np.eye(2), s, np.eye(2)) is s


def test_where_a_cost_is_flat_at_zero_its_start_is_tiny():
    """No direction leads down, and no curvature says how far."""
    U, s, V = downhill_start(0.0 * DenseCost((9, 7)), 2, seed=0)
    assert s.max() <= FLOOR
    for X in (U, V):
        assert_allclose(X.T @ X, np.eye(2), atol=1e-12)


class Linear(rf.Cost):
    """⟨C, W⟩, of no curvature."""

    nonnegative, value_at_zero = False, 0.0

    def __init__(self, C):
        self.C, self.shape = C, C.shape

    def evaluate(self, L, R):
        return float(np.sum(self.C * (L @ R.T))), self.C @ R, self.C.T @ L

    def derivative(self, L, R, dL, dR):
        return self.C @ dR, self.C.T @ dL


def planted(shape, values, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, len(values))))[0] for d in shape)
    return U, np.array(values), V


@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
def test_a_step_down_goes_to_the_minimum_of_the_model_along_it(shape, scale):
    """The best matrix of the rank where all entries are seen, whatever the cost is multiplied with."""
    U, s, V = planted(shape, [7.0, 4.0, 1e-3])
    W = (U * s) @ V.T
    found = downhill_start(scale * rf.Completion.from_dense(W), 2, seed=0)
    assert_allclose(found[1], s[:2], rtol=1e-7)
    assert_allclose((found[0] * found[1]) @ found[2].T, (U[:, :2] * s[:2]) @ V[:, :2].T, atol=1e-6)
    assert_array_equal(downhill_start(scale * rf.Completion.from_dense(W), 2, seed=0)[0], found[0])


def test_without_curvature_a_step_down_is_as_long_as_the_gradient():
    U, s, V = planted((7, 5), [0.5, 0.2, 1e-6])
    found = downhill_start(Linear((U * s) @ V.T), 2, seed=3)
    assert_allclose(found[1], s[:2], rtol=1e-7)
    assert_allclose((found[0] * found[1]) @ found[2].T, -(U[:, :2] * s[:2]) @ V[:, :2].T, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_missing_direction_is_filled_up_in_the_precision_of_the_others(dtype):
    U, s, V = (A.astype(dtype) for A in planted((5, 4), [0.25, 0.125]))
    found = filled_up_svd(U, s, V, 3, seed=1)
    assert all(A.dtype == dtype for A in found)
    assert_allclose(found[1], [0.25, 0.125, 0.25 * FLOOR], rtol=1e-6)
    for X in (found[0], found[2]):
        assert_allclose(X.T @ X, np.eye(3), atol=10 * np.finfo(dtype).eps)
