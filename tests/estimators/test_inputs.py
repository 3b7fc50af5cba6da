"""Pairs, positions and weights as users give them, and answers as they get them."""

import numpy as np
import pytest
from scipy import sparse

from rankfold.estimators.completion.entries import training_triples
from rankfold.estimators.inputs import (
    checked_places,
    checked_weights,
    finite_answers,
    given_labels,
    pair_columns,
    seed_of,
)


def test_weights_are_one_per_sample():
    np.testing.assert_array_equal(checked_weights(2, 3), [2.0, 2.0, 2.0])
    assert checked_weights([1, 2], 2, np.float32).dtype == np.float32
    assert checked_weights(None, 2, np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], r"sample_weight\[1\] is .*-1\.0.*: weights are never negative"),
        ([1.0], r"a vector of 2 weights, one per sample; got shape \(1,\)"),
        ([[1.0], [1.0]], r"a vector of 2 weights, one per sample; got shape \(2, 1\)"),
        ([0.0, 0.0], "sample_weight is zero for every sample"),
        (0, "sample_weight is zero for every sample"),
        ([1.0, np.nan], "Input sample_weight contains NaN"),
    ],
)
def test_wrong_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        checked_weights(weights, 2)


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (sparse.eye(3), TypeError, "sparse input is not supported"),
        (np.arange(4), ValueError, r"must be two-dimensional, .* got shape \(4,\)"),
        (np.ones((2, 2, 2), int), ValueError, r"must be two-dimensional, .* got shape \(2, 2, 2\)"),
        (np.ones((4, 1), int), ValueError, "must have two columns, .* n_features = 1"),
        (np.ones((4, 3), int), ValueError, "must have two columns, .* n_features = 3"),
    ],
)
def test_what_is_no_table_of_pairs_is_named(X, kind, message):
    with pytest.raises(kind, match=message):
        pair_columns(X)


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.empty((0, 2), int), np.empty(0), r"Found array with 0 sample\(s\)"),
        ([(0, 1)], ["high"], "y must be real numbers, the value of each pair"),
        ([(0, 1)], [1j], "Complex data not supported"),
    ],
)
def test_entries_are_some_pairs_with_real_values(X, y, message):
    with pytest.raises(ValueError, match=message):
        training_triples(X, y)


def test_positions_end_where_the_matrix_does():
    rows, cols = checked_places(np.array([-1, 2], np.int8), [1, -1], (3, 2))
    assert rows.dtype == cols.dtype == np.int64
    assert (rows.tolist(), cols.tolist()) == ([-1, 2], [1, -1])
    assert [side.size for side in checked_places([], [], (3, 2))] == [0, 0]
    for rows, cols, message in (
        ([3], [0], r"rows\[0\] is .*3.*: positions go from 0 to 2"),
        ([0, 0], [1, 2], r"cols\[1\] is .*2.*: positions go from 0 to 1"),
        ([-2], [0], r"rows\[0\] is .*-2"),
        ([0.0], [0], "rows must be a vector of integers; got shape .* of float64"),
        ([0], [[0]], r"cols must be a vector of integers; got shape \(1, 1\)"),
        ([0, 1], [0], "rows and cols must be equally long; got 2 and 1"),
    ):
        with pytest.raises(ValueError, match=message):
            checked_places(rows, cols, (3, 2))


def test_the_first_sample_whose_answer_overflows_is_named():
    answers = np.ones((4, 3))
    assert finite_answers(answers) is answers
    answers[2, 1], answers[3, 0] = np.inf, np.nan
    with pytest.raises(ValueError, match=r"the prediction for X\[2\] overflows"):
        finite_answers(answers)


@pytest.mark.parametrize(
    ("items", "labels"),
    [
        ("ann", ["ann"]),
        (7, [7]),
        (np.int32(7), [7]),
        (["a", "b"], ["a", "b"]),
        (("a",), ["a"]),
        (np.array([3, 1]), [3, 1]),
    ],
)
def test_labels_are_one_or_several(items, labels):
    assert given_labels(items, "rows[{}]").tolist() == labels


def test_labels_that_are_masked_or_of_two_kinds_are_named():
    with pytest.raises(ValueError, match=r"^rows\[1\] is masked"):
        given_labels(np.ma.masked_array([1, 2, 3], [False, True, False]), "rows[{}]")
    with pytest.raises(ValueError, match=r"^rows\[0\] is 1: .*all strings, or all integers"):
        given_labels([1, "b"], "rows[{}]")


def test_seeds_are_drawn_from_all_that_there_are():
    assert seed_of(0) == np.random.RandomState(0).randint(2**31 - 1)
    state = np.random.RandomState(3)
    assert seed_of(state) != seed_of(state)
    assert len({seed_of(k) for k in range(200)}) == 200
    assert isinstance(seed_of(None), int)
