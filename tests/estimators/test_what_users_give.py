"""Tables with text, ranks, penalties, weights and pairs as users give them: taken, or refused by name."""

import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rankfold.estimators.inputs import (
    checked_rank,
    checked_regularization,
    checked_weights,
    is_auto,
    pair_columns,
    refuse_text,
)


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ([1.5, "2", " 3e4 "], None),
        ([1, None, 2.5], None),
        ([True, np.float32(2), "nan"], None),
        ([1, "?", 2], None),  # what stands for no value
        ([1, "?", "", "x"], "''"),
        (["red", "?", "blue"], "'red'"),
        ([1, datetime.date(2024, 5, 1)], "datetime.date"),
    ],
)
def test_the_first_cell_that_is_no_number_is_named_with_its_column(column, cell):
    frame = pd.DataFrame({"fine": np.arange(len(column)), 7: pd.Series(column, dtype=object)})
    if cell is None:
        refuse_text(frame, "drop it", "?")
    else:
        with pytest.raises(
            ValueError, match=rf"^column '7' of X is not numeric, it holds {cell}.*: drop it$"
        ):
            refuse_text(frame, "drop it", "?")


def test_without_a_mark_every_text_is_refused():
    with pytest.raises(ValueError, match=r"column 'b' of X is not numeric, it holds '\?': leave it out"):
        refuse_text(pd.DataFrame({"a": [1.0, 2.0], "b": ["1", "?"]}), "leave it out")
    times = pd.DataFrame({"a": pd.to_datetime(["2024-01-01", "2024-01-02"])})
    with pytest.raises(ValueError, match="column 'a' of X is not numeric, it holds"):
        refuse_text(times, "leave it out")


def test_what_is_no_table_of_named_columns_is_left_to_others():
    refuse_text(np.array([["x", "y"]], dtype=object), "")
    refuse_text([["x", "y"]], "")
    refuse_text(pa.table({"a": ["x"]}), "")
    refuse_text(pd.DataFrame({"a": [1], "b": [2.0], "c": [True], "d": [1j]}), "")


@pytest.mark.parametrize("rank", [1, 5, np.int64(3), np.uint8(5)])
def test_a_rank_is_an_integer(rank):
    found = checked_rank(rank, 5, "why")
    assert (found, type(found)) == (int(rank), int)


@pytest.mark.parametrize("rank", [0, -1, 6, True, False, 2.0, "2", None, np.float64(3)])
def test_what_is_no_rank_is_refused_with_why(rank):
    with pytest.raises(
        ValueError, match="rank must be 'auto' or an integer from 1 to 5, the number of points;"
    ):
        checked_rank(rank, 5, "the number of points")


@pytest.mark.parametrize("weight", [0, 0.0, 1e-300, 0.5, 3, np.float32(2.5), 1e300])
def test_a_penalty_is_a_number_from_0(weight):
    found = checked_regularization(weight)
    assert (found, type(found)) == (float(weight), float)


@pytest.mark.parametrize("weight", [-0.5, -1e-9, np.inf, np.nan, "1", None, [1.0]])
def test_what_is_no_penalty_is_refused(weight):
    with pytest.raises(ValueError, match="regularization must be 'auto' or finite and at least 0, not"):
        checked_regularization(weight, "'auto' or ")


def test_auto_is_that_word_alone():
    assert is_auto("auto")
    assert not any(map(is_auto, ("Auto", "", None, 1, np.array(["auto", "auto"]))))


def test_weights_are_contiguous_vectors_of_their_own_type():
    every_other = np.arange(1.0, 9.0)[::2]
    found = checked_weights(every_other, 4)
    assert found.flags.c_contiguous
    assert found.tolist() == [1.0, 3.0, 5.0, 7.0]
    assert checked_weights([0, 0.25, 0], 3).tolist() == [0.0, 0.25, 0.0]
    assert checked_weights(0.5, 2).tolist() == [0.5, 0.5]
    for wrong in ([0.5, -0.25], [-1e-9, 1.0]):
        with pytest.raises(ValueError, match=r"sample_weight\[\d\] is .*: weights are never negative"):
            checked_weights(wrong, 2)
    with pytest.raises(ValueError, match=r"sample_weight\[0\] is masked"):
        checked_weights(np.ma.masked_array([1.0, 2.0], [True, False]), 2)
    with pytest.raises(ValueError, match="sample_weight is zero for every sample"):
        checked_weights([], 0)


class Answering:
    """What NumPy can make an array of, and no more."""

    def __init__(self, numbers):
        self.numbers = np.array(numbers)

    def __array__(self, dtype=None, copy=None):
        return self.numbers


@pytest.mark.parametrize(
    "X",
    [
        [(3, "a"), (1, "b")],
        ((3, "a"), [1, "b"]),
        [np.array([3, "a"], object), (1, "b")],
        np.array([[3, "a"], [1, "b"]], object),
        pd.DataFrame({"x": [3, 1], "y": ["a", "b"]}),
        Answering(np.array([[3, "a"], [1, "b"]], object)),
    ],
)
def test_pairs_may_come_in_many_forms(X):
    rows, cols = pair_columns(X)
    assert (rows.tolist(), cols.tolist()) == ([3, 1], ["a", "b"])


@pytest.mark.parametrize("pair", ["ab", 7, ("a",), ("a", "b", "c")])
def test_what_is_no_pair_is_named_by_its_place(pair):
    with pytest.raises(ValueError, match=r"^X\[1\] must be a pair \(row, column\); got"):
        pair_columns([("a", "b"), pair])


def test_a_masked_array_of_pairs_is_refused():
    with pytest.raises(ValueError, match=r"X\[1, 0\] is masked"):
        pair_columns(np.ma.masked_array([[0, 1], [2, 3]], [[False, False], [True, False]]))
