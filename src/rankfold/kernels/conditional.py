"""Rows of a table given their known entries, under a Gaussian model with covariance L Lᵀ + diag(ψ)."""

from __future__ import annotations

import numpy as np

from rankfold.kernels.compiling import compiled


@compiled
def fill(X, known, L, psi, precision, covariance):  # type: ignore[no-untyped-def]
    """Overwrite the holes of the rows of X, which are 0, by their conditional means.

    Adds the conditional covariances to `covariance`, unless that is empty. A row with k holes takes a system
    of k unknowns in the precision matrix (L Lᵀ + diag ψ)⁻¹, or one of r in the factors: the smaller one.
    """
    n, d = X.shape
    r = L.shape[1]
    scaled = L / psi.reshape(d, 1)
    for i in range(n):
        holes = np.flatnonzero(~known[i])
        k = holes.size
        if k == 0:
            continue
        if k <= r:
            A, b = np.empty((k, k)), np.empty(k)
            for p in range(k):
                b[p] = -np.dot(precision[holes[p]], X[i])
                for q in range(k):
                    A[p, q] = precision[holes[p], holes[q]]
            spread = np.linalg.inv(A)
            mean = np.dot(spread, b)
        else:
            here = np.flatnonzero(known[i])
            Lo, So, xo = L[here], scaled[here], X[i][here]
            inner = np.linalg.inv(np.eye(r) + np.dot(Lo.T, So))
            Lm = L[holes]
            mean = np.dot(Lm, np.dot(inner, np.dot(So.T, xo)))
            spread = np.dot(np.dot(Lm, inner), Lm.T)
            for p in range(k):
                spread[p, p] += psi[holes[p]]
        for p in range(k):
            X[i, holes[p]] = mean[p]
            if covariance.size:
                for q in range(k):
                    covariance[holes[p], holes[q]] += spread[p, q]
