"""Columns gathered batch by batch: the result is that of one batch, whatever its type and size."""

import io
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from rankfold.data import read_triples
from rankfold.data.io import columns
from rankfold.data.io.chosen import Expected, are_times, called, is_time, option, place_columns
from rankfold.data.io.columns import (
    BadEntryError,
    GrowingArray,
    GrowingIntegers,
    IndexColumn,
    LabelColumn,
    ValueColumn,
)

LARGEST = np.iinfo(np.int32).max


def gathered(column, *batches):
    for batch in batches:
        column.add(batch if isinstance(batch, pa.Array) else pa.array(batch))
    return column.finish()


def test_a_growing_array_holds_its_parts_and_nothing_else():
    array = GrowingArray(np.int32)
    for start in range(0, 100, 10):
        array.append(np.arange(start, start + 10, dtype=np.int32))
        assert len(array.array) <= 9 / 8 * array.count  # little room is taken in advance
    assert array.finish().tolist() == list(range(100))


def test_without_a_shape_positions_tell_the_size():
    triples = read_triples(io.BytesIO(b"0,5,1\n3,2,1\n"), indices=True)
    assert triples.shape == (4, 6)
    assert gathered(IndexColumn(None), [2, 7], [], [1])[1] == 8
    assert gathered(IndexColumn(None), [0])[1] == 1


def test_positions_count_from_the_base_and_within_the_size():
    places, size, labels = gathered(IndexColumn(3, base=1), [1, 3], [2])
    assert (places.tolist(), size, labels) == ([0, 2, 1], 3, None)
    for size, base, batches, position, problem in (
        (3, 1, ([1, 2], [3, 0]), 3, "is not between 1 and 3"),
        (3, 1, ([1, 2], [4, 1]), 2, "is not between 1 and 3"),
        (3, 0, ([1, -1],), 1, "is not between 0 and 2"),
        (None, 0, ([9], [8, -2, -3]), 2, "is not between 0 and 4294967295"),
        (None, 0, ([9], [8, None]), 2, "is empty"),
    ):
        with pytest.raises(BadEntryError, match=problem) as error:
            gathered(IndexColumn(size, base), *batches)
        assert error.value.position == position


@pytest.mark.parametrize(("largest", "dtype"), [(LARGEST, np.int32), (LARGEST + 1, np.int64)])
def test_positions_take_64_bits_only_where_they_need_them(largest, dtype):
    places, size, _ = gathered(IndexColumn(None), [1, 2], [largest], [3])
    assert places.dtype == dtype
    assert places.tolist() == [1, 2, largest, 3]
    assert size == largest + 1


def test_values_that_are_no_numbers_are_named():
    for batches, position in ((([1.0], [2.0, np.nan]), 2), (([1.0, np.inf],), 1), (([1], [2, 3, None]), 3)):
        with pytest.raises(BadEntryError, match="is empty, NaN or infinite") as error:
            gathered(ValueColumn(), *batches)
        assert error.value.position == position
        assert str(error.value) == f"entry {position} {error.value.problem}"
    assert gathered(ValueColumn(), [1], [2.5]).tolist() == [1.0, 2.5]


@pytest.mark.parametrize("batches", [([5, 3], [9, 3]), ([-4], [], [LARGEST]), ([-LARGEST - 2], [0, LARGEST])])
def test_integer_labels_are_kept_as_they_are(batches):
    labels = GrowingIntegers()
    for batch in batches:
        labels.append(np.array(batch, dtype=np.int64))
    everything = list(chain(*batches))
    assert (labels.least, labels.largest) == (min(everything), max(everything))
    assert labels.finish().tolist() == everything


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("beyond", [0, 1])
def test_integer_labels_take_64_bits_only_where_they_need_them(sign, beyond):
    labels = GrowingIntegers()
    edge = LARGEST if sign > 0 else -LARGEST - 1
    labels.append(np.array([0, edge + sign * beyond]))
    assert labels.array.dtype == (np.int64 if beyond else np.int32)


def test_labels_are_close_if_a_table_is_not_much_larger_than_they_are(monkeypatch):
    monkeypatch.setattr(columns, "MERGE", 4)
    for values, close in (
        ([7, 10], True),
        ([7, 11], False),
        ([7, 11, 7, 7], False),
        ([7, 11, 7, 7, 7], True),
    ):
        labels = GrowingIntegers()
        labels.append(np.array(values))
        assert labels.close is close


