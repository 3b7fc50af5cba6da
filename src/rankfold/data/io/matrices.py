"""Triples in files that hold whole sparse matrices: Matrix Market and NumPy archives."""

from __future__ import annotations

import itertools
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from rankfold.data.errors import DataFileError
from rankfold.data.io.archives import (
    checked_triples,
    labels_in,
    positions_in,
    read_arrays,
    shape_in,
    values_in,
)
from rankfold.data.io.columns import BATCH, IndexColumn, ValueColumn
from rankfold.data.io.limits import check_side
from rankfold.data.io.lines import lines_from
from rankfold.data.io.sparse import SPARSE, triples_of_sparse
from rankfold.data.io.text import Layout, read_lines, write_lines
from rankfold.data.numbering import of_fixed_width
from rankfold.data.triples import Triples, index_dtype

KEYS = ("rows", "cols", "values", "shape")
LABELS = ("row_labels", "col_labels")
MARKET_KINDS = list(itertools.product(("real", "integer"), ("general", "symmetric")))
MARKET_LAYOUT = Layout(" ", names=("row", "column", "value"), places=(0, 1, 2))


def read_market(stream: BinaryIO, file: str) -> Triples:
    """Read a Matrix Market file of coordinates; a symmetric one is read with both its triangles."""
    _, first = next(lines_from(stream, file, 1), (1, b""))
    banner = first.decode(errors="replace").lower().split()
    if banner[:1] != ["%%matrixmarket"] or len(banner) != 5:
        raise DataFileError(f"{file}, line 1: not a Matrix Market file, which begins with %%MatrixMarket")
    if banner[1:] not in [["matrix", "coordinate", *kind] for kind in MARKET_KINDS]:
        raise DataFileError(
            f"{file}, line 1: the file holds '{' '.join(banner[1:])[:80]}'; only coordinates of real or "
            "integer entries, general or symmetric, can be read"
        )
    d1, d2, count, line_number = _size_line(stream, file)
    if banner[4] == "symmetric" and d1 != d2:
        raise DataFileError(f"{file}, line {line_number}: a symmetric matrix is square, not {d1} × {d2}")
    gather = IndexColumn(d1, base=1), IndexColumn(d2, base=1), ValueColumn()
    read_lines(stream, file, gather, MARKET_LAYOUT, b"", line_number + 1)
    values = gather[2].finish()
    if len(values) != count:
        raise DataFileError(
            f"{file}: line {line_number} promises {count} entries, but the file holds {len(values)}"
        )
    dtype: Any = index_dtype((d1, d2))
    rows, cols = (column.finish()[0].astype(dtype, copy=False) for column in gather[:2])
    if banner[4] == "symmetric":
        other = rows != cols
        rows, cols = np.append(rows, cols[other]), np.append(cols, rows[other])
        values = np.append(values, values[other])
    return Triples(rows, cols, values, (d1, d2))


def _size_line(stream: BinaryIO, file: str) -> tuple[int, int, int, int]:
    """Return the shape, the number of entries, and the number of the line that tells them."""
    for line_number, line in lines_from(stream, file, 2):
        if line.strip() and not line.startswith(b"%"):
            where = f"{file}, line {line_number}"
            try:
                d1, d2, count = map(int, line.split())
            except ValueError:
                raise DataFileError(
                    f"{where}: rows, columns and entries as three integers are needed, "
                    f"got {line.decode(errors='replace').strip()[:80]!r}"
                ) from None
            check_side(d1, where, "row")
            check_side(d2, where, "column")
            return d1, d2, count, line_number
    raise DataFileError(f"{file}: the file ends before the line that tells its size")


def write_market(stream: BinaryIO, triples: Triples) -> None:
    """Write a Matrix Market file; it cannot hold labels."""
    if triples.row_labels is not None or triples.col_labels is not None:
        raise ValueError("a Matrix Market file holds no labels: write csv, tsv, parquet or npz")
    size = f"{triples.shape[0]} {triples.shape[1]} {len(triples)}"
    stream.write(f"%%MatrixMarket matrix coordinate real general\n{size}\n".encode())
    parts = (slice(start, start + BATCH) for start in range(0, len(triples), BATCH))
    columns = ([triples.rows[k] + 1, triples.cols[k] + 1, triples.values[k]] for k in parts)
    write_lines(stream, (pa.record_batch(list(map(pa.array, part)), names=KEYS[:3]) for part in columns), " ")


def read_npz(stream: BinaryIO, file: str) -> Triples:
    """Read an archive of `write_npz`, or one of `scipy.sparse.save_npz`."""
    try:
        arrays = read_arrays(stream, (*KEYS, *LABELS, *SPARSE), file)
        if "format" in arrays:
            return triples_of_sparse(arrays, file)
        labels = {key: labels_in(arrays, key) for key in LABELS if key in arrays}
        places = positions_in(arrays, "rows"), positions_in(arrays, "cols")
        return checked_triples(*places, values_in(arrays, "values"), shape_in(arrays, file), **labels)
    except DataFileError:
        raise
    except ValueError as error:
        raise DataFileError(f"{file}: not an archive of triples, or a damaged one ({error})") from error


def write_npz(stream: BinaryIO, triples: Triples) -> None:
    """Write an archive of all arrays, with the shape and the labels."""
    arrays: dict[str, Any] = {key: getattr(triples, key) for key in (*KEYS, *LABELS)}
    held = {key: array for key, array in arrays.items() if array is not None}
    np.savez(stream, **held | {key: of_fixed_width(held[key]) for key in LABELS if key in held})
