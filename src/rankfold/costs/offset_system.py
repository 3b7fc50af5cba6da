"""The best offsets of rows, columns and all entries for a given W: a linear system in the pattern of Ω."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray
from scipy import linalg, sparse

from rankfold.entries.observed import Observed
from rankfold.entries.operators import Indicator
from rankfold.entries.side_by_side import SideBySide
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.entries.store import Array
from rankfold.linalg.primitives import on_host

Floats = NDArray[np.float64]
Product = Callable[[Array], Array]
# Up to this many rows or columns the eliminated system is factored; beyond, conjugate gradients solve it.
MAX_FACTORED = 4096
BLOCK_ENTRIES = 1_000_000  # of the pattern that are multiplied at a time when that system is formed
TOLERANCE, MAX_STEPS = 1e-13, 1000
IN_MEMORY = Observed, SideBySide


class OffsetSystem:
    """The normal equations H β = a of the offsets β = (b, c, μ), with the larger of b and c eliminated.

    Only the pattern of Ω stands in H, and kernels multiply by it: nothing of the size of Ω is held. Offsets
    that are switched off (a ridge of None), or that neither data nor ridge determine, stay 0. All vectors are
    where the entries are, in double precision.
    """

    def __init__(
        self, store: Any, mean: float | None, rows: float | None, cols: float | None, by_counts: bool
    ):
        observed = _at_hand(store)
        self.size: int = store.size
        self.places: Any = getattr(store, "places", None)
        self.entry_weights, values = _on_pattern(observed)
        self._there: Product = _as_double if isinstance(observed, IN_MEMORY) else observed.as_double
        ones = [self._there(np.ones((d, 1))) for d in observed.shape]
        counts = on_host(self.sums(*ones))
        scales = np.append(np.maximum(counts[:-1], 1.0) if by_counts else np.ones(counts.size - 1), 1.0)
        numbers = (*observed.shape, 1)
        ridges = scales * np.repeat([ridge or 0.0 for ridge in (rows, cols, mean)], numbers)
        switched_on = np.repeat([ridge is not None for ridge in (rows, cols, mean)], numbers)
        self.ridges = self._there(ridges)
        self.data_sums = self._sums(values, *ones)
        self._eliminate(observed, counts, counts + ridges, switched_on & (counts + ridges > 0))

    def sums(self, A: Any, B: Any) -> Array:
        """Sums of the (weighted) entries of A Bᵀ on Ω: by row, by column and in all."""
        return self._sums(self.entry_weights, self._there(A), self._there(B))

    def _sums(self, S: Any, A: Array, B: Array) -> Array:
        """Sums of the entries of A Bᵀ, each times that of S: by row, by column and in all."""
        by_row, by_col = _row_dots(A, S @ B), _row_dots(B, S.transposed_times(A))
        xp = array_namespace(A)
        return xp.concat([by_row, self._added_up(xp.concat([by_col, xp.sum(by_row)[None]]))])

    def _added_up(self, numbers: Array) -> Array:
        """Sums over all rows, from those over the rows at hand."""
        return numbers if self.places is None else np.asarray(self.places[0].sum(numbers))

    def all_rows(self, numbers: Floats) -> Floats:
        """Numbers of all rows, from those of the rows at hand."""
        if self.places is None:
            return numbers
        own = np.ascontiguousarray(numbers[:, None])
        return np.asarray(self.places[0].array(own).whole(exact=True))[:, 0]

    def inner(self, x: Array, y: Array) -> Array:
        """Return x y, of right-hand sides as rows and solutions as columns."""
        rows = len(self.ridges) - 1 - self.width
        return self._added_up(x[:, :rows] @ y[:rows]) + x[:, rows:] @ y[rows:]

    def offsets(self, A: Any, B: Any) -> Array:
        """The best β for W = A Bᵀ."""
        return self.solve(self.data_sums - self.sums(A, B))

    def penalty(self, beta: Array) -> float:
        """What the ridges charge for β."""
        charges = self.ridges * beta**2
        rows = len(beta) - 1 - self.width
        at_hand = self._added_up(charges[:rows].sum()[None])
        return float(at_hand[0] + charges[rows:].sum()) / self.size

    def solve(self, rhs: Array) -> Array:
        """H⁻¹ times one right-hand side, or several as columns."""
        if rhs.ndim == 1:
            return self.solve(rhs[:, None])[:, 0]
        xp = array_namespace(rhs)
        large, small = rhs[self.large], xp.concat([rhs[self.small], rhs[-1:]])
        small = self._solve_small(self.small_free * (small - self._F_transposed_times(large / self.D)))
        result = xp.empty_like(rhs)
        result[self.large] = (large - self._F_times(small)) / self.D
        result[self.small], result[-1] = small[:-1], small[-1]
        return result

    def _eliminate(self, observed: Any, counts: Floats, diagonal: Floats, free: Any) -> None:
        """Split H = [[D, F], [Fᵀ, K]] with D, of the larger side, diagonal: K − FᵀD⁻¹F remains."""
        d1, d2 = observed.shape
        self.width = d2
        own = slice(0, d1), slice(d1, d1 + d2)
        products: tuple[Product, Product] = self.entry_weights.__matmul__, self.entry_weights.transposed_times
        tall = d1 >= d2 or self.places is not None  # of rows that are spread, each process has its own
        self.large: slice = own[0] if tall else own[1]
        self.small: slice = own[1] if tall else own[0]
        self._N_times, self._N_transposed_times = products if tall else products[::-1]
        # An infinite diagonal holds offsets of the large side at 0; a row and column of the identity, others.
        diagonal, free = diagonal[:, None], free[:, None]
        self.D = self._there(np.where(free, diagonal, np.inf)[self.large])
        small_free = np.concatenate([free[self.small], free[-1:]])
        K = np.where(small_free, np.concatenate([diagonal[self.small], diagonal[-1:]]), 1.0)
        self.K, self.small_free = self._there(K), self._there(small_free)
        self.large_counts = self._there(counts[self.large, None])
        self.small_counts = self._there(counts[self.small, None])
        self.factor: Any = None
        if len(self.K) <= MAX_FACTORED and isinstance(observed, Observed):
            plain = observed.plain
            self._factorise(plain.by_row if tall else plain.by_column)

    def _F_times(self, x: Array) -> Array:
        """F = [N, counts of the large side]: the mean's column is N's sum."""
        return self._N_times(x[:-1]) + self.large_counts * x[-1:]

    def _F_transposed_times(self, y: Array) -> Array:
        parts = [self._N_transposed_times(y), self.large_counts.T @ y]
        return self._added_up(array_namespace(y).concat(parts))

    def _K_times(self, x: Array) -> Array:
        out = self.K * x
        out[:-1] += self.small_counts * x[-1:]
        out[-1:] += self.small_counts.T @ x[:-1]
        return out

    def _schur_times(self, x: Array) -> Array:
        return self.small_free * (self._K_times(x) - self._F_transposed_times(self._F_times(x) / self.D))

    def _factorise(self, side: SortedEntries) -> None:
        """K − FᵀD⁻¹F as a dense matrix, NᵀD⁻¹N summed up over blocks of the large side."""
        schur = np.zeros((len(self.K),) * 2)
        for lines, N in _blocks(side, len(self.K) - 1):
            schur[:-1, :-1] -= (N.T @ (N / self.D[lines])).toarray()
        schur = np.diag(self.K.ravel()) + self._added_up(schur)
        last = np.zeros((len(self.K), 1))
        last[-1] = 1.0
        schur[:, -1:] = self._schur_times(last)
        schur[-1:, :] = schur[:, -1:].T
        held = self.small_free.ravel() == 0
        schur[held, :] = schur[:, held] = 0.0
        schur[held, held] = 1.0
        self.factor = linalg.cho_factor(schur)

    def _solve_small(self, rhs: Array) -> Array:
        if self.factor is not None:
            return np.asarray(linalg.cho_solve(self.factor, rhs))
        return conjugate_gradients(self._schur_times, rhs, self.K)


def conjugate_gradients(times: Product, rhs: Array, diagonal: Array) -> Array:
    """Solve for each column of `rhs`, preconditioned by the diagonal; all columns share each product."""
    xp = array_namespace(rhs)
    x, r = xp.zeros_like(rhs), 1 * rhs
    z = r / diagonal
    p, rz = z, xp.sum(r * z, axis=0)
    enough, nothing = TOLERANCE**2 * rz, xp.zeros_like(rz)
    for _ in range(MAX_STEPS):
        if bool(xp.all(rz <= enough)):
            break
        image = times(p)
        # A column that is solved stands still: its step would be 0/0.
        bend = xp.clip(xp.sum(p * image, axis=0), min=float(np.finfo(float).tiny))
        alpha = xp.where(rz > enough, rz / bend, nothing)
        x, r = x + alpha * p, r - alpha * image
        z = r / diagonal
        before, rz = rz, xp.where(rz > enough, xp.sum(r * z, axis=0), rz)
        there = before > 0
        p = z + xp.where(there, rz / xp.where(there, before, xp.ones_like(before)), nothing) * p
    return x


def _at_hand(store: Any) -> Any:
    """Return the entries at hand: of several processes', in memory, and there must be some."""
    places = getattr(store, "places", None)
    observed = store if places is None else store.block
    if places is not None and places[0].sum(np.array([float(not isinstance(observed, IN_MEMORY))]))[0]:
        raise ValueError(
            "offsets need entries in memory in every process: start fewer processes, or on the CPU"
        )
    if not (isinstance(observed, IN_MEMORY) or getattr(observed, "on_device", False)):
        raise TypeError(f"offsets need the entries in memory; these are held by {type(store).__name__}")
    return observed


