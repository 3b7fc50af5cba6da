"""Positions of labels, however a name is given."""

import numpy as np
import pyarrow as pa
import pytest

from rankfold.data import LabelIndex

NAMED = LabelIndex(3, np.array(["bob", "ann", "7"]))
NUMBERED = LabelIndex(3, np.array([300, -7, 10]), "column")
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
        (PLACES, "2", 2),
        (PLACES, "3", -1),
        (PLACES, "-1", -1),
    ],
)
def test_text_stands_for_the_same_one_by_one_and_in_a_column(index, text, position):
    assert index.find_text(text) == position
    if len(text) < 19:  # a column of a file with a number that no label can be is refused when it is read
        assert index.find_arrow(pa.array([text])).tolist() == [position]


def test_text_that_must_be_there_is_answered_with_the_nearest():
    assert NUMBERED.require_text("300") == 0
    with pytest.raises(KeyError, match="the column label '30' is not in this model: did you mean '300'"):
        NUMBERED.require_text("30")
    with pytest.raises(KeyError, match="the row label 'anm' is not in this model: did you mean 'ann'"):
        NAMED.require_text("anm")
    with pytest.raises(KeyError, match="row 3 is not in this model, which has rows 0 to 2"):
        PLACES.require_text("3")


def test_labels_in_no_order_are_found():
    assert NAMED.find(np.array(["7", "bob", "bobby", "ann"])).tolist() == [2, 0, -1, 1]
    assert NUMBERED.names(NUMBERED.require(np.array([10, 300]))).tolist() == [10, 300]


def test_integers_of_a_table_find_labels_that_are_text():
    assert NAMED.find_arrow(pa.array([7, 8])).tolist() == [2, -1]
