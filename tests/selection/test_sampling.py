"""Choices that look at a part of the data."""

import numpy as np

import rankfold as rf
from estimators.completion.rating_data import ratings
from rankfold.selection.sampling import sample_lines


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
