"""Sums, multiples and regularisers: what the suite of every cost does not ask."""

import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from costs.suite import close, factors
from geometry.variants import seeds, sizes

SHAPE = 9, 7
rng = np.random.default_rng(0)
WHERE = rng.choice(63, 40, replace=False)
ROWS, COLS, VALUES = WHERE // 7, WHERE % 7, rng.standard_normal(40)
DATA = rf.Completion(ROWS, COLS, VALUES, SHAPE)


@settings(max_examples=40, deadline=None)
@given(sizes(), seeds)
def test_frobenius_and_nuclear_norms_of_any_shape(size, seed):
    shape, rank = size
    L, R = factors(shape, rank, seed, count=1)
    s = np.linalg.svd(L @ R.T, compute_uv=False)
    close(rf.Frobenius(0.7).value(L, R), 0.7 * np.sum(s**2))
    close(rf.Nuclear(0.7).value(L, R), 0.7 * np.sum(s), 1e-9)


def test_nuclear_on_polar_is_the_trace_of_its_middle():
    for middle in ("spd", "diagonal"):
        geometry = rf.Polar((40, 30), 4, middle)
        for seed in range(5):
            x = geometry.random_point(seed)
            assert_allclose(rf.Nuclear(0.7).value(*geometry.factors(x)), 0.7 * np.trace(x.B), rtol=1e-14)


def test_nuclear_shrinks_singular_values_of_a_known_matrix():
    """For ½‖W - C‖² + λ‖W‖_* the answer is soft thresholding."""
    C = rng.standard_normal((12, 10))
    U, s, Vt = np.linalg.svd(C)
    lam, rank = (s[3] + s[4]) / 2, 4
    cost = 60.0 * rf.Completion.from_dense(C) + rf.Nuclear(lam)
    result = rf.minimize(rf.Problem(cost, rf.FullRank(C.shape, rank)), rf.TrustRegion(), tolerance=0.0)
    L, R = result.factors
    assert_allclose(L @ R.T, (U[:, :rank] * (s[:rank] - lam)) @ Vt[:rank], atol=1e-7)


def test_unobserved_counts_repeated_entries_once():
    twice = rf.Completion([0, 0, 1], [1, 1, 0], [1.0, 2.0, 3.0], (2, 2), duplicates="keep")
    assert_allclose(rf.Unobserved(1.0, twice).value(np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]])), 37)


def test_algebra():
    cost = DATA + 0.5 * rf.Frobenius(2.0) + rf.Nuclear(1.0)
    assert [a for a, _ in cost.terms] == [1.0, 0.5, 1.0]
    assert cost.shape == SHAPE
    assert not cost.quadratic
    assert (DATA + rf.Frobenius(1.0)).quadratic
    assert cost.value_at_zero == DATA.value_at_zero
    for one, two in zip((rf.Frobenius(1.0) + DATA).start(2), DATA.start(2), strict=True):
        assert_array_equal(one, two)
    for one, two in zip((rf.Unobserved(1.0, DATA) + DATA).start(2), DATA.start(2), strict=True):
        assert_array_equal(one, two)
    assert (DATA * 2).value_at_zero == 2 * DATA.value_at_zero
    assert (DATA + rf.Unobserved(1.0, DATA)).nonnegative
    assert not (DATA + -1.0 * rf.Frobenius(1.0)).nonnegative


def test_a_cost_that_may_be_negative_does_not_stop_at_a_value_of_zero():
    counts = rf.Completion(ROWS, COLS, 20.0 + 0 * VALUES, SHAPE, loss="poisson")
    result = rf.minimize(rf.Problem(counts, rf.FullRank(SHAPE, 1)), rf.TrustRegion())
    assert result.gradient_norm < 1e-4
    assert_allclose(result.value, 20 - 20 * np.log(20), rtol=1e-8)


def test_errors():
    with pytest.raises(ValueError, match=r"weight must be finite and zero or more; got -1"):
        rf.Frobenius(-1)
    with pytest.raises(ValueError, match="give both row_weights and col_weights"):
        rf.Nuclear(1.0, [1.0])
    with pytest.raises(ValueError, match="col_weights must be a vector of positive"):
        rf.Nuclear(1.0, [1.0], [0.0])
    with pytest.raises(ValueError, match=r"must have one shape; got \[\(1, 1\), \(9, 7\)\]"):
        DATA + rf.Nuclear(1.0, [1.0], [1.0])
    with pytest.raises(ValueError, match="finite numbers only; got nan"):
        float("nan") * DATA
    with pytest.raises(TypeError, match="unsupported operand"):
        DATA + 1
    with pytest.raises(TypeError, match="multiply"):
        DATA * "two"
    with pytest.raises(TypeError, match="Nuclear has no start point"):
        rf.Nuclear(1.0).start(1)
    with pytest.raises(TypeError, match="Combination has no start point"):
        (rf.Nuclear(1.0) + rf.Frobenius(1.0)).start(1)
    with pytest.raises(TypeError, match="not quadratic"):
        (DATA + rf.Nuclear(1.0)).polynomial([np.ones((9, 1))], [np.ones((7, 1))])


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_a_nuclear_norm_are_its_second_derivatives_off_the_space_of_w(weighted):
    """Row i of L moved by z, and seen off the columns of W: f'' = zᵀ block z."""
    draw = np.random.default_rng(2)
    D_r, D_c = (draw.uniform(0.5, 3, d) if weighted else np.ones(d) for d in SHAPE)
    L, R = factors(SHAPE, 2, count=1)
    options = {"row_weights": D_r, "col_weights": D_c} if weighted else {}
    cost = rf.Nuclear(0.3, **options)
    for blocks, (Z, Y), (own, others) in zip(
        cost.line_blocks(L, R), ((L, R), (R, L)), ((D_r, D_c), (D_c, D_r)), strict=True
    ):
        A, B = np.sqrt(own)[:, None] * Z, np.sqrt(others)[:, None] * Y
        values, V = np.linalg.eigh(B @ A.T @ A @ B.T)  # of which the last two are the squares of σ
        C = V[:, -2:].T @ B
        for i, block in enumerate(blocks):
            assert_allclose(
                block, own[i] * 0.3 * C.T @ (C / np.sqrt(values[-2:, None])), rtol=1e-9, atol=1e-12
            )
        z, step = np.array([0.6, -0.8]), 1e-3
        off = np.eye(len(A)) - A @ np.linalg.pinv(A)
        for i in (0, 3):
            away = off[i] / np.sqrt(own)  # D^½ times it is the part of D^½ eᵢ off the columns, over √dᵢ
            moved = [Z + t * np.outer(away, z) for t in (-step, 0.0, step)]
            low, here, high = (cost.value(*((M, Y) if Z is L else (Y, M))) for M in moved)
            assert_allclose(
                (low + high - 2 * here) / step**2, off[i, i] * z @ blocks[i] @ z / own[i], rtol=1e-4
            )


