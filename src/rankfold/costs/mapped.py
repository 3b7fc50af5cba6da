"""Costs of X W Zᵀ: another cost, seen through linear features of rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.costs.base import Array, Cost, Evaluation
from rankfold.costs.start import downhill_start
from rankfold.entries.arrays import checked_factors, like
from rankfold.entries.given_arrays import check_size, own_sparse, unmasked


@dataclass(frozen=True, eq=False)
class Features:
    """A matrix with one row of features per entity, dense or CSR; None stands for the identity."""

    matrix: Any
    size: int

    @staticmethod
    def checked(name: str, matrix: Any) -> Features:
        """Return the features as float32 or float64, dense or CSR, or say what is wrong with them."""
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


@dataclass(frozen=True, eq=False)
class RepeatedFeatures(Features):
    """X ⊗ I: the coefficients of thing k of an entity are the rows k, k + count, k + 2 count, ..."""

    count: int

    def times(self, L: NDArray[Any]) -> NDArray[Any]:
        """(X ⊗ I) L, as X times L with the `count` rows of a feature side by side."""
        return super().times(L.reshape(-1, self.count * L.shape[1])).reshape(-1, L.shape[1])

    def transposed_times(self, A: NDArray[Any]) -> NDArray[Any]:
        """(X ⊗ I)ᵀ A."""
        return super().transposed_times(A.reshape(-1, self.count * A.shape[1])).reshape(-1, A.shape[1])


class Mapped(Cost):
    """f(W) = core(X W Zᵀ), by the chain rule: A = X L, B = Z R, f_L = Xᵀ core_A, f_R = Zᵀ core_B."""

    def __init__(self, core: Cost, X: Features, Z: Features):
        self.core, self.X, self.Z = core, X, Z
        self.shape = X.size, Z.size
        self.quadratic, self.nonnegative = core.quadratic, core.nonnegative

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

    def _map(
        self, Ls: Sequence[Array], Rs: Sequence[Array]
    ) -> tuple[list[NDArray[Any]], list[NDArray[Any]], Any]:
        arrays = checked_factors(self.shape, Ls, Rs)
        As = [self.X.times(L) for L in arrays[: len(Ls)]]
        Bs = [self.Z.times(R) for R in arrays[len(Ls) :]]
        return As, Bs, arrays[0].dtype

    def _back(self, example: Array, dtype: Any, f_A: NDArray[Any], f_B: NDArray[Any]) -> tuple[Array, Array]:
        f_L, f_R = self.X.transposed_times(f_A), self.Z.transposed_times(f_B)
        return like(example, f_L.astype(dtype, copy=False)), like(example, f_R.astype(dtype, copy=False))