@pytest.mark.parametrize("merge", [1, 3, 1 << 18])
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    "batches",
    [
        ([5, 3], [9, 3], [5]),
        ([5, 3], [9, 10**12, 3], [5]),
        (["b", "a"], ["c", "a", "d"], ["b"]),
        (["10", "9"], ["7", "10"]),
    ],
)
def test_numbers_of_labels_do_not_depend_on_batches(batches, text, merge, monkeypatch):
    monkeypatch.setattr(columns, "MERGE", merge)
    codes, count, labels = gathered(LabelColumn(text), *batches)
    everything = list(chain(*batches))
    if text and everything[0] == "10":
        everything = [int(label) for label in everything]
    assert labels.tolist() == sorted(set(everything))
    assert count == len(labels)
    assert labels[codes].tolist() == everything


def test_blanks_around_labels_are_trimmed_in_text_only():
    assert gathered(LabelColumn(text=True), [" a", "b "], ["a"])[2].tolist() == ["a", "b"]
    assert gathered(LabelColumn(text=False), [" a", "b "], ["a"])[2].tolist() == [" a", "a", "b "]


def test_integers_become_strings_when_a_label_is_one():
    codes, count, labels = gathered(LabelColumn(text=True), [10, 9], ["x", "9"])
    assert (codes.tolist(), count, labels.tolist()) == ([0, 1, 2, 1], 3, ["10", "9", "x"])


@pytest.mark.parametrize(
    "batches",
    [
        ([7, 7], [7, None]),
        (["a", "b"], ["a", None]),
        (["a", "b"], ["a", ""]),
        ([7, 7], ["a", " "]),
        ([7, 7], pa.array(["a", None]).dictionary_encode()),
    ],
)
@pytest.mark.parametrize("merge", [1, 1 << 18])
def test_an_empty_label_is_named_by_its_place_in_the_column(batches, merge, monkeypatch):
    monkeypatch.setattr(columns, "MERGE", merge)
    with pytest.raises(BadEntryError, match="is empty") as error:
        gathered(LabelColumn(text=True), *batches)
    assert error.value.position == 3


def test_categories_without_an_entry_are_left_out():
    who = pa.DictionaryArray.from_arrays(pa.array([3, 1], pa.int8()), pa.array(["cy", "ann", "di", "bob"]))
    codes, count, labels = gathered(LabelColumn(text=False), who)
    assert (codes.tolist(), count, labels.tolist()) == ([1, 0], 2, ["ann", "bob"])


def test_columns_are_found_by_name_or_position():
    names = ("who", "film", "stars")
    assert place_columns(("stars", 0, "film"), names, True, "x") == (2, 0, 1)
    for chosen, named, message in (
        ((0, 1, 3), True, "x: there is no column 3; there are: 'who', 'film', 'stars'"),
        ((0, 1, -1), False, "x: there is no column -1; there are: 3 columns and no header"),
        (("who", "film", "stars"), False, "no column 'who'; there are: 3 columns and no header"),
        ((0, 0, 1), True, "must name three different columns"),
        ((1, 1), True, "must name two different columns"),
    ):
        with pytest.raises(ValueError, match=message):
            place_columns(chosen, names, named, "x")


@pytest.mark.parametrize(
    ("names", "places"),
    [
        (["film", "x", "who"], (2, 0, 1)),  # the value would be third, where the row is
        (["x", "film", "z"], (0, 1, 2)),
        (["film", "x", "z"], (1, 0, 2)),
        (["x", "who", "z"], (1, 0, 2)),  # the column would be second
        (["x", "z", "who"], (2, 1, 0)),
        (["stars", "film", "who"], (2, 1, 0)),
        (["stars", "x", "z"], (1, 2, 0)),
        (["x", "rating", "z", "who"], (3, 0, 1)),
        (["score", "rating", "item", "user"], (3, 2, 1)),  # the best of several names
    ],
)
def test_columns_that_nobody_chose_are_found_by_name_and_else_in_their_order(names, places):
    assert place_columns((None, None, None), names, True, "x") == places
    assert place_columns((None, None, None), names, False, "x") == (0, 1, 2)


def test_a_column_is_called_as_in_an_earlier_file_if_one_alone_is():
    like = Expected("x"), None, None
    assert place_columns(like, ["z", "who", "x"], True, "f") == (2, 1, 0)
    assert place_columns(like, ["x", "who", "x"], True, "f") == (1, 0, 2)
    assert place_columns(like, ["z", "who", "v"], True, "f") == (1, 0, 2)
    assert place_columns(like, ["z", "who", "x"], False, "f") == (0, 1, 2)


@pytest.mark.parametrize("names", [["who", "film"], ["x"]])
def test_too_few_columns_are_told_by_the_first_that_is_missing(names):
    with pytest.raises(ValueError, match=rf"f: there is no column {len(names)}; there are: 'w?[hx]"):
        place_columns((None, None, None), names, True, "f")
    with pytest.raises(
        ValueError, match=f"no column {len(names)}; there are: {len(names)} columns and no header"
    ):
        place_columns((None, None, None), names, False, "f")


