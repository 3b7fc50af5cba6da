"""Costs of X W Zᵀ: another cost, seen through linear features of rows and columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.start import downhill_start
from rankfold.entries.arrays import check_factors, checked_factors, like
from rankfold.entries.devices import usable_device
from rankfold.entries.given_arrays import check_size, own_sparse, unmasked
from rankfold.linalg import on_gpu
from rankfold.linalg.spectrum import nonzero_spectrum
from rankfold.remembered import remembered


@dataclass(frozen=True, eq=False)
class Features:
    """A matrix with one row of features per entity, dense or CSR; None stands for the identity."""

    matrix: Any
    size: int

    @staticmethod
    def checked(name: str, matrix: Any) -> Any:
        """Return the features as float32 or float64, dense or CSR, or say what is wrong with them.

        Tensors on a GPU are checked, and stay, there.
        """
        if on_gpu.holds(matrix):
            from rankfold.costs.features_on_gpu import checked_on_gpu

            return checked_on_gpu(name, matrix)
        if sparse.issparse(matrix):
            matrix = sparse.csr_array(own_sparse(name, matrix))
            numbers = matrix.data
        else:
            matrix = numbers = np.asarray(unmasked(name, matrix))
        if matrix.ndim != 2 or 0 in matrix.shape:
            raise ValueError(
                f"{name} must be a matrix with a row per entity and a column per feature; got {matrix.shape}"
            )
        if numbers.dtype.kind not in "fiub":
            raise TypeError(f"{name} must hold real numbers; got {numbers.dtype}")
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} has entries that are NaN or infinite: impute or drop them first")
        check_size(name, numbers)
        if numbers.dtype != np.float32:
            matrix = matrix.astype(np.float64, copy=False)
        return Features(matrix, matrix.shape[1])

    def on(self, device: Any) -> Any:
        """Return the same features on a GPU."""
        from rankfold.costs.features_on_gpu import sent

        return sent(self.matrix, self.size, device)

    def take(self, rows: NDArray[Any]) -> Features:
        """Return the features of some entities only."""
        return Features(self.matrix[rows], self.size)

    def with_constant(self) -> Features:
        """Return the features with one more that is 1 for every entity."""
        ones = np.ones((self.matrix.shape[0], 1), self.matrix.dtype)
        if sparse.issparse(self.matrix):
            return Features(sparse.csr_array(sparse.hstack([self.matrix, ones])), self.size + 1)
        return Features(np.hstack([self.matrix, ones]), self.size + 1)

    def repeated(self, times: int) -> Features:
        """Return features of `times` things for each entity, with coefficients of their own: X ⊗ I."""
        return RepeatedFeatures(self.matrix, self.size * times, times)

    def times(self, L: NDArray[Any]) -> NDArray[Any]:
        """X L."""
        return L if self.matrix is None else np.ascontiguousarray(self.matrix @ L)

    def transposed_times(self, A: NDArray[Any]) -> NDArray[Any]:
        """Xᵀ A."""
        return A if self.matrix is None else np.asarray(self.matrix.T @ A)

    @remembered
    def spectrum(self) -> tuple[Array, Array, Callable[[Array], Array]]:
        """P, d and M ↦ Q M for the singular value decomposition X = P diag(d) Qᵀ, without zero values."""
        X = self.matrix
        if sparse.issparse(X) and X.shape[0] <= X.shape[1]:
            squares, P = np.linalg.eigh((X @ X.T).toarray())
            keep = squares > squares[-1] * len(squares) * np.finfo(squares.dtype).eps
            P, d = P[:, keep], np.sqrt(squares[keep])
            return P, d, lambda M: X.T @ (P @ (M / d[:, None]))
        return nonzero_spectrum(X.toarray() if sparse.issparse(X) else X)


@dataclass(frozen=True, eq=False)
class RepeatedFeatures(Features):
    """X ⊗ I: the coefficients of thing k of an entity are the rows k, k + count, k + 2 count, ..."""

    count: int

    def on(self, device: Any) -> Any:
        """Return the same features on a GPU."""
        return Features(self.matrix, self.size // self.count).on(device).repeated(self.count)

    def times(self, L: NDArray[Any]) -> NDArray[Any]:
        """(X ⊗ I) L, as X times L with the `count` rows of a feature side by side."""
        return super().times(L.reshape(-1, self.count * L.shape[1])).reshape(-1, L.shape[1])

    def transposed_times(self, A: NDArray[Any]) -> NDArray[Any]:
        """(X ⊗ I)ᵀ A."""
        return super().transposed_times(A.reshape(-1, self.count * A.shape[1])).reshape(-1, A.shape[1])


class Mapped(Cost):
    """f(W) = core(X W Zᵀ), by the chain rule: A = X L, B = Z R, f_L = Xᵀ core_A, f_R = Zᵀ core_B.

    Features are where the data of the core are: in memory, or, if `device` is not None, on a GPU.
    """

    def __init__(self, core: Cost, X: Any, Z: Any):
        self.device = getattr(core, "device", None)
        if self.device is not None:
            X, Z = X.on(self.device), Z.on(self.device)
        self.core, self.X, self.Z = core, X, Z
        self.shape = X.size, Z.size
        self.quadratic, self.nonnegative = core.quadratic, core.nonnegative

    def on(self, device: str) -> Self:
        """Return the same cost with features and data on a GPU: "cuda", or "auto" if there is one and it can.

        Factors are best tensors on that GPU, as `start` gives them: they stay there during a solve.
        """
        core: Any = self.core
        able = hasattr(core, "on")
        stays = self.device is not None or (device == "auto" and not able)
        if usable_device(device) == "cpu" or stays:
            return self
        if not able:
            raise TypeError(
                f"{type(self).__name__} is computed on the CPU alone: leave device out, or use 'cpu'"
            )
        there = copy(self)
        Mapped.__init__(there, core.on(device), self.X, self.Z)
        return there

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        (A,), (B,), dtype = self._map((L,), (R,))
        value, f_A, f_B = self.core.evaluate(A, B)
        return Evaluation(value, *self._back(L, dtype, f_A, f_B))

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        (A,), (B,), _ = self._map((L,), (R,))
        return self.core.value(A, B)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        (A, dA), (B, dB), dtype = self._map((L, dL), (R, dR))
        return self._back(L, dtype, *self.core.derivative(A, B, dA, dB))

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR)."""
        (A, dA), (B, dB), dtype = self._map((L, dL), (R, dR))
        return self._back(L, dtype, *self.core.gauss_newton(A, B, dA, dB))

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ), for the square loss."""
        As, Bs, _ = self._map(Ls, Rs)
        return self.core.polynomial(As, Bs)

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return one step down the gradient at W = 0, as a rank-r singular value decomposition."""
        return downhill_start(self, rank, seed)

    def fingerprint(self) -> dict[str, str | float]:
        """That of the core, and values that depend on the features."""
        return {**self.core.fingerprint(), **super().fingerprint()}

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        return self.core.value_at_zero

    def as_factor(self, numbers: Array) -> Array:
        """Return a factor as it is or, if the data are on a GPU, as a tensor there."""
        if self.device is None:
            return numbers
        from rankfold.costs.features_on_gpu import tensors_of_one_type

        return tensors_of_one_type(self.device, numbers)[0]

    def _map(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> tuple[list[Array], list[Array], Any]:
        if self.device is None:
            arrays = checked_factors(self.shape, Ls, Rs)
        else:
            from rankfold.costs.features_on_gpu import tensors_of_one_type

            check_factors(self.shape, Ls, Rs)
            arrays = tensors_of_one_type(self.device, *Ls, *Rs)
        As = [self.X.times(L) for L in arrays[: len(Ls)]]
        Bs = [self.Z.times(R) for R in arrays[len(Ls) :]]
        return As, Bs, arrays[0].dtype

    def _back(self, example: Array, dtype: Any, f_A: Array, f_B: Array) -> tuple[Array, Array]:
        f_L, f_R = self.X.transposed_times(f_A), self.Z.transposed_times(f_B)
        if self.device is not None:
            from rankfold.costs.features_on_gpu import given_back

            return given_back(example, f_L.to(dtype)), given_back(example, f_R.to(dtype))
        return like(example, f_L.astype(dtype, copy=False)), like(example, f_R.astype(dtype, copy=False))
