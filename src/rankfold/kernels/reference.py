"""What the kernels compute, in plain NumPy and SciPy: slow, short, and what they are tested against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Formula = Callable[[Any, Any], tuple[Any, Any, Any]]


def entries(rows: NDArray[Any], cols: NDArray[Any], L: Floats, R: Floats) -> Floats:
    """(L Rᵀ)_ij on Ω."""
    return np.asarray(np.einsum("pk,pk->p", L[rows], R[cols]))


def evaluate(
    rows: NDArray[Any],
    cols: NDArray[Any],
    values: Floats,
    weights: Floats,
    loss: Formula,
    L: Floats,
    R: Floats,
) -> tuple[float, Floats, Floats]:
    """Mean loss, S R and Sᵀ L."""
    value, first, _ = loss(entries(rows, cols, L, R), values)
    S = sparse.csr_array((weights * first / values.size, (rows, cols)), shape=(len(L), len(R)))
    return float(np.mean(weights * value)), S @ R, S.T @ L


def derivative(
    rows: NDArray[Any], cols: NDArray[Any], values: Floats, weights: Floats, loss: Formula,
    L: Floats, R: Floats, dL: Floats, dR: Floats,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Ṡ R + S dR and Ṡᵀ L + Sᵀ dL."""
    _, first, second = loss(entries(rows, cols, L, R), values)
    dW = entries(rows, cols, dL, R) + entries(rows, cols, L, dR)
    shape, scale = (len(L), len(R)), weights / values.size
    S = sparse.csr_array((scale * first, (rows, cols)), shape=shape)
    dS = sparse.csr_array((scale * second * dW, (rows, cols)), shape=shape)
    return dS @ R + S @ dR, dS.T @ L + S.T @ dL


def polynomial(
    rows: NDArray[Any],
    cols: NDArray[Any],
    values: Floats,
    weights: Floats,
    Ls: Sequence[Floats],
    Rs: Sequence[Floats],
) -> Floats:
    """Coefficients of t ↦ mean of ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)² on Ω."""
    e = np.zeros((len(Ls) + len(Rs) - 1, values.size))
    e[0] -= values
    for i, L in enumerate(Ls):
        for j, R in enumerate(Rs):
            e[i + j] += entries(rows, cols, L, R)
    result = np.zeros(2 * len(e) - 1)
    for k, e_k in enumerate(e):
        for m, e_m in enumerate(e):
            result[k + m] += np.mean(weights * e_k * e_m)
    return result
