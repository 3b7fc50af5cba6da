"""`rankfold predict` and `recommend` in several processes, and with models in parts.

Each process answers for its rows, where the model is in parts, and for every so-manieth pair or name, where
all of them have it; the first one writes. All read the same file of pairs.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import rankfold as rf
from rankfold.cli.models import clipping, names_of, of_pairs, written
from rankfold.cli.together import is_spread, joined
from rankfold.data.labels import LabelIndex, UnknownLabelError
from rankfold.distributed.group import Group
from rankfold.estimators.model_parts import load_parts

if TYPE_CHECKING:  # pyarrow comes when there are pairs to read
    from rankfold.data.io.pairs import PairBatch


def concerns(model: Path) -> bool:
    """Whether a model is in parts, or there are several processes."""
    return is_spread() or model.is_dir()


@dataclass(frozen=True)
class Held:
    """What this process has of a model: rows from `first` on, of which there are `rows` in all."""

    model: Any
    first: int
    rows: int
    parts: bool
    group: Group

    @property
    def own(self) -> tuple[LabelIndex, LabelIndex]:
        """What rows and columns at hand are called."""
        model = self.model
        labels = model.row_labels_, model.col_labels_
        rows, cols = map(LabelIndex, model.shape_, labels, names_of(model))
        return rows, cols


def held(path: Path, clip: bool) -> Held:
    """Read a model, or the parts of it that are this process's."""
    group = joined()
    if path.is_dir():
        share = load_parts(path, group)
        return Held(clipping(share.model, clip, path), share.first, share.rows, True, group)
    model = group.together(lambda: clipping(of_pairs(rf.load(path), path), clip, path), "reading the model")
    return Held(model, 0, model.shape_[0], False, group)


def predict(
    path: Path,
    pairs: str,
    columns: Sequence[Any],
    reading: dict[str, Any],
    asked: dict[str, bool],
    output: str,
) -> None:
    """Predict pairs; `reading` is how the file is read, `asked` what of: strict, guessed, clip, json, ..."""
    from rankfold.cli.predictions import expected, watched
    from rankfold.cli.table_files import write_batches
    from rankfold.data import read_pairs

    if pairs == "-" and is_spread():
        raise ValueError("several processes cannot read standard input: give a file of pairs")
    here = held(path, asked["clip"])
    rows, cols = here.own
    everywhere = LabelIndex(here.rows, rows.labels, rows.kind), cols
    columns = expected(columns, (rows.kind, cols.kind))
    with closing(read_pairs(pairs, rows, cols, columns, **reading)) as batches:
        first = here.group.rank == 0
        found = watched(_numbered(here, batches), everywhere, asked["strict"], asked["guessed"], first)
        answers = _predicted(here, found)
        if first:
            write_batches(output, answers, asked["json"], asked["escape"])
        else:
            deque(answers, maxlen=0)
    here.group.leave()


def _numbered(here: Held, batches: Iterator[PairBatch]) -> Iterator[PairBatch]:
    """Give rows their numbers among those of all parts; -1 is left for those that no process knows."""
    for batch in batches:
        if here.parts:
            own = np.where(batch.rows >= 0, batch.rows + here.first + 1, 0)
            batch = replace(batch, rows=here.group.sum(own) - 1)
        yield batch


def _predicted(here: Held, batches: Iterator[PairBatch]) -> Iterator[Any]:
    """Yield pairs with their predictions, to which everybody has added what it knows."""
    import pyarrow as pa

    size, rank = here.group.size, here.group.rank
    for batch in batches:
        rows = batch.rows - here.first
        mine = (rows >= 0) & (rows < here.model.shape_[0])
        if not here.parts:
            mine = np.arange(len(rows)) % size == rank
        elif rank == 0:
            mine |= batch.rows < 0  # nobody's: the mean and the offset of the column
        rows = np.where(batch.rows < 0, -1, rows)
        numbers = np.zeros(len(rows))
        numbers[mine] = here.model.predict_at(rows[mine], batch.cols[mine])
        names = dict(zip(batch.names, (batch.row_labels, batch.col_labels), strict=True))
        yield pa.record_batch(names | {"prediction": pa.array(here.group.sum(numbers))})


def recommended_by_all(
    path: Path, names: Sequence[str], count: int, seen: bool, clip: bool
) -> tuple[bool, Any, dict[str, list[tuple[Any, float]]]]:
    """Return whether this process speaks, the model, and the best columns for each name."""
    here = held(path, clip)
    known, _ = here.own
    mine = [name for k, name in enumerate(names) if here.parts or k % here.group.size == here.group.rank]

    def best() -> dict[str, list[tuple[Any, float]]]:
        """What the rows at hand are recommended."""
        found = {}
        for name in mine:
            at = known.find_text(name)
            if at >= 0:
                top = here.model.recommend(known.names(np.array([at])), n=count, exclude_seen=not seen)
                found[name] = list(zip(written(top.cols), top.scores.tolist(), strict=True))
        return found

    found = here.group.together(best, "recommending")
    said = [json.loads(text) for text in here.group.texts(json.dumps(found).encode())]
    every = {name: lines for each in said for name, lines in each.items()}
    here.group.leave()
    for name in names:
        if name not in every:
            known.require_text(name)
            raise UnknownLabelError(f"no part of this model knows the {known.kind} {name!r}")
    return here.group.rank == 0, here.model, {name: [tuple(line) for line in every[name]] for name in names}
