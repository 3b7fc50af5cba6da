"""Entries that a GPU's memory does not hold: slabs of rows in the host's, which pass through it in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from rankfold.entries.arrays import check_factors
from rankfold.entries.gpu import GpuObserved, GpuSparseMatrix, _like
from rankfold.entries.gpu_checks import (
    RepeatedEntryError,
    Tensor,
    checked_tensors,
    refuse_other_rows,
    tensor_of,
)
from rankfold.entries.gpu_side import GpuSide
from rankfold.entries.store import Array, EntryLoss, NewValues

SLAB = 1 << 28  # entries of a slab, at most, unless a single row has more
Sides = tuple[str, ...]
_BOTH: Sides = ("by_row", "by_column")
_SORTING = 80  # bytes that an entry takes on the GPU while entries are sorted


def outgrows(count: int, device: Any) -> bool:
    """Whether so many entries are too many for the memory of a GPU."""
    place = torch.device(device)
    return bool(place.type == "cuda" and count * _SORTING > torch.cuda.mem_get_info(place)[0])


@dataclass(frozen=True, eq=False)
class StreamedObserved:
    """Ω in slabs of rows, each sorted both ways, in pinned memory; build it with `from_triples`.

    While one slab is worked on, the next is on its way. What columns get from the slabs is added up in their
    order, so that bits repeat.
    """

    shape: tuple[int, int]
    slabs: tuple[GpuObserved, ...]
    device: Any

    #: as of `GpuObserved`
    sampled_entries = GpuObserved.sampled_entries

    @staticmethod
    def from_triples(
        rows: Any, cols: Any, values: Any, shape: tuple[int, int],
        weights: Any = None, duplicates: str = "error", device: Any = "cuda",
    ) -> StreamedObserved:  # fmt: skip
        """Sort triples slab by slab on the device."""
        i, *others = checked_tensors(rows, cols, values, weights, shape, None)
        ends = torch.cumsum(torch.bincount(i.long(), minlength=shape[0]), 0)
        slabs, first, before = [], 0, 0
        while first < shape[0]:
            with_entries = int(ends[torch.searchsorted(ends, before, right=True)])  # and that row at least
            last = int(torch.searchsorted(ends, max(before + SLAB, with_entries), right=True))
            here = (i >= first) & (i < last)
            j, y, w = (None if x is None else x[here] for x in others)
            given = i[here] - first, j, y, (last - first, shape[1]), w, duplicates
            try:
                slabs.append(at_home(GpuObserved.from_triples(*given, device=device)))
            except RepeatedEntryError as repeated:
                (row, col), places = repeated.entry, torch.nonzero(here).flatten()[list(repeated.places)]
                raise RepeatedEntryError(first + row, col, tuple(places.tolist())) from None
            first, before = last, int(ends[last - 1])
        return StreamedObserved(shape, tuple(slabs), torch.device(device))

    @property
    def size(self) -> int:
        """|Ω|, the number of observed entries."""
        return sum(slab.size for slab in self.slabs)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values held."""
        return self.slabs[0].dtype

    @property
    def weighted(self) -> bool:
        """Whether entries carry weights."""
        return self.slabs[0].weighted

    @property
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of entries of each row, and of each column."""
        rows, cols = zip(*(slab.counts for slab in self.slabs), strict=True)
        return np.concatenate(rows), np.sum(cols, axis=0)

    def asarray(self, numbers: NDArray[Any]) -> Tensor:
        """Numbers as a tensor on the device, of the type of the values."""
        return tensor_of(numbers).to(self.device).to(self.slabs[0].by_row.value.dtype)

    def evaluate(self, L: Array, R: Array, loss: EntryLoss) -> tuple[float, Array, Array]:
        """Mean loss at W = L Rᵀ, S R and SᵀL."""
        A, B = self._tensors((L,), (R,))
        value, f_L, f_R = self._gathered(lambda slab, own: slab.evaluate(A[own], B, loss))
        return float(value), _like(L, f_L), _like(L, f_R)

    def value(self, L: Array, R: Array, loss: EntryLoss) -> float:
        """Mean loss at L Rᵀ alone."""
        A, B = self._tensors((L,), (R,))
        parts = (slab.size * slab.value(A[own], B, loss) for own, slab in self._each(("by_row",)))
        return sum(parts) / self.size

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Change of S R and SᵀL along (dL, dR)."""
        A, dA, B, dB = self._tensors((L, dL), (R, dR))
        _, df_L, df_R = self._gathered(lambda slab, own: slab.derivative(A[own], B, dA[own], dB, loss))
        return _like(L, df_L), _like(L, df_R)

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR), for positive ℓ″."""
        A, dA, B, dB = self._tensors((L, dL), (R, dR))
        _, df_L, df_R = self._gathered(lambda slab, own: slab.gauss_newton(A[own], B, dA[own], dB, loss))
        return _like(L, df_L), _like(L, df_R)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients along a curve, over one in `every` pieces of rows: of as few slabs as have them."""
        tall = self._tensors(Ls, Rs)
        As, Bs = tall[: len(Ls)], tall[len(Ls) :]
        apart = min(every, len(self.slabs))
        total, entries = np.zeros(2 * (len(Ls) + len(Rs)) - 3), 0
        for own, slab in self._each(("by_row",), apart):
            total += slab.size * slab.polynomial([A[own] for A in As], Bs, every // apart)
            entries += slab.size
        return total / entries

    def blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Blocks of the second derivatives, line by line."""
        A, B = self._tensors((L,), (R,))
        _, of_rows, of_cols = self._gathered(lambda slab, own: slab.blocks(A[own], B, loss))
        return _like(L, of_rows), _like(L, of_cols)

    def gradient(self, L: Array, R: Array, loss: EntryLoss) -> StreamedMatrix:
        """Return S, whose entries outside Ω are made anew for each product."""
        A, B = self._tensors((L,), (R,))
        return StreamedMatrix(self, lambda slab, own: slab.gradient(A[own], B, loss), mean=True, both=True)

    def targets(self, loss: EntryLoss) -> StreamedMatrix:
        """Return the entries of W that the data ask for, seen from W = 0."""
        both = not loss.is_square  # which are the values themselves
        return StreamedMatrix(self, lambda slab, own: slab.targets(loss), mean=False, both=both)

    def value_at_zero(self, loss: EntryLoss) -> float:
        """Mean loss at W = 0."""
        kind = self.slabs[0].by_row.value.dtype
        L, R = (torch.zeros((d, 1), dtype=kind, device=self.device) for d in self.shape)
        return self.value(L, R, loss)

    def astype(self, dtype: DTypeLike) -> StreamedObserved:
        """Return the same set with values of another type."""
        return replace(self, slabs=tuple(at_home(slab.astype(dtype)) for slab in self.slabs))

    def with_values(self, values: NewValues) -> StreamedObserved:
        """Return the same set with the values `values(rows, cols, old)`; weights are kept."""
        slabs, first = [], 0
        for slab in self.slabs:
            moved = lambda rows, cols, old, first=first: values(rows + first, cols, old)  # noqa: E731
            slabs.append(at_home(slab.with_values(moved)))
            first += slab.shape[0]
        return replace(self, slabs=tuple(slabs))

    def _tensors(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[Tensor]:
        check_factors(self.shape, Ls, Rs)
        given = [tensor_of(array) for array in (*Ls, *Rs)]
        kind = torch.float32 if all(A.dtype == torch.float32 for A in given) else torch.float64
        return [A.to(self.device, kind).contiguous() for A in given]

    def _gathered(self, found: Callable[[GpuObserved, slice], tuple[Any, ...]]) -> tuple[Any, Tensor, Tensor]:
        """What means over slabs are for all entries: a number if any, rows in order, columns added up."""
        value, rows, cols = 0.0, [], None
        for own, slab in self._each():
            part = slab.size / self.size
            *number, of_rows, of_cols = found(slab, own)
            value += part * sum(number)
            rows.append(part * of_rows)
            cols = part * of_cols if cols is None else cols.add_(of_cols, alpha=part)
        return value, torch.cat(rows), cols

    def _each(self, sides: Sides = _BOTH, apart: int = 1) -> Iterator[tuple[slice, GpuObserved]]:
        """Slabs with their rows, one in `apart`, whose sides that are asked for are on the device."""
        ends = np.cumsum([slab.shape[0] for slab in self.slabs]).tolist()
        chosen = [(slice(end - slab.shape[0], end), slab) for end, slab in zip(ends, self.slabs, strict=True)]
        chosen = chosen[::apart]
        if self.device.type != "cuda":
            yield from chosen
            return
        copies, compute, done = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device), None
        copies.wait_stream(compute)
        ahead = _sent(chosen[0][1], self.device, copies, sides)
        for k, (own, _) in enumerate(chosen):
            slab = ahead
            compute.wait_stream(copies)
            if k + 1 < len(chosen):
                if done is not None:
                    done.synchronize()  # two slabs at a time are on the device, and no more
                ahead = _sent(chosen[k + 1][1], self.device, copies, sides)
            yield own, slab
            done = compute.record_event()


@dataclass(frozen=True, eq=False)
class StreamedMatrix:
    """A matrix whose slabs of rows are made of slabs of entries."""

    observed: StreamedObserved
    slab_of: Callable[[GpuObserved, slice], GpuSparseMatrix]
    mean: bool  # whether its entries were divided by the number of those in the slab
    both: bool  # whether a slab's are made of its entries by row and by column

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.observed.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        return self.observed.dtype

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        Y, parts = self._tensor(X, self.shape[1]), []
        for own, slab in self.observed._each(_BOTH if self.both else ("by_row",)):
            parts.append(self._part(slab) * (self.slab_of(slab, own) @ Y))
        return _like(X, torch.cat(parts))

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        Y, total = self._tensor(X, self.shape[0]), None
        for own, slab in self.observed._each(_BOTH if self.both else ("by_column",)):
            part = self._part(slab) * self.slab_of(slab, own).transposed_times(Y[own])
            total = part if total is None else total.add_(part)
        return _like(X, total)

    def _part(self, slab: GpuObserved) -> float:
        return slab.size / self.observed.size if self.mean else 1.0

    def _tensor(self, X: Array, rows: int) -> Tensor:
        refuse_other_rows(X, rows)
        return tensor_of(X).to(self.observed.device)


def at_home(slab: GpuObserved) -> GpuObserved:
    """Return the same slab in the host's memory, which a GPU can read by itself."""
    pinned = torch.cuda.is_available()

    def home(tensor: Tensor) -> Tensor:
        return tensor.cpu().pin_memory() if pinned else tensor.cpu()

    return replace(slab, by_row=_moved(slab.by_row, home), by_column=_moved(slab.by_column, home))


def _sent(slab: GpuObserved, device: Any, stream: Any, sides: Sides) -> GpuObserved:
    """The same slab with some of its sides on their way to the device."""
    compute = torch.cuda.current_stream(device)

    def sent(tensor: Tensor) -> Tensor:
        there = tensor.to(device, non_blocking=True)
        there.record_stream(compute)
        return there

    with torch.cuda.stream(stream):
        for name in sides:
            moved = _moved(getattr(slab, name), sent)
            slab = replace(slab, by_row=moved) if name == "by_row" else replace(slab, by_column=moved)
    return slab


def _moved(side: GpuSide, move: Callable[[Tensor], Tensor]) -> GpuSide:
    tensors = {f.name: getattr(side, f.name) for f in fields(side)}
    return replace(side, **{name: move(t) for name, t in tensors.items() if isinstance(t, torch.Tensor)})
