"""What `rankfold predict` does with pairs: predictions, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from rankfold.cli.console import note
from rankfold.data import LabelIndex
from rankfold.data.io.pairs import PairBatch


def watched(
    batches: Iterator[PairBatch],
    sides: tuple[LabelIndex, LabelIndex],
    strict: bool,
    guessed: bool,
    speaks: bool = True,
) -> Iterator[PairBatch]:
    """Yield the batches, then say how many pairs have an unknown row or column; `strict` refuses them.

    A side without labels has positions, and one outside it is refused. `guessed` means that nobody said
    whether the first line is a header. Of several processes one `speaks`.
    """
    count, total, first = 0, 0, ""
    for batch in batches:
        if speaks and guessed and batch.header and not total:
            names = ", ".join(map(repr, batch.header))
            note(f"rankfold: the first line, {names}, is taken for a header; if it is a pair: --no-header")
        _refuse_outside(batch, sides)
        new = (batch.rows < 0) | (batch.cols < 0)
        if new.any() and not count:
            k = int(new.argmax())
            side, names = ("row", batch.row_labels) if batch.rows[k] < 0 else ("column", batch.col_labels)
            first = f"{batch.place(k)}: the model does not know the {side} {names[k].as_py()!r}"
            if strict:
                raise ValueError(f"{first}; leave out --strict to predict it from what is known")
        count += int(new.sum())
        total += len(batch)
        yield batch
    if count and speaks:
        note(
            f"rankfold: warning: {count:,} of {total:,} pairs have a row or column that the model does not "
            f"know; their predictions leave it out. First: {first}"
        )


def _refuse_outside(batch: PairBatch, sides: tuple[LabelIndex, LabelIndex]) -> None:
    """Raise an error for the first position outside a side that has no labels."""
    given = (batch.rows, batch.row_labels), (batch.cols, batch.col_labels)
    for side, (places, names) in zip(sides, given, strict=True):
        if side.labels is None and (places < 0).any():
            k = int((places < 0).argmax())
            raise ValueError(
                f"{batch.place(k)}: {names[k].as_py()!r} is no {side.kind} of this model, which knows them "
                f"by position, from 0 to {side.size - 1}"
            )


def predicted(model: Any, batches: Iterator[PairBatch], std: bool = False) -> Iterator[Any]:
    """Yield pairs, each with what a completed matrix holds there, and how far off that may be."""
    for batch in batches:
        columns = dict(zip(batch.names, (batch.row_labels, batch.col_labels), strict=True))
        columns["prediction"] = pa.array(model.predict_at(batch.rows, batch.cols))
        if std:
            columns["std"] = pa.array(model.std_at(batch.rows, batch.cols))
        yield pa.record_batch(columns)
