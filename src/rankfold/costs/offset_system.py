"""The best offsets of rows, columns and all entries for a given W: a linear system in the pattern of Ω."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from rankfold.entries.observed import Observed
from rankfold.entries.operators import Indicator, SparseMatrix
from rankfold.entries.sorted_entries import SortedEntries

Floats = NDArray[np.float64]
Product = Callable[[Floats], Floats]
# Up to this many rows or columns the eliminated system is factored; beyond, conjugate gradients solve it.
MAX_FACTORED = 4096
BLOCK_ENTRIES = 1_000_000  # of the pattern that are multiplied at a time when that system is formed
TOLERANCE, MAX_STEPS = 1e-13, 1000


class OffsetSystem:
    """The normal equations H β = a of the offsets β = (b, c, μ), with the larger of b and c eliminated.

    Only the pattern of Ω stands in H, and kernels multiply by it: nothing of the size of Ω is held. Offsets
    that are switched off (a ridge of None), or that neither data nor ridge determine, stay 0.
    """

    def __init__(
        self, store: Any, mean: float | None, rows: float | None, cols: float | None, by_counts: bool
    ):
        self.size: int = store.size
        self.places: Any = getattr(store, "places", None)
        observed = _in_memory(store)
        self.entry_weights: Indicator | SparseMatrix = Indicator(observed)
        if observed.weighted:
            weights = [np.array(side.data[:, 1], dtype=np.float64) for side in observed.sides]
            self.entry_weights = SparseMatrix(observed, (weights[0], weights[1]))
        ones = [np.ones((d, 1)) for d in observed.shape]
        counts = self.sums(*ones)
        scales = np.append(np.maximum(counts[:-1], 1.0) if by_counts else np.ones(counts.size - 1), 1.0)
        numbers = (*observed.shape, 1)
        self.ridges = scales * np.repeat([ridge or 0.0 for ridge in (rows, cols, mean)], numbers)
        switched_on = np.repeat([ridge is not None for ridge in (rows, cols, mean)], numbers)
        self.free = switched_on & (counts + self.ridges > 0)
        values = [np.prod(side.data, axis=1, dtype=np.float64) for side in observed.sides]
        self.data_sums = self._sums(SparseMatrix(observed, (values[0], values[1])), *ones)
        self._eliminate(observed, counts)

    def sums(self, A: Any, B: Any) -> Floats:
        """Sums of the (weighted) entries of A Bᵀ on Ω: by row, by column and in all."""
        return self._sums(
            self.entry_weights, A.astype(np.float64, copy=False), B.astype(np.float64, copy=False)
        )

    def _sums(self, S: Indicator | SparseMatrix, A: Floats, B: Floats) -> Floats:
        """Sums of the entries of A Bᵀ, each times that of S: by row, by column and in all."""
        by_row = np.einsum("ik,ik->i", A, S @ B)
        by_col = np.einsum("jk,jk->j", B, S.transposed_times(A))
        return np.concatenate([by_row, self._added_up(np.append(by_col, by_row.sum()))])

    def _added_up(self, numbers: Floats) -> Floats:
        """Sums over all rows, from those over the rows at hand."""
        return numbers if self.places is None else np.asarray(self.places[0].sum(numbers))

    def all_rows(self, numbers: Floats) -> Floats:
        """Numbers of all rows, from those of the rows at hand."""
        if self.places is None:
            return numbers
        own = np.ascontiguousarray(numbers[:, None])
        return np.asarray(self.places[0].array(own).whole(exact=True))[:, 0]

    def inner(self, x: Floats, y: Floats) -> Floats:
        """Return x y, of right-hand sides as rows and solutions as columns."""
        rows = self.ridges.size - 1 - self.width
        at_hand: Floats = self._added_up(x[:, :rows] @ y[:rows])
        return at_hand + x[:, rows:] @ y[rows:]

    def offsets(self, A: Any, B: Any) -> Floats:
        """The best β for W = A Bᵀ."""
        return self.solve(self.data_sums - self.sums(A, B))

    def penalty(self, beta: Floats) -> float:
        """What the ridges charge for β."""
        charges = self.ridges * beta**2
        rows = beta.size - 1 - self.width
        at_hand = self._added_up(charges[:rows].sum(keepdims=True))
        return float(at_hand[0] + charges[rows:].sum()) / self.size

    def solve(self, rhs: Floats) -> Floats:
        """H⁻¹ times one right-hand side, or several as columns."""
        if rhs.ndim == 1:
            return self.solve(rhs[:, None])[:, 0]
        large, small = rhs[self.large], np.concatenate([rhs[self.small], rhs[-1:]])
        small = self._solve_small(self.small_free * (small - self._F_transposed_times(large / self.D)))
        result = np.empty_like(rhs)
        result[self.large] = (large - self._F_times(small)) / self.D
        result[self.small], result[-1] = small[:-1], small[-1]
        return result

    def _eliminate(self, observed: Observed, counts: Floats) -> None:
        """Split H = [[D, F], [Fᵀ, K]] with D, of the larger side, diagonal: K − FᵀD⁻¹F remains."""
        d1, d2 = observed.shape
        self.width = d2
        own = slice(0, d1), slice(d1, d1 + d2)
        products: tuple[Product, Product] = self.entry_weights.__matmul__, self.entry_weights.transposed_times
        tall = d1 >= d2 or self.places is not None  # of rows that are spread, each process has its own
        self.large, self.small = own if tall else own[::-1]
        self._N_times, self._N_transposed_times = products if tall else products[::-1]
        # An infinite diagonal holds offsets of the large side at 0; a row and column of the identity, others.
        diagonal, free = (counts + self.ridges)[:, None], self.free[:, None]
        self.D = np.where(free, diagonal, np.inf)[self.large]
        self.small_free = np.concatenate([free[self.small], free[-1:]])
        self.K = np.where(self.small_free, np.concatenate([diagonal[self.small], diagonal[-1:]]), 1.0)
        self.large_counts, self.small_counts = counts[self.large, None], counts[self.small, None]
        self.factor: Any = None
        if len(self.K) <= MAX_FACTORED:
            plain = observed.plain
            self._factorise(plain.by_row if tall else plain.by_column)

    def _F_times(self, x: Floats) -> Floats:
        """F = [N, counts of the large side]: the mean's column is N's sum."""
        return self._N_times(x[:-1]) + self.large_counts * x[-1:]

    def _F_transposed_times(self, y: Floats) -> Floats:
        return self._added_up(np.concatenate([self._N_transposed_times(y), self.large_counts.T @ y]))

    def _K_times(self, x: Floats) -> Floats:
        out = self.K * x
        out[:-1] += self.small_counts * x[-1:]
        out[-1:] += self.small_counts.T @ x[:-1]
        return out

    def _schur_times(self, x: Floats) -> Floats:
        return self.small_free * (self._K_times(x) - self._F_transposed_times(self._F_times(x) / self.D))

    def _factorise(self, side: SortedEntries) -> None:
        """K − FᵀD⁻¹F as a dense matrix, NᵀD⁻¹N summed up over blocks of the large side."""
        schur = np.zeros((len(self.K),) * 2)
        for lines, N in _blocks(side, len(self.K) - 1):
            schur[:-1, :-1] -= (N.T @ (N / self.D[lines])).toarray()
        schur = np.diag(self.K[:, 0]) + self._added_up(schur)
        last = np.zeros((len(self.K), 1))
        last[-1] = 1.0
        schur[:, -1:] = self._schur_times(last)
        schur[-1:, :] = schur[:, -1:].T
        held = ~self.small_free[:, 0]
        schur[held, :] = schur[:, held] = 0.0
        schur[held, held] = 1.0
        self.factor = linalg.cho_factor(schur)

    def _solve_small(self, rhs: Floats) -> Floats:
        if self.factor is not None:
            return np.asarray(linalg.cho_solve(self.factor, rhs))
        return conjugate_gradients(self._schur_times, rhs, self.K)


def conjugate_gradients(times: Product, rhs: Floats, diagonal: Floats) -> Floats:
    """Solve for each column of `rhs`, preconditioned by the diagonal; all columns share each product."""
    x, r = np.zeros_like(rhs), rhs.copy()
    z = r / diagonal
    p, rz = z, np.sum(r * z, axis=0)
    enough = TOLERANCE**2 * rz
    for _ in range(MAX_STEPS):
        if np.all(rz <= enough):
            break
        image = times(p)
        # A column that is solved stands still: its step would be 0/0.
        alpha = np.where(rz > enough, rz / np.maximum(np.sum(p * image, axis=0), np.finfo(float).tiny), 0.0)
        x, r = x + alpha * p, r - alpha * image
        z = r / diagonal
        before, rz = rz, np.where(rz > enough, np.sum(r * z, axis=0), rz)
        p = z + np.divide(rz, before, out=np.zeros_like(rz), where=before > 0) * p
    return x


def _in_memory(store: Any) -> Observed:
    """Return the entries at hand, of which there must be some, in memory."""
    places, observed = getattr(store, "places", None), store
    if places is not None:
        observed = store.block
        if places[0].sum(np.array([float(not isinstance(observed, Observed))]))[0]:
            raise ValueError(
                "offsets need entries in memory in every process: start fewer processes, or on the CPU"
            )
    if not isinstance(observed, Observed):
        raise TypeError(
            f"offsets need the entries in memory, and {type(store).__name__} holds them elsewhere"
        )
    return observed


def _blocks(side: SortedEntries, length: int) -> Iterator[tuple[slice, Any]]:
    """Cut the lines of a plain side into blocks: which lines, and their weights as a sparse matrix."""
    indptr = side.indptr.astype(np.int64)
    cuts = np.searchsorted(indptr, np.arange(0, indptr[-1] + BLOCK_ENTRIES, BLOCK_ENTRIES))
    for start, stop in zip(cuts[:-1], np.minimum(cuts[1:], side.lines), strict=True):
        if start < stop:
            entries = slice(indptr[start], indptr[stop])
            data = side.data[entries]
            weights = data[:, 1].astype(np.float64) if data.shape[1] == 2 else np.ones(len(data))
            indices = side.indices[entries].astype(np.int64)
            pointers = indptr[start : stop + 1] - indptr[start]
            yield slice(start, stop), sparse.csr_array((weights, indices, pointers), (stop - start, length))
