"""The passes over a table of categories: each known entry has as many logits as its column has categories.

As in `sweeps`, a pass takes the lines of a side one after the other. Column j of the table owns a block of
rows of the factor R, `starts[j]` to `starts[j + 1]`, one for each of its categories; the logits of entry
(i, j) are the products of L_i with these, and one softmax couples them. So the two sides differ: by rows, the
block belongs to the other end of the entry, and one row gathers; by columns, the block is the line.

`chances` and `changes` have room for the logits of one entry. `data` has m numbers for each entry: its
category, and its weight if m is 2. Beside the exponentials, to look at m for each entry costs nothing.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.extending import register_jitable

from rankfold.kernels.chunks import chunks_in_order
from rankfold.kernels.compiling import compiled
from rankfold.kernels.layout import ONE
from rankfold.kernels.registers import axpy, load, multiply_add, store, total, zero


@register_jitable
def softmax(logits: Any, count: Any, y: Any) -> Any:
    """Put probabilities in the place of `count` logits; return -log of that of category y."""
    largest = logits[0]
    for k in range(ONE, count):
        largest = max(largest, logits[k])
    short, sum_ = largest - logits[y], 0.0
    for k in range(count):
        logits[k] = np.exp(logits[k] - largest)
        sum_ += logits[k]
    for k in range(count):
        logits[k] /= sum_
    return short + np.log(sum_)


@register_jitable
def softmax_changes(chances: Any, changes: Any, count: Any) -> None:
    """Put the changes of the probabilities in the place of the changes of the logits."""
    mean = 0.0
    for k in range(count):
        mean += chances[k] * changes[k]
    for k in range(count):
        changes[k] = chances[k] * (changes[k] - mean)


@functools.cache
def evaluation_by_row(rank: int) -> Any:
    """Kernel for the sum of the losses, by chunk, and with `partials` for f_L."""

    def kernel(  # type: ignore[no-untyped-def]
        progress, bounds, indptr, indices, step, data, m, starts, chances, A, B, scale, partials, sums, f_A
    ):
        chances = np.empty_like(chances)  # each thread has its own
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base, sum_ = stripe * step, 0.0
            for i in range(bounds[c], bounds[c + ONE]):
                a = load(A, i, rank)
                gradient = load(f_A, i, rank) if partials and stripe else zero(a)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    j = base + np.uint64(indices[p])
                    top, count = starts[j], starts[j + ONE] - starts[j]
                    y = np.uint64(data[m * p])
                    for k in range(count):
                        chances[k] = total(multiply_add(a, load(B, top + k, rank), zero(a)))
                    value = softmax(chances, count, y)
                    weight = np.float64(data[m * p + ONE]) if m > ONE else 1.0
                    sum_ += weight * value
                    if partials:
                        chances[y] -= 1.0
                        for k in range(count):
                            gradient = axpy(scale * weight * chances[k], load(B, top + k, rank), gradient)
                if partials:
                    store(f_A, i, gradient)
            sums[stripe, c] = sum_

    return compiled(kernel)


@functools.cache
def evaluation_by_column(rank: int) -> Any:
    """Kernel for f_R; A is R, in blocks, and B is L."""

    def kernel(progress, bounds, indptr, indices, step, data, m, starts, chances, A, B, scale, f_A):  # type: ignore[no-untyped-def]
        chances = np.empty_like(chances)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for j in range(bounds[c], bounds[c + ONE]):
                top, count = starts[j], starts[j + ONE] - starts[j]
                if not stripe:
                    for k in range(count):
                        store(f_A, top + k, zero(load(A, top, rank)))
                for p in range(indptr[first + j], indptr[first + j + ONE]):
                    b = load(B, base + np.uint64(indices[p]), rank)
                    y = np.uint64(data[m * p])
                    for k in range(count):
                        chances[k] = total(multiply_add(load(A, top + k, rank), b, zero(b)))
                    softmax(chances, count, y)
                    chances[y] -= 1.0
                    weight = scale * data[m * p + ONE] if m > ONE else scale
                    for k in range(count):
                        store(f_A, top + k, axpy(weight * chances[k], b, load(f_A, top + k, rank)))

    return compiled(kernel)


@functools.cache
def derivative_by_row(rank: int) -> Any:
    """Kernel for the change of f_L along (dA, dB)."""

    def kernel(progress, bounds, indptr, indices, step, data, m, starts, chances, A, dA, B, dB, scale, df_A):  # type: ignore[no-untyped-def]
        chances, changes = np.empty_like(chances), np.empty_like(chances)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for i in range(bounds[c], bounds[c + ONE]):
                a, da = load(A, i, rank), load(dA, i, rank)
                change = load(df_A, i, rank) if stripe else zero(a)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    j = base + np.uint64(indices[p])
                    top, count = starts[j], starts[j + ONE] - starts[j]
                    y = np.uint64(data[m * p])
                    for k in range(count):
                        b, db = load(B, top + k, rank), load(dB, top + k, rank)
                        chances[k] = total(multiply_add(a, b, zero(a)))
                        changes[k] = total(multiply_add(a, db, multiply_add(da, b, zero(a))))
                    softmax(chances, count, y)
                    softmax_changes(chances, changes, count)
                    chances[y] -= 1.0
                    weight = scale * data[m * p + ONE] if m > ONE else scale
                    for k in range(count):
                        change = axpy(weight * changes[k], load(B, top + k, rank), change)
                        change = axpy(weight * chances[k], load(dB, top + k, rank), change)
                store(df_A, i, change)

    return compiled(kernel)


@functools.cache
def derivative_by_column(rank: int) -> Any:
    """Kernel for the change of f_R along (dA, dB); A and dA are in blocks."""

    def kernel(progress, bounds, indptr, indices, step, data, m, starts, chances, A, dA, B, dB, scale, df_A):  # type: ignore[no-untyped-def]
        chances, changes = np.empty_like(chances), np.empty_like(chances)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for j in range(bounds[c], bounds[c + ONE]):
                top, count = starts[j], starts[j + ONE] - starts[j]
                if not stripe:
                    for k in range(count):
                        store(df_A, top + k, zero(load(A, top, rank)))
                for p in range(indptr[first + j], indptr[first + j + ONE]):
                    b = load(B, base + np.uint64(indices[p]), rank)
                    db = load(dB, base + np.uint64(indices[p]), rank)
                    y = np.uint64(data[m * p])
                    for k in range(count):
                        a, da = load(A, top + k, rank), load(dA, top + k, rank)
                        chances[k] = total(multiply_add(a, b, zero(b)))
                        changes[k] = total(multiply_add(a, db, multiply_add(da, b, zero(b))))
                    softmax(chances, count, y)
                    softmax_changes(chances, changes, count)
                    chances[y] -= 1.0
                    weight = scale * data[m * p + ONE] if m > ONE else scale
                    for k in range(count):
                        change = axpy(weight * changes[k], b, load(df_A, top + k, rank))
                        store(df_A, top + k, axpy(weight * chances[k], db, change))

    return compiled(kernel)


@functools.cache
def blocks_by_row(rank: int) -> Any:
    """Kernel for Q_i + scale Σ w (Σ p b bᵀ - (Σ p b)(Σ p b)ᵀ) of each row, in the place of Q_i."""

    def kernel(progress, bounds, indptr, indices, step, data, m, starts, chances, A, B, scale, Q):  # type: ignore[no-untyped-def]
        chances, r = np.empty_like(chances), np.uint64(rank)
        mean = np.empty((1, rank), A.dtype)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for i in range(bounds[c], bounds[c + ONE]):
                a = load(A, i, rank)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    j = base + np.uint64(indices[p])
                    top, count = starts[j], starts[j + ONE] - starts[j]
                    for k in range(count):
                        chances[k] = total(multiply_add(a, load(B, top + k, rank), zero(a)))
                    softmax(chances, count, np.uint64(0))
                    weight = scale * data[m * p + ONE] if m > ONE else scale
                    middle = zero(a)
                    for k in range(count):
                        b = load(B, top + k, rank)
                        middle = axpy(chances[k], b, middle)
                        for n in range(r):
                            row = load(Q, i * r + n, rank)
                            store(Q, i * r + n, axpy(weight * chances[k] * B[top + k, n], b, row))
                    store(mean, np.uint64(0), middle)
                    for n in range(r):
                        row = load(Q, i * r + n, rank)
                        store(Q, i * r + n, axpy(-weight * mean[0, n], middle, row))

    return compiled(kernel)


@functools.cache
def blocks_by_column(rank: int) -> Any:
    """Kernel for Q + scale Σ w p (1 - p) b bᵀ of each category of each column, in the place of Q."""

    def kernel(progress, bounds, indptr, indices, step, data, m, starts, chances, A, B, scale, Q):  # type: ignore[no-untyped-def]
        chances, r = np.empty_like(chances), np.uint64(rank)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for j in range(bounds[c], bounds[c + ONE]):
                top, count = starts[j], starts[j + ONE] - starts[j]
                for p in range(indptr[first + j], indptr[first + j + ONE]):
                    i = base + np.uint64(indices[p])
                    b = load(B, i, rank)
                    for k in range(count):
                        chances[k] = total(multiply_add(load(A, top + k, rank), b, zero(b)))
                    softmax(chances, count, np.uint64(0))
                    weight = scale * data[m * p + ONE] if m > ONE else scale
                    for k in range(count):
                        curvature = weight * chances[k] * (1.0 - chances[k])
                        for n in range(r):
                            row = load(Q, (top + k) * r + n, rank)
                            store(Q, (top + k) * r + n, axpy(curvature * B[i, n], b, row))

    return compiled(kernel)
