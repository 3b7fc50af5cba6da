"""Implicit features of small matrices, by products of the dense one."""

import numpy as np
import pytest
from scipy import sparse

import rankfold as rf
from rankfold.estimators.completion.side import implicit
from rankfold.estimators.completion.side.implicit import where_entries_are


def seen(shape, part=0.5, seed=0):
    """Entries at random places, some of them twice; none in the last lines, one in the first ones."""
    dense = np.random.default_rng(seed).random(shape) < part
    dense[-1], dense[:, -1], dense[0, 1:], dense[1:, 0], dense[0, 0] = False, False, False, False, True
    i, j = np.nonzero(dense)
    i, j = np.append(i, i[3:6]), np.append(j, j[3:6])
    return sparse.csr_array((np.ones(i.size), (i, j)), shape=shape), dense.astype(float)


@pytest.mark.parametrize("shape", [(9, 7), (6, 8)])
def test_features_of_all_directions_are_products_of_lines_that_entries_are_in(shape):
    matrix, dense = seen(shape)
    rows, cols = where_entries_are(matrix)
    counts = [np.maximum(dense.sum(axis=axis), 1.0) for axis in (1, 0)]
    S = dense / np.sqrt(np.outer(*counts))
    for found, own in ((rows, S), (cols, S.T)):
        assert found.shape == (len(own), min(shape))
        lengths = np.linalg.norm(own, axis=1)
        due = own @ own.T / np.maximum(np.outer(lengths, lengths), 1e-300)
        np.testing.assert_allclose(found @ found.T, due, atol=1e-5)
        assert not found[-1].any()


def test_there_are_twenty_of_them_and_they_repeat(monkeypatch):
    seeds, svd = [], implicit.dominant_svd

    def spied(matrix, count, seed, **options):
        seeds.append(seed)
        return svd(matrix, count, seed, **options)

    monkeypatch.setattr(implicit, "dominant_svd", spied)
    matrix, dense = seen((60, 50), 0.2)
    rows, cols = where_entries_are(matrix.copy())
    assert (rows.shape, cols.shape) == ((60, 20), (50, 20))
    where_entries_are(matrix.copy(), seed=5)
    i, j = np.nonzero(dense)
    (of_rows, X), (of_cols, Z) = rf.implicit_features(np.column_stack([i, j]), (60, 50))
    rf.implicit_features(np.column_stack([i, j]), (60, 50), seed=7)
    assert seeds == [0, 5, 0, 7]
    np.testing.assert_array_equal(of_rows, np.arange(60))
    np.testing.assert_array_equal(of_cols, np.arange(50))
    np.testing.assert_allclose(X @ X.T, rows @ rows.T, atol=1e-2)
    np.testing.assert_allclose(Z @ Z.T, cols @ cols.T, atol=1e-2)
