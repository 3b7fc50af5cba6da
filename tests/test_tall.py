"""Tall arrays: the two passes over their rows, and sums that are made when somebody wants them."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import array_api_strict
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rankfold as rf
from rankfold import kernels
from rankfold.geometry.lazily import introduce, lazily, made
from rankfold.linalg import gram, gram_factor, inverse_gram, polar, primitives
from rankfold.linalg.tall import Tall, learn, real, reals

KINDS = [  # each compiles kernels of its own: up to five Grams at a time, one of whole vectors, rows of one
    (5, np.float32),
    (10, np.float64),
    *(pytest.param(rank, np.float64, marks=pytest.mark.soak) for rank in (1, 11, 14, 20)),
]
LIBRARIES = {"numpy": np.asarray, "torch": torch.asarray, "strict": array_api_strict.asarray}


def tall(rank, count=3, rows=None, dtype=np.float64, seed=0):
    """Arrays that are just large enough for kernels, of a number of rows that no chunk or tile divides."""
    rng = np.random.default_rng(seed)
    shape = rows or primitives.LEAST // rank + 13, rank
    return [rng.standard_normal(shape).astype(dtype) for _ in range(count)]


@pytest.fixture
def passes(monkeypatch):
    """The numbers of pairs, by side, of each pass that is made for Grams."""
    seen, grams = [], primitives.grams

    def counted(*sides, **options):
        sides = [list(pairs) for pairs in sides]
        seen.append([len(pairs) for pairs in sides])
        return grams(*sides, **options)

    monkeypatch.setattr(primitives, "grams", counted)
    return seen


@pytest.mark.parametrize(
    ("rows", "rank", "chunks"),
    [(0, 1, 1), (1023, 1, 1), (1024, 1, 2), (1535, 16, 2), (1279, 20, 1), (1280, 20, 2), (10**5, 4, 64)],
)
def test_chunks_have_many_rows_beside_their_sums(rows, rank, chunks):
    """512 of them, 32 r where that is more, and there are no more than 64 chunks."""
    cuts = kernels.tall.cuts(rows, rank)
    assert (cuts.size - 1, cuts[0], cuts[-1]) == (chunks, 0, rows)


@pytest.mark.parametrize(("rank", "dtype"), KINDS)
def test_grams_of_several_pairs(rank, dtype):
    """In the order in which they are asked for, whichever are made together."""
    A, B, C, *others = tall(rank, 6, dtype=dtype)
    (D,) = tall(rank, 1, rows=len(A) + 100, dtype=dtype)
    pairs = [(A, A), (A, B), (C, B), (B, A), *((other, B) for other in others), (C, C)]
    left, right = primitives.grams(pairs, [(D, D)])
    tolerance = 1e-11 if dtype == np.float64 else 1e-2
    for M, (X, Y) in zip([*left, *right], [*pairs, (D, D)], strict=True):
        assert M.shape == (rank, rank)
        assert M.dtype == dtype
        np.testing.assert_allclose(M, X.astype(np.float64).T @ Y, atol=tolerance * len(X) ** 0.5)


@pytest.mark.parametrize(("rank", "dtype"), KINDS)
def test_grams_of_more_rows_than_are_read_at_a_time(rank, dtype):
    """Chunks have tiles, and the products of one are added to those of the tiles before."""
    A, B = tall(rank, 2, rows=kernels.tall.MOST_CHUNKS * 1024 + 4321, dtype=dtype)
    (found,) = primitives.grams([(A, B), (A, A), (B, A)], diagonals=(2,))
    whole = [X.astype(np.float64).T @ Y for X, Y in ((A, B), (A, A), (B, A))]
    tolerance = (1e-12 if dtype == np.float64 else 1e-4) * len(A) ** 0.5
    np.testing.assert_allclose(found[:2], whole[:2], rtol=1e-4, atol=tolerance)
    np.testing.assert_allclose(np.diag(found[2]), np.diag(whole[2]), rtol=1e-4, atol=tolerance)


@pytest.mark.parametrize(("rank", "dtype"), KINDS)
def test_of_some_grams_the_diagonals_are_enough(rank, dtype):
    """Also where the arrays are more than one pass takes."""
    arrays = tall(rank, 2 * kernels.tall.ARRAYS, dtype=dtype)
    pairs = list(pairwise(arrays))
    (whole,), (found,) = primitives.grams(pairs), primitives.grams(pairs, diagonals=(1, 7))
    for k, (M, N) in enumerate(zip(whole, found, strict=True)):
        expected = np.diag(np.diag(M)) if k in (1, 7) else M
        np.testing.assert_allclose(N, expected, rtol=1e-3 if dtype == np.float32 else 1e-9, atol=1e-9)


@pytest.mark.parametrize("features", ["", "+avx512f"])
@pytest.mark.parametrize(("rank", "dtype"), KINDS)
def test_half_of_a_square_is_computed_with_the_bits_of_the_whole(rank, dtype, features, monkeypatch):
    """However many rows of it registers hold."""
    (A,) = tall(rank, 1, dtype=dtype)
    ((whole, square),) = primitives.grams([(A, A.copy()), (A, A)])
    np.testing.assert_array_equal(square, whole)
    monkeypatch.setattr("rankfold.kernels.registers.get_host_cpu_features", lambda: features)
    for remembered in ("grams", "in_groups", "width"):
        monkeypatch.setattr(kernels.tall, remembered, getattr(kernels.tall, remembered).__wrapped__)
    ((again, *others),) = primitives.grams([(A, A), (A, 2 * A), (3 * A, 2 * A)])
    np.testing.assert_array_equal(again, whole)
    for factor, other in zip((2, 6), others, strict=True):
        np.testing.assert_allclose(other, factor * whole, rtol=1e-5)


def test_pairs_with_the_same_partner_are_made_together(monkeypatch):
    """As many as registers hold, of few numbers, beside those of which diagonals are enough."""
    pairs = (0, 4), (1, 0), (2, 4), (3, 4), (4, 4), (0, 0), (5, 4)
    flat = False, True, False, False, False, False, False
    for room, sizes in (
        (8, [1, 5, 0, 0, 0, 0, 1]),
        (4, [1, 4, 0, 0, 0, 1, 1]),
        (3, [1, 3, 0, 0, 1, 1, 1]),
        (1, [1] * 7),
    ):
        monkeypatch.setattr(kernels.tall, "at_once", lambda rank, room=room: room)
        told, places = kernels.tall.in_groups.__wrapped__(5, pairs, flat)
        assert [tuple(row) for row in told[places, :3].tolist()] == [
            (*pair, diagonal) for pair, diagonal in zip(pairs, flat, strict=True)
        ]
        assert told[:, 3].tolist() == sizes
        assert told[-1, 2] == (room > 1)  # those of which diagonals are enough come last


@pytest.mark.parametrize(("rank", "dtype"), KINDS)
def test_a_row_of_multiples_has_the_same_bits_among_any_others(rank, dtype):
    """Those that a process has of its own rows, and others of theirs."""
    A, B, C = tall(rank, dtype=dtype)
    terms, size = [(A, 1.0), (B, 0.7312345), (C, -1e-3)], A.size
    total = primitives.multiples(terms, size)
    assert total.dtype == dtype
    np.testing.assert_allclose(total, A + 0.7312345 * B - 1e-3 * C, atol=1e-13 if rank > 5 else 1e-5)
    for first, last in ((0, 1), (1, 6), (6, 6), (6, 137), (137, len(A) - 3), (len(A) - 3, len(A))):
        for order in "CF":  # rows of an array that kernels do not take as it is
            rows = [(np.asarray(each[first:last], order=order), factor) for each, factor in terms]
            np.testing.assert_array_equal(primitives.multiples(rows, size), total[first:last])


def test_multiples_of_few_numbers_or_of_two_types_are_left_to_numpy():
    A, B = tall(3, 2, rows=9)
    for size in (27, primitives.LEAST - 1):
        np.testing.assert_array_equal(primitives.multiples([(A, 1.0), (B, 0.3)], size), A + 0.3 * B)
    mixed = primitives.multiples([(A, 1.0), (B.astype(np.float32), 0.3)], primitives.LEAST)
    np.testing.assert_allclose(mixed, A + 0.3 * B, atol=1e-6)


def test_grams_of_more_arrays_than_a_pass_takes():
    arrays = tall(1, count=9)
    (found,) = primitives.grams([(A, B) for A in arrays for B in arrays])
    expected = [A.T @ B for A in arrays for B in arrays]
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize(("rank", "dtype"), KINDS)
def test_sums_of_tall_times_small(rank, dtype):
    A, B, C = tall(rank, dtype=dtype)
    S, T = np.random.default_rng(1).standard_normal((2, rank, rank)).astype(dtype)
    one, two = primitives.sums([(A, S), (B, 2.5), (C, T)], [(B, -1.0)])
    assert one.dtype == two.dtype == dtype
    np.testing.assert_allclose(one, A @ S + 2.5 * B + C @ T, atol=1e-12 if dtype == np.float64 else 1e-4)
    np.testing.assert_array_equal(two, -B)


@pytest.mark.parametrize("rank", [3, 14])
def test_the_bits_do_not_depend_on_the_threads(rank, monkeypatch):
    A, B, C = tall(rank, rows=200_000 // rank)
    S = np.random.default_rng(1).standard_normal((rank, rank))
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("RANKFOLD_NUM_THREADS", threads)
        grams = primitives.grams([(A, A), (A, B), (B, C)], [(C, C)])
        found.append([*grams[0], *grams[1], *primitives.sums([(A, S), (B, 0.5)], [(C, S)])])
    for others in found[1:]:
        for a, b in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gives_small_matrices_on_the_host(library):
    plain = tall(3, rows=50)
    A, B, C = map(LIBRARIES[library], plain)
    S = np.random.default_rng(1).standard_normal((3, 2))
    (found,) = primitives.grams([(A, B), (C, C)])
    assert all(type(M) is np.ndarray for M in found)
    np.testing.assert_allclose(found, [plain[0].T @ plain[1], plain[2].T @ plain[2]], atol=1e-12)
    (made_of,) = primitives.sums([(A, S), (B, -2 * S)])
    assert type(made_of) is type(A)
    np.testing.assert_allclose(np.asarray(made_of), plain[0] @ S - 2 * plain[1] @ S, atol=1e-12)


def test_arrays_that_kernels_cannot_take_go_another_way():
    A, B, _ = tall(3)
    fortran, frozen, wide = np.asfortranarray(A), A.copy(), tall(8, rows=len(A))[0]
    frozen.setflags(write=False)
    for X in (fortran, frozen):
        (found,) = primitives.grams([(X, B)])
        np.testing.assert_allclose(found[0], A.T @ B, atol=1e-10)
        np.testing.assert_allclose(primitives.sums([(X, 1.0), (B, 2.0)])[0], A + 2 * B, atol=1e-13)
    np.testing.assert_allclose(primitives.grams([(A, wide)])[0][0], A.T @ wide, atol=1e-10)
    S = np.ones((3, 2))
    np.testing.assert_allclose(primitives.sums([(A, S)])[0], A @ S, atol=1e-13)
    np.testing.assert_allclose(primitives.sums([(A, 1.0)] * 9)[0], 9 * A, atol=1e-12)


def test_arithmetic_is_that_of_arrays():
    A, B, _ = tall(3, rows=40)
    S, s = np.random.default_rng(1).standard_normal((3, 3)), np.array([1.0, 2.0, 4.0])
    X, Y = Tall.of(A), Tall.of(B)
    for lazy, plain in [
        (X + Y, A + B),
        (X - Y, A - B),
        (-X, -A),
        (np.float64(2.0) * X, 2 * A),
        (X * 0.5 + X, 1.5 * A),
        (X @ S + X, A @ S + A),
        (X + X @ S, A @ S + A),
        (X @ S + X @ S @ S, A @ S + A @ S @ S),
        (X * s, A * s),
        ((X + Y @ S) / s, (A + B @ S) / s),
        ((X @ S) / 4.0, A @ S / 4),
    ]:
        assert lazy.shape == A.shape
        np.testing.assert_allclose(real(lazy), plain, atol=1e-13)
        np.testing.assert_allclose(gram(lazy, Y @ S - X), plain.T @ (B @ S - A), atol=1e-11)
        np.testing.assert_allclose(gram(B, lazy), B.T @ plain, atol=1e-12)


def test_what_is_there_already_is_not_made_again():
    A, B, _ = tall(3, rows=40)
    found = reals([Tall.of(A), B, 1.0 * Tall.of(B)])
    assert [found[0] is A, found[1] is B, found[2] is B] == [True, True, True]


def test_a_gram_is_taken_once(passes):
    A, B, _ = tall(3, rows=40)
    X, Y = Tall.of(A), Tall.of(B)
    gram(X, Y), gram(Y, X), gram(X @ np.eye(3), -Y)
    assert passes == [[1]]
    np.testing.assert_array_equal(gram(X, Y), gram(Y, X).T)
    learn([(X.leaf, Y.leaf), (Y.leaf, X.leaf), (X.leaf, X.leaf)])
    assert passes == [[1], [1]]
    inverse_gram(Y), inverse_gram(Y)
    assert passes == [[1], [1], [1]]


def test_an_old_array_does_not_gather_grams_of_all_it_meets():
    A, B, C = (Tall.of(X) for X in tall(3, rows=40))
    gram(A, B), gram(C, A)
    assert [len(X.leaf.grams) for X in (A, B, C)] == [0, 1, 1]


def test_both_sides_are_introduced_in_one_pass(passes):
    geometry = rf.Polar((30, 20), rank=2)
    x = geometry.random_point(0)
    lazy, xi = (lazily(geometry, z) for z in (x, geometry.random_tangent(x, 1)))
    introduce((lazy, lazy), (lazy, xi))
    assert passes == [[2, 2]]
    gram(lazy.V, xi.V), gram(lazy.U, lazy.U)
    assert passes == [[2, 2]]
    assert type(lazy.B) is np.ndarray


def test_small_fields_come_back_in_the_library_of_the_point():
    geometry = rf.Embedded((30, 20), rank=2)
    x = geometry.random_point(0, like=torch.zeros(1, dtype=torch.float32))
    xi = lazily(geometry, geometry.random_tangent(x, 1))
    assert type(xi.M) is np.ndarray
    back = made(xi, x.U)
    assert all(type(part) is torch.Tensor and part.dtype == torch.float32 for part in back)


def test_a_subclass_with_formulas_of_its_own_gets_arrays():
    class Mine(rf.FullRank):
        pass

    x = Mine((5, 4), 2).random_point(0)
    assert lazily(Mine((5, 4), 2), x) is x
    assert isinstance(lazily(rf.FullRank((5, 4), 2), x).G, Tall)


@pytest.mark.parametrize("exponent", [2, 7])
def test_grams_taken_afresh_are_those_of_realised_arrays(exponent):
    """Those of a sum, put together from its parts, would be lost in rounding."""
    rng = np.random.default_rng(0)
    U = np.linalg.qr(rng.standard_normal((60, 3)))[0]
    Y = U @ (np.logspace(0, -exponent, 3)[:, None] * np.linalg.qr(rng.standard_normal((3, 3)))[0])
    far = 1e3 * rng.standard_normal((60, 3))
    lazy = (Tall.of(Y - far)) + Tall.of(far)
    s = np.linalg.svd(gram_factor(lazy).T, compute_uv=False)
    np.testing.assert_allclose(s, np.logspace(0, -exponent, 3), rtol=1e-4)
    Q = real(polar(lazy))
    np.testing.assert_allclose(Q.T @ Q, np.eye(3), atol=1e-9)


@pytest.mark.parametrize(("metric", "pairs"), [("geometry", 7), ("data", 10)])
def test_an_iteration_of_conjugate_gradients_passes_over_its_arrays_few_times(
    metric, pairs, passes, monkeypatch
):
    """Once for Grams, and twice for new arrays."""
    data = rf.data.random_completion((60, 50), rank=3, oversampling=6, seed=0)
    problem, solver = rf.Problem.of(rf.Completion.from_triples(data), 3), rf.ConjugateGradient(metric=metric)
    state = solver.init(problem, problem.start())
    made_of, sums = [], primitives.sums

    def counted(*sides):
        sides = [list(terms) for terms in sides]
        made_of.append([len(terms) for terms in sides])
        return sums(*sides)

    monkeypatch.setattr(primitives, "sums", counted)
    state = solver.step(problem, solver.step(problem, solver.step(problem, state)))
    passes.clear()
    made_of.clear()
    after = solver.step(problem, state)  # the fourth: blocks are not looked at again until the fifth
    assert np.isfinite(after.gradient_norm)
    assert passes == [[pairs, pairs]]
    assert made_of == [[2, 2], [3, 3]]


class Operations(TorchDispatchMode):
    """Counts torch's operations by name."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.calls[operation.overloadpacket.__name__] += 1
        return operation(*args, **(kwargs or {}))


def test_an_iteration_on_tensors_launches_little():
    """Products and stacks only, of which a GPU would be asked for a few dozen otherwise."""
    data = rf.data.random_completion((60, 50), rank=3, oversampling=6, seed=0)
    problem, solver = (
        rf.Problem.of(rf.Completion.from_triples(data), 3),
        rf.ConjugateGradient(metric="geometry"),
    )
    x0 = problem.start()
    state = solver.init(problem, type(x0)(*map(torch.asarray, x0)))
    state = solver.step(problem, state)
    with Operations() as seen:
        after = solver.step(problem, state)
    assert np.isfinite(after.gradient_norm)
    assert seen.calls["mm"] == 6
    assert seen.calls["cat"] == 7
    assert not {"_local_scalar_dense", "add", "mul", "linalg_eigh", "_linalg_eigh"} & set(seen.calls)
