"""Products AᵀB of rows that are a vector of eight numbers and a few more.

The few of B are multiplied with the vector of A: times the numbers of A, one by one, they would take as
many instructions as the vector of B does. At rank 10 a product is 14 of them, not 20, and the Grams of an
iteration take 0.87 of the time (Zen 5).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, register_model

from rankfold.kernels.compiling import called
from rankfold.kernels.lanes import LANES
from rankfold.kernels.registers import (
    I32,
    I64,
    Row,
    checked_address,
    fused,
    held,
    prefetch,
    repeated,
    row_of,
)


def fits(rank: int) -> bool:
    """Whether a product is made of whole vectors of A and of B, and all of it stays in registers."""
    return LANES < rank < 2 * LANES and rank + 2 * (rank - LANES) <= held(LANES)


@functools.cache
def product(rank: int, ahead: int) -> Any:
    """Function that adds AᵀB, over some rows, to r rows of Q, and asks for rows `ahead` if there are such."""
    soon = np.uint64(ahead)

    def add(A, B, first, last, Q, top):  # type: ignore[no-untyped-def]
        q = load_crossed(Q, top, rank)
        for i in range(first, last):
            if ahead:
                prefetch(A, i + soon, rank)
                prefetch(B, i + soon, rank)
            q = add_crossed(q, A, B, i)
        store_crossed(Q, top, q)

    return called(add, rank, ahead)


class Crossed(Row):
    """AᵀB: the first numbers of all rows, then the other columns of the first rows, then the last corner."""

    def __init__(self, rank: int, dtype: Any):
        super().__init__(rank, dtype)
        self.rank, self.few = rank, rank - LANES
        self.widths = [LANES] * (rank + self.few) + [self.few] * self.few
        self.vectors = [ir.VectorType(self.scalar, width) for width in self.widths]
        self.name = f"Crossed({rank}, {dtype})"

    def places(self) -> list[list[tuple[int, int]]]:
        """Rows and columns of the numbers of each vector."""
        wide, few = range(LANES), range(LANES, self.rank)
        of_rows = [[(k, n) for n in wide] for k in range(self.rank)]
        return of_rows + [[(k, n) for k in wide] for n in few] + [[(k, n) for n in few] for k in few]


@register_model(Crossed)
class _CrossedModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Crossed):
        super().__init__(dmm, fe_type, ir.LiteralStructType(fe_type.vectors))


@intrinsic(prefer_literal=True)
def load_crossed(typing: Any, Q: Any, top: Any, rank: Any) -> Any:
    """The r rows of Q from `top` on."""
    crossed = Crossed(rank.literal_value, Q.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, Q, args[0], args[1], crossed.rank)
        vectors = []
        for vector, places in zip(crossed.vectors, crossed.places(), strict=True):
            found = ir.Constant(vector, ir.Undefined)
            for lane, (k, n) in enumerate(places):
                place = builder.gep(start, [I64(k * crossed.rank + n)])
                found = builder.insert_element(found, builder.load(place, align=crossed.bytes), I32(lane))
            vectors.append(found)
        return row_of(builder, crossed, vectors)

    return crossed(Q, types.uint64, rank), codegen


@intrinsic
def store_crossed(typing: Any, Q: Any, top: Any, q: Any) -> Any:
    """Write them there."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, Q, args[0], args[1], q.rank)
        for at, places in enumerate(q.places()):
            vector = builder.extract_value(args[2], at)
            for lane, (k, n) in enumerate(places):
                place = builder.gep(start, [I64(k * q.rank + n)])
                builder.store(builder.extract_element(vector, I32(lane)), place, align=q.bytes)
        return context.get_dummy_value()

    return types.void(Q, types.uint64, q), codegen


@intrinsic
def add_crossed(typing: Any, q: Any, A: Any, B: Any, i: Any) -> Any:
    """Return q with a bᵀ added, for the rows i of A and B."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        sums, *arrays, i = args
        a, b = (
            checked_address(context, builder, kind, array, i, q.rank)
            for kind, array in zip((A, B), arrays, strict=True)
        )
        wide, few = ir.VectorType(q.scalar, LANES), ir.VectorType(q.scalar, q.few)

        def number(start: Any, k: int, vector: Any) -> Any:
            return repeated(builder, builder.load(builder.gep(start, [I64(k)]), align=q.bytes), vector)

        def several(start: Any, k: int, vector: Any) -> Any:
            place = builder.bitcast(builder.gep(start, [I64(k)]), vector.as_pointer())
            return builder.load(place, align=q.bytes)

        first, left, last = several(b, 0, wide), several(a, 0, wide), several(b, LANES, few)
        terms = [(number(a, k, wide), first) for k in range(q.rank)]
        terms += [(number(b, n, wide), left) for n in range(LANES, q.rank)]
        terms += [(number(a, k, few), last) for k in range(LANES, q.rank)]
        for at, (x, y) in enumerate(terms):
            sums = builder.insert_value(sums, fused(builder, x, y, builder.extract_value(sums, at)), at)
        return sums

    return q(q, A, B, types.uint64), codegen
