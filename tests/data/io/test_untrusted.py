"""Data files that somebody made to do harm: refused by name, before they take memory."""

import errno
import gzip
import io
import os
import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from rankfold.data import DataFileError, LabelIndex, read_pairs, read_triples
from rankfold.data.io.files import format_of
from rankfold.data.io.limits import LONGEST_LINE, LONGEST_SIDE
from rankfold.data.io.parquet import batches_of, open_parquet

MARKET = b"%%MatrixMarket matrix coordinate real "


def refused(tmp_path, name, data, message, **options):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataFileError, match=message) as error:
        read_triples(path, **options)
    assert str(error.value).startswith(str(path))


def table_file(*columns, names=("who", "film", "stars"), **options):
    buffer = io.BytesIO()
    parquet.write_table(pa.Table.from_arrays(list(map(pa.array, columns)), names=names), buffer, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"symmetric\n2 9 1\n1 9 5\n", "line 2: a symmetric matrix is square, not 2 × 9"),
        (b"general\n1000000000000 1000000000000 1\n1 1 5\n", "line 2: a matrix of 1,000,000,000,000 rows"),
        (b"general\n2 1000000000000 1\n1 1 5\n", "line 2: a matrix of 1,000,000,000,000 columns"),
        (b"general\n-1 2 0\n", "line 2: a matrix of -1 rows"),
        (b"general\n%" + b"x" * LONGEST_LINE, "line 2: the line is longer than 1,048,576 bytes"),
        (b"general\n2 2 1\r1 1 5\n", "line 2: a carriage return"),
        (b"general\n2 2 1\n" + b"9" * 5000 + b" 1 5\n", "line 3: column 'row' is not between 1 and 2"),
    ],
)
def test_matrix_market_files_that_ask_for_too_much(tmp_path, text, message):
    refused(tmp_path, "x.mtx", MARKET + text, message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"1,2,3\r4,5,6\r", "line 1: a carriage return .CR. without a line feed"),
        (b"1,2,3\n4,5,6\r7,8,9\n", "line 2: a carriage return"),
        (b'1,2,3\n4,"5\r5",6\n', "line 2: a carriage return"),
        (b"a" * 140_000 + b",2,3\n", r"line 1: the line cannot be split \(field larger"),
        (b"1,2,3\n" + b"a" * 140_000 + b",x\n", r"line 2: the line cannot be split \(field larger"),
        (b"x" * (LONGEST_LINE + 1) + b",2,3\n", "line 1: the line is longer"),
        (b"," * 10_000 + b"\n", "the first line has 10,001 columns; 10,000 can be read"),
    ],
)
def test_text_that_programs_do_not_agree_on(tmp_path, text, message):
    refused(tmp_path, "x.csv", text, message)


def test_a_position_that_would_make_an_absurd_matrix(tmp_path):
    text = b"0,1,2\n%d,1,2\n"
    assert read_triples(io.BytesIO(text % (LONGEST_SIDE - 1)), indices=True).shape[0] == LONGEST_SIDE
    for far in (LONGEST_SIDE, 10**18, 10**30):
        refused(tmp_path, "x.csv", text % far, f"line 2: .* between 0 and {LONGEST_SIDE - 1}", indices=True)


def test_one_long_label_does_not_make_all_labels_long(tmp_path):
    text = "".join(f"w{k},x,1\n" for k in range(20_000)) + "w" * 100_000 + ",x,1\n"
    (tmp_path / "x.csv").write_text(text)
    assert read_triples(tmp_path / "x.csv").row_labels.nbytes < 10**6


@pytest.mark.parametrize(
    ("text", "memory"), [(b"x" * 3 * 10**7, 10**7), (b"1,1,1\n" * 5 * 10**6, 10**8)], ids=["line", "lines"]
)
def test_a_gzip_bomb_takes_little_memory(tmp_path, text, memory):
    data = gzip.compress(text, 6)
    tracemalloc.start()
    refused(
        tmp_path, "x.csv.gz", data, "the line is longer|the gzip data would take .* unpack it first: gunzip"
    )
    assert tracemalloc.get_traced_memory()[1] < memory
    tracemalloc.stop()


def test_gzip_of_a_table_that_compresses_well_is_no_bomb():
    text = b"1,1,1\n" * 10**6
    assert len(read_triples(io.BytesIO(gzip.compress(text, 9)))) == 10**6


@pytest.mark.parametrize("names", [("who", "who", "stars"), ("who", "film", "film")])
@pytest.mark.parametrize("columns", [(0, 1, 2), ("who", "film", "stars")])
def test_parquet_with_two_columns_of_one_name(tmp_path, names, columns):
    data = table_file(["a"], ["b"], [1.0], names=names)
    refused(tmp_path, "x.parquet", data, "two columns are called '(who|film)'", columns=columns)


