"""The store of entries on a GPU: torch tensors, sorted both ways there, and Triton's passes over them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, SupportsFloat

import array_api_compat
import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from rankfold import kernels
from rankfold.entries.arrays import check_factors
from rankfold.entries.gpu_checks import Tensor, checked_tensors, refuse_other_rows, tensor_of
from rankfold.entries.gpu_side import BLOCK, GpuSide, evaluated, sorted_side
from rankfold.entries.store import Array, EntryLoss, NewValues
from rankfold.kernels.formulas import BUILT_IN
from rankfold.linalg.exchange import Coming, desk
from rankfold.remembered import remembered

_TYPES = {np.dtype(np.float32): torch.float32, np.dtype(np.float64): torch.float64}


@dataclass(frozen=True, eq=False)
class GpuObserved:
    """Ω with its data on a GPU, sorted both ways; build it with `GpuObserved.from_triples`.

    Means are over `among` entries: those of a whole that this is a part of, or if 0 its own.
    """

    shape: tuple[int, int]
    by_row: GpuSide
    by_column: GpuSide
    among: int = field(default=0, kw_only=True)

    @staticmethod
    def from_triples(
        rows: Any,
        cols: Any,
        values: Any,
        shape: tuple[int, int],
        weights: Any = None,
        duplicates: str = "error",
        device: Any = "cuda",
    ) -> GpuObserved:
        """Check the triples and sort them both ways, all on the device."""
        i, j, y, w = checked_tensors(rows, cols, values, weights, shape, torch.device(device))
        by_row = sorted_side(i, j, y, w, shape, duplicates)
        return GpuObserved(shape, by_row, sorted_side(j, i, y, w, shape[::-1], "keep"))

    @remembered
    def size(self) -> int:
        """|Ω|, the number of observed entries."""
        return len(self.by_row.index)

    @property
    def counted(self) -> int:
        """How many entries means are over."""
        return self.among or self.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values held."""
        return np.dtype(np.float32 if self.by_row.value.dtype == torch.float32 else np.float64)

    @property
    def weighted(self) -> bool:
        """Whether entries carry weights."""
        return self.by_row.weight is not None

    #: whether costs over it are best asked in tensors that are where the entries are
    on_device = True
    #: a sample of as many entries gives step-sizes here: it takes no less time to ask fewer of them
    sampled_entries = 4_000_000
    #: one in so many rows, at most, are asked for a step-size; 200,000², rank 64, takes as many iterations
    most_sampling = 32

    @property
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of entries of each row, and of each column."""
        return self.by_row.counts.cpu().numpy(), self.by_column.counts.cpu().numpy()

    def evaluate(self, L: Array, R: Array, loss: EntryLoss) -> tuple[float, Array, Array]:
        """Mean loss at W = L Rᵀ, S R and SᵀL."""
        value, f_L, f_R = self.evaluate_ahead(L, R, loss)
        return float(value), f_L, f_R

    def evaluate_ahead(self, L: Array, R: Array, loss: EntryLoss) -> tuple[SupportsFloat, Array, Array]:
        """The same, without a wait: who wants the value as a `float` waits."""
        check_factors(self.shape, (L,), (R,))
        A, B = self._tensors(L, R)
        sides = self.by_row, self.by_column
        total, f_L, f_R = evaluated(sides, A, B, self._constants(loss), self._options(loss))
        return _Mean(total, self.counted), _like(L, f_L), _like(L, f_R)

    def value(self, L: Array, R: Array, loss: EntryLoss) -> float:
        """Mean loss at L Rᵀ alone, in half the time of `evaluate`."""
        check_factors(self.shape, (L,), (R,))
        A, B = self._tensors(L, R)
        programs, home = self.by_row.programs(A), desk(A)
        sums, options = home.scratch(programs), self._options(loss)
        self.by_row.passed(kernels.gpu.value, (A, B), sums, self._constants(loss), **options)
        return float(_Mean(home.summed(sums, 1, programs), self.counted))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Change of S R and SᵀL along (dL, dR)."""
        return self._change(L, R, dL, dR, loss, MODEL=False)

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR), for positive ℓ″."""
        return self._change(L, R, dL, dR, loss, MODEL=True)

    def _change(
        self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss, MODEL: bool
    ) -> tuple[Array, Array]:
        check_factors(self.shape, (L, dL), (R, dR))
        A, B, dA, dB = self._tensors(L, R, dL, dR)
        constants, options = self._constants(loss), self._options(loss, MODEL=MODEL)
        df_L = self.by_row.swept(kernels.gpu.derivative, (A, B, dA, dB), constants, **options)
        df_R = self.by_column.swept(kernels.gpu.derivative, (B, A, dB, dA), constants, **options)
        return _like(L, df_L), _like(L, df_R)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients of t ↦ mean of ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)², over one in `every` pieces."""
        check_factors(self.shape, Ls, Rs)
        tall = self._tensors(*Ls, *Rs)
        As, Bs = tall[: len(Ls)], tall[len(Ls) :]
        terms = [terms[min(k, len(terms) - 1)] for terms in (As, Bs) for k in range(3)]
        options = {"M": len(As), "N": len(Bs), "WEIGHTED": self.weighted}
        width = 2 * (len(As) + len(Bs)) - 2
        found = self.by_row.summed(kernels.gpu.polynomial, width, terms, every, **options).numbers()
        return found[:-1] / (float(found[-1]) or 1.0)

    def blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Blocks of the second derivatives, line by line."""
        check_factors(self.shape, (L,), (R,))
        A, B = self._tensors(L, R)
        of_rows, of_cols = (
            _like(L, side.formed(A, B, self._constants(loss), **self._options(loss)))
            for side, A, B in ((self.by_row, A, B), (self.by_column, B, A))
        )
        return of_rows, of_cols

    def gradient(self, L: Array, R: Array, loss: EntryLoss) -> GpuSparseMatrix:
        """Return S, whose entries outside Ω are zero."""
        check_factors(self.shape, (L,), (R,))
        A, B = self._tensors(L, R)
        values = self._slopes(self.by_row, A, B, loss), self._slopes(self.by_column, B, A, loss)
        return GpuSparseMatrix(self, values)

    def targets(self, loss: EntryLoss) -> GpuSparseMatrix:
        """Return the entries of W that the data ask for, seen from W = 0."""
        if loss.is_square:
            return GpuSparseMatrix(self, (self.by_row.value, self.by_column.value))
        value, sides = self.by_row.value, (self.by_row, self.by_column)
        L, R = (torch.zeros((d, 1), dtype=value.dtype, device=value.device) for d in self.shape)
        plain = GpuObserved(self.shape, *(replace(side, weight=None) for side in sides))
        scale = -self.size / (self.largest_curvature(loss) or 1.0)
        first = plain.gradient(L, R, loss).values
        return GpuSparseMatrix(self, (first[0] * scale, first[1] * scale))

    def largest_curvature(self, loss: EntryLoss) -> float:
        """Return max ℓ''(0, y)."""
        parts = (part.double().cpu().numpy() for part in self.by_row.value.split(BLOCK))
        return max(float(loss(np.zeros(1), part)[2].max()) for part in parts)

    def value_at_zero(self, loss: EntryLoss) -> float:
        """Mean loss at W = 0."""
        value = self.by_row.value
        L, R = (torch.zeros((d, 1), dtype=value.dtype, device=value.device) for d in self.shape)
        return self.value(L, R, loss)

    def astype(self, dtype: DTypeLike) -> GpuObserved:
        """Return the same set with values of another type; positions are shared."""
        kind = _TYPES[np.dtype(dtype)]
        return replace(self, by_row=self.by_row.astype(kind), by_column=self.by_column.astype(kind))

    def with_values(self, values: NewValues) -> GpuObserved:
        """Return the same set with the values `values(rows, cols, old)`; positions and weights are kept."""
        by_column = self.by_column.with_values(lambda cols, rows, old: values(rows, cols, old))
        return replace(self, by_row=self.by_row.with_values(values), by_column=by_column)

    def asarray(self, numbers: NDArray[Any]) -> Tensor:
        """Numbers as a tensor on the device, of the type of the values."""
        value = self.by_row.value
        return tensor_of(numbers).to(value.device).to(value.dtype)  # there, where it takes no time

    def zeros(self) -> GpuObserved:
        """Zeros at the same positions, each of which comes once, without weights."""
        own, across = self.by_row.positions()
        key = torch.unique(own * self.shape[1] + across)
        values = torch.zeros(len(key), dtype=self.by_row.value.dtype, device=key.device)
        rows, cols = key // self.shape[1], key % self.shape[1]
        return self.from_triples(rows, cols, values, self.shape, device=key.device)

    def as_double(self, numbers: Array) -> Tensor:
        """Numbers as a tensor on the device, in double precision."""
        return tensor_of(numbers).to(self.by_row.value.device).double()

    def weights_and_values(self) -> tuple[GpuSparseMatrix, GpuSparseMatrix]:
        """The weights on Ω, ones if there are none, and the values times these, in double precision."""
        sides = [(side.value.double(), side.weight) for side in (self.by_row, self.by_column)]
        weights = [torch.ones_like(y) if w is None else w.double() for y, w in sides]
        values = [y * w for (y, _), w in zip(sides, weights, strict=True)]
        return GpuSparseMatrix(self, tuple(weights)), GpuSparseMatrix(self, tuple(values))

    def _slopes(self, side: GpuSide, A: Tensor, B: Tensor, loss: EntryLoss) -> Tensor:
        out = A.new_empty(self.size)
        side.passed(kernels.gpu.slopes, (A, B), out, self._constants(loss), **self._options(loss))
        return out

    def _constants(self, loss: EntryLoss) -> Tensor:
        return _in_memory(loss.parameter, 1 / self.counted, self.by_row.value.device)

    def _options(self, loss: EntryLoss, **more: Any) -> dict[str, Any]:
        key = loss.kernel_key
        if not isinstance(key, int):
            names = ", ".join(formula.__name__ for formula in BUILT_IN)
            raise TypeError(
                f"on a GPU the loss must be built in ({names}); build the cost without device= for others"
            )
        return {"LOSS": key, "WEIGHTED": self.weighted, **more}

    def _tensors(self, *arrays: Array) -> list[Tensor]:
        """Arrays of any library as contiguous tensors on the device, of one dtype."""
        place, kind = self.by_row.value.device, getattr(arrays[0], "dtype", None)
        if all(type(A) is torch.Tensor and A.device == place and A.dtype == kind for A in arrays):
            return [A.contiguous() for A in arrays]
        given = [tensor_of(array) for array in arrays]
        kind = torch.float32 if all(tensor.dtype == torch.float32 for tensor in given) else torch.float64
        return [tensor.to(place, kind).contiguous() for tensor in given]


@dataclass(frozen=True, eq=False)
class GpuSparseMatrix:
    """Values at the positions of Ω, given by row and by column; zero elsewhere."""

    observed: GpuObserved
    values: tuple[Tensor, Tensor]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.observed.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""
        return np.dtype(np.float32 if self.values[0].dtype == torch.float32 else np.float64)

    @property
    def device(self) -> Any:
        """Where its entries are."""
        return self.values[0].device

    def __matmul__(self, X: Array) -> Array:
        """S X."""
        return self._times(self._sides[0], X)

    def transposed_times(self, X: Array) -> Array:
        """Sᵀ X."""
        return self._times(self._sides[1], X)

    @remembered
    def _sides(self) -> tuple[GpuSide, GpuSide]:
        by_row, by_column = self.values
        return replace(self.observed.by_row, value=by_row), replace(self.observed.by_column, value=by_column)

    def _times(self, side: GpuSide, X: Array) -> Array:
        refuse_other_rows(X, side.length)
        block = tensor_of(X).to(side.value.device, side.value.dtype).contiguous()
        return _like(X, side.swept(kernels.gpu.product, (block,)))


@dataclass(frozen=True)
class _Mean:
    """A mean whose sum may be on its way."""

    total: Coming
    count: int

    def __float__(self) -> float:
        return float(self.total.numbers()[0]) / self.count


@functools.lru_cache(maxsize=64)
def _in_memory(parameter: float, scale: float, place: Any) -> Tensor:
    """Two constants where a GPU reads them; kept, for to bring them there takes longer than a small pass."""
    return torch.tensor([parameter, scale], dtype=torch.float64, device=place)


def _like(example: Array, result: Tensor) -> Array:
    """Return a tensor as an array of the library of `example`, where that lives."""
    if isinstance(example, torch.Tensor):
        return result if example.device == result.device else result.to(example.device)
    found = result.cpu().numpy()
    return (
        found if isinstance(example, np.ndarray) else array_api_compat.array_namespace(example).asarray(found)
    )
