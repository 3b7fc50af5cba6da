"""All that is ever done with the rows of tall arrays: Grams of several at once, and sums of tall × small.

Each takes the work of both sides of a matrix in one call, so that threads are woken, and a GPU or other
machines are waited for, once. Small matrices are NumPy arrays on the host, wherever the tall ones live.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_torch_array, to_device
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.linalg import on_gpu
from rankfold.linalg.memory import empty
from rankfold.linalg.rows import is_spread

Array = Any  # an array of any array-API namespace
Small = NDArray[Any] | float  # a small matrix, or a number that stands for its product with the identity
Pair = tuple[Array, Array]
Term = tuple[Array, Small]
Part = tuple[list[Array], list[tuple[int, int]]]  # few arrays, and which of them are the pairs

# Arrays of fewer numbers are left to BLAS: a kernel would have to be loaded, or compiled, to gain little.
LEAST = 1 << 14
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
# What a multiply-add over rows in order takes of the time of one over gathered rows, which the pool counts:
# 0.11 ns and 0.49 at rank 5 (P2), 0.07 and 0.2 at rank 20 (P5), half of it for memory that threads share.
_IN_ORDER = 1 / 8


def on_host(A: Array) -> NDArray[Any]:
    """Return an array as NumPy's: a copy, and a wait, if it lives elsewhere."""
    if type(A) is np.ndarray:
        return A
    if is_torch_array(A):
        return np.asarray(A.detach().cpu())
    home = array_namespace(A).__array_namespace_info__().default_device()
    return np.asarray(A if device(A) == home else to_device(A, home))


def coming(sides: Sequence[Sequence[Pair]], diagonals: Collection[int] = ()) -> Callable[[], NDArray[Any]]:
    """Have the Grams of as many pairs of each side computed; what is returned gives them, in float64.

    One pair after the other, with those of all sides. It waits, if that has to be. Of the pairs at the places
    `diagonals` no more than the diagonals are asked for: the rest of these may be zero.
    """
    first = sides[0][0][0]
    if type(first) is np.ndarray or is_spread(first):
        found = np.array(grams(*sides, diagonals=diagonals), np.float64).swapaxes(0, 1)
        return lambda: found
    numbers, rank = on_gpu.grams(sides).numbers, first.shape[1]
    return lambda: numbers().reshape(len(sides), -1, rank, rank).swapaxes(0, 1)


def grams(*sides: Sequence[Pair], diagonals: Collection[int] = ()) -> list[list[NDArray[Any]]]:
    """Return AᵀB for the pairs of tall arrays of each side, whose arrays all have the same rows.

    Of those at the places `diagonals`, diagonals are enough.
    """
    first = sides[0][0][0]
    if is_spread(first):
        return first.grams(sides)
    if type(first) is np.ndarray:
        if first.size >= LEAST and (parts := _parts_for_kernels(sides)) is not None:
            return _grams_by_kernels(parts, diagonals)
    elif on_gpu.taken(_different(sides)):
        numbers = on_gpu.grams(sides).numbers().astype(_host_type(first), copy=False)
        products = iter(numbers.reshape(-1, first.shape[1], first.shape[1]))
        return [[next(products) for _ in pairs] for pairs in sides]
    elif all(is_torch_array(A) for pairs in sides for pair in pairs for A in pair):
        return _fetched(sides)
    return [[_own_gram(A, B) for A, B in pairs] for pairs in sides]


def sums(*sides: Sequence[Term]) -> list[Array]:
    """Return Σ A_k S_k for the terms (A_k, S_k) of each side."""
    first = sides[0][0][0]
    if is_spread(first):
        return first.sums(sides)
    if type(first) is np.ndarray:
        if first.size >= LEAST and all(_fit_for_sum(terms) for terms in sides):
            return _sums_by_kernels(sides)
    elif on_gpu.holds(first) and all(map(_on_a_line, sides)):  # one operation of torch's a side, and no table
        return [A.add(B, alpha=t) for (A, _), (B, t) in sides]
    elif all(map(_square, sides)) and on_gpu.taken([A for terms in sides for A, _ in terms]):
        return on_gpu.sums(sides)
    elif is_torch_array(first):
        return _sums_of_tensors(sides)
    return [_plain_sum(terms) for terms in sides]


def multiples(terms: Sequence[tuple[NDArray[Any], float]], numbers: int) -> NDArray[Any]:
    """Return Σ c_k A_k for numbers c_k and NumPy arrays of the same rows of matrices of so many numbers.

    A row gets the same bits among whichever other rows of its matrix: kernels are chosen by all of it.
    """
    if numbers < LEAST or any(A.dtype not in _FLOATS or A.dtype != terms[0][0].dtype for A, _ in terms):
        return np.asarray(_plain_sum(terms))
    (total,) = _sums_by_kernels([[(np.require(A, requirements=("C", "A", "W")), c) for A, c in terms]])
    return np.asarray(total)


