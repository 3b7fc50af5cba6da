"""Eight rows side by side: number k of each of them in one vector, a lane for each row.

A row of 5 or 10 numbers fills no whole vectors, and a product of two such rows wastes a third to a half of
them. Of eight rows side by side every vector is full, whatever the rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, register_jitable, register_model

from rankfold.kernels.registers import (
    I64,
    LINE,
    Row,
    checked_address,
    fused,
    pointers,
    repeated,
    row_of,
    shuffled,
)

LANES = 8


@register_jitable
def vectors(count, like):  # type: ignore[no-untyped-def]
    """Room for so many vectors of numbers like those of an array; none of them lies on two cache lines."""
    room = np.empty(LANES * (count + np.uint64(1)), like.dtype)
    past = np.uint64(room.ctypes.data) % np.uint64(LINE) // np.uint64(room.itemsize)
    first = (np.uint64(LINE // room.itemsize) - past) % np.uint64(LANES)
    return room[first : first + LANES * count].reshape((np.int64(count), LANES))


@intrinsic(prefer_literal=True)
def turn(typing: Any, A: Any, i: Any, rank: Any, X: Any) -> Any:
    """Put number k of the rows i to i + 7 of A into row k of X, whose rows are vectors of doubles."""
    row, lanes = _in_eights(rank.literal_value, A.dtype), Row(LANES, X.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        array, i, _, x = args
        k = 0
        for parts in zip(*_rows(context, builder, A, array, i, row), strict=True):
            for column in _turned(builder, [builder.load(part, align=row.bytes) for part in parts]):
                wide = column if row.bytes == lanes.bytes else builder.fpext(column, lanes.vectors[0])
                _store(context, builder, X, x, I64(k), wide, lanes)
                k += 1
        return context.get_dummy_value()

    return types.void(A, types.uint64, rank, X), codegen


@intrinsic(prefer_literal=True)
def turn_back(typing: Any, X: Any, A: Any, i: Any, rank: Any) -> Any:
    """Put row k of X, whose rows are vectors, into number k of the rows i to i + 7 of A."""
    row, lanes = _in_eights(rank.literal_value, A.dtype), Row(LANES, X.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        x, array, i, _ = args
        k = 0
        for width, *parts in zip(row.widths, *_rows(context, builder, A, array, i, row), strict=True):
            columns = [_vector(context, builder, X, x, I64(k + n), lanes) for n in range(width)]
            k += width
            for part, values in zip(parts, _turned_back(builder, columns), strict=True):
                builder.store(values, part, align=row.bytes)
        return context.get_dummy_value()

    return types.void(X, A, types.uint64, rank), codegen


class Sums(Row):
    """`count` vectors of `LANES` numbers."""

    def __init__(self, count: int, dtype: Any):
        super().__init__(LANES * count, dtype)
        self.widths = [LANES] * count
        self.vectors = [ir.VectorType(self.scalar, LANES)] * count
        self.name = f"Sums({count}, {dtype})"


@register_model(Sums)
class _SumsModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Sums):
        super().__init__(dmm, fe_type, ir.LiteralStructType(fe_type.vectors))


@intrinsic(prefer_literal=True)
def load_sums(typing: Any, A: Any, i: Any, count: Any) -> Any:
    """Return so many rows of an array whose rows are vectors, from row i on."""
    sums = Sums(count.literal_value, A.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        rows = (builder.add(args[1], I64(k)) for k in range(count.literal_value))
        lanes = Row(LANES, A.dtype)
        return row_of(builder, sums, (_vector(context, builder, A, args[0], row, lanes) for row in rows))

    return sums(A, types.uint64, count), codegen


@intrinsic
def store_sums(typing: Any, A: Any, i: Any, q: Any) -> Any:
    """Write vectors to the rows of such an array, from row i on."""
    lanes = Row(LANES, A.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        for k in range(len(q.vectors)):
            row = builder.add(args[1], I64(k))
            _store(context, builder, A, args[0], row, builder.extract_value(args[2], k), lanes)
        return context.get_dummy_value()

    return types.void(A, types.uint64, q), codegen


@intrinsic(prefer_literal=True)
def add_multiples(typing: Any, q: Any, M: Any, n: Any, k: Any, rank: Any, x: Any) -> Any:
    """Return q with multiples of a vector added: by the numbers of row n of a small matrix, from k on."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        sums, matrix, n, k, _, x = args
        start = checked_address(context, builder, M, matrix, n, rank.literal_value)
        vector = builder.extract_value(x, 0)
        for at in range(len(q.vectors)):
            place = builder.gep(start, [builder.add(k, I64(at))])
            number = repeated(builder, builder.load(place, align=q.bytes), vector.type)
            sum_ = fused(builder, number, vector, builder.extract_value(sums, at))
            sums = builder.insert_value(sums, sum_, at)
        return sums

    return q(q, M, types.uint64, types.uint64, rank, x), codegen


