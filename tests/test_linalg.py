"""Small dense linear algebra against SciPy and against plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from rankfold.linalg import (
    gram_factor,
    gram_in_basis,
    inverse_gram,
    lyapunov,
    polar,
    quick_inverse,
    skew,
    spd_exp,
    svd_of_product,
    sym,
)

ranks = st.integers(1, 8)
seeds = st.integers(0, 2**32 - 1)
few = settings(max_examples=20, deadline=None)


def spd(rank, rng, condition=10.0):
    Q = np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    return (Q * np.logspace(0, -np.log10(condition), rank)) @ Q.T


def test_sym_and_skew_add_up():
    A = np.random.default_rng(0).standard_normal((4, 4))
    np.testing.assert_array_equal(sym(A), sym(A).T)
    np.testing.assert_array_equal(skew(A), -skew(A).T)
    np.testing.assert_allclose(sym(A) + skew(A), A)


@few
@given(rank=ranks, seed=seeds)
def test_lyapunov_agrees_with_scipy(rank, seed):
    rng = np.random.default_rng(seed)
    A, C = spd(rank, rng), rng.standard_normal((rank, rank))
    np.testing.assert_allclose(lyapunov(A, C), scipy.linalg.solve_sylvester(A, A, C), atol=1e-10)


@few
@given(rank=ranks, extra=st.integers(0, 20), seed=seeds, exponent=st.floats(0, 10))
def test_gram_factor_is_accurate_to_the_condition_number_not_its_square(rank, extra, seed, exponent):
    rng = np.random.default_rng(seed)
    s = np.logspace(0, -exponent, rank)
    U = np.linalg.qr(rng.standard_normal((rank + extra, rank)))[0]
    Y = (U * s) @ np.linalg.qr(rng.standard_normal((rank, rank)))[0]
    T, N, graded = gram_factor(Y)
    np.testing.assert_allclose(
        np.linalg.svd(T, compute_uv=False), np.linalg.svd(Y, compute_uv=False), rtol=1e-4
    )
    np.testing.assert_allclose(T.T @ T, Y.T @ Y, atol=1e-14 * rank)
    np.testing.assert_allclose((Y @ N).T @ (Y @ N), np.eye(rank), atol=1e-14 * rank * 10**exponent + 1e-13)
    np.testing.assert_allclose(
        gram_in_basis(Y, Y, N, graded), np.eye(rank), atol=1e-14 * rank * 10**exponent + 1e-12
    )


@few
@given(rank=ranks, extra=st.integers(0, 20), seed=seeds, exponent=st.floats(0, 6))
def test_inverse_gram_is_accurate_at_any_condition_number(rank, extra, seed, exponent):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, rank)))[0] for d in (rank + extra, rank))
    s = np.logspace(0, -exponent, rank)
    truth = (V / s**2) @ V.T
    found = inverse_gram((U * s) @ V.T)
    np.testing.assert_allclose(found, truth, atol=1e-12 * rank * 10**exponent * np.abs(truth).max())


def test_gram_factor_of_nothing_is_finite():
    T, N, graded = gram_factor(np.zeros((5, 3)))
    assert graded
    assert np.all(np.isfinite(N))
    np.testing.assert_allclose(T, 0, atol=1e-150)


@few
@given(rank=ranks, extra=st.integers(0, 20), seed=seeds, exponent=st.floats(0, 12))
def test_polar_factor_is_the_nearest_orthonormal_matrix(rank, extra, seed, exponent):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, rank)))[0] for d in (rank + extra, rank))
    D = (U * np.logspace(0, -exponent, rank)) @ V.T
    Q = polar(D)
    np.testing.assert_allclose(Q.T @ Q, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(Q, U @ V.T, atol=1e-14 * 10**exponent + 1e-12)


def test_polar_factor_of_a_singular_matrix_is_still_orthonormal():
    Q = polar(np.outer(np.arange(4.0), [1.0, 1.0]))
    np.testing.assert_allclose(Q.T @ Q, np.eye(2), atol=1e-14)


@few
@given(rank=ranks, seed=seeds)
def test_spd_exp_agrees_with_scipy(rank, seed):
    rng = np.random.default_rng(seed)
    B, X = spd(rank, rng), sym(rng.standard_normal((rank, rank)))
    root = scipy.linalg.sqrtm(B).real
    back = np.linalg.inv(root)
    truth = root @ scipy.linalg.expm(back @ X @ back) @ root
    if np.linalg.cond(truth) < 1e12:
        np.testing.assert_allclose(spd_exp(B, X), truth, rtol=1e-7, atol=1e-9 * np.abs(truth).max())


def test_spd_exp_stays_positive_definite_however_long_the_step():
    eps, one = np.finfo(float).eps, np.ones((1, 1))
    np.testing.assert_allclose([spd_exp(one, t * one)[0, 0] for t in (-1e4, 1e4)], [eps, 1 / eps])
    near_singular = spd_exp(np.eye(2), np.diag([0.0, -1e4]))
    np.testing.assert_allclose(near_singular, np.diag([1.0, 100 * eps]), rtol=1e-12)


@few
@given(rank=ranks, seed=seeds, exponent=st.floats(0, 9))
def test_svd_of_product_agrees_with_the_dense_one(rank, seed, exponent):
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((rank + 5, rank)) * np.logspace(0, -exponent, rank)
    R = rng.standard_normal((rank + 2, rank))
    U, s, V = svd_of_product(L, R)
    np.testing.assert_allclose(s, np.linalg.svd(L @ R.T, compute_uv=False)[:rank], rtol=1e-5, atol=1e-15)
    for Q in (U, V):
        np.testing.assert_allclose(Q.T @ Q, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose((U * s) @ V.T, L @ R.T, atol=1e-13 * np.abs(L).max() * 10)


@pytest.mark.parametrize("exponent", [0, 9])  # by Grams, and by QR
def test_rounding_does_not_choose_the_signs_of_an_svd_of_a_product(exponent, monkeypatch):
    rng = np.random.default_rng(0)
    L = rng.standard_normal((9, 3)) * np.logspace(0, -exponent, 3)
    R = rng.standard_normal((7, 3))
    U, _, V = svd_of_product(L, R)
    for name in ("svd", "eigh", "qr"):
        monkeypatch.setattr(np.linalg, name, turned_over(getattr(np.linalg, name)))
    other, _, across = svd_of_product(L, R)
    np.testing.assert_allclose(other, U, atol=1e-10)
    np.testing.assert_allclose(across, V, atol=1e-10)
    products = U.T @ L
    assert (products[range(3), np.abs(products).argmax(axis=1)] > 0).all()


def turned_over(routine):
    """A routine of LAPACK's that gives its vectors the other signs."""

    def turned(*arguments, **options):
        found = routine(*arguments, **options)
        turns = {"U": -1.0, "Vh": -1.0, "eigenvectors": -1.0, "Q": -1.0, "R": -1.0}
        return type(found)(*(turns.get(name, 1.0) * getattr(found, name) for name in found._fields))

    return turned


