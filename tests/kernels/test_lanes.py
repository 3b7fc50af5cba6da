"""Eight rows side by side, and what is done with their lanes, next to NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankfold.kernels.compiling import compiled
from rankfold.kernels.lanes import (
    LANES,
    add_multiples,
    load_sums,
    store_sums,
    turn,
    turn_back,
    vectors,
    weigh,
)
from rankfold.kernels.registers import load

RANKS = [1, 7, 16]  # vectors of 8, 4, 2 and 1 numbers, and of several of them


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("rank", RANKS)
def test_rows_are_turned_and_turned_back(rank, dtype):
    def kernel(A, X, back):
        turn(A, np.uint64(3), rank, X)
        turn_back(X, back, np.uint64(1), rank)

    A = np.random.default_rng(rank).standard_normal((14, rank)).astype(dtype)
    X, back = np.zeros((rank, LANES)), np.zeros((10, rank))
    compiled(kernel, cache=False)(A, X, back)
    assert_array_equal(X, A[3:11].T)
    assert_array_equal(back, np.pad(A[3:11], ((1, 1), (0, 0))))


@pytest.mark.parametrize("rank", RANKS)
def test_a_triangle_weighs_each_lane(rank):
    """As Σ u_k u_kᵀ x, with the u_k of that lane, from a row of the array on."""

    def kernel(U, X, Y):
        weigh(U, np.uint64(5), X, Y, rank)

    rng = np.random.default_rng(rank)
    U = rng.standard_normal((5 + rank * (rank + 1) // 2, LANES)).astype("f4")
    X, Y = rng.standard_normal((rank, LANES)), np.full((rank, LANES), np.nan)
    compiled(kernel, cache=False)(U, X, Y)
    for lane in range(LANES):
        rows = np.zeros((rank, rank))
        rows[np.tril_indices(rank)] = U[5:, lane]
        assert_allclose(Y[:, lane], rows.T @ rows @ X[:, lane], rtol=1e-12, atol=1e-12)


def test_multiples_of_a_vector_are_added_by_a_part_of_a_row():
    def kernel(M, X, Y):
        q = add_multiples(
            load_sums(Y, np.uint64(1), 3), M, np.uint64(2), np.uint64(1), 5, load(X, np.uint64(4), LANES)
        )
        store_sums(Y, np.uint64(1), q)

    rng = np.random.default_rng(0)
    M, X, Y = rng.standard_normal((4, 5)), rng.standard_normal((5, LANES)), rng.standard_normal((6, LANES))
    expected = Y.copy()
    expected[1:4] += M[2, 1:4, None] * X[4]
    compiled(kernel, cache=False)(M, X, Y)
    assert_allclose(Y, expected, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_vectors_lie_on_one_cache_line_each(dtype):
    def kernel(like, count):
        room = vectors(count, like)
        for k in range(count):
            room[k] = k
        return room

    filled = compiled(kernel, cache=False)
    for count in (1, 2, 5, 30):
        room = filled(np.zeros(1, dtype), np.uint64(count))
        assert (room.shape, room.dtype) == ((count, LANES), np.dtype(dtype))
        assert room.ctypes.data % (LANES * room.itemsize) == 0
        assert_array_equal(room[:, -1], np.arange(count))
