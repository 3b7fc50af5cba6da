"""The shapes of factors: said once, for all costs that take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.arrays import to_numpy


def check_factors(shape: tuple[int, int], Ls: Sequence[Any], Rs: Sequence[Any]) -> None:
    """Raise ValueError unless all L and R are factors, of one rank, of matrices of this shape."""
    shapes = [np.shape(factor) for factor in (*Ls, *Rs)]
    rank = shapes[0][-1] if len(shapes[0]) == 2 else 0
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
