"""The parallel sort against NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

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
