"""Completion against plain NumPy and SciPy, on drawn instances."""

import tracemalloc
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from rankfold.costs import Completion, Cost, Loss
from rankfold.entries.observed import Observed
from rankfold.kernels import reference

pytestmark = pytest.mark.filterwarnings("ignore:.*no observed entry")
LOSSES = {
    "square": "square",
    "logistic": "logistic",
    "huber": Loss.huber(0.7),
    "poisson": "poisson",
    "squared_hinge": "squared_hinge",
}


def draw(seed, d1, d2, rank, density, weighted=False, loss="square", repeat=0):
    """A random instance in random order; empty rows and columns, single entries and repeats do occur."""
    rng = np.random.default_rng(seed)
    count = max(1, round(density * d1 * d2))
    where = rng.choice(d1 * d2, count, replace=False)
    where = rng.permutation(np.concatenate([where, where[:repeat]]))
    rows, cols = where // d2, where % d2
    values = {
        "logistic": lambda n: rng.integers(0, 2, n).astype(float),
        "squared_hinge": lambda n: rng.integers(0, 2, n).astype(float),
        "poisson": lambda n: rng.poisson(2.0, n).astype(float),
    }.get(loss, rng.standard_normal)(where.size)
    weights = rng.uniform(0, 2, where.size) if weighted else np.ones(where.size)
    factors = [rng.standard_normal((d, rank)) / rank**0.5 for d in (d1, d2, d1, d2, d1, d2)]
    cost = Completion(
        rows,
        cols,
        values,
        (d1, d2),
        weights if weighted else None,
        LOSSES[loss],
        "keep" if repeat else "error",
    )
    return cost, (rows, cols, values, weights), factors


def close(actual, desired):
    assert_allclose(actual, desired, rtol=1e-12, atol=1e-12 * max(1e-3, np.abs(desired).max()))


# Few ranks, for each compiles its own kernels: between them they have vectors of every width.
def instances(*ranks):
    return st.builds(
        draw,
        seed=st.integers(0, 10**6),
        d1=st.integers(1, 60),
        d2=st.integers(1, 60),
        rank=st.sampled_from(ranks),
        density=st.floats(0, 1),
        repeat=st.sampled_from([0, 0, 3]),
    )


@settings(max_examples=60, deadline=None)
@given(instances(1, 5, 23))
def test_square_loss_agrees_with_reference(instance):
    cost, triples, (L, R, dL, dR, *_) = instance
    loss = Loss.named("square")
    value, f_L, f_R = cost.evaluate(L, R)
    expected = reference.evaluate(*triples, loss, L, R)
    close(value, expected[0])
    close(f_L, expected[1])
    close(f_R, expected[2])
    close(cost.value(L, R), expected[0])
    for actual, desired in zip(
        cost.derivative(L, R, dL, dR), reference.derivative(*triples, loss, L, R, dL, dR), strict=True
    ):
        close(actual, desired)


@settings(max_examples=30, deadline=None)
@given(instances(1, 5), st.sampled_from([(1, 1), (2, 2), (3, 2), (2, 3), (3, 3)]))
def test_polynomial_agrees_with_reference(instance, terms):
    cost, triples, (L, R, dL, dR, L2, R2) = instance
    terms1, terms2 = terms
    Ls, Rs = (L, dL, L2)[:terms1], (R, dR, R2)[:terms2]
    close(cost.polynomial(Ls, Rs), reference.polynomial(*triples, Ls, Rs))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_loss_agrees_with_reference(loss, weighted):
    cost, triples, (L, R, dL, dR, *_) = draw(1, 30, 40, 3, 0.3, weighted, loss)
    value, f_L, f_R = cost.evaluate(L, R)
    expected = reference.evaluate(*triples, cost.loss, L, R)
    close(value, expected[0])
    close(f_L, expected[1])
    close(f_R, expected[2])
    close(cost.value(L, R), expected[0])
    for actual, desired in zip(
        cost.derivative(L, R, dL, dR), reference.derivative(*triples, cost.loss, L, R, dL, dR), strict=True
    ):
        close(actual, desired)
    assert cost.quadratic == (loss == "square")
    if cost.quadratic:
        close(cost.polynomial([L, dL], [R, dR]), reference.polynomial(*triples, [L, dL], [R, dR]))
    zero = np.zeros_like(L), np.zeros_like(R)
    close(cost.value_at_zero, cost.value(*zero))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_products_with_the_gradient(loss, weighted):
    cost, triples, (L, R, dL, dR, *_) = draw(4, 30, 40, 3, 0.3, weighted, loss)
    S_R, St_L = cost.gradient_products(L, R)(R, L)
    _, f_L, f_R = reference.evaluate(*triples, cost.loss, L, R)
    close(S_R, f_L)
    close(St_L, f_R)
    for factors in ((L, R), (L[:, :0], R[:, :0])):
        by_evaluation = Cost.gradient_products(cost, *factors)(dR, dL)
        for actual, desired in zip(cost.gradient_products(*factors)(dR, dL), by_evaluation, strict=True):
            close(actual, desired)


