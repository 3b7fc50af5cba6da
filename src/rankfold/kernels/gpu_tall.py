"""The two primitives of tall arrays for a GPU, in Triton: all Grams, or all sums, of a call in one launch.

Which arrays take part is a table of integers in memory: addresses of arrays, and the bits of small matrices.
So one compiled kernel serves any number of arrays, and what a call needs is brought there in one piece.
"""

from __future__ import annotations

import functools
from typing import Any

import triton
import triton.language as tl

from rankfold.kernels.gpu import columns as padded

# Columns that a program takes: wider arrays are matrices to multiply, which BLAS does well.
MOST_COLUMNS = 16
_TILE = 1024  # products of a program at a time
_FEWEST_STEPS, _MOST_CHUNKS = 16, 512  # of a Gram's rows
_LONG = 1 << 15  # numbers of a row from which on steps are large: the losses of all programs, say


@triton.jit(do_not_specialize=["chunk"])
def grams(out, table, chunk, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr, FLOATS: tl.constexpr):
    """AᵀB over a chunk of rows, for each job (A, B, rows) of the table; (AᵀB)ᵀ has the bits of BᵀA."""
    job, part = tl.program_id(0), tl.program_id(1).to(tl.int64)
    A = tl.load(table + 3 * job).to(tl.pointer_type(FLOATS))
    B = tl.load(table + 3 * job + 1).to(tl.pointer_type(FLOATS))
    gram(A, B, tl.load(table + 3 * job + 2), chunk, out, job, part, R, RP, ROWS)


@triton.jit
def gram(
    A, B, rows, chunk, out, job, part, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """AᵀB over a part of the rows, to the place of that job and part."""
    end = tl.minimum((part + 1) * chunk, rows)
    k = tl.arange(0, RP)
    sums = tl.zeros((ROWS, RP, RP), tl.float64)
    for first in range(part * chunk, end, ROWS):
        row = first + tl.arange(0, ROWS)
        here = (row < end)[:, None] & (k < R)[None, :]
        a = tl.load(A + row[:, None] * R + k[None, :], mask=here, other=0.0).to(tl.float64)
        b = tl.load(B + row[:, None] * R + k[None, :], mask=here, other=0.0).to(tl.float64)
        sums += a[:, :, None] * b[:, None, :]
    place = ((job * R + k[:, None]) * R + k[None, :]) * tl.num_programs(1) + part
    tl.store(out + place, tl.sum(sums, axis=0), mask=(k < R)[:, None] & (k < R)[None, :])


@triton.jit(do_not_specialize=["first", "rows", "count", "length"])
def totals(
    parts, beside, home, there, first, rows, count, length, BLOCK: tl.constexpr, BESIDE: tl.constexpr
):  # fmt: skip
    """The sums of `rows` rows of `count` numbers, and of others of `length`; from `first` on, one a program.

    Always in the same order, whatever is added up beside them: for the host, and for other kernels.
    """
    n = tl.program_id(0)
    if n < rows:
        total = _total(parts + n.to(tl.int64) * count, count, BLOCK)
    else:
        total = _total(beside + (n - rows).to(tl.int64) * length, length, BESIDE)
    tl.store(home + first + n, total)
    tl.store(there + first + n, total)


@triton.jit
def _total(row, count, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), tl.float64)
    for step in range(0, count, BLOCK):
        k = step + tl.arange(0, BLOCK)
        sums += tl.load(row + k, mask=k < count, other=0.0)
    return tl.sum(sums, axis=0)


@triton.jit(do_not_specialize=["terms", "small"])
def sums(table, terms, small, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr, FLOATS: tl.constexpr):
    """Σ A_k S_k for some rows of each job (out, rows, first term, last term); the table holds A_k and S_k."""
    job, k = tl.program_id(1), tl.arange(0, RP)
    out = tl.load(table + 4 * job).to(tl.pointer_type(FLOATS))
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = row < tl.load(table + 4 * job + 1)
    total = tl.zeros((ROWS, RP), tl.float64)
    for term in range(tl.load(table + 4 * job + 2), tl.load(table + 4 * job + 3)):
        A = tl.load(table + terms + term).to(tl.pointer_type(FLOATS))
        for n in range(R):
            a = tl.load(A + row * R + n, mask=here, other=0.0).to(tl.float64)
            bits = tl.load(table + small + (term * R + n) * R + k, mask=k < R, other=0)
            total += a[:, None] * bits.to(tl.float64, bitcast=True)[None, :]
    tl.store(out + row[:, None] * R + k[None, :], total, mask=here[:, None] & (k < R)[None, :])


@functools.cache
def layout(rank: int, bytes_each: int) -> dict[str, Any]:
    """How many columns and rows a program of `grams` holds at a time, and of which type."""
    columns = padded(rank)
    rows = max(1, _TILE // columns**2)
    return {"R": rank, "RP": columns, "ROWS": rows, "FLOATS": _floats(bytes_each), "num_warps": 1}


@functools.cache
def summing(rank: int, bytes_each: int) -> dict[str, Any]:
    """The same, for `sums`."""
    columns, floats = padded(rank), _floats(bytes_each)
    return {"R": rank, "RP": columns, "ROWS": _TILE // columns, "FLOATS": floats, "num_warps": 2}


def _floats(bytes_each: int) -> Any:
    return tl.float32 if bytes_each == 4 else tl.float64


@functools.lru_cache(maxsize=256)
def totalling(count: int, length: int) -> dict[str, int]:
    """How many numbers `totals` reads at a time: each by its own length, whatever the company."""
    block, beside = (8192 if each > _LONG else 1024 for each in (count, length))
    return {"BLOCK": block, "BESIDE": beside, "num_warps": 8}


def chunk_of(rows: int, step: int) -> int:
    """How many rows one program of a Gram takes, `step` at a time."""
    return step * max(_FEWEST_STEPS, -(-rows // (_MOST_CHUNKS * step)))