def _different(sides: Sequence[Sequence[Pair]]) -> Collection[Array]:
    """Every array of the pairs once."""
    return {id(A): A for pairs in sides for pair in pairs for A in pair}.values()


def _on_a_line(terms: Sequence[Term]) -> bool:
    """Whether a sum is A + t B, with tall arrays of one kind."""
    if len(terms) != 2:
        return False
    (A, one), (B, t) = terms
    if type(one) is not float or type(t) is not float:
        return False
    return one == 1.0 and type(A) is type(B) and bool(A.dtype == B.dtype)


def _fit_for_sum(terms: Sequence[Term]) -> bool:
    return _square(terms) and _fit_for_kernels([A for A, _ in terms])


def _square(terms: Sequence[Term]) -> bool:
    return all(isinstance(S, float) or S.shape == (A.shape[1], A.shape[1]) for A, S in terms)


def _fit_for_kernels(arrays: Sequence[Array]) -> bool:
    """Whether kernels can take these arrays together, and are worth it."""
    first = arrays[0]
    if type(first) is not np.ndarray or first.size < LEAST or first.dtype not in _FLOATS:
        return False
    shape, dtype = first.shape, first.dtype
    for A in arrays:
        # `carray`: contiguous, aligned, and writable, which numba's types tell apart
        if type(A) is not np.ndarray or A.shape != shape or A.dtype != dtype or not A.flags.carray:
            return False
    return True


def _own_gram(A: Array, B: Array) -> NDArray[Any]:
    """AᵀB in the library of both, or in NumPy where they are of two; with the bits of (BᵀA)ᵀ.

    Which of two arrays is the older one differs between a run and one that is resumed, and some BLAS round by
    that. So NumPy's are taken in the order of their first numbers, and others both ways.
    """
    if type(A) is not type(B):
        A, B = on_host(A), on_host(B)
    if type(A) is np.ndarray and A is not B and A.size and B.size and (a := A.item(0)) != (b := B.item(0)):
        ordered: NDArray[Any] = A.T.dot(B) if a < b else B.T.dot(A).T
        return ordered
    return on_host(A.T @ A if A is B else (A.T @ B + (B.T @ A).T) / 2)


def _plain_sum(terms: Sequence[Term]) -> Array:
    """Σ A_k S_k in the library of the arrays."""
    total: Array = None
    for A, S in terms:
        if isinstance(S, float):
            part = S * A
        elif type(A) is np.ndarray:
            part = A.dot(S)
        else:
            part = A @ array_namespace(A).asarray(S, device=device(A))
        if total is None:
            total = part
        else:
            total += part  # an array of our own
    return total


# NumPy arrays, by threaded kernels --------------------------------------------------------------------------


def _parts_for_kernels(sides: Sequence[Sequence[Pair]]) -> list[list[Part]] | None:
    """Each side cut as `_in_parts` does; None unless kernels can take all of them."""
    found = [_in_parts(pairs) for pairs in sides]
    return found if all(_fit_for_kernels(arrays) for parts in found for arrays, _ in parts) else None


def _grams_by_kernels(
    sides: Sequence[Sequence[Part]], diagonals: Collection[int] = ()
) -> list[list[NDArray[Any]]]:
    found: list[list[tuple[NDArray[Any], NDArray[Any]]]] = []
    passes: dict[int, list[tuple[Any, ...]]] = {}  # by rank
    work = 0
    for parts in sides:
        found.append([])
        first = 0
        for arrays, places in parts:
            flat = tuple(k in diagonals for k in range(first, first + len(places)))
            first += len(places)
            rows, rank = arrays[0].shape
            bounds = kernels.tall.cuts(rows, rank)
            pairs, order = kernels.tall.in_groups(rank, tuple(places), flat)
            partial = np.zeros(
                ((bounds.size - 1) * len(places) * rank, kernels.tall.width(rank)), arrays[0].dtype
            )
            padded = _filled_up(arrays, kernels.tall.ARRAYS)
            passes.setdefault(rank, []).append((bounds, padded, pairs, partial))
            found[-1].append((partial.reshape(-1, len(places), rank, partial.shape[1]), order))
            work += rows * rank * rank * len(places)
    for rank, arguments in passes.items():
        kernels.pool.run(kernels.tall.grams(rank), kernels.tall.MOST_CHUNKS, work * _IN_ORDER, *arguments)
    return [
        [M for sums, order in parts for M in np.add.reduce(sums)[:, :, : sums.shape[2]][order]]
        for parts in found
    ]


