"""Stores beside each other, of columns of their own, as one matrix."""

import numpy as np
from numpy.testing import assert_allclose

from entries.stores import Entries, in_memory
from rankfold.entries.operators import Indicator
from rankfold.entries.side_by_side import SideBySide

SHAPE = 4, 7
COLUMNS = np.array([5, 0]), np.array([1]), np.array([6, 2, 3])  # none has column 4


def stores():
    rng = np.random.default_rng(0)
    for columns in COLUMNS:
        rows, cols = np.nonzero(rng.uniform(size=(4, columns.size)) < 0.7)
        yield in_memory(Entries(rows, cols, rng.standard_normal(rows.size), (4, columns.size)))


def test_they_are_one_matrix_whose_other_columns_are_zero():
    parts, dense = list(stores()), np.zeros(SHAPE)
    for store, columns in zip(parts, COLUMNS, strict=True):
        dense[store.by_row.keys, columns[store.by_row.indices]] = 1.0
    whole = SideBySide.of(SHAPE, parts, COLUMNS)
    assert whole.size == dense.sum() == sum(store.size for store in parts)
    joined = whole.joined([Indicator(store) for store in parts])
    X, Y = (np.random.default_rng(d).standard_normal((d, 2)) for d in SHAPE[::-1])
    assert joined.shape == SHAPE
    assert_allclose(joined @ X, dense @ X, rtol=1e-12)
    assert_allclose(joined.transposed_times(Y), dense.T @ Y, rtol=1e-12)


def test_stores_without_entries_are_left_out():
    first, _, last = stores()
    some = SideBySide.of(SHAPE, [first, None, last], COLUMNS)
    assert [store for store, _ in some.stores] == [first, last]
    assert [columns.tolist() for _, columns in some.stores] == [[5, 0], [6, 2, 3]]
    assert SideBySide.of(SHAPE, [None] * 3, COLUMNS) is None
