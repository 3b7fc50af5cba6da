"""What is wrong with triples that go to a GPU: argument, position and remedy, found on the device."""

from __future__ import annotations

from typing import Any

import array_api_compat
import numpy as np
import torch

Tensor = Any


def checked_tensors(
    rows: Any, cols: Any, values: Any, weights: Any, shape: tuple[int, int], place: Any
) -> tuple[Tensor, ...]:
    """Triples as tensors on the device, refused by name if they are no entries of the matrix.

    Without a place they are looked at as they are, and where.
    """
    if max(shape) > 2**31 - 1:
        raise ValueError(f"on a GPU a side has at most {2**31 - 1} lines; shape is {shape}")
    given = {"rows": rows, "cols": cols, "values": values, "weights": weights}
    tensors = {name: _tensor(name, array, place) for name, array in given.items() if array is not None}
    lengths = {name: tensor.shape[0] for name, tensor in tensors.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            "rows, cols and values must have one length: "
            + ", ".join(f"{n} has {k}" for n, k in lengths.items())
        )
    if not lengths["values"]:
        raise ValueError("values is empty: give at least one observed entry")
    for name, size in zip(("rows", "cols"), shape, strict=True):
        refuse_outside(name, tensors[name], size)
    _refuse(
        "values",
        tensors["values"],
        ~torch.isfinite(tensors["values"]),
        "all must be finite: leave unknown entries out",
    )
    weight = tensors.get("weights")
    if weight is not None:
        _refuse(
            "weights",
            weight,
            ~(torch.isfinite(weight) & (weight >= 0)),
            "weights must be finite and zero or more",
        )
        weight = weight if place is None else weight.to(tensors["values"].dtype)
    return tensors["rows"], tensors["cols"], tensors["values"], weight


def tensor_of(array: Any) -> Tensor:
    """An array of any library as a tensor: in its memory, where that is the CPU's and may be written to."""
    if array_api_compat.is_torch_array(array):
        return array.detach()
    return torch.as_tensor(np.require(np.asarray(array), requirements=["W"]))


def _tensor(name: str, array: Any, place: Any) -> Tensor:
    tensor = tensor_of(array)
    if tensor.dim() != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {tuple(tensor.shape)}")
    if name in ("rows", "cols"):
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"{name} must be integers; got {tensor.dtype} (map labels to 0, 1, ... first)")
        kind = torch.int64
        if place is None and tensor.dtype not in (torch.int32, torch.int64):
            # torch wraps numbers that narrower types do not have: 300 is 44 beside bytes
            return tensor.to(torch.int32 if tensor.dtype.itemsize < 4 else torch.int64)
    elif tensor.is_complex():
        raise TypeError(f"{name} must be real numbers; got {tensor.dtype}")
    else:
        kind = torch.float32 if tensor.dtype == torch.float32 else torch.float64
    return tensor if place is None else tensor.to(place, kind, copy=True)


class RepeatedEntryError(ValueError):
    """An entry that is given more than once: which, and at which places first."""

    def __init__(self, i: int, j: int, places: tuple[int, int]) -> None:
        self.entry, self.places = (i, j), places
        super().__init__(
            f"entry ({i}, {j}) is given more than once, at positions {places[0]} and {places[1]} of rows "
            "and cols: merge repeated entries, or pass duplicates='keep' to count each as an observation "
            "of its own"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self.entry, self.places)  # so that it comes whole out of another process


def refuse_outside(name: str, places: Tensor, size: int) -> None:
    """Raise ValueError if there are places beyond a side of so many lines."""
    outside = (places < 0) | (places >= size)
    _refuse(name, places, outside, f"out of range: must be from 0 to {size - 1} for this shape")


def refuse_other_rows(X: Any, rows: int) -> None:
    """Raise ValueError unless X is a block of so many rows."""
    if X.ndim != 2 or X.shape[0] != rows:
        raise ValueError(f"a block of {rows} rows is needed; got shape {tuple(X.shape)}")


def _refuse(name: str, tensor: Tensor, wrong: Tensor, why: str) -> None:
    if bool(wrong.any()):
        at = int(wrong.to(torch.uint8).argmax())
        raise ValueError(f"{name}[{at}] is {tensor[at].item()}; {why}")
