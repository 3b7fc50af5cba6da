"""The seam between a loss and the entries it is summed over: what every store of entries answers.

A store knows where its entries live: in memory (`rankfold.entries.observed`), or elsewhere. It passes over
them in five ways, and hands back arrays of the library and the precision that it was asked in. It checks the
shapes of the factors (`rankfold.entries.arrays.check_factors`), for its kernels trust them. Means are over
all entries, |Ω| of them, and each entry counts with its weight.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array = Any  # an array of any array-API namespace
NewValues = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[Any]]


class EntryLoss(Protocol):
    """What a store knows of a loss ℓ(w, y): its formula on arrays, and what compiled kernels call it."""

    @property
    def parameter(self) -> float:
        """A constant of the formula."""

    @property
    def kernel_key(self) -> Any:
        """Its number among `rankfold.kernels.formulas.BUILT_IN`, or a function that numba has compiled."""

    @property
    def is_square(self) -> bool:
        """Whether it is (w - y)²."""

    def __call__(self, w: Any, y: Any) -> tuple[Any, Any, Any]:
        """Return ℓ, ∂ℓ/∂w and ∂²ℓ/∂w², entry by entry."""


class Operator(Protocol):
    """A matrix known by its products with tall blocks."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of its entries."""

    def __matmul__(self, X: Array) -> Array: ...

    def transposed_times(self, X: Array) -> Array:
        """Aᵀ X."""


class EntryStore(Protocol):
    """Observed entries y_ij of a matrix, (i, j) in Ω, with weights if `weighted`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns of the matrix."""

    @property
    def size(self) -> int:
        """|Ω|, the number of observed entries."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type that is computed in, where factors do not say; most stores hold values so, too."""

    @property
    def weighted(self) -> bool:
        """Whether entries carry weights."""

    @property
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of entries of each row, and of each column."""

    def asarray(self, numbers: NDArray[Any]) -> Array:
        """Numbers as an array of the library, in the place that the entries are in and of type `dtype`."""

    def evaluate(self, L: Array, R: Array, loss: EntryLoss) -> tuple[float, Array, Array]:
        """Mean loss at W = L Rᵀ, S R and SᵀL, with S its gradient in W. Sums are added up in float64."""

    def value(self, L: Array, R: Array, loss: EntryLoss) -> float:
        """Mean loss at L Rᵀ alone."""

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Change of S R and SᵀL along (dL, dR)."""

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients of t ↦ mean of ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)², for one to three terms of each.

        With `every` above 1, the mean is over a sample that the store chooses, the same at each call: about
        one in `every` rows, or parts of rows.
        """

    def gradient(self, L: Array, R: Array, loss: EntryLoss) -> Operator:
        """Return S, whose entries outside Ω are zero."""

    def targets(self, loss: EntryLoss) -> Operator:
        """Return the entries of W that the data ask for, seen from W = 0, and zero outside Ω.

        The data themselves for the square loss, else where a gradient step leads: -ℓ'(0, y) / max ℓ''(0, y).
        """

    def value_at_zero(self, loss: EntryLoss) -> float:
        """Mean loss at W = 0."""

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same entries with values of another type."""

    def with_values(self, values: NewValues) -> Self:
        """Return the same entries with other values; weights are kept.

        `values(rows, cols, old)` is called block by block, with the positions and the values of a block.
        """


@runtime_checkable
class ModelStore(Protocol):
    """A store with a pass of its own for products with a Gauss–Newton model."""

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Return Ṡ R and ṠᵀL for the change Ṡ of S along (dL, dR), with max(ℓ″, 0) in the place of ℓ″."""


@runtime_checkable
class LineBlockStore(Protocol):
    """A store that makes the metric of its entries as well, by a sixth pass."""

    def blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Return 1/|Ω| Σ_j w ℓ″ R_j R_jᵀ of each row, (d1, r, r), and the same of L_i of each column."""
