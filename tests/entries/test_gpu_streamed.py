"""Entries that pass through a GPU slab by slab: the answers of the store that holds them all."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries import test_stores as every_store
from entries.stores import Entries, draw, factors

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch):
    monkeypatch.setattr("rankfold.entries.gpu_streamed.SLAB", 25)


def build(entries):
    from rankfold.entries.gpu_streamed import StreamedObserved

    given = entries.rows, entries.cols, entries.values, entries.shape, entries.weights
    return StreamedObserved.from_triples(*given, "keep", DEVICE)


def test_slabs_are_runs_of_rows_with_few_entries_each():
    store = build(draw(1, 12, 10, 0.6))
    assert 2 < len(store.slabs) < 12
    assert max(slab.size for slab in store.slabs) <= 25
    assert sum(slab.shape[0] for slab in store.slabs) == 12
    assert {slab.by_row.value.device.type for slab in store.slabs} == {"cpu"}
    assert [slab.shape for slab in build(draw(1, 2, 40, 1.0)).slabs] == [(1, 40), (1, 40)]


@pytest.mark.parametrize(("loss", "weighted"), [("square", True), ("logistic", False)])
def test_passes(loss, weighted):
    entries = draw(1, 9, 12, 0.6, weighted=weighted, loss=loss)
    store, points = build(entries), factors(entries.shape, 3)
    every_store.agrees_with_dense(store, entries, loss, points)
    model = every_store.dense.model(entries, loss, *points)
    for actual, desired in zip(store.gauss_newton(*points, every_store.loss_of(loss)), model, strict=True):
        every_store.close(actual, desired)
    named = every_store.loss_of(loss)
    operator, matrix = store.targets(named), every_store.dense.targets(entries, loss)
    every_store.close(operator @ points[1], matrix @ points[1])
    every_store.close(operator.transposed_times(points[0]), matrix.T @ points[0])
    zero = torch.zeros(entries.shape, dtype=torch.float64)
    every_store.close(store.value_at_zero(named), every_store.dense.mean_loss(entries, loss, zero).item())


def test_what_it_knows_of_itself():
    entries = draw(3, 12, 9, 0.5, weighted=True)
    store = build(entries)
    assert (store.shape, store.size, store.weighted) == ((12, 9), len(entries.rows), True)
    for found, where, size in zip(store.counts, (entries.rows, entries.cols), (12, 9), strict=True):
        assert_array_equal(found, np.bincount(where, minlength=size))
    assert store.astype(np.float32).dtype == np.float32


def test_factors_of_other_matrices_are_refused():
    every_store.refuses_other_shapes(build)


def test_polynomials_of_all_slabs_and_of_some():
    entries, (L, R, dL, dR) = draw(2, 12, 10, 0.6), factors((12, 10), 2)
    store, times = build(entries), np.linspace(-1, 1, 5)
    found = np.polynomial.polynomial.polyval(times, store.polynomial((L, dL), (R, dR)))
    every_store.close(found, every_store.dense.curve_values(entries, (L, dL), (R, dR), times))
    some = store.polynomial((L, dL), (R, dR), every=len(store.slabs))  # the first slab has them all
    part = entries.take(entries.rows < store.slabs[0].shape[0])
    found = np.polynomial.polynomial.polyval(times, some)
    every_store.close(found, every_store.dense.curve_values(part, (L, dL), (R, dR), times))


def test_other_values_at_the_rows_they_are_of():
    entries = draw(9, 9, 8, 0.6, weighted=True)
    other = build(entries).with_values(lambda rows, cols, values: values + rows - 2.0 * cols)
    L, R = factors(entries.shape, 2, count=1)
    e = np.einsum("pk,pk->p", L[entries.rows], R[entries.cols])
    e -= entries.values + entries.rows - 2.0 * entries.cols
    every_store.close(other.value(L, R, every_store.SQUARE), np.mean(entries.weights * e * e))


def test_rows_outside_are_refused():
    entries = draw(9, 9, 8, 0.6)
    with pytest.raises(ValueError, match=r"rows\[\d+\] is 8; out of range: must be from 0 to 7"):
        build(Entries(entries.rows, entries.cols, entries.values, (8, 8)))


def test_what_outgrows_the_memory_is_streamed(monkeypatch):
    from rankfold.entries import gpu_streamed

    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda place: (8000, 16000))
    assert gpu_streamed.outgrows(101, "cuda")
    assert not gpu_streamed.outgrows(100, "cuda")
    assert not gpu_streamed.outgrows(10**9, "cpu")


@pytest.mark.skipif(DEVICE == "cpu", reason="too much for the interpreter")
def test_solved_there():
    data = rf.data.random_completion((200, 150), 2, 6, seed=0)
    plain = rf.Completion.from_triples(data)
    streamed = rf.Completion.from_observed(build(Entries(data.rows, data.cols, data.values, data.shape)))
    results = [rf.minimize(rf.Problem.of(cost, 2), "cg", tolerance=1e-20) for cost in (plain, streamed)]
    assert results[1].converged
    assert_allclose(results[1].trace["value"][:5], results[0].trace["value"][:5], rtol=1e-8)
