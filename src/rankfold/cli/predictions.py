"""What `rankfold predict` does with pairs: predictions, batch by batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from rankfold.cli.console import note
from rankfold.data import LabelIndex
from rankfold.data.io.chosen import Columns, Expected, Wanted
from rankfold.data.io.pairs import PairBatch


def expected(columns: Columns, names: Sequence[str]) -> Wanted:
    """Return the columns asked for; where none is named, what the data of the model calls it."""
    return [Expected(own) if column is None else column for own, column in zip(names, columns, strict=True)]


def watched(
    batches: Iterator[PairBatch],
    sides: tuple[LabelIndex, LabelIndex],
    strict: bool,
    guessed: bool,
    speaks: bool = True,
) -> Iterator[PairBatch]:
    """Yield the batches, then say how many pairs have an unknown row or column; `strict` refuses them.

    A side without labels has positions, and one outside it is refused. `guessed` means that nobody said
    whether the first line is a header; one with the names that the model knows is no guess. Of several
    processes one `speaks`.
    """
    count, total, first, known, names = 0, 0, "", False, ("", "")
    for batch in batches:
        names = batch.names
        if speaks and guessed and batch.header and not total and names != (sides[0].kind, sides[1].kind):
            fields = ", ".join(map(repr, batch.header))
            note(f"rankfold: the first line, {fields}, is taken for a header; if it is a pair: --no-header")
        _refuse_outside(batch, sides)
        new = (batch.rows < 0) | (batch.cols < 0)
        if new.any() and not count:
            first = _first_unknown(batch, sides, int(new.argmax()))
            if strict:
                raise ValueError(f"{first}; leave out --strict to predict it from what is known")
        count += int(new.sum())
        total += len(batch)
        known = known or bool((batch.rows >= 0).any() or (batch.cols >= 0).any())
        yield batch
    if count and speaks:
        alike = "" if known else (
            f" None of the {total:,} has one that it knows, so that all predictions are the same: likely "
            f"{names[0]!r} and {names[1]!r} are the wrong columns; name others by --row and --col."
        )  # fmt: skip
        note(
            f"rankfold: warning: {count:,} of {total:,} pairs have a row or column that the model does not "
            f"know; their predictions leave it out.{alike} First: {first}"
        )


def _first_unknown(batch: PairBatch, sides: tuple[LabelIndex, LabelIndex], k: int) -> str:
    """Say where in the file pair k of a batch stands, and what in it is not known."""
    side, labels = (sides[0], batch.row_labels) if batch.rows[k] < 0 else (sides[1], batch.col_labels)
    return f"{batch.place(k)}: the model does not know the {side.kind} {labels[k].as_py()!r}"


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
