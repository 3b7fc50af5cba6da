"""What a model notes of entries that are spread over processes, and samples of them that all of these get."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.distributed.entries import SpreadEntries
from rankfold.distributed.spreading import SpreadTriples
from rankfold.entries.observed import Observed
from rankfold.entries.sorted_entries import index_type
from rankfold.estimators.completion.pattern import Pattern
from rankfold.fingerprint import fingerprint
from rankfold.selection.sampling import MIN_LINES

LISTED = 100_000_000  # entries whose positions a model holds; of more, it does not know which were seen


def note_data(model: Any, data: SpreadTriples) -> None:
    """Say by attributes of the model what it was fitted to."""
    store = data.store
    parts = [f"{name}={part!r}" for name, part in store.fingerprint.items() if isinstance(part, str)]
    model.data_fingerprint_ = fingerprint(data.row_labels, data.col_labels, np.array(parts))
    model.shape_, model.counts_ = store.shape, store.counts
    model.row_labels_, model.col_labels_ = data.row_labels, data.col_labels
    model.value_range_, model.features_, model.information_ = _value_range(store), (None, None), None
    model._entries = None
    if not data.parts:
        model.observed_ = _pattern(store)
        return
    first, last = store.rows.bounds
    rows, cols = store.counts
    model.shape_, model.counts_ = (last - first, store.shape[1]), (rows[first:last], cols)
    model.row_labels_ = data.row_labels[first:last]
    model.observed_ = Pattern(np.concatenate([[0], np.cumsum(rows[first:last])]), _own_positions(store))


def _pattern(store: SpreadEntries) -> Pattern:
    """Return all positions; none, where they are too many."""
    if store.size > LISTED:
        return Pattern(np.zeros(store.shape[0] + 1, np.int64), np.zeros(0, index_type(store.shape)))
    own = _own_positions(store)
    signed = own.view(f"i{own.itemsize}")  # torch knows few others
    indptr = np.concatenate([[0], np.cumsum(store.counts[0])])
    cols = store.group.gathered(signed[:, None], indptr[list(store.rows.cuts)].tolist(), exact=True)
    return Pattern(indptr, np.ascontiguousarray(cols[:, 0]).view(own.dtype))


def _value_range(store: SpreadEntries) -> tuple[float, float]:
    """Return the least and the largest value in any process."""
    least, most = np.inf, -np.inf
    for own in (each for each in store.stores if each is not None):
        values = own.by_row.data[:, 0]
        least, most = min(least, float(values.min())), max(most, float(values.max()))
    return -store.group.most(-least), store.group.most(most)


def _own_positions(store: SpreadEntries) -> NDArray[Any]:
    """Return the columns of the entries at hand, row by row."""
    kind = index_type(store.shape)
    if len(store.stores) == 1 and store.block is not None:
        return np.asarray(store.block.by_row.pattern()[1], dtype=kind)
    first, last = store.rows.bounds
    return _at_hand(store, np.arange(last - first))[1].astype(kind)


def _at_hand(
    store: SpreadEntries, chosen: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return rows, columns and data of the entries of some of the rows at hand, row by row."""
    first, last = store.rows.bounds
    wanted = np.zeros(last - first, bool)
    wanted[chosen] = True
    none = np.zeros(0, np.int64)
    found: list[tuple[Any, ...]] = [(none, none, np.zeros((0, 1 + store.weighted), store.dtype))]
    for own, columns in zip(store.stores, store.stripes.columns, strict=True):
        if own is not None:
            side = own.by_row
            keys = side.keys
            at = wanted[keys]
            found.append((keys[at].astype(np.int64) + first, columns[side.indices[at]], side.data[at]))
    rows, cols, data = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((cols, rows))  # which keeps the order of entries at one place
    return rows[order], cols[order], data[order]


def chosen_rows(store: SpreadEntries, limit: int, seed: int) -> NDArray[np.int64]:
    """Return some rows, with about `limit` entries together; all, if these have no more."""
    if store.size <= limit:
        return np.arange(store.shape[0])
    order = np.random.default_rng(seed).permutation(store.shape[0])
    count = int(np.searchsorted(np.cumsum(store.counts[0][order]), limit, side="right"))
    return np.sort(order[: max(count, min(MIN_LINES, len(order)))])


def sample_of(store: SpreadEntries, limit: int, seed: int) -> Observed:
    """Return the entries of some rows, about `limit` of them, in every process; all, if they are no more."""
    chosen = chosen_rows(store, limit, seed)
    rows, cols, data = entries_of(store, chosen)
    shape = len(chosen), store.shape[1]
    weights = data[:, 1] if store.weighted else None
    numbers = np.searchsorted(chosen, rows)
    return Observed.from_triples(numbers, cols, data[:, 0], shape, weights, "keep", warn_of_empty=False)


def entries_of(store: SpreadEntries, chosen: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, columns and data of the entries of some rows, by row, in every process."""
    first, last = store.rows.bounds
    own = _at_hand(store, chosen[(chosen >= first) & (chosen < last)] - first)
    table = store.group.joined(np.column_stack([each.astype(np.float64) for each in own]))
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2:].astype(store.dtype)
