"""How kernels for a GPU are started: what Triton finds out about a call is kept for the next of its kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_MOST = 4096  # kinds of calls that are kept
_ready: dict[tuple[Any, ...], tuple[Any, tuple[Any, ...]]] = {}


def launch(kernel: Any, grid: tuple[int, ...], arguments: Sequence[Any], options: dict[str, Any]) -> None:
    """Run `kernel[grid](*arguments, **options)`, for tensors and whole numbers, the first a tensor.

    Triton compiles for types, for addresses that are multiples of 16, and for constants. To look at all that
    again takes it 15 µs a call, as long as a small pass. Kernels say of whole numbers, which are below 2³¹,
    that nothing is compiled for their values (`do_not_specialize`).
    """
    kind: list[Any] = [id(kernel), arguments[0].get_device(), grid, *options.values()]
    plain = []
    for argument in arguments:
        if type(argument) is int:
            plain.append(argument)
        else:
            address = argument.data_ptr()
            plain.append(address)
            kind += argument.dtype, address % 16 == 0
    key = tuple(kind)
    if (found := _ready.get(key)) is not None:
        run, constants = found
        run(*plain, *constants)
        return
    compiled = kernel[grid](*arguments, **options)
    if compiled is None:  # the interpreter, which compiles nothing
        return
    if len(_ready) >= _MOST:
        _ready.clear()
    constants = tuple(options[name] for name in kernel.arg_names[len(arguments) :])
    _ready[key] = compiled[(*grid, 1, 1)[:3]], constants
