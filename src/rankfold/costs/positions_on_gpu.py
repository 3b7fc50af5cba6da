"""Costs on a GPU whose gradient is a sparse matrix with numbers that tensors are made for: what they share.

Numbers stand in the order in which positions were given; two sorts of these serve products from both sides.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.features_on_gpu import given_back, tensors_of_one_type
from rankfold.costs.start import downhill_start
from rankfold.entries.arrays import check_factors
from rankfold.entries.devices import gpu_store
from rankfold.entries.gpu import GpuSparseMatrix

Tensor = Any


class Positions:
    """Positions of a matrix, which may come more than once, as tensors on a device."""

    def __init__(self, rows: NDArray[Any], cols: NDArray[Any], shape: tuple[int, int], device: Any):
        numbers = np.arange(len(rows), dtype=np.float64)  # as values, which are sorted with the positions
        self.store = gpu_store(device).from_triples(rows, cols, numbers, shape, None, "keep", device)
        self.by_row, self.by_column = (
            side.value.long() for side in (self.store.by_row, self.store.by_column)
        )
        self._empty = replace(self.store.by_row, value=torch.zeros_like(self.store.by_row.value))
        # slope = 2 (w − 0), times a half; the first number is no parameter of the square loss
        self._halved = torch.tensor([0.0, 0.5], dtype=torch.float64, device=self.device)

    @property
    def device(self) -> Any:
        """Where they are."""
        return self.by_row.device

    def entries(self, L: Tensor, R: Tensor) -> Tensor:
        """Return the entries of L Rᵀ at the positions, in double precision."""
        found = L.new_empty(self.store.size)
        options = {"LOSS": 0, "WEIGHTED": False}
        self._empty.passed(kernels.gpu.slopes, (L, R), found, self._halved, **options)
        out = torch.empty(self.store.size, dtype=torch.float64, device=self.device)
        out[self.by_row] = found.double()
        return out

    def matrix(self, numbers: Tensor, kind: Any) -> GpuSparseMatrix:
        """Return the matrix with these numbers at the positions."""
        return GpuSparseMatrix(self.store, (numbers[self.by_row].to(kind), numbers[self.by_column].to(kind)))


class AtPositions(Cost):
    """A cost of the entries of L Rᵀ at positions, given by what it makes of them and of their change."""

    def __init__(self, positions: Positions, nonnegative: bool):
        self.positions, self.shape, self.device = positions, positions.store.shape, positions.device
        self.nonnegative = nonnegative

    @abstractmethod
    def slopes(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the value, and its derivative in each of the entries."""

    @abstractmethod
    def changes(self, entries: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives, and their change as the entries change."""

    def as_factor(self, numbers: Array) -> Tensor:
        """Return a factor as a tensor on the device."""
        return tensors_of_one_type(self.device, numbers)[0]

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        A, B = self._tensors((L,), (R,))
        value, slopes = self.slopes(self.positions.entries(A, B))
        S = self.positions.matrix(slopes, A.dtype)
        return Evaluation(float(value), given_back(L, S @ B), given_back(L, S.transposed_times(A)))

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        return float(self.slopes(self.positions.entries(*self._tensors((L,), (R,))))[0])

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        A, dA, B, dB = self._tensors((L, dL), (R, dR))
        entries = self.positions.entries
        slopes, change = self.changes(entries(A, B), entries(dA, B) + entries(A, dB))
        S, dS = (self.positions.matrix(numbers, A.dtype) for numbers in (slopes, change))
        df_L, df_R = dS @ B + S @ dB, dS.transposed_times(A) + S.transposed_times(dA)
        return given_back(L, df_L), given_back(L, df_R)

    def start(self, rank: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return one step down the gradient at W = 0, as a rank-r singular value decomposition."""
        return downhill_start(self, rank, seed)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        size = self.positions.store.size
        return float(self.slopes(torch.zeros(size, dtype=torch.float64, device=self.device))[0])

    def _tensors(self, Ls: tuple[Array, ...], Rs: tuple[Array, ...]) -> list[Tensor]:
        check_factors(self.shape, Ls, Rs)
        return tensors_of_one_type(self.device, *Ls, *Rs)
