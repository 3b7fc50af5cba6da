"""Tall algebra and line blocks by the kernels for a GPU; in Triton's interpreter, where there is none."""

import numpy as np
import pytest
import torch
from array_api_compat import is_torch_array
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries.stores import draw, on_gpu
from rankfold.entries.arrays import like, near
from rankfold.linalg import on_gpu as tall_on_gpu
from rankfold.linalg import primitives
from rankfold.linalg.lines import Applied, applied, diagonal_sums, inverted
from test_line_systems import PIVOTS, leaves_out_what_is_lost

pytest.importorskip("triton")
Memory = pytest.importorskip("gpu_memory").Memory
pytestmark = pytest.mark.gpu
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def tensors_count_as_on_a_gpu(monkeypatch):
    monkeypatch.setattr("rankfold.linalg.on_gpu.holds", is_torch_array)


def tall(rows, rank, seed, dtype=torch.float64):
    numbers = np.random.default_rng(seed).standard_normal((rows, rank))
    return torch.as_tensor(numbers, dtype=dtype, device=DEVICE)


def there(numbers):
    return torch.as_tensor(numbers, device=DEVICE)


# In the interpreter the largest rank takes seconds for many rows.
@pytest.mark.parametrize(("rank", "rows"), [(1, 300), (3, 300), (16, 300 if DEVICE == "cuda" else 50)])
def test_grams_of_both_sides_in_one_launch(rank, rows):
    sides = [[tall(d, rank, d + k) for k in range(3)] for d in (rows, 41)]
    pairs = [[(A, A), (A, B), (B, C), (C, B)] for A, B, C in sides]
    found = primitives.grams(*pairs)
    for side, products in zip(pairs, found, strict=True):
        for (A, B), product in zip(side, products, strict=True):
            assert isinstance(product, np.ndarray)
            assert_allclose(product, (A.T @ B).cpu(), rtol=1e-12, atol=1e-12)
        assert_array_equal(products[2], products[3].T)


def test_grams_add_up_many_chunks(monkeypatch):
    monkeypatch.setattr("rankfold.kernels.gpu_tall._MOST_CHUNKS", 3)
    A, B = tall(700, 5, 0), tall(700, 5, 1)
    assert_allclose(primitives.grams([(A, B)])[0][0], (A.T @ B).cpu(), rtol=1e-12, atol=1e-12)