def test_large_ranks():
    for rank in (50, 200):
        cost, triples, (L, R, *_) = draw(2, 40, 30, rank, 0.5)
        for actual, desired in zip(
            cost.evaluate(L, R), reference.evaluate(*triples, cost.loss, L, R), strict=True
        ):
            close(actual, desired)


def test_order_of_triples_does_not_matter():
    cost, (rows, cols, values, _), (L, R, *_) = draw(3, 50, 60, 4, 0.3, repeat=5)
    back = slice(None, None, -1)
    again = Completion(rows[back], cols[back], values[back], cost.shape, duplicates="keep")
    for one, two in zip(cost.evaluate(L, R), again.evaluate(L, R), strict=True):
        assert_array_equal(one, two)


def test_same_bits_for_any_number_of_threads(monkeypatch):
    cost, _, (L, R, dL, dR, *_) = draw(4, 500, 400, 5, 0.3)
    results = []
    for threads in (1, 2, 2, 3, 7):
        monkeypatch.setenv("RANKFOLD_NUM_THREADS", str(threads))
        results.append(
            (*cost.evaluate(L, R), *cost.derivative(L, R, dL, dR), cost.polynomial([L, dL], [R, dR]))
        )
    for result in results[1:]:
        for one, two in zip(results[0], result, strict=True):
            assert_array_equal(one, two)


def test_users_own_loss():
    quartic = Loss.from_functions(
        lambda w, y: (w - y) ** 4, lambda w, y: 4 * (w - y) ** 3, lambda w, y: 12 * (w - y) ** 2
    )
    cost, triples, (L, R, dL, dR, *_) = draw(5, 20, 20, 2, 0.5)
    cost = Completion(*triples[:3], cost.shape, loss=quartic)
    close(cost.evaluate(L, R).value, reference.evaluate(*triples, quartic, L, R)[0])
    close(cost.derivative(L, R, dL, dR)[1], reference.derivative(*triples, quartic, L, R, dL, dR)[1])
    with pytest.raises(TypeError, match="not quadratic"):
        cost.polynomial([L], [R])


def test_memory_held():
    cost, *_ = draw(6, 1000, 1000, 1, 0.3)
    sides = cost.observed.by_row, cost.observed.by_column
    assert cost.observed.by_row.indices.dtype == np.uint32
    assert cost.observed.nbytes <= 26 * cost.observed.size
    held = [array for side in sides for array in (side.indptr, side.indices, side.data)]
    assert all(array.base is None or array.base.nbytes <= array.nbytes for array in held)


def test_64_bit_indices_give_the_same_bits():
    cost, _, (L, R, *_) = draw(7, 50, 60, 3, 0.2)
    wide = copy(cost)
    sides = [
        replace(side, indices=side.indices.astype(np.uint64))
        for side in (cost.observed.by_row, cost.observed.by_column)
    ]
    wide.observed = Observed(cost.shape, *sides)
    for one, two in zip(cost.evaluate(L, R), wide.evaluate(L, R), strict=True):
        assert_array_equal(one, two)


def test_construction_peaks_at_twice_what_is_held():
    rng = np.random.default_rng(0)
    where = rng.choice(2000 * 2000, 10**6, replace=False)
    triples = where // 2000, where % 2000, rng.standard_normal(where.size)
    tracemalloc.start()
    cost = Completion(*triples, (2000, 2000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak <= 2 * 26 * cost.observed.size
