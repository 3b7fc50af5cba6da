"""The steps of a sort on disk: look at all entries, split them both ways, sort range by range.

Sources are read twice: once for labels, counts and errors, once to send each entry to its bucket by row and
to its bucket by column. Each step is noted in the manifest once its files are on disk, and not done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.data.errors import DataFileError
from rankfold.data.io.files import format_of
from rankfold.data.spill.buckets import Order, Ties, record_type
from rankfold.data.spill.folder import HELD_OUT, LABELS, sizes_of
from rankfold.data.spill.manifest import Manifest
from rankfold.data.spill.merging import MergedLabels, places_of, read_labels, write_labels
from rankfold.data.spill.sources import Block, Reading, identity
from rankfold.entries.given_arrays import check_size

Tell = Callable[[str, bool], None]  # a line of text, and whether it is news, or progress
SIDES = "rows", "columns"


@dataclass(frozen=True)
class Options:
    """What was asked for, beside how files are read."""

    dtype: str
    duplicates: str
    held_out: float
    seed: int
    memory: int

    @property
    def limit(self) -> int:
        """Entries read at a time."""
        return max(1 << 16, min(1 << 20, self.memory // 512))


@dataclass(frozen=True)
class Sort:
    """One sort, and how far it is."""

    folder: Path
    files: list[Path]
    reading: Reading
    options: Options
    manifest: Manifest
    say: Tell

    def run(self) -> None:
        """Do what is not done yet."""
        facts = self.manifest.facts
        if "looked" not in facts:
            self._look()
        sides = [read_labels(self.folder / name) for name in LABELS]
        orders = self._orders([counts for _, counts in sides])
        if not facts.get("split", {}).get("done"):
            self._split(orders, [labels for labels, _ in sides])
        counts = [np.array(each, np.int64) for each in facts["split"]["counts"]]
        for order, own in zip(orders, counts, strict=True):
            self._sort(order, own)
        repeated = sum(facts["rows"]["repeated"])
        self.manifest.note(finished={"repeated": repeated, "sizes": sizes_of(self.folder)})

    def _look(self) -> None:
        """Find the labels of both sides, how many entries each has, and what is wrong with any."""
        text = format_of(self.files[0], None) != "parquet"
        merged = [MergedLabels(side, text) for side in ("row", "column")]
        shape, total, peaks = self.reading.shape, 0, np.zeros(1)
        counts = [np.zeros(d, np.int64) for d in shape or ()]
        for k, file in enumerate(self.files):
            for block, left in self._blocks(k):
                total += len(left)
                self.say(f"reading {file.name} ({k + 1} of {len(self.files)}): {total:,} entries", False)
                peaks = np.maximum(peaks, np.abs(block.data).max(axis=0))
                for side, (places, labels) in enumerate(
                    zip((block.rows, block.cols), block.labels, strict=True)
                ):
                    if labels is None:
                        counts[side] += np.bincount(places[left], minlength=counts[side].size)
                    else:
                        merged[side].add(labels, np.bincount(places[left], minlength=len(labels)), str(file))
        if not total:
            raise DataFileError(
                f"{self.files[0]}: there are no entries; rows of row, column and value are needed"
            )
        for name, peak in zip(("values", "weights"), peaks, strict=False):
            check_size(name, np.array([peak]), np.dtype(self.options.dtype))
        sides: list[Any] = (
            list(zip((None, None), counts, strict=True)) if shape else [each.finish() for each in merged]
        )
        for name, (labels, numbers) in zip(LABELS, sides, strict=True):
            write_labels(self.folder / name, labels, numbers)
        looked = {"shape": [len(numbers) for _, numbers in sides], "dtype": self.options.dtype}
        weighted = len(self.reading.columns) == 4
        self.manifest.note(looked={**looked, "weighted": weighted, "memory": self.options.memory})

    def _orders(self, counts: list[NDArray[np.int64]]) -> list[Order]:
        looked = self.manifest.facts["looked"]
        shape = looked["shape"][0], looked["shape"][1]
        dtype, weighted, memory = np.dtype(looked["dtype"]), looked["weighted"], self.options.memory
        return [
            Order.planned(self.folder, side, lines, numbers, dtype, weighted, memory)
            for side, lines, numbers in zip(SIDES, (shape, shape[::-1]), counts, strict=True)
        ]

    def _split(self, orders: list[Order], labels: list[Any]) -> None:
        """Send entries to their buckets, source after source."""
        noted = self.manifest.facts.get("split")
        done, held = (noted["sources"], noted["held_out"]) if noted else (0, 0)
        empty = [np.zeros((order.stripes, len(order.cuts) - 1), np.int64) for order in orders]
        counts = [np.array(each, np.int64) for each in noted["counts"]] if noted else empty
        apart = self.folder / HELD_OUT
        record = record_type(orders[0].shape, orders[0].dtype, orders[0].weighted)
        for k in range(done, len(self.files)):
            self._settle(orders, counts, held * record.itemsize)
            for block, left in self._blocks(k):
                places = [
                    at if own is None or known is None else places_of(own, known)[at]
                    for at, own, known in zip((block.rows, block.cols), block.labels, labels, strict=True)
                ]
                kept = [each[left] for each in places]
                counts[0] += orders[0].split(kept[0], kept[1], block.data[left])
                counts[1] += orders[1].split(kept[1], kept[0], block.data[left])
                self.say(
                    f"splitting {self.files[k].name}: {int(counts[0].sum()):,} of {orders[0].size:,} entries",
                    False,
                )
                if len(left) < len(block.rows):
                    held += _append(apart, record, places[0], places[1], block.data, left)
            self._settle(orders, counts, held * record.itemsize)
            lists = [each.tolist() for each in counts]
            self.manifest.note(split={"sources": k + 1, "held_out": held, "counts": lists, "done": False})
        if int(counts[0].sum()) != orders[0].size:
            raise DataFileError("the files have other entries than when they were first read: sort again")
        self.manifest.note(split={**self.manifest.facts["split"], "done": True})

    def _settle(self, orders: list[Order], counts: list[NDArray[np.int64]], held: int) -> None:
        """Take back what a sort that was ended appended after its last note; have the rest on disk."""
        for order, own in zip(orders, counts, strict=True):
            order.truncate(own)
        if held or (self.folder / HELD_OUT).exists():
            with (self.folder / HELD_OUT).open("r+b") as file:
                file.truncate(held)
                os.fsync(file.fileno())

    def _sort(self, order: Order, counts: NDArray[np.int64]) -> None:
        """Sort the buckets of one order that are not sorted yet."""
        buckets = len(order.cuts) - 1
        facts = self.manifest.facts.get(order.side)
        if facts is None:
            order.make_room()
            facts = {"repeated": []}
            self.manifest.note(**{order.side: facts})
        for k in range(len(facts["repeated"]), buckets):
            self.say(f"sorting by {order.side[:-1]}: part {k + 1} of {buckets}", False)
            ties = order.sort(k, counts)
            if ties.count and self.options.duplicates == "error":
                self._refuse(ties)
            facts["repeated"].append(ties.count)
            self.manifest.note(**{order.side: facts})
        for k in range(buckets):
            order.clear(k)

    def _refuse(self, ties: Ties) -> None:
        sides = (read_labels(self.folder / name)[0] for name in LABELS)
        row, col = (
            place if labels is None else labels[[place]].tolist().pop()
            for place, labels in zip(ties.first, sides, strict=True)
        )
        raise ValueError(
            f"entry ({row!r}, {col!r}) is given more than once: merge repeated entries, or pass "
            "duplicates='keep' to count each as an observation of its own"
        )

    def _blocks(self, k: int) -> Iterator[tuple[Block, NDArray[np.int64]]]:
        """Yield the blocks of a source, and which entries of each are not held out: the same each time."""
        before = self._mark(k)
        for number, block in enumerate(self.reading.blocks(self.files[k], self.options.limit)):
            left = np.arange(len(block.rows))
            if self.options.held_out:
                drawn = np.random.default_rng([self.options.seed, k, number]).random(len(left))
                left = np.flatnonzero(drawn >= self.options.held_out)
            yield block, left
        if self._mark(k) != before:
            raise DataFileError(f"{self.files[k]}: the file changed while it was sorted: sort again")

    def _mark(self, k: int) -> Any:
        """What the file is now, which must be what the task says, unless it is a file of our own."""
        found, asked = identity(self.files[k]), self.manifest.task["sources"][k]
        if "given" not in asked and found != asked:
            raise DataFileError(f"{self.files[k]}: the file changed while it was sorted: sort again")
        return found


def _append(
    path: Path,
    record: np.dtype[Any],
    rows: NDArray[Any],
    cols: NDArray[Any],
    data: NDArray[Any],
    left: NDArray[Any],
) -> int:
    """Append the entries that are not left to those held out, and return how many they are."""
    apart = np.ones(len(rows), dtype=bool)
    apart[left] = False
    records = np.empty(int(apart.sum()), record)
    records["line"], records["other"], records["data"] = rows[apart], cols[apart], data[apart]
    with path.open("ab") as file:
        file.write(records.data)
    return len(records)
