"""Dominant singular vectors of a matrix known by its products, by block Lanczos."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace

from rankfold.entries.store import Array, Operator
from rankfold.linalg import asarray_like, identity_like, rows_like, thin_svd
from rankfold.linalg.primitives import grams, on_host, sums

# Residuals of this part of σ_1 make singular values right to about its square. The zero-filled data are much
# further than this from the matrix sought: conjugate gradients take as many iterations from here as from the
# exact SVD (36, 94 to 96, 38 and 45 on P1, P3, P2 and P5 of `rankfold.kernels`, at 1e-4 as at 1e-2).
TOLERANCE = 1e-2
MAX_STEPS = 40
# A block that keeps this part of its square through projection is orthogonal enough for TOLERANCE.
SAFE = 1e-5
MIN_WIDTH = 4  # of a block: narrower ones take more steps than they save time
# Larger blocks are of random signs, which are as good to start from: a million rows of normal numbers take
# longer to draw than a GPU takes for the whole search.
MOST_NORMAL = 1 << 18


def dominant_svd(
    S: Operator,
    rank: int,
    seed: int = 0,
    first: Array | None = None,
    tolerance: float = TOLERANCE,
    most: int = MAX_STEPS,
) -> tuple[Array, Array, Array]:
    """Return the `rank` largest singular values and their vectors, S ≈ U diag(s) Vᵀ.

    Block Golub-Kahan-Lanczos with full reorthogonalisation, from `random_block`, or from `first` if right
    singular vectors are known nearly: S V = U B with B block bidiagonal, whose singular values and residuals
    come for free. Stops at residuals of `tolerance` times the largest value, or after `most`. All arrays
    are of the library of `first`, and where it lives; B is small, and NumPy's.
    """
    V_k = random_block(S.shape, rank, seed).astype(S.dtype, copy=False) if first is None else first
    width = V_k.shape[1]
    if min(S.shape) <= 4 * width:
        return _thin_svd(S, rank, V_k)
    steps = min(most, min(S.shape) // width)
    U: list[Array] = []
    V: list[Array] = []
    B = np.zeros((steps * width, steps * width), S.dtype)
    V_k, _ = _orthonormal(V_k, V)
    for k in range(steps):
        here, after = slice(k * width, (k + 1) * width), slice((k + 1) * width, (k + 2) * width)
        V.append(V_k)
        # S V_k = U_{k-1} T_{k-1}ᵀ + U_k R_k, of which the first term is known already
        U_k, B[here, here] = _orthonormal(S @ V_k, U)
        U.append(U_k)
        V_k, T = _orthonormal(S.transposed_times(U_k), V)
        small = B[: here.stop, : here.stop]
        squares, P = np.linalg.eigh(
            small @ small.T
        )  # in a third of the time of a singular value decomposition
        residuals = np.linalg.norm(T @ P[here, -rank:], axis=0)
        if residuals.max() <= tolerance * squares[-1] ** 0.5 or k + 1 == steps:
            break
        B[here, after] = T.T
    P, s, Qt = np.linalg.svd(small)
    left, right = (np.split(Z[:, :rank], len(V)) for Z in (P, Qt.T))
    left, right = sums(list(zip(U, left, strict=True)), list(zip(V, right, strict=True)))
    return left, asarray_like(s[:rank], V_k), right


def random_block(shape: tuple[int, int], rank: int, seed: int) -> Any:
    """Return the random block that the search for `rank` singular pairs starts from; of integers if large."""
    rng, size = np.random.default_rng(seed), (shape[1], max(rank, MIN_WIDTH))
    if size[0] * size[1] <= MOST_NORMAL:
        return rng.standard_normal(size)
    bits = np.unpackbits(rng.integers(0, 256, -(-size[0] * size[1] // 8), np.uint8))
    return (2 * bits[: size[0] * size[1]].view(np.int8) - 1).reshape(size)


def _orthonormal(X: Array, basis: list[Array]) -> tuple[Array, Any]:
    """Q with orthonormal columns, orthogonal to the basis, and R, so that X = Q R + what the basis spans."""
    (products,) = grams([*((block, X) for block in basis), (X, X)])
    *along, square = products
    left = square - sum((C.T @ C for C in along), start=np.zeros_like(square))  # the Gram of what Q R will be
    if np.linalg.eigvalsh(left)[0] > SAFE * np.trace(square) > 0:
        C = np.linalg.cholesky(left)
        N = np.linalg.inv(C).T
        (Q,) = sums([(X, N), *((block, -M @ N) for block, M in zip(basis, along, strict=True))])
        return Q, C.T
    # Little is left of X, or less than its width in directions: rounding errors must be projected out again.
    qr = array_namespace(X).linalg.qr
    Q, R = qr(_off(basis, X))
    Q, again = qr(_off(basis, Q))
    return Q, on_host(again @ R)


def _off(basis: list[Array], X: Array) -> Array:
    """Return X less what the basis spans of it."""
    (along,) = grams([(block, X) for block in basis]) if basis else ([],)
    return sums([(X, 1.0), *((block, -M) for block, M in zip(basis, along, strict=True))])[0]


def _thin_svd(S: Operator, rank: int, example: Array) -> tuple[Array, Array, Array]:
    """By a dense SVD, for matrices with one side of not much more than the rank."""
    one = identity_like(example, min(S.shape))
    if S.shape[0] < S.shape[1]:
        V, s, Ut = thin_svd(S.transposed_times(one))
        return rows_like(Ut[:rank].T, S @ example), s[:rank], V[:, :rank]
    U, s, Vt = thin_svd(S @ one)
    return U[:, :rank], s[:rank], rows_like(Vt[:rank].T, example)
