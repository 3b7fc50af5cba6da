"""Compiling kernels, and finding them again on disk as long as nothing that they are made of has changed."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_HELPERS = "chunks.py", "formulas.py", "registers.py", "sweeps.py"
# numba's cache looks at the file that a kernel stands in, not at those of what it calls: so the name on disk
# is made to change with these.
SOURCES = f"{zlib.crc32(b''.join(Path(__file__).with_name(name).read_bytes() for name in _HELPERS)):08x}"


def compiled(kernel: Callable[..., Any], cache: bool = True) -> Any:
    """Return the kernel as machine code that runs without the GIL."""
    kernel.__qualname__ += f"-{SOURCES}"
    return njit(kernel, nogil=True, error_model="numpy", cache=cache)
