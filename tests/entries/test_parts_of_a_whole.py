"""Entries that are a part of more: their means are over all of these."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rankfold as rf
from costs.suite import all_close, close
from entries.stores import draw, factors, in_memory, in_stripes, on_disk

SQUARE = rf.Loss.named("square")


def answers(store, L, R, dL, dR):
    S = store.gradient(L, R, SQUARE)
    value, *partials = store.evaluate(L, R, SQUARE)
    changes = *store.derivative(L, R, dL, dR, SQUARE), *store.gauss_newton(L, R, dL, dR, SQUARE)
    scalars = value, store.value(L, R, SQUARE), store.value_at_zero(SQUARE)
    return [*scalars, *partials, *changes, *store.blocks(L, R, SQUARE), S @ dR, S.transposed_times(dL)]


@pytest.mark.parametrize("build", [in_memory, in_stripes, on_disk])
def test_means_of_a_part_are_over_the_entries_of_the_whole(build):
    entries = draw(3, 12, 9, 0.5, weighted=True)
    store, points = build(entries), factors((12, 9), 3)
    part = replace(store, among=3 * store.size)
    assert (store.counted, part.counted, part.size) == (store.size, 3 * store.size, store.size)
    all_close([3 * np.asarray(answer) for answer in answers(part, *points)], answers(store, *points))
    assert part.mean_value == store.mean_value
    close(part.polynomial(points[::2], points[1::2]), store.polynomial(points[::2], points[1::2]))


@pytest.mark.parametrize("build", [in_memory, in_stripes])
def test_what_is_made_of_a_part_is_one_of_the_same_whole(build):
    store = build(draw(3, 12, 9, 0.5))
    part = replace(store, among=1000)
    assert [made.counted for made in (
        part.plain, part.astype(np.float32), part.with_values(lambda i, j, y: 2 * y),
        part.with_data(part.by_row.data, part.by_column.data),
    )] == [1000] * 4  # fmt: skip
    assert store.plain.counted == store.size


@pytest.mark.parametrize("weighted", [False, True])
def test_the_mean_value_is_weighted_unless_all_weights_are_zero(weighted):
    entries = draw(3, 12, 9, 0.5, weighted=weighted)
    close(in_memory(entries).mean_value, np.average(entries.values, weights=entries.weights), 1e-13)
    none = replace(entries, weights=0 * entries.values)
    close(in_memory(none).mean_value, entries.values.mean(), 1e-13)


@pytest.mark.filterwarnings("error")
def test_lines_without_entries_are_told_of_unless_nobody_wants_to_know():
    from rankfold.entries.observed import Observed

    triples = [0, 1], [0, 2], [1.0, 2.0]
    Observed.from_triples(*triples, (3, 4), warn_of_empty=False)
    for shape, words in (((3, 3), "1 of 3 rows have"), ((2, 4), "2 of 4 columns have")):
        with pytest.raises(UserWarning, match=words):
            Observed.from_triples(*triples, shape)
    full = Observed.from_triples([0, 1], [1, 0], [1.0, 2.0], (2, 2))
    assert_array_equal(full.counts, [[1, 1], [1, 1]])


@pytest.mark.parametrize(
    "shape", [(2.5, 2), (2, 2, 2), "ab", 3, (np.inf, 2), (0, 2), (2, -1), None, (True, "2")]
)
def test_a_shape_is_two_positive_integers(shape):
    with pytest.raises(ValueError, match="shape must be two positive integers"):
        rf.Completion([0, 1], [0, 1], [1.0, 2.0], shape)


def test_a_shape_may_be_of_any_integers():
    for shape in ([2, 3], (np.int8(2), 3.0), np.array([2, 3], np.uint64)):
        cost = rf.Completion([0, 1, 1], [0, 1, 2], [1.0, 2.0, 3.0], shape)
        assert cost.shape == (2, 3)
        assert {type(d) for d in cost.shape} == {int}


@pytest.mark.parametrize(("least", "taken"), [(0.0, True), (-1e-300, False)])
def test_weights_are_zero_or_more(least, taken):
    triples = [0, 1], [0, 1], [1.0, 2.0], (2, 2)
    if taken:
        assert rf.Completion(*triples, weights=[2.0, least]).value_at_zero == 1.0
        return
    with pytest.raises(ValueError, match=r"weights\[1\] is -1e-300; weights must be zero or more"):
        rf.Completion(*triples, weights=[2.0, least])
