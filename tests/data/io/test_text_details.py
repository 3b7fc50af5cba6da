"""Delimited text to the last detail: delimiters, decimals, the longest lines, and what is said of them."""

import io

import numpy as np
import pytest

from rankfold.data import DataFileError, LabelIndex, Triples, read_pairs, read_triples, write_triples
from rankfold.data.io import limits, text
from rankfold.data.io.files import matching_files
from rankfold.data.io.limits import LONGEST_LINE, MOST_COLUMNS, check_expansion
from rankfold.data.io.lines import blocks, lines_from
from rankfold.data.io.text import is_number, lines_of_entries, may_hide_text, sniff


def read(content, **options):
    return read_triples(io.BytesIO(content if isinstance(content, bytes) else content.encode()), **options)


def entry(triples):
    """The first entry."""
    row, col = triples.rows[0], triples.cols[0]
    labels = triples.row_labels[row].item(), triples.col_labels[col].item()
    return *labels, float(triples.values[0])


@pytest.mark.parametrize(
    ("content", "options", "found"),
    [
        ("w,1;2;3\n", {}, ("w,1", 2, 3.0)),
        ("w 1,x 2,3\n", {}, ("w 1", "x 2", 3.0)),
        ("a;b\t2\t3\n", {"format": "tsv", "delimiter": ";"}, ("a;b", 2, 3.0)),
        ("1;2;3,5\n", {"decimal": ","}, (1, 2, 3.5)),
        ("1\t2\t-3,25e1\n", {"decimal": ","}, (1, 2, -32.5)),
        ("u;i;v\n1;2;3,5\n", {"decimal": ","}, (1, 2, 3.5)),
        ("1;2;3.5\n1;2;3,5\n", {"decimal": ","}, (1, 2, 3.5)),  # a header: "3.5" is no number
        ("1:2:3\n", {"delimiter": ":"}, (1, 2, 3.0)),
    ],
)
def test_delimiters_and_decimals(content, options, found):
    triples = read(content, **options)
    assert (entry(triples), len(triples)) == (found, 1)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("12\n", {"decimal": ","}, "the first line has 1 separated by ';': '12'"),
        ("12\n", {}, "the first line has 1 separated by ',': '12'"),
        (b"\x80,2,3\n", {}, "line 1: column '0' is not UTF-8 text"),
        (b"\xff,2,3\n", {}, "line 1: column '0' is not UTF-8 text"),
        ("1;2;3\n1;2;3,5\n", {}, r"--decimal , \(in Python decimal=','\): line 2, column '2', holds a deci"),
        ("1;2;3\n1;2;3,5,7\n", {}, "line 2: column '2' is not a number: '3,5,7'"),
        ("1;2;3\n1;2;x\n", {"decimal": ","}, "line 2: column '2' is not a number: 'x'"),
        ("1;2;3\n1;2;1.5\n", {"decimal": ","}, r"line 2: column '2' is not a number: '1\.5'"),
        ("1;2;3\n1;2;inf\n", {"decimal": ","}, "line 2: column '2' is not finite: 'inf'"),
    ],
)
def test_what_is_said_of_text_that_cannot_be_read(content, options, message):
    with pytest.raises(DataFileError, match=f"^the stream.*{message}"):
        read(content, **options)


@pytest.mark.parametrize("decimal", ["", "ab", "5", "x"])
def test_a_decimal_point_is_one_sign(decimal):
    with pytest.raises(ValueError, match=r"decimal must be one character, '\.' or ',', got"):
        read("1;2;3\n", decimal=decimal)


@pytest.mark.parametrize(
    ("field", "decimal", "due"),
    [
        ("1.5", ".", True),
        ("1.5", ",", False),
        ("1,5", ",", True),
        ("1,5", ".", False),
        (" -2e3 ", ",", True),
        ("", ".", False),
        ("x", ",", False),
    ],
)
def test_numbers_are_those_with_this_decimal_point(field, decimal, due):
    assert is_number(field, decimal) is due


