"""Positions of labels, however a name is given."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankfold.data import LabelIndex, Triples, read_triples, write_triples
from rankfold.data.numbering import _index_type, joined, label_column, numbered, string_array

NAMED = LabelIndex(3, np.array(["bob", "ann", "7"]))
NUMBERED = LabelIndex(3, np.array([300, -7, 10]), "column")
UNSIGNED = LabelIndex(2, np.array([2**63, 2**63 + 2], dtype=np.uint64))
ENDING = LabelIndex(2, np.array(["a", "a\0"], dtype=object))
HOURS = LabelIndex(2, np.array(["2024-02-28T01", "2024-02-28T23"], dtype="M8[h]"))
DAYS = LabelIndex(2, np.array(["2024-02-28", "2024-02-29"], dtype="M8[D]"))
PLACES = LabelIndex(3)


@pytest.mark.parametrize(
    ("index", "text", "position"),
    [
        (NAMED, "ann", 1),
        (NAMED, "7", 2),
        (NAMED, "07", -1),
        (NUMBERED, "-7", 1),
        (NUMBERED, "010", -1),
        (NUMBERED, "10\n", -1),
        (NUMBERED, "ann", -1),
        (NUMBERED, "1" + "0" * 40, -1),
        (UNSIGNED, str(2**63 + 2), 1),
        (UNSIGNED, "-1", -1),
        (ENDING, "a\0", 1),
        (ENDING, "a", 0),
        (ENDING, "a\0\0", -1),
        (DAYS, "2024-02-29", 1),
        (DAYS, "29", -1),
        (HOURS, "2024-02-28T23", 1),
        (PLACES, "2", 2),
        (PLACES, "9" * 40, -1),
        (PLACES, "3", -1),
        (PLACES, "-1", -1),
    ],
)
def test_text_stands_for_the_same_one_by_one_and_in_a_column(index, text, position):
    assert index.find_text(text) == position
    found = index.find_arrow(pa.array([text]))
    assert (found.tolist(), found.dtype) == ([position], np.int64)


def test_text_that_must_be_there_is_answered_with_the_nearest():
    assert NUMBERED.require_text("300") == 0
    with pytest.raises(KeyError, match=r"the column label '30' is not in this model, which knows \d others"):
        NUMBERED.require_text("30")
    with pytest.raises(KeyError, match="the row label 'anm' is not in this model: did you mean 'ann'"):
        NAMED.require_text("anm")
    with pytest.raises(KeyError, match="row 3 is not in this model, which has rows 0 to 2"):
        PLACES.require_text("3")


def test_times_that_are_not_there_are_written_as_text():
    for day, unit in (("2024-03-01", "D"), ("2024-02-29T12", "h")):
        with pytest.raises(KeyError, match=f"label '{day}' is not in this model"):
            DAYS.require(np.array(["2024-02-29", day], f"M8[{unit}]"))
    with pytest.raises(
        KeyError, match=r"label '1999' is not .*, which knows 2 others, such as '2024-02-28'$"
    ):
        DAYS.require(np.array(["1999"], "M8[Y]"))
    with pytest.raises(KeyError, match="label 'Monday' is not in this model"):
        DAYS.require_text("Monday")
    with pytest.raises(TypeError, match="are like '2024-02-28'; got 3: give such labels"):
        DAYS.find(np.array([3]))
    assert DAYS.find(np.array(["2024-02-29T00", "2024-02-28T01"], "M8[h]")).tolist() == [1, -1]


def test_the_nearest_spelling_is_looked_for_among_all_but_numbers_have_none(monkeypatch):
    words = LabelIndex(4, np.array(["zebra", "apple", "mango", "melon"]))
    for name, near in (
        ("appel", "apple"),
        ("zebr", "zebra"),
        ("axxxle", "apple"),
        ("mangoes", "mango"),
    ):
        with pytest.raises(KeyError, match=f"{name!r} is not in this model: did you mean '{near}'"):
            words.require(np.array(["apple", name]))
    with pytest.raises(KeyError, match=r"'xyz' is not in this model, which knows 4 others, such as 'zebra'$"):
        words.require(np.array(["xyz"]))
    with pytest.raises(KeyError, match=r"label 301 is not in this model, which knows 3 others, such as 300$"):
        NUMBERED.require(np.array([301]))
    monkeypatch.setattr("rankfold.data.labels._COMPARED", 1)  # the one before, and the one behind
    for name, near in (("manga", "mango"), ("mangp", "mango")):
        with pytest.raises(KeyError, match=f"did you mean '{near}'"):
            words.require_text(name)
    with pytest.raises(KeyError, match="which knows 4 others"):
        words.require_text("xapple")


def test_labels_in_no_order_are_found():
    assert NAMED.find(np.array(["7", "bob", "bobby", "ann"])).tolist() == [2, 0, -1, 1]
    assert NUMBERED.names(NUMBERED.require(np.array([10, 300]))).tolist() == [10, 300]


def test_labels_of_both_integer_types_fit_one_from_zero_on():
    large = np.array([2**63], np.uint64)
    assert joined(np.array([0, 5]), large).tolist() == [0, 5, 2**63]
    assert joined(large, np.array([0])).tolist() == [2**63, 0]
    with pytest.raises(ValueError, match=f"the labels -1 and {2**63} of one side do not fit"):
        joined(np.array([5, -1]), large)


def test_integers_of_a_table_find_labels_that_are_text():
    assert NAMED.find_arrow(pa.array([7, 8])).tolist() == [2, -1]


@pytest.mark.parametrize("labels", [[3, 9, 5], [2**63 - 1, -(2**63), 0], [2**63, 2**64 - 1, 7]])
@pytest.mark.parametrize("names", [[3, 9, 7], [2**63, 2**64 - 1], [-(2**63), 2**63 - 1, -1]])
def test_integers_are_found_whatever_holds_them(labels, names):
    index = LabelIndex(3, label_column(np.array(labels, dtype=object), "{}"))
    expected = [labels.index(name) if name in labels else -1 for name in names]
    found = index.find(label_column(np.array(names, dtype=object), "{}"))
    assert found.tolist() == expected
    assert (
        index.find_arrow(pa.array(names, pa.uint64() if min(names) >= 0 else pa.int64())).tolist() == expected
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_strings_of_files_are_exact(tmp_path, kind):
    names = ["a", "a\0", "b"]
    path = tmp_path / f"x.{kind}"
    triples = Triples(np.arange(3), np.arange(3), np.ones(3), (3, 3), np.array(names, dtype=object))
    write_triples(path, triples, format=kind)
    assert read_triples(path).row_labels.tolist() == names
    with pytest.raises(ValueError, match="an npz file holds no labels that end in NUL"):
        write_triples(tmp_path / "x.npz", triples)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1)),
        st.lists(st.integers(-5, 5)),
        st.lists(st.integers(2**64 - 9, 2**64 - 1)),
        st.lists(st.text("a\0é", max_size=3)),
        st.lists(st.sampled_from(["x" * 900, "y", "z"])),
    )
)
def test_numbers_stand_for_the_distinct_names_in_order(names):
    labels, numbers = numbered(label_column(np.fromiter(names, object, len(names)), "{}"))
    assert labels.tolist() == sorted(set(names))
    assert [labels.tolist()[k] for k in numbers] == names


@pytest.mark.parametrize("largest", [2**63 - 1, 2**63, 2**64 - 1])
def test_unsigned_integers_keep_their_values(largest):
    assert label_column(np.array([1, largest], dtype=">u8"), "{}").tolist() == [1, largest]


@pytest.mark.parametrize(
    ("strings", "kind"),
    [
        (["x" * 65] * 3, "U"),  # long, and nothing is padded
        (["x" * 64] + [""] * 9, "U"),  # padded, but to no more than a short string
        (["x" * 65] + [""] * 3, "U"),  # to four times the letters
        (["x" * 65] + [""] * 4, "O"),
        (["a", "b\0"], "O"),
        ([], "U"),
    ],
)
def test_strings_are_of_fixed_width_unless_that_would_be_mostly_padding(strings, kind):
    array = string_array(strings)
    assert array.dtype.kind == kind
    assert array.tolist() == strings


@pytest.mark.parametrize(
    ("element", "whole"),
    [
        (np.int64(2**60 + 1), True),
        (np.uint64(2**53 + 1), True),
        (-(2.0**53), True),
        (np.float32(7), True),
        (2.0**53 + 2, False),  # a float may stand for its neighbours there
        (0.5, False),
        (np.inf, False),
        (True, False),
        (1 + 0j, False),
    ],
)
def test_whole_numbers_among_objects_are_taken_as_they_are(element, whole):
    column = np.array([3, element], dtype=object)
    if whole:
        assert label_column(column, "X[{}]").tolist() == [3, int(element)]
    else:
        with pytest.raises(ValueError, match=r"^X\[1\] is .*: the labels of a side are all strings, or all"):
            label_column(column, "X[{}]")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (
            np.array([1.0, np.nan]),
            r"^ids\[1\] is .*nan.*: a label is missing: leave such entries out",
        ),
        (
            np.array([1.0, np.inf]),
            r"^ids\[1\] is .*inf.*: rows and columns are integers, or labels",
        ),
        (np.array([1.5, np.nan]), r"^ids\[1\] is .*nan.*: a label is missing"),
        (np.array([0.0, 2.0**53 + 2]), r"^ids\[1\] is .*: float64 holds integers exactly up to 2\*\*53"),
        (
            np.array([0, 2**24 + 2], np.float32),
            r"^ids\[1\] is .*: float32 holds integers .* up to 2\*\*24",
        ),
        (np.array(["2024-02-28", "NaT"], "M8[D]"), r"^ids\[1\] is .*NaT.*: leave such entries out"),
        (np.zeros((2, 2)), r"^ids\[\.\.\.\] must be one-dimensional; got shape \(2, 2\)"),
    ],
)
def test_what_is_no_column_of_labels(column, said):
    with pytest.raises(ValueError, match=said):
        label_column(column, "ids[{}]")


def test_the_largest_floats_that_are_whole_numbers_are_labels():
    assert label_column(np.array([-(2.0**53), 2.0**53]), "ids[{}]").tolist() == [-(2**53), 2**53]


def test_labels_of_one_side_are_of_one_kind():
    with pytest.raises((ValueError, TypeError), match="side 1 "):
        label_column(np.array(["a", 3], dtype=object), "side {}")


def test_positions_have_the_least_type_that_holds_them():
    assert _index_type(2**31 - 1) is np.int32
    assert _index_type(2**31) is np.int64


@pytest.mark.parametrize("labels", [np.array(["b", "a"]), np.array([7, 3]), None])
def test_a_pickled_index_finds_the_same_and_brings_nothing_that_made_it_fast(labels):
    index = LabelIndex(2, labels, "column")
    names = np.arange(2) if labels is None else labels[::-1]
    before, found = pickle.dumps(index), index.find(names)
    assert pickle.dumps(index) == before
    again = pickle.loads(before)
    assert again.kind == "column"
    np.testing.assert_array_equal(again.find(names), found)


@pytest.mark.parametrize(
    ("column", "at"),
    [
        ([2**63 - 1, -1, 2**63], 2),
        ([-(2**63), 2**63, 5], 1),
        ([2**63 - 1, -(2**63), -(2**63) - 1], 2),
        ([2**64, 2**63 - 1, 0], 0),
    ],
)
def test_of_integers_that_fit_no_type_the_first_beyond_64_bits_is_named(column, at):
    with pytest.raises(ValueError, match=rf"^X\[{at}\] is {column[at]}: the integers of a side must fit 64"):
        label_column(np.array(column, dtype=object), "X[{}]")


@pytest.mark.parametrize(
    ("names", "at"),
    [([2, 3, 9], 1), ([0, 4, 3], 1), ([1, -1, 3], 1), ([3, -1], 0), ([1, -1], 1), ([0, 3], 1)],
)
def test_the_first_position_outside_the_matrix_is_named(names, at):
    with pytest.raises(ValueError, match=rf"^X\[{at}\] is {names[at]}: rows are positions .* from 0 to 2;"):
        PLACES.find(np.array(names), "X[{}]")
    for inside in ([2, 0], [2], []):
        assert PLACES.find(np.array(inside, np.int64)).tolist() == inside
    with pytest.raises(TypeError, match="knows rows by position; got the label 'ann'"):
        PLACES.find(np.array(["ann"]))


@pytest.mark.parametrize(("dtype", "bits"), [(np.float16, 11), (np.float32, 24), (np.float64, 53)])
def test_floats_are_labels_as_far_as_they_hold_every_integer(dtype, bits):
    for sign in (1, -1):
        last = np.array([0, sign * 2**bits], dtype)
        assert label_column(last, "X[{}]").tolist() == [0, sign * 2**bits]
        beyond = np.array([0, sign * (2**bits + 2)], dtype)
        with pytest.raises(ValueError, match=rf"^X\[1\] is .*holds integers exactly up to 2\*\*{bits}"):
            label_column(beyond, "X[{}]")


def test_labels_of_another_kind_are_told_by_the_first_of_both():
    with pytest.raises(TypeError, match="are like 'bob'; got 8: give such labels"):
        NAMED.find(np.array([8, 9]))
