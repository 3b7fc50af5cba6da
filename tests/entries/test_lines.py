"""A small ridge problem for each line: beside NumPy's solution of each."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from rankfold import kernels
from rankfold.entries.lines import normal_equations, solve_lines, solve_with_pivots
from rankfold.entries.ordering import sorted_entries
from rankfold.kernels import layout

LINES, LENGTH, RANK = 12, 40, 5


def problem(dtype, stripes=1, weighted=False):
    """Entries by line, of 0, 1, 2, ... entries; and factors of the other side."""
    rng = np.random.default_rng(0)
    keys = np.repeat(np.arange(LINES), np.arange(LINES))
    others = rng.integers(0, LENGTH, keys.size)
    values, weights = rng.standard_normal(keys.size), rng.random(keys.size) + 0.5
    packed = values + 1j * weights if weighted else values
    packed = packed.astype(np.result_type(dtype, np.complex64) if weighted else dtype)
    side = sorted_entries(keys, others, packed, (LINES, LENGTH), np.uint32, stripes)
    return side, rng.standard_normal((LENGTH, RANK)).astype(dtype)


def dense(side, B, ridges, pull, fixed):
    """The solution and the last pivot of each line."""
    weights = side.data[:, 1] if side.data.shape[1] == 2 else np.ones(len(side.data))
    B, found, pivots = B.astype(np.float64), [], []
    for i in range(side.lines):
        of_line = side.keys == i
        A, y, w = B[side.indices[of_line]], side.data[of_line, 0], weights[of_line]
        if fixed:
            A, y = A[:, :-1], y - A[:, -1]
        Q = (A.T * w) @ A + np.diag(ridges[i])
        found.append(np.linalg.solve(Q, A.T @ (w * y) + pull[i]))
        pivots.append(1 / np.linalg.inv(Q)[-1, -1])
    return np.array(found), np.array(pivots)


# Kernels of a few widths, and of these very unknowns, where each way of giving entries compiles another one.
EACH_WAY = [(layout.FEW, *way) for way in itertools.product([1, 3], [False, True], [False, True])]


@pytest.mark.parametrize(
    ("few", "stripes", "weighted", "fixed"), [*EACH_WAY, (0, 1, True, False), (0, 3, False, True)]
)
def test_each_line_has_its_own_ridge_problem(few, stripes, weighted, fixed, monkeypatch):
    monkeypatch.setattr(layout, "FEW", few)
    side, B = problem(np.float64, stripes, weighted)
    rng = np.random.default_rng(1)
    ridges, pull = 0.1 + rng.random((LINES, RANK - fixed)), rng.standard_normal((LINES, RANK - fixed))
    x, pivots = solve_with_pivots(side, B, ridges, pull)
    expected = dense(side, B, ridges, pull, fixed)
    np.testing.assert_allclose(x, expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(pivots, expected[1], rtol=1e-9)


def test_much_work_is_done_in_several_calls(monkeypatch):
    """So that Ctrl-C need not wait for all lines at a large rank; each line is what it was."""
    side, B = problem(np.float64)
    ridges, calls, run = np.full((LINES, RANK), 0.5), [], kernels.pool.run
    whole = solve_with_pivots(side, B, ridges)
    monkeypatch.setattr(kernels.pool, "run", lambda *given: (calls.append(given[3][0].tolist()), run(*given)))
    monkeypatch.setattr("rankfold.entries.lines._CHUNKS", 2)
    monkeypatch.setattr("rankfold.entries.lines._AT_ONCE", 1200.0)  # of 5² · 66 + 5³ · 12 = 3150
    monkeypatch.setattr(layout, "FEW", 0)
    parted = solve_with_pivots(side, B, ridges)
    assert calls == [[0, 2, 4], [4, 6, 8], [8, 10, 12]]
    for found, expected in zip(parted, whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    calls.clear()
    monkeypatch.setattr("rankfold.entries.lines._AT_ONCE", 3151.0)
    solve_with_pivots(side, B, ridges)
    assert calls == [side.bounds.tolist()]


def test_float32_stays_float32():
    side, B = problem(np.float32)
    ridges = np.full((LINES, RANK), 0.5)
    x = solve_lines(side, B, ridges)
    assert x.dtype == np.float32
    np.testing.assert_allclose(x, dense(side, B, ridges, np.zeros_like(ridges), False)[0], atol=1e-4)


@pytest.mark.parametrize("few", [0, layout.FEW], ids=["of this very rank", "of a few widths"])
@pytest.mark.parametrize("stripes", [1, 3])
def test_normal_equations_of_some_lines(few, stripes, monkeypatch):
    monkeypatch.setattr(layout, "FEW", few)
    side, B = problem(np.float64, stripes)
    Q, q = normal_equations(side, B, 4, 10)
    assert Q.flags["C_CONTIGUOUS"]
    for i in range(4, 10):
        A, y = B[side.indices[side.keys == i]], side.data[side.keys == i, 0]
        np.testing.assert_allclose(Q[i - 4], A.T @ A, atol=1e-12)
        np.testing.assert_allclose(q[i - 4], A.T @ y, atol=1e-12)


def test_what_no_entry_determines_is_zero_and_has_no_pivot():
    side, B = problem(np.float64)
    B[:, -1] = B[:, 0]  # the last unknown cannot be told from the first
    x, pivots = solve_with_pivots(side, B, np.zeros((LINES, RANK)))
    assert np.all(np.isfinite(x))
    assert not x[0].any()
    assert not pivots.any()
    assert not x[:, -1].any()


def test_factors_of_another_size_are_refused():
    side, B = problem(np.float64)
    with pytest.raises(ValueError, match="40 lines on the other side, and factors of 39"):
        solve_lines(replace(side), B[:-1], np.ones((LINES, RANK)))