def test_tall_arrays_are_left_as_they_are_and_nothing_beside_them_is_read(monkeypatch):
    memory = Memory(monkeypatch)
    monkeypatch.setattr("rankfold.kernels.gpu_tall._MOST_CHUNKS", 2)

    def lent(A, empty_like=tall_on_gpu.empty_like):
        memory.lend(out := empty_like(A))
        return out

    monkeypatch.setattr(tall_on_gpu, "empty_like", lent)
    A, B, S = tall(1030, 3, 0), tall(5, 3, 1), np.random.default_rng(2).standard_normal((3, 3))
    memory.lend(A, B)
    for Z, (found,) in zip((A, B), primitives.grams([(A, A)], [(B, B)]), strict=True):
        assert_allclose(found, (Z.T @ Z).cpu(), rtol=1e-12)
    left, right = primitives.sums([(A[:300], S), (A[300:600], 2.0)], [(B, S)])
    expected = np.asarray(A[:300].cpu()) @ S + 2 * np.asarray(A[300:600].cpu())
    assert_allclose(left.cpu(), expected, rtol=1e-12, atol=1e-12)
    assert_allclose(right.cpu(), np.asarray(B.cpu()) @ S, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rank", [1, 5, 16])
def test_sums_of_both_sides_in_one_launch(rank):
    rng = np.random.default_rng(rank)
    S, T = rng.standard_normal((2, rank, rank))
    A, B, C = tall(300, rank, 1), tall(300, rank, 2), tall(41, rank, 3)
    left, right = primitives.sums([(A, S), (B, -0.5), (A, T)], [(C, T)])
    assert_allclose(
        left.cpu(), np.asarray(A.cpu()) @ (S + T) - np.asarray(B.cpu()) / 2, rtol=1e-11, atol=1e-11
    )
    assert_allclose(right.cpu(), np.asarray(C.cpu()) @ T, rtol=1e-11, atol=1e-11)


def test_single_precision_stays_so():
    A, B = tall(90, 3, 1, torch.float32), tall(90, 3, 2, torch.float32)
    (gram,) = primitives.grams([(A, B)])[0]
    assert gram.dtype == np.float32
    assert_allclose(gram, (A.double().T @ B.double()).cpu(), rtol=1e-6, atol=1e-6)
    (total,) = primitives.sums([(A, 2.0), (B, np.eye(3))])
    assert total.dtype == torch.float32
    assert_allclose(total.cpu(), (2 * A + B).cpu(), rtol=1e-6)


@pytest.mark.parametrize("arrays", ["wide", "of two widths", "not contiguous"])
def test_other_arrays_take_the_long_way(arrays, monkeypatch):
    monkeypatch.setattr("rankfold.linalg.on_gpu.grams", None)  # must not be called
    monkeypatch.setattr("rankfold.linalg.on_gpu.sums", None)
    A, B = tall(60, 4, 1), tall(60, 4, 2)
    if arrays == "wide":
        A, B = tall(60, 17, 1), tall(60, 17, 2)
    elif arrays == "of two widths":
        B = tall(60, 3, 2)
    else:
        B = tall(4, 60, 2).T
    assert_allclose(primitives.grams([(A, B)])[0][0], (A.T @ B).cpu(), rtol=1e-12, atol=1e-12)
    N = np.ones((B.shape[1], 2))
    assert_allclose(primitives.sums([(B, N)])[0].cpu(), np.asarray(B.cpu()) @ N, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rank", [1, 3, 9])
def test_blocks_are_inverted_and_applied_as_on_the_host(rank, monkeypatch):
    Memory(monkeypatch)
    rng = np.random.default_rng(rank)
    Q = rng.standard_normal((7, rank, 2 * rank)) / (2 * rank) ** 0.5
    blocks, N = Q @ Q.transpose(0, 2, 1), rng.standard_normal((rank, rank))
    x = rng.standard_normal((7, rank))
    blocks[5] = 0  # a line without entries has its ridge alone
    ridge = 0.1 * np.arange(1, rank + 1)
    inverse = inverted(there(blocks), 2.0, ridge, 1e-15)
    assert inverse.dtype == torch.float32
    exact = np.linalg.inv(2 * blocks + np.diag(ridge))
    assert_allclose(np.einsum("ikm,ikn->imn", *[inverse.cpu().double()] * 2), exact, rtol=1e-5, atol=1e-5)
    (found,) = applied(Applied(inverse, N, there(x)))
    expected = np.einsum("mn,ink,jk,ij->im", N, exact, N, x)
    assert_allclose(found.cpu(), expected, rtol=2e-5, atol=2e-5)
    for first in (0, 2):  # the other side may have more lines, or fewer
        sides = [(inverse[first:], N, there(x[first:])), (inverse[2 - first :], N.T, there(-x[2 - first :]))]
        found, other = applied(*(Applied(*side) for side in sides))
        assert_allclose(found.cpu(), expected[first:], rtol=2e-5, atol=2e-5)
        turned = -np.einsum("nm,ink,kj,ij->im", N, exact, N, x)
        assert_allclose(other.cpu(), turned[2 - first :], rtol=2e-5, atol=2e-5)
    assert_allclose(diagonal_sums(there(blocks)), np.einsum("ikk->k", blocks), rtol=1e-12)


def test_a_pivot_that_is_rounding_is_left_out():
    inverse = inverted(there(np.array([[[4.0, 2.0], [2.0, 1.0]]])), 1.0, np.zeros(2), 1e-12)
    assert_allclose(inverse.cpu(), [[[0.5, 0.0], [0.0, 0.0]]])


@pytest.mark.parametrize(("lost", "kept"), PIVOTS)
def test_what_is_lost_of_a_pivot_is_a_part_of_its_diagonal_entry(lost, kept):
    leaves_out_what_is_lost(lost, kept, there)


def test_conjugate_gradients_are_those_of_the_cpu():
    """In the metric of the data: the same values at equal iterations; arrays stay where they are."""
    entries = draw(1, 9, 8, 0.8)
    plain = rf.Completion(entries.rows, entries.cols, entries.values, entries.shape)
    x0 = rf.Problem.of(plain, 2).start()
    moved = type(x0)(*(there(part) for part in x0))
    results = [
        rf.minimize(rf.Problem.of(cost, 2), rf.ConjugateGradient(metric="data"), x, max_iterations=4)
        for cost, x in ((plain, x0), (rf.Completion.from_observed(on_gpu(entries, DEVICE)), moved))
    ]
    assert all(part.device.type == DEVICE for part in results[1].x)
    assert results[1].trace["blocks"].sum() > 0
    assert_allclose(results[1].trace["value"], results[0].trace["value"], rtol=1e-10)


def test_points_are_checked_by_their_grams():
    geometry = rf.Polar((7, 6), 2)
    x = geometry.random_point(0)
    point = type(x)(*(there(part) for part in x))
    assert geometry.validate(point) is not None
    broken = point.U.clone()
    broken[3, 1] = float("nan")
    with pytest.raises(ValueError, match="U has entries that are NaN or infinite"):
        geometry.validate(point._replace(U=broken))
    with pytest.raises(ValueError, match="U must have orthonormal columns"):
        geometry.validate(point._replace(U=2 * point.U))
    with pytest.raises(ValueError, match="B must be symmetric"):
        geometry.validate(point._replace(B=point.B + torch.triu(torch.ones_like(point.B), 1)))


def test_arrays_stay_near_their_entries():
    A, B = tall(5, 2, 0), tall(5, 2, 1)
    assert all(isinstance(Z, torch.Tensor) and Z.is_contiguous() for Z in near(A.T, B))
    assert [type(Z) for Z in near(A.cpu().numpy(), B.cpu().numpy())] == [np.ndarray] * 2
    assert type(like(np.zeros(1), A)) is np.ndarray
    assert like(B, A) is A
