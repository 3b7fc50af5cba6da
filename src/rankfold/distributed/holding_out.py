"""Entries set aside by what stands for a throw of each pair: the same however entries are spread."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.distributed.entries import SpreadEntries
from rankfold.entries.observed import Observed

Test = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def hold_out(store: SpreadEntries, part: float, seed: int) -> tuple[SpreadEntries, Test]:
    """Return the entries kept, and (rows, columns, data) of those held out, with rows counted as at hand."""
    first, kept, tests = store.rows.bounds[0], list[Observed | None](), list[Test]()
    none = np.zeros(0, np.int64)
    tests.append((none, none, np.zeros((0, 1 + store.weighted), store.dtype)))
    for own, columns in zip(store.stores, store.stripes.columns, strict=True):
        kept.append(None)
        if own is None:
            continue
        side = own.by_row
        rows, cols = side.keys.astype(np.int64), side.indices.astype(np.int64)
        apart = throws(rows + first, columns[cols], seed) < part
        tests.append((rows[apart], columns[cols[apart]], side.data[apart]))
        if not apart.all():
            weights = side.data[~apart, 1] if store.weighted else None
            kept[-1] = Observed.from_triples(
                rows[~apart], cols[~apart], side.data[~apart, 0], own.shape, weights, "keep", False
            )
    i, j, data = (np.concatenate(parts) for parts in zip(*tests, strict=True))
    return SpreadEntries.striped(kept, store.rows, store.stripes, store.dtype), (i, j, data)


def throws(rows: NDArray[Any], cols: NDArray[Any], seed: int) -> NDArray[np.float64]:
    """Return a number from 0 to 1 for each pair, like random ones (splitmix64: Steele, Lea, Flood 2014)."""
    mixed = np.full(rows.shape, seed, np.uint64)
    for numbers in (rows, cols):
        mixed = (mixed ^ numbers.astype(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return np.asarray((mixed >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
