import gzip
import io
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

import rankfold as rf
from rankfold.data import Triples, random_completion, read_triples, write_triples
from rankfold.data.io import text as text_module
from rankfold.data.io.text import lines_of_entries

TABLES = ["csv", "tsv", "parquet"]
FORMATS = [*TABLES, "mtx", "npz"]
# what text files keep: no blanks at the edges, no line breaks, and not only digits
words = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=6).map(
    lambda word: "w" + word
)
integers = st.integers(-(10**17), 10**17)


def entries(triples):
    """What a set of triples says, whatever the order and the numbering."""
    rows = triples.rows if triples.row_labels is None else triples.row_labels[triples.rows]
    cols = triples.cols if triples.col_labels is None else triples.col_labels[triples.cols]
    return list(zip(rows.tolist(), cols.tolist(), triples.values.tolist(), strict=True))


@st.composite
def labelled(draw):
    kinds = [draw(st.lists(draw(st.sampled_from([words, integers])), min_size=1, unique=True)) for _ in "rc"]
    size = st.integers(0, 10**6)
    pairs = draw(
        st.lists(st.tuples(size, size, st.floats(allow_nan=False, allow_infinity=False)), min_size=1)
    )
    rows, cols, values = (np.array(column) for column in zip(*pairs, strict=True))
    labels = [np.array(sorted(kind)) for kind in kinds]
    shape = (len(labels[0]), len(labels[1]))
    return Triples(rows % shape[0], cols % shape[1], values, shape, *labels)


def through(triples, format, **options):
    buffer = io.BytesIO()
    write_triples(buffer, triples, format=format)
    buffer.seek(0)
    return read_triples(buffer, format=format, **options)


@pytest.mark.parametrize("format", FORMATS)
def test_a_stream_that_cannot_be_wound_back_is_read_like_a_file(format):
    """As a pipe is, or what gzip holds."""
    instance = random_completion((40, 30), 2, 2, seed=0)
    buffer = io.BytesIO()
    write_triples(buffer, instance, format=format)
    options = {"indices": True, "shape": (40, 30)} if format in TABLES else {}
    back = read_triples(io.BytesIO(gzip.compress(buffer.getvalue())), format=format, **options)
    assert entries(back) == entries(instance)


@pytest.mark.parametrize("format", TABLES)
def test_lines_of_row_and_column_alone_have_the_value_1(format):
    text = {"csv": b"user,item\nbob,9\nann,7\nbob,7\n", "tsv": b"bob\t9\nann\t7\nbob\t7\n"}
    buffer = io.BytesIO(text.get(format, b""))
    if format == "parquet":
        parquet.write_table(pa.table({"item": [9, 7, 7], "user": ["bob", "ann", "bob"]}), buffer)
        buffer.seek(0)
    clicks = read_triples(buffer, (None, None), format=format)
    assert entries(clicks) == [("bob", 9, 1.0), ("ann", 7, 1.0), ("bob", 7, 1.0)]
    assert clicks.values.dtype == np.float64


@pytest.mark.parametrize("format", [*TABLES, "npz"])
@given(triples=labelled())
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_labels_and_values_come_back_exactly(format, triples):
    back = through(triples, format)
    assert entries(back) == entries(triples)
    assert back.rows.dtype == back.cols.dtype
    assert (np.sort(back.row_labels) == back.row_labels).all()
    assert back.row_labels.dtype.kind == triples.row_labels.dtype.kind
    assert back.shape == (len(back.row_labels), len(back.col_labels))


@pytest.mark.parametrize(
    ("format", "ending"),
    [*((format, "") for format in FORMATS), ("csv", ".gz"), ("tsv", ".gz"), ("mtx", ".gz")],
)
def test_positions_come_back_exactly_through_every_file(tmp_path, format, ending):
    instance = random_completion((40, 30), 2, 2, seed=0)
    path = tmp_path / f"x.{format}{ending}"
    write_triples(path, instance)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == bool(ending)
    options = {"indices": True, "shape": (40, 30)} if format in TABLES else {}
    back = read_triples(path, **options)
    assert entries(back) == entries(instance)
    assert back.shape == instance.shape
    assert back.rows.dtype == back.cols.dtype == np.int32
    assert back.row_labels is None
    assert list(tmp_path.iterdir()) == [path]


