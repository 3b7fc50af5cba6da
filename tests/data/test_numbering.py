"""Labels are made exact, and numbered: small columns of every kind, and what is asked of their types."""

import numpy as np
import pyarrow as pa
import pytest

from rankfold.data import LabelIndex
from rankfold.data.numbering import joined, label_column, numbered

LARGE = np.array([2**63, 2**63 + 2], np.uint64)
FAR = 10**12


@pytest.mark.parametrize(
    "names",
    [
        np.array(["2024-02-29", "2024-01-01", "2024-02-29"], "M8[D]"),
        np.array(["2024-02-29", "1924-01-01", "2024-02-29"], "M8[ns]"),
        np.array([7, -3, 7]),
        np.array([7, -FAR, 7]),
        np.array([2**63, 5, 2**63], np.uint64),
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
    ],
    ids=lambda names: str(names.dtype),
)
@pytest.mark.parametrize("block", [1, 2, 1 << 18])
def test_numbers_take_little_room_and_labels_keep_their_type(monkeypatch, names, block):
    monkeypatch.setattr("rankfold.data.numbering._BLOCK", block)
    labels, numbers = numbered(names)
    assert labels.dtype == (np.dtype("U1") if names.dtype == object else names.dtype)
    assert labels.tolist() == sorted(set(names.tolist()))
    assert (numbers.tolist(), numbers.dtype) == ([1, 0, 1], np.int32)


@pytest.mark.parametrize("kind", ["i8", "u8", "M8[s]", "U3"])
def test_of_no_names_there_are_no_labels(kind):
    labels, numbers = numbered(np.empty(0, kind))
    assert labels.size == numbers.size == 0
    assert LabelIndex(0, np.empty(0, kind)).find(np.empty(0, kind)).tolist() == []
    assert label_column(np.empty(0, kind), "{}").size == 0


@pytest.mark.parametrize(
    ("labels", "more", "due"),
    [
        (np.array([-1, 7]), np.array([5]), [-1, 7, 5]),
        (np.array([-1, 7]), np.empty(0, np.uint64), [-1, 7]),
        (LARGE, np.array([3 + 2**63], np.uint64), [2**63, 2**63 + 2, 2**63 + 3]),
        (np.array(["b", "ab"]), np.array(["abc"]), ["b", "ab", "abc"]),
        (np.array(["a"]), np.array(["a\0"], dtype=object), ["a", "a\0"]),
    ],
)
def test_more_labels_stand_behind_the_others(labels, more, due):
    assert joined(labels, more).tolist() == due


def test_more_times_stand_behind_the_others():
    days = np.array(["1950-01-01", "2024-02-29"], "M8[D]")
    assert (joined(days[1:], days[:1]) == days[::-1]).all()


@pytest.mark.parametrize(
    ("labels", "more", "least", "largest"),
    [
        (LARGE, [5, -1], -1, 2**63 + 2),
        ([5, -1, 3], LARGE, -1, 2**63 + 2),
        (LARGE[::-1], [-7, 0], -7, 2**63 + 2),
    ],
)
def test_labels_that_fit_no_one_type_are_told_by_the_least_and_the_largest(labels, more, least, largest):
    with pytest.raises(ValueError, match=rf"the labels {least} and {largest} of one side do not fit one"):
        joined(np.array(labels), np.array(more))


@pytest.mark.parametrize(
    ("column", "due"),
    [
        (np.array([2**63 - 1, 1], np.uint64), np.int64),
        (np.array([2**63, 1], np.uint64), np.uint64),
        (np.array([3], np.uint8), np.int64),
        (np.array([3.0, 4.0], np.float32), np.int64),
        (np.array(["b", "aé"], ">U2"), np.dtype("U2")),
        (np.array(["2024-02-29"], ">M8[D]"), np.dtype("M8[D]")),
        ([3, 1], np.int64),
        (("b", "a"), np.dtype("U1")),
        (np.array([3, np.int32(4)], dtype=object), np.int64),
        (np.array([3, 2**63], dtype=object), np.uint64),
    ],
)
def test_columns_of_labels_have_one_type_of_each_kind(column, due):
    labels = label_column(column, "ids[{}]")
    assert labels.tolist() == np.asarray(column).tolist()
    assert (labels.dtype, labels.dtype.isnative) == (due, True)


@pytest.mark.parametrize("missing", [None, float("nan"), np.datetime64("NaT", "D")])
@pytest.mark.parametrize("other", ["a", 7])
def test_of_labels_that_are_objects_the_first_that_is_missing_is_named(missing, other):
    column = np.array([other, missing, other, None], dtype=object)
    with pytest.raises(ValueError, match=r"^ids\[1\] is .*: a label is missing: leave such entries out"):
        label_column(column, "ids[{}]")


@pytest.mark.parametrize("column", [[True, False], [1j], [b"a"]])
def test_truth_values_complex_numbers_and_bytes_are_no_labels(column):
    with pytest.raises(TypeError, match=r"^ids\[\.\.\.\] has the type .*: rows and columns are int"):
        label_column(np.array(column), "ids[{}]")


@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint64"])
def test_positions_in_a_table_may_be_integers_of_any_type(kind):
    places, column = LabelIndex(3), pa.array([2, 3, None, 0], kind)
    assert places.find_arrow(column).tolist() == [2, -1, -1, 0]
    if kind == "uint64":
        assert places.find_arrow(pa.array([2**64 - 1, 2**63, 1], kind)).tolist() == [-1, -1, 1]
    assert places.find_arrow(column).dtype == np.int64


def test_rows_that_are_called_by_position_have_that_for_a_name():
    assert LabelIndex(3).names(np.array([2, 0])).tolist() == [2, 0]
    assert LabelIndex(2, np.array(["a", "b"])).names(np.array([1, 0, 1])).tolist() == ["b", "a", "b"]


def test_new_rows_follow_the_known_ones_in_their_order():
    known = LabelIndex(2, np.array(["m", "b"]))
    labels, places = known.enlarged(np.array(["z", "b", "c", "z"]), "X[{}]")
    assert (labels.tolist(), places.tolist()) == (["m", "b", "c", "z"], [3, 1, 2, 3])
    labels, places = LabelIndex(3).enlarged(np.array([2, 0]), "X[{}]")
    assert (labels, places.tolist()) == (None, [2, 0])
