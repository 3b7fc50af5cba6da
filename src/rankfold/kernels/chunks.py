"""How threads share out chunks of work: by numbers that they all may change, each in one step.

Those numbers are the `progress` of a pass: chunks taken, whether a thread has left because it waited too
long, how long is too long, and of each chunk of lines how many stripes of it are done (see
`rankfold.kernels.pool`). Numbers that several threads write lie a cache line apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

APART = 8  # numbers from one place in `progress` to the next: a cache line
TAKEN, LEFT, PATIENCE, DONE = (
    place * APART for place in range(4)
)  # places in `progress`; DONE is the first of many


def new_progress(patience: int, chunks: int) -> NDArray[np.int64]:
    """Progress of a pass that has not begun, whose threads may each look so often while they wait."""
    progress = np.zeros(DONE + APART * chunks, np.int64)
    progress[PATIENCE] = patience
    return progress


# What loops over chunks gets the address of `progress`, and sizes: numba never gives back an array that a
# generator was called with, and each pass would leave the arrays of a part of the entries behind.


def _place(context: Any, builder: Any, args: Any) -> Any:
    """Where progress[k] is, given the address of progress and k."""
    number = context.get_value_type(types.int64)
    return builder.gep(builder.inttoptr(args[0], number.as_pointer()), [args[1]])


@intrinsic
def _add(typing: Any, address: Any, k: Any, amount: Any) -> Any:
    """Add to progress[k], and return what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(context, builder, args), args[2], "seq_cst")

    return types.int64(types.uintp, types.int64, types.int64), codegen


@intrinsic
def _look(typing: Any, address: Any, k: Any) -> Any:
    """Return progress[k] as it is now."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, args), "seq_cst", 8)

    return types.int64(types.uintp, types.int64), codegen


@intrinsic
def _set(typing: Any, address: Any, k: Any, old: Any, new: Any) -> Any:
    """Make progress[k] the new number, if it is the old one still; return whether."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        outcome = builder.cmpxchg(_place(context, builder, args), args[2], args[3], "seq_cst")
        return builder.extract_value(outcome, 1)

    return types.boolean(types.uintp, types.int64, types.int64, types.int64), codegen


@register_jitable
def take_next(progress: Any) -> Any:
    """Return how many chunks were taken before, and take one more."""
    return _add(progress.ctypes.data, TAKEN, 1)


@register_jitable(inline="always")
def chunks(progress: Any, count: int) -> Any:
    """Take the chunks 0 to `count` - 1, one by one, until none is left."""
    return _chunks(progress.ctypes.data, count)


@register_jitable
def _chunks(address: Any, count: int) -> Any:
    c = _add(address, TAKEN, 1)
    while c < count:
        yield c
        c = _add(address, TAKEN, 1)


@register_jitable(inline="always")
def chunks_in_order(progress: Any, bounds: Any, indptr: Any) -> Any:
    """Take chunks as (stripe, chunk, first), stripe after stripe.

    The lines of the stripe begin at `first` in `indptr`.

    Stripes add to the same lines, so a chunk waits for the same lines in the stripe before, and for nothing
    else: they were taken long ago, unless chunks are as few as threads. Long waits mean that there are more
    threads than processors, and that the thread waited for has none: then this one makes room for it, and
    leaves.
    """
    return _in_order(progress.ctypes.data, bounds.size - 1, bounds[-1], indptr.size - 1)


@register_jitable
def _in_order(address: Any, count: int, lines: Any, starts: Any) -> Any:
    stripes = starts // max(np.int64(lines), 1)
    looks = 0
    while True:
        k = _look(address, TAKEN)
        stripe = k // count
        if stripe >= stripes:
            break
        c = k - stripe * count
        if _look(address, DONE + APART * c) == stripe:
            if _set(address, TAKEN, k, k + 1):
                yield np.uint64(stripe), np.uint64(c), np.uint64(stripe) * lines
                _add(address, DONE + APART * c, 1)
        else:
            looks += 1
            if looks > _look(address, PATIENCE):
                _add(address, LEFT, 1)
                break
