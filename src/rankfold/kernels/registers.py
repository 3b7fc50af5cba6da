"""A row of a factor held in vector registers: the one abstraction the inner loops are written in.

numba has no local arrays that live in registers, and it cannot know that two arrays do not overlap, so a
plain loop over k < r reloads and stores its accumulators at every entry. `Row` is a numba type whose value is
a short list of LLVM vectors, of 64 bytes and then of the powers of two that make up the rest; `load`,
`store`, `axpy`, `total`... act on whole rows. The rank is a compile-time constant, so any rank runs without a
remainder loop, padding or masks (masked, 64 bytes straddle two cache lines even where their numbers do not).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from math import gcd
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils, config
from numba.core.codegen import get_host_cpu_features
from numba.extending import intrinsic, models, register_model

LINE = 64  # bytes: one AVX-512 register, one cache line; narrower machines split it
I32, I64 = ir.IntType(32), ir.IntType(64)
# Sums may be reordered and fused, but NaN and infinities stay what they are.
FLAGS = ("contract", "nsz", "reassoc")


class Row(types.Type):  # type: ignore[misc]
    """`length` numbers of type `dtype`, in vectors of `widths` numbers."""

    def __init__(self, length: int, dtype: Any):
        self.length: int = length
        self.dtype = dtype
        self.bytes: int = dtype.bitwidth // 8
        self.scalar = ir.DoubleType() if self.bytes == 8 else ir.FloatType()
        full = LINE // self.bytes
        rest = [width for width in (8, 4, 2, 1) if width < full and length % full & width]
        self.widths = [full] * (length // full) + rest
        self.vectors = [ir.VectorType(self.scalar, width) for width in self.widths]
        super().__init__(name=f"Row({length}, {dtype})")


def several(rank: int) -> bool:
    """Whether four rows stay in registers beside two that sums are made of: then entries come by fours."""
    return held(rank) >= 6


def held(length: int) -> int:
    """How many rows that sums are added to stay in registers, and leave room for what is added."""
    full = "+avx512f" in get_host_cpu_features()  # twice as many registers, twice as wide
    return max(1, 24 // -(-length // 8) if full else 15 // -(-length // 4))


@register_model(Row)
class _RowModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Row):
        super().__init__(dmm, fe_type, ir.LiteralStructType(fe_type.vectors))


def _address(context: Any, builder: Any, array_type: Any, array: Any, row: Any, length: int) -> Any:
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    return builder.gep(data, [builder.mul(row, I64(length))])


def checked_address(context: Any, builder: Any, array_type: Any, array: Any, row: Any, length: int) -> Any:
    """The address of a row; with NUMBA_BOUNDSCHECK=1, of a row that is there, as numba's own indexing is."""
    if config.BOUNDSCHECK:
        numbers = cgutils.create_struct_proxy(array_type)(context, builder, array).nitems
        cgutils.do_boundscheck(context, builder, row, builder.udiv(numbers, I64(length)))
    return _address(context, builder, array_type, array, row, length)


def pointers(builder: Any, row: Row, start: Any) -> list[Any]:
    """Where each vector of a row at `start` lies."""
    offsets = itertools.accumulate(row.widths[:-1], initial=0)
    return [
        builder.bitcast(builder.gep(start, [I64(offset)]), vector.as_pointer())
        for offset, vector in zip(offsets, row.vectors, strict=True)
    ]


def row_of(builder: Any, row: Row, vectors: Iterable[Any]) -> Any:
    """Build the row of these vectors."""
    result = ir.Constant(ir.LiteralStructType(row.vectors), ir.Undefined)
    for k, vector in enumerate(vectors):
        result = builder.insert_value(result, vector, k)
    return result


def _vectors(builder: Any, row: Row, value: Any) -> list[Any]:
    return [builder.extract_value(value, k) for k in range(len(row.widths))]


@intrinsic(prefer_literal=True)
def load(typing: Any, A: Any, i: Any, rank: Any) -> Any:
    """Row i of a C-contiguous array whose rows have `rank` numbers (a compile-time constant)."""
    row = Row(rank.literal_value, A.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, A, args[0], args[1], row.length)
        return row_of(builder, row, (builder.load(p, align=row.bytes) for p in pointers(builder, row, start)))

    return row(A, types.uint64, rank), codegen


