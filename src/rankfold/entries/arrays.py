"""Arrays in and out of NumPy: any array library on the CPU, without a copy where possible."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray


def to_numpy(*arrays: Any) -> list[NDArray[Any]]:
    """Return the same numbers as contiguous NumPy arrays of one real floating dtype, float32 or float64."""
    views = [_view(array) for array in arrays]
    dtype = np.result_type(*views)
    if dtype not in (np.float32, np.float64):
        dtype = np.result_type(dtype, np.float64)
    if dtype not in (np.float32, np.float64):
        found = ", ".join(str(view.dtype) for view in views)
        raise TypeError(f"factors must be real, float32 or float64; got {found}")
    return [np.ascontiguousarray(view, dtype=dtype) for view in views]


def _view(array: Any) -> NDArray[Any]:
    if array_api_compat.is_torch_array(array):
        if array.device.type != "cpu":
            place = array.device
            raise TypeError(f"these kernels run on the CPU; got a tensor on {place}: call .cpu() first")
        array = array.detach()
    return np.asarray(array)


def like(example: Any, result: NDArray[Any]) -> Any:
    """Return the result as an array of the library of `example`."""
    if isinstance(example, np.ndarray):
        return result
    return array_api_compat.array_namespace(example).asarray(result)
