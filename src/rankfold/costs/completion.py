"""Matrix completion: the mean loss over the observed entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from rankfold.costs.arrays import like, to_numpy
from rankfold.costs.base import Array, Cost, Evaluation, Products
from rankfold.costs.losses import Loss
from rankfold.entries.observed import Duplicates, Observed, sweep
from rankfold.remembered import remembered

if TYPE_CHECKING:
    from rankfold.entries.operators import SparseMatrix

# A step-size from this many entries is right to about 1/√entries: for CG as good as the exact one.
SAMPLED_ENTRIES = 200_000
MAX_SAMPLING = 8  # beyond it, laying out the factors costs more than the pass
BLOCK = 1 << 18  # entries whose losses are held at a time


class Completion(Cost):
    """f(W) = (1/|Ω|) Σ w_ij ℓ(W_ij, y_ij) over the observed entries (i, j) in Ω.

    The triples are checked, sorted by rows and by columns, and kept so; the arrays given are not.

    Parameters
    ----------
    rows, cols
        Integers, the position of each observed entry, in any order.
    values
        The observed entries y. Held in float32 if given so, else in float64.
    shape
        Numbers of rows and columns (d1, d2).
    weights
        Factors w >= 0 of the terms, 1 if not given. The sum is divided by |Ω| all the same, so doubling all
        weights doubles f.
    loss
        "square", "logistic", "huber", "poisson", "squared_hinge" or a `Loss`.
    duplicates
        What to do with an entry given twice: "error", or "keep" to count each as an observation of its own.

    Examples
    --------
    >>> import numpy as np
    >>> cost = Completion([0, 1, 1], [0, 0, 1], [1.0, 2.0, 4.0], (2, 2))
    >>> L, R = np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]])
    >>> cost.evaluate(L, R).value * 3
    4.0
    """

    def __init__(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int],
        weights: ArrayLike | None = None,
        loss: str | Loss = "square",
        duplicates: Duplicates = "error",
    ):
        self.loss = Loss.named(loss) if isinstance(loss, str) else loss
        self.loss.check_values(np.asarray(values))
        self._set(Observed.from_triples(rows, cols, values, shape, weights, duplicates))

    def _set(self, observed: Observed) -> None:
        self.observed = observed
        self.shape = observed.shape
        self.quadratic = self.loss.is_square
        self.nonnegative = self.loss.nonnegative

    @classmethod
    def from_observed(cls, observed: Observed, loss: Loss | None = None) -> Completion:
        """Take a set of entries that is checked and sorted already."""
        cost = object.__new__(cls)
        cost.loss = loss or Loss.named("square")
        cost._set(observed)
        return cost

    @classmethod
    def from_sparse(cls, matrix: Any, **options: Any) -> Completion:
        """Take the stored entries of a SciPy sparse matrix or array; stored zeros are observations.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> Completion.from_sparse(csr_array([[1.0, 0.0], [0.0, 2.0]])).observed.size
        2
        """
        triples = matrix.tocoo()
        return cls(triples.row, triples.col, triples.data, triples.shape, **options)

    @classmethod
    def from_dense(cls, array: ArrayLike, **options: Any) -> Completion:
        """Take the entries of a matrix that are not NaN.

        Examples
        --------
        >>> Completion.from_dense([[1.0, float("nan")], [3.0, 4.0]]).observed.size
        3
        """
        array = np.asarray(array)
        if array.ndim != 2:
            raise ValueError(f"array must be two-dimensional; got shape {array.shape}")
        rows, cols = np.nonzero(~np.isnan(array))
        return cls(rows, cols, array[rows, cols], array.shape, **options)

    @classmethod
    def from_frame(cls, frame: Any, shape: tuple[int, int] | None = None, **options: Any) -> Completion:
        """Take a DataFrame of triples: its columns "row", "col" and "value", or else its first three.

        Rows and columns are integers from 0; `shape` is what holds them all if it is not given. (For a table
        with holes, use `from_dense(frame.to_numpy())`.)

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"row": [0, 1, 1], "col": [0, 0, 1], "value": [1.0, 2.0, 4.0]})
        >>> Completion.from_frame(frame).shape
        (2, 2)
        """
        names = ["row", "col", "value"]
        if not set(names) <= set(frame.columns):
            names = list(frame.columns[:3])
        if len(names) < 3:
            raise ValueError(f"frame must have columns row, col and value; got {list(frame.columns)}")
        rows, cols, values = (frame[name].to_numpy() for name in names)
        if shape is None and len(frame):
            shape = int(rows.max()) + 1, int(cols.max()) + 1
        return cls(rows, cols, values, shape or (1, 1), **options)

    def astype(self, dtype: DTypeLike) -> Completion:
        """Return the same cost with its data held in another precision; positions are shared, not copied."""
        return self.from_observed(self.observed.astype(dtype), self.loss)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ; exact sums in float64 also for float32 factors."""
        from rankfold.kernels import sweeps

        A, B = self._factors((L,), (R,))
        rows, columns, size = self.observed.by_row, self.observed.by_column, self.observed.size
        kernel = sweeps.evaluation(A.shape[1], self.loss.kernel_key, self.observed.weighted)
        constants = self.loss.parameter, 1 / size
        sums, again = np.empty(rows.chunks), np.empty(columns.chunks)
        f_L, f_R = np.empty_like(A), np.empty_like(B)
        by_row, by_column = (A, B, *constants, sums, f_L), (B, A, *constants, again, f_R)
        sweep(kernel, 2 * size * A.shape[1], (rows, by_row), (columns, by_column))
        return Evaluation(float(sums.sum()) / size, *like(L, f_L, f_R))

    def value(self, L: Array, R: Array) -> float:
        """Value alone, in half the time of `evaluate`."""
        from rankfold.kernels import sweeps

        A, B = self._factors((L,), (R,))
        rows = self.observed.by_row
        kernel = sweeps.value(A.shape[1], self.loss.kernel_key, self.observed.weighted)
        sums = np.empty(rows.chunks)
        work = self.observed.size * A.shape[1]
        sweep(kernel, work, (rows, (A, B, self.loss.parameter, sums)))
        return float(sums.sum()) / self.observed.size

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR): Ṡ R + S dR and Ṡᵀ L + Sᵀ dL."""
        from rankfold.kernels import sweeps

        A, dA, B, dB = self._factors((L, dL), (R, dR))
        rows, columns, size = self.observed.by_row, self.observed.by_column, self.observed.size
        kernel = sweeps.derivative(A.shape[1], self.loss.kernel_key, self.observed.weighted)
        constants = self.loss.parameter, 1 / size
        As, Bs = sweeps.laid_out(A, dA), sweeps.laid_out(B, dB)
        df_L, df_R = np.empty_like(A), np.empty_like(B)
        by_row, by_column = (As, Bs, *constants, df_L), (Bs, As, *constants, df_R)
        sweep(kernel, 4 * size * A.shape[1], (rows, by_row), (columns, by_column))
        df_L, df_R = like(L, df_L, df_R)
        return df_L, df_R

    def gradient_products(self, L: Array, R: Array) -> Products:
        """Return the function (X, Y) ↦ (S X, SᵀY) for S = ∇f(L Rᵀ), which is sparse: it is computed once."""
        S = self.gradient_matrix(L, R)

        def products(X: Array, Y: Array) -> tuple[Array, Array]:
            X_, Y_ = to_numpy(X, Y)
            S_X, St_Y = like(L, S @ X_, S.transposed_times(Y_))
            return S_X, St_Y

        return products

    def gradient_matrix(self, L: Array, R: Array) -> SparseMatrix:
        """Return S = ∇f(L Rᵀ), whose entries outside Ω are zero."""
        from rankfold.entries.operators import slopes

        if not L.shape[1]:  # W = 0
            L, R = (np.zeros((d, 1), self.observed.dtype) for d in self.shape)
        A, B = self._factors((L,), (R,))
        return slopes(self.observed, A, B, self.loss.kernel_key, self.loss.parameter, 1 / self.observed.size)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ), for up to three of each.

        Examples
        --------
        >>> import numpy as np
        >>> cost = Completion([0], [0], [1.0], (1, 1))
        >>> one = np.ones((1, 1))
        >>> cost.polynomial([one, one], [one]).tolist()  # ((1 + t) 1 - 1)²
        [0.0, 0.0, 1.0]
        """
        return self._polynomial(Ls, Rs, every=1)

    def sampled_polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64] | None:
        """The same from some of the rows, if those hold entries enough to give good step-sizes."""
        every = min(self.observed.size // SAMPLED_ENTRIES, MAX_SAMPLING)
        return self._polynomial(Ls, Rs, every) if every > 1 else None

    def _polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int) -> NDArray[np.float64]:
        from rankfold.kernels import sweeps

        if not self.quadratic:
            return super().polynomial(Ls, Rs)
        if not (1 <= len(Ls) <= 3 and 1 <= len(Rs) <= 3):
            raise ValueError(
                f"polynomial takes one to three terms of each factor; got {len(Ls)} and {len(Rs)}"
            )
        factors = self._factors(Ls, Rs)
        As, Bs = factors[: len(Ls)], factors[len(Ls) :]
        rank, rows = As[0].shape[1], self.observed.by_row
        kernel = sweeps.polynomial(rank, len(As), len(Bs), self.observed.weighted)
        sums = np.empty((*rows.chunks, 10))
        work = self.observed.size * rank * len(As) * len(Bs) / every
        arrays = sweeps.laid_out(*As), sweeps.laid_out(*Bs)
        sweep(kernel, work, (rows, (*arrays, np.uint64(every), sums)))
        *totals, entries = sums.sum(axis=(0, 1))
        coefficients: NDArray[np.float64] = np.array(totals[: 2 * (len(As) + len(Bs)) - 3]) / (entries or 1)
        return coefficients

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the dominant rank-r SVD (U, s, V) of the zero-filled data, times d1 d2 / |Ω|.

        For other losses than the square, the data are replaced by what a gradient step from W = 0 makes of
        them: -ℓ'(0, y) / max ℓ''(0, y). Residuals of the singular vectors are at most 1e-2 of the largest
        singular value, where 40 steps of block Lanczos suffice for that.

        Examples
        --------
        >>> U, s, V = Completion.from_dense([[3.0, 0.0], [0.0, 1.0]]).start(1)
        >>> s.round(12).tolist()
        [3.0]
        """
        from rankfold.entries.lanczos import dominant_svd
        from rankfold.entries.operators import SparseMatrix

        if not (isinstance(rank, (int, np.integer)) and 1 <= rank <= min(self.shape)):
            raise ValueError(
                f"rank must be an integer from 1 to min(shape) = {min(self.shape)}; got {rank!r}"
            )
        by_row, by_column = (
            self._targets(side.data) for side in (self.observed.by_row, self.observed.by_column)
        )
        U, s, V = dominant_svd(SparseMatrix(self.observed, (by_row, by_column)), int(rank), seed)
        scale = self.shape[0] * self.shape[1] / self.observed.size
        return U, s * self.observed.dtype.type(scale), V

    def _targets(self, data: NDArray[Any]) -> NDArray[Any]:
        """Entries of W that the data ask for, seen from W = 0."""
        y = np.ascontiguousarray(data[:, 0])
        if self.loss.is_square:
            return y
        _, first, second = self.loss(np.zeros_like(y), y)
        return np.asarray(-first / (np.max(second) or 1.0), dtype=y.dtype)

    @remembered
    def value_at_zero(self) -> float:
        """Value at W = 0: for the square loss, the (weighted) mean square of the data."""
        data, total = self.observed.by_row.data, 0.0
        for first in range(0, len(data), BLOCK):  # losses of all entries at once would outgrow the data
            part = data[first : first + BLOCK].astype(np.float64)
            losses, _, _ = self.loss(np.zeros(len(part)), part[:, 0])
            total += float(np.sum(losses * part[:, 1] if self.observed.weighted else losses))
        return total / len(data)

    def _factors(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[NDArray[Any]]:
        """Factors as NumPy arrays, checked against the shape of W."""
        arrays = to_numpy(*Ls, *Rs)
        rank = arrays[0].shape[-1] if arrays[0].ndim == 2 else -1
        for k, array in enumerate(arrays):
            name, size = ("L", self.shape[0]) if k < len(Ls) else ("R", self.shape[1])
            if array.shape != (size, rank) or rank < 1:
                raise ValueError(
                    f"{name} must have shape ({size}, r) with one r >= 1 for all factors of a "
                    f"{self.shape[0]}x{self.shape[1]} matrix; got {', '.join(str(a.shape) for a in arrays)}"
                )
        return arrays
