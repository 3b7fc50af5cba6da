"""Features in their own units become traits: centred, scaled, and as few as tell lines apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.entries.lanczos import dominant_svd
from rankfold.estimators.completion.side.tables import Encoding, Table
from rankfold.linalg import thin_svd

Floats = NDArray[Any]
MOST = 300  # traits: of more features, the directions in which lines differ most
_NOTHING = 1e-10  # of the largest: a direction in which no two lines differ
_TOLERANCE = 1e-3


class Traits(NamedTuple):
    """z = (x − centre) · basis for the features x of a line; one that is missing is as on average.

    Ridge regression on z is ridge regression on the features in units of their deviations, if there are no
    more than `MOST` of these.
    """

    encoding: Encoding
    centre: Floats
    basis: Floats

    @classmethod
    def of(cls, table: Table, what: str) -> tuple[Traits, Floats]:
        """Look at features, and return the traits of their lines beside."""
        encoding = Encoding.of(table)
        X = encoding.numbers(table, what)
        centre, scale = _moments(X)
        V = _directions(X, centre, scale)
        made = cls(encoding, centre, scale[:, None] * V)
        return made, made._traits(X)

    def __call__(self, table: Table, what: str) -> Floats:
        """Return the traits of other lines."""
        return self._traits(self.encoding.numbers(table, what))

    def _traits(self, X: Any) -> Floats:
        if sparse.issparse(X):
            return np.asarray(X @ self.basis - self.centre @ self.basis)
        return np.asarray(np.where(np.isnan(X), 0.0, X - self.centre) @ self.basis)


def _moments(X: Any) -> tuple[Floats, Floats]:
    """Means, and one over the deviations (0 for a feature that is everywhere the same)."""
    if sparse.issparse(X):
        centre = np.asarray(X.mean(axis=0)).ravel()
        squares = np.asarray(X.multiply(X).mean(axis=0)).ravel() - centre**2
    else:
        known = ~np.isnan(X)
        count = np.maximum(known.sum(axis=0), 1)
        centre = np.where(known, X, 0.0).sum(axis=0) / count
        squares = np.where(known, X - centre, 0.0) ** 2
        squares = squares.sum(axis=0) / count
    deviations = np.sqrt(np.maximum(squares, 0.0))
    varies = deviations > 1e-7 * np.maximum(np.abs(centre), 1e-300)
    return centre, np.divide(1.0, deviations, out=np.zeros_like(deviations), where=varies)


def _directions(X: Any, centre: Floats, scale: Floats) -> Floats:
    """Orthonormal directions in which standardised features differ: all of them, or the most telling."""
    n, p = X.shape
    if p <= MOST:
        return np.eye(p)[:, scale > 0]
    S = _Standardised(X, centre, scale)
    if n <= MOST:
        _, values, Vt = thin_svd(S @ np.eye(p))
        return np.asarray(Vt[values > _NOTHING * values[0]].T)
    _, values, V = dominant_svd(S, MOST, tolerance=_TOLERANCE)
    return np.asarray(V[:, values > _NOTHING * values[0]])


@dataclass(frozen=True, eq=False)
class _Standardised:
    """(X − centre) · scale with 0 for what is missing, by products alone."""

    X: Any
    centre: Floats
    scale: Floats

    def __post_init__(self) -> None:
        if not sparse.issparse(self.X):
            filled = np.where(np.isnan(self.X), self.centre, self.X)
            object.__setattr__(self, "X", filled)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.X.shape[0]), int(self.X.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    def __matmul__(self, V: Floats) -> Floats:
        scaled = self.scale[:, None] * V
        return np.asarray(self.X @ scaled - self.centre @ scaled)

    def transposed_times(self, U: Floats) -> Floats:
        across = self.X.T @ U - np.outer(self.centre, U.sum(axis=0))
        return np.asarray(self.scale[:, None] * across)
