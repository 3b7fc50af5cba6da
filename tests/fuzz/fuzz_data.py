"""Data files of every format under attack: triples, pairs, and the tables of the command line."""

from __future__ import annotations

import gzip
import io
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from scipy import sparse

from fuzz.harness import Fuzzer
from fuzz.mutator import EDGES, Mutator
from rankfold.cli.table_files import numbers, numeric_columns, read_table
from rankfold.data import DataFileError, LabelIndex, Triples, read_pairs, read_triples, write_triples
from rankfold.data.io.limits import LONGEST_SIDE

ALLOWED = (DataFileError,)  # no OSError: the file can be opened and read
WHO, FILMS = np.array(["ann", "bob", "cy", "zoë"]), np.array([7, 30, 500])
PLACES = Triples(
    np.array([0, 1, 2, 3, 3]), np.array([0, 2, 1, 1, 0]), np.array([1.0, 2.5, -3, 4, 5e-7]), (4, 3)
)
NAMED = Triples(PLACES.rows, PLACES.cols, PLACES.values, PLACES.shape, WHO, FILMS)
MARKET = "%%MatrixMarket matrix coordinate real"


def written(triples: Triples, format: str) -> bytes:
    buffer = io.BytesIO()
    write_triples(buffer, triples, format=format)
    return buffer.getvalue()


def csv_files() -> list[bytes]:
    texts = (
        'who,film,stars\nann,Heat,4\nbob,Ran,3.5\n\n"cy, jr","two\nlines",-1e3\n',
        "\ufeffu;i;v\r\n1;2;3\r\n4;5;6\r\n",
        "1::2::3::978300760\n1::7::3::978302109\n",
        " 1  2 3\n4\t5 6 \n",
        "".join(f"{k * k % 97},{k % 31},{k / 7}\n" for k in range(300)),
        "".join(f"r{k % 50},c{k % 7},{k % 5}\n" for k in range(200)),
    )
    return [text.encode() for text in texts] + [written(NAMED, "csv")]


def tsv_files() -> list[bytes]:
    return [written(NAMED, "tsv"), b"ann\tHeat\t4\nbob\tRan\t3\n", b"0\t1\t2.5\n3\t2\t-1\n"]


def gzip_files() -> list[bytes]:
    return [gzip.compress(text, mtime=0) for text in csv_files()]


def market_files() -> list[bytes]:
    return [
        written(PLACES, "mtx"),
        f"{MARKET} symmetric\n% by hand\n\n  3  3 2\n 2  1   5\n3 3 7\n".encode(),
        f"{MARKET.replace('real', 'integer')} general\r\n2 9 2\r\n1 8 5\r\n2 9 7\r\n".encode(),
    ]


def npz_files() -> list[bytes]:
    return [
        written(PLACES, "npz"),
        written(NAMED, "npz"),
        _saved(np.savez_compressed, **_arrays(written(NAMED, "npz"))),
    ]


def sparse_files() -> list[bytes]:
    matrix = sparse.random_array((9, 6), density=0.3, rng=np.random.default_rng(0))
    kinds = [matrix.asformat(kind) for kind in ("csr", "csc", "coo", "dia")]
    kinds += [sparse.csr_matrix(matrix), sparse.coo_matrix(matrix), matrix.tobsr((3, 2))]
    files = []
    for k, kind in enumerate(kinds):
        buffer = io.BytesIO()
        sparse.save_npz(buffer, kind, compressed=k % 2 == 0)
        files.append(buffer.getvalue())
    return files


