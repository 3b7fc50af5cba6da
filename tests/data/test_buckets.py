"""Buckets of entries, split and sorted one by one, beside a sort of all of them in memory."""

from itertools import pairwise

import numpy as np
import pytest

from rankfold.data import DataFileError
from rankfold.data.spill import buckets
from rankfold.data.spill.buckets import Order, Ties, _ties
from rankfold.entries.on_disk import files_of

SHAPE = (5, 7)
ROWS = np.array([4, 0, 2, 2, 0, 4, 2, 0, 4, 2, 4, 0])
COLS = np.array([6, 1, 3, 3, 5, 6, 0, 1, 2, 3, 2, 6])
DATA = np.arange(24.0).reshape(12, 2)


def order_of(folder, cuts, dtype=np.float64, weighted=True):
    return Order(folder, "rows", SHAPE, 12, np.dtype(dtype), weighted, cuts)


@pytest.mark.parametrize("stripes", [1, 3])
@pytest.mark.parametrize("cuts", [(0, 5), (0, 2, 5), (0, 2, 4, 5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_sorted_buckets_are_the_entries_in_order(tmp_path, monkeypatch, stripes, cuts, dtype, weighted):
    monkeypatch.setattr(buckets, "stripes_that_pay", lambda size, lines, length: stripes)
    order, columns = order_of(tmp_path, cuts, dtype, weighted), 1 + weighted
    data = DATA[:, :columns]
    counts = order.split(ROWS[:5], COLS[:5], data[:5]) + order.split(ROWS[5:], COLS[5:], data[5:])
    stripe, bucket = COLS // -(-7 // stripes), np.searchsorted(cuts, ROWS, side="right") - 1
    due = np.zeros((stripes, len(cuts) - 1), int)
    np.add.at(due, (stripe, bucket), 1)
    assert (counts.tolist(), counts.dtype) == (due.tolist(), np.int64)
    order.truncate(counts)
    order.make_room()
    sizes = [path.stat().st_size for path in files_of(tmp_path, "rows")]
    ties = [order.sort(k, counts) for k in range(len(cuts) - 1)]
    assert [path.stat().st_size for path in files_of(tmp_path, "rows")] == sizes
    pointers, indices, values = files_of(tmp_path, "rows")
    place = np.lexsort((data[:, 0], COLS, ROWS, stripe))
    assert np.fromfile(indices, buckets.index_type(SHAPE)).tolist() == COLS[place].tolist()
    assert np.fromfile(values, dtype).reshape(-1, columns).tolist() == data[place].tolist()
    ends = np.cumsum(np.bincount(stripe * 5 + ROWS, minlength=stripes * 5))
    assert np.fromfile(pointers, np.uint64).tolist() == [0, *ends]
    assert sum(each.count for each in ties) == 5
    assert next(each.first for each in ties if each.count) == (0, 1)
    order.clear(0)
    order.clear(0)
    assert not order.bucket(0).exists()


@pytest.mark.parametrize(
    "counts", [[0, 0, 3, 0, 2, 0], [3, 0, 0, 3, 0, 0], [0, 1, 0, 2, 3, 0], [0, 0, 0, 0, 0, 1]]
)
def test_no_bucket_is_without_entries(tmp_path, counts):
    record = buckets.BYTES * buckets.record_type((6, 7), np.float64, False).itemsize
    for room in range(max(counts), 7):
        kind = np.dtype(np.float64)
        order = Order.planned(tmp_path, "rows", (6, 7), np.array(counts), kind, False, room * record)
        assert (order.cuts[0], order.cuts[-1]) == (0, 6)
        assert all(0 < sum(counts[a:b]) <= room for a, b in pairwise(order.cuts))


@pytest.mark.parametrize(
    ("indptr", "indices", "found"),
    [
        ([0, 2, 4], [1, 3, 3, 5], Ties(0)),  # the last of a line and the first of the next
        ([0, 0, 4, 4, 5], [1, 3, 3, 3, 3], Ties(2, (11, 3))),
        ([0, 3, 3], [2, 2, 4], Ties(1, (10, 2))),
        ([0, 1, 1, 3], [0, 0, 0], Ties(1, (10, 0))),
        ([0, 0], [], Ties(0)),
        ([0, 1, 1, 1], [4], Ties(0)),
    ],
)
def test_entries_that_repeat_the_one_before_them_are_counted_within_lines(indptr, indices, found):
    """Of two lines, from line 10 on, in one stripe or two."""
    assert _ties(np.array(indptr, np.uint64), np.array(indices, np.int32), 2, 10) == found


def test_what_was_appended_after_the_last_note_is_taken_back(tmp_path):
    order = order_of(tmp_path, (0, 2, 5))
    counts = order.split(ROWS, COLS, DATA)
    before = [order.bucket(k).read_bytes() for k in range(2)]
    order.split(ROWS[:4], COLS[:4], DATA[:4])
    order.truncate(counts)
    assert [order.bucket(k).read_bytes() for k in range(2)] == before
    order.bucket(1).write_bytes(before[1][:-1])
    said = rf"bucket-rows-1 has {len(before[1]) - 1} bytes where {len(before[1])} were written: remove the"
    for refused in (lambda: order.truncate(counts), lambda: order.sort(1, counts)):
        with pytest.raises(DataFileError, match=said):
            refused()
