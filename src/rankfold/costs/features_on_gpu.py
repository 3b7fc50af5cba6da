"""Features on a GPU, dense or stored entries sorted both ways there; factors in and out of tensors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import sparse

from rankfold.costs.losses import Loss
from rankfold.entries.given_arrays import LARGEST, SMALLEST, check_size
from rankfold.entries.gpu import GpuObserved, GpuSparseMatrix
from rankfold.entries.gpu_checks import tensor_of
from rankfold.linalg.primitives import on_host
from rankfold.linalg.spectrum import nonzero_spectrum
from rankfold.remembered import remembered

Tensor = Any
SQUARE = Loss.named("square")
_WIDTH = 128  # columns that a sparse matrix is multiplied by at a time
_NUMPY = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


@dataclass(frozen=True, eq=False)
class TensorFeatures:
    """`Features` on a GPU: `matrix` is a tensor, or a `GpuSparseMatrix`; None stands for the identity."""

    matrix: Any
    size: int

    def on(self, device: Any) -> TensorFeatures:
        """Return the same features, on another GPU if they are not there."""
        if self.matrix is None or self.matrix.device == device:
            return self
        if isinstance(self.matrix, GpuSparseMatrix):
            raise ValueError(f"these features are on {self.matrix.device}, not on {device}")
        return TensorFeatures(self.matrix.to(device), self.size)

    def take(self, rows: NDArray[Any]) -> TensorFeatures:
        """Return the features of some entities only."""
        return TensorFeatures(self.matrix[torch.as_tensor(rows, device=self.matrix.device)], self.size)

    def with_constant(self) -> TensorFeatures:
        """Return the features with one more that is 1 for every entity."""
        ones = self.matrix.new_ones((self.matrix.shape[0], 1))
        return TensorFeatures(torch.cat([self.matrix, ones], dim=1), self.size + 1)

    def repeated(self, times: int) -> TensorFeatures:
        """Return features of `times` things for each entity, with coefficients of their own: X ⊗ I."""
        return RepeatedTensorFeatures(self.matrix, self.size * times, times)

    def times(self, L: Tensor) -> Tensor:
        """X L."""
        if self.matrix is None:
            return L
        held = self._held(L.dtype)
        return _some_at_a_time(held.__matmul__, L) if isinstance(held, GpuSparseMatrix) else held @ L

    def transposed_times(self, A: Tensor) -> Tensor:
        """Xᵀ A."""
        if self.matrix is None:
            return A
        held = self._held(A.dtype)
        return _some_at_a_time(held.transposed_times, A) if isinstance(held, GpuSparseMatrix) else held.T @ A

    def _held(self, kind: Any) -> Any:
        """The matrix in the type of a factor, for torch multiplies no two types; kept, for it is large."""
        if kind not in self._kinds:
            matrix, dense = self.matrix, not isinstance(self.matrix, GpuSparseMatrix)
            self._kinds[kind] = (
                matrix.to(kind)
                if dense
                else GpuSparseMatrix(matrix.observed, tuple(part.to(kind) for part in matrix.values))
            )
        return self._kinds[kind]

    @remembered
    def _kinds(self) -> dict[Any, Any]:
        return {}

    @remembered
    def spectrum(self) -> tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]:
        """P, d and M ↦ Q M for the singular value decomposition X = P diag(d) Qᵀ, without zero values."""
        X: Any = self.matrix
        if isinstance(X, GpuSparseMatrix):
            n, q = X.shape
            if n <= q:
                squares, P = torch.linalg.eigh(_in_blocks(lambda E: X @ X.transposed_times(E), n, X))
                keep = squares > squares[-1] * n * torch.finfo(squares.dtype).eps
                P, d = P[:, keep], torch.sqrt(squares[keep])
                return P, d, lambda M: X.transposed_times(P @ (M / d[:, None]))
            X = _in_blocks(X.__matmul__, q, X)
        return nonzero_spectrum(X)


@dataclass(frozen=True, eq=False)
class RepeatedTensorFeatures(TensorFeatures):
    """X ⊗ I on a GPU: `RepeatedFeatures`."""

    count: int

    def times(self, L: Tensor) -> Tensor:
        """(X ⊗ I) L."""
        return super().times(L.reshape(-1, self.count * L.shape[1])).reshape(-1, L.shape[1])

    def transposed_times(self, A: Tensor) -> Tensor:
        """(X ⊗ I)ᵀ A."""
        return super().transposed_times(A.reshape(-1, self.count * A.shape[1])).reshape(-1, A.shape[1])


def _in_blocks(product: Callable[[Tensor], Tensor], size: int, example: GpuSparseMatrix) -> Tensor:
    """Return the matrix that a product multiplies by."""
    one = torch.eye(size, dtype=example.values[0].dtype, device=example.device)
    return _some_at_a_time(product, one)


def _some_at_a_time(product: Callable[[Tensor], Tensor], block: Tensor) -> Tensor:
    """Multiply some columns at a time by a sparse matrix, whose kernels hold a row of all they multiply."""
    parts = [product(part.contiguous()) for part in block.split(_WIDTH, dim=1)]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def sent(matrix: Any, size: int, device: Any) -> TensorFeatures:
    """Return features in memory, dense or CSR, as tensors on a device."""
    if matrix is None:
        return TensorFeatures(None, size)
    if not sparse.issparse(matrix):
        return TensorFeatures(brought(np.ascontiguousarray(matrix), device), size)
    entries = matrix.tocoo()
    rows, cols, values = (np.asarray(part) for part in (entries.row, entries.col, entries.data))
    if not values.size:  # a store has one entry at least
        rows, cols, values = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, matrix.dtype)
    indices = rows.astype(np.int64), cols.astype(np.int64)
    store = GpuObserved.from_triples(*indices, values, matrix.shape, None, "keep", device)
    return TensorFeatures(store.targets(SQUARE), size)


def checked_on_gpu(name: str, matrix: Tensor) -> TensorFeatures:
    """Return a tensor as features of float32 or float64, or say what is wrong with it."""
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"{name} must be a matrix with a row per entity and a column per feature; "
            f"got {tuple(matrix.shape)}"
        )
    numbers = real_tensor(name, matrix)
    if not bool(torch.isfinite(numbers).all()):
        raise ValueError(f"{name} has entries that are NaN or infinite: impute or drop them first")
    check_size_on_gpu(name, numbers)
    return TensorFeatures(numbers, numbers.shape[1])


def real_tensor(name: str, numbers: Tensor) -> Tensor:
    """Return real numbers in float32 if they are that, else in float64."""
    if numbers.is_complex():
        raise TypeError(f"{name} must hold real numbers; got {numbers.dtype}")
    return numbers.detach() if numbers.dtype == torch.float32 else numbers.detach().double()


def check_size_on_gpu(name: str, numbers: Tensor, holes: bool = False) -> None:
    """Do as `check_size`, looking at no more than the largest of numbers that are all right."""
    known = numbers[~torch.isnan(numbers)] if holes else numbers
    kind, peak = _NUMPY[numbers.dtype], float(known.abs().max())
    if peak and not SMALLEST[kind] <= peak <= LARGEST[kind]:
        check_size(name, on_host(numbers), holes=holes)


def brought(array: Any, device: Any) -> Tensor:
    """Return an array of any library as a tensor on a device."""
    return tensor_of(array).to(device)


def tensors_of_one_type(device: Any, *arrays: Any) -> list[Tensor]:
    """Return arrays of any library as contiguous tensors on a device, float32 if all are, else float64."""
    given = [tensor_of(array) for array in arrays]
    single = all(tensor.dtype == torch.float32 for tensor in given)
    kind = torch.float32 if single else torch.float64
    return [tensor.to(device, kind).contiguous() for tensor in given]


def given_back(example: Any, result: Tensor) -> Any:
    """Return a tensor as an array of the library of `example`, where that lives."""
    if isinstance(example, torch.Tensor):
        return result.to(example.device)
    found = on_host(result)
    return found if isinstance(example, np.ndarray) else array_namespace(example).asarray(found)
