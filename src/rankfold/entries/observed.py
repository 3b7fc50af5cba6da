"""The store of entries in memory: Ω held once by rows and once by columns, checked when built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from rankfold import kernels
from rankfold.entries.arrays import checked_factors, like
from rankfold.entries.block_groups import UnformedBlocks
from rankfold.entries.curves import Curve
from rankfold.entries.operators import SparseMatrix
from rankfold.entries.ordering import sorted_entries, striped, turned
from rankfold.entries.sorted_entries import SortedEntries, index_type, stripes_that_pay, sweep
from rankfold.entries.store import Array, EntryLoss, NewValues, Operator
from rankfold.entries.triple_checks import checked_shape, checked_storage, own_triples, warn_if_empty
from rankfold.entries.values import largest_curvature, sum_at_zero, targets, value_sums
from rankfold.fingerprint import fingerprint
from rankfold.linalg.memory import empty
from rankfold.remembered import remembered

Duplicates = Literal["error", "keep"]


@dataclass(frozen=True, eq=False)
class Observed:
    """Ω with its data, sorted both ways; build it with `Observed.from_triples`.

    Values may be held in less precision than they are computed with: in float32, and in float64 if `wide`.
    Means are over `among` entries: those of a whole that this is a part of, or if 0 its own.
    """

    shape: tuple[int, int]
    by_row: SortedEntries
    by_column: SortedEntries
    wide: bool = field(default=False, kw_only=True)
    among: int = field(default=0, kw_only=True)

    @staticmethod
    def from_triples(
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int],
        weights: ArrayLike | None = None,
        duplicates: Duplicates = "error",
        warn_of_empty: bool = True,
        storage: DTypeLike | None = None,
    ) -> Observed:
        """Check the triples, and sort them both ways; warn of rows and columns without any, or not.

        With `storage`, the type to hold values and weights in, all is computed in float64.
        """
        shape, kind = checked_shape(shape), checked_storage(storage)
        index = index_type(shape)
        # One expression: the copies of the input go once the first sort has read them, and its result once
        # the second one has.
        observed = both_ways(
            sorted_entries(*own_triples(rows, cols, values, weights, shape, index, kind), shape, index, 1),
            shape,
        )
        observed = replace(_with_duplicates(observed, rows, cols, duplicates), wide=kind is not None)
        if warn_of_empty:
            warn_if_empty(observed.counts)
        return observed

    @property
    def sides(self) -> tuple[SortedEntries, SortedEntries]:
        """The entries by row, and by column."""
        return self.by_row, self.by_column

    @property
    def size(self) -> int:
        """|Ω|, the number of observed entries."""
        return self.by_row.size

    @property
    def counted(self) -> int:
        """How many entries means are over."""
        return self.among or self.size

    @property
    def weighted(self) -> bool:
        """Whether entries carry weights."""
        return bool(self.by_row.data.shape[1] == 2)

    @property
    def few(self) -> bool:
        """Whether entries are so few that passes share their kernels with those of other ranks and losses."""
        return kernels.layout.are_few(self.size + sum(self.shape))

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type that is computed in, and of what is handed out."""
        return np.dtype(np.float64) if self.wide else self.by_row.data.dtype

    @property
    def storage(self) -> np.dtype[Any] | None:
        """What `from_triples` is told for more such entries: the type held, where another is computed in."""
        return self.by_row.data.dtype if self.wide else None

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays = ((side.bounds, side.indptr, side.across, side.data) for side in self.sides)
        return sum(array.nbytes for each in arrays for array in each)

    @property
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of entries of each row, and of each column."""
        return self.by_row.counts, self.by_column.counts

    @property
    def first_repeated(self) -> int:
        """Position, in the order of the rows, of the first entry that equals the one before it, or -1."""
        rows = self.by_row
        ties = (kernels.sorting.first_tie(*rows.stripe(s)[:3]) for s in range(rows.stripes))
        return next((tie for tie in ties if tie >= 0), -1)

    @remembered
    def plain(self) -> Observed:
        """The same set without stripes, for methods that want lines in one piece; a copy if it has any."""
        if self.by_row.stripes == self.by_column.stripes == 1:
            return self
        rows, index = self.by_row, index_type(self.shape)
        plain = both_ways(
            sorted_entries(rows.keys, rows.indices, rows.packed, self.shape, index, 1), self.shape, stripes=1
        )
        return replace(plain, wide=self.wide, among=self.among)

    @remembered
    def fingerprint(self) -> dict[str, str | float]:
        """What tells these entries from others, in whatever order they were given.

        Digests of positions and weights. Values may be what a fit of offsets left over, which another
        processor rounds otherwise: of them, sums with fixed factors, which notice two values exchanged.
        """
        side = self.by_row
        weights = fingerprint(side.data[:, 1] if self.weighted else None)
        entries = fingerprint(side.indptr, side.indices)
        return {"entries": entries, "weights": weights, **value_sums(side.data)}

    def astype(self, dtype: DTypeLike) -> Observed:
        """Return the same set with values held, and computed with, in another type; positions are shared."""
        data = (side.data.astype(dtype, copy=False) for side in self.sides)
        return replace(self.with_data(*data), wide=False)

    def with_data(self, by_row: NDArray[Any], by_column: NDArray[Any]) -> Observed:
        """Return the same set with other data, in both orders; positions are shared."""
        rows, cols = replace(self.by_row, data=by_row), replace(self.by_column, data=by_column)
        return replace(self, by_row=rows, by_column=cols)

    def with_values(self, values: NewValues) -> Self:
        """Return the same set with the values `values(rows, cols, old)`; positions and weights are kept."""
        by_row = self.by_row.with_values(values)
        by_column = self.by_column.with_values(lambda cols, rows, old: values(rows, cols, old))
        return replace(self, by_row=by_row, by_column=by_column)

    def asarray(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Numbers as a NumPy array of the type that is computed in."""
        return np.asarray(numbers, dtype=self.dtype)

    def evaluate(self, L: Array, R: Array, loss: EntryLoss) -> tuple[float, Array, Array]:
        """Mean loss at W = L Rᵀ, S R and SᵀL; sums are in float64 also for float32 factors."""
        A, B = self._factors((L,), (R,))
        kernel = kernels.sweeps.evaluation(A.shape[1], loss.kernel_key, self.weighted, few=self.few)
        constants = loss.parameter, 1 / self.counted
        sums, again = np.empty(self.by_row.chunks), np.empty(self.by_column.chunks)
        f_L, f_R = (empty(Z.shape, Z.dtype) for Z in (A, B))
        by_row, by_column = (A, B, *constants, sums, f_L), (B, A, *constants, again, f_R)
        sweep(kernel, 2 * self.size * A.shape[1], (self.by_row, by_row), (self.by_column, by_column))
        f_L, f_R = (kernels.layout.narrowed(np.shape(L)[1], f) for f in (f_L, f_R))
        return float(sums.sum()) / self.counted, like(L, f_L), like(L, f_R)

    def value(self, L: Array, R: Array, loss: EntryLoss) -> float:
        """Mean loss at L Rᵀ alone, in half the time of `evaluate`."""
        A, B = self._factors((L,), (R,))
        key = loss.kernel_key
        kernel = kernels.sweeps.evaluation(A.shape[1], key, self.weighted, partials=False, few=self.few)
        sums = np.empty(self.by_row.chunks)
        sweep(kernel, self.size * A.shape[1], (self.by_row, (A, B, loss.parameter, 0.0, sums, A)))
        return float(sums.sum()) / self.counted

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Change of S R and SᵀL along (dL, dR)."""
        return self._change(L, R, dL, dR, loss, model=False)

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR), for positive ℓ″."""
        return self._change(L, R, dL, dR, loss, model=True)

    def _change(
        self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss, model: bool
    ) -> tuple[Array, Array]:
        A, dA, B, dB = self._factors((L, dL), (R, dR))
        kernel = kernels.sweeps.derivative(A.shape[1], loss.kernel_key, self.weighted, model, self.few)
        constants = loss.parameter, 1 / self.counted
        As, Bs = kernels.layout.laid_out(A, dA), kernels.layout.laid_out(B, dB)
        df_L, df_R = np.empty_like(A), np.empty_like(B)
        by_row, by_column = (As, Bs, *constants, df_L), (Bs, As, *constants, df_R)
        sweep(kernel, 4 * self.size * A.shape[1], (self.by_row, by_row), (self.by_column, by_column))
        df_L, df_R = (kernels.layout.narrowed(np.shape(L)[1], df) for df in (df_L, df_R))
        return like(L, df_L), like(L, df_R)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients of t ↦ mean of ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)², over one in `every` rows."""
        totals, entries = self.polynomial_sums(Ls, Rs, every)
        return totals / (entries or 1.0)

    def polynomial_sums(
        self, Ls: Sequence[Array], Rs: Sequence[Array], every: int, first: int = 0
    ) -> tuple[NDArray[np.float64], float]:
        """Sums instead of means, and the number of entries, where row 0 is row `first` of a larger matrix.

        Runs of rows are taken, by their numbers in the whole: it does not matter how that is cut.
        """
        curve = self._curve(Ls, Rs, every)
        *totals, entries = curve.sums(self.by_row, every=every, first=first).sum(axis=(0, 1))
        return np.array(totals[: 2 * (len(Ls) + len(Rs)) - 3]), float(entries)

    def _curve(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int) -> Curve:
        arrays = self._factors(Ls, Rs)
        return Curve.of(arrays[: len(Ls)], arrays[len(Ls) :], every, self.weighted, self.few)

    def blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[NDArray[Any], NDArray[Any]]:
        """Blocks of the second derivatives, line by line; neither pass holds more than its own lines'."""
        A, B = self._factors((L,), (R,))
        r, rank = A.shape[1], np.shape(L)[1]
        kernel = kernels.line_blocks.blocks(r, loss.kernel_key, self.weighted, self.few)
        constants = loss.parameter, 1 / self.counted
        of_rows, of_cols = (np.zeros((len(Z) * r, r), A.dtype) for Z in (A, B))
        by_row, by_column = (A, B, *constants, of_rows), (B, A, *constants, of_cols)
        sweep(kernel, 2 * self.size * r * r, (self.by_row, by_row), (self.by_column, by_column))
        squares = (of.reshape(-1, r, r)[:, :rank, :rank] for of in (of_rows, of_cols))
        rows, cols = (np.ascontiguousarray(square) for square in squares)
        return rows, cols

    def unformed_blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[Any, Any] | None:
        """Return the same blocks, which need not be there all at once to be inverted; None where they do."""
        striped = max(side.stripes for side in self.sides) > 1
        by_stripes = striped and np.shape(L)[1] < kernels.line_blocks.LARGE
        if self.few or by_stripes or self.weighted or not loss.is_square:
            return None
        A, B = checked_factors(self.shape, (L,), (R,))
        each, (of_rows, of_columns) = 1 / self.counted, self.counts
        rows = UnformedBlocks(self.by_row, B, each, of_columns)
        return rows, UnformedBlocks(self.by_column, A, each, of_rows)

    def gradient(self, L: Array, R: Array, loss: EntryLoss) -> Operator:
        """Return S, whose entries outside Ω are zero."""
        return self.slopes(L, R, loss, 1 / self.counted)

    def slopes(self, L: Array, R: Array, loss: EntryLoss, scale: float) -> Operator:
        """Return `scale` times the (weighted) first derivatives of the loss at L Rᵀ, on Ω."""
        A, B = self._factors((L,), (R,))
        kernel = kernels.sweeps.slopes(A.shape[1], loss.kernel_key, self.weighted, self.few)
        by_row, by_column = np.empty((2, self.size), A.dtype)
        rows, cols = (A, B, loss.parameter, scale, by_row), (B, A, loss.parameter, scale, by_column)
        sweep(kernel, 2 * self.size * A.shape[1], (self.by_row, rows), (self.by_column, cols))
        return SparseMatrix(self, (by_row, by_column))

    def _factors(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[NDArray[Any]]:
        """Check factors, and return them with as many columns as the kernels for so many entries have."""
        arrays = checked_factors(self.shape, Ls, Rs)
        width = kernels.layout.width_for(arrays[0].shape[1], self.size + sum(self.shape))
        return kernels.layout.widened(width, *arrays)

    def of_data(self, values: Callable[[NDArray[Any]], NDArray[Any]], dtype: DTypeLike) -> Operator:
        """Return the matrix with entries `values(data)`, where `data` is value, or value and weight."""
        rows, cols = (np.asarray(values(side.data), dtype=dtype) for side in self.sides)
        return SparseMatrix(self, (rows, cols))

    @property
    def mean_value(self) -> float:
        """The (weighted) mean of the values; without weights, if all are 0."""
        data = self.by_row.data.astype(self.dtype, copy=False)
        weights = data[:, 1] if self.weighted and data[:, 1].any() else None
        return float(np.average(data[:, 0], weights=weights))

    def targets(self, loss: EntryLoss) -> Operator:
        """Return the entries of W that the data ask for, seen from W = 0."""
        return self.of_data(lambda data: targets(data.astype(self.dtype, copy=False), loss), self.dtype)

    def largest_curvature(self, loss: EntryLoss) -> float:
        """Return max ℓ''(0, y)."""
        return largest_curvature(self.by_row.data, loss, self.dtype)

    def value_at_zero(self, loss: EntryLoss) -> float:
        """Mean loss at W = 0."""
        return sum_at_zero(self.by_row.data, loss) / self.counted


def both_ways(first: SortedEntries, shape: tuple[int, int], stripes: int = 0) -> Observed:
    """Sort entries that are sorted by row both ways, into as many stripes, or as many as pay."""
    of_rows, of_columns = (stripes or stripes_that_pay(first.size, *way) for way in (shape, shape[::-1]))
    by_column = turned(first, of_columns)
    if kernels.sorting.lines_ascend(first.indptr, first.across):
        return Observed(shape, striped(first, of_rows), by_column)
    del first  # a third of the memory in use
    return Observed(shape, turned(by_column, of_rows), by_column)


def _with_duplicates(observed: Observed, rows: Any, cols: Any, duplicates: Duplicates) -> Observed:
    """Return the set with repeated entries in an order that depends on their data alone, or refuse them."""
    if duplicates not in ("error", "keep"):
        raise ValueError(f"duplicates must be 'error' or 'keep'; got {duplicates!r}")
    repeated, by_row = observed.first_repeated, observed.by_row
    if repeated < 0:
        return observed
    if duplicates == "keep":
        data = []
        for side in observed.sides:
            data.append(side.data.copy())
            kernels.sorting.settle_ties(side.indptr, side.across, data[-1])
        return observed.with_data(*data)
    line = int(np.searchsorted(by_row.indptr, repeated, side="right")) - 1
    i, j = line % by_row.lines, int(by_row.indices[repeated])
    found = np.flatnonzero((np.asarray(rows) == i) & (np.asarray(cols) == j))[:2]
    places = " and ".join(map(str, found))
    raise ValueError(
        f"entry ({i}, {j}) is given more than once, at positions {places} of rows and cols: "
        "merge repeated entries, or pass duplicates='keep' to count each as an observation of its own"
    )