def parquet_files() -> list[bytes]:
    count = 400
    text = [f"user {k % 40}" for k in range(count)]
    tables = [
        pa.table(
            {"who": text, "film": [k % 9 for k in range(count)], "stars": [k / 3 for k in range(count)]}
        ),
        pa.table(
            {
                "who": pa.array(text).dictionary_encode(),
                "film": text,
                "stars": pa.array(range(count), pa.int16()),
            }
        ),
        pa.table(
            {"u": pa.array(range(count), pa.uint64()), "i": text, "v": pa.array([1.5] * count, pa.float32())}
        ),
    ]
    ways: tuple[dict[str, Any], ...] = (
        {}, {"compression": "none"}, {"compression": "zstd", "use_dictionary": False},
        {"compression": "gzip", "data_page_version": "2.0", "row_group_size": 150},
        {"compression": "none", "column_encoding": "PLAIN", "use_dictionary": False},
    )  # fmt: skip
    files = []
    for table in tables:
        for way in ways:
            buffer = io.BytesIO()
            parquet.write_table(table, buffer, **way)
            files.append(buffer.getvalue())
    return files


def table_files() -> list[bytes]:
    return [
        b"a,b,c\n1,2.5,x\n,NA,y\n3,4,z\n",
        "".join(["a,b\r\n", *(f"{k},{k * k}\r\n" for k in range(100))]).encode(),
        b'"a","b"\n"1","2"\n"3","4"\n',
    ]


def sound(triples: Triples) -> None:
    """What each result must be, so that no index reaches a kernel unchecked."""
    for index, size in zip((triples.rows, triples.cols), triples.shape, strict=True):
        assert index.ndim == 1
        assert index.dtype in (np.int32, np.int64)
        assert not len(index) or 0 <= index.min() <= index.max() < size <= LONGEST_SIDE
    assert triples.values.dtype == np.float64
    assert np.isfinite(triples.values).all()
    assert triples.values.shape == triples.rows.shape == triples.cols.shape
    for labels, size in zip((triples.row_labels, triples.col_labels), triples.shape, strict=True):
        if labels is not None:
            assert labels.dtype.kind in "iuU" or all(type(label) is str for label in labels)
            assert len(set(labels.tolist())) == size
            "".join(map(str, labels.tolist())).encode()


def triples_in(path: Path) -> None:
    sound(read_triples(path))


def places_in(path: Path) -> None:
    sound(read_triples(path, indices=True))


def pairs_in(path: Path) -> None:
    rows, cols = LabelIndex(4, WHO), LabelIndex(500)
    for batch in read_pairs(path, rows, cols):
        assert len(batch.rows) == len(batch.cols) == len(batch.row_labels)
        assert not len(batch) or (batch.rows.min() >= -1 and batch.rows.max() < 4 and batch.cols.max() < 500)
        assert not len(batch) or path.name in batch.place(len(batch) - 1)


def table_in(path: Path) -> None:
    table = read_table(str(path), None, None)
    names = numeric_columns(table)
    if names:
        assert numbers(table, names, str(path)).shape == (table.num_rows, len(names))


def _arrays(data: bytes) -> dict[str, Any]:
    with np.load(io.BytesIO(data)) as archive:
        return dict(archive)


def _saved(save: Callable[..., None], **arrays: Any) -> bytes:
    buffer = io.BytesIO()
    save(buffer, **arrays)
    return buffer.getvalue()


def changed_arrays(rng: random.Random, data: bytes) -> bytes:
    """Change one array of an archive, which stays a valid one, or the bytes of one, behind its checksum."""
    arrays = _arrays(data)
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    if rng.random() < 0.3:
        return _changed_member(rng, data)
    action = rng.choice(("edge", "edge", "edge", "type", "shape", "drop", "rename", "shorten"))
    if action == "edge" and array.size and array.dtype.kind in "iuf":
        edge = rng.choice((*EDGES, np.nan, np.inf)) if array.dtype.kind == "f" else rng.choice(EDGES)
        wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
        wide.flat[rng.randrange(array.size)] = rng.choice((1, -1)) * edge
        arrays[name] = wide
    elif action == "type":
        kind = rng.choice(("f8", "f2", "c16", "i1", "u8", "U3", "S3", "?", ">i8", ">f8", "M8[s]"))
        arrays[name] = np.zeros(array.shape, kind)
    elif action == "shape":
        arrays[name] = rng.choice((array[None], array.ravel(), array.reshape(-1)[:, None], np.tile(array, 3)))
    elif action == "drop":
        del arrays[name]
    elif action == "rename":
        arrays[rng.choice(("format", "rows", "indptr", "data", "row_labels", "coords"))] = arrays.pop(name)
    else:
        arrays[name] = array.ravel()[: rng.randint(0, array.size)]
    return _saved(rng.choice((np.savez, np.savez_compressed)), **arrays)


