"""A completion cost without the entries of some rows and columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.base import Array, Cost, Evaluation, LineBlocks
from rankfold.costs.completion import Completion
from rankfold.entries.observed import Observed


@dataclass(eq=False)
class WithoutLines(Cost):
    """The mean loss of `cost` over its entries outside the given rows and columns, of the same shape.

    For methods that set lines aside for a while. It holds a copy of the entries that are left.
    """

    cost: Any  # a Completion, whose entries are in memory
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    shape: tuple[int, int] = field(init=False)
    quadratic: bool = field(init=False)
    nonnegative: bool = field(init=False)
    has_line_blocks: bool = field(init=False)

    def __post_init__(self) -> None:
        observed = self.cost.observed
        side, out = observed.by_row, [np.zeros(d, dtype=bool) for d in self.cost.shape]
        out[0][self.rows], out[1][self.cols] = True, True
        left = ~(out[0][side.keys] | out[1][side.indices])
        weights = side.data[left, 1] if observed.weighted else None
        entries = side.keys[left], side.indices[left], side.data[left, 0]
        options: dict[str, Any] = {"warn_of_empty": False, "storage": observed.storage}
        store = Observed.from_triples(*entries, self.cost.shape, weights, "keep", **options)
        self._rest = Completion.from_observed(store, self.cost.loss)
        self.shape, self.quadratic = self.cost.shape, self.cost.quadratic
        self.nonnegative, self.has_line_blocks = self.cost.nonnegative, self.cost.has_line_blocks

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives."""
        return self._rest.evaluate(L, R)

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        return self._rest.value(L, R)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of the partial derivatives."""
        return self._rest.derivative(L, R, dL, dR)

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR)."""
        return self._rest.gauss_newton(L, R, dL, dR)

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return the blocks, which are zero for lines that are left out."""
        return self._rest.line_blocks(L, R)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        return self._rest.value_at_zero
