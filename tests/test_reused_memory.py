"""Memory of tall arrays is used again while a run lasts, by nobody as long as anybody looks at it."""

import numpy as np
import pytest

from rankfold.linalg import memory

SHAPE = (memory.LEAST // 16, 2)


def address(array):
    return array.__array_interface__["data"][0]


def test_what_an_array_leaves_is_the_next_ones_of_its_shape():
    with memory.reused():
        first = memory.empty(SHAPE, np.float64)
        assert (first.shape, first.dtype, first.flags.carray) == (SHAPE, np.dtype(np.float64), True)
        where = address(first)
        assert address(memory.empty(SHAPE, np.float64)) != where
        del first
        other = memory.empty(SHAPE, np.float32), memory.empty(SHAPE[::-1], np.float64)
        assert where not in map(address, other)
        assert address(memory.empty(SHAPE, np.float64)) == where


@pytest.mark.parametrize("view", [lambda A: A.T, lambda A: A[5:], lambda A: A.reshape(-1)[1:]])
def test_a_view_keeps_it(view):
    with memory.reused():
        first = memory.empty(SHAPE, np.float64)
        where, kept = address(first), view(first)
        del first
        assert address(memory.empty(SHAPE, np.float64)) != where
        del kept
        assert address(memory.empty(SHAPE, np.float64)) == where


def test_nothing_is_kept_without_a_run_or_after_the_last_one():
    with memory.reused():
        with memory.reused():
            outlives = memory.empty(SHAPE, np.float64)
            memory.empty(SHAPE, np.float64)
        assert [len(found) for found in memory._kept.values()] == [1]
    assert not memory._kept
    outlives[:] = 1.0
    assert outlives.sum() == outlives.size
    del outlives
    assert not memory._kept
    assert memory.empty(SHAPE, np.float64).base is None


def test_small_arrays_are_numpys_own():
    with memory.reused():
        assert memory.empty((memory.LEAST // 8 - 1,), np.float64).base is None
        assert memory.empty((memory.LEAST // 8,), np.float64).base is not None


def test_of_many_shapes_only_the_last_ones_are_kept():
    with memory.reused():
        for rank in range(2, 5 + memory.SHAPES):
            memory.empty((SHAPE[0], rank), np.float64)
        assert [shape[1] for shape, _ in memory._kept] == list(range(5, 5 + memory.SHAPES))
