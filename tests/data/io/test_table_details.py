"""Parquet, Matrix Market and sparse matrices to the last detail: types, rows that are named, leftovers."""

import io
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet as files
from scipy import sparse

from rankfold.data import DataFileError, LabelIndex, Triples, read_pairs, read_triples, write_triples
from rankfold.data.io import parquet
from rankfold.data.io.columns import BadEntryError, IndexColumn, LabelColumn, ValueColumn


def table(names=("user", "item", "rating"), **columns):
    buffer = io.BytesIO()
    files.write_table(pa.table(dict(zip(names, columns.values(), strict=True))), buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1, 3, 2], pa.int8()),
        pa.array([1, 3, 2], pa.uint64()),
        pa.array([1, 3, 2], pa.float32()),
        pa.array([Decimal("1.0"), Decimal("3.0"), Decimal("2.0")]),
        pa.array([1, 3, 2]).dictionary_encode(),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("labels", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_numbers_and_labels_of_every_type_are_read(values, labels):
    users = pa.array(["b", "a", "b"]).cast(labels)
    triples = read_triples(table(a=users, b=pa.array([7, 7, 9], pa.int16()), c=values), format="parquet")
    assert triples.row_labels[triples.rows].tolist() == ["b", "a", "b"]
    assert triples.col_labels[triples.cols].tolist() == [7, 7, 9]
    assert (triples.values.tolist(), triples.values.dtype) == ([1.0, 3.0, 2.0], np.float64)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ((["a"], [1], ["x"]), {}, "column 'rating' holds .*string; the value must hold numbers: cast it"),
        (([True], [1], [1.0]), {}, "column 'user' holds bool; the row must hold integers or strings: cast"),
        (([1.5], [1], [1.0]), {}, "column 'user' holds double; the row must hold integers or strings: cast"),
        (
            ([1], ["a"], [1.0]),
            {"indices": True},
            "column 'item' holds .*string.*integers, as indices=True say",
        ),
        (([1], [1], [True]), {}, "column 'rating' holds bool; the value must hold numbers"),
    ],
)
def test_columns_of_other_types_are_named_with_what_they_must_hold(columns, options, message):
    a, b, c = columns
    with pytest.raises(DataFileError, match=message):
        read_triples(table(a=a, b=b, c=c), format="parquet", **options)


def test_text_is_weighed_before_it_is_unpacked(monkeypatch):
    """The letters of all rows, beside those of the dictionary and eight bytes for each row."""
    weighed = []
    monkeypatch.setattr(parquet, "check_expansion", lambda size, packed, *_: weighed.append((size, packed)))
    encoded = pa.array(["abc", "abc", "de", None]).dictionary_encode()
    for column in (encoded, pa.chunked_array([encoded, encoded[:1]])):
        assert parquet.decoded(column, "f").to_pylist() == column.to_pylist()
    assert weighed == [(8, 5 + 32), (11, 10 + 40)]
    plain, numbers = pa.array(["a"]), pa.array([5, 5]).dictionary_encode()
    assert parquet.decoded(plain, "f") is plain
    assert parquet.decoded(numbers, "f").to_pylist() == [5, 5]
    assert len(weighed) == 2


@pytest.mark.parametrize("hole", [0, 3, 4])
def test_the_row_of_a_pair_that_lacks_a_label_is_named(monkeypatch, hole):
    monkeypatch.setattr(parquet, "BATCH", 2)
    users = [None if k == hole else k % 3 for k in range(5)]
    pairs = read_pairs(
        table(("user", "item"), a=users, b=[0] * 5), LabelIndex(3), LabelIndex(1), format="parquet"
    )
    with pytest.raises(DataFileError, match=f"the stream, row {hole + 1}: column 'user' is empty; drop or"):
        list(pairs)


def test_numbers_that_a_float_does_not_hold_are_rounded():
    column = ValueColumn()
    column.add(pa.array([2**53 + 1, 5]))
    assert column.finish().tolist() == [2.0**53, 5.0]


def test_of_no_entries_there_are_no_labels_positions_or_values():
    places, size, _ = IndexColumn(None).finish()
    assert (places.size, size) == (0, 0)
    codes, count, labels = LabelColumn(text=True).finish()
    assert (codes.size, count, labels.size) == (0, 0, 0)
    assert ValueColumn().finish().size == ValueColumn().count == IndexColumn(3).count == 0


