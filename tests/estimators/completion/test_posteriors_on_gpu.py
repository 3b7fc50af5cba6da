"""Small systems and priors of lines on a GPU, or on what stands for one, by the formulas written out."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from gpu_stand_in import DEVICE
from rankfold.estimators.completion.bayes.beliefs import Beliefs, most_likely, square, triangle
from rankfold.estimators.completion.side.regressed import Regressed
from rankfold.linalg.primitives import on_host

pytest.importorskip("triton")
pytestmark = pytest.mark.gpu


@pytest.fixture
def gpu():
    from rankfold.estimators.completion.bayes import on_gpu

    return on_gpu


def there(array):
    return torch.as_tensor(array, device=DEVICE)


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def symmetric(n, d, seed):
    A = numbers(n, d, 2 * d, seed=seed)
    return A @ A.transpose(0, 2, 1) / d


@pytest.mark.parametrize("d", [1, 3])
def test_lines_are_solved_from_what_their_entries_sum_up_to(gpu, d):
    M, first, squares = symmetric(4, d + 1, 1), numbers(4, d + 1, seed=2), 5.0 + np.arange(4)
    P, pulls, alpha = symmetric(1, d, 3)[0], numbers(4, d, seed=4), 0.7
    sums = gpu._Sums(*(there(part) for part in (triangle(M), first, squares)))
    found = [on_host(part) for part in sums.solved(there(P), there(pulls), alpha)]
    for p in range(4):
        S, pulled = M[p, :d, :d], first[p, :d] - M[p, d, :d]
        C = np.linalg.inv(P + alpha * S)
        x = C @ (pulls[p] + alpha * pulled)
        error = squares[p] - 2 * first[p, d] + M[p, d, d] - 2 * pulled @ x
        assert_allclose(found[0][p], x, rtol=1e-9)
        assert_allclose(found[1][p], triangle(C), rtol=1e-9, atol=1e-12)
        assert_allclose(found[2][p], error + np.sum(S * (C + np.outer(x, x))), rtol=1e-9)
        assert_allclose(found[3][p], np.linalg.slogdet(C)[1], rtol=1e-9, atol=1e-12)


def test_an_unknown_that_is_left_out_has_no_variance_and_no_part_in_the_determinant(gpu):
    M = np.zeros((1, 3, 3))
    M[0, 1, 1] = 4.0
    sums = gpu._Sums(there(triangle(M)), there(np.array([[0.0, 2.0, 0.0]])), there(np.ones(1)))
    x, sure, error, logs = map(on_host, sums.solved(there(np.zeros((2, 2))), there(np.zeros((1, 2))), 0.5))
    assert_allclose(x, [[0.0, 0.5]])
    assert_allclose(sure, [[0.0, 0.0, 0.5]])
    assert_allclose(error, [1.0 - 2 * 2.0 * 0.5 + 4.0 * (0.5 + 0.25)])
    assert_allclose(logs, np.log([0.5]))


def test_elimination_is_the_inverse_of_a_cholesky_root(gpu):
    Q = symmetric(3, 4, 5)
    lost = np.full((3, 4), 1e-12)
    found = on_host(gpu._eliminated(there(Q.copy()), there(lost)))
    assert_allclose(found, np.linalg.inv(np.linalg.cholesky(Q)), atol=1e-10)
    Q[:, 1] = Q[:, :, 1] = 0.0  # which is left out
    rest = [0, 2, 3]
    found = on_host(gpu._inverse_roots(there(Q)))
    assert_allclose(
        (found.transpose(0, 2, 1) @ found)[:, rest][:, :, rest], np.linalg.inv(Q[:, rest][:, :, rest])
    )
    assert not found[:, 1].any()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("d", [2, 4])
def test_expectations_have_their_covariances_where_they_belong(gpu, bias, d):
    """Those of [v, 1, c] of lines [v, c], or of [z, 0] of lines z."""
    z, C = numbers(3, d, seed=6), symmetric(3, d, 7)
    F = on_host(gpu._expectations(there(z.astype(np.float32)), bias))
    parts = [z[:, :-1], np.ones((3, 1)), z[:, -1:]] if bias else [z, np.zeros((3, 1))]
    assert_allclose(F, np.hstack(parts).astype(np.float32).astype(float))
    assert F.dtype == np.float64
    at = [*range(d - 1), d] if bias else list(range(d))
    due = np.zeros((3, d + 1, d + 1))
    due[:, np.array(at)[:, None], at] = C
    i, j, known = gpu._places(d, bias)
    assert_array_equal([i, j], np.tril_indices(d + 1))
    found = np.where(known < 0, 0.0, triangle(C)[:, known])
    assert_allclose(square(found, d + 1), due)


@pytest.mark.parametrize(("at_once", "due"), [(8, [(0, 2), (2, 4), (4, 6)]), (20, [(0, 5)]), (3, None)])
def test_so_many_lines_are_solved_at_a_time_as_there_is_room_for(gpu, monkeypatch, at_once, due):
    monkeypatch.setattr(gpu, "_AT_ONCE", at_once)
    due = due or [(k, k + 1) for k in range(5)]
    assert list(gpu._parts(5, 2)) == [slice(*each) for each in due]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("traits", [True, False])
def test_priors_are_those_of_the_cpu(gpu, bias, traits):
    n, d, counts = 12, 2 + bias, np.arange(12) % 4
    logs, means, sure = np.log1p(counts), numbers(n, d, seed=8) + 1, 0.1 * triangle(symmetric(n, d, 9))
    means += 4 * numbers(n, 2, seed=10)[:, [0]]
    own = Regressed(numbers(n, 2, seed=10), counts > 0, logs, bias) if traits else None
    model = SimpleNamespace(traits=(None, own), logs=(None, logs), bias=bias, floor=0.3)
    lines = gpu._Lines.of(model, 1, SimpleNamespace(start=there(np.zeros(1))))
    there_is = SimpleNamespace(lines=(None, lines), bias=bias, floor=0.3)
    side = Beliefs(there(means), there(sure))
    prior, A = gpu.GpuVariational._prior(there_is, 1, side)
    rest, kept = Beliefs(means, sure), slice(None)
    if traits:
        due, rest = own.explained(rest)
        kept = own.present
        assert_allclose(A, due, rtol=1e-9, atol=1e-12)
        assert A[:, 0].any()
    else:
        assert A is None
    for part, expected in zip(prior, most_likely(rest, logs[kept], bias, 0.3), strict=True):
        assert_allclose(part, expected, rtol=1e-9, atol=1e-12)
    found = on_host(gpu.GpuVariational._expected(there_is, 1, prior, A))
    assert_allclose(found, prior.means(logs) + (own.Z @ A if traits else 0.0), rtol=1e-12)
    assert_allclose(on_host(gpu.GpuVariational._expected(there_is, 1, prior, None)), prior.means(logs))
    off = means - found
    squares = gpu.GpuVariational._squares_about(there_is, there(found), side)
    assert_allclose(squares, off.T @ off + square(sure.sum(axis=0), d))


def test_sums_on_a_gpu_are_made_in_double(gpu):
    sure = np.full((3000, 1), 0.1, np.float32)
    sure[0] = 1e6
    assert gpu._summed(there(sure), 1)[0, 0] == pytest.approx(sure.sum(dtype=float), rel=1e-14)
    assert gpu._like(there(sure), np.float32([1.0])).dtype == torch.float64
