"""How threads share out chunks of work: by numbers that they all may change, each in one step.

Those numbers are the `progress` of a pass: chunks taken, chunks done, how often waiting threads have looked
at that, how often is too often, and whether a thread has left because of it (see `rankfold.kernels.pool`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

I64 = ir.IntType(64)
TAKEN, DONE, LOOKS, PATIENCE, LEFT = range(5)  # places in `progress`


def new_progress(patience: int) -> NDArray[np.int64]:
    """Progress of a pass that has not begun, whose threads may look so often while they wait."""
    progress = np.zeros(5, np.int64)
    progress[PATIENCE] = patience
    return progress


def _place(context: Any, builder: Any, signature: Any, args: Any, k: int) -> Any:
    """Address of progress[k]."""
    array = cgutils.create_struct_proxy(signature.args[0])(context, builder, args[0])
    return builder.gep(array.data, [I64(k)])


@intrinsic(prefer_literal=True)
def _add(typing: Any, progress: Any, k: Any, amount: Any) -> Any:
    """Add to progress[k], and return what it was."""
    at = k.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(context, builder, signature, args, at), args[2], "seq_cst")

    return types.int64(progress, k, types.int64), codegen


@intrinsic(prefer_literal=True)
def _look(typing: Any, progress: Any, k: Any) -> Any:
    """Return progress[k] as it is now."""
    at = k.literal_value

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, signature, args, at), "seq_cst", 8)

    return types.int64(progress, k), codegen


@intrinsic
def _take(typing: Any, progress: Any, k: Any) -> Any:
    """Take chunk k, if so many are taken still; return whether."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = _place(context, builder, signature, args, TAKEN)
        outcome = builder.cmpxchg(place, args[1], builder.add(args[1], I64(1)), "seq_cst")
        return builder.extract_value(outcome, 1)

    return types.boolean(progress, types.int64), codegen


@register_jitable
def take_next(progress: Any) -> Any:
    """Return how many chunks were taken before, and take one more."""
    return _add(progress, TAKEN, 1)


@register_jitable
def chunks(progress: Any, count: int) -> Any:
    """Take the chunks 0 to `count` - 1, one by one, until none is left."""
    c = take_next(progress)
    while c < count:
        yield c
        c = take_next(progress)


@register_jitable
def chunks_in_order(progress: Any, bounds: Any) -> Any:
    """Take chunks as (stripe, chunk, first), each once all stripes before its own are done.

    The lines of the stripe begin at `first` in `indptr`.

    Stripes add to the same lines, so each waits for those before it: in the kernel, for the others are at
    their last chunks by then, and waking a thread would take longer than these. Long waits mean that there
    are more threads than processors, and that the thread waited for has none: then this one makes room for
    it, and leaves.
    """
    stripes, count = bounds.shape[0], bounds.shape[1] - 1
    lines = bounds[0, count]
    looks = 0
    while True:
        k = _look(progress, TAKEN)
        stripe = k // count
        if stripe >= stripes:
            break
        if _look(progress, DONE) >= stripe * count:
            if _take(progress, k):
                if looks:
                    _add(progress, LOOKS, looks)
                    looks = 0
                yield np.uint64(stripe), np.uint64(k - stripe * count), np.uint64(stripe) * lines
                _add(progress, DONE, 1)
        else:
            looks += 1
            if looks + _look(progress, LOOKS) > progress[PATIENCE]:
                progress[LEFT] = 1
                break
