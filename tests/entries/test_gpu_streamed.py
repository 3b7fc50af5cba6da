"""Entries that pass through a GPU slab by slab: the answers of the store that holds them all."""

import contextlib
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries import test_stores as every_store
from entries.stores import Entries, draw, factors
from rankfold.entries.gpu_checks import RepeatedEntryError

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def small_slabs(monkeypatch):
    monkeypatch.setattr("rankfold.entries.gpu_streamed.SLAB", 25)


def build(entries, duplicates="keep"):
    from rankfold.entries.gpu_streamed import StreamedObserved

    given = entries.rows, entries.cols, entries.values, entries.shape, entries.weights
    return StreamedObserved.from_triples(*given, duplicates, DEVICE)


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
    few = draw(3, 4, 3, 0.5)
    one = build(few)
    assert (len(one.slabs), one.dtype, one.weighted, one.size) == (1, np.float64, False, 6)
    every_store.close(one.value_at_zero(every_store.SQUARE), np.mean(few.values**2))
    assert one.asarray(np.array([0.1])).tolist() == [0.1]
    assert one.asarray(np.array([0.1])).device.type == DEVICE
    S = one.targets(every_store.SQUARE)
    assert (S.shape, S.dtype) == ((4, 3), np.float64)


def test_factors_of_other_matrices_are_refused():
    every_store.refuses_other_shapes(build)


def test_factors_of_one_type_are_computed_with_in_it_and_others_in_double_precision():
    every_store.factors_of_several_types(build)


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


@pytest.mark.parametrize(
    ("counts", "lines"),
    [
        ([10, 15, 1, 24, 1], [2, 2, 1]),  # as many as there may be, and one less
        ([40, 40, 3], [1, 1, 1]),  # a row that has more
        ([0, 0, 40, 0, 0, 26, 0], [5, 2]),  # none is of empty rows alone
        ([5, 0, 25, 0], [2, 2]),
        ([3, 0, 0, 0, 0, 0, 0, 0, 0, 0], [10]),
    ],
)
def test_as_many_rows_as_a_slab_has_room_for_and_one_with_entries(counts, lines):
    rows = np.repeat(np.arange(len(counts)), counts)
    cols = np.concatenate([np.arange(count) for count in counts])
    order = np.random.default_rng(0).permutation(len(rows))
    store = build(Entries(rows[order], cols[order], np.ones(len(rows)), (len(counts), max(counts))))
    assert [slab.shape for slab in store.slabs] == [(count, max(counts)) for count in lines]
    assert_array_equal(store.counts[0], counts)
    L, R = factors(store.shape, 2, count=1)
    every_store.close(store.value(L, R, every_store.SQUARE), np.mean(((L @ R.T)[rows, cols] - 1) ** 2))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (8, 8)}, r"rows\[\d+\] is 8; out of range: must be from 0 to 7"),
        ({"shape": (9, 7)}, r"cols\[\d+\] is 7; out of range: must be from 0 to 6"),
        ({"values": np.r_[np.zeros(40), np.nan, 0, 0]}, r"values\[40\] is nan; all must be finite"),
        ({"weights": np.r_[np.ones(41), -1.0, 1]}, r"weights\[41\] is -1.0; weights must be finite and zero"),
        ({"cols": np.zeros(42, int)}, "rows has 43, cols has 42, values has 43"),
        ({"rows": np.zeros(43)}, "rows must be integers"),
        (dict.fromkeys(("rows", "cols"), np.zeros(0, int)) | {"values": np.zeros(0)}, "values is empty"),
    ],
)
def test_what_is_no_entry_is_refused_by_its_place_among_all(change, message):
    entries = draw(9, 9, 8, 0.6)
    given = {name: getattr(entries, name) for name in ("rows", "cols", "values", "shape")} | change
    assert len(entries.rows) == 43
    with pytest.raises((ValueError, TypeError), match=message):
        build(Entries(**given))


def test_repeated_entries_are_named_as_they_were_given():
    entries = draw(9, 9, 8, 0.6)
    at, again = np.flatnonzero(entries.rows == 8)[0], len(entries.rows)
    twice = entries.take(np.r_[: len(entries.rows), at])
    where = rf"entry \(8, {entries.cols[at]}\) is given more than once, at positions {at} and {again} of rows"
    with pytest.raises(ValueError, match=where):
        build(twice, "error")
    assert build(twice).size == len(twice.rows)
    assert build(entries, "error").size == len(entries.rows)


