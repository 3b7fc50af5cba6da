"""The parallel sort against NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rankfold.kernels import sorting
from rankfold.kernels.sorting import sort


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 3000), st.integers(0, 99))
def test_agrees_with_a_stable_argsort(count, size, seed):
    rng = np.random.default_rng(seed)
    keys, others, data = rng.integers(0, size, count), rng.integers(0, 99, count), rng.standard_normal(count)
    indptr, others_out, data_out = sort(keys, others, data, size, np.uint32)
    order = np.argsort(keys, kind="stable")
    assert_array_equal(indptr, np.searchsorted(keys[order], np.arange(size + 1)))
    assert_array_equal(others_out, others[order])
    assert_array_equal(data_out, data[order])


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_many_entries_on_several_threads(threads, monkeypatch):
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", str(threads))
    keys = np.random.default_rng(0).integers(0, 10**6, 300_000)
    positions = np.arange(keys.size)
    _, others, _ = sort(keys, positions, np.zeros(keys.size), 10**6, np.uint32)
    assert_array_equal(others, np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("size", [1, 3, 700, 10**5])
@pytest.mark.parametrize("skewed", [False, True])
def test_several_rounds_sort_as_one(size, skewed, monkeypatch):
    rng = np.random.default_rng(0)
    keys = rng.integers(0, size, 5000) // (1 + skewed * rng.integers(0, 50, 5000))
    positions = np.arange(keys.size)
    once = sort(keys, positions, np.zeros(keys.size), size, np.uint32)
    monkeypatch.setattr(sorting, "ROUND_ENTRIES", 100)
    for one, several in zip(once, sort(keys, positions, np.zeros(keys.size), size, np.uint32), strict=True):
        assert_array_equal(one, several)
    assert_array_equal(once[1], np.argsort(keys, kind="stable"))


def test_rounds_share_the_entries_and_leave_none_out(monkeypatch):
    monkeypatch.setattr(sorting, "ROUND_ENTRIES", 100)
    starts = np.arange(0, 1001, 10, dtype=np.uint64)  # 100 buckets of 10 entries
    assert [part.tolist() for part in sorting._rounds(starts)] == [[0, 25], [25, 50], [50, 75], [75, 100]]
    few = starts[:21]  # 200 entries: two rounds
    assert [part.tolist() for part in sorting._rounds(few)] == [[0, 10], [10, 20]]
    assert [part.tolist() for part in sorting._rounds(starts[:6])] == [[0, 5]]


def rows_of(*rows):
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.uint64)
    return indptr, np.concatenate(rows).astype(np.uint32)


@pytest.mark.parametrize(
    ("rows", "position"),
    [
        (([0, 1], [1, 2]), -1),  # the same column in two rows is no tie
        (([0, 1], [1, 1, 1], [2, 2]), 3),
        (([4, 4], [1]), 1),
        (([0], [1], [2], [5, 7, 7]), 5),
    ],
)
@pytest.mark.parametrize("pieces", [1, 2])
def test_the_first_tie_is_found(rows, position, pieces):
    indptr, indices = rows_of(*rows)
    bounds = np.unique(np.linspace(0, len(rows), pieces + 1).astype(np.uint64))
    assert sorting.first_tie(bounds, indptr, indices) == position


def test_ties_are_ordered_by_value_then_weight_and_nothing_else_moves():
    indptr, indices = rows_of([0, 1, 1, 1], [1, 1])
    data = np.array([[9.0, 1.0], [3.0, 2.0], [3.0, 1.0], [1.0, 5.0], [2.0, 0.0], [1.0, 0.0]])
    sorting.settle_ties(indptr, indices, data)
    assert_array_equal(data, [[9.0, 1.0], [1.0, 5.0], [3.0, 1.0], [3.0, 2.0], [1.0, 0.0], [2.0, 0.0]])
