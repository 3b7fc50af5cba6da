"""The store of entries spread by rows: each process has those of its rows, in a store of its own.

L is spread as the entries are, and its rows are at home where their entries are. R is spread too, fetched
whole for a pass, and the derivatives in it are summed up where its rows are at home.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import DTypeLike, NDArray

from rankfold.distributed.group import Group
from rankfold.distributed.matrix import SpreadMatrix, scaled
from rankfold.distributed.sharded import Places, Sharded, even_cuts
from rankfold.entries.arrays import check_factors
from rankfold.entries.store import (
    Array,
    EntryLoss,
    EntryStore,
    LineBlockStore,
    ModelStore,
    NewValues,
)
from rankfold.fingerprint import spread as spread_numbers
from rankfold.linalg.rows import is_spread
from rankfold.remembered import remembered


@runtime_checkable
class PartStore(Protocol):
    """A store that can be a part of a larger one: it tells sums where means would not add up."""

    def polynomial_sums(
        self, Ls: Sequence[Array], Rs: Sequence[Array], every: int, first: int
    ) -> tuple[NDArray[np.float64], float]:
        """Sums over the sampled entries, and their number, if row 0 here is row `first` of the whole."""

    def largest_curvature(self, loss: EntryLoss) -> float:
        """Return max ℓ''(0, y)."""


@dataclass(frozen=True, eq=False)
class SpreadEntries:
    """Entries of a matrix whose rows are spread over processes; build it with `spread_triples`.

    `block` has the entries of the rows at hand, numbered from 0; None where there are none.
    """

    shape: tuple[int, int]
    size: int
    block: Any
    rows: Places
    cols: Places
    dtype: np.dtype[Any]
    weighted: bool

    @staticmethod
    def of(block: EntryStore | None, rows: Places, columns: int, dtype: DTypeLike) -> SpreadEntries:
        """Join everybody's blocks; `dtype` is that of values, for a process without any."""
        group, lines = rows.group, rows.cuts[-1]
        cuts = rows.cuts if columns == lines else even_cuts(columns, group.size)
        known = group.stacked(
            np.array([0, 0] if block is None else [block.size, block.weighted], dtype=np.int64)
        )
        store = SpreadEntries(
            shape=(lines, columns),
            size=int(known[:, 0].sum()),
            block=block,
            rows=rows,
            cols=Places(group, cuts),
            dtype=np.dtype(dtype),
            weighted=bool(known[:, 1].any()),
        )
        group.require_equal("entries", f"{store.shape} {store.dtype} {rows.cuts}")
        if not store.size:
            raise ValueError("there is no entry in any process")
        return store

    @property
    def group(self) -> Group:
        """The processes."""
        return self.rows.group

    @remembered
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of entries of each row, and of each column, everywhere."""
        rows, cols = (np.zeros(d) for d in self.shape)
        if self.block is not None:
            rows[self.rows.own], cols = self.block.counts
        summed = self.group.sum(np.concatenate([rows, cols])).astype(np.int64)
        return summed[: self.shape[0]], summed[self.shape[0] :]

    def asarray(self, numbers: NDArray[Any]) -> Sharded:
        """Numbers of all columns, which everybody holds, with their rows spread."""
        own = numbers[self.cols.own]
        here = np.asarray(own, dtype=self.dtype) if self.block is None else self.block.asarray(own)
        return Sharded(here, self.cols)

    # Passes ---------------------------------------------------------------------------------------------

    def evaluate(self, L: Array, R: Array, loss: EntryLoss) -> tuple[float, Array, Array]:
        """Mean loss at W = L Rᵀ, S R and SᵀL."""
        A, B = self._factors((L,), (R,))
        value, f_L, f_R = (0.0, *_zeros(A, B)) if self.block is None else self.block.evaluate(A, B, loss)
        return self._mean(value), self._left(f_L), self._right(R, f_R)

    def value(self, L: Array, R: Array, loss: EntryLoss) -> float:
        """Mean loss at L Rᵀ alone."""
        A, B = self._factors((L,), (R,))
        return self._mean(0.0 if self.block is None else self.block.value(A, B, loss))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Change of S R and SᵀL along (dL, dR)."""
        A, dA, B, dB = self._factors((L, dL), (R, dR))
        changes = _zeros(A, B) if self.block is None else self.block.derivative(A, B, dA, dB, loss)
        return self._left(changes[0]), self._right(R, changes[1])

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR), for positive ℓ″."""
        A, dA, B, dB = self._factors((L, dL), (R, dR))
        if self.block is None:
            changes = _zeros(A, B)
        elif isinstance(self.block, ModelStore):
            changes = self.block.gauss_newton(A, B, dA, dB, loss)
        else:
            df_L, df_R = self.block.derivative(A, B, dA, dB, loss)
            S = self.block.gradient(A, B, loss)
            changes = df_L - S @ dB, df_R - S.transposed_times(dA)
        return self._left(changes[0]), self._right(R, changes[1])

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients of t ↦ mean of ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)², over one in `every` rows.

        The sample is by numbers of rows among all, so that it is the same however they are spread. Blocks of
        a store that has none of its own take all rows.
        """
        factors = self._factors(Ls, Rs)
        As, Bs = factors[: len(Ls)], factors[len(Ls) :]
        degrees = 2 * (len(Ls) + len(Rs)) - 3
        sums, entries = np.zeros(degrees), 0.0
        if isinstance(self.block, PartStore):
            sums, entries = self.block.polynomial_sums(As, Bs, every, self.rows.bounds[0])
        elif self.block is not None:
            entries = float(self.block.size)
            sums = self.block.polynomial(As, Bs) * entries
        *totals, number = self.group.sum(np.append(sums, entries))
        return np.array(totals) / (number or 1.0)

    def blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[NDArray[Any], NDArray[Any]]:
        """Blocks of the second derivatives of the rows at hand, and of the columns at home here."""
        A, B = self._factors((L,), (R,))
        r, places = A.shape[1], R.spread if is_spread(R) else self.cols
        of_rows, of_cols = (np.zeros((len(Z), r, r)) for Z in (A, B))
        if self.block is not None:
            if not isinstance(self.block, LineBlockStore):
                raise TypeError(f"{type(self.block).__name__} knows no blocks of second derivatives")
            of_rows, of_cols = self.block.blocks(A, B, loss)
        flat = np.ascontiguousarray(of_cols).reshape(len(of_cols), r * r) * self._share
        own = self.group.scattered_sum(flat, places.cuts)
        return of_rows * self._share, own.reshape(-1, r, r)

    def gradient(self, L: Array, R: Array, loss: EntryLoss) -> SpreadMatrix:
        """Return S, whose entries outside Ω are zero."""
        A, B = self._factors((L,), (R,))
        local = None if self.block is None else self.block.gradient(A, B, loss)
        return SpreadMatrix(self.shape, self.dtype, self.places, local, self._share)

    def targets(self, loss: EntryLoss) -> SpreadMatrix:
        """Return the entries of W that the data ask for, seen from W = 0."""
        local = None if self.block is None else self.block.targets(loss)
        if loss.is_square:
            return SpreadMatrix(self.shape, self.dtype, self.places, local, 1.0)
        own = 0.0 if self.block is None else self._part.largest_curvature(loss)
        return SpreadMatrix(
            self.shape, self.dtype, self.places, local, (own or 1.0) / (self.group.most(own) or 1.0)
        )

    def value_at_zero(self, loss: EntryLoss) -> float:
        """Mean loss at W = 0."""
        return self._mean(0.0 if self.block is None else self.block.value_at_zero(loss))

    def astype(self, dtype: DTypeLike) -> SpreadEntries:
        """Return the same entries with values of another type."""
        block = None if self.block is None else self.block.astype(dtype)
        return replace(self, block=block, dtype=np.dtype(dtype))

    def with_values(self, values: NewValues) -> SpreadEntries:
        """Return the same entries with other values; rows are numbered as in the whole."""
        if self.block is None:
            return self
        first = self.rows.bounds[0]
        return replace(self, block=self.block.with_values(lambda i, j, y: values(i + first, j, y)))

    @property
    def places(self) -> tuple[Places, Places]:
        """Which process has which rows of L, and of R."""
        return self.rows, self.cols

    @remembered
    def fingerprint(self) -> dict[str, str | float]:
        """What tells these entries from others, however they are spread: sums over all of them."""
        sums = np.zeros(5)
        if self.block is not None:
            self.block.with_values(self._summing(sums))
        squares, *others = self.group.sum(sums)
        norms = (float(squares) ** 0.5 or 1.0, self.size**0.5)
        names = ("sum over the values", "sum over the positions") * 2
        found = {
            f"{name} ({1 + k // 2})": float(total) / norms[k % 2]
            for k, (name, total) in enumerate(zip(names, others, strict=True))
        }
        return {"number of entries": str(self.size), **found}

    def _summing(self, sums: NDArray[np.float64]) -> NewValues:
        """Return a function that adds up, block by block, and changes nothing. Each entry comes twice."""
        first = self.rows.bounds[0]
        steps = (2**0.5, 3**0.5), (5**0.5, 7**0.5)
        numbers = [
            [spread_numbers(d, step) for d, step in zip(self.shape, pair, strict=True)] for pair in steps
        ]

        def values(i: NDArray[Any], j: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
            z = y.astype(np.float64)
            sums[0] += z @ z / 2
            for k, (of_rows, of_cols) in enumerate(numbers):
                at = of_rows[i + first] * of_cols[j]
                sums[1 + 2 * k] += at @ z / 2
                sums[2 + 2 * k] += at.sum() / 2
            return y

        return values

    # What is beneath ------------------------------------------------------------------------------------

    @property
    def _share(self) -> float:
        """What a mean over the entries at hand counts in that over all."""
        return 0.0 if self.block is None else self.block.size / self.size

    @property
    def _part(self) -> PartStore:
        if not isinstance(self.block, PartStore):
            raise TypeError(
                f"{type(self.block).__name__} as a part of spread entries has the square loss only: hold the "
                "entries in memory (device='cpu') for others"
            )
        return self.block

    def _factors(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[Array]:
        """Rows at hand of all L, and all rows of all R."""
        check_factors(self.shape, Ls, Rs)
        for L in Ls:
            if is_spread(L) and L.spread.cuts != self.rows.cuts:
                raise ValueError(
                    f"rows of L are cut at {L.spread.cuts}, those of entries at {self.rows.cuts}"
                )
        left = [L.block if is_spread(L) else L[self.rows.own] for L in Ls]
        return [*left, *(R.whole() if is_spread(R) else R for R in Rs)]

    def _mean(self, local: float) -> float:
        return float(self.group.sum(np.array([local * self._share]))[0])

    def _left(self, f_L: Array) -> Sharded:
        return Sharded(scaled(f_L, self._share), self.rows)

    def _right(self, R: Array, f_R: Array) -> Sharded:
        """Add up what everybody has for each column, where the columns of R are at home."""
        places = R.spread if is_spread(R) else self.cols
        return Sharded(self.group.scattered_sum(scaled(f_R, self._share), places.cuts), places)


def _zeros(A: Array, B: Array) -> tuple[Array, Array]:
    xp = array_namespace(A)
    return xp.zeros_like(A), xp.zeros_like(B)