@intrinsic
def store(typing: Any, A: Any, i: Any, x: Any) -> Any:
    """Write row x into row i of a C-contiguous array."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, A, args[0], args[1], x.length)
        for vector, p in zip(_vectors(builder, x, args[2]), pointers(builder, x, start), strict=True):
            builder.store(vector, p, align=x.bytes)
        return context.get_dummy_value()

    return types.void(A, types.uint64, x), codegen


@intrinsic
def load_four(typing: Any, x: Any, p: Any) -> Any:
    """The numbers p to p + 3 of an array, in double precision."""
    row, held = Row(4, types.float64), Row(4, x.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        checked_address(context, builder, x, args[0], builder.add(args[1], I64(3)), 1)
        start = _address(context, builder, x, args[0], args[1], 1)
        found = builder.load(builder.bitcast(start, held.vectors[0].as_pointer()), align=held.bytes)
        return row_of(builder, row, [found if held.bytes == 8 else builder.fpext(found, row.vectors[0])])

    return row(x, types.uint64), codegen


@intrinsic(prefer_literal=True)
def load_first(typing: Any, A: Any, i: Any, rank: Any, width: Any) -> Any:
    """The first `width` numbers of row i of an array as `load` takes it."""
    row = Row(width.literal_value, A.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, A, args[0], args[1], rank.literal_value)
        return row_of(builder, row, (builder.load(p, align=row.bytes) for p in pointers(builder, row, start)))

    return row(A, types.uint64, rank, width), codegen


@intrinsic(prefer_literal=True)
def store_first(typing: Any, A: Any, i: Any, rank: Any, x: Any) -> Any:
    """Write x to the beginning of row i of such an array."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, A, args[0], args[1], rank.literal_value)
        for vector, p in zip(_vectors(builder, x, args[3]), pointers(builder, x, start), strict=True):
            builder.store(vector, p, align=x.bytes)
        return context.get_dummy_value()

    return types.void(A, types.uint64, rank, x), codegen