def test_numbering_is_sorted_whatever_the_order_of_lines():
    lines = ["10,b,1\n", "9,c,2\n", "-3,a,3\n", "10,a,4\n"]
    one = read_triples(io.BytesIO("".join(lines).encode()))
    other = read_triples(io.BytesIO("".join(reversed(lines)).encode()))
    assert one.row_labels.tolist() == [-3, 9, 10]
    assert one.col_labels.tolist() == ["a", "b", "c"]
    assert (one.row_labels == other.row_labels).all()
    assert (one.rows == other.rows[::-1]).all()


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("7,x,1\n007,x,1\n", ["007", "7"]),
        (" 7 ,x,1\n7,x,1\n", [7]),
        ("7,x,1\n1e3,x,1\n", ["1e3", "7"]),
        ("-0,x,1\n0,x,-0\n", [0]),
        ("99999999999999999999,x,1\n", ["99999999999999999999"]),
        ("1000000000000000000,x,1\n", [10**18]),
        ("+7,x,1\n7,x,1\n", ["+7", "7"]),
        ("1,x,1\nNA,x,1\n", ["1", "NA"]),
        ("-07,x,1e-05\n", ["-07"]),
        ("7,x,1e-05\n8,x,1E+05\n", [7, 8]),
        ("0,x,0\n10,x,1.05\n", [0, 10]),
    ],
)
@pytest.mark.parametrize("block", [1, 1 << 20])
@pytest.mark.parametrize("other", ["x", "5"])
def test_labels_are_integers_only_if_nothing_is_lost(monkeypatch, text, labels, block, other):
    monkeypatch.setattr(text_module, "BLOCK", block)
    text = text.replace("x", other)
    triples = read_triples(io.BytesIO(text.encode()))
    assert triples.row_labels.tolist() == labels


@pytest.mark.parametrize("text", ["007,1,2", "1,07,2", "1,-07,2", "5,7,2\n01,7,2", "5,7,2\n9,+01,2"])
def test_zeros_in_front_are_noticed(text):
    assert text_module.may_hide_text(f"{text}\n".encode())


@pytest.mark.parametrize("separator", [",", ";", "|", "\t", " "])
def test_zeros_in_front_are_noticed_behind_any_separator(separator):
    assert text_module.may_hide_text(separator.join(["5", "07", "2\n"]).encode())
    assert not text_module.may_hide_text(separator.join(["5", "70", "2\n"]).encode())


@pytest.mark.parametrize("text", ["100,200,3", "0,0,0", "1,2,1.05", "1,2,0.05", "1,2,1e-05\n1,2,1E+05", "0"])
def test_other_zeros_raise_no_alarm(text):
    assert not text_module.may_hide_text(f"{text}\n".encode())