def test_blocks_of_a_nuclear_norm_at_balanced_factors_are_those_of_a_ridge():
    U, s, Vt = np.linalg.svd(rng.standard_normal(SHAPE), full_matrices=False)
    L, R = U[:, :3] * np.sqrt(s[:3]), Vt[:3].T * np.sqrt(s[:3])
    for blocks in rf.Nuclear(0.3).line_blocks(L, R):
        assert_allclose(blocks, np.broadcast_to(0.3 * np.eye(3), blocks.shape), atol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_with_the_gradient_of_a_nuclear_norm_do_not_see_columns_that_add_nothing_to_w(
    rank, weighted
):
    """S = λ D_r^½ U Vᵀ D_c^½ from a dense decomposition of W, whose rank is below the number of columns."""
    draw = np.random.default_rng(1)
    rows, cols = (draw.uniform(1, 3, d) if weighted else np.ones(d) for d in SHAPE)
    A, B, X, Y = (draw.standard_normal((d, k)) for d, k in ((9, rank), (7, rank), (7, 2), (9, 2)))
    L, R = (np.hstack([Z, Z @ draw.standard_normal((rank, 2))]) for Z in (A, B))
    W = L @ R.T
    U, _, Vt = np.linalg.svd(np.sqrt(np.outer(rows, cols)) * W)
    S = 0.3 * np.sqrt(np.outer(rows, cols)) * (U[:, :rank] @ Vt[:rank])
    options = {"row_weights": rows, "col_weights": cols} if weighted else {}
    nuclear = rf.Nuclear(0.3, **options)
    gradient = np.zeros(SHAPE)
    gradient[ROWS, COLS] = 2 * (W[ROWS, COLS] - VALUES) / VALUES.size
    for cost, dense in ((nuclear, S), (DATA + 2 * nuclear, gradient + 2 * S)):
        for found, due in zip(cost.gradient_products(L, R)(X, Y), (dense @ X, dense.T @ Y), strict=True):
            assert_allclose(found, due, atol=1e-9)


def test_a_sum_starts_where_its_first_term_does_that_can():
    penalty, start = rf.Frobenius(0.1), DATA.start(2, seed=3)
    for cost in (penalty + DATA, DATA + penalty, 2.0 * DATA):
        assert cost.has_start
        for part, due in zip(cost.start(2, seed=3), start, strict=True):
            assert_array_equal(part, due)
    assert not (penalty + rf.Nuclear(0.1)).has_start
    with pytest.raises(TypeError, match="has no start point"):
        (penalty + rf.Nuclear(0.1)).start(2)


def test_costs_are_added_to_costs_alone():
    for other in (5.0, None, "cost"):
        with pytest.raises(TypeError, match="unsupported operand"):
            DATA + other


def test_a_ridge_that_counts_lines_by_their_entries_is_a_weighted_norm():
    """2λ/|Ω| of the norm with the numbers of entries, one at least."""
    cost = rf.Completion([0, 0, 1, 1, 1], [0, 1, 0, 1, 2], np.arange(5.0), (2, 3))
    L, R = factors((2, 3), 2, count=1)
    W = np.sqrt(np.outer([2, 3], [2, 2, 1])) * (L @ R.T)
    for weight in (0.3, 2.0):
        found = rf.Nuclear.by_counts(weight, cost).value(L, R)
        close(found, 2 * weight / 5 * np.linalg.svd(W)[1].sum())


@pytest.mark.parametrize("wrong", [[1.0, -1.0], [0.0, 1.0], [1.0, np.inf], [np.nan, 1.0], [], [1.0, 1e70]])
@pytest.mark.parametrize("side", ["row", "col"])
def test_weights_of_a_norm_are_positive_and_finite(wrong, side):
    good = {"row_weights": [1.0, 2.0], "col_weights": [1.0, 2.0]}
    rf.Nuclear(1.0, **good)
    with pytest.raises(ValueError, match=rf"{side}_weights(\[1\] is 1e\+70| must be a vector of positive)"):
        rf.Nuclear(1.0, **good | {f"{side}_weights": wrong})