@intrinsic(prefer_literal=True)
def load_wide(typing: Any, A: Any, i: Any, rank: Any) -> Any:
    """Row i of an array, as numbers of double precision whatever the array holds."""
    row, held = Row(rank.literal_value, types.float64), Row(1, A.dtype).scalar

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, A, args[0], args[1], row.length)
        loaded = []
        for offset, vector in zip(itertools.accumulate(row.widths[:-1], initial=0), row.vectors, strict=True):
            narrow = ir.VectorType(held, vector.count)
            p = builder.bitcast(builder.gep(start, [I64(offset)]), narrow.as_pointer())
            x = builder.load(p, align=A.dtype.bitwidth // 8)
            loaded.append(x if narrow == vector else builder.fpext(x, vector))
        return row_of(builder, row, loaded)

    return row(A, types.uint64, rank), codegen


@intrinsic
def store_narrow(typing: Any, A: Any, i: Any, x: Any) -> Any:
    """Write row x, of double precision, into row i of an array of single precision."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = checked_address(context, builder, A, args[0], args[1], x.length)
        offsets = itertools.accumulate(x.widths[:-1], initial=0)
        for offset, vector in zip(offsets, _vectors(builder, x, args[2]), strict=True):
            narrow = ir.VectorType(ir.FloatType(), vector.type.count)
            p = builder.bitcast(builder.gep(start, [I64(offset)]), narrow.as_pointer())
            builder.store(builder.fptrunc(vector, narrow), p, align=4)
        return context.get_dummy_value()

    return types.void(A, types.uint64, x), codegen


@intrinsic
def zero(typing: Any, x: Any) -> Any:
    """Return a row of zeros like x."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return ir.Constant(ir.LiteralStructType(x.vectors), None)

    return x(x), codegen


def fused(builder: Any, x: Any, y: Any, z: Any) -> Any:
    """X y + z, of vectors."""
    return builder.fadd(z, builder.fmul(x, y, flags=FLAGS), flags=FLAGS)


def repeated(builder: Any, number: Any, vector: Any) -> Any:
    """A vector of a type that has one number everywhere."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, number, I32(0))
    everywhere = ir.Constant(ir.VectorType(I32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, everywhere)


@intrinsic
def axpy(typing: Any, a: Any, x: Any, y: Any) -> Any:
    """Row a x + y, for a number a."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        xs, ys = _vectors(builder, x, args[1]), _vectors(builder, x, args[2])
        terms = zip(x.vectors, xs, ys, strict=True)
        return row_of(
            builder, x, (fused(builder, repeated(builder, args[0], vector), v, w) for vector, v, w in terms)
        )

    return x(x.dtype, x, y), codegen


@intrinsic
def multiply_add(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Row x * y + z, number by number."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        triples = zip(*(_vectors(builder, x, arg) for arg in args), strict=True)
        return row_of(builder, x, (fused(builder, *triple) for triple in triples))

    return x(x, y, z), codegen


@intrinsic
def total(typing: Any, x: Any) -> Any:
    """Sum of the numbers of a row: vectors are added, halved, and meet the narrower ones on the way."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        vectors = _vectors(builder, x, args[0])
        sum_, width = vectors[0], x.widths[0]
        for vector, next_ in zip(vectors[1:], x.widths[1:], strict=True):
            while width > next_:
                sum_, width = _halved(builder, sum_, width), width // 2
            sum_ = builder.fadd(sum_, vector, flags=FLAGS)
        while width > 1:
            sum_, width = _halved(builder, sum_, width), width // 2
        return builder.extract_element(sum_, I32(0))

    return x.dtype(x), codegen


@intrinsic
def four_zeros(typing: Any) -> Any:
    """A row of four zeros, in double precision."""
    four = Row(4, types.float64)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return ir.Constant(ir.LiteralStructType(four.vectors), None)

    return four(), codegen


@intrinsic
def totals(typing: Any, x0: Any, x1: Any, x2: Any, x3: Any) -> Any:
    """Sums of the numbers of four rows, as a row of four in double precision.

    In fewer steps than one sum after the other, whose vectors are ever emptier.
    """
    four = Row(4, types.float64)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        v0, v1, v2, v3 = (_gathered(builder, x0, arg) for arg in args)
        low, high = (_interleaved(builder, v, w) for v, w in ((v0, v1), (v2, v3)))
        sums = builder.fadd(
            shuffled(builder, low, high, (0, 1, 4, 5)),
            shuffled(builder, low, high, (2, 3, 6, 7)),
            flags=FLAGS,
        )
        return row_of(builder, four, [sums if x0.bytes == 8 else builder.fpext(sums, four.vectors[0])])

    return four(x0, x1, x2, x3), codegen


def _gathered(builder: Any, row: Row, value: Any) -> Any:
    """Add the vectors of a row, each filled up with zeros: to the width of the first, or to four numbers."""
    width = max(4, row.widths[0])
    wide = []
    for vector, own in zip(_vectors(builder, row, value), row.widths, strict=True):
        zeros = ir.Constant(ir.VectorType(row.scalar, own), None)
        places = [*range(own), *[own] * (width - own)]
        wide.append(vector if own == width else shuffled(builder, vector, zeros, places))
    return functools.reduce(functools.partial(builder.fadd, flags=FLAGS), wide)


def _interleaved(builder: Any, v: Any, w: Any) -> Any:
    """Add neighbours of two vectors, to four sums: of v, of w, of v, of w."""
    width = v.type.count
    even, odd = (
        shuffled(builder, v, w, [place for k in range(first, width, 2) for place in (k, width + k)])
        for first in (0, 1)
    )
    sums = builder.fadd(even, odd, flags=FLAGS)
    while width > 4:
        sums, width = _halved(builder, sums, width), width // 2
    return sums


def shuffled(builder: Any, v: Any, w: Any, places: Sequence[int]) -> Any:
    """Numbers of two vectors, one after the other, by their places there."""
    return builder.shuffle_vector(v, w, ir.Constant(ir.VectorType(I32, len(places)), list(places)))


@intrinsic(prefer_literal=True)
def lane(typing: Any, x: Any, k: Any) -> Any:
    """Number k, a constant, of a row of few."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return builder.extract_element(builder.extract_value(args[0], 0), I32(k.literal_value))

    return x.dtype(x, k), codegen


def _halved(builder: Any, vector: Any, width: int) -> Any:
    """Add the upper half of a vector to its lower half."""
    half, vectors = width // 2, ir.VectorType(I32, width // 2)
    parts = (
        builder.shuffle_vector(vector, vector, ir.Constant(vectors, list(range(first, first + half))))
        for first in (0, half)
    )
    return builder.fadd(*parts, flags=FLAGS)


@intrinsic(prefer_literal=True)
def prefetch(typing: Any, A: Any, i: Any, rank: Any) -> Any:
    """Ask for row i of A, to be loaded soon."""
    bytes_ = rank.literal_value * A.dtype.bitwidth // 8
    # The first number of each line, and the last number, if a row may end in another: memory as it comes
    # begins at a multiple of 16 bytes. (At rank 50, none: derivatives take 0.95 of the time without.)
    offsets = [*range(0, bytes_, LINE)]
    if (bytes_ - 1) % LINE >= gcd(bytes_, 16):
        offsets.append(bytes_ - 1)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        start = builder.bitcast(_address(context, builder, A, args[0], args[1], rank.literal_value), byte)
        fn_type = ir.FunctionType(ir.VoidType(), (byte, I32, I32, I32))
        fn = cgutils.get_or_insert_function(builder.module, fn_type, "llvm.prefetch.p0")
        for offset in offsets:
            builder.call(fn, [builder.gep(start, [I64(offset)]), I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(A, types.uint64, rank), codegen
