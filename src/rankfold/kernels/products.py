"""Products AᵀB over some rows of tall arrays, held in registers while rows go by.

Of one pair, or of several A with one B. Where rows are short, one product leaves most of a processor idle:
each number that is added to waits for the row before, and of a vector of 8 numbers a row of 5 fills no more
than 5, in two pieces. So several products with the same B are made together, of rows that are filled up with
zeros: on a Zen 5 all that an iteration asks for take 0.8 of the time at rank 5 (P2), 0.6 at rank 7.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from rankfold.kernels import crossed
from rankfold.kernels.compiling import called
from rankfold.kernels.registers import (
    I64,
    Row,
    axpy,
    checked_address,
    fused,
    held,
    load_first,
    pointers,
    prefetch,
    repeated,
    row_of,
    shuffled,
    store_first,
    zero,
)

ARRAYS = 6  # of which pairs are made in one pass
MOST = 5  # products with one array, made together: so many an iteration asks for
WIDE = 8  # numbers of a vector
# Numbers between asking for a row and using it, which is not on the page that is read then: of so many arrays
# a processor does not ask by itself (rank 10, 10⁷ entries: 0.93 of the time; half as far, 0.95).
AHEAD = 1024


# One pair ---------------------------------------------------------------------------------------------------


@functools.cache
def _columns(rank: int, size: int, width: int, ahead: int) -> Any:
    """Function that adds `size` rows of AᵀB, from row k on, of some rows of A and B, to those in Q.

    Of those rows the first `width` numbers. Rows `ahead` are asked for, if there is such a number.
    """
    soon = np.uint64(ahead)

    def add(A, B, k, first, last, Q, top):  # type: ignore[no-untyped-def]
        q0 = load_first(Q, top, rank, width)
        q1 = load_first(Q, top + np.uint64(1), rank, width) if size > 1 else zero(q0)
        q2 = load_first(Q, top + np.uint64(2), rank, width) if size > 2 else zero(q0)
        q3 = load_first(Q, top + np.uint64(3), rank, width) if size > 3 else zero(q0)
        q4 = load_first(Q, top + np.uint64(4), rank, width) if size > 4 else zero(q0)
        q5 = load_first(Q, top + np.uint64(5), rank, width) if size > 5 else zero(q0)
        q6 = load_first(Q, top + np.uint64(6), rank, width) if size > 6 else zero(q0)
        q7 = load_first(Q, top + np.uint64(7), rank, width) if size > 7 else zero(q0)
        for i in range(first, last):
            if ahead:
                prefetch(A, i + soon, rank)
                prefetch(B, i + soon, rank)
            b = load_first(B, i, rank, width)
            q0 = axpy(A[i, k], b, q0)
            if size > 1:
                q1 = axpy(A[i, k + np.uint64(1)], b, q1)
            if size > 2:
                q2 = axpy(A[i, k + np.uint64(2)], b, q2)
            if size > 3:
                q3 = axpy(A[i, k + np.uint64(3)], b, q3)
            if size > 4:
                q4 = axpy(A[i, k + np.uint64(4)], b, q4)
            if size > 5:
                q5 = axpy(A[i, k + np.uint64(5)], b, q5)
            if size > 6:
                q6 = axpy(A[i, k + np.uint64(6)], b, q6)
            if size > 7:
                q7 = axpy(A[i, k + np.uint64(7)], b, q7)
        store_first(Q, top, rank, q0)
        if size > 1:
            store_first(Q, top + np.uint64(1), rank, q1)
        if size > 2:
            store_first(Q, top + np.uint64(2), rank, q2)
        if size > 3:
            store_first(Q, top + np.uint64(3), rank, q3)
        if size > 4:
            store_first(Q, top + np.uint64(4), rank, q4)
        if size > 5:
            store_first(Q, top + np.uint64(5), rank, q5)
        if size > 6:
            store_first(Q, top + np.uint64(6), rank, q6)
        if size > 7:
            store_first(Q, top + np.uint64(7), rank, q7)

    return called(add, rank, size, width, ahead)


def product(rank: int, lower: bool, ahead: int = 0) -> Any:
    """Function that adds AᵀB, of the rows of both from `first` to `last`, to the r rows of Q from `top` on.

    Where `lower`, of the upper triangle as much as is no more work: eight rows end where the last of them
    meets it.
    """
    if not lower and crossed.fits(rank):
        return crossed.product(rank, ahead)
    before, step = None, 8 if lower else rank
    for start in range(0, rank, step):
        end = min(start + step, rank)
        width = end if lower else rank
        before = _rows(rank, start, end, width, min(8, held(width)), ahead, before)
    return before


@functools.cache
def _rows(rank: int, start: int, end: int, width: int, most: int, ahead: int, before: Any) -> Any:
    """The same for the rows of AᵀB from `start` to `end`, `most` at a time, after those `before`."""
    parts = -(-(end - start) // most)
    size = -(-(end - start) // parts)
    rest = end - start - size * (parts - 1)
    # Rows are asked for where they are read first.
    leading, several = (_columns(rank, size, width, n) for n in (0 if before else ahead, 0))
    remaining = _columns(rank, rest, width, 0 if before or parts > 1 else ahead)
    begin, stop, step = np.uint64(start), np.uint64(end - rest), np.uint64(size)

    def add(A, B, first, last, Q, top):  # type: ignore[no-untyped-def]
        if before is not None:
            before(A, B, first, last, Q, top)
        if parts > 1:
            leading(A, B, begin, first, last, Q, top + begin)
        for k in range(begin + step, stop, step):
            several(A, B, k, first, last, Q, top + k)
        remaining(A, B, stop, first, last, Q, top + stop)

    return called(add, rank, start, end, width, most, ahead)


# Several A with one B ---------------------------------------------------------------------------------------


def at_once(rank: int) -> int:
    """How many products of rows with one row stay in registers; 0 where there is no room for one."""
    return (held(WIDE) + 1) // rank if rank <= WIDE else 0


@functools.cache
def together(rank: int, count: int) -> Any:
    """Function that adds AᵀB, over some rows, of `count` pairs from p on, which have the same B.

    Arrays, pairs and sums are those of `rankfold.kernels.tall.grams`.
    """
    full, soon = rank * count, np.uint64(AHEAD // rank)
    # (what is left out below has to compile, too)
    add0, add1, add2, add3, add4 = (_added(rank, rank * min(k, count - 1)) for k in range(MOST))

    def add(arrays, pairs, p, first, last, sums, top):  # type: ignore[no-untyped-def]
        B, A0 = lent(arrays, pairs[p, 1]), lent(arrays, pairs[p, 0])
        A1 = lent(arrays, pairs[p + np.uint64(1), 0]) if count > 1 else A0
        A2 = lent(arrays, pairs[p + np.uint64(2), 0]) if count > 2 else A0
        A3 = lent(arrays, pairs[p + np.uint64(3), 0]) if count > 3 else A0
        A4 = lent(arrays, pairs[p + np.uint64(4), 0]) if count > 4 else A0
        q = load_products(sums, top, full)
        for i in range(first, last):
            prefetch(B, i + soon, rank)
            b = load_filled(B, i, rank)
            q = add0(q, A0, i, b)
            if count > 1:
                q = add1(q, A1, i, b)
            if count > 2:
                q = add2(q, A2, i, b)
            if count > 3:
                q = add3(q, A3, i, b)
            if count > 4:
                q = add4(q, A4, i, b)
        store_products(sums, top, q)

    return called(add, rank, count)


@functools.cache
def _added(rank: int, at: int) -> Any:
    """Function that adds a bᵀ, for row i of A, to the vectors of q from `at` on."""
    soon = np.uint64(AHEAD // rank)

    def added(q, A, i, b):  # type: ignore[no-untyped-def]
        prefetch(A, i + soon, rank)
        return add_product(q, at, A, i, b, rank)

    return called(added, rank, at)


class Products(Row):
    """`count` vectors of `WIDE` numbers."""

    def __init__(self, count: int, dtype: Any):
        super().__init__(WIDE * count, dtype)
        self.widths = [WIDE] * count
        self.vectors = [ir.VectorType(self.scalar, WIDE)] * count
        self.name = f"Products({count}, {dtype})"


@register_model(Products)
class _ProductsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Products):
        super().__init__(dmm, fe_type, ir.LiteralStructType(fe_type.vectors))


@intrinsic
def borrowed(typing: Any, given: Any) -> Any:
    """An argument, one array or several of a kind, while the caller holds it: nobody counts who has it.

    numba counts whenever a function hands one on, which takes longer than to multiply few rows. Of arguments
    alone: what a kernel has made itself, numba frees as soon as nobody is counted any more.
    """

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        kind = given if isinstance(given, types.Array) else given.dtype
        found = args[0]
        for n in range(1 if kind is given else given.count):
            own = found if kind is given else builder.extract_value(found, n)
            array = cgutils.create_struct_proxy(kind)(context, builder, own)
            array.meminfo = array.parent = ir.Constant(array.meminfo.type, None)
            value = array._getvalue()
            found = value if kind is given else builder.insert_value(found, value, n)
        return found

    return given(given), codegen


@intrinsic
def lent(typing: Any, arrays: Any, k: Any) -> Any:
    """Array k of several of one shape, for as long as the others are there: nobody counts who has it.

    To count takes longer than to multiply few rows.
    """

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        proxy = cgutils.create_struct_proxy(arrays.dtype)
        first, *others = (
            proxy(context, builder, builder.extract_value(args[0], n)) for n in range(arrays.count)
        )
        for n, other in enumerate(others, 1):
            chosen = builder.icmp_unsigned("==", args[1], I64(n))
            first.data = builder.select(chosen, other.data, first.data)
        first.meminfo = first.parent = ir.Constant(first.meminfo.type, None)
        return first._getvalue()

    return arrays.dtype(arrays, types.uint64), codegen


@intrinsic(prefer_literal=True)
def load_products(typing: Any, A: Any, i: Any, count: Any) -> Any:
    """Return so many rows of an array whose rows are vectors, from row i on."""
    products = Products(count.literal_value, A.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        places = _places(context, builder, A, products, *args[:2])
        return row_of(builder, products, (builder.load(place, align=products.bytes) for place in places))

    return products(A, types.uint64, count), codegen


@intrinsic
def store_products(typing: Any, A: Any, i: Any, q: Any) -> Any:
    """Write vectors to the rows of such an array, from row i on."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        for k, place in enumerate(_places(context, builder, A, q, *args[:2])):
            builder.store(builder.extract_value(args[2], k), place, align=q.bytes)
        return context.get_dummy_value()

    return types.void(A, types.uint64, q), codegen


