"""Entries sorted, and turned, against NumPy's sort of all of them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rankfold.entries import ordering
from rankfold.entries.ordering import sorted_entries, striped, turned
from rankfold.kernels import sorting

SHAPE = LINES, LENGTH = 23, 17


@pytest.fixture(params=["narrow", "wide"])
def held(request, monkeypatch):
    """Columns in 16 bits, and in 32."""
    monkeypatch.setattr(sorting, "FEWEST", 30)
    if request.param == "wide":
        monkeypatch.setattr(ordering, "NARROW", 0)
    return np.uint16 if request.param == "narrow" else np.uint32


@pytest.mark.parametrize("stripes", [1, 2, 5, 10])  # ten leave the last of either side without a line
@pytest.mark.parametrize("before", [1, 3, 10])
@pytest.mark.parametrize("weighted", [False, True])
def test_entries_are_turned_by_stripe_column_and_row(held, stripes, before, weighted):
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.permutation(LINES * LENGTH)[:150], LENGTH)
    values = rng.standard_normal(150) + (1j * rng.uniform(1, 2, 150) if weighted else 0)
    by_column = sorted_entries(cols, rows, values, (LENGTH, LINES), np.uint32, 1)
    by_row = sorted_entries(by_column.indices, by_column.keys, by_column.packed, SHAPE, np.uint32, before)
    side = turned(by_row, stripes)
    stripe = rows // -(-LINES // stripes)
    order = np.lexsort((rows, cols, stripe))
    assert side.across.dtype == held
    assert (side.lines, side.length, side.stripes) == (LENGTH, LINES, stripes)
    assert_array_equal(
        side.indptr[1:],
        np.searchsorted((stripe * LENGTH + cols)[order], np.arange(stripes * LENGTH), side="right"),
    )
    assert_array_equal(side.indices, rows[order])
    assert_array_equal(side.packed, values[order])


@pytest.mark.parametrize("stripes", [1, 2, 5, 10])
def test_rows_in_order_are_cut_into_stripes(held, stripes):
    rng = np.random.default_rng(1)
    rows, cols = np.divmod(np.sort(rng.permutation(LINES * LENGTH)[:150]), LENGTH)
    plain = sorted_entries(rows, cols, rng.standard_normal(150), SHAPE, np.uint32, 1)
    expected = sorted_entries(rows, cols, plain.packed, SHAPE, np.uint32, stripes)
    side = striped(plain, stripes)
    for name in ("indptr", "across", "data", "bounds"):
        found = getattr(side, name)
        assert found.dtype == getattr(expected, name).dtype
        assert_array_equal(found, getattr(expected, name))
