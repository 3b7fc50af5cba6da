"""Completion of W plus offsets of rows and columns that are given, for any loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from rankfold.costs.arrays import like
from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.completion import Completion


def with_offsets(A: Any, B: Any, rows: Any, cols: Any, constant: float = 1.0) -> tuple[Any, Any]:
    """[A, rows, 1] and [B, 1, cols], whose product has the offsets added; `constant` in place of 1."""
    left = np.column_stack([A, rows, np.full(len(A), constant)])
    right = np.column_stack([B, np.full(len(B), constant), cols])
    return left.astype(A.dtype, copy=False), right.astype(A.dtype, copy=False)


def without_offsets(example: Array, f_L: Any, f_R: Any) -> list[Array]:
    """Drop the columns of the offsets."""
    return like(example, *(np.ascontiguousarray(f[:, :-2]) for f in (f_L, f_R)))


class Shifted(Cost):
    """f(W) = `cost` at W_ij + rows[i] + cols[j].

    Parameters
    ----------
    cost
        A completion cost, with any loss.
    rows, cols
        The offsets, one for each row and one for each column.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> plain = rf.Completion([0, 1], [0, 1], [1.0, 0.0], (2, 2), loss="logistic")
    >>> cost = Shifted(plain, [100.0, -100.0], [0.0, 0.0])
    >>> cost.value(np.zeros((2, 1)), np.zeros((2, 1))) < 1e-40
    True
    """

    def __init__(self, cost: Completion, rows: ArrayLike, cols: ArrayLike):
        self.completion, self.shape = cost, cost.shape
        self.rows, self.cols = (np.asarray(offsets, dtype=np.float64) for offsets in (rows, cols))
        if (self.rows.shape, self.cols.shape) != tuple((d,) for d in cost.shape):
            raise ValueError(
                f"rows and cols must have one offset for each of {cost.shape[0]} rows and {cost.shape[1]} "
                f"columns; got shapes {self.rows.shape} and {self.cols.shape}"
            )
        self.nonnegative = cost.nonnegative

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        A, B = self.completion._factors((L,), (R,))
        value, f_L, f_R = self.completion.evaluate(*with_offsets(A, B, self.rows, self.cols))
        return Evaluation(value, *without_offsets(L, f_L, f_R))

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        A, B = self.completion._factors((L,), (R,))
        return self.completion.value(*with_offsets(A, B, self.rows, self.cols))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        A, dA, B, dB = self.completion._factors((L, dL), (R, dR))
        here = with_offsets(A, B, self.rows, self.cols)
        moving = with_offsets(dA, dB, np.zeros_like(self.rows), np.zeros_like(self.cols), 0.0)
        df_L, df_R = without_offsets(L, *self.completion.derivative(*here, *moving))
        return df_L, df_R

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start point of the completion cost without the offsets."""
        return self.completion.start(rank, seed)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        return self.value(*(np.zeros((d, 1)) for d in self.shape))
