"""Choices that look at a part of the data."""

import numpy as np
import pytest

import rankfold as rf
from estimators.completion.rating_data import ratings
from rankfold.entries.observed import Observed
from rankfold.selection.sampling import sample_lines, sampled


def test_a_sample_is_whole_lines_of_the_longer_side(monkeypatch):
    X, y, _ = ratings()
    assert sample_lines(rf.Completion(*X.T, y, (60, 40)), 700, seed=0).shape == (60, 40)  # few rows: all
    monkeypatch.setattr("rankfold.selection.sampling.MIN_LINES", 3)
    for pairs in (X, X[:, ::-1]):
        whole = rf.Completion(*pairs.T, y, pairs.max(axis=0) + 1)
        assert sample_lines(whole, whole.observed.size, seed=0) is whole
        part = sample_lines(whole, 700, seed=0)
        longer = int(np.argmax(whole.shape))
        assert part.shape[1 - longer] == whole.shape[1 - longer]
        assert 600 < part.observed.size <= 700
        sides = [(c.observed.by_row, c.observed.by_column)[longer] for c in (part, whole)]
        assert set(map(tuple, np.split(*_rows(sides[0])))) <= set(map(tuple, np.split(*_rows(sides[1]))))


def _rows(side):
    return side.data[:, 0], side.indptr[1:-1].astype(int)


@pytest.mark.parametrize("storage", [None, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_few_entries_is_what_its_lines_hold_and_silent_of_empty_ones(weighted, storage):
    rng = np.random.default_rng(0)
    where, values, weights = np.sort(rng.choice(9000, 300, replace=False)), *rng.uniform(1, 2, (2, 300))
    for shape, axis in (((300, 30), 0), ((30, 300), 1)):
        rows, cols = np.divmod(where, 30)[:: 1 - 2 * axis]
        observed = Observed.from_triples(
            rows, cols, values, shape, weights if weighted else None, warn_of_empty=False, storage=storage
        )
        whole = rf.Completion.from_observed(observed, rf.Loss.huber(0.7))
        part, chosen = sample_lines(whole, 50, seed=3), sampled(whole, 50, seed=3)
        assert len(set(chosen)) == part.shape[axis] == 100  # no fewer lines, though they hold more than 50
        assert (part.loss, part.observed.dtype) == (whole.loss, whole.observed.dtype)
        assert (part.observed.storage, part.observed.weighted) == (observed.storage, weighted)
        assert not part.observed.counts[1 - axis].all()
        for column in range(1 + weighted):
            assert (_dense(part, column) == np.take(_dense(whole, column), chosen, axis)).all()


def test_a_sample_has_no_more_entries_than_asked_for_if_its_lines_are_many():
    rng = np.random.default_rng(0)
    cost = rf.Completion(np.repeat(np.arange(500), 3), np.tile(np.arange(3), 500), rng.random(1500), (500, 3))
    sizes = [sample_lines(cost, limit, seed=0).observed.size for limit in (1499, 600, 451, 450, 302, 200)]
    assert sizes == [1497, 600, 450, 450, 300, 300]
    assert len(sampled(cost, 450, seed=0)) == 150
    assert sampled(cost, 1500, seed=0) is None


def _dense(cost, column):
    """Values, or weights, as a matrix."""
    side, matrix = cost.observed.by_row, np.zeros(cost.shape)
    matrix[side.keys, side.indices] = side.data[:, column]
    return matrix
