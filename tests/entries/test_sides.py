"""Sides of entries in stripes and without, operators made of others, and small systems of lines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from entries.stores import draw, in_memory, in_stripes
from rankfold.entries.lines import factorised, normal_equations, solved
from rankfold.entries.operators import Indicator, Scaled, SparseMatrix, Turned
from rankfold.entries.sorted_entries import index_type
from rankfold.kernels import pool

SHAPE = 9, 14


@pytest.mark.parametrize("build", [in_memory, in_stripes])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_side_knows_row_column_and_data_of_each_entry(build, weighted, dtype):
    entries = draw(2, *SHAPE, 0.6, weighted=weighted)
    store = build(entries).astype(dtype)
    weights = entries.weights if weighted else np.ones(entries.rows.size)
    for side, lines, others in zip(
        store.sides, (entries.rows, entries.cols), (entries.cols, entries.rows), strict=True
    ):
        width = -(-side.length // side.stripes)
        order = np.lexsort((others, lines, others // width))
        assert side.stripes == (1 if build is in_memory else 3)
        assert side.across.dtype == np.uint16
        assert side.step == (width if side.stripes > 1 else side.length)
        assert_array_equal(side.keys, lines[order])
        assert_array_equal(side.indices, others[order])
        assert side.keys.dtype == side.indices.dtype == np.uint32
        assert not side.indices.flags.writeable
        packed = entries.values[order].astype(dtype)
        if weighted:
            packed = packed + 1j * weights[order].astype(dtype)
        assert side.packed.dtype == packed.dtype
        assert_array_equal(side.packed, packed)
        for places in (
            slice(3, 20),
            slice(0, 0),
            slice(side.size - 1, side.size),
            np.array([7, 0, 30, 7, side.size - 1]),
        ):
            found = side.columns(places)
            assert found.dtype == np.uint32 or not found.size
            assert_array_equal(found, others[order][places])


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((2**32, 1), np.uint32),
        ((1, 2**32), np.uint32),
        ((1, 2**32 + 1), np.uint64),
        ((2**32 + 1, 1), np.uint64),
    ],
)
def test_indices_have_32_bits_where_these_are_enough(shape, kind):
    assert index_type(shape) is kind


def test_a_matrix_turned_and_scaled_is_known_by_its_products():
    entries = draw(2, *SHAPE)
    store, rng = in_memory(entries), np.random.default_rng(0)
    dense = np.zeros(SHAPE)
    dense[entries.rows, entries.cols] = entries.values
    S = store.of_data(lambda data: data[:, 0], np.float64)
    rows, cols, X, Y = (rng.uniform(1, 2, (d, k)) for d, k in ((9, 1), (14, 1), (14, 2), (9, 2)))
    for found, due in (
        (Turned(S), dense.T),
        (Scaled(S, rows, cols), rows * dense * cols.T),
        (Turned(Scaled(S, rows, cols)), (rows * dense * cols.T).T),
        (Indicator(store), (dense != 0) * 1.0),
    ):
        A, B = (X, Y) if due.shape == SHAPE else (Y, X)
        assert_allclose(found @ A, due @ A, rtol=1e-12)
        assert_allclose(found.transposed_times(B), due.T @ B, rtol=1e-12)
        if not isinstance(found, Indicator):
            assert found.shape == due.shape
            assert found.dtype == np.float64
    single = store.of_data(lambda data: data[:, 0], np.float32)
    assert Turned(single).dtype == Scaled(single, rows, cols).dtype == np.float32
    assert (single @ X).dtype == np.float32


@pytest.mark.parametrize("which", [0, 1])
def test_a_matrix_has_a_number_for_each_entry_of_both_sides(which):
    store = in_memory(draw(2, *SHAPE))
    values = [np.ones(store.size), np.ones(store.size)]
    values[which] = np.ones(store.size + 1)
    with pytest.raises(ValueError, match=f"values must be a vector of {store.size} numbers"):
        SparseMatrix(store, tuple(values))


@pytest.mark.parametrize("by", ["line", "unknown"])
@pytest.mark.parametrize("lines", [1, 5, 40])
def test_small_systems_are_solved_with_a_ridge_by_line_or_by_unknown(by, lines):
    rng = np.random.default_rng(0)
    A, q = rng.standard_normal((lines, 3, 6)), rng.standard_normal((lines, 3))
    Q = A @ A.transpose(0, 2, 1)
    ridges = rng.uniform(1, 2, lines if by == "line" else (lines, 3))
    full = Q + ridges.reshape(lines, -1, 1) * np.eye(3)
    factor = Q.copy()
    factorised(factor, ridges)
    assert_allclose(np.tril(factor), np.linalg.cholesky(full), rtol=1e-12)
    given = q.copy()
    assert_allclose(solved(Q, q, ridges), np.linalg.solve(full, given[:, :, None])[:, :, 0], rtol=1e-10)


@pytest.mark.parametrize("build", [in_memory, in_stripes])
def test_normal_equations_of_weighted_entries(build):
    entries = draw(2, *SHAPE, 0.6, weighted=True)
    side, B = build(entries).by_row, np.random.default_rng(0).standard_normal((14, 3))
    Q, q = normal_equations(side, B, 2, 7)
    for i in range(2, 7):
        own = entries.rows == i
        A, w = B[entries.cols[own]], entries.weights[own]
        assert_allclose(Q[i - 2], (A.T * w) @ A, atol=1e-12)
        assert_allclose(q[i - 2], A.T @ (w * entries.values[own]), atol=1e-12)
    for wrong in (B[1:], np.vstack([B, B[:1]])):
        with pytest.raises(
            ValueError, match=f"there are 14 lines on the other side, and factors of {len(wrong)}"
        ):
            normal_equations(side, wrong, 2, 7)


def test_threads_share_out_all_systems(monkeypatch):
    monkeypatch.setattr(pool, "WORTH_A_HELPER", 1)
    Q = np.broadcast_to(2 * np.eye(2), (100, 2, 2)).copy()
    assert_allclose(solved(Q, np.ones((100, 2)), np.zeros(100)), 0.5)
