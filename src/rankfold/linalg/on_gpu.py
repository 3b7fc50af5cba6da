"""The two primitives for tensors on a GPU: one launch and one transfer each, for any number of arrays."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.linalg.exchange import Coming, desk

Array = Any


def holds(A: Array) -> bool:
    """Whether an array is a tensor on a GPU, where Triton's kernels take it."""
    return bool(is_torch_array(A)) and bool(A.is_cuda)


def taken(arrays: Collection[Array]) -> bool:
    """Whether kernels take arrays together: tensors on a GPU, narrow, contiguous, of one width and type."""
    first = next(iter(arrays))
    if not holds(first) or not first.is_floating_point():
        return False
    kind, width, dtype = type(first), first.shape[1], first.dtype
    if width > kernels.gpu_tall.MOST_COLUMNS:
        return False
    return all(
        type(A) is kind and A.shape[1] == width and A.dtype == dtype and A.is_contiguous() for A in arrays
    )


def grams(sides: Sequence[Sequence[tuple[Array, Array]]]) -> Coming:
    """Have AᵀB computed for the pairs of each side; they will come one after the other."""
    first = sides[0][0][0]
    rank = first.shape[1]
    layout = kernels.gpu_tall.layout(rank, first.element_size())
    table: list[int] = []
    longest = 0
    for pairs in sides:
        rows = pairs[0][0].shape[0]
        longest = max(longest, rows)
        for A, B in pairs:
            table += A.data_ptr(), B.data_ptr(), rows
    chunk = kernels.gpu_tall.chunk_of(longest, layout["ROWS"])
    jobs, chunks = len(table) // 3, -(-longest // chunk)
    home = desk(first)
    parts = home.scratch(jobs * rank * rank * chunks)
    tensors = parts, home.lend(np.array(table, np.int64))
    kernels.gpu_launch.launch(kernels.gpu_tall.grams, (jobs, chunks), tensors, (chunk,), layout)
    return home.summed(parts, jobs * rank * rank, chunks)


def sums(sides: Sequence[Sequence[tuple[Array, Any]]]) -> list[Array]:
    """Σ A_k S_k for the terms of each side; a number stands for a multiple of the identity."""
    first, rank = sides[0][0][0], sides[0][0][0].shape[1]
    outs: list[Array] = []
    jobs: list[int] = []
    places: list[int] = []
    ends = 4 * len(sides), 4 * len(sides) + sum(map(len, sides))
    table = np.empty(ends[1] + (ends[1] - ends[0]) * rank * rank, np.int64)
    smalls = table[ends[1] :].view(np.float64).reshape(-1, rank, rank)
    for terms in sides:
        outs.append(out := empty_like(terms[0][0]))
        jobs += out.data_ptr(), out.shape[0], len(places), len(places) + len(terms)
        for A, S in terms:
            if type(S) is float:
                np.multiply(_identity(rank), S, out=smalls[len(places)])
            else:
                smalls[len(places)] = S
            places.append(A.data_ptr())
    table[: ends[1]] = jobs + places
    layout = kernels.gpu_tall.summing(rank, first.element_size())
    grid = -(-max(jobs[1::4]) // layout["ROWS"]), len(sides)
    kernels.gpu_launch.launch(kernels.gpu_tall.sums, grid, (desk(first).send(table),), ends, layout)
    return outs


def empty_like(A: Array) -> Array:
    """Return room for a tensor like another one: in a third of the time of asking for a shape."""
    import torch

    return torch.empty_like(A)


def brought(numbers: NDArray[np.float64], example: Array) -> Array:
    """Return numbers as a tensor of their own where another one is."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(numbers)).to(example.device)


@functools.cache
def _identity(rank: int) -> NDArray[np.float64]:
    return np.eye(rank)
