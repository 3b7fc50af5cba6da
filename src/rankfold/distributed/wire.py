"""Arrays as torch sends them, and a count of what was sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any  # NumPy's, or torch's


@dataclass
class Traffic:
    """What a process took part in: calls, and the bytes of arrays that were summed, gathered or sent.

    `large` calls are about all rows of a matrix, `small` ones about numbers that every process has.
    """

    small: int = 0
    large: int = 0
    bytes: int = 0

    def count(self, nbytes: int, large: bool) -> None:
        """Count one call."""
        self.large += large
        self.small += not large
        self.bytes += nbytes


def the_torch() -> Any:
    """Return torch, which not everybody has."""
    try:
        import torch
    except ImportError as missing:
        raise ImportError("several processes need torch: pip install 'rankfold[torch]'") from missing
    return torch


def dtype_of(array: Array) -> Any:
    """Return torch's name of the type of an array."""
    return getattr(the_torch(), str(array.dtype)) if type(array) is np.ndarray else array.dtype


def none_of(array: Array) -> Array:
    """Return an array of the same library and type with nothing in it, which does not hold the other one."""
    return np.empty(0, array.dtype) if type(array) is np.ndarray else array.new_empty(0)


def as_library_of(example: Array, tensor: Any) -> Array:
    """Return a tensor as an array of the library, the type and the place of `example`."""
    if type(example) is np.ndarray:
        return np.asarray(tensor.cpu().numpy(), dtype=example.dtype)
    return tensor.to(device=example.device, dtype=example.dtype)
