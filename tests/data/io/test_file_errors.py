import gzip
import io

import numpy as np
import pytest

from rankfold.data import DataFileError, Triples, read_triples, write_triples
from rankfold.data.io import files
from rankfold.data.io import text as text_module

HEAD = "user,item,rating\n"


@pytest.fixture(params=["", ".gz"])
def path(tmp_path, request):
    return tmp_path / f"x.csv{request.param}"


def put(path, text):
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("block", [8, 1 << 20])
@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            HEAD + "1,2,3\n1,3,abc\n",
            {},
            r", line 3: column 'rating' is not a number: 'abc'; correct the line",
        ),
        ("1,2,3\n\n\n1,3,abc\n", {}, r", line 4: column '2' is not a number: 'abc'"),
        (HEAD + "1,2,3\n1,3,\n", {}, r", line 3: column 'rating' is empty: ''"),
        (HEAD + "1,2,3\n1,3,NaN\n", {}, r", line 3: column 'rating' is not finite: 'NaN'"),
        (HEAD + "1,2,3\n1,3,inf\n", {}, r", line 3: column 'rating' is not finite: 'inf'"),
        (HEAD + "1,2,3\n1,3,NA\n", {}, r", line 3: column 'rating' is not a number: 'NA'"),
        (
            HEAD + "1,2,3\n1,  ,3\n",
            {},
            r", line 3: column 'item' is empty: '  '; .* another column for the column",
        ),
        (HEAD + "1,2,3\n1,2\n", {}, r", line 3: 2 columns where the first line has 3: '1,2'; quote fields"),
        ("1::2::3\n1::2::x\n", {}, r", line 2: column '2' is not a number: 'x'"),
        (HEAD + "1,2,3\na,2,3\n", {"indices": True}, r", line 3: column 'user' is not an integer: 'a'"),
        (
            HEAD + "1,2,3\n1,-2,3\n",
            {"indices": True},
            r", line 3: column 'item' is not between 0 and 4294967295: '-2'",
        ),
        (
            HEAD + "1,2,3\n1,9,3\n",
            {"indices": True, "shape": (5, 5)},
            r", line 3: column 'item' is not between 0 and 4: '9'",
        ),
        (
            HEAD + "1,2,3\n",
            {"columns": ("user", "film", "rating")},
            "no column 'film'; there are: 'user', 'item'",
        ),
        ("1,2,3\n", {"columns": (0, 1, 3)}, "there is no column 3; there are: 3 columns and no header"),
        (
            HEAD + "1,2,3\n",
            {"columns": ("user", "item", "rating"), "header": False},
            "3 columns and no header",
        ),
        (HEAD, {}, "there is nothing below the header"),
        ("", {}, "the file is empty"),
        ("\n\n", {}, "the file is empty"),
        (
            "1,2\n",
            {},
            "three columns .* are needed, the first line has 2 separated by ',': '1,2'; if another",
        ),
        (HEAD.encode() + b"1,2,3\n\xff,2,3\n", {}, ", line 3: column 'user' is not UTF-8 text"),
        (HEAD.encode() + b"1,2,3\nJos\xe9,2,3\n", {}, ", line 3: column 'user' is not UTF-8 text"),
    ],
)
def test_what_is_wrong_and_where(path, monkeypatch, block, text, options, message):
    monkeypatch.setattr(text_module, "BLOCK", block)
    put(path, text)
    with pytest.raises(DataFileError, match=message) as caught:
        read_triples(path, **options)
    assert str(caught.value).startswith(str(path))


def test_the_line_is_found_far_into_a_file(path, monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK", 1000)
    lines = [f"{k},{k + 1},{k / 7}\n" for k in range(5000)]
    lines[4321] = "7,8,9.9.9\n"
    put(path, HEAD + "".join(lines))
    with pytest.raises(DataFileError, match=r"line 4323: column 'rating' is not a number: '9\.9\.9'"):
        read_triples(path)


def test_what_only_pyarrow_refuses_is_passed_on():
    with pytest.raises(DataFileError, match=r"the stream, from line 1: .*1_000"):
        read_triples(io.BytesIO(b"1,2,1_000\n"), header=False)


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: data[:40] + b"x" * 40])
def test_damaged_gzip(tmp_path, damage):
    path = tmp_path / "x.csv.gz"
    text = "".join(f"{k},{k * k % 97},{k % 5}\n" for k in range(1000)).encode()
    path.write_bytes(damage(gzip.compress(text)))
    with pytest.raises(DataFileError, match=r"x\.csv\.gz: the gzip data is damaged"):
        read_triples(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv"):
        read_triples(tmp_path / "nowhere.csv")
    with pytest.raises(FileNotFoundError, match=r"x\.csv"):
        write_triples(tmp_path / "nowhere" / "x.csv", read_triples(io.BytesIO(b"1,2,3\n")))


def test_an_unknown_format_lists_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=r"'\.xlsx' stands for no known format; known are \.csv"):
        read_triples(tmp_path / "x.xlsx")
    with pytest.raises(ValueError, match=r"format must be one of \['csv', .*, got 'json'"):
        read_triples(tmp_path / "x.csv", format="json")


@pytest.mark.parametrize("columns", [(0,), (0, 0), ("u", "u", "v"), (0, 0, 1)])
def test_different_columns_are_needed(columns):
    with pytest.raises(ValueError, match="columns must name"):
        read_triples(io.BytesIO(b"u,v,w\n1,2,3\n"), columns)
    with pytest.raises(ValueError, match="three different names"):
        write_triples(io.BytesIO(), read_triples(io.BytesIO(b"1,2,3\n")), columns)