def _on_pattern(store: Any) -> tuple[Any, Any]:
    """The weights of the entries, and their values times these, on the pattern of Ω in double precision."""
    if isinstance(store, SideBySide):
        pairs = [_on_pattern(each) for each, _ in store.stores]
        return store.joined([weights for weights, _ in pairs]), store.joined([values for _, values in pairs])
    if not isinstance(store, Observed):
        on_device: tuple[Any, Any] = store.weights_and_values()
        return on_device
    weights = store.of_data(lambda data: data[:, 1], np.float64) if store.weighted else Indicator(store)
    return weights, store.of_data(lambda data: np.prod(data, axis=1, dtype=np.float64), np.float64)


def _as_double(numbers: Array) -> Array:
    return numbers.astype(np.float64, copy=False)


def _row_dots(A: Array, B: Array) -> Array:
    return np.einsum("ik,ik->i", A, B) if type(A) is np.ndarray else (A * B).sum(1)


def _blocks(side: SortedEntries, length: int) -> Iterator[tuple[slice, Any]]:
    """Cut the lines of a plain side into blocks: which lines, and their weights as a sparse matrix."""
    indptr, columns = side.indptr.astype(np.int64), side.indices
    cuts = np.searchsorted(indptr, np.arange(0, indptr[-1] + BLOCK_ENTRIES, BLOCK_ENTRIES))
    for start, stop in zip(cuts[:-1], np.minimum(cuts[1:], side.lines), strict=True):
        if start < stop:
            entries = slice(indptr[start], indptr[stop])
            data = side.data[entries]
            weights = data[:, 1].astype(np.float64) if data.shape[1] == 2 else np.ones(len(data))
            indices = columns[entries].astype(np.int64)
            pointers = indptr[start : stop + 1] - indptr[start]
            yield slice(start, stop), sparse.csr_array((weights, indices, pointers), (stop - start, length))
