"""The factors of a completed matrix in files that other programs read."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from rankfold.data.io.parquet import write_parquet
from rankfold.data.io.streams import writing
from rankfold.data.io.text import write_text


def write_factors(model: Any, output: str, kind: str) -> None:
    """Write factors, offsets and labels as arrays (npz) or as a table (csv, parquet)."""
    with writing(output) as stream:
        if kind == "npz":
            _write_arrays(model, stream)
            return
        batches = _batches(model)
        if kind == "parquet":
            write_parquet(stream, batches[0].schema, batches)
        else:
            write_text(stream, batches[0].schema, batches, ",")


def _write_arrays(model: Any, stream: BinaryIO) -> None:
    (L, R), (mean, rows, cols) = model.factors_, model.biases_
    labels = {"row_labels": model.row_labels_, "col_labels": model.col_labels_}
    known = {name: part for name, part in labels.items() if part is not None}
    buffer = io.BytesIO()  # an archive is written with seeks, which standard output has not
    np.savez(buffer, L=L, R=R, mean=mean, row_offsets=rows, col_offsets=cols, **known)
    stream.write(buffer.getbuffer())


def _batches(model: Any) -> list[Any]:
    """Return a line per row, then one per column."""
    mean, rows, cols = model.biases_
    sides = ("row", model.row_labels_, mean + rows), ("column", model.col_labels_, cols)
    batches = []
    for (side, labels, offsets), factor in zip(sides, model.factors_, strict=True):
        names = np.arange(len(factor)) if labels is None else labels
        columns = {"side": [side] * len(factor), "label": [str(name) for name in names], "offset": offsets}
        columns |= {f"factor_{k + 1}": factor[:, k] for k in range(factor.shape[1])}
        batches.append(pa.RecordBatch.from_pydict(columns))
    return batches
