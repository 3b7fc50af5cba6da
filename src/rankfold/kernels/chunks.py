"""How threads share out chunks of work: by numbers that they all may change, each in one step.

Those numbers are the `progress` of a pass: chunks taken, whether a thread has left because it waited too
long, how long is too long, and of each chunk of lines how many stripes of it are done (see
`rankfold.kernels.pool`). Numbers that several threads write lie a cache line apart.

A kernel that is asked to (`ASKED`) takes no chunks: it leaves its arguments in `progress`, and the address of
a function that calls it with these, for threads that have no Python (`rankfold.kernels.team`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_jitable
from numpy.typing import NDArray

APART = 8  # numbers from one place in `progress` to the next: a cache line
# Places in `progress`; KEPT and DONE are the first of many.
TAKEN, LEFT, PATIENCE, ASKED, KEPT = (place * APART for place in range(5))
_ROOM = 256  # numbers, for the arguments of a kernel
DONE = KEPT + _ROOM


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
def add(typing: Any, address: Any, k: Any, amount: Any) -> Any:
    """Add to progress[k], and return what it was."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", _place(context, builder, args), args[2], "seq_cst")

    return types.int64(types.uintp, types.int64, types.int64), codegen


@intrinsic
def look(typing: Any, address: Any, k: Any) -> Any:
    """Return progress[k] as it is now."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(_place(context, builder, args), "seq_cst", 8)

    return types.int64(types.uintp, types.int64), codegen


@intrinsic
def change(typing: Any, address: Any, k: Any, old: Any, new: Any) -> Any:
    """Make progress[k] the new number, if it is the old one still; return whether."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        outcome = builder.cmpxchg(_place(context, builder, args), args[2], args[3], "seq_cst")
        return builder.extract_value(outcome, 1)

    return types.boolean(types.uintp, types.int64, types.int64, types.int64), codegen


@intrinsic
def _offered(typing: Any, progress: Any) -> Any:
    """Whether this kernel, into which the call is inlined, was asked for itself; if so, it is there now."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        numbers = cgutils.create_struct_proxy(progress)(context, builder, args[0]).data
        where = builder.gep(numbers, [ir.Constant(ir.IntType(64), ASKED)])
        asked = builder.icmp_signed("!=", builder.load(where), ir.Constant(ir.IntType(64), 0))
        given = builder.function.args[2:]  # after the places of the result and of an error
        kept = ir.LiteralStructType([argument.type for argument in given])
        if context.get_abi_sizeof(kept) > 8 * _ROOM:
            raise NotImplementedError("a kernel with so many arguments")
        with builder.if_then(asked):
            room = builder.gep(numbers, [ir.Constant(ir.IntType(64), KEPT)])
            for argument, place in zip(given, _members(builder, room, kept), strict=True):
                builder.store(_borrowed(argument), place)
            builder.store(builder.ptrtoint(_caller(builder, kept), ir.IntType(64)), where)
        return asked

    return types.boolean(progress), codegen


def _borrowed(argument: Any) -> Any:
    """What is kept of an argument: all but numba's count of references to an array, which ends with the call.

    It is the first member of an array, and the only first one that is the address of a byte; for none, numba
    counts nothing.
    """
    counts = argument.type == ir.IntType(8).as_pointer() and argument.name.endswith(".0")
    return ir.Constant(argument.type, None) if counts else argument


def _members(builder: Any, room: Any, kept: Any) -> list[Any]:
    """Where each argument is kept."""
    start, zero = builder.bitcast(room, kept.as_pointer()), ir.Constant(ir.IntType(32), 0)
    return [builder.gep(start, [zero, ir.Constant(ir.IntType(32), k)]) for k in range(len(kept.elements))]


def _caller(builder: Any, kept: Any) -> Any:
    """A function of the address of kept arguments, which calls with them the one that is being built."""
    kernel, byte = builder.function, ir.IntType(8).as_pointer()
    name = builder.module.get_unique_name(f"{kernel.name}.kept")
    function = ir.Function(builder.module, ir.FunctionType(ir.IntType(32), [byte]), name)
    function.linkage = "internal"
    own = ir.IRBuilder(function.append_basic_block())
    slots = [cgutils.alloca_once_value(own, ir.Constant(a.type.pointee, None)) for a in kernel.args[:2]]
    given = [own.load(place) for place in _members(own, function.args[0], kept)]
    own.ret(own.call(kernel, [*slots, *given]))
    return function


@register_jitable(inline="always")
def chunks(progress: Any, count: int) -> Any:
    """Take the chunks 0 to `count` - 1, one by one, until none is left."""
    return _chunks(progress.ctypes.data, 0 if _offered(progress) else count)


@register_jitable
def _chunks(address: Any, count: int) -> Any:
    c = add(address, TAKEN, 1) if count else 0
    while c < count:
        yield c
        c = add(address, TAKEN, 1)


@register_jitable(inline="always")
def chunks_in_order(progress: Any, bounds: Any, indptr: Any) -> Any:
    """Take chunks as (stripe, chunk, first), stripe after stripe.

    The lines of the stripe begin at `first` in `indptr`.

    Stripes add to the same lines, so a chunk waits for the same lines in the stripe before, and for nothing
    else: they were taken long ago, unless chunks are as few as threads. Long waits mean that there are more
    threads than processors, and that the thread waited for has none: then this one makes room for it, and
    leaves.
    """
    starts = 0 if _offered(progress) else indptr.size - 1
    return _in_order(progress.ctypes.data, bounds.size - 1, bounds[-1], starts)


@register_jitable
def _in_order(address: Any, count: int, lines: Any, starts: Any) -> Any:
    stripes = starts // max(np.int64(lines), 1)
    looks = 0
    while True:
        k = look(address, TAKEN)
        stripe = k // count
        if stripe >= stripes:
            break
        c = k - stripe * count
        if look(address, DONE + APART * c) == stripe:
            if change(address, TAKEN, k, k + 1):
                yield np.uint64(stripe), np.uint64(c), np.uint64(stripe) * lines
                add(address, DONE + APART * c, 1)
        else:
            looks += 1
            if looks > look(address, PATIENCE):
                add(address, LEFT, 1)
                break
