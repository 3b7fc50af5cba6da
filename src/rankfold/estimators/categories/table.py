"""The known entries of a table of categories, and the cells of its logits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from rankfold.costs.mapped import Features, Mapped
from rankfold.costs.multinomial import Multinomial

Floats = NDArray[Any]
_BLOCK = 1 << 14  # entries whose logits are held at a time


class Cells(NamedTuple):
    """Which classes each column has: those of column j are `classes[starts[j]:starts[j + 1]]`."""

    starts: NDArray[np.int64]
    classes: NDArray[np.int64]

    @staticmethod
    def of(cols: NDArray[Any], codes: NDArray[Any], columns: int, count: int, shared: bool) -> Cells:
        """Return, for each column, the classes that its entries have or, shared, all of them."""
        if shared:
            return Cells(np.arange(columns + 1) * count, np.tile(np.arange(count), columns))
        there = np.unique(cols.astype(np.int64) * count + codes)
        starts = np.searchsorted(there, np.arange(columns + 1) * count)
        return Cells(starts.astype(np.int64), there % count)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many classes each column has."""
        return np.diff(self.starts)

    def places(self, cols: NDArray[Any], codes: NDArray[Any], count: int) -> NDArray[np.int64]:
        """Return the place of each entry's class among those of its column."""
        columns = np.repeat(np.arange(self.counts.size), self.counts)
        cell = np.searchsorted(columns * count + self.classes, cols.astype(np.int64) * count + codes)
        return np.asarray(cell - self.starts[cols])


@dataclass(frozen=True, eq=False)
class KnownEntries:
    """Positions of known entries, the place of each one's class in its column, and weights."""

    rows: NDArray[Any]
    cols: NDArray[Any]
    places: NDArray[np.int64]
    weights: Floats
    shape: tuple[int, int]
    cells: Cells

    @property
    def size(self) -> int:
        """How many entries there are."""
        return self.rows.size

    def take(self, some: NDArray[Any]) -> KnownEntries:
        """Return some of the entries."""
        parts = {name: getattr(self, name)[some] for name in ("rows", "cols", "places", "weights")}
        return replace(self, **parts)

    def cost(self) -> Mapped:
        """Return the mean loss as a function of [W; cᵀ], where the logits of row i are W_i + c."""
        core = Multinomial(
            self.rows, self.cols, self.places, self.shape, self.cells.counts, self.weights, "keep"
        )
        rows = self.shape[0]
        ones = sparse.csr_array(np.ones((rows, 1)))
        X = sparse.csr_array(sparse.hstack([sparse.eye_array(rows), ones]))
        return Mapped(core, Features(X, rows + 1), Features(None, core.shape[1]))

    def losses(self, L: Floats, R: Floats) -> Floats:
        """Return the loss of each entry."""
        chances = probabilities(self.rows, self.cols, self.cells, L, R)
        with np.errstate(divide="ignore"):  # a probability may round to 0
            return np.asarray(-self.weights * np.log(chances[np.arange(self.size), self.places]))


def probabilities(rows: NDArray[Any], cols: NDArray[Any], cells: Cells, L: Floats, R: Floats) -> Floats:
    """Return, for each entry, the probabilities of the classes of its column, and zeros behind them.

    A row of -1 has no factor of its own: only the last row of L, which belongs to all.
    """
    out = np.zeros((rows.size, int(cells.counts.max())))
    step = np.arange(out.shape[1])
    for start in range(0, rows.size, _BLOCK):
        i, j = rows[start : start + _BLOCK], cols[start : start + _BLOCK]
        there = step < cells.counts[j][:, None]
        at = np.where(there, cells.starts[j][:, None] + step, 0)
        factors = np.where((i < 0)[:, None], 0.0, L[i]) + L[-1]
        logits = np.where(there, np.einsum("pr,pkr->pk", factors, R[at]), -np.inf)
        out[start : start + _BLOCK] = special.softmax(logits, axis=1)
    return out
