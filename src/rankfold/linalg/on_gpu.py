"""The two primitives for tensors on a GPU: one launch and one transfer each, for any number of arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from numpy.typing import NDArray

from rankfold import kernels

Array = Any


def holds(A: Array) -> bool:
    """Whether an array is a tensor on a GPU, where Triton's kernels take it."""
    return bool(is_torch_array(A)) and A.device.type == "cuda"


def there(numbers: NDArray[Any], example: Array) -> Any:
    """Bring a few numbers to where `example` is, without a wait."""
    import torch

    return torch.from_numpy(numbers).to(example.device, non_blocking=True)


def fit(arrays: Collection[Array]) -> bool:
    """Whether the kernels take these arrays together: tensors on a GPU, narrow, of one width and type."""
    first = next(iter(arrays))
    if not holds(first) or first.shape[1] > kernels.gpu_tall.MOST_COLUMNS or not first.is_floating_point():
        return False
    kind, width, dtype = type(first), first.shape[1], first.dtype
    return all(
        type(A) is kind and A.shape[1] == width and A.dtype == dtype and A.is_contiguous() for A in arrays
    )


def grams(sides: Sequence[Sequence[tuple[Array, Array]]]) -> list[list[NDArray[Any]]]:
    """AᵀB for the pairs of each side."""
    import torch

    pairs = [pair for side in sides for pair in side]
    first, rank = pairs[0][0], pairs[0][0].shape[1]
    layout = kernels.gpu_tall.layout(rank)
    longest = max(side[0][0].shape[0] for side in sides)
    chunk = kernels.gpu_tall.chunk_of(longest, layout["ROWS"])
    place = {id(A): A.data_ptr() for pair in pairs for A in pair}
    jobs = [(place[id(A)], place[id(B)], len(side[0][0])) for side in sides for A, B in side]
    table = np.array(jobs, np.int64)
    shape = -(-longest // chunk), len(pairs), rank, rank
    parts = torch.empty(shape, dtype=torch.float64, device=first.device)
    kernels.gpu_tall.grams[shape[1::-1]](there(table, first), parts, chunk, **layout, FLOATS=_floats(first))
    found = parts.sum(0).cpu().numpy().astype(str(first.dtype)[6:], copy=False)
    products = iter(found)
    return [[next(products) for _ in side] for side in sides]


def sums(sides: Sequence[Sequence[tuple[Array, Any]]]) -> list[Array]:
    """Σ A_k S_k for the terms of each side; a number stands for a multiple of the identity."""
    import torch

    first, rank = sides[0][0][0], sides[0][0][0].shape[1]
    count = sum(map(len, sides))
    table = np.zeros(4 * len(sides) + count + count * rank * rank, np.int64)
    jobs, terms = table[: 4 * len(sides)].reshape(-1, 4), table[4 * len(sides) :][:count]
    small = table[4 * len(sides) + count :].view(np.float64).reshape(count, rank, rank)
    outs, term = [], 0
    for job, side in zip(jobs, sides, strict=True):
        outs.append(torch.empty_like(side[0][0]))
        job[:] = outs[-1].data_ptr(), outs[-1].shape[0], term, term + len(side)
        for A, S in side:
            terms[term] = A.data_ptr()
            if isinstance(S, float):
                small[term].flat[:: rank + 1] = S
            else:
                small[term] = S
            term += 1
    layout = kernels.gpu_tall.summing(rank)
    blocks = -(-max(out.shape[0] for out in outs) // layout["ROWS"])
    kernels.gpu_tall.sums[(blocks, len(sides))](
        there(table, first), 4 * len(sides), 4 * len(sides) + count, **layout, FLOATS=_floats(first)
    )
    return outs


def _floats(A: Array) -> Any:
    import triton.language as tl

    return tl.float32 if A.element_size() == 4 else tl.float64
