"""Tables that somebody made to do harm."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from rankfold.cli.table_files import numbers, read_table
from rankfold.data import DataFileError


def refused(path, message):
    with pytest.raises(DataFileError, match=message) as error:
        read_table(str(path), None, None)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a,a\n1,2\n", "two columns are called 'a'"),
        (b"," * 50_000 + b"\n1\n", "the first line has 50,001 columns; 50,000 can be read"),
        (b"a,b\n1\n", "lines of equal length are needed"),
        (b"a,b\n", "nothing below the header"),
        (b"", "the file is empty"),
    ],
)
def test_text(tmp_path, text, message):
    (tmp_path / "x.csv").write_bytes(text)
    refused(tmp_path / "x.csv", message)


@pytest.mark.parametrize(
    ("columns", "names", "message"),
    [
        (([1], [2]), ("a", "a"), "two columns are called 'a'"),
        (([0] * 2_000_000, [0] * 2_000_000), ("a", "b"), "its table would take 32,000,000 bytes"),
        ((["x" * 20_000] * 2000, [1] * 2000), ("a", "b"), "a column of text would take 40,000,000 bytes"),
    ],
)
def test_parquet(tmp_path, columns, names, message):
    parquet.write_table(pa.Table.from_arrays(list(map(pa.array, columns)), names), tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", message)


def test_what_is_no_parquet(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1" * 9)
    refused(tmp_path / "x.parquet", "not a Parquet file")


def test_integers_that_floating_point_numbers_round(tmp_path):
    parquet.write_table(pa.table({"a": pa.array([2**64 - 1], pa.uint64())}), tmp_path / "x.parquet")
    table = read_table(str(tmp_path / "x.parquet"), None, None)
    assert numbers(table, ["a"], "x").tolist() == [[2.0**64]]
