"""How kernels for a GPU are started: what Triton finds out about a call is kept for the next of its kind."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

_MOST = 4096  # kinds of calls that are kept
_ready: dict[tuple[Any, ...], Callable[..., None]] = {}


class Kept:
    """Tensors that stay where they are, and that many launches begin with: looked at once."""

    __slots__ = ("addresses", "bits", "tensors", "types")

    def __init__(self, *tensors: Any) -> None:
        self.tensors = tensors
        self.addresses = tuple([tensor.data_ptr() for tensor in tensors])
        self.types = tuple([tensor.dtype for tensor in tensors])
        self.bits = functools.reduce(operator.or_, self.addresses)

    def __reduce__(self) -> tuple[type[Kept], tuple[Any, ...]]:
        return Kept, self.tensors  # copies lie elsewhere


def launch(
    kernel: Any,
    grid: tuple[int, ...],
    tensors: Sequence[Any],
    numbers: Sequence[int],
    options: dict[str, Any],
    *first: Kept,
) -> None:
    """Run `kernel[grid](*first, *tensors, *numbers, **options)`.

    Triton compiles for types, for addresses that are multiples of 16, and for constants. To look at all that
    again takes it 15 µs a call, as long as a small pass. Kernels say of whole numbers, which are below 2³¹,
    that nothing is compiled for their values (`do_not_specialize`).
    """
    addresses = [tensor.data_ptr() for tensor in tensors]
    types = [tensor.dtype for tensor in tensors]
    bits = functools.reduce(operator.or_, addresses)
    for kept in reversed(first):
        addresses = [*kept.addresses, *addresses]
        types.append(kept.types)
        bits |= kept.bits
    device = tensors[0].get_device()
    key = id(kernel), device, grid, *options.values(), *types
    if bits % 16 == 0 and (run := _ready.get(key)) is not None:
        run(*addresses, *numbers)
        return
    arguments = *(tensor for kept in first for tensor in kept.tensors), *tensors, *numbers
    compiled = kernel[grid](*arguments, **options)
    if compiled is not None and bits % 16 == 0:  # the interpreter compiles nothing
        if len(_ready) >= _MOST:
            _ready.clear()
        constants = tuple(options[name] for name in kernel.arg_names[len(arguments) :])
        _ready[key] = _handle(compiled, (*grid, 1, 1)[:3], constants, device)


def _handle(compiled: Any, grid: tuple[int, ...], constants: tuple[Any, ...], device: int) -> Any:
    """Return what runs a compiled kernel on addresses and numbers, on the stream of the moment.

    It is what `compiled[grid]` does, less its looks for hooks of profilers.
    """
    from triton.runtime import driver

    run, function, metadata = compiled.run, compiled.function, compiled.packed_metadata
    stream = driver.active.get_current_stream

    def handle(*plain: Any) -> None:
        run(*grid, stream(device), function, metadata, None, None, None, *plain, *constants)

    return handle