@pytest.mark.parametrize(
    ("columns", "places"),
    [
        ((None, "who", None), (0, 2, 1)),  # what was chosen is not taken again
        (("z", None, None), (1, 0, 2)),
        ((0, None, None), (0, 1, 2)),
        ((1, None, None), (1, 0, 2)),
        ((None, None, 0), (2, 1, 0)),
        ((None, 2, None), (0, 2, 1)),
        ((None, None), (2, 1)),
        ((None, 2), (0, 2)),
    ],
)
def test_columns_are_found_beside_those_that_were_chosen(columns, places):
    assert place_columns(columns, ["x", "z", "who"], True, "x") == places


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("userId", 0), ("User Name", 0), ("customer_idx", 0), ("person-index", 0), ("UID", 0), ("who", 0),
        ("iid", 1), ("movieId", 1), ("Book Title", 1), ("ISBN", 1), ("asin", 1), ("col", 1),
        ("Rating", 2), ("overall", 2), ("y", 2), ("weights", 3), ("confidence", 3),
        ("id", None), ("title", None), ("x", None), ("users rated", None), ("timestamp", None),
    ],
)  # fmt: skip
def test_what_columns_are_called_tells_their_role(name, role):
    assert [k for k in range(4) if called(["?", name], k) == [1]] == ([] if role is None else [role])
    assert called([name, name], role or 0) == ([] if role is None else [0, 1])


@pytest.mark.parametrize(
    ("time", "names"),
    [
        (True, ["timestamp", "Date", "review_time", "time2", "Created-At", "unixReviewTime"]),
        (False, ["daily", "rating", "sometimes", "y"]),
    ],
)
def test_what_times_are_called(time, names):
    assert [is_time(name) for name in names] == [time] * len(names)


def test_a_time_is_not_taken_for_a_value_that_nobody_named():
    message = "'when', which would be next, like a time; there are: 'who', 'film', 'when'. Name .*--value"
    with pytest.raises(ValueError, match=f"x: no column is called like a value, and {message}"):
        place_columns((None, None, None), ["who", "film", "when"], True, "x")
    assert place_columns((None, None, None), ["who", "film", "when"], False, "x") == (0, 1, 2)
    assert place_columns((None, None, "when"), ["who", "film", "when"], True, "x") == (0, 1, 2)
    assert place_columns((None, None), ["when", "film"], True, "x") == (0, 1)
    assert [option(k).split("--")[1] for k in range(3)] == ["row)", "col)", "value)"]


@pytest.mark.parametrize(
    ("values", "times"),
    [
        ([6e8, 4.1e9], True),  # seconds
        ([6e11, 4.1e12], True),  # milliseconds
        ([6e8 - 1, 1e9], False),
        ([1e9, 4.1e9 + 1], False),
        ([6e11 - 1, 1e12], False),
        ([1e12, 4.1e12 + 1], False),
        ([1e9, 1e12], False),
        ([1e9, 1e9 + 0.5], False),
        ([1e9, 1e9], False),
        ([1e9], False),
        ([], False),
        ([1.0, 5.0], False),
    ],
)
def test_numbers_that_a_clock_may_have_written(values, times):
    assert are_times(np.array(values)) is times


def test_few_batches_are_kept_apart_however_many_there_are(monkeypatch):
    monkeypatch.setattr(columns, "MERGE", 4)
    column = LabelColumn(text=False)
    for k in range(30):
        column.add(pa.array([f"l{k % 7}", f"l{(k + 3) % 7}"]))
        assert sum(len(batch.dictionary) for batch in column.pending) <= 7
    codes, count, labels = column.finish()
    assert (count, len(codes)) == (7, 60)
    assert labels[codes][:4].tolist() == ["l0", "l3", "l1", "l4"]


def test_of_a_long_dictionary_a_batch_brings_what_it_uses():
    """Those of a whole file may come with each batch."""
    labels = pa.array([f"l{k:03}" for k in range(100)])
    column = LabelColumn(text=False)
    for start in (0, 50):
        codes = pa.array(np.array([start + 7, start + 3, start + 7], np.int32))
        column.add(pa.DictionaryArray.from_arrays(codes, labels))
    assert [len(batch.dictionary) for batch in column.pending] == [2, 2]
    numbers, count, found = column.finish()
    assert (numbers.tolist(), count) == ([1, 0, 1, 3, 2, 3], 4)
    assert found.tolist() == ["l003", "l007", "l053", "l057"]
    short = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["a", "b"]))
    assert columns._used(short) is short
