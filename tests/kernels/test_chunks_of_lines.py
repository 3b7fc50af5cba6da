"""Each line is in one chunk: what passes over many chunks find is what there is."""

import numpy as np
import pytest

import rankfold as rf
from baselines.baseline_instances import completion, instance
from entries import test_stores as every_store
from entries.stores import STORES, draw, factors
from rankfold.baselines import RTRMC
from rankfold.baselines.rtrmc import Subspace
from rankfold.entries import sorted_entries


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(sorted_entries, "CHUNK_ENTRIES", 8)


@pytest.mark.parametrize("where", ["memory", "memory, in stripes", "disk"])
def test_passes(where, small_chunks):
    entries, points = draw(1, 20, 15, 0.4), factors((20, 15), 3)
    store, curves, times = STORES[where](entries), (points[::2], points[1::2]), np.linspace(-1, 1, 4)
    every_store.agrees_with_dense(store, entries, "square", points)
    found = np.polynomial.polynomial.polyval(times, store.polynomial(*curves))
    every_store.close(found, every_store.dense.curve_values(entries, *curves, times))


@pytest.mark.parametrize("where", ["memory", "memory, in stripes"])
def test_passes_by_kernels_of_this_very_rank(where, small_chunks):
    entries, points = draw(1, 20, 15, 0.4), factors((20, 15), 3)
    with every_store.widths(True):
        every_store.agrees_with_dense(STORES[where](entries), entries, "square", points)


def test_rtrmc(small_chunks, monkeypatch):
    data = instance((40, 30), oversampling=3, noise=0.2)
    found = []
    for entries in (8, 10**6):
        monkeypatch.setattr(sorted_entries, "CHUNK_ENTRIES", entries)
        problem = rf.Problem(completion(data), rf.SubspaceProjection(data.shape, 3))
        assert (problem.cost.observed.by_row.chunks[1] > 1) is (entries == 8)
        found.append(RTRMC().reduced(problem).at(Subspace(problem.start().U)))
    assert found[0].value == pytest.approx(found[1].value, rel=1e-12)
    np.testing.assert_allclose(found[0].known.gradient, found[1].known.gradient, atol=1e-12)
