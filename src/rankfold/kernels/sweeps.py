"""The passes over the observed set: value, gradient, its entries, derivative, line polynomial, product.

A pass over rows takes entry after entry of a row i: gather B_j (of B = R), combine it with A_i (of A = L),
accumulate. The pass over columns is the same code with the roles exchanged; it recomputes residuals, which is
cheaper than storing and permuting them. `rank`, `loss` and `weighted` are constants of each compiled kernel.

Every kernel takes chunks: chunk c of a stripe is its rows `bounds[stripe, c]` to `bounds[stripe, c + 1]`. A
side is `bounds`, `indptr`, `indices`, `data`, with value or value and weight of each entry in `data`; all
integers unsigned, for numba would otherwise test every index for being negative.

Rows are asked for some entries ahead of their use, which hides most of the way to memory. Where B outgrows
the cache all the same, a side comes in stripes of its columns (`rankfold.entries.observed`): each stripe but
the first adds to the rows that those before it have written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from rankfold.kernels import formulas
from rankfold.kernels.chunks import finish, next_chunk
from rankfold.kernels.compiling import compiled
from rankfold.kernels.registers import axpy, load, multiply_add, prefetch, store, total, zero

Kernel = Callable[..., None]
ONE = np.uint64(1)

_formulas = tuple(register_jitable(formula) for formula in formulas.BUILT_IN)


def _entry(loss: Any, w: float, y: float, parameter: float) -> formulas.Triple:
    """(ℓ, ℓ', ℓ'') of one entry, for a loss that is a number of a built-in one or a compiled function."""
    raise NotImplementedError  # only its compiled form, below, is ever called


@overload(_entry, prefer_literal=True)
def _compiled_entry(loss, w, y, parameter):  # type: ignore[no-untyped-def]  # numba compares signatures
    if isinstance(loss, types.Dispatcher):
        return lambda loss, w, y, parameter: loss(w, y, parameter)
    if not isinstance(loss, types.IntegerLiteral):
        return None  # so that numba reports what is wrong with the literal's formula
    formula = _formulas[loss.literal_value]
    return lambda loss, w, y, parameter: formula(w, y, parameter)


def _ahead(length: int) -> np.uint64:
    """Entries between asking for a row and using it: 12 to 32 measure alike, 20 best with 10⁸ entries."""
    return np.uint64(min(20, max(2, 1024 // length)))


def numbers(weighted: bool) -> np.uint64:
    """Numbers that come with an entry: its value, and its weight."""
    return np.uint64(2 if weighted else 1)


# Up to this rank, rows of several arrays that are wanted together lie side by side in one: a gathered row of
# few numbers is paid by the cache line. Beyond, the copies would cost more than they save.
_SIDE_BY_SIDE = 16


def laid_out(*arrays: Any) -> tuple[Any, ...]:
    """Arrays of one shape as the kernels below want them: three, of which the last may be repeated."""
    if arrays[0].shape[1] <= _SIDE_BY_SIDE:
        arrays = (np.stack(arrays, axis=1),)
    return (*arrays, arrays[-1], arrays[-1])[:3]


def _places(rank: int, terms: int) -> tuple[np.uint64, np.uint64, int]:
    """(step, shift, width): row i of array k is row step i + shift k of member k of `laid_out`.

    `width` numbers are fetched at once.
    """
    if rank <= _SIDE_BY_SIDE:
        return np.uint64(terms), ONE, terms * rank
    return ONE, np.uint64(0), rank


def _compile(kernel: Kernel, loss: Any = formulas.SQUARE) -> Any:
    # A user's loss is a different object in each process: its kernels could never be found in the cache.
    return compiled(kernel, cache=isinstance(loss, int))


@functools.cache
def evaluation(rank: int, loss: Any, weighted: bool) -> Any:
    """Kernel for the sum of the losses, by chunk, and `f_A`, which is `f_L` by rows and `f_R` by columns."""
    ahead, m = _ahead(rank), numbers(weighted)

    def kernel(  # type: ignore[no-untyped-def]
        progress, bounds, indptr, indices, data, A, B, parameter, scale, sums, f_A
    ):  # fmt: skip
        last, lines = np.uint64(indices.size - 1), bounds[0, bounds.shape[1] - 1]
        while True:
            stripe, c = next_chunk(progress, bounds)
            if stripe >= bounds.shape[0]:
                break
            first = stripe * lines
            sum_ = 0.0
            for i in range(bounds[stripe, c], bounds[stripe, c + ONE]):
                a = load(A, i, rank)
                gradient = load(f_A, i, rank) if stripe else zero(a)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    prefetch(B, np.uint64(indices[min(p + ahead, last)]), rank)
                    b = load(B, np.uint64(indices[p]), rank)
                    w = np.float64(total(multiply_add(a, b, zero(a))))
                    value, slope, _ = _entry(loss, w, np.float64(data[m * p]), parameter)
                    if weighted:
                        value *= data[m * p + ONE]
                        slope *= data[m * p + ONE]
                    sum_ += value
                    gradient = axpy(scale * slope, b, gradient)
                store(f_A, i, gradient)
            sums[stripe, c] = sum_
            finish(progress)

    return _compile(kernel, loss)


@functools.cache
def value(rank: int, loss: Any, weighted: bool) -> Any:
    """Kernel for the sum of the losses, by chunk."""
    ahead, m = _ahead(rank), numbers(weighted)

    def kernel(  # type: ignore[no-untyped-def]
        progress, bounds, indptr, indices, data, A, B, parameter, sums
    ):  # fmt: skip
        last, lines = np.uint64(indices.size - 1), bounds[0, bounds.shape[1] - 1]
        while True:
            stripe, c = next_chunk(progress, bounds)
            if stripe >= bounds.shape[0]:
                break
            first = stripe * lines
            sum_ = 0.0
            for i in range(bounds[stripe, c], bounds[stripe, c + ONE]):
                a = load(A, i, rank)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    prefetch(B, np.uint64(indices[min(p + ahead, last)]), rank)
                    b = load(B, np.uint64(indices[p]), rank)
                    w = np.float64(total(multiply_add(a, b, zero(a))))
                    value, _, _ = _entry(loss, w, np.float64(data[m * p]), parameter)
                    sum_ += value * data[m * p + ONE] if weighted else value
            sums[stripe, c] = sum_
            finish(progress)

    return _compile(kernel, loss)


@functools.cache
def slopes(rank: int, loss: Any, weighted: bool) -> Any:
    """Kernel for the entries of S = ∇f(W) on Ω, in the order of the side."""
    ahead, m = _ahead(rank), numbers(weighted)

    def kernel(  # type: ignore[no-untyped-def]
        progress, bounds, indptr, indices, data, A, B, parameter, scale, out
    ):  # fmt: skip
        last, lines = np.uint64(indices.size - 1), bounds[0, bounds.shape[1] - 1]
        while True:
            stripe, c = next_chunk(progress, bounds)
            if stripe >= bounds.shape[0]:
                break
            first = stripe * lines
            for i in range(bounds[stripe, c], bounds[stripe, c + ONE]):
                a = load(A, i, rank)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    prefetch(B, np.uint64(indices[min(p + ahead, last)]), rank)
                    b = load(B, np.uint64(indices[p]), rank)
                    w = np.float64(total(multiply_add(a, b, zero(a))))
                    _, slope, _ = _entry(loss, w, np.float64(data[m * p]), parameter)
                    out[p] = scale * (slope * data[m * p + ONE] if weighted else slope)
            finish(progress)

    return _compile(kernel, loss)


@functools.cache
def derivative(rank: int, loss: Any, weighted: bool) -> Any:
    """Kernel for the change `df_A` of `f_A` along (dA, dB); As is laid_out(A, dA), and Bs likewise."""
    ahead, m = _ahead(2 * rank), numbers(weighted)
    (step, shift, width), apart = _places(rank, 2), rank > _SIDE_BY_SIDE

    def kernel(  # type: ignore[no-untyped-def]
        progress, bounds, indptr, indices, data, As, Bs, parameter, scale, df_A
    ):  # fmt: skip
        last, lines = np.uint64(indices.size - 1), bounds[0, bounds.shape[1] - 1]
        while True:
            stripe, c = next_chunk(progress, bounds)
            if stripe >= bounds.shape[0]:
                break
            first = stripe * lines
            for i in range(bounds[stripe, c], bounds[stripe, c + ONE]):
                a = load(As[0], step * i, rank)
                da = load(As[1], step * i + shift, rank)
                change = load(df_A, i, rank) if stripe else zero(a)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    soon = np.uint64(indices[min(p + ahead, last)])
                    prefetch(Bs[0], soon, width)
                    if apart:
                        prefetch(Bs[1], soon, width)
                    j = step * np.uint64(indices[p])
                    b = load(Bs[0], j, rank)
                    db = load(Bs[1], j + shift, rank)
                    w = np.float64(total(multiply_add(a, b, zero(a))))
                    dw = np.float64(total(multiply_add(a, db, multiply_add(da, b, zero(a)))))
                    _, slope, second = _entry(loss, w, np.float64(data[m * p]), parameter)
                    weight = scale * data[m * p + ONE] if weighted else scale
                    change = axpy(weight * slope, db, axpy(weight * second * dw, b, change))
                store(df_A, i, change)
            finish(progress)

    return _compile(kernel, loss)


@functools.cache
def polynomial(rank: int, terms1: int, terms2: int, weighted: bool) -> Any:
    """Kernel for the coefficients of t ↦ Σ ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)² on Ω, by chunk of rows.

    Ls and Rs are `terms1` and `terms2` arrays, one to three, `laid_out`. Of each chunk only every `stride`-th
    row is taken; the last column of `sums` counts the entries.
    """
    degree = terms1 + terms2 - 2
    ahead, m = _ahead(terms2 * rank), numbers(weighted)
    (step1, shift1, _), (step2, shift2, width) = _places(rank, terms1), _places(rank, terms2)
    apart = rank > _SIDE_BY_SIDE

    def kernel(  # type: ignore[no-untyped-def]
        progress, bounds, indptr, indices, data, Ls, Rs, stride, sums
    ):  # fmt: skip
        last, lines = np.uint64(indices.size - 1), bounds[0, bounds.shape[1] - 1]
        while True:
            stripe, c = next_chunk(progress, bounds)
            if stripe >= bounds.shape[0]:
                break
            first = stripe * lines
            c0 = c1 = c2 = c3 = c4 = c5 = c6 = c7 = c8 = entries = 0.0
            for i in range(bounds[stripe, c], bounds[stripe, c + ONE], stride):
                entries += indptr[first + i + ONE] - indptr[first + i]
                a0 = load(Ls[0], step1 * i, rank)
                a1 = load(Ls[1], step1 * i + shift1, rank) if terms1 > 1 else zero(a0)
                a2 = load(Ls[2], step1 * i + shift1 + shift1, rank) if terms1 > 2 else zero(a0)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    soon = np.uint64(indices[min(p + ahead, last)])
                    prefetch(Rs[0], soon, width)
                    if apart and terms2 > 1:
                        prefetch(Rs[1], soon, width)
                    if apart and terms2 > 2:
                        prefetch(Rs[2], soon, width)
                    j = step2 * np.uint64(indices[p])
                    b0 = load(Rs[0], j, rank)
                    w0 = multiply_add(a0, b0, zero(a0))
                    w1 = multiply_add(a1, b0, zero(a0)) if terms1 > 1 else zero(a0)
                    w2 = multiply_add(a2, b0, zero(a0)) if terms1 > 2 else zero(a0)
                    w3 = zero(a0)
                    w4 = zero(a0)
                    if terms2 > 1:
                        b1 = load(Rs[1], j + shift2, rank)
                        w1 = multiply_add(a0, b1, w1)
                        w2 = multiply_add(a1, b1, w2) if terms1 > 1 else w2
                        w3 = multiply_add(a2, b1, w3) if terms1 > 2 else w3
                    if terms2 > 2:
                        b2 = load(Rs[2], j + shift2 + shift2, rank)
                        w2 = multiply_add(a0, b2, w2)
                        w3 = multiply_add(a1, b2, w3) if terms1 > 1 else w3
                        w4 = multiply_add(a2, b2, w4) if terms1 > 2 else w4
                    weight = np.float64(data[m * p + ONE]) if weighted else 1.0
                    e0 = np.float64(total(w0)) - data[m * p]
                    c0 += weight * e0 * e0
                    if degree > 0:
                        e1 = np.float64(total(w1))
                        c1 += weight * 2.0 * e0 * e1
                        c2 += weight * e1 * e1
                    if degree > 1:
                        e2 = np.float64(total(w2))
                        c2 += weight * 2.0 * e0 * e2
                        c3 += weight * 2.0 * e1 * e2
                        c4 += weight * e2 * e2
                    if degree > 2:
                        e3 = np.float64(total(w3))
                        c3 += weight * 2.0 * e0 * e3
                        c4 += weight * 2.0 * e1 * e3
                        c5 += weight * 2.0 * e2 * e3
                        c6 += weight * e3 * e3
                    if degree > 3:
                        e4 = np.float64(total(w4))
                        c4 += weight * 2.0 * e0 * e4
                        c5 += weight * 2.0 * e1 * e4
                        c6 += weight * 2.0 * e2 * e4
                        c7 += weight * 2.0 * e3 * e4
                        c8 += weight * e4 * e4
            for k, coefficient in enumerate((c0, c1, c2, c3, c4, c5, c6, c7, c8, entries)):
                sums[stripe, c, k] = coefficient
            finish(progress)

    return _compile(kernel)


@functools.cache
def product(width: int, valued: bool = True) -> Any:
    """Kernel for Y = S X with S the values on Ω (or Sᵀ X: the other side) and X of `width` columns.

    Without values S is the pattern of Ω, and `data` is not looked at.
    """
    ahead = _ahead(width)

    def kernel(progress, bounds, indptr, indices, data, X, Y):  # type: ignore[no-untyped-def]
        last, lines = np.uint64(indices.size - 1), bounds[0, bounds.shape[1] - 1]
        while True:
            stripe, c = next_chunk(progress, bounds)
            if stripe >= bounds.shape[0]:
                break
            first = stripe * lines
            for i in range(bounds[stripe, c], bounds[stripe, c + ONE]):
                y = load(Y, i, width)
                y = y if stripe else zero(y)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    prefetch(X, np.uint64(indices[min(p + ahead, last)]), width)
                    y = axpy(data[p] if valued else 1.0, load(X, np.uint64(indices[p]), width), y)
                store(Y, i, y)
            finish(progress)

    return _compile(kernel)