@intrinsic(prefer_literal=True)
def weigh(typing: Any, U: Any, top: Any, X: Any, Y: Any, rank: Any) -> Any:
    """Put Σ u_k u_kᵀ X into Y, for rows of vectors X and Y; the u_k are a triangle in U, from `top` on."""
    lanes, r = Row(LANES, X.dtype), rank.literal_value
    vector = lanes.vectors[0]

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        triangle, top, x_, y_, _ = args
        narrow = Row(LANES, U.dtype)
        x = [_vector(context, builder, X, x_, I64(n), lanes) for n in range(r)]
        y = [ir.Constant(vector, None)] * r
        at = 0
        for k in range(r):
            u = []
            for n in range(k + 1):
                found = _vector(context, builder, U, triangle, builder.add(top, I64(at + n)), narrow)
                u.append(builder.fpext(found, vector))
            at += k + 1
            halves = [ir.Constant(vector, None)] * 2
            for n in range(k + 1):
                halves[n % 2] = fused(builder, u[n], x[n], halves[n % 2])
            s = builder.fadd(*halves)
            for n in range(k + 1):
                y[n] = fused(builder, u[n], s, y[n])
        for n in range(r):
            _store(context, builder, Y, y_, I64(n), y[n], lanes)
        return context.get_dummy_value()

    return types.void(U, types.uint64, X, Y, rank), codegen


def _in_eights(length: int, dtype: Any) -> Row:
    """A row in vectors of no more than eight numbers."""
    row = Row(length, dtype)
    row.widths = [short for width in row.widths for short in [LANES] * (width // LANES) or [width]]
    row.vectors = [ir.VectorType(row.scalar, width) for width in row.widths]
    return row


def _rows(context: Any, builder: Any, A: Any, array: Any, i: Any, row: Row) -> list[list[Any]]:
    """Where the vectors of eight rows of an array lie."""
    each = (builder.add(i, I64(k)) for k in range(LANES))
    return [pointers(builder, row, checked_address(context, builder, A, array, k, row.length)) for k in each]


def _vector(context: Any, builder: Any, A: Any, array: Any, i: Any, lanes: Row) -> Any:
    (place,) = pointers(builder, lanes, checked_address(context, builder, A, array, i, LANES))
    return builder.load(place, align=lanes.bytes)


def _store(context: Any, builder: Any, A: Any, array: Any, i: Any, vector: Any, lanes: Row) -> None:
    (place,) = pointers(builder, lanes, checked_address(context, builder, A, array, i, LANES))
    builder.store(vector, place, align=lanes.bytes)


def _turned(builder: Any, rows: list[Any]) -> list[Any]:
    """The columns of eight rows of 8, 4, 2 or 1 numbers: number k of each in vector k."""
    width = rows[0].type.count
    return _exchanged(builder, [_joined(builder, rows[k::width]) for k in range(width)])


def _turned_back(builder: Any, columns: list[Any]) -> list[Any]:
    """The eight rows of 8, 4, 2 or 1 columns."""
    width, rows = len(columns), [None] * LANES
    for k, joined in enumerate(_exchanged(builder, columns)):
        for n in range(LANES // width):
            rows[k + n * width] = shuffled(builder, joined, joined, range(n * width, (n + 1) * width))
    return rows


def _joined(builder: Any, vectors: list[Any]) -> Any:
    """One vector of as many as are a power of two."""
    while len(vectors) > 1:
        places = range(2 * vectors[0].type.count)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [shuffled(builder, v, w, places) for v, w in pairs]
    return vectors[0]


def _exchanged(builder: Any, vectors: list[Any]) -> list[Any]:
    """The transposes of the square matrices that stand side by side in these vectors, one below the other.

    In rounds: the first exchanges what lies off the diagonal of all 2×2 matrices, the next of all 4×4 ones.
    """
    by = 1
    while by < len(vectors):
        low = [k if not k & by else LANES + k - by for k in range(LANES)]
        high = [k + by if not k & by else LANES + k for k in range(LANES)]
        after = list(vectors)
        for k in (k for k in range(len(vectors)) if not k & by):
            v, w = vectors[k], vectors[k + by]
            after[k], after[k + by] = shuffled(builder, v, w, low), shuffled(builder, v, w, high)
        vectors, by = after, 2 * by
    return vectors
