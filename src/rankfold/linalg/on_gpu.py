"""The two primitives for tensors on a GPU: one launch and one transfer each, for any number of arrays."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.linalg.exchange import desk

Array = Any


def holds(A: Array) -> bool:
    """Whether an array is a tensor on a GPU, where Triton's kernels take it."""
    return bool(is_torch_array(A)) and bool(A.is_cuda)


def addresses(arrays: Collection[Array]) -> dict[int, int] | None:
    """Where arrays are, by `id`, if the kernels take them together; else None.

    They take tensors on a GPU: narrow, contiguous, of one width and type.
    """
    first = next(iter(arrays))
    if not holds(first) or not first.is_floating_point():
        return None
    kind, width, dtype = type(first), first.shape[1], first.dtype
    if width > kernels.gpu_tall.MOST_COLUMNS:
        return None
    found = {}
    for A in arrays:
        if type(A) is not kind or A.shape[1] != width or A.dtype != dtype or not A.is_contiguous():
            return None
        found[id(A)] = A.data_ptr()
    return found


def grams(sides: Sequence[Sequence[tuple[Array, Array]]], place: dict[int, int]) -> list[list[NDArray[Any]]]:
    """AᵀB for the pairs of each side, whose arrays are where `place` says."""
    first = sides[0][0][0]
    rank, width = first.shape[1], first.element_size()
    layout = kernels.gpu_tall.layout(rank, width)
    rows = [pairs[0][0].shape[0] for pairs in sides]
    chunk = kernels.gpu_tall.chunk_of(max(rows), layout["ROWS"])
    table = [
        number
        for length, pairs in zip(rows, sides, strict=True)
        for A, B in pairs
        for number in (place[id(A)], place[id(B)], length)
    ]
    jobs, chunks = len(table) // 3, -(-max(rows) // chunk)
    home = desk(first)
    parts = home.scratch(jobs * rank * rank * chunks)
    arguments = parts, home.lend(np.array(table, np.int64)), chunk
    kernels.gpu_launch.launch(kernels.gpu_tall.grams, (jobs, chunks), arguments, layout)
    numbers = home.summed(parts, jobs * rank * rank, chunks).numbers()
    found: NDArray[Any] = numbers if width == 8 else numbers.astype(np.float32)
    products = iter(found.reshape(jobs, rank, rank))
    return [[next(products) for _ in side] for side in sides]


def sums(sides: Sequence[Sequence[tuple[Array, Any]]], place: dict[int, int]) -> list[Array]:
    """Σ A_k S_k for the terms of each side; a number stands for a multiple of the identity."""
    first, rank = sides[0][0][0], sides[0][0][0].shape[1]
    outs: list[Array] = []
    jobs: list[int] = []
    addresses: list[int] = []
    smalls: list[NDArray[Any]] = []
    for terms in sides:
        out = terms[0][0].new_empty(terms[0][0].shape)
        outs.append(out)
        jobs += out.data_ptr(), out.shape[0], len(addresses), len(addresses) + len(terms)
        for A, S in terms:
            addresses.append(place[id(A)])
            smalls.append(S * _identity(rank) if type(S) is float else S)
    numbers = np.concatenate(smalls).astype(np.float64, copy=False).reshape(-1).view(np.int64)
    table = np.concatenate([jobs + addresses, numbers])
    layout = kernels.gpu_tall.summing(rank, first.element_size())
    grid = -(-max(jobs[1::4]) // layout["ROWS"]), len(sides)
    arguments = desk(first).send(table), len(jobs), len(jobs) + len(addresses)
    kernels.gpu_launch.launch(kernels.gpu_tall.sums, grid, arguments, layout)
    return outs


@functools.cache
def _identity(rank: int) -> NDArray[np.float64]:
    return np.eye(rank)
