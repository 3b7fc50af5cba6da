"""One r×r block for each line of Ω: formed, inverted and applied line by line.

As in `sweeps`, a line is a row of W or a column, A the factor whose rows belong to the lines and B the other
one. Blocks lie one below the other, (d r, r). Lines have nothing to do with each other, so any number of
threads gives the same bits.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rankfold.kernels import formulas
from rankfold.kernels.chunks import chunks, chunks_in_order
from rankfold.kernels.compiling import compiled
from rankfold.kernels.layout import ONE, ahead_by, numbers
from rankfold.kernels.registers import axpy, load, load_wide, multiply_add, prefetch, store, total, zero
from rankfold.kernels.sweeps import entry_losses, told

_SQUARE = formulas.BUILT_IN.index(formulas.square)
_FOUR = np.uint64(4)


@functools.cache
def blocks(rank: int, loss: Any, weighted: bool, few: bool = False) -> Any:
    """Kernel for Q_i + scale Σ w ℓ″ b bᵀ of each line, in the place of Q_i.

    Four entries at a time, so that a row of Q_i is read and written once for four multiply-adds. The square
    loss has a constant ℓ″, and needs no entry of W. Stripe by stripe: a line taken through all of them at
    once gathers from further away, in twice the time on P2, and 0.85 of it on P5.
    """
    return told(functools.partial(_blocks, rank), loss, weighted, False, few)


@functools.cache
def _blocks(rank: int, loss: Any, of_weighted: bool, _: bool) -> Any:
    ahead, numbers_, any_, is_square = ahead_by(rank), numbers(of_weighted), loss is None, loss == _SQUARE

    def kernel(  # type: ignore[no-untyped-def]
        choices, progress, bounds, indptr, indices, step, data, A, B, parameter, scale, Q
    ):
        m, constant = (choices[1], choices[0] == _SQUARE) if any_ else (numbers_, is_square)
        weighted = m > ONE if any_ else of_weighted
        last, r = np.uint64(indices.size - 1), np.uint64(rank)
        second = np.empty(4)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for i in range(bounds[c], bounds[c + ONE]):
                end = indptr[first + i + ONE]
                for p in range(indptr[first + i], end, _FOUR):
                    for k in range(_FOUR):
                        at = p + k
                        second[k] = 0.0  # beyond the line's end
                        if at < end:
                            prefetch(B, base + np.uint64(indices[min(at + ahead, last)]), rank)
                            second[k] = 2.0 * scale
                            if not constant:
                                b = load(B, base + np.uint64(indices[at]), rank)
                                w = np.float64(total(multiply_add(load(A, i, rank), b, zero(b))))
                                _, _, curvature = entry_losses(
                                    loss, choices, w, np.float64(data[m * at]), parameter
                                )
                                second[k] = curvature * scale
                            if weighted:
                                second[k] *= data[m * at + ONE]
                    j0 = base + np.uint64(indices[p])
                    j1 = base + np.uint64(indices[min(p + ONE, end - ONE)])
                    j2 = base + np.uint64(indices[min(p + np.uint64(2), end - ONE)])
                    j3 = base + np.uint64(indices[min(p + np.uint64(3), end - ONE)])
                    b0, b1 = load(B, j0, rank), load(B, j1, rank)
                    b2, b3 = load(B, j2, rank), load(B, j3, rank)
                    b0, b1 = axpy(second[0], b0, zero(b0)), axpy(second[1], b1, zero(b1))
                    b2, b3 = axpy(second[2], b2, zero(b2)), axpy(second[3], b3, zero(b3))
                    for k in range(r):
                        row = load(Q, i * r + k, rank)
                        row = axpy(B[j1, k], b1, axpy(B[j0, k], b0, row))
                        row = axpy(B[j3, k], b3, axpy(B[j2, k], b2, row))
                        store(Q, i * r + k, row)

    return compiled(kernel, cache=loss is None or isinstance(loss, int))


@functools.cache
def invert(rank: int) -> Any:
    """Kernel for rows u_k, in `out`, with (scale Q_i + diag(ridge))⁻¹ = Σ u_k u_kᵀ; Q_i is overwritten.

    They are the rows of the inverse of the Cholesky factor, by Gaussian elimination: left of the pivot a row
    holds the inverse so far, right of it what is left of Q_i. A sum of squares is symmetric and positive
    semidefinite however `out` rounds it. A pivot that is `lost` of its diagonal entry, or less, is rounding:
    its unknown becomes zero.
    """

    def kernel(progress, bounds, Q, scale, ridge, lost, out):  # type: ignore[no-untyped-def]
        r = np.uint64(rank)
        least = np.empty(rank)
        for c in chunks(progress, bounds.size - 1):
            for i in range(bounds[c], bounds[c + 1]):
                top = i * r
                for k in range(r):
                    row = load(Q, top + k, rank)
                    store(Q, top + k, axpy(scale, row, zero(row)))
                    Q[top + k, k] += ridge[k]
                    least[k] = lost * Q[top + k, k]
                for k in range(r):
                    pivot = Q[top + k, k]
                    inverse = 1.0 / pivot if pivot > least[k] else 0.0
                    row = load(Q, top + k, rank)
                    for n in range(k + ONE, r):
                        factor = Q[top + n, k] * inverse
                        store(Q, top + n, axpy(-factor, row, load(Q, top + n, rank)))
                        Q[top + n, k] = -factor  # last: a row is not read again while this is on its way
                    root = np.sqrt(inverse)
                    for n in range(k):
                        out[top + k, n] = root * Q[top + k, n]
                    out[top + k, k] = root
                    for n in range(k + ONE, r):
                        out[top + k, n] = 0.0

    return compiled(kernel)


@functools.cache
def solve(rank: int) -> Any:
    """Kernel for out_i = N (Σ u_k u_kᵀ) Nᵀ x_i, with the rows u_k of `invert` in U, and T = Nᵀ."""

    def kernel(progress, bounds, U, N, T, x, out):  # type: ignore[no-untyped-def]
        r = np.uint64(rank)
        for c in chunks(progress, bounds.size - 1):
            for i in range(bounds[c], bounds[c + 1]):
                turned = zero(load(N, np.uint64(0), rank))
                for k in range(r):
                    turned = axpy(x[i, k], load(N, k, rank), turned)
                sum_ = zero(turned)
                for k in range(r):
                    u = load_wide(U, i * r + k, rank)
                    sum_ = axpy(total(multiply_add(u, turned, zero(u))), u, sum_)
                store(out, i, sum_)
                back = zero(sum_)
                for k in range(r):
                    back = axpy(out[i, k], load(T, k, rank), back)
                store(out, i, back)

    return compiled(kernel)
