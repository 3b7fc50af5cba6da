"""Offsets that are fitted or given: what their costs are known for, and beside dense formulas."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import rankfold as rf
from costs.suite import all_close, close, factors
from rankfold.costs.offsets import GivenOffsets, with_offsets, without_offsets

SHAPE = 5, 4
ROWS, COLS = np.divmod(np.array([0, 2, 5, 6, 7, 9, 11, 12, 14, 17, 19]), 4)
Y = np.arange(11.0) % 4 - 1
OF_ROWS, OF_COLS = np.linspace(-1, 2, 5), np.array([3.0, 0.5, -1, 0])


def completion(loss="square", y=Y):
    return rf.Completion(ROWS, COLS, y, SHAPE, loss=loss)


def shifted(rows=OF_ROWS, cols=OF_COLS, mean=0.0):
    return rf.Completion(ROWS, COLS, Y - rows[ROWS] - cols[COLS] - mean, SHAPE)


def test_given_offsets_are_taken_from_the_values():
    cost, plain = GivenOffsets(completion(), OF_ROWS, OF_COLS), shifted()
    points = factors(SHAPE, 2)
    L, R = points[:2]
    all_close(cost.evaluate(L, R), plain.evaluate(L, R))
    close(cost.value(L, R), plain.value(L, R))
    close(cost.value_at_zero, plain.value_at_zero)
    all_close(cost.derivative(*points), plain.derivative(*points))
    all_close(cost.gauss_newton(*points), plain.gauss_newton(*points))
    all_close(cost.line_blocks(L, R), plain.line_blocks(L, R))
    assert cost.shape == SHAPE
    assert cost.places is None
    for one, two in zip(cost.start(2, seed=3), completion().start(2, seed=3), strict=True):
        assert_array_equal(one, two)


@pytest.mark.parametrize(("loss", "nonnegative"), [("square", True), ("poisson", False)])
def test_what_costs_of_given_offsets_are_known_for(loss, nonnegative):
    cost = GivenOffsets(completion(loss, np.abs(Y)), OF_ROWS, OF_COLS)
    assert (cost.nonnegative, cost.has_line_blocks, cost.quadratic) == (nonnegative, True, False)


def test_given_offsets_are_copied():
    rows = OF_ROWS.copy()
    cost = GivenOffsets(completion(), rows, OF_COLS.astype(int).tolist())
    before = cost.value_at_zero
    rows[:] = 0
    assert cost.value_at_zero == before
    assert cost.rows.dtype == cost.cols.dtype == np.float64


@pytest.mark.parametrize(
    ("rows", "cols", "words"),
    [
        (np.zeros(4), OF_COLS, r"one offset for each of 5 rows and 4 columns; got shapes \(4,\) and \(4,\)"),
        (OF_ROWS, np.zeros(5), r"got shapes \(5,\) and \(5,\)"),
        (OF_ROWS[:, None], OF_COLS, r"rows must be one-dimensional; got shape \(5, 1\)"),
        (OF_ROWS, OF_COLS[:, None], r"cols must be one-dimensional; got shape \(4, 1\)"),
        (np.append(OF_ROWS[:4], np.nan), OF_COLS, r"rows\[4\] is nan"),
        (OF_ROWS, np.append(OF_COLS[:3], 1e70), r"cols\[3\] is 1e\+70"),
    ],
)
def test_offsets_that_are_refused(rows, cols, words):
    with pytest.raises(ValueError, match=words):
        GivenOffsets(completion(), rows, cols)


def test_fitted_offsets_are_as_good_as_any_others():
    """At any W those that are found leave no more than others, ridges included."""
    cost = rf.WithOffsets(completion(), mean=0.5, rows=1.5, cols=2.5)
    L, R = factors(SHAPE, 2, count=1)
    W = L @ R.T

    def penalised(mean, rows, cols):
        e = Y - (W + mean + rows[:, None] + cols)[ROWS, COLS]
        return (e @ e + 0.5 * mean**2 + 1.5 * rows @ rows + 2.5 * cols @ cols) / Y.size

    found = cost.offsets(L, R)
    assert type(found.mean) is float
    assert (found.rows.shape, found.cols.shape) == ((5,), (4,))
    close(cost.value(L, R), penalised(*found))
    rng = np.random.default_rng(0)
    for size in (1e-3, 1.0):
        near = [part + size * rng.standard_normal(np.shape(part)) for part in found]
        assert penalised(*near) > cost.value(L, R)
    close(cost.value_at_zero, cost.value(np.zeros((5, 1)), np.zeros((4, 1))))
    held = shifted(found.rows, found.cols, found.mean)
    all_close(cost.evaluate(L, R)[1:], held.evaluate(L, R)[1:])
    all_close(cost.line_blocks(L, R), held.line_blocks(L, R))
    assert (cost.quadratic, cost.has_line_blocks, cost.nonnegative) == (True, True, True)
    assert (cost.places, cost.device) == (None, None)


def test_a_start_is_that_of_what_offsets_leave_over():
    cost = rf.WithOffsets(completion())
    mean, rows, cols = cost.offsets(np.zeros((5, 1)), np.zeros((4, 1)))
    for one, two in zip(cost.start(2, seed=1), shifted(rows, cols, mean).start(2, seed=1), strict=True):
        close(one, two, 1e-9)


def test_costs_of_other_ridges_or_offsets_are_told_apart():
    costs = [
        rf.WithOffsets(completion()),
        rf.WithOffsets(completion(), rows=4.0),
        rf.WithOffsets(completion(y=Y + 1)),
        GivenOffsets(completion(), OF_ROWS, OF_COLS),
        GivenOffsets(completion(), OF_ROWS, 0 * OF_COLS),
    ]
    prints = [cost.fingerprint() for cost in costs]
    assert all(one != two for k, one in enumerate(prints) for two in prints[:k])
    for found in prints:
        assert {"entries", "loss", "value at a fixed W", "value at another fixed W"} <= set(found)
    assert prints[0] == rf.WithOffsets(completion()).fingerprint()


def test_offsets_are_two_more_columns():
    A, B = factors(SHAPE, 2, count=1)
    left, right = with_offsets(A, B, OF_ROWS, OF_COLS)
    close(left @ right.T, A @ B.T + OF_ROWS[:, None] + OF_COLS)
    left, right = with_offsets(A, B, OF_ROWS, OF_COLS, 0.0)
    close(left @ right.T, A @ B.T)
    single = with_offsets(A.astype(np.float32), B.astype(np.float32), OF_ROWS, OF_COLS)
    assert {part.dtype for part in single} == {np.dtype(np.float32)}
    for found, due in zip(without_offsets(A, left, right), (A, B), strict=True):
        assert_array_equal(found, due)
        assert found.flags.c_contiguous


@pytest.mark.parametrize("make", [rf.WithOffsets, lambda cost: GivenOffsets(cost, OF_ROWS, OF_COLS)])
def test_factors_that_do_not_fit_are_named_as_they_were_given(make):
    cost, (L, R, dL, dR) = make(completion()), factors(SHAPE, 2)
    for ask in (cost.evaluate, cost.value):
        with pytest.raises(ValueError, match=r"L must have shape \(5, r\) .* got \(4, 2\), \(4, 2\)"):
            ask(L[:-1], R)
    with pytest.raises(
        ValueError, match=r"R must have shape \(4, r\) .* got \(5, 2\), \(5, 2\), \(4, 2\), \(4, 1\)"
    ):
        cost.derivative(L, R, dL, dR[:, :1])


@pytest.mark.parametrize("terms", [(2, 1), (1, 2)])
def test_curves_of_unequal_degrees(terms):
    cost, drawn = rf.WithOffsets(completion(), rows=1.0), factors(SHAPE, 2, count=3)
    Ls, Rs = drawn[::2][: terms[0]], drawn[1::2][: terms[1]]
    found = cost.polynomial(Ls, Rs)
    for t in (-0.5, 0.0, 0.8):
        L, R = (sum(A * t**k for k, A in enumerate(As)) for As in (Ls, Rs))
        close(np.polynomial.polynomial.polyval(t, found), cost.value(L, R))
