"""Sums over the numbers of rows in registers, several at once, and which rows may be loaded."""

import numpy as np
import pytest
from numba import types
from numpy.testing import assert_allclose

from rankfold.kernels import registers
from rankfold.kernels.compiling import compiled
from rankfold.kernels.registers import held, lane, load, load_four, several, totals


@pytest.mark.parametrize(
    ("rank", "dtype"), [(1, "f8"), (2, "f8"), (7, "f8"), (8, "f8"), (21, "f8"), (3, "f4"), (23, "f4")]
)
def test_rows_are_summed_several_at_a_time(rank, dtype):
    def kernel(A, found):
        a, b, c, d = (load(A, np.uint64(0), rank), load(A, np.uint64(1), rank),
                      load(A, np.uint64(2), rank), load(A, np.uint64(3), rank))  # fmt: skip
        four = totals(a, b, c, d)
        found[0], found[1], found[2], found[3] = lane(four, 0), lane(four, 1), lane(four, 2), lane(four, 3)

    A, found = np.random.default_rng(rank).standard_normal((4, rank)).astype(dtype), np.zeros(4)
    compiled(kernel, cache=False)(A, found)
    sums = A.astype(float).sum(axis=1)
    assert_allclose(found, sums, rtol=0, atol=4 * rank * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_four_numbers_are_loaded_from_any_place(dtype):
    def kernel(x, p, found):
        four = load_four(x, p)
        found[0], found[1], found[2], found[3] = lane(four, 0), lane(four, 1), lane(four, 2), lane(four, 3)

    x, found = np.arange(10, dtype=dtype), np.zeros(4)
    compiled(kernel, cache=False)(x, np.uint64(5), found)
    assert found.tolist() == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("features", "expected"),
    [("+avx2,+avx512f", [24, 24, 12, 8, 6, 1, 1]), ("+avx2", [15, 7, 5, 3, 1, 1, 1])],
)
def test_as_many_rows_are_held_as_registers_of_the_processor_have_room_for(features, expected, monkeypatch):
    monkeypatch.setattr(registers, "get_host_cpu_features", lambda: features)
    assert [held(length) for length in (1, 8, 9, 17, 32, 104, 200)] == expected
    assert several(9) is (expected[2] >= 6)


@pytest.mark.parametrize(
    ("length", "kind", "widths"),
    [
        (1, types.float64, [1]),
        (8, types.float64, [8]),
        (31, types.float64, [8, 8, 8, 4, 2, 1]),
        (21, types.float32, [16, 4, 1]),
        (40, types.float32, [16, 16, 8]),
    ],
)
def test_a_row_is_full_vectors_and_then_powers_of_two(length, kind, widths):
    assert registers.Row(length, kind).widths == widths


def test_entries_come_by_fours_where_six_rows_fit_into_registers():
    assert several(8)
    assert not several(33)  # five vectors of eight numbers each, and there are 32 registers
    assert all(several(rank) == (held(rank) >= 6) for rank in range(1, 60))


def test_rows_that_are_not_there_are_told_where_bounds_are_checked(monkeypatch):
    def kernel(A, i):
        return lane(load(A, i, 3), 0)

    monkeypatch.setattr(registers.config, "BOUNDSCHECK", True)
    checked, A = compiled(kernel, cache=False), np.arange(6.0).reshape(2, 3)
    assert checked(A, np.uint64(1)) == 3.0
    with pytest.raises(IndexError, match="index is out of bounds"):
        checked(np.ones((3, 3))[:2], np.uint64(2))