def _places(context: Any, builder: Any, A: Any, q: Products, array: Any, i: Any) -> list[Any]:
    """Where each vector is in rows of an array, from row i on."""
    rows = (builder.add(i, I64(k)) for k in range(len(q.vectors)))
    starts = (checked_address(context, builder, A, array, row, WIDE) for row in rows)
    return [
        builder.bitcast(start, vector.as_pointer()) for start, vector in zip(starts, q.vectors, strict=True)
    ]


@intrinsic(prefer_literal=True)
def add_product(typing: Any, q: Any, at: Any, A: Any, i: Any, b: Any, rank: Any) -> Any:
    """Return q with a bᵀ added to its vectors from `at` on, for row i of A."""
    r = rank.literal_value

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        sums, _, array, i, b, _ = args
        start, vector = checked_address(context, builder, A, array, i, r), builder.extract_value(b, 0)
        for n in range(r):
            a = repeated(builder, builder.load(builder.gep(start, [I64(n)]), align=q.bytes), vector.type)
            k = at.literal_value + n
            sum_ = fused(builder, a, vector, builder.extract_value(sums, k))
            sums = builder.insert_value(sums, sum_, k)
        return sums

    return q(q, at, A, types.uint64, b, rank), codegen


@intrinsic(prefer_literal=True)
def load_filled(typing: Any, A: Any, i: Any, rank: Any) -> Any:
    """Row i of an array, filled up with zeros to one vector."""
    row, filled = Row(rank.literal_value, A.dtype), Products(1, A.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, A, args[0], args[1], row.length)
        result, at = ir.Constant(filled.vectors[0], None), 0
        for width, place in zip(row.widths, pointers(builder, row, start), strict=True):
            part = builder.load(place, align=row.bytes)
            inside = range(at, at + width)
            wide = shuffled(builder, part, part, [n - at if n in inside else 0 for n in range(WIDE)])
            result = shuffled(builder, result, wide, [n + WIDE * (n in inside) for n in range(WIDE)])
            at += width
        return row_of(builder, filled, [result])

    return filled(A, types.uint64, rank), codegen
