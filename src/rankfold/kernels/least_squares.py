"""Passes over one side of Ω, for methods that solve a small least-squares problem per row or column.

A line is a row of W (side `by_row`) or a column (side `by_column`). `A` holds the factor whose rows belong to
the lines, `B` the other one: the entry p of line i is A_i · B_j with j = indices[p]. `shift` is RTRMC's λ²:
the weight that entries outside Ω carry, and that those inside therefore lack. Kernels take chunks of lines
from `progress` (see `rankfold.kernels.pool`); why each has its loops for itself is said in `sweeps`.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rankfold.kernels.chunks import chunks
from rankfold.kernels.compiling import compiled
from rankfold.kernels.layout import ONE, numbers
from rankfold.kernels.registers import axpy, load, multiply_add, prefetch, store, total, zero

AHEAD = np.uint64(12)  # entries between asking for a row and using it
TWO, THREE, FOUR = (np.uint64(n) for n in (2, 3, 4))
# A pivot below this part of its diagonal entry is rounding: the line does not determine that unknown.
SINGULAR = 1e-14


@functools.cache
def normal_equations(rank: int, weighted: bool) -> Any:
    """Kernel for Q_i = Σ (w − shift) B_j B_jᵀ and q_i = Σ w y B_j of each line; Q has the shape (d r, r)."""
    m = numbers(weighted)

    def kernel(progress, bounds, indptr, indices, data, B, shift, Q, q):  # type: ignore[no-untyped-def]
        last = np.uint64(indices.size - 1)
        r = np.uint64(rank)
        for c in chunks(progress, bounds.size - 1):
            for i in range(bounds[c], bounds[c + 1]):
                right = zero(load(q, i, rank))
                for k in range(r):
                    store(Q, i * r + k, right)
                p = indptr[i]
                # Four entries at a time: Q, which no register holds, is read and written a quarter as often.
                while p + FOUR <= indptr[i + ONE]:
                    for n in range(FOUR):
                        prefetch(B, np.uint64(indices[min(p + AHEAD + n, last)]), rank)
                    j0, j1 = np.uint64(indices[p]), np.uint64(indices[p + ONE])
                    j2, j3 = np.uint64(indices[p + TWO]), np.uint64(indices[p + THREE])
                    b0, b1, b2, b3 = (
                        load(B, j0, rank),
                        load(B, j1, rank),
                        load(B, j2, rank),
                        load(B, j3, rank),
                    )
                    at = m * p
                    w0 = data[at + ONE] if weighted else 1.0
                    w1 = data[at + m + ONE] if weighted else 1.0
                    w2 = data[at + m + m + ONE] if weighted else 1.0
                    w3 = data[at + m + m + m + ONE] if weighted else 1.0
                    right = axpy(w0 * data[at], b0, axpy(w1 * data[at + m], b1, right))
                    right = axpy(w2 * data[at + m + m], b2, axpy(w3 * data[at + m + m + m], b3, right))
                    for k in range(r):
                        row = axpy((w0 - shift) * B[j0, k], b0, load(Q, i * r + k, rank))
                        row = axpy((w1 - shift) * B[j1, k], b1, row)
                        row = axpy((w2 - shift) * B[j2, k], b2, row)
                        store(Q, i * r + k, axpy((w3 - shift) * B[j3, k], b3, row))
                    p += FOUR
                while p < indptr[i + ONE]:
                    j = np.uint64(indices[p])
                    b = load(B, j, rank)
                    w = data[m * p + ONE] if weighted else 1.0
                    right = axpy(w * data[m * p], b, right)
                    for k in range(r):
                        store(Q, i * r + k, axpy((w - shift) * B[j, k], b, load(Q, i * r + k, rank)))
                    p += ONE
                store(q, i, right)

    return compiled(kernel)


@functools.cache
def ridge_lines(rank: int, unknowns: int, weighted: bool) -> Any:
    """Kernel for the x_i that minimise Σ w (x_i·B_j − y)² + ridges_i·x_i² − 2 pull_i·x_i, line by line.

    If B has a column more than there are unknowns, its coefficient is 1. x holds the pulls on entry. `pivots`
    gets what is left of the last unknown's curvature when the others are eliminated; 0 if that is rounding.
    The normal equations of one line at a time are held, and eliminated, where the processor is fastest.
    """
    m = numbers(weighted)

    def kernel(progress, bounds, indptr, indices, step, data, B, ridges, x, pivots):  # type: ignore[no-untyped-def]
        last = np.uint64(indices.size - 1)
        r, u = np.uint64(rank), np.uint64(unknowns)
        lines = np.uint64(len(x))
        stripes = np.uint64((indptr.size - 1) // len(x))
        Q, q = np.empty((rank, rank), B.dtype), np.empty((1, rank), B.dtype)
        diagonal = np.empty(unknowns, B.dtype)
        for c in chunks(progress, bounds.size - 1):
            for i in range(bounds[c], bounds[c + 1]):
                right = zero(load(q, np.uint64(0), rank))
                for k in range(r):
                    store(Q, k, right)
                for s in range(stripes):
                    base, p, end = s * step, indptr[s * lines + i], indptr[s * lines + i + ONE]
                    # Four entries at a time: Q, which no register holds, is read and written less often.
                    while p + FOUR <= end:
                        for n in range(FOUR):
                            prefetch(B, base + np.uint64(indices[min(p + AHEAD + n, last)]), rank)
                        j0, j1 = base + np.uint64(indices[p]), base + np.uint64(indices[p + ONE])
                        j2, j3 = base + np.uint64(indices[p + TWO]), base + np.uint64(indices[p + THREE])
                        b0, b1 = load(B, j0, rank), load(B, j1, rank)
                        b2, b3 = load(B, j2, rank), load(B, j3, rank)
                        at = m * p
                        w0 = data[at + ONE] if weighted else 1.0
                        w1 = data[at + m + ONE] if weighted else 1.0
                        w2 = data[at + m + m + ONE] if weighted else 1.0
                        w3 = data[at + m + m + m + ONE] if weighted else 1.0
                        right = axpy(w0 * data[at], b0, axpy(w1 * data[at + m], b1, right))
                        right = axpy(w2 * data[at + m + m], b2, axpy(w3 * data[at + m + m + m], b3, right))
                        for k in range(u):
                            row = axpy(w0 * B[j0, k], b0, load(Q, k, rank))
                            row = axpy(w1 * B[j1, k], b1, row)
                            row = axpy(w2 * B[j2, k], b2, row)
                            store(Q, k, axpy(w3 * B[j3, k], b3, row))
                        p += FOUR
                    while p < end:
                        j = base + np.uint64(indices[p])
                        b = load(B, j, rank)
                        w = data[m * p + ONE] if weighted else 1.0
                        right = axpy(w * data[m * p], b, right)
                        for k in range(u):
                            store(Q, k, axpy(w * B[j, k], b, load(Q, k, rank)))
                        p += ONE
                store(q, np.uint64(0), right)
                for k in range(u):
                    x[i, k] += q[0, k]
                    if rank > unknowns:
                        x[i, k] -= Q[k, u]
                    Q[k, k] += ridges[i, k]
                    diagonal[k] = Q[k, k]
                for k in range(u):
                    if not Q[k, k] > SINGULAR * diagonal[k]:
                        Q[k, k] = 0.0  # zero is as good for this unknown as any other value
                        continue
                    row = load(Q, k, rank)
                    for n in range(k + ONE, u):
                        factor = Q[k, n] / Q[k, k]
                        store(Q, n, axpy(-factor, row, load(Q, n, rank)))
                        x[i, n] -= factor * x[i, k]
                pivots[i] = Q[u - ONE, u - ONE]
                for done in range(u):
                    at = u - ONE - done
                    for n in range(at + ONE, u):
                        x[i, at] -= Q[at, n] * x[i, n]
                    x[i, at] = x[i, at] / Q[at, at] if Q[at, at] > 0 else 0.0

    return compiled(kernel)


@compiled
def factorise(progress, bounds, Q, ridge):  # type: ignore[no-untyped-def]
    """Overwrite each Q_i + ridge I, of shape (d, r, r), by its Cholesky factor, lower triangle."""
    r = Q.shape[1]
    for c in chunks(progress, bounds.size - 1):
        for i in range(bounds[c], bounds[c + 1]):
            for k in range(r):
                pivot = diagonal = Q[i, k, k] + ridge
                for m in range(k):
                    pivot -= Q[i, k, m] * Q[i, k, m]
                # An infinite pivot makes the unknown zero, which is as good as any other value for it.
                root = np.sqrt(pivot) if pivot > SINGULAR * diagonal else np.inf
                Q[i, k, k] = root
                for n in range(k + 1, r):
                    below = Q[i, n, k]
                    for m in range(k):
                        below -= Q[i, n, m] * Q[i, k, m]
                    Q[i, n, k] = below / root


@compiled
def substitute(progress, bounds, C, x):  # type: ignore[no-untyped-def]
    """Overwrite each right-hand side x_i by the solution of C_i C_iᵀ x = x_i."""
    r = C.shape[1]
    for c in chunks(progress, bounds.size - 1):
        for i in range(bounds[c], bounds[c + 1]):
            for k in range(r):
                for m in range(k):
                    x[i, k] -= C[i, k, m] * x[i, m]
                x[i, k] /= C[i, k, k]
            for k in range(r - 1, -1, -1):
                for m in range(k + 1, r):
                    x[i, k] -= C[i, m, k] * x[i, m]
                x[i, k] /= C[i, k, k]


@functools.cache
def gradient(rank: int, weighted: bool) -> Any:
    """Kernel for Σ (w (a·b − y) − shift a·b) b of each line; by chunk, Σ w (a·b − y)² and Σ (a·b)²."""
    m = numbers(weighted)

    def kernel(progress, bounds, indptr, indices, data, A, B, shift, sums, out):  # type: ignore[no-untyped-def]
        last = np.uint64(indices.size - 1)
        for c in chunks(progress, bounds.size - 1):
            errors = squares = 0.0
            for i in range(bounds[c], bounds[c + 1]):
                a = load(A, i, rank)
                sum_ = zero(a)
                for p in range(indptr[i], indptr[i + ONE]):
                    prefetch(B, np.uint64(indices[min(p + AHEAD, last)]), rank)
                    b = load(B, np.uint64(indices[p]), rank)
                    entry = total(multiply_add(a, b, zero(a)))
                    w = data[m * p + ONE] if weighted else 1.0
                    e = entry - data[m * p]
                    errors += w * e * e
                    squares += entry * entry
                    sum_ = axpy(w * e - shift * entry, b, sum_)
                store(out, i, sum_)
            sums[c, 0], sums[c, 1] = errors, squares

    return compiled(kernel)


@functools.cache
def derivative(rank: int, weighted: bool) -> Any:
    """Kernel for the change of `gradient` of each line along (dA, dB)."""
    m = numbers(weighted)

    def kernel(progress, bounds, indptr, indices, data, A, B, dA, dB, shift, out):  # type: ignore[no-untyped-def]
        last = np.uint64(indices.size - 1)
        for c in chunks(progress, bounds.size - 1):
            for i in range(bounds[c], bounds[c + 1]):
                a = load(A, i, rank)
                da = load(dA, i, rank)
                sum_ = zero(a)
                for p in range(indptr[i], indptr[i + ONE]):
                    ahead = np.uint64(indices[min(p + AHEAD, last)])
                    prefetch(B, ahead, rank)
                    prefetch(dB, ahead, rank)
                    j = np.uint64(indices[p])
                    b = load(B, j, rank)
                    db = load(dB, j, rank)
                    entry = total(multiply_add(a, b, zero(a)))
                    change = total(multiply_add(a, db, multiply_add(da, b, zero(a))))
                    w = data[m * p + ONE] if weighted else 1.0
                    e = w * (entry - data[m * p]) - shift * entry
                    sum_ = axpy(e, db, axpy((w - shift) * change, b, sum_))
                store(out, i, sum_)

    return compiled(kernel)
