"""Dominant singular vectors of a matrix known by its products, by block Lanczos."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rankfold.entries.operators import Turned
from rankfold.entries.store import Array, Operator
from rankfold.linalg import asarray_like, identity_like, rows_like, thin_svd
from rankfold.linalg.memory import reused
from rankfold.linalg.primitives import grams, on_host, sums

# Residuals of this part of σ_1 make singular values right to about its square. The zero-filled data are much
# further than this from the matrix sought: conjugate gradients take as many iterations from here as from the
# exact SVD (36, 94 to 96, 38 and 45 on P1, P3, P2 and P5 of `rankfold.kernels`, at 1e-4 as at 1e-2).
TOLERANCE = 1e-2
MAX_STEPS = 40
HELD = 12  # blocks of directions; P1 to P5 take 5 to 10 steps, 13 with as much noise as data
# A block that keeps this part of its square through projection is orthogonal enough for TOLERANCE.
SAFE = 1e-5
MIN_WIDTH = 4  # of a block: narrower ones take more steps than they save time
# Larger blocks are of random signs, which are as good to start from: normal numbers take longer to draw than
# a GPU takes for the whole search, for a million rows, and a third of its time for P2.
MOST_NORMAL = 1 << 16


@reused()
def dominant_svd(
    S: Operator, rank: int, seed: int = 0, first: Array | None = None, tolerance: float = TOLERANCE
) -> tuple[Array, Array, Array]:
    """Return the `rank` largest singular values and their vectors, S ≈ U diag(s) Vᵀ.

    Block Lanczos for SᵀS from `random_block`, or from `first` if right singular vectors are known nearly: its
    space is that of block Golub-Kahan-Lanczos, at half of the Grams, and VᵀSᵀS V, whose eigenvalues are the
    squares sought, comes with those. Stops at residuals of `tolerance` times the largest value, or after
    MAX_STEPS. All arrays are of the library of `first`, and where it lives; VᵀSᵀS V is small, and NumPy's.
    What is held does not grow with the number of steps: the basis of the shorter side, of HELD blocks at
    most, and one block of the longer one.
    """
    block = random_block(S.shape, rank, seed).astype(S.dtype, copy=False) if first is None else first
    if min(S.shape) <= 4 * block.shape[1]:
        return _thin_svd(S, rank, block)
    if S.shape[0] < S.shape[1]:
        V, s, U = _by_short_side(Turned(S), S @ block, rank, tolerance)
        return U, s, V
    return _by_short_side(S, block, rank, tolerance)


def _by_short_side(S: Operator, V_k: Array, rank: int, tolerance: float) -> tuple[Array, Array, Array]:
    """`dominant_svd` of a tall matrix; when HELD blocks of V are there, the best directions take their place.

    Of a right vector v with SᵀS v = σ²v + e, and its left one S v/σ, the residual is e/σ. Values below
    `tolerance` of the largest are none that it would tell from zero: they need no more than the others.
    """
    width = V_k.shape[1]
    steps = min(MAX_STEPS, S.shape[1] // width)
    H = np.zeros((HELD * width, HELD * width), S.dtype)  # VᵀSᵀS V, of which the upper half is read
    V: list[Array] = []
    V_k, _, _ = _orthonormal(V_k, V)
    for step in range(steps):
        here = slice(len(V) * width, (len(V) + 1) * width)
        V.append(V_k)
        V_k, T, along = _orthonormal(S.transposed_times(S @ V_k), V)
        H[: here.stop, here] = np.concatenate(along)
        squares, P = np.linalg.eigh(H[: here.stop, : here.stop], UPLO="U")
        s = np.sqrt(np.maximum(squares[-rank:], 0.0))
        errors = np.linalg.norm(T @ P[here, -rank:], axis=0)
        if np.all(errors <= tolerance * s[-1] * np.maximum(s, tolerance * s[-1])) or step + 1 == steps:
            break
        if len(V) == HELD:
            V, H[:] = [_directions(V, P, width)], 0.0
            H[:width, :width] = np.diag(squares[: -width - 1 : -1])
    Z = _directions(V, P, width)
    Y, R, _ = _orthonormal(S @ Z, [])
    A, s, Wt = np.linalg.svd(R)
    signs, W = _signs(Wt.T)[:rank], np.ascontiguousarray(Wt.T[:, :rank])
    U, V_0 = sums([(Y, A[:, :rank] * signs)], [(Z, W * signs)])
    return U, asarray_like(s[:rank], Z), V_0


def _directions(V: list[Array], P: NDArray[Any], count: int) -> Array:
    """Return V times the last columns of P, the last one first."""
    best = P[:, : -count - 1 : -1]
    right = [np.ascontiguousarray(part) for part in np.split(best * _signs(best), len(V))]
    return sums(list(zip(V, right, strict=True)))[0]


def _signs(E: NDArray[Any]) -> NDArray[Any]:
    """Return the signs of the largest entries of columns: rounding is not to choose their direction."""
    signs: NDArray[Any] = np.sign(E[np.abs(E).argmax(axis=0), np.arange(E.shape[1])])
    return signs


def random_block(shape: tuple[int, int], rank: int, seed: int) -> Any:
    """Return the random block that the search for `rank` singular pairs starts from; of integers if large."""
    rng, size = np.random.default_rng(seed), (shape[1], max(rank, MIN_WIDTH))
    if size[0] * size[1] <= MOST_NORMAL:
        return rng.standard_normal(size)
    bits = np.unpackbits(rng.integers(0, 256, -(-size[0] * size[1] // 8), np.uint8))
    return (2 * bits[: size[0] * size[1]].view(np.int8) - 1).reshape(size)


def _orthonormal(X: Array, basis: list[Array]) -> tuple[Array, Any, list[Any]]:
    """Q with orthonormal columns, orthogonal to the basis, R and M_k, so that X = Q R + Σ basis_k M_k."""
    (products,) = grams([*((block, X) for block in basis), (X, X)])
    *along, square = products
    left = square - sum((C.T @ C for C in along), start=np.zeros_like(square))  # the Gram of what Q R will be
    if np.linalg.eigvalsh(left)[0] > SAFE * np.trace(square) > 0:
        C = np.linalg.cholesky(left)
        N = np.linalg.inv(C).T
        (Q,) = sums([(X, N), *((block, -M @ N) for block, M in zip(basis, along, strict=True))])
        return Q, C.T, along
    # Little is left of X, or less than its width in directions: rounding errors must be projected out again.
    qr = array_namespace(X).linalg.qr
    Q, R = qr(_off(basis, X))
    Q, again = qr(_off(basis, Q))
    return Q, on_host(again @ R), along


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