@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_svd_of_product_of_factors_that_lack_rank(rank, both):
    rng = np.random.default_rng(rank)
    L, R = (rng.standard_normal((d, rank)) @ rng.standard_normal((rank, 3)) for d in (20, 15))
    R = R if both else rng.standard_normal((15, 3))
    U, s, V = svd_of_product(L, R)
    np.testing.assert_allclose(s, np.linalg.svd(L @ R.T, compute_uv=False)[:3], atol=1e-12)
    np.testing.assert_allclose((U * s) @ V.T, L @ R.T, atol=1e-12)
    for Q in (U, V):
        np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dtype_is_kept(dtype):
    Y = np.random.default_rng(0).standard_normal((6, 3)).astype(dtype)
    B = Y.T @ Y
    results = [*gram_factor(Y)[:2], polar(Y), spd_exp(B, B), lyapunov(B, B), *svd_of_product(Y, Y)]
    assert {A.dtype for A in results} == {np.dtype(dtype)}


@pytest.mark.parametrize(("ratio", "quick"), [(1.0, True), (0.3, True), (0.02, False), (0.0, False)])
def test_a_gram_is_inverted_without_eigenvectors_where_it_is_well_conditioned(ratio, quick):
    """Below 1/1000 of the largest eigenvalue, or what the Frobenius norms make of it."""
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    M = Q @ np.diag([1.0, 1.0, ratio**2]) @ Q.T if ratio else np.ones((3, 3))
    inverse = quick_inverse(M)
    assert (inverse is not None) == quick
    if quick:
        np.testing.assert_array_equal(inverse, inverse.T)
        np.testing.assert_allclose(inverse @ M, np.eye(3), atol=1e-13)
    both = quick_inverse(np.array([np.eye(3), M]))  # one that is not good spoils both
    assert (both is not None) == quick
    if quick:
        np.testing.assert_array_equal(both, [np.eye(3), inverse])