@pytest.mark.parametrize("block", [1, 64, 1 << 20])
@pytest.mark.parametrize("merge", [0, 5, 1 << 18])
def test_blocks_and_merges_leave_no_trace(monkeypatch, block, merge):
    rng = np.random.default_rng(0)
    rows = [f"r{k}" for k in rng.integers(40, size=300)]
    lines = [
        (row, int(col), float(value))
        for row, col, value in zip(rows, rng.integers(30, size=300), rng.random(300), strict=True)
    ]
    monkeypatch.setattr(text_module, "BLOCK", block)
    monkeypatch.setattr("rankfold.data.io.columns.MERGE", max(merge, 1))
    text = "".join(f"{row},{col},{value}\n" for row, col, value in lines)
    assert entries(read_triples(io.BytesIO(text.encode()))) == lines


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("u,i,v\n1,2,3\n4,5,6\n", {}),
        ("1,2,3\n4,5,6\n", {}),
        ("1\t2\t3\n4\t5\t6\n", {}),
        ("1;2;3\r\n4;5;6\r\n", {}),
        ("1|2|3\n4|5|6", {}),
        ("1::2::3::99\n4::5::6::99\n", {}),
        ("1 -- 2 -- 3\n4 -- 5 -- 6\n", {"delimiter": " -- "}),
        *(
            (text, {"delimiter": " "})
            for text in (
                " 1 2 3\n4 5 6\n",
                "1\t2 3\n4 5 6\n",
                "1  2 3\n4 5 6\n",
                "1 2 3 \n4 5 6\n",
                "1 2 3 \r\n4 5 6\r\n",
                "1 2 3\n 4 5 6\n",
                "1 2 3\n4 5 6 ",
                "1  2\t3 \r\n 4 5 6 \n",
            )
        ),
        ("\ufeffu,i,v\n1,2,3\n\n4,5,6\n\n\n", {}),
        ("\n\n1,2,3\n4,5,6\n", {}),
        ('"u","i","v"\n"1","2",3\n"4","5",6\n', {}),
        ("v,when,i,u\n3,x,2,1\n6,y,5,4\n", {"columns": ("u", "i", "v")}),
        ("3,x,2,1\n6,y,5,4\n", {"columns": (3, 2, 0)}),
        ("v,when,i,u\n3,x,2,1\n6,y,5,4\n", {"columns": ("u", 2, 0)}),
        ("1990,1991,1992\n1,2,3\n4,5,6\n", {"header": True}),
    ],
)
def test_layouts_of_text(text, options):
    assert entries(read_triples(io.BytesIO(text.encode()), **options)) == [(1, 2, 3.0), (4, 5, 6.0)]


def test_repeated_pairs_are_kept():
    assert len(read_triples(io.BytesIO(b"1,1,2\n1,1,3\n"))) == 2


def test_parquet_as_data_frames_write_it(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "when": [1.5, 2.5],
            "who": pd.Categorical(["bob", "ann"], ["cy", "ann", "bob"]),
            "film": [7, 3],
            "stars": [4, 5],
        }
    )
    frame.to_parquet(tmp_path / "x.parquet")
    triples = read_triples(tmp_path / "x.parquet", ("who", "film", "stars"))
    assert entries(triples) == [("bob", 7, 4.0), ("ann", 3, 5.0)]
    assert triples.shape == (2, 2)  # nobody called cy


def test_matrix_market_of_other_hands():
    text = (
        b"%%MatrixMarket matrix coordinate integer symmetric\n% made by hand\n\n  3  3 2\n 2  1   5\n3 3 7\n"
    )
    triples = read_triples(io.BytesIO(text), format="mtx")
    assert entries(triples) == [(1, 0, 5.0), (2, 2, 7.0), (0, 1, 5.0)]
    assert triples.shape == (3, 3)


def test_matrix_market_and_npz_agree_with_scipy(tmp_path):
    from scipy import io as scipy_io
    from scipy import sparse

    rng = np.random.default_rng(0)
    matrix = sparse.coo_array(np.where(rng.random((9, 7)) < 0.4, rng.random((9, 7)), 0.0))
    sparse.save_npz(tmp_path / "m.npz", matrix.tocsr())
    scipy_io.mmwrite(tmp_path / "m.mtx", matrix, symmetry="general")
    for name in ("m.npz", "m.mtx"):
        assert sorted(entries(read_triples(tmp_path / name))) == sorted(
            zip(*map(np.ndarray.tolist, (*matrix.coords, matrix.data)), strict=True)
        )
    write_triples(tmp_path / "ours.mtx", read_triples(tmp_path / "m.npz"))
    header, *ours = np.loadtxt(tmp_path / "ours.mtx", comments="%").tolist()
    assert header == [9, 7, matrix.nnz]
    assert sorted((i - 1, j - 1, y) for i, j, y in ours) == sorted(entries(read_triples(tmp_path / "m.mtx")))


def test_standard_input_and_output():
    code = "from rankfold.data import *; write_triples('-', read_triples('-'), ('a', 'b', 'c'))"
    for text in (b"x,1,2.5\ny,2,3\n", gzip.compress(b"x,1,2.5\ny,2,3\n")):
        done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=True)
        assert done.stdout.decode() == 'a,b,c\n"x",1,2.5\n"y",2,3\n'


def test_importing_is_light():
    code = "import sys, rankfold.data; print({'pyarrow', 'scipy', 'numba', 'pandas'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "set()"


