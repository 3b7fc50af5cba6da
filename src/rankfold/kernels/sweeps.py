"""The passes over the observed set: value, gradient, its entries, derivative and model, product.

A pass over rows takes entry after entry of a row i: gather B_j (of B = R), combine it with A_i (of A = L),
accumulate. The pass over columns is the same code with the roles exchanged; it recomputes residuals, which is
cheaper than storing and permuting them. `rank`, `loss` and `weighted` are constants of each compiled kernel;
that for few entries (`loss` None) is told the others as `choices`, its first argument, which `told` binds.
A user's loss is a different object in each process: its kernels are not cached, for none would find them.

Every kernel takes chunks: chunk c of a stripe is its rows `bounds[c]` to `bounds[c + 1]`. A side is `bounds`,
`indptr`, `indices`, `step`, `data`, with value or value and weight of each entry in `data`, in float32 or
float64; indices of stripe s count from column s `step`. All integers are unsigned, for numba would otherwise
test every index for being negative.

Rows are asked for some entries ahead of their use, which hides most of the way to memory. Where B outgrows
the cache all the same, a side comes in stripes of its columns (`rankfold.entries.observed`): each stripe but
the first adds to the rows that those before it have written.

To add up the numbers of a row of products takes more steps than the products, and four such sums at once half
as many. So the square loss, which alone needs no function of each entry, is taken by four entries, and its
derivative by two, where their rows stay in registers. On a Xeon evaluations took 0.85 of the time at rank 5,
0.68 at 8 and 10, 0.78 at 20 and 0.85 at 32, derivatives 0.9 to 0.8.

The loop over chunks is a generator (`chunks`), free of cost; those over rows and entries stand in each kernel
again, as they do in `least_squares` and `polynomial`. numba would let them stand once, around functions
`begin`, `entry` and `end` of each pass, whose state is a tuple of rows. Measured so at ranks 5, 10, 20 and 50
(2 to 3·10⁵ entries, one thread, least time of 450 on a busy machine), `value` took 6, 3, 3 and 2% longer,
`evaluation` 3, 1, 3 and -1%, `derivative` 1, -3, -1 and -2%. And each pass was five functions, hard to read.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from rankfold.kernels import formulas
from rankfold.kernels.chunks import chunks_in_order
from rankfold.kernels.compiling import compiled
from rankfold.kernels.layout import NOT_LOOKED_AT, ONE, SIDE_BY_SIDE, ahead_by, numbers, places
from rankfold.kernels.registers import (
    axpy,
    four_zeros,
    lane,
    load,
    load_four,
    multiply_add,
    prefetch,
    several,
    store,
    total,
    totals,
    zero,
)

SQUARE = formulas.BUILT_IN.index(formulas.square)
TWO, THREE, FOUR = (np.uint64(n) for n in (2, 3, 4))
# Values come one after the other, but while rows are gathered the processor does not ask for the next page of
# them by itself. On a Zen 5 evaluations take 0.83 of the time at P2, 0.93 at P5, 0.85 at 10⁷ entries.
PAGE = np.uint64(512)
_formulas = tuple(register_jitable(formula) for formula in formulas.BUILT_IN)
_square, _logistic, _huber, _poisson, _squared_hinge = _formulas


def entry_losses(loss: Any, choices: Any, w: float, y: float, parameter: float) -> formulas.Triple:
    """(ℓ, ℓ', ℓ'') of one entry: of a built-in loss by its number, a compiled function, or what is chosen."""
    raise NotImplementedError  # only its compiled form, below, is ever called


@overload(entry_losses, prefer_literal=True)
def _compiled_entry(loss, choices, w, y, parameter):  # type: ignore[no-untyped-def]  # numba compares signatures
    if isinstance(loss, types.NoneType):  # the square without the call, which costs three times the pass
        return lambda loss, choices, w, y, parameter: (
            _square(w, y, parameter) if choices[0] == 0 else _chosen(choices[0], w, y, parameter)
        )
    if isinstance(loss, types.Dispatcher):
        return lambda loss, choices, w, y, parameter: loss(w, y, parameter)
    if not isinstance(loss, types.IntegerLiteral):
        return None  # so that numba reports what is wrong with the literal's formula
    formula = _formulas[loss.literal_value]
    return lambda loss, choices, w, y, parameter: formula(w, y, parameter)


@register_jitable
def _chosen(loss: int, w: float, y: float, parameter: float) -> Any:
    """(ℓ, ℓ', ℓ'') of the built-in loss of this number, which is not 0, the square's."""
    if loss == 1:
        return _logistic(w, y, parameter)
    if loss == 2:
        return _huber(w, y, parameter)
    if loss == 3:
        return _poisson(w, y, parameter)
    return _squared_hinge(w, y, parameter)


def told(kernel: Any, loss: Any, weighted: bool, more: bool, few: bool) -> Any:
    """`kernel(loss, weighted, more)`, or for few entries the one that serves all of these, told which."""
    if few and isinstance(loss, int):
        return functools.partial(kernel(None, False, False), (loss, numbers(weighted), more))
    return functools.partial(kernel(loss, weighted, more), NOT_LOOKED_AT)


def by_several(rank: int, loss: Any, weighted: bool) -> bool:
    """Whether entries come several at a time: of the square loss, where their rows stay in registers."""
    return loss == SQUARE and not weighted and several(rank)


@functools.cache
def evaluation(rank: int, loss: Any, weighted: bool, partials: bool = True, few: bool = False) -> Any:
    """Kernel for the sum of the losses, by chunk, and `f_A`, which is `f_L` by rows and `f_R` by columns.

    Without `partials`, for the sum alone: `f_A` is not looked at.
    """
    return told(functools.partial(_evaluation, rank), loss, weighted, partials, few)


@functools.cache
def _evaluation(rank: int, loss: Any, of_weighted: bool, of_partials: bool) -> Any:
    ahead, numbers_, any_ = ahead_by(rank), numbers(of_weighted), loss is None
    by_fours = by_several(rank, loss, of_weighted)

    def kernel(  # type: ignore[no-untyped-def]
        choices, progress, bounds, indptr, indices, step, data, A, B, parameter, scale, sums, f_A
    ):
        m, partials = (choices[1], choices[2]) if any_ else (numbers_, of_partials)
        weighted = m > ONE if any_ else of_weighted
        last = np.uint64(indices.size - 1)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base, sum_, squares = stripe * step, 0.0, four_zeros()
            for i in range(bounds[c], bounds[c + ONE]):
                a = load(A, i, rank)
                gradient = load(f_A, i, rank) if partials and stripe else zero(a)
                start, end = indptr[first + i], indptr[first + i + ONE]
                while by_fours and start + FOUR <= end:
                    prefetch(data, start + PAGE, 1)
                    for k in range(start + ahead, start + ahead + FOUR):
                        prefetch(B, base + np.uint64(indices[min(k, last)]), rank)
                    b0 = load(B, base + np.uint64(indices[start]), rank)
                    b1 = load(B, base + np.uint64(indices[start + ONE]), rank)
                    b2 = load(B, base + np.uint64(indices[start + TWO]), rank)
                    b3 = load(B, base + np.uint64(indices[start + THREE]), rank)
                    w0, w1 = multiply_add(a, b0, zero(a)), multiply_add(a, b1, zero(a))
                    w2, w3 = multiply_add(a, b2, zero(a)), multiply_add(a, b3, zero(a))
                    e = axpy(-1.0, load_four(data, start), totals(w0, w1, w2, w3))
                    squares = multiply_add(e, e, squares)
                    if partials:
                        e = axpy(2.0 * scale, e, zero(e))
                        gradient = axpy(lane(e, 1), b1, axpy(lane(e, 0), b0, gradient))
                        gradient = axpy(lane(e, 3), b3, axpy(lane(e, 2), b2, gradient))
                    start += FOUR
                for p in range(start, end):
                    prefetch(B, base + np.uint64(indices[min(p + ahead, last)]), rank)
                    b = load(B, base + np.uint64(indices[p]), rank)
                    w = np.float64(total(multiply_add(a, b, zero(a))))
                    value, slope, _ = entry_losses(loss, choices, w, np.float64(data[m * p]), parameter)
                    if weighted:
                        value *= data[m * p + ONE]
                        slope *= data[m * p + ONE]
                    sum_ += value
                    if partials:
                        gradient = axpy(scale * slope, b, gradient)
                if partials:
                    store(f_A, i, gradient)
            sums[stripe, c] = sum_ + total(squares)

    return compiled(kernel, cache=loss is None or isinstance(loss, int))


@functools.cache
def slopes(rank: int, loss: Any, weighted: bool, few: bool = False) -> Any:
    """Kernel for the entries of S = ∇f(W) on Ω, in the order of the side."""
    return told(functools.partial(_slopes, rank), loss, weighted, False, few)


@functools.cache
def _slopes(rank: int, loss: Any, of_weighted: bool, _: bool) -> Any:
    ahead, numbers_, any_ = ahead_by(rank), numbers(of_weighted), loss is None

    def kernel(  # type: ignore[no-untyped-def]
        choices, progress, bounds, indptr, indices, step, data, A, B, parameter, scale, out
    ):
        m = choices[1] if any_ else numbers_
        weighted = m > ONE if any_ else of_weighted
        last = np.uint64(indices.size - 1)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for i in range(bounds[c], bounds[c + ONE]):
                a = load(A, i, rank)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    prefetch(B, base + np.uint64(indices[min(p + ahead, last)]), rank)
                    b = load(B, base + np.uint64(indices[p]), rank)
                    w = np.float64(total(multiply_add(a, b, zero(a))))
                    _, slope, _ = entry_losses(loss, choices, w, np.float64(data[m * p]), parameter)
                    out[p] = scale * (slope * data[m * p + ONE] if weighted else slope)

    return compiled(kernel, cache=loss is None or isinstance(loss, int))


@functools.cache
def derivative(rank: int, loss: Any, weighted: bool, model: bool = False, few: bool = False) -> Any:
    """Kernel for the change `df_A` of `f_A` along (dA, dB); As is laid_out(A, dA), and Bs likewise.

    With `model`, for what a Gauss–Newton model keeps of it: the part that ℓ″ makes, where that is positive.
    """
    return told(functools.partial(_derivative, rank), loss, weighted, model, few)


@functools.cache
def _derivative(rank: int, loss: Any, of_weighted: bool, of_model: bool) -> Any:
    # Two rows are asked for. Half as far ahead takes 0.97 of the time at rank 50, 0.88 at 20.
    ahead, numbers_, any_ = max(np.uint64(5), ahead_by(4 * rank)), numbers(of_weighted), loss is None
    (each, shift, width), apart = places(rank, 2), rank > SIDE_BY_SIDE
    by_twos = not of_model and by_several(rank, loss, of_weighted)

    def kernel(  # type: ignore[no-untyped-def]
        choices, progress, bounds, indptr, indices, step, data, As, Bs, parameter, scale, df_A
    ):
        m, model = (choices[1], choices[2]) if any_ else (numbers_, of_model)
        weighted = m > ONE if any_ else of_weighted
        last = np.uint64(indices.size - 1)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for i in range(bounds[c], bounds[c + ONE]):
                a = load(As[0], each * i, rank)
                da = load(As[1], each * i + shift, rank)
                change = load(df_A, i, rank) if stripe else zero(a)
                start, end = indptr[first + i], indptr[first + i + ONE]
                while by_twos and start + TWO <= end:
                    prefetch(data, start + PAGE, 1)
                    for k in range(start + ahead, start + ahead + TWO):
                        soon = base + np.uint64(indices[min(k, last)])
                        prefetch(Bs[0], soon, width)
                        if apart:
                            prefetch(Bs[1], soon, width)
                    j0 = each * (base + np.uint64(indices[start]))
                    j1 = each * (base + np.uint64(indices[start + ONE]))
                    b0, db0 = load(Bs[0], j0, rank), load(Bs[1], j0 + shift, rank)
                    b1, db1 = load(Bs[0], j1, rank), load(Bs[1], j1 + shift, rank)
                    w0, w1 = multiply_add(a, b0, zero(a)), multiply_add(a, b1, zero(a))
                    dw0 = multiply_add(a, db0, multiply_add(da, b0, zero(a)))
                    dw1 = multiply_add(a, db1, multiply_add(da, b1, zero(a)))
                    four = totals(w0, w1, dw0, dw1)
                    twice = 2.0 * scale
                    change = axpy(twice * (lane(four, 0) - data[start]), db0, change)
                    change = axpy(twice * (lane(four, 1) - data[start + ONE]), db1, change)
                    change = axpy(twice * lane(four, 2), b0, change)
                    change = axpy(twice * lane(four, 3), b1, change)
                    start += TWO
                for p in range(start, end):
                    soon = base + np.uint64(indices[min(p + ahead, last)])
                    prefetch(Bs[0], soon, width)
                    if apart:
                        prefetch(Bs[1], soon, width)
                    j = each * (base + np.uint64(indices[p]))
                    b = load(Bs[0], j, rank)
                    w = np.float64(total(multiply_add(a, b, zero(a))))
                    prefetch(data, m * p + PAGE, 1)
                    db = load(Bs[1], j + shift, rank)  # now: long rows are more than registers hold
                    dw = np.float64(total(multiply_add(a, db, multiply_add(da, b, zero(a)))))
                    _, slope, second = entry_losses(loss, choices, w, np.float64(data[m * p]), parameter)
                    weight = scale * data[m * p + ONE] if weighted else scale
                    if model:
                        change = axpy(weight * max(second, 0.0) * dw, b, change)
                    else:
                        change = axpy(weight * slope, db, axpy(weight * second * dw, b, change))
                store(df_A, i, change)

    return compiled(kernel, cache=loss is None or isinstance(loss, int))


@functools.cache
def product(width: int, valued: bool = True) -> Any:
    """Kernel for Y = S X with S the values on Ω (or Sᵀ X: the other side) and X of `width` columns.

    Without values S is the pattern of Ω, and `data` is not looked at.
    """
    ahead = ahead_by(width)

    def kernel(progress, bounds, indptr, indices, step, data, X, Y):  # type: ignore[no-untyped-def]
        last = np.uint64(indices.size - 1)
        for stripe, c, first in chunks_in_order(progress, bounds, indptr):
            base = stripe * step
            for i in range(bounds[c], bounds[c + ONE]):
                y = load(Y, i, width)
                y = y if stripe else zero(y)
                for p in range(indptr[first + i], indptr[first + i + ONE]):
                    if valued:
                        prefetch(data, p + PAGE, 1)
                    prefetch(X, base + np.uint64(indices[min(p + ahead, last)]), width)
                    x = load(X, base + np.uint64(indices[p]), width)
                    y = axpy(data[p] if valued else 1.0, x, y)
                store(Y, i, y)

    return compiled(kernel)
