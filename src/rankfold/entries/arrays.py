"""Factors in and out of NumPy: any array library on the CPU, without a copy where possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from rankfold.entries.given_arrays import unmasked
from rankfold.linalg import on_gpu


def to_numpy(*arrays: Any) -> list[NDArray[Any]]:
    """Return the same numbers as contiguous NumPy arrays of one real floating dtype, float32 or float64."""
    if all(
        type(A) is np.ndarray and A.dtype == np.float64 and A.flags.c_contiguous and A.flags.aligned
        for A in arrays
    ):
        return list(arrays)
    views = [_view(array) for array in arrays]
    dtypes = [view.dtype.newbyteorder("=") for view in views]
    real = all(dtype.kind in "fiub" for dtype in dtypes)
    dtype = np.result_type(*dtypes) if real else np.dtype(object)
    if real and dtype not in (np.float32, np.float64):
        dtype = np.result_type(dtype, np.float64)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"factors must be real, float32 or float64; got {', '.join(map(str, dtypes))}")
    return [np.require(view, dtype, ["C", "A"]) for view in views]


def near(*arrays: Any) -> list[Any]:
    """Return tensors on a GPU as they are, contiguous; others as `to_numpy` does."""
    return [A.contiguous() for A in arrays] if all(map(on_gpu.holds, arrays)) else to_numpy(*arrays)


def check_factors(shape: tuple[int, int], Ls: Sequence[Any], Rs: Sequence[Any]) -> None:
    """Raise ValueError unless all L and R are factors, of one rank, of matrices of this shape."""
    shapes = [np.shape(factor) for factor in (*Ls, *Rs)]
    rank = shapes[0][-1] if len(shapes[0]) == 2 else 0
    if rank and shapes == [(shape[0], rank)] * len(Ls) + [(shape[1], rank)] * len(Rs):
        return
    for k, found in enumerate(shapes):
        name, size = ("L", shape[0]) if k < len(Ls) else ("R", shape[1])
        if found != (size, rank) or rank < 1:
            raise ValueError(
                f"{name} must have shape ({size}, r) with one r >= 1 for all factors of a "
                f"{shape[0]}x{shape[1]} matrix; got {', '.join(str(tuple(each)) for each in shapes)}"
            )


def checked_factors(shape: tuple[int, int], Ls: Sequence[Any], Rs: Sequence[Any]) -> list[NDArray[Any]]:
    """Return all L, then all R, as NumPy arrays of one floating type, checked against the shape of W."""
    check_factors(shape, Ls, Rs)
    return to_numpy(*Ls, *Rs)


def _view(array: Any) -> NDArray[Any]:
    if array_api_compat.is_torch_array(array):
        if array.device.type != "cpu":
            place = array.device
            raise TypeError(f"these kernels run on the CPU; got a tensor on {place}: call .cpu() first")
        array = array.detach()
    return np.asarray(unmasked("factor", array))


def like(example: Any, result: Any) -> Any:
    """Return the result, NumPy's or a tensor on a GPU already, as an array of the library of `example`."""
    if type(example) is type(result):
        return result
    if on_gpu.holds(result) and not array_api_compat.is_torch_array(example):
        result = result.cpu().numpy()
    if isinstance(example, np.ndarray) or not array_api_compat.is_array_api_obj(example):
        return result
    return array_api_compat.array_namespace(example).asarray(result)