def test_text_with_two_columns_of_one_name(tmp_path):
    text = b"who,film,film,stars\na,b,c,1\n"
    assert read_triples(io.BytesIO(text), (0, 2, 3)).col_labels.tolist() == ["c"]
    refused(tmp_path, "x.csv", text, "two columns are called 'film'", columns=("who", "film", "stars"))


def test_damage_that_parquet_calls_an_os_error_names_the_file(tmp_path):
    data = bytearray(table_file(["a"] * 99, ["b"] * 99, [1.0] * 99, compression="none"))
    data[4:60] = bytes(56)  # the header of the first page
    refused(tmp_path, "x.parquet", bytes(data), r"x\.parquet: ")


def test_a_small_parquet_file_of_very_many_rows(tmp_path):
    column = np.zeros(3_000_000, int)
    refused(
        tmp_path, "x.parquet", table_file(column, column, column), "its table would take 72,000,000 bytes"
    )


@pytest.mark.parametrize(
    ("rows", "sizes", "total"),
    [([5, -2], [9, 9], 3), ([1, 2], [-1, 9], 3), ([1, 2], [9, 9], 4), ([-1], [9], -1)],
    ids=["rows below 0", "bytes below 0", "another sum", "a sum below 0"],
)
def test_parquet_whose_numbers_of_rows_cannot_be(monkeypatch, rows, sizes, total):
    groups = [SimpleNamespace(num_rows=n, total_byte_size=size) for n, size in zip(rows, sizes, strict=True)]
    facts = SimpleNamespace(
        num_rows=total, num_columns=3, num_row_groups=len(groups), row_group=groups.__getitem__
    )
    monkeypatch.setattr(parquet, "ParquetFile", lambda _: SimpleNamespace(metadata=facts))
    with pytest.raises(DataFileError, match=r"^x: a damaged Parquet file: its numbers of rows do not agree$"):
        open_parquet(io.BytesIO(bytes(99)), "x")


def test_parquet_with_strings_that_point_behind_their_end():
    places, letters = (pa.py_buffer(part) for part in (np.array([0, 99, 2], np.int32), b"ab"))
    bad = pa.record_batch([pa.StringArray.from_buffers(2, places, letters)], names=["who"])
    good = pa.record_batch([pa.array(["a", "b"])], names=["who"])
    found = batches_of(SimpleNamespace(iter_batches=lambda *_, columns: iter([good, bad])), ["who"], "x")
    assert next(found) is good
    with pytest.raises(DataFileError, match=r"^x: a damaged Parquet file \(.*\); fetch or write it again$"):
        next(found)


def test_a_long_string_that_comes_often_is_not_repeated_in_memory(tmp_path):
    label = "x" * 20_000
    path = tmp_path / "x.parquet"
    path.write_bytes(table_file([label] * 2000, [7] * 2000, [1.0] * 2000))
    assert read_triples(path).row_labels.tolist() == [label]
    with pytest.raises(DataFileError, match=r"x\.parquet: a column of text would take 40,000,000 bytes"):
        list(read_pairs(path, LabelIndex(1, np.array(["x"])), LabelIndex(9)))


def test_a_pair_behind_a_field_without_end_is_refused_by_line():
    text = b"ann,7,x\nbob,7," + b"x" * 140_000 + b"\nzoe,7,x\n"
    (batch,) = read_pairs(io.BytesIO(text), LabelIndex(1, np.array(["ann"])), LabelIndex(9), header=False)
    with pytest.raises(DataFileError, match="the stream, line 2: the line cannot be split"):
        batch.place(2)


class Failing(io.RawIOBase):
    name = "the disk"

    def readable(self):
        return True

    def readinto(self, buffer):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize("format", ["csv", "mtx", "npz", "parquet"])
def test_an_error_of_the_disk_stays_one_and_names_the_file(format):
    with pytest.raises(OSError, match="the disk") as error:
        read_triples(Failing(), format=format)
    assert error.value.errno == errno.EIO
    assert error.value.filename == "the disk"


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="there is no /dev/stdin")
def test_pipes_and_devices_need_no_ending():
    code = "from rankfold.data import *; print(read_triples('/dev/stdin').values)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=b"x,1,2.5\ny,2,3\n", capture_output=True, check=True
    )
    assert done.stdout == b"[2.5 3. ]\n"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_named_pipe_is_text_unless_its_ending_says_otherwise(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    assert format_of(tmp_path / "pipe", None) == "csv"
    for name in ("file", "/dev/shm/file.xyz"):
        with pytest.raises(ValueError, match="stands for no known format"):
            format_of(tmp_path / name, None)


def test_an_error_names_its_type_to_whoever_catches_it():
    assert issubclass(DataFileError, ValueError)
    with pytest.raises(DataFileError, match="the stream: the file is empty"):
        read_triples(io.BytesIO(b""))
