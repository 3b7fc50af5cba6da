"""How threads share out chunks of work: by two numbers that they all may change, each in one step.

`progress[0]` counts the chunks taken, `progress[1]` those that are done (see `rankfold.kernels.pool`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable

I64 = ir.IntType(64)


def _place(context: Any, builder: Any, signature: Any, args: Any, k: int) -> Any:
    """Address of progress[k]."""
    array = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [I64(k)])


@intrinsic
def take_next(typing: Any, progress: Any) -> Any:
    """Return how many chunks were taken before, and take one more."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(context, builder, signature, args, 0), I64(1), "seq_cst")

    return types.int64(progress), codegen


@intrinsic
def finish(typing: Any, progress: Any) -> Any:
    """Tell the others that one more chunk is done."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(context, builder, signature, args, 1), I64(1), "seq_cst")

    return types.int64(progress), codegen


@intrinsic
def _done(typing: Any, progress: Any) -> Any:
    """Return how many chunks are done."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature, args, 1), "seq_cst", 8)

    return types.int64(progress), codegen


@register_jitable
def next_chunk(progress: Any, bounds: Any) -> Any:
    """Return (stripe, chunk) to work on, once all stripes before are done; a stripe too many at the end.

    Stripes add to the same lines, so each waits for those before it: in the kernel, for the others are at
    their last chunks by then, and waking a thread would take longer than these.
    """
    chunks = bounds.shape[1] - 1
    k = take_next(progress)
    stripe = k // chunks
    while stripe < bounds.shape[0] and _done(progress) < stripe * chunks:
        pass
    return np.uint64(stripe), np.uint64(k - stripe * chunks)
