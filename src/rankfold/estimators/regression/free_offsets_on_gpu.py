"""The best offset of each column for any built-in loss, on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from rankfold import kernels
from rankfold.costs.base import Array
from rankfold.costs.completion import Completion
from rankfold.costs.losses_on_gpu import built_in, losses
from rankfold.costs.offsets import at_hand_of
from rankfold.entries.gpu_side import GpuSide
from rankfold.estimators.completion.convex_lines import HALVINGS, HIDDEN, ROUNDS, least_curvature
from rankfold.estimators.regression.free_offsets import RIDGE, FreeOffsets
from rankfold.remembered import remembered

Tensor = Any


class GpuFreeOffsets(FreeOffsets):
    """`FreeOffsets` of entries that are on a GPU: Newton for all columns at once, halved where it must be."""

    def __init__(self, cost: Completion):
        super().__init__(cost)
        built_in(cost.loss)
        store: Any = cost.store
        self.device = cost.device
        self._side: GpuSide = store.by_column
        self._empty = replace(self._side, value=torch.zeros_like(self._side.value))
        # slope = 2 (w − 0), times a half; the first number is no parameter of the square loss
        self._halved = torch.tensor([0.0, 0.5], dtype=torch.float64, device=self.device)

    def _tall(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[Tensor]:
        return at_hand_of(self.completion, Ls, Rs)

    def _entries(self, A: Tensor, B: Tensor) -> Tensor:
        found = A.new_empty(self.completion.store.size)
        options = {"LOSS": 0, "WEIGHTED": False}
        tall = B.contiguous(), A.contiguous()
        self._empty.passed(kernels.gpu.slopes, tall, found, self._halved, **options)
        return found.double()

    def _by_column(self, numbers: Tensor) -> Tensor:
        ones = numbers.new_ones((self._side.length, 1))
        return replace(self._side, value=numbers).swept(kernels.gpu.product, (ones,))[:, 0]

    def _curvatures(self, predicted: Tensor) -> Tensor:
        return self._weights * losses(self.completion.loss, predicted, self._values)[2]

    def _best(self, given: Tensor) -> Tensor:
        x = given.new_zeros(self.shape[1])
        for _ in range(ROUNDS):
            x, moved = self._stepped(given, x)
            if not bool(moved.any()):
                break
        return x

    def _stepped(self, given: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """The offsets after a Newton step, halved until it is none for the worse; which gained anything."""
        value, slope, bend = losses(self.completion.loss, given + x[self._keys], self._values)
        before = self._costs(value, x)
        hidden = HIDDEN * self._costs(value.abs(), x)
        curved = torch.clamp(bend / 2, min=0.0)
        means = self._by_column(curved) / torch.clamp(self._counts, min=1.0)
        least = least_curvature(means, float(curved.mean()), torch)
        h = self._weights * torch.maximum(curved, torch.where(least > 0, least, 1.0)[self._keys])
        whole = self._by_column(h) + self._ridges
        down = -(self._by_column(self._weights * slope / 2) + self._ridges * x)
        way = down / torch.where(whole > 0, whole, 1.0)
        steps = torch.ones_like(x)
        for _ in range(HALVINGS):
            z = x + steps * way
            value = losses(self.completion.loss, given + z[self._keys], self._values)[0]
            costs = self._costs(value, z)
            worse = ~(costs <= before + hidden)
            if not bool(worse.any()):
                return z, before - costs > hidden
            steps = torch.where(worse, steps / 2, steps)
        steps = torch.where(worse, 0.0, steps)
        return x + steps * way, (before - costs > hidden) & ~worse

    def _costs(self, values: Tensor, x: Tensor) -> Tensor:
        return self._by_column(self._weights * values) + self._ridges * x * x

    @remembered
    def _keys(self) -> Tensor:
        return self._side.positions()[0]

    @remembered
    def _values(self) -> Tensor:
        return self._side.value.double()

    @remembered
    def _weights(self) -> Tensor:
        weight = self._side.weight
        return torch.ones_like(self._values) if weight is None else weight.double()

    @remembered
    def _counts(self) -> Tensor:
        return self._side.counts.double()

    @remembered
    def _ridges(self) -> Tensor:
        return RIDGE * self._by_column(self._weights)