def _changed_member(rng: random.Random, data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            content = old.read(name)
            new.writestr(name, Mutator().mutate(rng, content) if name == chosen else content)
    return buffer.getvalue()


def changed_inside(rng: random.Random, data: bytes) -> bytes:
    """Change text and pack it again, so that only the text is damaged; some of it repeated without end."""
    text = Mutator(csv_files()).mutate(rng, gzip.decompress(data))
    if rng.random() < 0.002:
        text = (text[: rng.randint(1, 60)] or b"x") * 200_000
    return gzip.compress(text, 1, mtime=0)


def changed_table(rng: random.Random, data: bytes) -> bytes:
    """Write another table: of other types, names, sizes, with holes, or with one value many times."""
    table = parquet.read_table(io.BytesIO(data)).slice(0, rng.choice((0, 1, 5, 400)))
    columns, names = [column.combine_chunks() for column in table.columns], list(table.column_names)
    at = rng.randrange(3)
    size = table.num_rows
    columns[at] = rng.choice((
        lambda: pa.array([None] * size, pa.string()), lambda: pa.array([float("nan")] * size),
        lambda: pa.array([2**64 - 1] * size, pa.uint64()), lambda: pa.array([""] * size),
        lambda: pa.array([b"\xff"] * size, pa.binary()), lambda: pa.array([[1]] * size, pa.list_(pa.int64())),
        lambda: _repeated("x" * rng.choice((10, 100_000)), size), lambda: pa.array(["a\0"] * size),
        lambda: pa.array([True] * size), lambda: pa.array([1] * size, pa.decimal128(5)),
        lambda: pa.array([1] * size, pa.timestamp("s")), lambda: pa.nulls(size), lambda: columns[at],
    ))()  # fmt: skip
    if rng.random() < 0.2:
        names[at] = rng.choice(names)
    table = pa.Table.from_arrays(columns, names=names)
    if rng.random() < 0.02:
        table = pa.concat_tables([table] * rng.choice((2, 500)))
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, compression=rng.choice(("none", "snappy", "zstd")))
    return buffer.getvalue()


def _repeated(text: str, size: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(size, np.int32)), pa.array([text]))


FUZZERS = [
    Fuzzer("csv", csv_files, triples_in, ALLOWED, ".csv", words=(b"::", b";", b"NA")),
    Fuzzer("csv-positions", lambda: [written(PLACES, "csv")], places_in, ALLOWED, ".csv"),
    Fuzzer("tsv", tsv_files, triples_in, ALLOWED, ".tsv"),
    Fuzzer("gz", gzip_files, triples_in, ALLOWED, ".csv.gz", changed_inside),
    Fuzzer("mtx", market_files, triples_in, ALLOWED, ".mtx",
           words=(b"symmetric", b"array", b"pattern", b"complex", b"1000000000000")),
    Fuzzer("npz", npz_files, triples_in, ALLOWED, ".npz", changed_arrays),
    Fuzzer("sparse-npz", sparse_files, triples_in, ALLOWED, ".npz", changed_arrays),
    Fuzzer("parquet", parquet_files, triples_in, ALLOWED, ".parquet", changed_table),
    Fuzzer("pairs", lambda: [*csv_files(), b"who,film\nann,7\nbob,30\n"], pairs_in, ALLOWED, ".csv"),
    Fuzzer("pairs-parquet", parquet_files, pairs_in, ALLOWED, ".parquet", changed_table),
    Fuzzer("table", table_files, table_in, ALLOWED, ".csv"),
    Fuzzer("table-parquet", parquet_files, table_in, ALLOWED, ".parquet", changed_table),
]  # fmt: skip
