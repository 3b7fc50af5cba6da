"""Matrix completion: the mean loss over the observed entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_torch_array
from array_api_compat import device as device_of
from numpy.typing import ArrayLike, DTypeLike, NDArray

from rankfold.costs.base import Array, Cost, Evaluation, LineBlocks, Products
from rankfold.costs.losses import Loss
from rankfold.costs.start import shortened
from rankfold.entries.devices import gpu_store, moved, usable_device
from rankfold.entries.given_arrays import own_sparse, real_vector, with_holes
from rankfold.entries.lanczos import dominant_svd, random_block
from rankfold.entries.observed import Duplicates, Observed
from rankfold.entries.store import EntryStore, LineBlockStore, ModelStore, Operator
from rankfold.linalg.lines import Blocks
from rankfold.remembered import remembered

# A step-size from this many entries is right to about 1/√entries: for CG as good as the exact one. 80,000
# take as many iterations on P1, P3 and 4000², r = 10, ρ = 3, medians of five seeds.
SAMPLED_ENTRIES = 20_000
MAX_SAMPLING = 16  # 32 takes as many iterations on P2 and P5, and saves little more


class Completion(Cost):
    """f(W) = (1/|Ω|) Σ w_ij ℓ(W_ij, y_ij) over the observed entries (i, j) in Ω.

    The triples are checked, sorted by rows and by columns, and kept so (in memory, unless `from_observed` is
    given another `rankfold.entries.store`); the arrays given are not.

    Parameters
    ----------
    rows, cols
        Integers, the position of each observed entry, in any order.
    values
        The observed entries y. Held, and computed with, in float32 if given so, else in float64.
    shape
        Numbers of rows and columns (d1, d2).
    weights
        Factors w >= 0 of the terms, 1 if not given. The sum is divided by |Ω| all the same, so doubling all
        weights doubles f.
    loss
        "square", "logistic", "huber", "poisson", "squared_hinge" or a `Loss`.
    duplicates
        What to do with an entry given twice: "error", or "keep" to count each as an observation of its own.
    device
        "cpu", or "cuda" for a GPU (with torch and Triton); where `values` are, if not given. Factors are best
        torch tensors on the same device, as `start` gives them.
    storage
        "float32" to hold values and weights so, in half the memory, while factors, sums and all arithmetic
        stay in float64: values that float32 has, such as ratings in halves, lose nothing, and others are
        rounded, by 6e-8 of their size. "float64" to hold, and compute with, float32 values so. In memory.

    Examples
    --------
    >>> import numpy as np
    >>> cost = Completion([0, 1, 1], [0, 0, 1], [1.0, 2.0, 4.0], (2, 2))
    >>> L, R = np.array([[1.0], [2.0]]), np.array([[1.0], [1.0]])
    >>> cost.evaluate(L, R).value * 3
    4.0
    >>> half = Completion([0, 1, 1], [0, 0, 1], [1.0, 2.0, 4.0], (2, 2), storage="float32")
    >>> half.evaluate(L, R).value == cost.evaluate(L, R).value  # 12 bytes an entry, and not 20
    True
    """

    def __init__(
        self,
        rows: ArrayLike,
        cols: ArrayLike,
        values: Any,
        shape: tuple[int, int],
        weights: ArrayLike | None = None,
        loss: str | Loss = "square",
        duplicates: Duplicates = "error",
        device: Any = None,
        storage: DTypeLike | None = None,
    ):
        self.loss = Loss.named(loss) if isinstance(loss, str) else loss
        if device is None and is_torch_array(values):
            device = device_of(values)
        if device is None or str(device) == "cpu":
            self.loss.check_values(real_vector("values", values))
            options: Any = {"duplicates": duplicates, "storage": storage}
            self._set(Observed.from_triples(rows, cols, values, shape, weights, **options))
        elif storage is not None:
            raise ValueError(f"storage is for entries in memory: leave it out with device={str(device)!r}")
        else:
            kind = gpu_store(device, 0 if is_torch_array(values) and values.is_cuda else len(values))
            self._set(kind.from_triples(rows, cols, values, shape, weights, duplicates, device))
            given: Any = values if is_torch_array(values) else np.asarray(values)
            self.loss.check_values(given)

    def _set(self, store: EntryStore) -> None:
        self.store = store
        self.shape = store.shape
        self.quadratic = self.loss.is_square
        self.nonnegative = self.loss.nonnegative
        self.has_line_blocks = isinstance(store, LineBlockStore)

    @property
    def places(self) -> tuple[Any, Any] | None:
        """Which process has which rows of L, and of R; None where all entries are in one."""
        return getattr(self.store, "places", None)

    @property
    def device(self) -> Any:
        """The GPU that the entries are on, or pass through; None if they are in memory."""
        if getattr(self.store, "on_device", False):
            return device_of(self.store.asarray(np.zeros(1)))
        return getattr(self.store, "device", None)

    @property
    def observed(self) -> Observed:
        """The entries, if they are held in memory by rows and by columns."""
        if not isinstance(self.store, Observed):
            raise TypeError(
                f"this needs the entries in memory, and they are held by {type(self.store).__name__}: "
                "build the cost by Completion(rows, cols, values, shape)"
            )
        return self.store

    @classmethod
    def from_observed(cls, store: EntryStore, loss: Loss | None = None) -> Completion:
        """Take a store of entries that are checked and sorted already."""
        cost = object.__new__(cls)
        cost.loss = loss or Loss.named("square")
        cost._set(store)
        return cost

    @classmethod
    def from_triples(cls, triples: Any, **options: Any) -> Completion:
        """Take `rows`, `cols`, `values` and `shape` of an object, such as `data.read_triples` reads."""
        return cls(triples.rows, triples.cols, triples.values, triples.shape, **options)

    @classmethod
    def from_sparse(cls, matrix: Any, **options: Any) -> Completion:
        """Take the stored entries of a SciPy sparse matrix or array; stored zeros are observations."""
        triples = own_sparse("matrix", matrix, "coo")
        return cls(triples.row, triples.col, triples.data, triples.shape, **options)

    @classmethod
    def from_dense(cls, array: ArrayLike, **options: Any) -> Completion:
        """Take the entries of a matrix that are neither NaN nor masked.

        Examples
        --------
        >>> Completion.from_dense([[1.0, float("nan")], [3.0, 4.0]]).observed.size
        3
        """
        array = np.asarray(with_holes(array))
        if array.ndim != 2:
            raise ValueError(f"array must be two-dimensional; got shape {array.shape}")
        if array.dtype.kind not in "fiub":
            raise TypeError(f"array must hold real numbers; got {array.dtype}")
        if not array.size:
            raise ValueError(f"array is empty: it has the shape {array.shape}")
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
        return cls(rows, cols, values, shape or (_count(rows), _count(cols)), **options)

    def astype(self, dtype: DTypeLike) -> Completion:
        """Return the same cost with data held, and computed with, in another type; positions are shared."""
        return self.from_observed(self.store.astype(dtype), self.loss)

    def on(self, device: str) -> Completion:
        """Return the same cost with its entries, now in memory, on a GPU: "cuda", or "auto" if there is one.

        Examples
        --------
        >>> cost = Completion([0, 1], [0, 1], [1.0, 2.0], (2, 2))
        >>> cost.on("cpu") is cost
        True
        """
        place = usable_device(device)
        if place == "cpu":
            return self
        return self.from_observed(moved(self.observed, place), self.loss)

    def fingerprint(self) -> dict[str, str | float]:
        """That of the entries, where they have one, and the loss."""
        if not hasattr(self.store, "fingerprint"):
            return super().fingerprint()
        loss = f"{getattr(self.loss.formula, '__qualname__', '')}({self.loss.parameter!r})"
        return {**self.store.fingerprint, "loss": loss}

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ; exact sums in float64 also for float32 factors."""
        return Evaluation(*self.store.evaluate(L, R, self.loss))

    def evaluate_ahead(self, L: Array, R: Array) -> Evaluation:
        """The same, without a wait for a GPU."""
        ahead = getattr(self.store, "evaluate_ahead", None)
        if ahead is None or type(self).evaluate is not Completion.evaluate:
            return super().evaluate_ahead(L, R)
        return Evaluation(*ahead(L, R, self.loss))

    def value(self, L: Array, R: Array) -> float:
        """Value alone, in half the time of `evaluate`."""
        return self.store.value(L, R, self.loss)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR): Ṡ R + S dR and Ṡᵀ L + Sᵀ dL."""
        return self.store.derivative(L, R, dL, dR, self.loss)

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR), for positive ℓ″, in one pass where the store has it."""
        if not isinstance(self.store, ModelStore):
            return super().gauss_newton(L, R, dL, dR)
        return self.store.gauss_newton(L, R, dL, dR, self.loss)

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return 1/|Ω| Σ w ℓ″ R_j R_jᵀ of each row, and the same of each column, with every ℓ″ at L Rᵀ."""
        if not isinstance(self.store, LineBlockStore):
            return super().line_blocks(L, R)
        return LineBlocks(*self.store.blocks(L, R, self.loss))

    def blocks_to_invert(self, L: Array, R: Array) -> tuple[Blocks, Blocks]:
        """Return the same blocks, or, in memory, what makes them one group of lines after the other."""
        unformed = getattr(self.store, "unformed_blocks", None)
        found = unformed(L, R, self.loss) if unformed else None
        return self.line_blocks(L, R) if found is None else found

    def gradient_products(self, L: Array, R: Array) -> Products:
        """Return the function (X, Y) ↦ (S X, SᵀY) for S = ∇f(L Rᵀ), which is sparse: it is computed once."""
        S = self.gradient_matrix(L, R)
        return lambda X, Y: (S @ X, S.transposed_times(Y))

    def gradient_matrix(self, L: Array, R: Array) -> Operator:
        """Return S = ∇f(L Rᵀ), whose entries outside Ω are zero."""
        if not L.shape[1]:  # W = 0
            xp, place = array_namespace(L), device_of(L)
            none = xp.zeros((0, 1), dtype=L.dtype, device=place)
            L, R = L @ none, R @ none  # zeros, each where its row is
        return self.store.gradient(L, R, self.loss)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ), from one in `every` rows."""
        if not self.quadratic:
            return super().polynomial(Ls, Rs)
        if not (1 <= len(Ls) <= 3 and 1 <= len(Rs) <= 3):
            raise ValueError(
                f"polynomial takes one to three terms of each factor; got {len(Ls)} and {len(Rs)}"
            )
        return self.store.polynomial(Ls, Rs, every)

    def sampled_polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64] | None:
        """The polynomial of the entries of some rows, if those are enough to give good step-sizes."""
        enough = getattr(self.store, "sampled_entries", SAMPLED_ENTRIES)
        every = min(self.store.size // enough, getattr(self.store, "most_sampling", MAX_SAMPLING))
        return self.polynomial(Ls, Rs, every) if every > 1 else None

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the dominant rank-r SVD (U, s, V) of the zero-filled data, times d1 d2 / |Ω|.

        For other losses than the square, the data are replaced by what a gradient step from W = 0 makes of
        them: -ℓ'(0, y) / max ℓ''(0, y), and the start is halved until it is better than W = 0. Residuals of
        the singular vectors are at most 1e-2 of the largest singular value, where 40 steps of block Lanczos
        suffice for that.
        """
        if not (isinstance(rank, (int, np.integer)) and 1 <= rank <= min(self.shape)):
            raise ValueError(
                f"rank must be an integer from 1 to min(shape) = {min(self.shape)}; got {rank!r}"
            )
        first = self.store.asarray(random_block(self.shape, int(rank), seed))
        U, s, V = dominant_svd(self.store.targets(self.loss), int(rank), first=first)
        return U, shortened(self, U, s * (self.shape[0] * self.shape[1] / self.store.size), V), V

    @remembered
    def value_at_zero(self) -> float:
        """Value at W = 0: for the square loss, the (weighted) mean square of the data."""
        return self.store.value_at_zero(self.loss)


def _count(positions: NDArray[Any]) -> int:
    """Return how many lines hold these positions; one, if they are none: what is wrong is said later."""
    return 1 + max(0, int(positions.max())) if positions.size and positions.dtype.kind in "iu" else 1
