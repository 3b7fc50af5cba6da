"""The positions that a model was fitted to, against sets of pairs; and what is asked of them."""

from dataclasses import replace

import numpy as np
import pytest

import rankfold as rf
from rankfold.distributed import spread_triples
from rankfold.estimators.completion import neighbours
from rankfold.estimators.completion.growing import Growing
from rankfold.estimators.completion.neighbours import largest
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.spread_entries import _own_positions, _pattern, sample_of

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


def test_rows_are_those_asked_for_in_that_order():
    rows, cols = drawn()
    pattern = pattern_of(rows, cols)
    chosen = np.array([7, 2, 29])
    assert listed(pattern.rows(chosen)) == [by_line(rows, cols, 30)[i] for i in chosen]
    assert pattern.rows(chosen).counts.tolist() == [np.count_nonzero(rows == i) for i in chosen]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([[], [], [1, 2, 5, 5]], (1, (2, 5))),  # rows without entries before the first
        ([[3, 3, 3], [3], [], []], (2, (0, 3))),  # and after the last
        ([[1, 2], [], [2, 4], [4, 4, 6, 6]], (2, (3, 4))),  # the same column of two rows is no repetition
        ([[0], [0], [0]], (0, None)),
        ([[2]], (0, None)),
    ],
)
def test_repeated_pairs_are_counted_and_the_first_is_named(lines, expected):
    indptr = np.append(0, np.cumsum([len(line) for line in lines]))
    count, pair = Pattern(indptr, np.array([j for line in lines for j in line], np.uint32)).repeats()
    assert count == expected[0]
    assert pair == expected[1] or not count


def test_growing_positions_are_those_of_all_that_came():
    rng, (rows, cols) = np.random.default_rng(2), drawn()
    growing, height = Growing.of(pattern_of(rows, cols)), 30
    whole = [(int(i), int(j)) for i, j in zip(rows, cols, strict=True)]
    for step in range(25):
        height += step % 3
        more = rng.integers(0, height, 4), rng.integers(0, 20, 4)
        before = growing.base, growing.runs
        later = growing.appended(*more, height)
        assert growing.base is before[0]
        assert growing.runs is before[1]
        growing = later
        whole += [(int(i), int(j)) for i, j in zip(*more, strict=True)]
        chosen = np.array([height - 1, 3, 29, 3])
        due = [sorted(j for i, j in whole if i == line) for line in chosen]
        assert [sorted(line) for line in listed(growing.rows(chosen))] == due
    everything = growing.merged()
    assert not everything.runs
    due = [sorted(j for i, j in whole if i == line) for line in range(height)]
    assert [sorted(line) for line in listed(everything.base)] == due


def test_growing_moves_each_position_a_few_times_at_most():
    growing = Growing.of(pattern_of(*drawn(600)))
    one = np.array([3]), np.array([5])
    for _ in range(149):
        growing = growing.appended(*one, 30)
        assert len(growing.base.indices) == 600  # a quarter of it may wait
    sizes = [len(run.rows) for run in growing.runs]
    assert sizes == [128, 16, 4, 1]  # each at least twice the next, so that few are merged with a new one
    for _ in range(2):
        growing = growing.appended(*one, 30)
    assert len(growing.base.indices) == 751
    assert not growing.runs


def test_positions_of_a_row_are_in_the_order_in_which_they_came():
    rng, (rows, cols) = np.random.default_rng(5), drawn(500)
    growing = Growing.of(pattern_of(rows, cols))
    more = [(rng.integers(0, 30, count), rng.integers(0, 20, count)) for count in (90, 25, 5)]
    for each in more:
        growing = growing.appended(*each, 30)
    assert [len(run.rows) for run in growing.runs] == [90, 25, 5]
    together = (np.concatenate(parts) for parts in zip((rows, cols), *more, strict=True))
    assert listed(growing.rows(np.arange(30))) == by_line(*together, 30)


def test_growing_without_new_positions_has_new_rows():
    growing = Growing.of(pattern_of(*drawn()))
    assert growing.height == 30
    assert growing.merged().height == 30
    assert growing.merged().base is growing.base  # nothing is copied where there is nothing new
    growing = growing._replace(height=32)
    assert listed(growing.merged().base)[30:] == [[], []]
    nothing = np.empty(0, np.int64)
    assert growing.appended(nothing, nothing, 33).merged().base.indptr.size == 34


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


def test_positions_of_spread_entries_are_by_row_whatever_stripes_they_are_in():
    rows, cols = [0, 1, 0, 2, 2, 0], [4, 3, 1, 0, 4, 0]
    for stripes in (1, 2, 3):
        store = spread_triples(rows, cols, np.arange(6.0), (3, 5), stripes=stripes)
        assert len(store.stores) == stripes
        assert _own_positions(store).tolist() == [0, 1, 4, 3, 0, 4]
        assert _pattern(store).indptr.tolist() == [0, 3, 4, 6]
    none = replace(spread_triples(rows, cols, np.arange(6.0), (3, 5)), stores=(None,))
    assert _own_positions(none).tolist() == []


def test_a_sample_of_spread_entries_is_whole_rows_with_as_many_entries_as_asked_for(monkeypatch):
    monkeypatch.setattr("rankfold.estimators.completion.spread_entries.MIN_LINES", 4)
    rows, cols = drawn()
    store = spread_triples(rows, cols, np.arange(200.0), SHAPE)
    whole = by_line(rows, cols, 30)
    for limit, least, most in ((200, 200, 200), (199, 180, 199), (60, 45, 60), (1, 12, 45)):
        side = sample_of(store, limit, 0).by_row
        assert least <= len(side.indices) <= most
        assert all(line in whole for line in listed(Pattern.of(side)))
    assert len(Pattern.of(side).counts) == 4


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_spread_entries_keeps_their_values_and_weights(weighted):
    rows, cols = drawn()
    values, weights = np.arange(200.0), np.linspace(1, 2, 200) if weighted else None
    side = sample_of(spread_triples(rows, cols, values, SHAPE, weights), 60, 0).by_row
    assert side.data.shape[1] == 1 + weighted
    known = dict(zip(values, weights if weighted else values, strict=True))
    assert all(known[value] == last for value, last in side.data[:, [0, -1]])
