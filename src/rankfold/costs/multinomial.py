"""Completion of a table of categories: a softmax over the logits of each known entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankfold import kernels
from rankfold.costs.base import Array, Cost, Evaluation, LineBlocks
from rankfold.costs.start import downhill_start
from rankfold.entries.arrays import checked_factors, like
from rankfold.entries.devices import usable_device
from rankfold.entries.given_arrays import frozen, own_indices
from rankfold.entries.observed import Duplicates, Observed
from rankfold.entries.sorted_entries import sweep
from rankfold.entries.triple_checks import checked_shape
from rankfold.fingerprint import fingerprint


class Multinomial(Cost):
    """f(W) = -(1/|Ω|) Σ w_ij log P(y_ij), where P is the softmax of the logits of entry (i, j) in W.

    A table of d1 × d2 categories is the matrix W of their logits: d1 × (K_1 + ... + K_d2), K_j columns of W
    for column j of the table, one per category. P(k) = exp(W_i,(j,k)) / Σ_l exp(W_i,(j,l)): one softmax
    couples the logits of an entry. Passes are over known entries, and nothing dense is formed.

    Parameters
    ----------
    rows, cols
        Integers, the position of each known entry in the table, in any order.
    codes
        The category of each, an integer from 0 to K_j - 1 in column j.
    shape
        Numbers of rows and columns of the table (d1, d2).
    categories
        How many categories a column has: an integer for all, or one for each column.
    weights
        Factors w >= 0 of the terms, 1 if not given. The sum is divided by |Ω| all the same.
    duplicates
        What to do with an entry given twice: "error", or "keep" to count each as an observation of its own.

    Attributes
    ----------
    starts
        Column j of the table has the columns starts[j] to starts[j + 1] - 1 of W.

    Examples
    --------
    >>> cost = Multinomial([0, 1, 1], [0, 0, 1], [2, 0, 1], (2, 2), categories=[3, 2])
    >>> cost.shape, round(cost.value_at_zero, 4)  # (2 log 3 + log 2) / 3
    ((2, 5), 0.9635)
    """

    has_line_blocks = True

    def __init__(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        codes: ArrayLike,
        shape: tuple[int, int],
        categories: int | ArrayLike,
        weights: ArrayLike | None = None,
        duplicates: Duplicates = "error",
    ):
        shape = checked_shape(shape)
        counts = _checked_counts(categories, shape[1])
        own_cols = own_indices("cols", cols, shape[1], np.int64)
        own_codes = own_indices("codes", codes, int(counts.max()), np.int64)
        if own_codes.size == own_cols.size:
            _check_codes(own_codes, own_cols, counts)
        values = own_codes.astype(np.float64)
        self.observed = Observed.from_triples(rows, own_cols, values, shape, weights, duplicates, False)
        self.starts: NDArray[np.uint64] = frozen(np.concatenate([[0], np.cumsum(counts)]).astype(np.uint64))
        self.shape = shape[0], int(self.starts[-1])
        self._room = np.empty(int(counts.max()))  # what a kernel makes its own arrays like

    def on(self, device: str) -> Cost:
        """Return the same cost with its entries on a GPU: "cuda", or "auto" if there is one."""
        place = usable_device(device)
        if place == "cpu":
            return self
        from rankfold.costs.comparisons_on_gpu import GpuMultinomial
        from rankfold.costs.positions_on_gpu import Positions

        side, starts = self.observed.by_row, self.starts.astype(np.int64)
        rows, cols, codes = (part.astype(np.int64) for part in (side.keys, side.indices, side.data[:, 0]))
        counts = np.diff(starts)[cols]
        of = np.repeat(np.arange(len(rows)), counts)
        number = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
        positions = Positions(rows[of], starts[cols[of]] + number, self.shape, place)
        weights = side.data[:, 1].astype(np.float64) if self.observed.weighted else None
        return GpuMultinomial(positions, of, number, codes, weights)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        A, B = self._factors((L,), (R,))
        f_L, f_R = np.empty_like(A), np.empty_like(B)
        value = self._value(A, B, f_L, partials=True)
        by_column = kernels.categories.evaluation_by_column(A.shape[1])
        arguments = *self._layout, B, A, 1 / self.observed.size, f_R
        sweep(by_column, self._work(A.shape[1]), (self.observed.by_column, arguments))
        f_L, f_R = (kernels.layout.narrowed(np.shape(L)[1], f) for f in (f_L, f_R))
        return Evaluation(value, like(L, f_L), like(L, f_R))

    def value(self, L: Array, R: Array) -> float:
        """Value alone, in less than half the time of `evaluate`."""
        A, B = self._factors((L,), (R,))
        return self._value(A, B, A, partials=False)

    def _value(self, A: NDArray[Any], B: NDArray[Any], f_L: NDArray[Any], partials: bool) -> float:
        rows, size = self.observed.by_row, self.observed.size
        sums = np.empty(rows.chunks)
        arguments = *self._layout, A, B, 1 / size, partials, sums, f_L
        sweep(kernels.categories.evaluation_by_row(A.shape[1]), self._work(A.shape[1]), (rows, arguments))
        return float(sums.sum()) / size

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        A, dA, B, dB = self._factors((L, dL), (R, dR))
        rank, scale = A.shape[1], 1 / self.observed.size
        df_L, df_R = np.empty_like(A), np.empty_like(B)
        arguments: tuple[Any, ...] = *self._layout, A, dA, B, dB, scale, df_L
        sweep(
            kernels.categories.derivative_by_row(rank),
            2 * self._work(rank),
            (self.observed.by_row, arguments),
        )
        by_column = kernels.categories.derivative_by_column(rank)
        arguments = *self._layout, B, dB, A, dA, scale, df_R
        sweep(by_column, 2 * self._work(rank), (self.observed.by_column, arguments))
        df_L, df_R = (kernels.layout.narrowed(np.shape(L)[1], df) for df in (df_L, df_R))
        return like(L, df_L), like(L, df_R)

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return the second derivatives in each row of L, and in each row of R: a category of a column."""
        A, B = self._factors((L,), (R,))
        r, rank, scale = A.shape[1], np.shape(L)[1], 1 / self.observed.size
        of_rows, of_cols = (np.zeros((len(Z) * r, r), A.dtype) for Z in (A, B))
        by_row, by_column = kernels.categories.blocks_by_row(r), kernels.categories.blocks_by_column(r)
        work = self._work(r * r)
        sweep(by_row, work, (self.observed.by_row, (*self._layout, A, B, scale, of_rows)))
        sweep(by_column, work, (self.observed.by_column, (*self._layout, B, A, scale, of_cols)))
        squares = (of.reshape(-1, r, r)[:, :rank, :rank] for of in (of_rows, of_cols))
        return LineBlocks(*(np.ascontiguousarray(square) for square in squares))

    def _factors(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[NDArray[Any]]:
        """Check factors, and return them with as many columns as the kernels for so many entries have."""
        arrays = checked_factors(self.shape, Ls, Rs)
        width = kernels.layout.width_for(arrays[0].shape[1], self.observed.size + sum(self.shape))
        return kernels.layout.widened(width, *arrays)

    @property
    def _layout(self) -> tuple[Any, ...]:
        """How many numbers an entry has, which rows of R belong to its column, and what arrays are like."""
        return kernels.layout.numbers(self.observed.weighted), self.starts, self._room

    def _work(self, rank: int) -> float:
        """Multiply-adds of a pass, about: all columns of the table taken to be as full."""
        per_entry = self.shape[1] / self.observed.shape[1]
        return 2 * self.observed.size * per_entry * rank

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return one step down the gradient at W = 0, as a rank-r singular value decomposition."""
        return downhill_start(self, rank, seed)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0, where all categories of a column are as likely."""
        side = self.observed.by_column
        logs = np.log(np.diff(self.starts.astype(np.float64)))[side.keys]
        return float(np.sum(logs * side.data[:, 1] if self.observed.weighted else logs)) / self.observed.size

    def fingerprint(self) -> dict[str, str | float]:
        """That of the entries, and of how many categories each column has."""
        return {**self.observed.fingerprint, "categories": fingerprint(self.starts)}


def _checked_counts(categories: int | ArrayLike, columns: int) -> NDArray[np.int64]:
    """Return how many categories each column has, one at least."""
    counts = np.asarray(categories)
    if counts.dtype.kind not in "iu" or counts.shape not in ((), (columns,)) or counts.min() < 1:
        found = f"{categories!r}" if counts.ndim == 0 else f"shape {counts.shape} of {counts.dtype}"
        raise ValueError(
            f"categories must be a positive integer, or one for each of the {columns} columns; got {found}"
        )
    return np.broadcast_to(counts, columns).astype(np.int64)


def _check_codes(codes: NDArray[Any], cols: NDArray[Any], counts: NDArray[np.int64]) -> None:
    """Raise ValueError at the first category that its column has not."""
    wrong = codes >= counts[cols]
    if wrong.any():
        at = int(np.argmax(wrong))
        last = counts[cols[at]] - 1
        raise ValueError(f"codes[{at}] is {codes[at]}, but column {cols[at]} has the categories 0 to {last}")
