"""How long deviations last, and how much of them is carried: chosen for each column by hidden entries."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankfold.estimators.imputer import ordered
from rankfold.estimators.imputer.factor_model import FactorModel


def walk(n=40, d=3, seed=0):
    """Columns whose deviations last for a while, in rows that are not equally far apart."""
    rng = np.random.default_rng(seed)
    index = np.cumsum(rng.choice([1.0, 2.0], n))
    Z = np.cumsum(0.4 * rng.standard_normal((n, d)), axis=0) + rng.standard_normal((n, 1))
    Z[:, 1] += 0.7 * rng.standard_normal(n)
    Z[:, 2] = rng.standard_normal(n)
    model = FactorModel(0.1 * np.ones(d), np.ones((d, 1)), np.array([0.5, 1.0, 2.0]))
    return model, Z, rng.uniform(size=Z.shape) < 0.85, index


def test_times_and_strengths_are_those_of_the_least_squared_error(monkeypatch):
    """Against all of them tried, with the strength of each by least squares, between 0 and 1."""
    model, Z, known, index = walk()
    rng = np.random.default_rng(1)
    hidden = [known & (rng.uniform(size=known.shape) < 0.2) for _ in range(2)]
    monkeypatch.setattr(ordered, "_moved", lambda *_: iter(hidden))
    mixed = rng.permutation(len(Z))
    times, strengths = ordered.chosen(model, Z[mixed], known[mixed], index[mixed], rng)
    tried = ordered._tried(index)
    for column in range(3):
        errors = []
        for tau in tried:
            misses, carried = [], []
            for hide in hidden:
                train = known & ~hide
                full = model.filled(Z, train)
                every = ordered.Smoothing(np.full(3, tau), np.ones(3)).filled(model, Z, train, index)
                rows = np.flatnonzero(hide[:, column])
                misses.append((Z - full)[rows, column])
                carried.append((every - full)[rows, column])
            e, b = np.concatenate(misses), np.concatenate(carried)
            kappa = np.clip(e @ b / (b @ b), 0, 1)
            errors.append(((e - kappa * b) @ (e - kappa * b), tau, kappa))
        _, tau, kappa = min(errors)
        assert_allclose([times[column], strengths[column]], [tau, kappa], rtol=1e-9)
    assert ((strengths > 0) & (strengths < 1)).any()


def test_without_anything_to_carry_strengths_are_0():
    model, Z, _, index = walk(n=4)
    nothing = np.zeros((4, 3), bool)
    found = ordered.chosen(model, 0 * Z, nothing, index, np.random.default_rng(0))
    assert_array_equal(found.strengths, np.zeros(3))


def test_holes_are_moved_down_by_some_rows():
    known = np.random.default_rng(0).uniform(size=(30, 4)) < 0.8
    moves = list(ordered._moved(known, np.random.default_rng(5)))
    assert len(moves) == 3
    rng = np.random.default_rng(5)
    for hide in moves:
        shift = int(rng.integers(1, 30))
        assert_array_equal(hide, known & ~np.roll(known, shift, axis=0))
    for seed in range(8):
        two = np.array([[True, False], [True, True]])
        assert all(hide.tolist() == [[False, False], [False, True]] for hide in
                   ordered._moved(two, np.random.default_rng(seed)))  # fmt: skip


def test_without_holes_a_tenth_of_all_blocks_of_eight_rows_is_hidden():
    moves = list(ordered._moved(np.ones((803, 5), bool), np.random.default_rng(0)))
    assert len(moves) == 3
    rng = np.random.default_rng(0)
    for hide in moves:
        rng.integers(1, 803)
        blocks = rng.uniform(size=(101, 5)) < 0.1
        assert_array_equal(hide, np.repeat(blocks, 8, axis=0)[:803])


@pytest.mark.parametrize(("index", "least"), [(np.zeros(3), 1e-9), (np.array([0.0, 0.0, 5.0]), 5e-9)])
def test_rows_of_one_time_are_as_good_as_no_distance_apart(index, least):
    model, Z, _, _ = walk(n=3)
    known = np.ones((3, 3), bool)
    known[1, 0] = False
    found = ordered._carried(model, Z, known, index, (np.array([1]), np.array([0])))
    assert_allclose(found.since, [least])
    assert_allclose(found.until, [max(index[2], least)])


def test_what_is_far_away_is_nothing_however_numpy_takes_that():
    far = ordered.Carried(np.ones(2), np.ones(2), np.array([1e5, 800.0]), np.array([1e5, np.inf]))
    with np.errstate(under="raise"):
        assert_allclose(far.bridged(1.0), [0.0, 0.0], atol=1e-300)


def test_a_known_entry_at_the_first_row_is_carried():
    model, Z, _, index = walk(n=5)
    known = np.ones((5, 3), bool)
    known[1:4, 1] = False
    where = np.array([1, 3]), np.array([1, 1])
    found = ordered._carried(model, Z, known, index, where)
    assert found.before[0] == found.before[1] != 0
    assert found.after[0] == found.after[1] != 0
    assert_allclose(found.since, index[[1, 3]] - index[0])
    assert_allclose(found.until, index[4] - index[[1, 3]])
    alone = model.filled(Z[:1], np.array([[True, False, True]]))
    assert_allclose(found.before[0], Z[0, 1] - alone[0, 1])
