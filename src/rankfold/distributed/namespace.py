"""The functions of an array library on matrices whose rows are spread, by those of the rows' own library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rankfold.linalg import primitives
from rankfold.linalg.rows import is_spread

Array = Any  # an array of any array-API namespace


class SpreadNamespace:
    """The functions of the library of the rows: on spread rows row by row, on all else as they are."""

    def __init__(self, local: Any) -> None:
        self._local, self.linalg = local, _Linalg(local)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def _each(self, function: Callable[..., Array], *arrays: Array, **options: Any) -> Array:
        """Do with the rows at hand what is done with arrays."""
        first = next((A for A in arrays if is_spread(A)), None)
        if first is None:
            return function(*arrays, **options)
        return first.like(function(*(first.rows_of(A) for A in arrays), **options))

    def concat(self, arrays: Sequence[Array], axis: int = 0) -> Array:
        """Join matrices side by side."""
        if not is_spread(arrays[0]):
            return self._local.concat(arrays, axis=axis)
        if axis != 1:
            raise ValueError("matrices whose rows are spread can only be joined side by side")
        return self._each(lambda *blocks: self._local.concat(blocks, axis=1), *arrays)

    def asarray(self, x: Array, **options: Any) -> Array:
        """Return a copy, or x itself."""
        return self._each(self._local.asarray, x, **options)

    def zeros_like(self, x: Array) -> Array:
        """Zeros."""
        return self._each(self._local.zeros_like, x)

    def isfinite(self, x: Array) -> Array:
        """Entry by entry."""
        return self._each(self._local.isfinite, x)

    def where(self, condition: Array, x: Array, y: Array) -> Array:
        """Entry by entry; the condition may be one for each column."""
        return self._each(self._local.where, condition, x, y)

    def all(self, x: Array) -> Any:
        """Whether all entries are, everywhere."""
        if not is_spread(x):
            return self._local.all(x)
        failing = float(not bool(self._local.all(x.block)))
        return not x.spread.sum(np.array([failing]))[0]


class _Linalg:
    """Decompositions: those of spread rows by way of everybody's triangles."""

    def __init__(self, local: Any) -> None:
        self._xp, self._local = local, local.linalg

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def qr(self, A: Array) -> tuple[Array, Array]:
        """QR of everybody's rows, then of the triangles on top of each other."""
        if not is_spread(A):
            Q, R = self._local.qr(A)
            return Q, R
        xp, k = self._xp, A.shape[1]
        Q, triangle = self._local.qr(A.block)
        rows = triangle.shape[0]  # fewer than k, where fewer rows are at hand
        padded = np.zeros((k, k), dtype=np.float64)
        padded[:rows] = primitives.on_host(triangle)
        stack = A.spread.group.stacked(padded).reshape(-1, k)
        Q2, R = self._local.qr(xp.asarray(stack, dtype=A.dtype, device=A.device))
        top = A.spread.group.rank * k
        return A.like(Q @ Q2[top : top + rows, :]), R

    def svd(self, A: Array, full_matrices: bool = True) -> tuple[Array, Array, Array]:
        """The same, then the singular value decomposition of R."""
        if not is_spread(A):
            U, s, Vt = self._local.svd(A, full_matrices=full_matrices)
            return U, s, Vt
        if full_matrices:
            raise ValueError("a matrix whose rows are spread has the thin decomposition only")
        Q, R = self.qr(A)
        U, s, Vt = self._local.svd(R, full_matrices=False)
        return Q @ U, s, Vt