def test_options_that_do_not_fit():
    with pytest.raises(ValueError, match="shape goes with indices=True"):
        read_triples(io.BytesIO(b"1,2,3\n"), shape=(3, 3))
    with pytest.raises(ValueError, match=r"npz is not compressed with gzip; leave out \.gz"):
        write_triples("x.npz.gz", read_triples(io.BytesIO(b"1,2,3\n")))
    with pytest.raises(TypeError, match="opened in binary mode"):
        read_triples(io.StringIO("1,2,3\n"))


@pytest.mark.parametrize(
    ("column", "values", "message"),
    [
        ("user", ["a", None], r"row 2: column 'user' is empty"),
        ("user", ["a", ""], r"row 2: column 'user' is empty"),
        ("item", [1, None], r"column 'item' holds double; the column must hold integers or strings"),
        ("rating", [1.0, None], r"row 2: column 'rating' is empty, NaN or infinite"),
        ("rating", ["1", "2"], r"column 'rating' holds .*string; the value must hold numbers"),
    ],
)
def test_parquet_errors_name_the_row(tmp_path, column, values, message):
    pd = pytest.importorskip("pandas")
    table = {"user": ["a", "b"], "item": [1, 2], "rating": [1.0, 2.0]} | {column: values}
    pd.DataFrame(table).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataFileError, match=r"x\.parquet.*" + message):
        read_triples(tmp_path / "x.parquet")


def test_parquet_that_is_none(tmp_path):
    (tmp_path / "x.parquet").write_text("1,2,3\n")
    with pytest.raises(DataFileError, match=r"x\.parquet: not a Parquet file"):
        read_triples(tmp_path / "x.parquet")


BANNER = "%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n", "line 1: not a Matrix Market file"),
        (
            BANNER.replace("real", "pattern") + "2 2 1\n1 1\n",
            "line 1: the file holds '.*pattern general'; only",
        ),
        (BANNER.replace("coordinate", "array") + "1 1\n1\n", "line 1: the file holds 'matrix array"),
        (BANNER + "% nothing\n", "ends before the line that tells its size"),
        (
            BANNER + "2 2\n1 1 1\n",
            "line 2: rows, columns and entries as three integers are needed, got '2 2'",
        ),
        (BANNER + "2 2 1\n0 1 1\n", "line 3: column 'row' is not between 1 and 2: '0'"),
        (BANNER + "%\n2 2 2\n1 1 1\n1 3 1\n", "line 5: column 'column' is not between 1 and 2: '3'"),
        (BANNER + "2 2 1\n1 1 x\n", "line 3: column 'value' is not a number: 'x'"),
        (BANNER + "2 2 2\n1 1 1\n", "line 2 promises 2 entries, but the file holds 1"),
    ],
)
def test_matrix_market_errors(text, message):
    with pytest.raises(DataFileError, match="the stream.*" + message):
        read_triples(io.BytesIO(text.encode()), format="mtx")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"values": np.array([1.0, np.nan])}, "entry 2 is nan"),
        ({"rows": np.array([0, 5])}, "rows of entry 2 is 5, not between 0 and 1"),
        ({"cols": np.array([-1, 0])}, "cols of entry 1 is -1, not between 0 and 1"),
        ({"values": np.array([1.0])}, "equally long"),
        ({"row_labels": np.array(["a", None], dtype=object)}, "Python objects, which are never unpickled"),
        ({"shape": None}, "no array named 'shape'"),
    ],
)
def test_archives_are_checked(tmp_path, change, message):
    good = {
        "rows": np.array([0, 1]),
        "cols": np.array([1, 0]),
        "values": np.ones(2),
        "shape": np.array([2, 2]),
    }
    arrays = {name: array for name, array in (good | change).items() if array is not None}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(
        DataFileError, match=r"x\.npz: not an archive of triples, or a damaged one.*" + message
    ):
        read_triples(tmp_path / "x.npz")


def test_a_cut_archive(tmp_path):
    path = tmp_path / "x.npz"
    write_triples(path, Triples(np.array([0]), np.array([0]), np.array([1.0]), (1, 1)))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataFileError, match=r"x\.npz: not an archive of triples"):
        read_triples(path)


@pytest.mark.parametrize(
    ("names", "due"),
    [
        (["a.csv"], "csv"),
        (["a.parquet", "b.parquet"], "parquet"),
        (["a.mtx"], "mtx"),
        (["a.csv", "b.tsv"], "csv"),
        (["a.csv", "b.parquet"], "some files are Parquet and some are text"),
        (["a.mtx", "b.csv"], "a file of the format mtx holds a whole matrix: give one alone"),
        (["a.npz", "b.npz"], "a file of the format npz holds a whole matrix: give one alone"),
    ],
)
def test_files_that_are_read_together_have_one_format(names, due):
    if due.isalpha():
        assert files._one_format(names, None) == due
    else:
        with pytest.raises(ValueError, match=due):
            files._one_format(names, None)


def test_a_column_that_was_chosen_may_hold_times():
    """One that was only found to be next may not, whatever else was chosen."""
    text = b"a,b,c\nx,y,1100000000\nz,w,1100000001\n"
    for columns in ((None, None, "c"), ("a", None, "c"), (0, 1, 2)):
        assert read_triples(io.BytesIO(text), columns=columns).values.tolist() == [1100000000, 1100000001]
    for columns in ((None, None, None), ("a", "b", None)):
        with pytest.raises(DataFileError, match=r"column 'c' looks like times \(1100000000\)"):
            read_triples(io.BytesIO(text), columns=columns)
