"""Compiling kernels, and finding them again on disk as long as nothing that they are made of has changed."""

from __future__ import annotations

import functools
import sys
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit
from numba.core import config
from numba.extending import register_jitable


def fingerprint(folder: Path) -> str:
    """Return eight digits that change with the name or the text of any Python file of a folder."""
    sources = (path.name.encode() + b"\0" + path.read_bytes() for path in sorted(folder.glob("*.py")))
    return f"{zlib.crc32(b''.join(sources)):08x}"


# numba's cache looks at the file that a kernel stands in, not at those of what it calls: so the name on disk
# is made to change with all files of this folder; and with NUMBA_BOUNDSCHECK, which that cache ignores too.
SOURCES = fingerprint(Path(__file__).parent) + ("-checked" if config.BOUNDSCHECK else "")


def compiled(kernel: Callable[..., Any], cache: bool = True) -> Any:
    """Return the kernel as machine code that runs without the GIL, kept on disk if that is possible."""
    kernel.__qualname__ += f"-{SOURCES}"
    try:
        return _machine_code(kernel, cache=cache)
    except RuntimeError:  # neither the folder of the package nor the user's one for caches can be written to
        if not cache:
            raise
        _warn_once()
        return _machine_code(kernel)


def called(function: Callable[..., Any], *numbers: int | None) -> Any:
    """Return a nested function that kernels call, held by its module under a name made of these numbers.

    numba's cache knows a kernel by what it closes over, pickled. A function that its module holds is pickled
    as its name; another as its code and all that it calls, where numba's intrinsics have a new number in each
    process, and no kernel would be found on disk again. The numbers are to tell it from all others there.
    """
    name = "_".join(map(str, (function.__qualname__.partition(".")[0], *numbers)))
    function.__name__ = function.__qualname__ = name
    setattr(sys.modules[function.__module__], name, function)
    return register_jitable(function)


# No C calls a kernel: the entrance that numba would make for it takes a tenth of the time to compile.
_machine_code = functools.partial(njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True)


@functools.cache
def _warn_once() -> None:
    warnings.warn(
        "compiled kernels cannot be kept on disk, so that every process compiles them anew: "
        "set NUMBA_CACHE_DIR to a folder that can be written to",
        UserWarning,
        stacklevel=3,
    )