def test_memory_stays_near_the_size_of_the_result(tmp_path):
    count = 2_000_000
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(50_000, size=count), rng.integers(20_000, size=count)
    write_triples(tmp_path / "x.csv", Triples(rows, cols, rng.random(count).round(3), (50_000, 20_000)))
    code = f"""
import resource, pyarrow.csv, pyarrow.compute
from rankfold.data import read_triples
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
triples = read_triples({str(tmp_path / "x.csv")!r})
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 - {128 << 20}, len(triples))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    above_the_blocks, read = map(int, done.stdout.split())
    assert read == count
    assert above_the_blocks < 40 * count


def test_a_file_is_replaced_only_by_a_complete_one(tmp_path):
    path = tmp_path / "x.mtx"
    path.write_text("precious")
    labels = Triples(np.array([0]), np.array([0]), np.array([1.0]), (1, 1), np.array(["a"]))
    with pytest.raises(ValueError, match="holds no labels: write csv"):
        write_triples(path, labels)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_integer_labels_far_apart_and_close_are_numbered_alike():
    for far in (9, 10**6, 10**12):
        back = read_triples(io.BytesIO(f"{far},-3,1\n7,5,2\n{far},5,3\n".encode()))
        assert back.row_labels.tolist() == [7, far]
        assert back.col_labels.tolist() == [-3, 5]
        assert back.rows.tolist() == [1, 0, 1]
        assert back.cols.tolist() == [0, 1, 1]


def test_integers_that_turn_out_to_be_text(monkeypatch):
    monkeypatch.setattr(text_module, "BLOCK", 8)
    back = read_triples(io.BytesIO(b"10,1,1\n9,1,2\n7,x,3\n10,1,4\n"))
    assert back.row_labels.tolist() == [7, 9, 10]
    assert back.col_labels.tolist() == ["1", "x"]
    assert back.rows.tolist() == [2, 1, 0, 2]
    assert back.cols.tolist() == [0, 0, 1, 0]


def test_entries_are_found_on_their_lines(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('\nwho,film,stars\nann,Heat,4\n\n"two\nlines",Heat,3\nbob,Ran,2\n')
    assert lines_of_entries(path, [2, 0, 1], (0, 1, 2)) == [7, 3, 6]
    path.write_text("ann::Heat::4\nbob::Ran::2\n")
    assert lines_of_entries(path, [1], (0, 1, 2)) == [2]
    assert read_triples(path).values.tolist() == [4.0, 2.0]


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "as categories"])
def test_unsigned_ids_beyond_int64_are_labels(tmp_path, monkeypatch, encoded):
    """They are strings then, in parquet as in csv, however many batches without them came before."""
    monkeypatch.setattr("rankfold.data.io.parquet.BATCH", 2)
    ids = np.array([7, 3, 7, 2**63 + 5, 3, 2**64 - 1, 7], np.uint64)
    column = pa.array(ids).dictionary_encode() if encoded else pa.array(ids)
    table = pa.table({"user": column, "item": np.arange(7), "rating": np.arange(7.0)})
    parquet.write_table(table, tmp_path / "x.parquet")
    csv.write_csv(pa.table(table).set_column(0, "user", pa.array(ids)), tmp_path / "x.csv")
    triples, text = (read_triples(tmp_path / f"x.{kind}") for kind in ("parquet", "csv"))
    names = [str(name) for name in ids]
    assert triples.row_labels[triples.rows].tolist() == text.row_labels[text.rows].tolist() == names
    model = rf.MatrixCompletion(1, regularization=1.0).fit(triples)
    assert np.isfinite(model.predict([(str(2**63 + 5), 3)])).all()


def test_unsigned_ids_within_int64_are_integers(tmp_path):
    ids = np.array([7, 3, 2**63 - 1], np.uint64)
    table = pa.table({"user": ids, "item": np.arange(3), "rating": np.arange(3.0)})
    parquet.write_table(table, tmp_path / "x.parquet")
    assert read_triples(tmp_path / "x.parquet").row_labels.tolist() == [3, 7, 2**63 - 1]
