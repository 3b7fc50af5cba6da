"""The stores of entries, and drawn entries for them: a new store joins STORES, and is tested as all are."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch

from rankfold.entries import observed
from rankfold.entries.observed import Observed
from rankfold.entries.on_disk import OnDisk, files_of


@dataclass(frozen=True)
class Entries:
    """Entries in any order, maybe repeated, as a store is built from."""

    rows: np.ndarray
    cols: np.ndarray
    values: np.ndarray
    shape: tuple[int, int]
    weights: np.ndarray | None = None

    def take(self, which):
        weights = None if self.weights is None else self.weights[which]
        taken = {name: getattr(self, name)[which] for name in ("rows", "cols", "values")}
        return replace(self, **taken, weights=weights)


def in_memory(entries):
    return Observed.from_triples(
        entries.rows,
        entries.cols,
        entries.values,
        entries.shape,
        entries.weights,
        duplicates="keep",
        warn_of_empty=False,
    )


def in_stripes(entries):
    """The same with both sides cut into three stripes, which otherwise only very long ones are."""
    with mock.patch.object(observed, "stripes_that_pay", lambda count, lines, length: min(3, length)):
        return in_memory(entries)


def on_gpu(entries, device="cuda"):
    from rankfold.entries.gpu import GpuObserved

    return GpuObserved.from_triples(
        entries.rows, entries.cols, entries.values, entries.shape, entries.weights, "keep", device
    )


_FOLDER = tempfile.TemporaryDirectory()  # of files that stores map, until the tests end


def on_disk(entries, build=in_memory, part=7):
    """The same in files, passed over in parts of a few entries."""
    held, folder = build(entries), Path(tempfile.mkdtemp(dir=_FOLDER.name))
    for name, side in zip(("rows", "columns"), held.sides, strict=True):
        arrays = side.indptr, side.indices, side.data
        for path, array in zip(files_of(folder, name), arrays, strict=True):
            array.tofile(path)
    return OnDisk.opened(folder, held.shape, held.dtype, held.weighted, 1e9, part)


# Each builds a store from Entries.
STORES = {
    "memory": in_memory,
    "memory, in stripes": in_stripes,
    "disk": on_disk,
    "disk, in stripes": lambda entries: on_disk(entries, in_stripes),
}
if torch.cuda.is_available():
    STORES["gpu"] = on_gpu


def draw(seed, d1, d2, density=0.3, weighted=False, loss="square", repeat=0):
    """Random entries in random order; empty rows and columns, single entries and repeats do occur."""
    rng = np.random.default_rng(seed)
    where = rng.choice(d1 * d2, max(1, round(density * d1 * d2)), replace=False)
    where = rng.permutation(np.concatenate([where, where[:repeat]]))
    values = rng.standard_normal(where.size)
    if loss in ("logistic", "squared_hinge"):
        values = (values > 0).astype(float)
    elif loss == "poisson":
        values = rng.poisson(2.0, where.size).astype(float)
    weights = rng.uniform(0, 2, where.size) if weighted else None
    return Entries(where // d2, where % d2, values, (d1, d2), weights)


def factors(shape, rank, seed=0, count=2):
    """`count` random pairs (L, R), as one flat list, whose entries of L Rᵀ are of order one."""
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((d, rank)) / rank**0.5 for _ in range(count) for d in shape]
