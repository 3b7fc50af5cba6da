"""The system that offsets solve: beside dense matrices, in blocks, and by conjugate gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from costs.suite import all_close, close, factors
from entries.stores import draw, in_memory
from rankfold.costs import offset_system
from rankfold.costs.offset_system import conjugate_gradients


def definite(size, seed=0):
    A = np.random.default_rng(seed).standard_normal((size, 2 * size))
    return A @ A.T


def test_conjugate_gradients_solve_for_columns_of_any_size_and_stand_still_where_one_is_solved():
    H, calls = definite(9), []
    rhs = np.random.default_rng(1).standard_normal((9, 4)) * [1.0, 1e-9, 0.0, 1e6]
    rhs = np.column_stack([rhs, H[:, 3:4]])

    def times(x):
        calls.append(x.copy())
        return H @ x

    given = rhs.copy()
    found = conjugate_gradients(times, rhs, np.diag(H)[:, None])
    assert_array_equal(rhs, given)
    exact = np.linalg.solve(H, rhs)
    for one, two in zip(found.T, exact.T, strict=True):
        assert_allclose(one, two, rtol=0, atol=1e-10 * np.abs(two).max())
    assert_array_equal(found[:, 2], 0.0)
    assert 9 <= len(calls) <= 14


def test_conjugate_gradients_are_preconditioned_by_the_diagonal():
    diagonal, calls = np.array([[1e6], [1.0], [1e-6]]), []
    found = conjugate_gradients(lambda x: (calls.append(1), diagonal * x)[1], np.ones((3, 1)), diagonal)
    close(found, 1 / diagonal)
    assert len(calls) == 1


def test_conjugate_gradients_end_where_they_get_no_further(monkeypatch):
    monkeypatch.setattr(offset_system, "MAX_STEPS", 7)
    calls = []
    found = conjugate_gradients(
        lambda x: (calls.append(1), definite(30) @ x)[1], np.ones((30, 1)), np.ones((30, 1))
    )
    assert np.isfinite(found).all()
    assert len(calls) == 7


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("most", [1, 4, 7, 10**6])
def test_the_pattern_is_cut_into_blocks_of_lines(most, weighted, monkeypatch):
    monkeypatch.setattr(offset_system, "BLOCK_ENTRIES", most)
    entries = draw(3, 12, 9, 0.3, weighted=weighted)
    dense = np.zeros((12, 9))
    dense[entries.rows, entries.cols] = entries.weights if weighted else 1.0
    side = in_memory(entries).by_row
    seen, sizes = [], []
    for lines, N in offset_system._blocks(side, 9):
        assert_array_equal(N.toarray(), dense[lines])
        seen += range(lines.start, lines.stop)
        sizes.append(N.nnz)
    assert seen == list(range(12))
    assert max(sizes) < most + side.counts.max()
    assert (len(sizes) == 1) == (most == 10**6)


def least_squares(rows, cols, y, shape, ridges):
    """Offsets of rows, columns and all entries by NumPy, each with a ridge of its own."""
    d1, d2 = shape
    design = np.zeros((len(y), d1 + d2 + 1))
    k = np.arange(len(y))
    design[k, rows] = design[k, d1 + cols] = design[:, -1] = 1
    return np.linalg.solve(design.T @ design + np.diag(ridges), design.T @ y)


@pytest.mark.filterwarnings("ignore:.*no observed entry")
@pytest.mark.parametrize("most", [4096, 0])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_ridges_by_counts_are_multiplied_by_the_entries_of_each_line(shape, most, monkeypatch):
    """Lines of one entry and of none count once."""
    monkeypatch.setattr(offset_system, "MAX_FACTORED", most)
    rows, cols = np.array([0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 0, 1, 2])
    y = np.array([1.0, 2, 4, 3, 7, 5])
    cost = rf.WithOffsets(rf.Completion(rows, cols, y, shape), 0.5, 2.0, 3.0, by_counts=True)
    counts = np.bincount(rows, minlength=shape[0]), np.bincount(cols, minlength=shape[1])
    ridges = [*(2.0 * np.maximum(counts[0], 1)), *(3.0 * np.maximum(counts[1], 1)), 0.5]
    beta = least_squares(rows, cols, y, shape, ridges)
    found = cost.offsets(*(np.zeros((d, 1)) for d in shape))
    of_rows, of_cols, mean = np.split(beta, np.cumsum(shape))
    all_close(found, [mean[0], of_rows, of_cols], 1e-9)


def test_several_right_hand_sides_are_solved_at_once():
    entries = draw(3, 9, 6, 0.5)
    system = rf.WithOffsets(rf.Completion.from_observed(in_memory(entries)), rows=1.0)._system
    rhs = np.random.default_rng(0).standard_normal((16, 3))
    together = system.solve(rhs)
    for k in range(3):
        close(system.solve(rhs[:, k]), together[:, k])
    close(system.inner(rhs.T, together), rhs.T @ together)
    L, R = factors((9, 6), 2, count=1)
    W = (L @ R.T)[entries.rows, entries.cols]
    sums = [np.bincount(entries.rows, W, 9), np.bincount(entries.cols, W, 6), [W.sum()]]
    close(system.sums(L, R), np.concatenate(sums))


@pytest.mark.parametrize(("most", "factored"), [(7, True), (6, False)])
@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
def test_systems_of_no_more_than_so_many_unknowns_are_factored(shape, most, factored, monkeypatch):
    """Those of the shorter side, and the mean."""
    monkeypatch.setattr(offset_system, "MAX_FACTORED", most)
    store = in_memory(draw(3, *shape, 0.5))
    system = rf.WithOffsets(rf.Completion.from_observed(store))._system
    assert (system.factor is not None) == factored
