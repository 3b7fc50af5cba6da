"""The start point against a dense SVD."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankfold.costs import Completion, Loss
from rankfold.entries import lanczos
from rankfold.entries.lanczos import HELD, MAX_STEPS, dominant_svd, random_block

pytestmark = pytest.mark.filterwarnings("ignore:.*no observed entry")


def instance(d1, d2, rank, density, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((d1, rank)) @ rng.standard_normal((rank, d2))
    W[rng.uniform(size=W.shape) > density] = np.nan
    return W, Completion.from_dense(W)


@pytest.mark.parametrize(
    ("d1", "d2", "rank"), [(300, 200, 5), (200, 300, 1), (150, 150, 30), (6, 400, 3), (400, 6, 6), (1, 1, 1)]
)
def test_agrees_with_a_dense_svd(d1, d2, rank):
    W, cost = instance(d1, d2, rank, 0.5 if d1 > 1 else 1.0)
    U, s, V = cost.start(rank)
    filled = np.nan_to_num(W) * W.size / cost.observed.size
    U0, s0, V0t = np.linalg.svd(filled)
    assert_allclose(s, s0[:rank], atol=1e-4 * s0[0])
    for X in (U, V):
        assert_allclose(X.T @ X, np.eye(rank), atol=1e-9)
    best = (U0[:, :rank] * s0[:rank]) @ V0t[:rank]
    assert np.linalg.norm(filled - (U * s) @ V.T) <= (1 + 1e-3) * np.linalg.norm(filled - best) + 1e-12


def test_same_seed_same_bits():
    _, cost = instance(300, 200, 5, 0.3)
    for one, two in zip(cost.start(4, seed=3), cost.start(4, seed=3), strict=True):
        assert_array_equal(one, two)


@pytest.mark.parametrize("size", [4, 200])
def test_a_zero_matrix_and_one_of_lower_rank(size):
    rows, cols = np.arange(size), np.arange(size)
    zero = Completion(rows, cols, np.zeros(size), (size, size))
    one = Completion(rows, cols, (rows == 1).astype(float), (size, size))
    for cost, largest in ((zero, 0.0), (one, size)):
        U, s, V = cost.start(3)
        assert_allclose(s, [largest, 0, 0], atol=1e-9)
        for X in (U, V):
            assert_allclose(X.T @ X, np.eye(3), atol=1e-9)


@pytest.mark.parametrize(
    "loss", ["logistic", "poisson", "huber", Loss(lambda w, y, _: (0 * w, y - w, 0 * w))]
)
def test_other_losses_start_downhill(loss):
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.choice(2500, 1200, replace=False), 50)
    values = ((rows % 2) == (cols % 2)).astype(float)
    cost = Completion(rows, cols, values, (50, 50), loss=loss)
    U, s, V = cost.start(2)
    assert np.isfinite(s).all()
    if isinstance(loss, str):
        t = 0.1
        assert cost.value(t * U * s, V) < cost.value_at_zero


def test_memory_that_nothing_was_written_to_is_not_read(monkeypatch):
    _, cost = instance(300, 200, 5, 0.3)
    expected, empty = cost.start(4), np.empty

    def poisoned(*args, **kwargs):
        array = empty(*args, **kwargs)
        if array.dtype.kind == "f":
            array.fill(np.nan)
        return array

    monkeypatch.setattr(np, "empty", poisoned)
    for one, two in zip(cost.start(4), expected, strict=True):
        assert_array_equal(one, two)


def test_large_blocks_are_of_random_signs(monkeypatch):
    monkeypatch.setattr("rankfold.entries.lanczos.MOST_NORMAL", 5 * 400)
    normal, signs = (random_block((9, columns), 5, seed=3) for columns in (400, 401))
    assert (normal.dtype, signs.dtype, signs.shape) == (np.float64, np.int8, (401, 5))
    assert set(np.unique(signs).tolist()) == {-1, 1}
    assert np.abs(signs.mean(axis=0)).max() < 0.2
    assert np.abs(np.corrcoef(signs.T) - np.eye(5)).max() < 0.2
    assert_array_equal(signs, random_block((9, 401), 5, seed=3))
    assert (signs != random_block((9, 401), 5, seed=4)).mean() > 0.4
    assert random_block((9, 2), 1, seed=0).shape == (2, 4)


def test_signs_lead_to_the_same_singular_values(monkeypatch):
    monkeypatch.setattr("rankfold.entries.lanczos.MOST_NORMAL", 0)
    rng = np.random.default_rng(0)
    values = (rng.standard_normal((60, 2)) * [3, 1]) @ rng.standard_normal((2, 50))
    rows, cols = np.divmod(np.arange(3000), 50)
    cost = Completion(rows, cols, values.reshape(-1), (60, 50))
    assert_allclose(cost.start(2)[1], np.linalg.svd(values)[1][:2], rtol=1e-3)


class Dense:
    """An operator that counts its products."""

    def __init__(self, A):
        self.A, self.shape, self.dtype, self.products = A, A.shape, A.dtype, [0, 0]

    def __matmul__(self, X):
        self.products[0] += 1
        return self.A @ X

    def transposed_times(self, X):
        self.products[1] += 1
        return self.A.T @ X


def slow(d1, d2):
    """A matrix whose singular values fall slowly: 1, 0.98, 0.98², ..."""
    rng = np.random.default_rng(5)
    U, V = (np.linalg.qr(rng.standard_normal((d, min(d1, d2))))[0] for d in (d1, d2))
    return (U * 0.98 ** np.arange(min(d1, d2))) @ V.T


@pytest.mark.parametrize("shape", [(200, 160), (160, 200)])
@pytest.mark.parametrize(("held", "most"), [(5, 24), (8, 24), (40, 14)])
def test_a_search_that_begins_anew_comes_to_the_same(monkeypatch, shape, held, most):
    monkeypatch.setattr("rankfold.entries.lanczos.HELD", held)
    S = Dense(slow(*shape))
    U, s, V = dominant_svd(S, 4, tolerance=1e-4)
    assert_allclose(s, 0.98 ** np.arange(4), rtol=1e-6)
    # vectors of the longer side are what the matrix makes of the others; those have residuals
    (A, long, short) = (S.A, U, V) if shape[0] > shape[1] else (S.A.T, V, U)
    assert_allclose(A @ short, long * s, atol=1e-9)
    assert np.linalg.norm(A.T @ long - short * s, axis=0).max() <= 1e-4
    assert S.products[int(shape[0] > shape[1])] <= most  # what was found before is not lost


def test_a_step_takes_one_pass_of_grams(monkeypatch):
    """And so a GPU is waited for once; a block of the longer side is not made orthogonal on the way."""
    passes, grams = [], lanczos.grams
    monkeypatch.setattr(lanczos, "grams", lambda *sides: (passes.append(sides), grams(*sides))[1])
    S = Dense(slow(200, 160))
    dominant_svd(S, 4, tolerance=1e-3)
    assert S.products == [len(passes) - 1, len(passes) - 2]  # one before the steps, and one at the end


@pytest.mark.parametrize("routine", ["eigh", "svd"])
def test_signs_are_not_those_that_rounding_gives(routine, monkeypatch):
    """Small changes turn singular vectors round, on one machine or from one store of the data to another."""
    S, found = Dense(slow(90, 70)), getattr(np.linalg, routine)
    before = dominant_svd(S, 3)

    def turned(M, **options):
        first, *others = found(M, **options)
        return (first, -others[0]) if routine == "eigh" else (-first, others[0], -others[1])

    monkeypatch.setattr(np.linalg, routine, turned)
    for one, two in zip(dominant_svd(S, 3), before, strict=True):
        assert_array_equal(one, two)


def test_values_that_are_zero_do_not_keep_it_searching():
    rng = np.random.default_rng(0)
    S = Dense(rng.standard_normal((200, 3)) @ rng.standard_normal((3, 160)))
    _, s, _ = dominant_svd(S, 6)
    assert_allclose(s, np.linalg.svd(S.A)[1][:6], atol=1e-9 * s[0])
    assert S.products[1] <= 3


@pytest.mark.parametrize("shape", [(200, 160), (160, 200)])
def test_of_a_zero_matrix_all_is_known_after_one_step(shape):
    S = Dense(np.zeros(shape))
    U, s, V = dominant_svd(S, 4)
    assert s.tolist() == [0.0] * 4
    assert max(S.products) == 2
    for X in (U, V):
        assert_allclose(X.T @ X, np.eye(4), atol=1e-12)


def test_what_a_search_holds_does_not_grow_with_its_steps(monkeypatch):
    monkeypatch.setattr("rankfold.linalg.primitives.LEAST", 1 << 30)  # nothing is compiled meanwhile
    rng = np.random.default_rng(0)
    d1, d2, rank = 20_000, 2_000, 5
    L, R = rng.standard_normal((d1, 60)), rng.standard_normal((d2, 60))

    class Product(Dense):
        def __init__(self):
            self.shape, self.dtype, self.products = (d1, d2), L.dtype, [0, 0]

        def __matmul__(self, X):
            self.products[0] += 1
            return L @ (R.T @ X)

        def transposed_times(self, X):
            self.products[1] += 1
            return R @ (L.T @ X)

    S = Product()
    tracemalloc.start()
    dominant_svd(S, rank, tolerance=0.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert S.products == [MAX_STEPS + 1, MAX_STEPS]
    blocks = 6 * d1 + (HELD + 4) * d2
    assert peak < 8 * rank * blocks  # the bases of both sides were 40 of each


def test_blocks_are_normal_up_to_a_size_and_begin_with_seed_0():
    normal, signs = (random_block((9, columns), 8, seed=0) for columns in (2**13, 2**13 + 1))
    assert (normal.dtype, signs.dtype) == (np.float64, np.int8)
    assert signs.shape == (2**13 + 1, 8)
    S = Dense(slow(90, 70))
    default, other = dominant_svd(S, 3), dominant_svd(S, 3, seed=1)
    first = dominant_svd(S, 3, first=random_block((90, 70), 3, 0))
    for one, two in zip(default, first, strict=True):
        assert_array_equal(one, two)
    assert (default[0] != other[0]).any()


@pytest.mark.parametrize("shape", [(30, 9), (9, 30), (16, 16)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_small_matrices_all_is_known(shape, dtype):
    A = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    U, s, V = dominant_svd(Dense(A), 3)
    tolerance = 1e-5 if dtype == np.float32 else 1e-10
    assert {each.dtype for each in (U, s, V)} == {np.dtype(dtype)}
    assert_allclose(s, np.linalg.svd(A)[1][:3], rtol=tolerance)
    assert_allclose(A @ V, U * s, atol=10 * tolerance)
    assert_allclose(A.T @ U, V * s, atol=10 * tolerance)
    for X, d in ((U, shape[0]), (V, shape[1])):
        assert X.shape == (d, 3)
        assert_allclose(X.T @ X, np.eye(3), atol=tolerance)
