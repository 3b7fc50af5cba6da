"""Parts that the estimators are made of, by small cases computed by hand."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.data.numbering import label_column
from rankfold.entries.lines import solve_lines
from rankfold.estimators.completion.entries import training_triples
from rankfold.estimators.completion.neighbours import directions
from rankfold.estimators.fitting import problem_of, warm_point
from rankfold.estimators.inputs import checked_rank, pair_columns


def test_a_warm_point_is_the_nearest_of_the_rank():
    problem = problem_of(rf.Completion([0, 1], [1, 0], [1.0, 2.0], (2, 2)), rank=1)
    L, R = problem.geometry.factors(warm_point(problem, np.diag([3.0, 1.0]), np.eye(2)))
    np.testing.assert_allclose(L @ R.T, np.diag([3.0, 0.0]), atol=1e-12)
    assert warm_point(problem, np.ones((3, 1)), np.ones((2, 1))) is None


def test_lines_are_ridge_regressions():
    cost = rf.Completion([0, 0, 1], [0, 1, 1], [1.0, 2.0, 6.0], (2, 2))
    lines = solve_lines(cost.observed.by_row, np.array([[1.0], [2.0]]), np.array([[0.0], [4.0]]))
    np.testing.assert_allclose(lines, [[1.0], [1.5]], rtol=1e-12)


def test_directions_have_the_cosines_of_the_rows():
    L, R = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]])
    A = directions(L, R)
    assert A[0] @ A[1] == pytest.approx(np.sqrt(0.5))  # of (2, 0, 0) and (2, 2, 0)


def test_labels_are_numbered_in_sorted_order():
    triples = training_triples([("bob", 7), ("ann", 7)], [1.0, 2.0])
    assert triples.rows.tolist() == [1, 0]
    assert triples.row_labels.tolist() == ["ann", "bob"]
    assert triples.col_labels.tolist() == [7]


def test_the_columns_of_pairs_have_types_of_their_own():
    rows, cols = pair_columns([("ann", 3), ("bob", 4)])
    assert rows.tolist() == ["ann", "bob"]
    assert cols.tolist() == [3, 4]


@pytest.mark.parametrize(("column", "where"), [(["a", 1, "b"], "X[1]"), ([1, True], "X[1]"), ([0.5], "X[0]")])
def test_labels_of_one_side_are_of_one_kind(column, where):
    with pytest.raises(ValueError, match="all strings, or all integers") as caught:
        label_column(np.array(column, dtype=object), "X[{}]")
    assert str(caught.value).startswith(where)


@pytest.mark.parametrize("column", [["a", None], [1, None], ["a", np.nan], [1, np.datetime64("NaT", "D")]])
def test_a_label_that_is_missing_is_called_so(column):
    with pytest.raises(ValueError, match=r"^X\[1\] is .*: a label is missing: leave such entries out"):
        label_column(np.array(column, dtype=object), "X[{}]")


def test_holes_among_numbers_are_missing_labels():
    with pytest.raises(ValueError, match=r"^X\[1\] is .*nan.*: a label is missing"):
        label_column(np.array([1.0, np.nan]), "X[{}]")


def test_objects_that_are_of_one_kind():
    assert label_column(np.array([1, np.int32(2)], dtype=object), "X[{}]").dtype == np.int64
    assert label_column(np.array(["a", np.str_("bc")], dtype=object), "X[{}]").tolist() == ["a", "bc"]


def test_a_rank_out_of_range_is_named_with_its_limit():
    with pytest.raises(ValueError, match="from 1 to 5, the number of columns; got 7"):
        checked_rank(7, 5, "the number of columns")
