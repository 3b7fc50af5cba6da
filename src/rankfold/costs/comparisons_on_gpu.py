"""Comparisons of pairs, and classes of pairs, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rankfold.costs.features_on_gpu import SQUARE, brought
from rankfold.costs.losses import Loss
from rankfold.costs.losses_on_gpu import built_in, losses
from rankfold.costs.positions_on_gpu import AtPositions, Positions
from rankfold.entries.gpu import GpuObserved

Tensor = Any


class GpuComparisons(AtPositions):
    """Mean loss of the differences between entries: entry better[t] is to be larger than worse[t]."""

    def __init__(
        self, positions: Positions, better: NDArray[Any], worse: NDArray[Any], loss: Loss,
        weights: NDArray[Any] | None,
    ):  # fmt: skip
        super().__init__(positions, loss.nonnegative)
        self.loss, count = built_in(loss), len(better)
        self._better, self._worse = (brought(at, self.device) for at in (better, worse))
        self._scale = _shares(weights, count, self.device)
        signs = np.repeat([1.0, -1.0], count)
        self._signs = GpuObserved.from_triples(
            np.concatenate([better, worse]), np.tile(np.arange(count), 2), signs,
            (positions.store.size, count), None, "keep", self.device,
        ).targets(SQUARE)  # fmt: skip

    def slopes(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss, and its derivative in each of the entries."""
        value, slope, _ = self._losses(entries)
        return (self._scale * value).sum(), self._summed(slope)

    def changes(self, entries: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives, and their change as the entries change."""
        _, slope, bend = self._losses(entries)
        return self._summed(slope), self._summed(bend * (moves[self._better] - moves[self._worse]))

    def _losses(self, entries: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        difference = entries[self._better] - entries[self._worse]
        return losses(self.loss, difference, torch.ones_like(difference))

    def _summed(self, numbers: Tensor) -> Tensor:
        """The sum, at each entry, of the numbers of its comparisons, those that it is worse in negative."""
        return (self._signs @ (self._scale * numbers)[:, None])[:, 0]


class GpuMultinomial(AtPositions):
    """-(1/n) Σ w_p log P(y_p), P the softmax of the logits of p, which are entries of a matrix.

    The logits of table entry p are at the positions with p in `of`, number `place` of them each.
    """

    def __init__(
        self, positions: Positions, of: NDArray[Any], place: NDArray[Any], codes: NDArray[Any],
        weights: NDArray[Any] | None,
    ):  # fmt: skip
        super().__init__(positions, nonnegative=True)
        count, width = len(codes), int(place.max()) + 1
        self._cell, self._codes = brought(of * width + place, self.device), brought(codes, self.device)
        self._scale = _shares(weights, count, self.device)
        self._shape = count, width

    def slopes(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean of -log P, and its derivative in each logit."""
        logs = torch.log_softmax(self._table(entries, -torch.inf), dim=1)
        value = -(self._scale * logs.gather(1, self._codes[:, None])[:, 0]).sum()
        return value, self._slopes(torch.exp(logs))

    def changes(self, entries: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Return the derivatives, and their change as the logits change."""
        P, moved = torch.softmax(self._table(entries, -torch.inf), dim=1), self._table(moves, 0.0)
        change = P * (moved - (P * moved).sum(1, keepdim=True))
        return self._slopes(P), (self._scale[:, None] * change).reshape(-1)[self._cell]

    def _slopes(self, P: Tensor) -> Tensor:
        off = P - torch.nn.functional.one_hot(self._codes, self._shape[1])
        return (self._scale[:, None] * off).reshape(-1)[self._cell]

    def _table(self, entries: Tensor, none: float) -> Tensor:
        """Entries with a line for each p, and `none` where it has fewer than others."""
        table = entries.new_full((self._shape[0] * self._shape[1],), none)
        table[self._cell] = entries
        return table.reshape(self._shape)


def _shares(weights: NDArray[Any] | None, count: int, device: Any) -> Tensor:
    """What each of so many terms weighs in their mean."""
    return brought((np.ones(count) if weights is None else weights) / count, device)