@pytest.mark.parametrize(
    "content", ["07,1,2", "1e-05,07,2", "07,1,1e-05", "5:07:2", "5/07/2", "3,1e-05\n08,2"]
)
def test_zeros_in_front_are_noticed_beside_others(content):
    assert may_hide_text(f"{content}\n".encode())


def test_lines_are_found_by_the_decimals_they_have_and_whatever_other_columns_hold(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("1;2;3,5\n4;5;6,5\n")
    assert lines_of_entries(path, [0, 1], (0, 1, 2), decimal=",") == [1, 2]
    path.write_bytes(b"1,2,3,\xff\n4,5,6,\xfe\n")
    assert lines_of_entries(path, [1, 0], (0, 1, 2)) == [2, 1]


def test_a_line_may_be_as_long_as_the_longest():
    longest = b"x" * (LONGEST_LINE - 1) + b"\n"
    assert list(lines_from(io.BytesIO(longest), "f", 1)) == [(1, longest)]
    assert [number for number, _ in blocks(io.BytesIO(longest), 0, "f", b"", 1)] == []
    stream = io.BytesIO(b"a\nb" + longest + b"c\n")
    assert [(number, len(block)) for number, block in blocks(stream, 3, "f", b"", 5)] == [
        (5, LONGEST_LINE + 3),
        (7, 2),
    ]
    with pytest.raises(DataFileError, match=r"^f, line 6: the line is longer than 1,048,576 bytes"):
        list(blocks(io.BytesIO(b"a\nb" + b"x" + longest), 3, "f", b"", 5))
    with pytest.raises(DataFileError, match=r"^f, line 8: the line is longer than 1,048,576 bytes"):
        list(lines_from(io.BytesIO(b"\nx" + longest), "f", 7))


def test_a_file_may_have_as_many_columns_as_the_most():
    line = b",".join([b"1"] * MOST_COLUMNS) + b"\n"
    layout, first, number = sniff(io.BytesIO(line), "f", (None, None, None), None, None)
    assert (len(layout.names), layout.places, first, number) == (MOST_COLUMNS, (0, 1, 2), line, 1)
    with pytest.raises(DataFileError, match="f: the first line has 10,001 columns; 10,000 can be read"):
        sniff(io.BytesIO(b"1," + line), "f", (None, None, None), None, None)


@pytest.mark.parametrize("packed", [0, 7])
def test_what_is_packed_may_hold_a_hundred_times_its_size_and_some(packed):
    most = limits.FREE + 100 * packed
    check_expansion(most, packed, "f", "it", "unpack it")
    with pytest.raises(
        DataFileError, match=rf"^f: it would take {most + 1:,} bytes or more, made of {packed}"
    ):
        check_expansion(most + 1, packed, "f", "it", "unpack it")


def triples_of(count=5):
    k = np.arange(count)
    return Triples(k % 3, k % 2, k + 0.5, (3, 2))


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet", "mtx", "npz"])
def test_entries_are_written_batch_after_batch(monkeypatch, format):
    for module in ("files", "matrices", "parquet"):
        monkeypatch.setattr(f"rankfold.data.io.{module}.BATCH", 2)
    for count in (1, 4, 5):
        buffer = io.BytesIO()
        write_triples(buffer, triples_of(count), format=format)
        options = {"indices": True, "shape": (3, 2)} if format in ("csv", "tsv", "parquet") else {}
        back = read_triples(io.BytesIO(buffer.getvalue()), format=format, **options)
        for name in ("rows", "cols", "values"):
            assert getattr(back, name).tolist() == getattr(triples_of(count), name).tolist()
        assert not buffer.closed


@pytest.mark.parametrize(
    ("format", "delimiter", "lines"),
    [
        ("csv", None, ['"a;b","c,d",e', '"x;y",0,0.5']),
        ("csv", ";", ['"a;b";c,d;e', '"x;y";0;0.5']),
        ("tsv", ";", ["a;b\tc,d\te", '"x;y"\t0\t0.5']),
    ],
)
def test_text_is_written_with_its_delimiter_and_names_that_hold_it_in_quotes(format, delimiter, lines):
    buffer = io.BytesIO()
    one = Triples(np.array([0]), np.array([0]), np.array([0.5]), (1, 1), np.array(["x;y"]))
    write_triples(buffer, one, ("a;b", "c,d", "e"), format=format, delimiter=delimiter)
    lines[0] = lines[0].replace('"a;b","c,d"', 'a;b,"c,d"')
    assert buffer.getvalue().decode() == "\n".join([*lines, ""])


def test_gzip_holds_neither_a_time_nor_a_name(tmp_path):
    for name in ("a.csv.gz", "other.csv.gz"):
        write_triples(tmp_path / name, triples_of())
    one, other = ((tmp_path / name).read_bytes() for name in ("a.csv.gz", "other.csv.gz"))
    assert one == other
    assert (one[3], one[4:8]) == (0, bytes(4))


def test_of_files_read_together_the_first_names_the_columns_and_an_empty_one_is_named(tmp_path):
    (tmp_path / "a.csv").write_text("u,i,v\n1,2,3\n")
    (tmp_path / "b.csv").write_text("x,y,z\n4,5,6\n")
    both = read_triples([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert (both.names, both.row_labels.tolist()) == (("u", "i", "v"), [1, 4])
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("u,i,v\n")
    with pytest.raises(
        DataFileError, match=r"b\.csv: there is nothing below the header; rows of row, column"
    ):
        read_triples([tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(ValueError, match="there are no files: give one at least"):
        read_triples([])


def test_patterns_stand_for_the_files_there_are_in_order_and_names_for_themselves(tmp_path):
    for name in ("b.csv", "a.csv", "a[b].csv", "c.txt"):
        (tmp_path / name).write_text("")
    found = matching_files([tmp_path / "*.csv", str(tmp_path / "a[b].csv"), tmp_path / "none.csv"])
    assert [path.name for path in found] == ["a.csv", "a[b].csv", "b.csv", "a[b].csv", "none.csv"]
    assert [path.name for path in matching_files([tmp_path / "[ac].*"])] == ["a.csv", "c.txt"]
    with pytest.raises(FileNotFoundError, match=r"x\*\.csv: no file has such a name; is the folder right"):
        matching_files([tmp_path / "x*.csv"])


WHO, FILMS = LabelIndex(2, np.array(["ann", "bob"])), LabelIndex(2, np.array(["Alien", "Heat"]))


@pytest.mark.parametrize(
    ("content", "rows", "cols"),
    [
        ("ann,Solaris\nbob,Heat\n", [0, 1], [-1, 1]),
        ("zoe,Alien\nbob,Heat\n", [-1, 1], [0, 1]),
        ("zoe,Solaris\nbob,Heat\n", [1], [1]),
        ("\n\nann,Heat\n\n\n\nbob,Alien\n\n\n\n\n\n", [0, 1], [1, 0]),
    ],
)
@pytest.mark.parametrize("block", [1, 4, 1 << 20])
def test_a_first_line_of_which_one_label_is_known_is_a_pair(monkeypatch, content, rows, cols, block):
    monkeypatch.setattr(text, "BLOCK", block)
    batches = list(read_pairs(io.BytesIO(content.encode()), WHO, FILMS))
    assert [int(i) for batch in batches for i in batch.rows] == rows
    assert [int(j) for batch in batches for j in batch.cols] == cols


def test_pairs_of_a_tsv_are_split_at_tabs_whatever_the_delimiter():
    (batch,) = read_pairs(io.BytesIO(b"ann\tHeat\n"), WHO, FILMS, format="tsv", delimiter=";")
    assert (batch.rows.tolist(), batch.cols.tolist()) == ([0], [1])


@pytest.mark.parametrize(
    ("content", "place"), [(",Heat\nbob,Heat\n", "1: column '0'"), ("bob,\n", "1: column '1'")]
)
def test_a_pair_lacks_no_label_from_the_first_on(content, place):
    with pytest.raises(DataFileError, match=f"the stream, line {place} is empty: ''"):
        list(read_pairs(io.BytesIO(content.encode()), WHO, FILMS, header=False))
