"""Reading pairs of labels onto the labels of a matrix."""

import io

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from rankfold.data import LabelIndex, read_pairs

WHO = LabelIndex(3, np.array(["ann", "bob", "eve, 2nd"]))
FILMS = LabelIndex(2, np.array(["Alien", "Heat"]))
NUMBERED = LabelIndex(3, np.array([7, 10, 300]))
PLACES = LabelIndex(2)


def read(text, rows=WHO, cols=FILMS, **options):
    batches = list(read_pairs(io.BytesIO(text.encode()), rows, cols, **options))
    return [int(i) for b in batches for i in b.rows], [int(j) for b in batches for j in b.cols], batches


@pytest.mark.parametrize("header", ["", "who,film\n"])
def test_labels_become_positions(header):
    rows, cols, batches = read(f'{header}bob,Heat\n"eve, 2nd",Alien\nzoe,Heat\n ann , Solaris\n')
    assert rows == [1, 2, -1, 0]
    assert cols == [1, 0, 1, -1]
    assert batches[0].row_labels.to_pylist() == ["bob", "eve, 2nd", "zoe", "ann"]


def test_a_line_taken_for_a_header_is_told():
    assert read("who,film\nbob,Heat\n")[2][0].header == ("who", "film")
    assert read("bob,Heat\n")[2][0].header is None
    with pytest.raises(ValueError, match="nothing below the header, 'zoe', 'Ran'; if that"):
        read("zoe,Ran\n\n")
    assert read("zoe,Ran\n", header=False)[0] == [-1]


def test_columns_by_name_and_delimiter():
    rows, cols, _ = read("film;stars;who\nHeat;4;ann\n", columns=("who", "film"), delimiter=";")
    assert (rows, cols) == ([0], [1])


def test_integer_labels_and_positions():
    assert read("7,1\n300,0\n8,5\n", NUMBERED, PLACES)[:2] == ([0, 2, -1], [1, 0, -1])
    assert read("user,item\n10,1\n", NUMBERED, PLACES)[:2] == ([1], [1])
    assert read("007,1\nseven,1\n", NUMBERED, PLACES)[:2] == ([-1, -1], [1, 1])
    assert read("7,1\n", LabelIndex(1, np.array(["7"])), PLACES)[:2] == ([0], [1])


def test_an_unknown_first_pair_of_numbers_is_no_header():
    assert read("8,5\n7,0\n", NUMBERED, PLACES)[0] == [-1, 0]


def test_lines_are_named_also_after_blank_and_broken_ones(monkeypatch):
    text = 'who,film\nbob,Heat\n\n"two\nlines",Heat\nzoe,Heat\n'
    batch = read(text)[2][0]
    assert [batch.place(k) for k in range(3)] == [f"the stream, line {n}" for n in (2, 5, 6)]
    monkeypatch.setattr("rankfold.data.io.text.BLOCK", 4)
    batches = read("ann,Heat\nbob,Heat\nzoe,Heat\n", header=False)[2]
    assert [b.place(k).rpartition(" ")[2] for b in batches for k in range(len(b))] == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the stream: the file is empty"),
        ("ann\n", "two columns .row, column. are needed, the first line has 1"),
        ("ann,Heat\nbob\n", "line 2: 1 columns where the first line has 2"),
        ("ann,Heat\nbob,\n", "line 2: column '1' is empty"),
    ],
)
def test_what_cannot_be_read_is_said(text, message):
    with pytest.raises(ValueError, match=message):
        read(text)


def test_empty_integer_label():
    with pytest.raises(ValueError, match="line 2: column '1' is empty"):
        read("7,1\n10,\n", NUMBERED, PLACES)


def test_rows_of_parquet_are_counted_on_from_batch_to_batch(tmp_path, monkeypatch):
    monkeypatch.setattr("rankfold.data.io.parquet.BATCH", 2)
    path = tmp_path / "pairs.parquet"
    parquet.write_table(pa.table({"film": ["Heat"] * 5, "id": [300] * 5}), path)
    batches = list(read_pairs(path, NUMBERED, FILMS, ("id", "film")))
    assert [b.place(k) for b in batches for k in range(len(b))] == [f"{path}, row {n}" for n in range(1, 6)]


def test_parquet(tmp_path):
    path = tmp_path / "pairs.parquet"
    table = {"film": pa.array(["Heat", "Ran"]).dictionary_encode(), "id": [300, 8]}
    parquet.write_table(pa.table(table), path)
    (batch,) = read_pairs(path, NUMBERED, FILMS, ("id", "film"))
    assert batch.rows.tolist() == [2, -1]
    assert batch.cols.tolist() == [1, -1]
    assert batch.place(1) == f"{path}, row 2"
    parquet.write_table(pa.table({"film": ["Heat", None], "id": [300, 8]}), path)
    with pytest.raises(ValueError, match="row 2: column 'film' is empty"):
        list(read_pairs(path, NUMBERED, FILMS, ("id", "film")))


def test_labels_are_told_as_text_unless_both_sides_are_integers():
    names = LabelIndex(1, np.array(["7"]))
    for rows, cols, told in ((names, PLACES, "71"), (NUMBERED, names, "71"), (NUMBERED, PLACES, [7, 1])):
        (batch,) = read("7,1\n", rows, cols)[2]
        assert [*batch.row_labels.to_pylist(), *batch.col_labels.to_pylist()] == list(told)


def test_what_a_file_calls_its_columns_is_told(tmp_path):
    (named,) = read("stars,film,who\n4,Heat,ann\n", columns=("who", "film"))[2]
    assert (named.names, named.header) == (("who", "film"), ("stars", "film", "who"))
    assert read("ann,Heat\n", header=False)[2][0].names == ("row", "column")
    parquet.write_table(pa.table({"x": [1], "film": ["Heat"], "id": [300]}), tmp_path / "x.parquet")
    (batch,) = read_pairs(tmp_path / "x.parquet", NUMBERED, FILMS, ("id", "film"))
    assert (batch.names, batch.header, len(batch)) == (("id", "film"), None, 1)
    assert (batch.row_labels.to_pylist(), batch.col_labels.to_pylist()) == ([300], ["Heat"])


def test_a_column_of_text_in_which_all_is_empty(tmp_path):
    parquet.write_table(
        pa.table({"film": pa.array([None, None], pa.string()), "id": [7, 8]}), tmp_path / "x.pq"
    )
    with pytest.raises(ValueError, match="row 1: column 'film' is empty; drop or fill it"):
        list(read_pairs(tmp_path / "x.pq", NUMBERED, FILMS, ("id", "film")))


def test_other_formats_and_columns_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not from npz"):
        list(read_pairs(tmp_path / "x.npz", WHO, FILMS))
    with pytest.raises(ValueError, match="two columns"):
        read("a,b\n", columns=(0, 1, 2))
    with pytest.raises(ValueError, match="there is no column 'x'; there are: 'who', 'film'"):
        read("who,film\nann,Heat\n", columns=("who", "x"))


LABELS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Z"]), min_size=1)


@given(st.lists(LABELS, min_size=1))
def test_positions_are_those_of_a_dictionary(names):
    labels = np.unique(names[::2])
    expected = [labels.tolist().index(name) if name in labels.tolist() else -1 for name in names]
    assert LabelIndex(len(labels), labels).find_arrow(pa.array(names)).tolist() == expected
