"""What kernels trust without looking: made here, checked here, and written to by nobody."""

import copy
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from entries.stores import draw, factors, in_memory, in_stripes
from rankfold.costs import Completion, Loss
from rankfold.entries import observed as module
from rankfold.entries.given_arrays import own_indices, own_numbers
from rankfold.entries.operators import Indicator, SparseMatrix

SQUARE = Loss.named("square")


def arrays(store):
    return [getattr(side, name) for side in store.sides for name in ("indptr", "across", "data", "bounds")]


@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_written_into_the_given_arrays_after_the_check_is_not_seen(weighted, monkeypatch):
    """As another thread may do at any time: here just before the entries are sorted."""
    entries = draw(0, 9, 7, weighted=weighted)
    given = [entries.rows.copy(), entries.cols.copy(), entries.values.copy()]
    weights = entries.weights.copy() if weighted else None
    sort = module.sorted_entries

    def overwriting(*arguments):
        for array in (*given, *([weights] if weighted else [])):
            array[:] = 0
        return sort(*arguments)

    monkeypatch.setattr(module, "sorted_entries", overwriting)
    store = module.Observed.from_triples(*given, (9, 7), weights, "keep", warn_of_empty=False)
    assert not given[0].any()
    monkeypatch.undo()
    for found, expected in zip(arrays(store), arrays(in_memory(entries)), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("build", [in_memory, in_stripes])
@pytest.mark.parametrize(
    "kind", ["plain", "of another type", "with other values", "without stripes", "copied", "pickled"]
)
def test_nothing_of_a_store_can_be_made_writable(build, kind):
    store = build(draw(0, 9, 7, weighted=True))
    store = {
        "plain": lambda: store,
        "of another type": lambda: store.astype(np.float32),
        "with other values": lambda: store.with_values(lambda i, j, y: 2 * y),
        "without stripes": lambda: store.plain,
        "copied": lambda: copy.deepcopy(store),
        "pickled": lambda: pickle.loads(pickle.dumps(store)),
    }[kind]()
    for array in arrays(store):
        for reached in (array, array.view(), array[:1], array.T, np.asarray(array)):
            with pytest.raises(ValueError, match="read-only"):
                reached[...] = 1
            with pytest.raises(ValueError, match="WRITEABLE"):
                reached.setflags(write=True)
        base = array.base
        while isinstance(base, np.ndarray):
            assert not base.flags.writeable
            base = base.base
        assert isinstance(base, memoryview)
        assert base.readonly


def test_the_values_of_an_operator_cannot_be_written_to_either():
    store = in_memory(draw(0, 9, 7))
    values = np.ones(store.size)
    S = SparseMatrix(store, (values, values))
    assert not S.values[0].flags.writeable
    assert values.flags.writeable


FAULTS = {
    "an index too large": lambda side: {"across": np.full_like(side.across, side.length)},
    "a shorter other side": lambda side: {"length": int(side.indices.max())},
    "fewer indices": lambda side: {"across": side.across[:-1].copy()},
    "fewer data": lambda side: {"data": side.data[:-1].copy()},
    "more data": lambda side: {"data": np.vstack([side.data, side.data[:1]])},
    "flat data": lambda side: {"data": side.data[:, 0].copy()},
    "three numbers each": lambda side: {"data": np.ones((len(side.data), 3))},
    "complex data": lambda side: {"data": side.data.astype(complex)},
    "signed indices": lambda side: {"across": side.across.astype(np.int64)},
    "signed pointers": lambda side: {"indptr": side.indptr.astype(np.int64)},
    "a pointer beyond": lambda side: {
        "indptr": np.where(np.arange(side.indptr.size) == 2, 10**9, side.indptr)
    },
    "a pointer back": lambda side: {"indptr": side.indptr[::-1].copy()},
    "fewer pointers": lambda side: {"indptr": side.indptr[[0, *range(2, side.indptr.size)]]},
    "a first pointer of 1": lambda side: {"indptr": np.maximum(side.indptr, 1).astype(np.uint64)},
    "rows that are not there": lambda side: {"bounds": side.bounds + np.uint64(1)},
    "one pointer": lambda side: {
        "indptr": np.zeros(1, np.uint64),
        "across": side.across[:0].copy(),
        "data": side.data[:0].copy(),
    },
    "no bounds": lambda side: {"bounds": np.zeros(0, np.uint64)},
    "no rows": lambda side: {"bounds": np.zeros(2, np.uint64)},
    "one bound": lambda side: {"bounds": np.zeros(1, np.uint64)},
    "bounds in two dimensions": lambda side: {"bounds": np.array([[0, side.lines]] * 2, np.uint64)},
    "pointers in two dimensions": lambda side: {"indptr": side.indptr[None].copy()},
    "indices in two dimensions": lambda side: {"across": side.across[:, None].copy()},
    "indices that are no integers": lambda side: {"across": side.across.astype(float)},
    "bounds back and forth": lambda side: {"bounds": np.array([0, 8, 2, side.lines], np.uint64)},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_entries_that_would_lead_out_of_their_arrays_are_refused(fault):
    side = in_memory(draw(0, 9, 7)).by_row
    change = FAULTS[fault](side)
    change = {
        k: v.astype(np.uint64) if k == "indptr" and v.dtype.kind == "f" else v for k, v in change.items()
    }
    with pytest.raises(ValueError, match="these are no sorted entries"):
        replace(side, **change)


def test_the_same_entries_again_are_taken():
    side = in_stripes(draw(0, 9, 7)).by_row
    again = replace(side, data=side.data * 2)
    for field in fields(side):
        assert field.name == "data" or getattr(again, field.name) is getattr(side, field.name)


def test_factors_that_are_too_short_never_reach_a_kernel():
    store = in_memory(draw(0, 9, 7))
    L, R, dL, dR = factors((9, 7), 2)
    S, ones = store.gradient(L, R, SQUARE), Indicator(store)
    for attempt in (
        lambda: store.evaluate(L[:-1], R, SQUARE),
        lambda: store.value(L, R[:-1], SQUARE),
        lambda: store.derivative(L, R, dL, dR[:-1], SQUARE),
        lambda: store.derivative(L, R, dL[:, :1], dR, SQUARE),
        lambda: store.polynomial([L, dL[:-1]], [R, dR]),
        lambda: store.slopes(L[:, 0], R[:, 0], SQUARE, 1.0),
        lambda: S @ R[:-1],
        lambda: S.transposed_times(L[:-1]),
        lambda: S @ R[:, 0],
        lambda: S @ R[:, :0],
        lambda: ones @ R[:-1],
        lambda: ones.transposed_times(L[:-1]),
        lambda: SparseMatrix(store, (np.ones(3), np.ones(3))),
        lambda: store.with_data(np.ones((3, 1)), np.ones((3, 1))),
    ):
        with pytest.raises(ValueError, match=r"must have|must be|no sorted entries"):
            attempt()


@pytest.mark.parametrize("every", [0, -1])
def test_a_sample_of_one_in_no_rows_is_refused(every):
    L, R = factors((9, 7), 2, count=1)
    with pytest.raises(ValueError, match="every must be at least 1"):
        Completion.from_observed(in_memory(draw(0, 9, 7))).polynomial([L], [R], every)


def test_what_is_wrong_is_found_and_placed_in_any_block(monkeypatch):
    monkeypatch.setattr("rankfold.entries.given_arrays.BLOCK", 4)
    good = np.arange(10)
    assert own_indices("rows", good[::-1], 10, np.uint32).tolist() == good[::-1].tolist()
    assert own_numbers("values", good / 2).tolist() == (good / 2).tolist()
    for at in (0, 3, 4, 9):
        place = np.arange(10) == at
        for bad in (-1, 10):
            with pytest.raises(ValueError, match=rf"rows\[{at}\] is {bad}, out of range"):
                own_indices("rows", np.where(place, bad, good), 10, np.uint32)
        for bad in (np.nan, -np.inf, 1e99):
            with pytest.raises(ValueError, match=rf"values\[{at}\] is "):
                own_numbers("values", np.where(place, bad, good))
    with pytest.raises(ValueError, match="values holds no number beyond 9e-90"):
        own_numbers("values", good * 1e-90)
    own_numbers("values", np.where(good == 9, 1.0, 1e-90))  # some may vanish beside others
