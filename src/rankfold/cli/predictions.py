"""What `rankfold predict` does with pairs: predictions, batch by batch."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa

from rankfold.cli.console import note
from rankfold.data import LabelIndex, read_pairs
from rankfold.data.io.pairs import PairBatch

NAMES = ("row", "column", "prediction")


class Unknown:
    """Counts the pairs of which the model does not know the row or the column; `strict` refuses them.

    `guessed` means that nobody said whether the first line is a header.
    """

    def __init__(self, strict: bool, guessed: bool) -> None:
        self.strict, self.guessed = strict, guessed
        self.count, self.total, self.first = 0, 0, ""

    def watched(self, batches: Iterator[PairBatch]) -> Iterator[PairBatch]:
        """Yield the batches, and count."""
        for batch in batches:
            if self.guessed and batch.header and not self.total:
                names = ", ".join(map(repr, batch.header))
                note(
                    f"rankfold: the first line, {names}, is taken for a header; if it is a pair: --no-header"
                )
            new = (batch.rows < 0) | (batch.cols < 0)
            if new.any() and not self.count:
                k = int(new.argmax())
                side, names = ("row", batch.row_labels) if batch.rows[k] < 0 else ("column", batch.col_labels)
                self.first = f"{batch.place(k)}: the model does not know the {side} {names[k].as_py()!r}"
                if self.strict:
                    raise ValueError(f"{self.first}; leave out --strict to predict it from what is known")
            self.count += int(new.sum())
            self.total += len(batch)
            yield batch

    def tell(self) -> None:
        """Say how many there were."""
        if self.count:
            note(
                f"rankfold: warning: {self.count:,} of {self.total:,} pairs have a row or column that the "
                f"model does not know; their predictions leave it out. First: {self.first}"
            )


def predicted_pairs(
    model: Any,
    file: str,
    columns: tuple[str | int, str | int],
    delimiter: str | None,
    header: bool | None,
    unknown: Unknown,
) -> Generator[Any]:
    """Yield the pairs of a file, each with what a completed matrix holds there."""
    rows, cols = (
        LabelIndex(size, labels)
        for size, labels in zip(model.shape_, (model.row_labels_, model.col_labels_), strict=True)
    )
    with closing(read_pairs(file, rows, cols, columns, delimiter=delimiter, header=header)) as batches:
        for batch in unknown.watched(batches):
            values = pa.array(model.predict_at(batch.rows, batch.cols))
            yield pa.record_batch([batch.row_labels, batch.col_labels, values], names=list(NAMES))