@pytest.mark.parametrize("column", [pa.array([None], pa.uint64()), pa.array([5, None], pa.uint64())])
def test_unsigned_labels_that_are_missing_are_named(column):
    labels = LabelColumn(text=False)
    labels.add(pa.array([7], pa.uint64()))
    with pytest.raises(BadEntryError, match="is empty") as caught:
        labels.add(column)
    assert caught.value.position == len(column)


@pytest.mark.parametrize("batches", [[[5, 3], [3]], [["b", "a"], ["a"]], [[5, 3], ["a"]]])
def test_columns_know_how_many_entries_they_have(batches):
    labels, count = LabelColumn(text=True), 0
    for batch in batches:
        labels.add(pa.array(batch))
        count += len(batch)
        assert labels.count == count


@pytest.mark.parametrize("side", ["row_labels", "col_labels"])
def test_a_matrix_market_file_has_no_labels_of_either_side(side):
    labelled = Triples(np.array([0]), np.array([0]), np.array([1.0]), (1, 1), **{side: np.array(["a"])})
    with pytest.raises(ValueError, match="a Matrix Market file holds no labels: write csv, tsv, parquet or"):
        write_triples(io.BytesIO(), labelled, format="mtx")


BANNER = b"%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1: not a Matrix Market file"),
        (b"\xff\n", "line 1: not a Matrix Market file"),
        (BANNER[:-1] + b" more\n2 2 1\n1 1 1\n", "line 1: not a Matrix Market file"),
        (
            BANNER.replace(b"general", b"hermitian"),
            "line 1: the file holds 'matrix coordinate real hermitian'",
        ),
        (BANNER.replace(b"real", b"complex"), "line 1: the file holds 'matrix coordinate complex general'"),
        (b"%%Matrix\rMarket\n", "line 1: a carriage return"),
        (BANNER + b"%\n%\r%\n", "line 3: a carriage return"),
        (BANNER + b"2 2 x\n", "line 2: rows, columns and entries as three integers are needed, got '2 2 x'"),
        (BANNER + b"2 2 1\n1 1 1\n1 2 3\n", "line 2 promises 1 entries, but the file holds 2"),
        (BANNER + b"2 2 0\n1 1 1\n", "line 2 promises 0 entries, but the file holds 1"),
    ],
)
def test_lines_of_a_matrix_market_file_are_counted_from_its_first(content, message):
    with pytest.raises(DataFileError, match=f"^the stream.*{message}"):
        read_triples(io.BytesIO(content), format="mtx")


def sparse_file(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("word", [b"csr", "csr"])
@pytest.mark.parametrize("kind", ["csr", "csc"])
def test_what_pointers_do_not_reach_is_left_out(word, kind):
    parts = {
        "indptr": np.array([0, 1, 1, 2]),
        "indices": np.array([1, 0, 9]),
        "data": np.array([5.0, 7, 8, 9]),
    }
    shape = np.array([3, 2] if kind == "csr" else [2, 3])
    word = kind if isinstance(word, str) else kind.encode()
    back = read_triples(sparse_file(format=word, shape=shape, **parts), format="npz")
    lines, others = (back.rows, back.cols) if kind == "csr" else (back.cols, back.rows)
    assert (lines.tolist(), others.tolist(), back.values.tolist()) == ([0, 2], [1, 0], [5.0, 7.0])


def test_diagonals_hold_their_zeros_and_what_lies_beside_the_matrix_in_vain():
    dense = np.array([[1.0, 0, 2], [0, -1, 0]])
    buffer = io.BytesIO()
    sparse.save_npz(buffer, sparse.dia_array(dense))
    buffer.seek(0)
    back = read_triples(buffer, format="npz")
    assert sorted(zip(back.rows.tolist(), back.cols.tolist(), back.values.tolist(), strict=True)) == [
        (0, 0, 1.0), (0, 2, 2.0), (1, 1, -1.0),
    ]  # fmt: skip
    wide = {"offsets": np.array([1]), "data": np.arange(1.0, 7.0)[None], "shape": np.array([2, 3])}
    back = read_triples(sparse_file(format=b"dia", **wide), format="npz")
    assert (back.rows.tolist(), back.cols.tolist(), back.values.tolist()) == ([0, 1], [1, 2], [2.0, 3.0])
    wide["offsets"] = np.array([1, 2])
    with pytest.raises(DataFileError, match="1 diagonals have 2 offsets, or one comes twice"):
        read_triples(sparse_file(format=b"dia", **wide), format="npz")