def test_integer_values_and_weights_of_another_type():
    entries = draw(9, 9, 8, 0.6)
    counts, halves = np.arange(43) % 4, np.where(np.arange(43) % 2, 0.5, 1.5).astype(np.float32)
    store = build(Entries(entries.rows, entries.cols, counts, (9, 8), halves))
    assert store.dtype == np.float64
    L, R = factors((9, 8), 2, count=1)
    e = np.einsum("pk,pk->p", L[entries.rows], R[entries.cols]) - counts
    every_store.close(store.value(L, R, every_store.SQUARE), np.mean(halves * e * e))


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_more_rows_than_the_type_of_their_numbers_has(kind):
    """Those beyond have no entry; the slabs they are in begin at numbers that the type does not have."""
    rows, cols, values = np.arange(0, 120, 2).astype(kind), np.arange(60) % 8, np.arange(60.0)
    store = build(Entries(rows, cols.astype(kind), values, (300, 8)))
    assert store.size == 60
    assert_array_equal(store.counts[0], np.bincount(rows, minlength=300))
    assert_array_equal(store.counts[1], np.bincount(cols, minlength=8))


class Log(list):
    """Streams of a GPU that is not there, in the order in which they are told something."""

    def stream(self, name):
        log = self

        class Stream:
            def wait_stream(self, other):
                log.append((name, "waits for", other.name))

            def record_event(self):
                at = sum(each[1] == "notes" for each in log)
                log.append((name, "notes", at))
                return SimpleNamespace(synchronize=lambda: log.append(("host", "waits for", at)))

        Stream.name = name
        return Stream()


def test_the_next_slab_is_on_its_way_while_one_is_worked_on(monkeypatch):
    from rankfold.entries import gpu_streamed

    log, store = Log(), build(draw(1, 16, 10, 0.6))
    copies, compute = log.stream("copies"), log.stream("compute")
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: copies)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: compute)

    def sent(slab, device, stream, sides):
        log.append((stream.name, "sends", store.slabs.index(slab)))
        return slab, sides

    monkeypatch.setattr(gpu_streamed, "_sent", sent)
    there = replace(store, device=torch.device("cuda"))
    for own, (slab, sides) in there._each(("by_row",)):
        k = store.slabs.index(slab)
        assert own.start == sum(each.shape[0] for each in store.slabs[:k])
        assert (own.stop - own.start, sides) == (slab.shape[0], ("by_row",))
        log.append(("compute", "works on", k))
    count = len(store.slabs)
    assert count > 3
    expected = [("copies", "waits for", "compute"), ("copies", "sends", 0)]
    for k in range(count):
        expected.append(("compute", "waits for", "copies"))
        if k + 1 < count:  # two slabs at a time are there, and no more
            expected += [("host", "waits for", k - 1)] * (k > 0) + [("copies", "sends", k + 1)]
        expected += [("compute", "works on", k), ("compute", "notes", k)]
    assert log == expected
    log.clear()
    assert [store.slabs.index(slab) for _, (slab, _) in there._each(apart=2)] == list(range(0, count, 2))


@pytest.mark.parametrize("sides", [("by_row",), ("by_column",), ("by_row", "by_column")])
def test_of_a_slab_those_sides_are_sent_that_are_asked_for(sides, monkeypatch):
    from rankfold.entries import gpu_streamed

    slab, kept = build(draw(1, 12, 10, 0.6, weighted=True)).slabs[0], []
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: "compute")
    monkeypatch.setattr(torch.cuda, "stream", contextlib.nullcontext)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: kept.append((tensor, stream)))
    moved = gpu_streamed._sent(slab, torch.device("meta"), "copies", sides)
    tensors = ("start", "line", "index", "value", "weight", "cut", "after")
    for name in ("by_row", "by_column"):
        for each in tensors:
            place = "meta" if name in sides else "cpu"
            assert getattr(getattr(moved, name), each).device.type == place
            assert getattr(getattr(slab, name), each).device.type == "cpu"
    assert len(kept) == len(tensors) * len(sides)  # their memory is not used again before it was worked on
    assert {stream for _, stream in kept} == {"compute"}


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


def test_a_repeated_entry_is_told_by_another_process_as_well():
    error = RepeatedEntryError(3, 4, (1, 5))
    again = pickle.loads(pickle.dumps(error))
    assert (again.entry, again.places, str(again)) == ((3, 4), (1, 5), str(error))
