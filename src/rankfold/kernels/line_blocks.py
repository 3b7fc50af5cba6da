"""One r×r block for each line of Ω: formed, inverted and applied line by line.

As in `sweeps`, a line is a row of W or a column, A the factor whose rows belong to the lines and B the other
one. Blocks lie one below the other, (d r, r). Lines have nothing to do with each other, so any number of
threads gives the same bits.

Inverted, they lie in groups of `LANES` lines: a number of the lower triangle of one line, that of the next,
and so on. So the lines of a group are worked on side by side, each in its lane of a vector, without a sum
over the numbers of any vector, and nothing is held, or done, for the upper triangle.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numba.extending import register_jitable

from rankfold.kernels.chunks import chunks, chunks_in_order
from rankfold.kernels.compiling import called, compiled
from rankfold.kernels.lanes import (
    LANES,
    add_multiples,
    load_sums,
    store_sums,
    turn,
    turn_back,
    vectors,
    weigh,
)
from rankfold.kernels.layout import NOT_LOOKED_AT, ONE, ahead_by, numbers
from rankfold.kernels.products import product
from rankfold.kernels.registers import (
    axpy,
    held,
    load,
    load_wide,
    multiply_add,
    prefetch,
    store,
    store_narrow,
    total,
    zero,
)
from rankfold.kernels.sweeps import SQUARE, entry_losses, told

LARGE = 8  # ranks
_WRITTEN_OUT = 12  # ranks up to which a product with a triangle of vectors is written out
_TWO, _THREE, _FOUR = (np.uint64(n) for n in (2, 3, 4))
_AT_ONCE = np.uint64(64)  # entries of a line whose rows are gathered before any of them is used


@functools.cache
def blocks(rank: int, loss: Any, weighted: bool, few: bool = False) -> Any:
    """Kernel for Q_i + scale Σ w ℓ″ b bᵀ of each line, in the place of Q_i.

    The square loss has a constant ℓ″, and needs no entry of W. Blocks that are larger than rows are small are
    filled line by line, through all stripes; others stripe by stripe, to gather from near.
    """
    return told(functools.partial(_blocks, rank), loss, weighted, False, few)


@functools.cache
def _blocks(rank: int, loss: Any, of_weighted: bool, _: bool) -> Any:
    numbers_, any_, is_square = numbers(of_weighted), loss is None, loss == SQUARE
    add, line_by_line, gather = product(rank, lower=True), rank >= LARGE, _gathered(rank, loss)

    def kernel(  # type: ignore[no-untyped-def]
        choices, progress, bounds, indptr, indices, step, data, A, B, parameter, scale, Q
    ):
        m, constant = (choices[1], choices[0] == SQUARE) if any_ else (numbers_, is_square)
        r, lines = np.uint64(rank), bounds[-1]
        stripes = np.uint64(indptr.size - 1) // lines
        rows, scaled = np.empty((_AT_ONCE, r), B.dtype), np.empty((_AT_ONCE, r), B.dtype)
        in_order = indptr[: lines + ONE] if line_by_line else indptr
        for stripe, c, _ in chunks_in_order(progress, bounds, in_order):
            until = stripes if line_by_line else stripe + ONE
            for i in range(bounds[c], bounds[c + ONE]):
                for s in range(stripe, until):
                    end = indptr[s * lines + i + ONE]
                    for start in range(indptr[s * lines + i], end, _AT_ONCE):
                        count = min(_AT_ONCE, end - start)
                        told = choices, constant, m, parameter, scale
                        gather(told, i, start, count, s * step, indices, data, A, B, rows, scaled)
                        add(scaled, rows, np.uint64(0), count, Q, i * r)
                if until == stripes:  # the upper triangle is that below
                    for k in range(r):
                        for n in range(k):
                            Q[i * r + n, k] = Q[i * r + k, n]

    return compiled(kernel, cache=loss is None or isinstance(loss, int))


@functools.cache
def _gathered(rank: int, loss: Any) -> Any:
    """Function that puts b of `count` entries of line i, from `start` on, into `rows`; scale w ℓ″ b beside.

    What it is told: choices, whether ℓ″ is a constant, the numbers of an entry, the parameter and the scale.
    """
    ahead = ahead_by(rank)

    def gather(told, i, start, count, base, indices, data, A, B, rows, scaled):  # type: ignore[no-untyped-def]
        choices, constant, m, parameter, scale = told
        last = np.uint64(indices.size - 1)
        for k in range(count):
            p = start + k
            prefetch(B, base + np.uint64(indices[min(p + ahead, last)]), rank)
            b = load(B, base + np.uint64(indices[p]), rank)
            second = 2.0
            if not constant:
                w = np.float64(total(multiply_add(load(A, i, rank), b, zero(b))))
                _, _, second = entry_losses(loss, choices, w, np.float64(data[m * p]), parameter)
            if m > ONE:
                second *= data[m * p + ONE]
            store(rows, k, b)
            store(scaled, k, axpy(scale * second, b, zero(b)))

    return called(gather, rank, loss) if loss is None or isinstance(loss, int) else register_jitable(gather)


def packed(lines: int, rank: int) -> tuple[int, int, int]:
    """Groups, numbers of a triangle, and lanes: the shape of inverted blocks."""
    return -(-lines // LANES), rank * (rank + 1) // 2, LANES


@functools.cache
def invert(rank: int) -> Any:
    """Kernel for rows u_k, in `out`, with (scale Q_i + diag(ridge))⁻¹ = Σ u_k u_kᵀ.

    They are the rows of the inverse of the Cholesky factor, by Gaussian elimination: left of the pivot a row
    holds the inverse so far, right of it what is left of Q_i. A sum of squares is symmetric and positive
    semidefinite however `out` rounds it. A pivot that is `lost` of its diagonal entry, or less, is rounding:
    its unknown becomes zero.
    """
    lanes, take, eliminate = np.uint64(LANES), _taken(rank), _eliminated(rank)

    def kernel(progress, bounds, Q, scale, ridge, lost, out):  # type: ignore[no-untyped-def]
        r = np.uint64(rank)
        lines, size = np.uint64(len(Q)) // r, r * (r + ONE) // np.uint64(2)
        q, least = np.zeros((size, LANES)), np.empty((r, LANES))
        for c in chunks(progress, bounds.size - 1):
            for g in range(bounds[c], bounds[c + 1]):
                count = min(lanes, lines - g * lanes)
                for lane in range(count):
                    take(Q, (g * lanes + lane) * r, scale, ridge, lost, lane, q, least)
                q[:, count:], least[:, count:] = 0.0, 0.0  # no lines: zero, whatever a thread did before
                eliminate(q, least, out, g * size)

    return compiled(kernel)


@functools.cache
def formed_and_inverted(rank: int) -> Any:
    """Kernel for what `invert` makes of the blocks of the square loss without weights, one group at a time.

    Blocks of all lines are r times as large as factors: these are never there.
    """
    lanes, take, eliminate = np.uint64(LANES), _taken(rank), _eliminated(rank)
    add, gather = product(rank, lower=True), _gathered(rank, SQUARE)

    def kernel(  # type: ignore[no-untyped-def]
        progress, bounds, indptr, indices, step, data, B, each, scale, ridge, lost, lines, out
    ):
        r = np.uint64(rank)
        size, stripes = r * (r + ONE) // np.uint64(2), np.uint64(indptr.size - 1) // lines
        rows, scaled = np.empty((_AT_ONCE, r), B.dtype), np.empty((_AT_ONCE, r), B.dtype)
        Q, q, least = np.empty((r, r), B.dtype), np.zeros((size, LANES)), np.empty((r, LANES))
        nothing, told = zero(load(B, np.uint64(0), rank)), (NOT_LOOKED_AT, True, ONE, 0.0, each)
        for c in chunks(progress, bounds.size - 1):
            for g in range(bounds[c], bounds[c + 1]):
                among = min(lanes, lines - g * lanes)
                for lane in range(among):
                    i = g * lanes + lane
                    for k in range(r):
                        store(Q, k, nothing)
                    for s in range(stripes):
                        end = indptr[s * lines + i + ONE]
                        for start in range(indptr[s * lines + i], end, _AT_ONCE):
                            count = min(_AT_ONCE, end - start)
                            gather(told, i, start, count, s * step, indices, data, B, B, rows, scaled)
                            add(scaled, rows, np.uint64(0), count, Q, np.uint64(0))
                    take(Q, np.uint64(0), scale, ridge, lost, lane, q, least)
                q[:, among:], least[:, among:] = 0.0, 0.0
                eliminate(q, least, out, g * size)

    return compiled(kernel)


@functools.cache
def _taken(rank: int) -> Any:
    """Function that puts scale Q + diag(ridge) of one line, r rows of Q from `top` on, into its lane of q."""

    def taken(Q, top, scale, ridge, lost, lane, q, least):  # type: ignore[no-untyped-def]
        at = np.uint64(0)
        for k in range(np.uint64(rank)):
            for n in range(k + ONE):
                q[at + n, lane] = scale * Q[top + k, n]
            at += k + ONE
            q[at - ONE, lane] += ridge[k]
            least[k, lane] = lost * q[at - ONE, lane]

    return called(taken, rank)


@functools.cache
def _eliminated(rank: int) -> Any:
    """Function that puts the rows u_k of a group of lines, as `invert` says, into `out` from `top` on."""
    lanes = np.uint64(LANES)

    def eliminated(q, least, out, top):  # type: ignore[no-untyped-def]
        r = np.uint64(rank)
        column, inverse = np.empty((r, LANES)), np.empty((ONE, LANES))
        for k in range(r):
            own = k * (k + ONE) // np.uint64(2)
            for lane in range(lanes):
                pivot = q[own + k, lane]
                inverse[0, lane] = 1.0 / pivot if pivot > least[k, lane] else 0.0
            at = own
            for n in range(k + ONE, r):
                at += n
                store(column, n, load(q, at + k, LANES))
                f = load(inverse, np.uint64(0), LANES)
                f = multiply_add(f, load(column, n, LANES), zero(f))
                f = axpy(-1.0, f, zero(f))
                for j in range(k):
                    store(q, at + j, multiply_add(f, load(q, own + j, LANES), load(q, at + j, LANES)))
                store(q, at + k, f)
                for j in range(k + ONE, n + ONE):
                    store(q, at + j, multiply_add(f, load(column, j, LANES), load(q, at + j, LANES)))
            for lane in range(lanes):
                inverse[0, lane] = np.sqrt(inverse[0, lane])
                q[own + k, lane] = 1.0
            root = load(inverse, np.uint64(0), LANES)
            for j in range(own, own + k + ONE):
                store_narrow(out, top + j, multiply_add(root, load(q, j, LANES), zero(root)))

    return called(eliminated, rank)


@functools.cache
def solve(rank: int) -> Any:
    """Kernel for out_i = N (Σ u_k u_kᵀ) Nᵀ x_i, with the rows u_k of `invert` in U, and T = Nᵀ.

    The lines of a group lie side by side from the first product to the last: number k of each in row k. What
    memory has of the groups after the next is asked for meanwhile: it comes half as fast as it is wanted.
    """
    lanes, multiply, weigh = np.uint64(LANES), _multiplied(rank), _weighed(rank)
    at_once = rank <= _WRITTEN_OUT  # else `weigh` asks for blocks, a part at a time

    def kernel(progress, bounds, U, N, T, x, out):  # type: ignore[no-untyped-def]
        r, lines = np.uint64(rank), np.uint64(len(x))
        size = r * (r + ONE) // np.uint64(2)
        given, along = vectors(r, out), vectors(r, out)
        for c in chunks(progress, bounds.size - 1):
            for g in range(bounds[c], bounds[c + 1]):
                top, count, soon = g * lanes, min(lanes, lines - g * lanes), g + _FOUR
                if count == lanes:
                    turn(x, top, rank, along)
                else:
                    for k in range(r):
                        for lane in range(lanes):
                            along[k, lane] = x[top + lane, k] if lane < count else 0.0
                if at_once:
                    for k in range(np.uint64(0), size, _TWO):
                        prefetch(U, (soon * size + k) * lanes, 1)
                multiply(N, along, given)
                for k in range(r):
                    prefetch(x, (soon * r + k) * lanes, 1)
                    prefetch(out, (soon * r + k) * lanes, 1)
                weigh(U, g * size, given, along)
                multiply(T, along, given)
                if count == lanes:
                    turn_back(given, out, top, rank)
                else:
                    for lane in range(count):
                        for k in range(r):
                            out[top + lane, k] = given[k, lane]

    return compiled(kernel)


@functools.cache
def _multiplied(rank: int) -> Any:
    """Function that puts Mᵀ X into Y, for a small matrix M and rows of lanes X and Y.

    As many rows at a time as registers hold: of fewer, each would wait for itself.
    """
    count = -(-rank // (held(LANES) // 2))
    side = -(-rank // count)

    def multiplied(M, X, Y):  # type: ignore[no-untyped-def]
        nothing = zero(load_sums(Y, np.uint64(0), side))
        for k in range(np.uint64(0), np.uint64(rank), np.uint64(side)):
            first, q = min(k, np.uint64(rank - side)), nothing
            for n in range(np.uint64(rank)):
                q = add_multiples(q, M, n, first, rank, load(X, n, LANES))
            store_sums(Y, first, q)

    return called(multiplied, rank)


@functools.cache
def _weighed(rank: int) -> Any:
    """Function that puts Σ u_k u_kᵀ X into Y, for rows of lanes X and Y and the rows u_k of U from `top` on.

    Up to some rank without any loop; then four rows at a time: a loop over so few numbers is over before the
    processor knows that it will be.
    """
    if rank <= _WRITTEN_OUT:

        def written_out(U, top, X, Y):  # type: ignore[no-untyped-def]
            weigh(U, top, X, Y, rank)

        return called(written_out, rank)

    def weighed(U, top, X, Y):  # type: ignore[no-untyped-def]
        r, fours, size = np.uint64(rank), np.uint64(rank // 4 * 4), np.uint64(rank * (rank + 1) // 2)
        nothing = zero(load(X, np.uint64(0), LANES))
        for k in range(r):
            store(Y, k, nothing)
        at = top
        for k in range(np.uint64(0), fours, _FOUR):
            k1, k2, k3 = k + ONE, k + _TWO, k + _THREE
            at1 = at + k1
            at2 = at1 + k2
            at3 = at2 + k3
            s0, s1, s2, s3 = nothing, nothing, nothing, nothing
            for n in range(k1):
                # Those of the next group: all at once they are more than memory can be asked for.
                prefetch(U, at + size + _FOUR * n, LANES)
                prefetch(U, at + size + _FOUR * n + _TWO, LANES)
                x = load(X, n, LANES)
                s0 = multiply_add(load_wide(U, at + n, LANES), x, s0)
                s1 = multiply_add(load_wide(U, at1 + n, LANES), x, s1)
                s2 = multiply_add(load_wide(U, at2 + n, LANES), x, s2)
                s3 = multiply_add(load_wide(U, at3 + n, LANES), x, s3)
            x1, x2, x3 = load(X, k1, LANES), load(X, k2, LANES), load(X, k3, LANES)
            u11 = load_wide(U, at1 + k1, LANES)
            u21, u22 = load_wide(U, at2 + k1, LANES), load_wide(U, at2 + k2, LANES)
            u31, u32 = load_wide(U, at3 + k1, LANES), load_wide(U, at3 + k2, LANES)
            u33 = load_wide(U, at3 + k3, LANES)
            s1 = multiply_add(u11, x1, s1)
            s2 = multiply_add(u21, x1, multiply_add(u22, x2, s2))
            s3 = multiply_add(u31, x1, multiply_add(u32, x2, multiply_add(u33, x3, s3)))
            for n in range(k1):
                y = multiply_add(load_wide(U, at + n, LANES), s0, load(Y, n, LANES))
                y = multiply_add(load_wide(U, at1 + n, LANES), s1, y)
                y = multiply_add(load_wide(U, at2 + n, LANES), s2, y)
                store(Y, n, multiply_add(load_wide(U, at3 + n, LANES), s3, y))
            store(Y, k1, multiply_add(u11, s1, multiply_add(u21, s2, multiply_add(u31, s3, nothing))))
            store(Y, k2, multiply_add(u22, s2, multiply_add(u32, s3, nothing)))
            store(Y, k3, multiply_add(u33, s3, nothing))
            at = at3 + k3 + ONE
        for k in range(fours, r):
            s = nothing
            for n in range(k + ONE):
                s = multiply_add(load_wide(U, at + n, LANES), load(X, n, LANES), s)
            for n in range(k + ONE):
                store(Y, n, multiply_add(load_wide(U, at + n, LANES), s, load(Y, n, LANES)))
            at += k + ONE

    return called(weighed, rank)
