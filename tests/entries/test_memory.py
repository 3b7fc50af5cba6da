"""How much the store in memory holds, and how it holds it."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rankfold as rf
from entries.stores import draw, factors, in_memory
from rankfold.entries.observed import Observed


def test_bytes_held():
    observed = in_memory(draw(6, 1000, 1000))
    assert observed.by_row.across.dtype == observed.by_column.across.dtype == np.uint16
    assert observed.nbytes <= 22 * observed.size
    held = [
        array
        for side in (observed.by_row, observed.by_column)
        for array in (side.indptr, side.across, side.data)
    ]
    assert all(array.base is None or array.base.nbytes <= array.nbytes for array in held)


def test_construction_peaks_at_twice_what_is_held():
    entries = draw(0, 2000, 2000, 0.25)
    in_memory(draw(0, 20, 20))  # compiles
    tracemalloc.start()
    observed = in_memory(entries)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 2 * 20 * observed.size


@pytest.mark.parametrize("index", [np.uint32, np.uint64])
def test_wide_indices_give_the_same_bits(index):
    entries, loss = draw(7, 50, 60, 0.2), rf.Loss.named("square")
    L, R = factors(entries.shape, 3, count=1)
    narrow = in_memory(entries)
    wide = Observed(
        narrow.shape,
        *(replace(s, across=s.indices.astype(index)) for s in (narrow.by_row, narrow.by_column)),
    )
    for one, two in zip(narrow.evaluate(L, R, loss), wide.evaluate(L, R, loss), strict=True):
        assert_array_equal(one, two)


def test_arrays_are_read_only():
    observed = in_memory(draw(8, 20, 30))
    for store in (observed, observed.astype(np.float32), observed.with_values(lambda i, j, y: 2 * y)):
        for side in (store.by_row, store.by_column):
            for array in (side.indptr, side.across, side.data, side.bounds):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = 0


def test_positions_are_shared_and_values_are_not():
    observed = in_memory(draw(9, 20, 30))
    for other in (observed.astype(np.float32), observed.with_values(lambda i, j, y: 2 * y)):
        assert other.by_row.across is observed.by_row.across
        assert other.by_row.data is not observed.by_row.data


def test_repeated_entries_are_found():
    entries = draw(10, 20, 30)
    assert in_memory(entries).first_repeated == -1
    again = in_memory(draw(10, 20, 30, repeat=1))
    keys = again.by_row.keys.astype(int) * 30 + again.by_row.indices
    assert again.first_repeated == int(np.flatnonzero(np.diff(keys) == 0)[0]) + 1
