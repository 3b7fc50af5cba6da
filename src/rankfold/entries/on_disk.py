"""The store of entries on disk: what `Observed` is in memory, passed over in parts that are read ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels
from rankfold.entries.arrays import like
from rankfold.entries.disk_side import PART, DiskSide, Mapped
from rankfold.entries.observed import Observed
from rankfold.entries.operators import ComputedMatrix
from rankfold.entries.sorted_entries import Part, SortedEntries, chunk_bounds, index_type, sweep
from rankfold.entries.store import Array, EntryLoss
from rankfold.entries.values import BLOCK
from rankfold.remembered import remembered

Floats = NDArray[Any]


@dataclass(frozen=True, eq=False)
class OnDisk(Observed):
    """Ω with its data in files, sorted both ways, as `Observed` has them in memory.

    A pass holds a few parts of the entries and what it returns. `memory` is how many bytes those may take
    that work on the store and can choose. Answers have the bits of the store in memory, but for sums of
    all entries where there are several parts, which are added up in another order.
    """

    by_row: DiskSide
    by_column: DiskSide
    memory: float

    @staticmethod
    def opened(
        folder: Path,
        shape: tuple[int, int],
        dtype: DTypeLike,
        weighted: bool,
        memory: float,
        part: int = PART,
    ) -> OnDisk:
        """Open the files that `files_of` names, to be passed over in parts of about so many entries."""
        sides = []
        for name, (lines, length) in (("rows", shape), ("columns", shape[::-1])):
            indptr, indices, data = (
                _mapped(path, kind, width)
                for path, kind, width in zip(
                    files_of(folder, name),
                    (np.uint64, index_type(shape), dtype),
                    (0, 0, 1 + weighted),
                    strict=True,
                )
            )
            bounds = chunk_bounds(indptr.array, lines)
            arrays = indptr.array, indices.array, data.array
            sides.append(DiskSide(*arrays, bounds, length, (indices, data), folder, part))
        return OnDisk(shape, sides[0], sides[1], memory)

    @property
    def mean_value(self) -> float:
        """The (weighted) mean of the values; without weights, if all are 0."""
        if self.size <= BLOCK:
            return super().mean_value
        sums = np.zeros((2, 2))
        for data in blocks_of(self):
            weights = data[:, 1] if self.weighted else np.ones(len(data), data.dtype)
            sums += [[np.sum(data[:, 0] * weights, dtype=float), np.sum(weights, dtype=float)],
                     [np.sum(data[:, 0], dtype=float), len(data)]]  # fmt: skip
        total, weight = sums[0] if sums[0, 1] > 0 else sums[1]
        return float(total / weight)

    @remembered
    def plain(self) -> OnDisk:
        """The same set without stripes."""
        return OnDisk(self.shape, self.by_row.plain(), self.by_column.plain(), self.memory)

    def with_data(self, by_row: Floats, by_column: Floats) -> Observed:
        """Return the same set with other data, which are in memory."""
        sides = (
            SortedEntries(side.indptr, side.indices, data, side.bounds, side.length)
            for side, data in zip(self.sides, (by_row, by_column), strict=True)
        )
        return Observed(self.shape, *sides)

    def astype(self, dtype: DTypeLike) -> OnDisk:
        """Return the same set with values of another type, which are files of their own."""
        return OnDisk(self.shape, self.by_row.astype(dtype), self.by_column.astype(dtype), self.memory)

    def evaluate(self, L: Array, R: Array, loss: EntryLoss) -> tuple[float, Array, Array]:
        """Mean loss at W = L Rᵀ, S R and SᵀL."""
        A, B = self._factors((L,), (R,))
        kernel = kernels.sweeps.evaluation(A.shape[1], loss.kernel_key, self.weighted, few=self.few)
        f_L, f_R = np.empty_like(A), np.empty_like(B)
        total = _summed(self.by_row, kernel, (A, B), (loss.parameter, 1 / self.counted), f_L)
        _summed(self.by_column, kernel, (B, A), (loss.parameter, 1 / self.counted), f_R)
        f_L, f_R = (kernels.layout.narrowed(np.shape(L)[1], f) for f in (f_L, f_R))
        return total / self.counted, like(L, f_L), like(L, f_R)

    def value(self, L: Array, R: Array, loss: EntryLoss) -> float:
        """Mean loss at L Rᵀ alone."""
        A, B = self._factors((L,), (R,))
        key = loss.kernel_key
        kernel = kernels.sweeps.evaluation(A.shape[1], key, self.weighted, partials=False, few=self.few)
        return _summed(self.by_row, kernel, (A, B), (loss.parameter, 0.0), A) / self.counted

    def _change(
        self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss, model: bool
    ) -> tuple[Array, Array]:
        A, dA, B, dB = self._factors((L, dL), (R, dR))
        kernel = kernels.sweeps.derivative(A.shape[1], loss.kernel_key, self.weighted, model, self.few)
        constants, found = (loss.parameter, 1 / self.counted), []
        for side, (X, dX), others in ((self.by_row, (A, dA), (B, dB)), (self.by_column, (B, dB), (A, dA))):
            Ys, out = kernels.layout.laid_out(*others), np.empty_like(X)
            for lines, part in side.parts():
                Xs = kernels.layout.laid_out(X[lines], dX[lines])
                sweep(kernel, 2 * part.indices.size * X.shape[1], (part, (Xs, Ys, *constants, out[lines])))
            found.append(like(L, kernels.layout.narrowed(np.shape(L)[1], out)))
        return found[0], found[1]

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients of t ↦ mean of ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)², over one in `every` rows.

        The rows of the sample are those of `Observed`, and nothing else is read for it.
        """
        curve = self._curve(Ls, Rs, every)
        if every == 1:
            found = [curve.sums(part.side, part.lines).sum(axis=(0, 1)) for part in self.by_row.parts()]
            *totals, entries = np.sum(found, axis=0) if len(found) > 1 else found[0]
        else:
            sums = np.zeros((*self.by_row.chunks, kernels.polynomial.SUMS))
            for s, chunks, lines, part in self.by_row.sampled(every):
                sums[s, chunks] = curve.sums(part, lines)[0]
            *totals, entries = sums.sum(axis=(0, 1))
        return np.array(totals[: 2 * (len(Ls) + len(Rs)) - 3]) / (entries or 1)

    def blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[NDArray[Any], NDArray[Any]]:
        """Blocks of the second derivatives, line by line."""
        A, B = self._factors((L,), (R,))
        r, rank = A.shape[1], np.shape(L)[1]
        kernel = kernels.line_blocks.blocks(r, loss.kernel_key, self.weighted, self.few)
        found = []
        for side, X, Y in ((self.by_row, A, B), (self.by_column, B, A)):
            out = np.zeros((len(X) * r, r), A.dtype)
            for lines, part in side.parts():
                own = out[lines.start * r : lines.stop * r]
                arguments = X[lines], Y, loss.parameter, 1 / self.counted, own
                sweep(kernel, part.indices.size * r * r, (part, arguments))
            found.append(np.ascontiguousarray(out.reshape(-1, r, r)[:, :rank, :rank]))
        return found[0], found[1]

    def slopes(self, L: Array, R: Array, loss: EntryLoss, scale: float) -> ComputedMatrix:
        """Return `scale` times the (weighted) first derivatives of the loss, computed at each product."""
        A, B = self._factors((L,), (R,))
        kernel = kernels.sweeps.slopes(A.shape[1], loss.kernel_key, self.weighted, self.few)

        def values(k: int, part: Part) -> Floats:
            X, Y = (A, B) if k == 0 else (B, A)
            out = np.empty(part.side.indices.size, A.dtype)
            arguments = X[part.lines], Y, loss.parameter, scale, out
            sweep(kernel, out.size * A.shape[1], (part.side, arguments))
            return out

        return ComputedMatrix(self, A.dtype, values)

    def of_data(self, values: Callable[[Floats], Floats], dtype: DTypeLike) -> ComputedMatrix:
        """Return the matrix with entries `values(data)`, computed at each product."""
        kind = np.dtype(dtype)
        return ComputedMatrix(
            self, kind, lambda _, part: np.ascontiguousarray(values(part.side.data), dtype=kind)
        )

    def targets(self, loss: EntryLoss) -> ComputedMatrix:
        """Return the entries of W that the data ask for, seen from W = 0."""
        if loss.is_square:
            return self.of_data(lambda data: data[:, 0], self.dtype)
        largest = (loss(np.zeros_like(data[:, 0]), data[:, 0])[2].max() for data in blocks_of(self))
        scale = max(largest) or 1.0
        return self.of_data(lambda data: -loss(np.zeros_like(data[:, 0]), data[:, 0])[1] / scale, self.dtype)


def blocks_of(observed: Observed) -> Iterator[Floats]:
    """Yield value, or value and weight, of some entries at a time, in the order of the rows."""
    data = observed.by_row.data
    return (data[first : first + BLOCK] for first in range(0, len(data), BLOCK))


def files_of(folder: Path, side: str) -> tuple[Path, Path, Path]:
    """Return where indptr, indices and data of a side, "rows" or "columns", are."""
    return folder / f"{side}.indptr", folder / f"{side}.indices", folder / f"{side}.data"


def _mapped(path: Path, dtype: DTypeLike, columns: int) -> Mapped:
    with path.open("rb") as file:
        return Mapped(file, dtype, columns)


def _summed(
    side: DiskSide, kernel: Any, factors: tuple[Floats, Floats], constants: tuple[float, float], out: Floats
) -> float:
    """Evaluate the parts of a side, and return the sum of the losses."""
    X, Y = factors
    total = 0.0
    for lines, part in side.parts():
        sums = np.empty(part.chunks)
        work = part.indices.size * X.shape[1]
        sweep(kernel, work, (part, (X[lines], Y, *constants, sums, out[lines])))
        total += float(sums.sum())
    return total
