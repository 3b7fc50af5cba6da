"""The singular value decomposition of a matrix of features, on any array library."""

from __future__ import annotations

from collections.abc import Callable

from rankfold.linalg import Array, eps, thin_svd


def nonzero_spectrum(X: Array) -> tuple[Array, Array, Callable[[Array], Array]]:
    """Return P, d and M ↦ Q M for X = P diag(d) Qᵀ, without the values that are zero but for rounding."""
    P, d, Qt = thin_svd(X)
    keep = d > d[0] * max(X.shape) * eps(X)
    P, d, Qt = P[:, keep], d[keep], Qt[keep]
    return P, d, lambda M: Qt.T @ M
