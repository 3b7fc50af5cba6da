"""The square loss along a curve of factors, as a polynomial: what a pass over some entries needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.entries.sorted_entries import SortedEntries, sweep


@dataclass(frozen=True, eq=False)
class Curve:
    """t ↦ (Σ As[i] tⁱ)(Σ Bs[j] tʲ)ᵀ, with the Bs laid out for `kernel`."""

    kernel: Any
    As: Sequence[NDArray[Any]]
    others: Any
    terms: int  # products of an A with a B

    @staticmethod
    def of(
        As: Sequence[NDArray[Any]], Bs: Sequence[NDArray[Any]], every: int, weighted: bool, few: bool
    ) -> Curve:
        """Lay out the factors of a curve, of which one in `every` rows will be asked for."""
        if every < 1:
            raise ValueError(f"every must be at least 1: one in so many rows is taken; got {every!r}")
        rank = As[0].shape[1]
        # Few entries gather from each row of a sample's factors: not worth to lay these out for.
        apart = every > 1 or rank > kernels.layout.SIDE_BY_SIDE
        kernel = kernels.polynomial.coefficients(rank, len(As), len(Bs), weighted, apart, few)
        others = kernels.layout.three(Bs) if apart else kernels.layout.laid_out(*Bs)
        return Curve(kernel, As, others, len(As) * len(Bs))

    def sums(
        self, side: SortedEntries, lines: Any = slice(None), every: int = 1, first: int = 0
    ) -> NDArray[np.float64]:
        """Coefficients and number of entries, by stripe and chunk, of a side that has these of all rows.

        One in `every` of its rows is taken, by their numbers from `first` on.
        """
        sums = np.empty((*side.chunks, kernels.polynomial.SUMS))
        own = kernels.layout.three([np.ascontiguousarray(A[lines]) for A in self.As])
        work = len(side.data) * self.As[0].shape[1] * self.terms / every
        sweep(self.kernel, work, (side, (own, self.others, np.uint64(every), np.uint64(first), sums)))
        return sums
