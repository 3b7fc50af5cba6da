"""The multinomial loss: what it is in special cases, threads and stripes, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from costs.suite import close, factors
from rankfold.entries import sorted_entries
from rankfold.kernels import pool


def drawn(rows=60, columns=40, seed=0, entries=900):
    """A table of two to five categories a column."""
    rng = np.random.default_rng(seed)
    categories = rng.integers(2, 6, columns)
    where = rng.choice(rows * columns, entries, replace=False)
    i, j = np.divmod(where, columns)
    return i, j, rng.integers(0, categories[j]), (rows, columns), categories


def test_two_categories_are_the_logistic_loss_of_their_difference():
    i, j, _, (rows, columns), _ = drawn()
    y = np.random.default_rng(1).integers(0, 2, i.size)
    cost = rf.Multinomial(i, j, y, (rows, columns), 2)
    logistic = rf.Completion(i, j, y.astype(float), (rows, columns), loss="logistic")
    L, R = factors(cost.shape, 3, count=1)
    difference = R[1::2] - R[::2]
    value, f_L, f_R = cost.evaluate(L, R)
    expected = logistic.evaluate(L, difference)
    close(value, expected.value)
    close(f_L, expected.f_L)
    close(f_R[1::2], expected.f_R)
    close(f_R[::2], -expected.f_R)


def test_columns_may_have_one_category_which_costs_nothing():
    cost = rf.Multinomial([0, 1], [0, 1], [0, 1], (2, 2), categories=[1, 3])
    L, R = factors(cost.shape, 2, count=1)
    alone = rf.Multinomial([1], [0], [1], (2, 1), 3)
    value, f_L, f_R = cost.evaluate(L, R)
    close(2 * value, alone.value(L, R[1:]))
    assert_array_equal(f_L[0], 0.0)
    assert_array_equal(f_R[0], 0.0)


def test_logits_of_any_size_do_not_overflow():
    cost = rf.Multinomial([0, 0], [0, 1], [0, 1], (1, 2), 2)
    value, f_L, f_R = cost.evaluate(np.array([[1e4]]), np.array([[1.0], [-1.0], [1.0], [-1.0]]))
    assert_allclose(value, 1e4)  # the first is certain, the second as wrong as can be: 2e4
    assert_allclose(f_R.ravel(), [0, 0, 5e3, -5e3])
    assert_allclose(f_L, 1.0)


@pytest.mark.parametrize("largest", range(3))
def test_the_largest_logit_may_be_of_any_category(largest):
    """Exponentials of logits overflow beyond 709: they are taken of what lies below the largest."""
    logits = np.array([500.0, 100.0, -300.0])
    logits[largest] = 1e4
    for y in range(3):
        cost = rf.Multinomial([0], [0], [y], (1, 1), 3)
        value, f_L, f_R = cost.evaluate(np.ones((1, 1)), logits[:, None])
        chances = np.eye(3)[largest]
        assert_allclose(value, 1e4 - logits[y])
        assert_allclose(f_R[:, 0], chances - np.eye(3)[y])
        assert_allclose(f_L, [[logits @ (chances - np.eye(3)[y])]])


def everything(cost, rank=3):
    arrays = factors(cost.shape, rank)
    return [*cost.evaluate(*arrays[:2]), *cost.derivative(*arrays), *cost.line_blocks(*arrays[:2])]


@pytest.mark.parametrize("weighted", [False, True])
def test_stripes_and_threads_change_nothing(monkeypatch, weighted):
    data = drawn()
    weights = np.random.default_rng(3).uniform(0, 2, data[0].size) if weighted else None
    plain = everything(rf.Multinomial(*data, weights=weights))
    monkeypatch.setattr(sorted_entries, "STRIPES", ((11, 2), (50, 1)))
    monkeypatch.setattr(sorted_entries, "CHUNK_ENTRIES", 64)
    monkeypatch.setattr(pool, "WORTH_A_HELPER", 1)
    cost = rf.Multinomial(*data, weights=weights)
    assert cost.observed.by_row.stripes == 3
    assert cost.observed.by_column.stripes == 5
    found = {}
    for threads in ("1", "4"):
        monkeypatch.setenv("RANKFOLD_NUM_THREADS", threads)
        found[threads] = everything(cost)
    for one, two, three in zip(found["1"], found["4"], plain, strict=True):
        assert_array_equal(one, two)
        close(one, three)


def test_threads_write_to_no_room_that_they_share():
    cost = rf.Multinomial(*drawn())
    cost._room[:] = -1.0
    everything(cost)
    assert cost._layout[-1] is cost._room
    assert_array_equal(cost._room, -1.0)


def test_a_table_of_planted_logits_is_learned():
    rng = np.random.default_rng(0)
    W = 2 * rng.standard_normal((150, 2)) @ rng.standard_normal((2, 60))
    chances = np.exp(W.reshape(150, 20, 3))
    chances /= chances.sum(axis=2, keepdims=True)
    y = (rng.uniform(size=(150, 20, 1)) > chances.cumsum(axis=2)).sum(axis=2)
    seen = rng.uniform(size=y.shape) < 0.7
    cost = rf.Multinomial(*np.nonzero(seen), y[seen], y.shape, 3)
    problem = rf.Problem.of(cost + rf.Nuclear(2 / seen.sum()), rank=2)
    stop = rf.stopping.RelativeChange(1e-6, window=5)
    L, R = rf.minimize(problem, tolerance=0.0, stop=stop).factors
    unseen = rf.Multinomial(*np.nonzero(~seen), y[~seen], y.shape, 3)
    planted = -np.log(np.take_along_axis(chances, y[..., None], 2)[..., 0])[~seen].mean()
    assert planted < unseen.value(L, R) < 1.3 * planted
    assert unseen.value(L, R) < 0.75 * unseen.value_at_zero


def test_fingerprints_tell_tables_apart():
    i, j, y, shape, categories = drawn()
    prints = [
        rf.Multinomial(i, j, y, shape, categories).fingerprint(),
        rf.Multinomial(i, j, y, shape, categories + 1).fingerprint(),
        rf.Multinomial(i, j, np.where(np.arange(y.size) == 7, 1 - np.minimum(y, 1), y), shape, categories)
        .fingerprint(),
        rf.Multinomial(i, j, y, shape, categories, weights=np.ones(y.size)).fingerprint(),
    ]  # fmt: skip
    assert prints[0] == rf.Multinomial(i[::-1], j[::-1], y[::-1], shape, categories).fingerprint()
    assert all(one != prints[0] for one in prints[1:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"codes": [0, 3, 0]}, r"codes\[1\] is 3, but column 1 has the categories 0 to 1"),
        ({"codes": [5, 0, 0]}, r"codes\[0\] is 5, out of range: must be from 0 to 3"),
        ({"codes": [-1, 0, 0]}, r"codes\[0\] is -1, out of range"),
        ({"codes": [0.0, 1.0, 0.0]}, "codes must be integers"),
        ({"codes": [0, 1]}, "rows has 3, cols has 3, values has 2"),
        ({"cols": [0, 1, 2]}, r"cols\[2\] is 2, out of range"),
        ({"rows": [0, 1, 0]}, r"entry \(0, 0\) is given more than once"),
        ({"categories": 0}, "categories must be a positive integer, or one for each of the 2 columns; got 0"),
        ({"categories": [2, 2, 2]}, r"one for each of the 2 columns; got shape \(3,\)"),
        ({"categories": [4, 0]}, r"categories must be a positive integer, .* got shape \(2,\)"),
        ({"categories": 2.5}, "got 2.5"),
        ({"shape": (0, 2)}, "shape must be two positive integers"),
        ({"weights": [1.0, -1.0, 1.0]}, r"weights\[1\] is -1.0"),
    ],
)
def test_errors_name_what_is_wrong(change, message):
    right = {"rows": [0, 1, 2], "cols": [0, 1, 0], "codes": [3, 1, 0], "shape": (3, 2), "categories": [4, 2]}
    rf.Multinomial(**right)
    with pytest.raises((ValueError, TypeError), match=message):
        rf.Multinomial(**right | change)


def test_the_linear_terms_of_each_class():
    rng = np.random.default_rng(0)
    X, Z, y = rng.standard_normal((9, 4)), rng.standard_normal((9, 2)), rng.integers(0, 3, 9)
    cost = rf.MultinomialPairs(X, Z, y, 3, linear=True)
    L, R = factors(cost.shape, 2, count=1)
    parts = cost.linear_terms(L, R)
    assert [np.shape(part) for part in parts] == [(4, 2), (2, 3, 2), (3, 4), (3, 2), (3,)]
    logits = np.stack(
        [
            np.einsum("pi,ij,pj->p", X, parts.L @ parts.R[:, k].T, Z) + X @ parts.a[k] + Z @ parts.b[k]
            for k in range(3)
        ],
        axis=1,
    ) + parts.c  # fmt: skip
    chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    close(cost.value(L, R), -np.log(chances[np.arange(9), y]).mean())
    with pytest.raises(ValueError, match="no linear terms: build it with linear=True"):
        rf.MultinomialPairs(X, Z, y, 3).linear_terms(L[:-1], R[:-3])
    with pytest.raises(ValueError, match=r"y\[0\] is 7, out of range: must be from 0 to 2"):
        rf.MultinomialPairs(X, Z, np.full(9, 7), 3)
