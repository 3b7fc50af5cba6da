"""Means of values on disk: in double precision, whatever they are held in."""

import numpy as np
import pytest

from entries.stores import Entries, on_disk

VALUES = np.array([2.0**24, 1, 1, 1, 1, 1, 1, 1, -3, 5], np.float32)  # single precision has no 2²⁴ + 1
ROWS, COLS = np.divmod(np.arange(10), 5)


@pytest.mark.parametrize(
    "weights",
    [None, np.float32([1, 2, 4, 1, 0.5, 0, 8, 1, 1, 2]), np.float32([2.0**24, *[1] * 9]), 0 * VALUES],
)
@pytest.mark.parametrize("block", [3, 10, 100])
def test_the_mean_of_single_precision_is_added_up_in_double(weights, block, monkeypatch):
    monkeypatch.setattr("rankfold.entries.on_disk.BLOCK", block)
    given = VALUES if weights is None or weights.max() < 2**20 else np.sign(VALUES)
    store = on_disk(Entries(ROWS, COLS, given, (2, 5), weights))
    assert store.dtype == np.float32
    counted = weights if weights is not None and weights.any() else np.ones(10)
    exact = np.average(given.astype(float), weights=counted.astype(float))
    np.testing.assert_allclose(store.mean_value, exact, rtol=1e-6 if block >= 10 else 1e-15)
