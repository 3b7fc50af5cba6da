"""Features of rows and columns in files: a table whose first column says what each line is called."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankfold.cli.table_files import read_table
from rankfold.data import DataFileError, LabelIndex, Triples
from rankfold.data.io.streams import name_of
from rankfold.data.numbering import kind_of


def with_features(
    train: Triples, row_file: str | None, col_file: str | None
) -> tuple[Triples, dict[str, Any]]:
    """Return entries that know what the files name too, and the features as `fit` takes them."""
    found: dict[str, Any] = {}
    for side, file in (("row", row_file), ("col", col_file)):
        if file is not None:
            k = ("row", "col").index(side)
            known = (train.row_labels, train.col_labels)[k]
            labels, table = _read(file, known)
            found[f"{side}_features"] = labels, table
            if known is not None:
                names, _ = LabelIndex(train.shape[k], known).enlarged(labels, "labels[{}]")
                size = len(known) if names is None else len(names)
                shape = (size, train.shape[1]) if k == 0 else (train.shape[0], size)
                if k == 0:
                    train = replace(train, shape=shape, row_labels=names)
                else:
                    train = replace(train, shape=shape, col_labels=names)
    return train, found


def _read(file: str, known: NDArray[Any] | None) -> tuple[NDArray[Any], Any]:
    """Read labels, of the kind of those known, and the columns beside them."""
    table = read_table(file, None, None)
    if table.num_columns < 2:
        raise DataFileError(f"{name_of(file)}: it has labels alone; features stand in the columns after them")
    column = table.column(0)
    if column.null_count:
        raise DataFileError(f"{name_of(file)}: a label is missing in the column {table.column_names[0]!r}")
    integers = known is None or kind_of(known) == "integer"
    if integers and not pa.types.is_integer(column.type):
        raise DataFileError(
            f"{name_of(file)}: labels are integers in the entries, and {column.type} in the column "
            f"{table.column_names[0]!r}"
        )
    names = column if integers else column.cast("string")
    labels = np.array(names.to_pylist(), dtype=np.int64 if integers else np.str_)
    if len(np.unique(labels)) < len(labels):
        raise DataFileError(f"{name_of(file)}: a label comes twice in the column {table.column_names[0]!r}")
    return labels, table.drop_columns([table.column_names[0]])