def _in_parts(pairs: Sequence[Pair]) -> list[Part]:
    """Cut pairs into lists of few different arrays each, as (arrays, numbers of the arrays of each pair)."""
    parts: list[Part] = [([], [])]
    number: dict[int, int] = {}
    for A, B in pairs:
        a, b = id(A), id(B)
        if len(number) + (a not in number) + (b not in number and b != a) > kernels.tall.ARRAYS:
            number = {}
            parts.append(([], []))
        arrays, places = parts[-1]
        for name, array in ((a, A), (b, B)):
            if name not in number:
                number[name] = len(arrays)
                arrays.append(array)
        places.append((number[a], number[b]))
    return parts


def _filled_up(arrays: list[Array], length: int) -> tuple[Array, ...]:
    """So many arrays, the last one repeated: one compiled kernel serves any number of them."""
    return tuple(arrays + arrays[-1:] * (length - len(arrays)))


def _sums_by_kernels(sides: Sequence[Sequence[Term]]) -> list[Array]:
    most = kernels.tall.ARRAYS
    while max(map(len, sides)) > most:  # the first few of a long sum, and then their sum with the others
        first = _sums_by_kernels([terms[:most] for terms in sides])
        sides = [[(A, 1.0), *terms[most:]] for A, terms in zip(first, sides, strict=True)]
    results: list[Array] = []
    by_rank: dict[int, list[tuple[Any, ...]]] = {}
    work = 0.0
    for terms in sides:
        rows, rank = terms[0][0].shape
        dtype = terms[0][0].dtype
        results.append(empty((rows, rank), dtype))
        plain, small = np.zeros(len(terms), np.bool_), np.empty((len(terms), rank, rank), dtype)
        for k, (_, S) in enumerate(terms):
            small[k] = S  # of a number, only the first is read
            plain[k] = isinstance(S, float)
            work += results[-1].size * (1 if plain[k] else rank)
        padded = _filled_up([A for A, _ in terms], most)
        arguments = kernels.tall.cuts(rows, rank), padded, plain, small.reshape(-1, rank), results[-1]
        by_rank.setdefault(rank, []).append(arguments)
    for rank, passes in by_rank.items():
        kernels.pool.run(kernels.tall.sums(rank), kernels.tall.MOST_CHUNKS, work * _IN_ORDER, *passes)
    return results


def _host_type(A: Array) -> Any:
    """NumPy's type of a tensor's numbers."""
    return np.float32 if A.element_size() == 4 else np.float64


# torch tensors, where they live -----------------------------------------------------------------------------


def _fetched(sides: Sequence[Sequence[Pair]]) -> list[list[NDArray[Any]]]:
    """One product of all the tensors of a side, side by side, and one transfer of all such products."""
    import torch

    stacks = [list({id(A): A for pair in pairs for A in pair}.values()) for pairs in sides]
    wholes = [torch.cat(stack, dim=1) if len(stack) > 1 else stack[0] for stack in stacks]
    products = [whole.T @ whole for whole in wholes]
    numbers = on_host(torch.cat([product.reshape(-1) for product in products]))
    found = []
    for pairs, stack, product in zip(sides, stacks, products, strict=True):
        part, numbers = numbers[: product.numel()], numbers[product.numel() :]
        ends = np.cumsum([A.shape[1] for A in stack]).tolist()
        place = {id(A): slice(end - A.shape[1], end) for A, end in zip(stack, ends, strict=True)}
        M = part.reshape(tuple(product.shape))
        found.append([M[place[id(A)], place[id(B)]] for A, B in pairs])
    return found


def _sums_of_tensors(sides: Sequence[Sequence[Term]]) -> list[Array]:
    """One product a side; the small matrices of all sides are brought there together."""
    import torch

    first = sides[0][0][0]
    stacks = [[_as_matrix(S, A.shape[1]) for A, S in terms] for terms in sides]
    flat = np.concatenate([np.concatenate(stack).reshape(-1) for stack in stacks])
    there = torch.as_tensor(flat, dtype=first.dtype).to(first.device, non_blocking=True)
    results = []
    for terms, stack in zip(sides, stacks, strict=True):
        height, width = sum(len(S) for S in stack), stack[0].shape[1]
        small, there = there[: height * width].reshape(height, width), there[height * width :]
        arrays = [A for A, _ in terms]
        results.append((torch.cat(arrays, dim=1) if len(arrays) > 1 else arrays[0]) @ small)
    return results


def _as_matrix(S: Small, size: int) -> NDArray[Any]:
    return S * np.eye(size) if isinstance(S, float) else S
