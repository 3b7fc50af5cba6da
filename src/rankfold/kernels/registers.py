"""A row of a factor held in vector registers: the one abstraction the inner loops are written in.

numba has no local arrays that live in registers, and it cannot know that two arrays do not overlap, so a
plain loop over k < r reloads and stores its accumulators at every entry. `Row` is a numba type whose value is
a short list of 64-byte LLVM vectors; `load`, `store`, `axpy`, `total`... act on whole rows. The rank is a
compile-time constant and the last vector is masked, so any rank runs without a remainder loop or padding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LINE = 64  # bytes: one AVX-512 register, one cache line; narrower machines split it
I32, I64 = ir.IntType(32), ir.IntType(64)
# Sums may be reordered and fused, but NaN and infinities stay what they are.
FLAGS = ("contract", "nsz", "reassoc")


class Row(types.Type):  # type: ignore[misc]
    """`length` numbers of type `dtype`, in ceil(length / lanes) vectors of `lanes`."""

    def __init__(self, length: int, dtype: Any):
        self.length: int = length
        self.dtype = dtype
        self.bytes: int = dtype.bitwidth // 8
        self.lanes: int = LINE // self.bytes
        self.scalar = ir.DoubleType() if self.bytes == 8 else ir.FloatType()
        self.vector = ir.VectorType(self.scalar, self.lanes)
        self.count = -(-length // self.lanes)
        self.suffix = f"v{self.lanes}f{dtype.bitwidth}"
        super().__init__(name=f"Row({length}, {dtype})")

    def used(self, k: int) -> int:
        """Lanes of vector k that hold numbers."""
        return min(self.lanes, self.length - k * self.lanes)

    def mask(self, k: int) -> ir.Constant:
        """Which lanes of vector k hold numbers."""
        on = self.used(k)
        return ir.Constant(ir.VectorType(ir.IntType(1), self.lanes), [1] * on + [0] * (self.lanes - on))


@register_model(Row)
class _RowModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, dmm: Any, fe_type: Row):
        super().__init__(dmm, fe_type, ir.ArrayType(fe_type.vector, fe_type.count))


def _declare(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(result, arguments), name)


def _address(context: Any, builder: Any, array_type: Any, array: Any, row: Any, length: int) -> Any:
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    return builder.gep(data, [builder.mul(row, ir.Constant(I64, length))])


def _map(builder: Any, row: Row, make: Callable[[int], Any]) -> Any:
    """Build the row whose vector k is make(k)."""
    result = ir.Constant(ir.ArrayType(row.vector, row.count), ir.Undefined)
    for k in range(row.count):
        result = builder.insert_value(result, make(k), k)
    return result


@intrinsic(prefer_literal=True)
def load(typing: Any, A: Any, i: Any, rank: Any) -> Any:
    """Row i of a C-contiguous array whose rows have `rank` numbers (a compile-time constant)."""
    row = Row(rank.literal_value, A.dtype)

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = _address(context, builder, A, args[0], args[1], row.length)
        pointer = row.vector.as_pointer()
        masked = f"llvm.masked.load.{row.suffix}.p0"

        def vector(k: int) -> Any:
            at = builder.bitcast(builder.gep(start, [ir.Constant(I64, k * row.lanes)]), pointer)
            if row.used(k) == row.lanes:
                return builder.load(at, align=row.bytes)
            fn = _declare(builder, masked, row.vector, pointer, I32, row.mask(k).type, row.vector)
            return builder.call(fn, [at, I32(row.bytes), row.mask(k), ir.Constant(row.vector, None)])

        return _map(builder, row, vector)

    return row(A, types.uint64, rank), codegen


@intrinsic
def store(typing: Any, A: Any, i: Any, x: Any) -> Any:
    """Write row x into row i of a C-contiguous array."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        start = _address(context, builder, A, args[0], args[1], x.length)
        pointer = x.vector.as_pointer()
        for k in range(x.count):
            at = builder.bitcast(builder.gep(start, [ir.Constant(I64, k * x.lanes)]), pointer)
            vector = builder.extract_value(args[2], k)
            if x.used(k) == x.lanes:
                builder.store(vector, at, align=x.bytes)
            else:
                name = f"llvm.masked.store.{x.suffix}.p0"
                fn = _declare(builder, name, ir.VoidType(), x.vector, pointer, I32, x.mask(k).type)
                builder.call(fn, [vector, at, I32(x.bytes), x.mask(k)])
        return context.get_dummy_value()

    return types.void(A, types.uint64, x), codegen


@intrinsic
def zero(typing: Any, x: Any) -> Any:
    """Return a row of zeros like x."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        return ir.Constant(ir.ArrayType(x.vector, x.count), None)

    return x(x), codegen


@intrinsic
def axpy(typing: Any, a: Any, x: Any, y: Any) -> Any:
    """Row a x + y, for a number a."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        one = builder.insert_element(ir.Constant(x.vector, ir.Undefined), args[0], I32(0))
        lanes = ir.Constant(ir.VectorType(I32, x.lanes), [0] * x.lanes)
        a_all = builder.shuffle_vector(one, ir.Constant(x.vector, ir.Undefined), lanes)

        def vector(k: int) -> Any:
            product = builder.fmul(a_all, builder.extract_value(args[1], k), flags=FLAGS)
            return builder.fadd(builder.extract_value(args[2], k), product, flags=FLAGS)

        return _map(builder, x, vector)

    return x(x.dtype, x, y), codegen


@intrinsic
def multiply_add(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Row x * y + z, number by number."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        def vector(k: int) -> Any:
            a, b, c = (builder.extract_value(arg, k) for arg in args)
            return builder.fadd(c, builder.fmul(a, b, flags=FLAGS), flags=FLAGS)

        return _map(builder, x, vector)

    return x(x, y, z), codegen


@intrinsic
def total(typing: Any, x: Any) -> Any:
    """Sum of the numbers of a row."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        vectors = [builder.extract_value(args[0], k) for k in range(x.count)]
        sum_ = vectors[0]
        for vector in vectors[1:]:
            sum_ = builder.fadd(sum_, vector, flags=FLAGS)
        fn = _declare(builder, f"llvm.vector.reduce.fadd.{x.suffix}", x.scalar, x.scalar, x.vector)
        return builder.call(fn, [ir.Constant(x.scalar, -0.0), sum_], fastmath=FLAGS)

    return x.dtype(x), codegen


@intrinsic(prefer_literal=True)
def prefetch(typing: Any, A: Any, i: Any, rank: Any) -> Any:
    """Ask for row i of A, to be loaded soon."""
    bytes_ = rank.literal_value * A.dtype.bitwidth // 8
    # the first number of each line, and the last number: a row need not start at a line
    offsets = [*range(0, bytes_, LINE), bytes_ - 1]

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        start = builder.bitcast(_address(context, builder, A, args[0], args[1], rank.literal_value), byte)
        fn = _declare(builder, "llvm.prefetch.p0", ir.VoidType(), byte, I32, I32, I32)
        for offset in offsets:
            builder.call(fn, [builder.gep(start, [I64(offset)]), I32(0), I32(3), I32(1)])
        return context.get_dummy_value()

    return types.void(A, types.uint64, rank), codegen


@intrinsic
def take_next(typing: Any, counter: Any) -> Any:
    """Atomically return counter[0] and add one to it: how threads share out chunks."""

    def codegen(context: Any, builder: Any, _: Any, args: Any) -> Any:
        data = cgutils.create_struct_proxy(counter)(context, builder, args[0]).data
        return builder.atomic_rmw("add", data, I64(1), "seq_cst")

    return types.int64(counter), codegen
