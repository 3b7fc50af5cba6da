"""The positions that a model was fitted to, against sets of pairs; and what is asked of them."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.estimators.completion import neighbours
from rankfold.estimators.completion.neighbours import largest
from rankfold.estimators.completion.pattern import Pattern

SHAPE = 30, 20


def drawn(count=200, seed=0):
    """Positions in order of rows, row by row in order of columns."""
    places = np.sort(np.random.default_rng(seed).choice(600, count, replace=False))
    return places // 20, places % 20


def pattern_of(rows, cols):
    cost = rf.Completion(rows, cols, np.ones(len(rows)), SHAPE)
    return Pattern.of(cost.observed.by_row)


def listed(pattern):
    return [line.tolist() for line in np.split(pattern.indices, pattern.indptr[1:-1])]


def by_line(lines, places, count):
    return [[int(j) for i, j in zip(lines, places, strict=True) if i == line] for line in range(count)]


@pytest.mark.parametrize("stripes", [((9, 1),), ((9, 2),), ((4, 3), (9, 1))])
def test_positions_are_those_of_the_entries_in_stripes_or_not(stripes, monkeypatch):
    monkeypatch.setattr("rankfold.entries.sorted_entries.STRIPES", stripes)
    rows, cols = drawn()
    assert listed(pattern_of(rows, cols)) == by_line(rows, cols, 30)


def test_rows_and_columns_are_those_asked_for_in_that_order():
    rows, cols = drawn()
    pattern = pattern_of(rows, cols)
    chosen = np.array([7, 2, 29])
    assert listed(pattern.rows(chosen)) == [by_line(rows, cols, 30)[i] for i in chosen]
    assert pattern.rows(chosen).counts.tolist() == [np.count_nonzero(rows == i) for i in chosen]
    chosen = np.array([19, 0, 5])
    assert listed(pattern.columns(chosen, 20)) == [by_line(cols, rows, 20)[j] for j in chosen]


def test_more_positions_come_after_those_of_their_row_in_the_order_of_their_columns():
    rows, cols = drawn()
    rng = np.random.default_rng(1)
    more = rng.integers(0, 33, 300), rng.integers(0, 20, 300)
    extended = pattern_of(rows, cols).extended(*more, height=33)
    sorted_more = (part[np.argsort(more[1], kind="stable")] for part in more)
    everything = (np.concatenate(pair) for pair in zip((rows, cols), sorted_more, strict=True))
    assert listed(extended) == by_line(*everything, 33)


def test_the_largest_scores_are_found_a_block_at_a_time(monkeypatch):
    table = np.random.default_rng(0).integers(0, 9, (7, 5)).astype(float)  # with ties
    table[3, :4] = -np.inf
    sizes = []

    def scores(queries):
        sizes.append(len(queries))
        return table[queries]

    monkeypatch.setattr(neighbours, "_CELLS", 10)
    query, place, score = largest(np.arange(7), 5, 3, scores)
    assert sizes == [2, 2, 2, 1]
    expected = [
        (i, j) for i in range(7) for j in np.argsort(-table[i], kind="stable")[:3] if table[i, j] >= 0
    ]
    assert list(zip(query, place, strict=True)) == expected
    assert score.tolist() == [table[pair] for pair in expected]
    monkeypatch.setattr(neighbours, "_CELLS", 3)
    sizes.clear()
    largest(np.arange(7), 5, 9, scores)
    assert sizes == [1] * 7


def test_no_query_has_no_answer():
    for answer in largest(np.arange(0), 5, 3, lambda queries: np.empty((0, 5))):
        assert answer.shape == (0,)
