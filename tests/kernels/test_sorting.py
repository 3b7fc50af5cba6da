"""The parallel sort against NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from rankfold.kernels import sorting
from rankfold.kernels.sorting import first_tie, settle_ties, sort


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
def test_several_parts_sort_as_one(size, skewed, monkeypatch):
    rng = np.random.default_rng(0)
    keys = rng.integers(0, size, 5000) // (1 + skewed * rng.integers(0, 50, 5000))
    positions = np.arange(keys.size)
    once = sort(keys, positions, np.zeros(keys.size), size, np.uint32)
    monkeypatch.setattr(sorting, "FEWEST", 99)
    for one, several in zip(once, sort(keys, positions, np.zeros(keys.size), size, np.uint32), strict=True):
        assert_array_equal(one, several)
    assert_array_equal(once[1], np.argsort(keys, kind="stable"))


@pytest.mark.parametrize(
    ("entries", "size", "fewest", "parts"),
    [
        (1000, 10, 1000, [1000]),
        (1000, 10, 400, [400, 400, 200]),
        (1000, 30, 100, [240, 240, 240, 240, 40]),  # eight of each key
        (1000, 500, 100, [250] * 4),  # a quarter at most
    ],
)
def test_parts_are_large_enough_for_several_of_a_key(entries, size, fewest, parts, monkeypatch):
    seen = []
    monkeypatch.setattr(sorting, "FEWEST", fewest)
    monkeypatch.setattr(
        sorting,
        "run",
        lambda kernel, chunks, work, _: seen.append(work) if kernel is sorting._split else None,
    )
    sort(np.arange(entries)[::-1] % size, np.zeros(entries), np.zeros(entries), size, np.uint32)
    assert seen == parts


def test_order_is_looked_for_in_every_block(monkeypatch):
    monkeypatch.setattr(sorting, "BLOCK", 4)
    for k in range(1, 10):
        keys = np.arange(10, dtype=np.uint32)
        assert sorting.in_order(keys)
        keys[k] = k - 1
        assert sorting.in_order(keys)  # equal ones are
        keys[k - 1] = k  # also where one block meets the next
        assert not sorting.in_order(keys)


def test_keys_are_split_into_as_many_buckets_as_there_may_be(monkeypatch):
    seen = []
    monkeypatch.setattr(sorting, "run", lambda kernel, chunks, work, arguments: seen.append(arguments))
    for size in (1, 255, 256, 257, 512, 513, 10**6):
        seen.clear()
        out_of_order = np.array([1, 0, 0])  # those in order are not split at all
        sort(out_of_order, np.zeros(3, np.int64), np.zeros(3), size, np.uint32)
        _, _, shift, counts = seen[1]
        buckets = counts.shape[1]
        assert (size - 1) >> int(shift) == buckets - 1
        assert min(size, 129) <= buckets <= 256


@pytest.mark.parametrize("bounds", [[0, 4], [0, 1, 2, 4], [0, 2, 2, 4]])
def test_the_first_tie_is_that_of_the_first_row_with_one(bounds):
    indptr = np.array([0, 2, 5, 5, 8], np.uint64)
    for indices, tie in (
        ([0, 1, 1, 2, 3, 3, 4, 5], -1),  # equal ones in two rows are no tie
        ([0, 1, 1, 2, 2, 3, 4, 4], 4),
        ([0, 1, 1, 2, 3, 3, 4, 4], 7),
        ([6, 6, 1, 1, 1, 3, 4, 4], 1),
        ([0, 6, 1, 1, 1, 3, 4, 4], 3),
    ):
        found = first_tie(np.array(bounds, np.uint64), indptr, np.array(indices, np.uint32))
        assert found == tie


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 60), st.integers(1, 9), st.integers(1, 5), st.integers(1, 2), st.integers(0, 99))
def test_ties_are_ordered_by_value_and_nothing_else_moves(count, lines, length, columns, seed):
    """Against sorting all entries by line, index and data, of which only ties may be in disorder."""
    rng = np.random.default_rng(seed)
    keys, indices = np.sort(rng.integers(0, lines * length, count))[None] // [[length], [1]]
    indices = indices % length
    data = rng.integers(0, 3, (count, columns)).astype(float)
    expected = data[np.lexsort((*data.T[::-1], indices, keys))]
    settle_ties(np.searchsorted(keys, np.arange(lines + 1)).astype(np.uint64), indices, data)
    assert_array_equal(data, expected)


@pytest.mark.parametrize("repeats", [1, 3, 50])
def test_only_repeated_entries_are_sorted_by_value(repeats, monkeypatch):
    """One entry given twice must not cost a sort of all."""
    sizes = []
    lexsort = np.lexsort
    monkeypatch.setattr(np, "lexsort", lambda keys: sizes.append(len(keys[-1])) or lexsort(keys))
    lines, length = 100, 50
    where = np.sort(np.append(np.arange(lines * length), np.arange(repeats) * 7))
    indptr = np.searchsorted(where // length, np.arange(lines + 1)).astype(np.uint64)
    data = np.random.default_rng(0).standard_normal((where.size, 1))
    settle_ties(indptr, (where % length).astype(np.uint32), data)
    assert sizes == [2 * repeats]


def test_keys_in_order_are_not_sorted_but_counted(monkeypatch):
    monkeypatch.setattr(sorting, "run", None)
    keys, others, data = (
        np.array([1, 1, 3], np.uint32),
        np.array([5, 4, 9], np.int64),
        np.array([0.5, 2.0, 1.0]),
    )
    indptr, indices, values = sort(keys, others, data, 5, np.uint32)
    assert (indptr.dtype, indices.dtype) == (np.uint64, np.uint32)
    assert indptr.tolist() == [0, 0, 2, 2, 3, 3]
    assert (indices.tolist(), values.tolist()) == ([5, 4, 9], [0.5, 2.0, 1.0])


@pytest.mark.parametrize(
    ("indptr", "indices", "expected"),
    [
        ([0, 2, 2, 4], [0, 3, 1, 1], True),
        ([0, 2, 2, 4], [0, 3, 3, 1], False),  # falls within a line
        ([0, 2, 2, 4], [3, 0, 1, 2], False),
        ([0, 1], [7], True),
        ([0, 5], [4, 3, 2, 1, 0], False),  # falls more often than there are lines
    ],
)
def test_lines_ascend_where_indices_fall_between_them_alone(indptr, indices, expected):
    found = sorting.lines_ascend(np.array(indptr, np.uint64), np.array(indices, np.uint32))
    assert found is expected
