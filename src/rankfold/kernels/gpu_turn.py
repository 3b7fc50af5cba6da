"""An iteration of `solvers.turn_in_grams` for a GPU, in Triton: its small matrices stay there.

Formulas are those of that module, for both sides at once, in arrays (2, RP, RP) that are zero beyond the
rank. One program has these, beside others that have the rows of tall arrays. So an iteration is four
launches beside passes over the entries and the solution in the metric, and the host sends no tables.
"""

from __future__ import annotations

import functools
import struct

import triton
import triton.language as tl

from rankfold.kernels.gpu import columns as padded
from rankfold.kernels.gpu_tall import chunk_of, gram
from rankfold.kernels.gpu_tall import layout as multiplying_anything

_TILE = 1024  # numbers of a tall array that a program holds

# Pairs of small matrices, in this order: what is `known` of a point x and a direction d ...
KNOWN = tuple(map(tl.constexpr, range(6)))
SQUARES, INVERSES, X_D, D_D, SEEN, AHEAD = KNOWN
# ... and an iteration's `work`: what is known of the next point and the same d, and more. With `CHANGES` the
# metric is solved in.
WORK = tuple(map(tl.constexpr, range(10)))
CHANGES, CARRIED, MEASURED, VERTICAL = WORK[6:]
# What is multiplied with what, for a metric with one base a side: `_pairs` of `solvers.turn_in_grams`.
PAIRS = tuple(map(tl.constexpr, range(10)))
D_F, X_X, F_F, OLD_U, F_U, OLD_X, U_U, X_U, D_U, BASE_U = PAIRS
_EACH = tl.constexpr(len(PAIRS))
# What the host is told: see `turn`.
TOLD = 7


@triton.jit
def _number(high, middle, low):
    """The number that `halves` has cut."""
    bits = (high.to(tl.int64) << 42) | (middle.to(tl.int64) << 21) | low.to(tl.int64)
    return bits.to(tl.float64, bitcast=True)


@triton.jit
def _small(matrices, first, apart, R: tl.constexpr, RP: tl.constexpr, FLIPPED: tl.constexpr):
    """The matrices at `first` and `apart` from there, those of the right side first if FLIPPED."""
    s, i, j = tl.arange(0, 2)[:, None, None], tl.arange(0, RP)[None, :, None], tl.arange(0, RP)[None, None, :]
    if FLIPPED:
        s = 1 - s
    return tl.load(matrices + ((first + s * apart) * R + i) * R + j, mask=(i < R) & (j < R), other=0.0)


@triton.jit
def _of(pairs, number, R: tl.constexpr, RP: tl.constexpr, FLIPPED: tl.constexpr = False):
    """A pair of small matrices, of pairs that lie one after the other."""
    return _small(pairs, 2 * number, 1, R, RP, FLIPPED)


@triton.jit
def _kept(pairs, number, Z, R: tl.constexpr, RP: tl.constexpr):
    s, i, j = tl.arange(0, 2)[:, None, None], tl.arange(0, RP)[None, :, None], tl.arange(0, RP)[None, None, :]
    tl.store(pairs + ((2 * number + s) * R + i) * R + j, Z, mask=(i < R) & (j < R))


@triton.jit
def _times(A, B):
    return tl.sum(A[:, :, :, None] * B[:, None, :, :], axis=2)


@triton.jit
def _transposed(A):
    return tl.permute(A, (0, 2, 1))


@triton.jit
def _dot(A, B):
    """⟨A, B⟩, of both sides together."""
    return tl.sum(tl.sum(tl.sum(A * B, axis=2), axis=1), axis=0)


@triton.jit
def _trace(A, RP: tl.constexpr):
    i, j = tl.arange(0, RP)[None, :, None], tl.arange(0, RP)[None, None, :]
    return _dot(A, tl.where(i == j, 1.0, 0.0))


@triton.jit
def _side(A, number):
    """One of two small matrices."""
    return tl.sum(tl.where(tl.arange(0, 2)[:, None, None] == number, A, 0.0), axis=0)[None, :, :]


@triton.jit
def _inverses(A, R: tl.constexpr, RP: tl.constexpr):
    """Gauss and Jordan's elimination, with the largest pivot of each column; not finite where all are 0."""
    n = tl.arange(0, RP)
    i, j = n[None, :, None], n[None, None, :]
    B = tl.where(i == j, 1.0, 0.0 * A)
    place = tl.full((2, RP), -1, tl.int32)  # of the row of the inverse that a row becomes
    for k in range(R):
        along = tl.sum(tl.where(j == k, A, 0.0), axis=2)
        left = (place < 0) & (n < R)[None, :]
        chosen = n[None, :] == tl.argmax(tl.where(left, tl.abs(along), -1.0), axis=1)[:, None]
        pivot = tl.sum(tl.where(chosen, along, 0.0), axis=1)[:, None]
        a = tl.sum(tl.where(chosen[:, :, None], A, 0.0), axis=1) / pivot
        b = tl.sum(tl.where(chosen[:, :, None], B, 0.0), axis=1) / pivot
        A = tl.where(chosen[:, :, None], a[:, None, :], A - along[:, :, None] * a[:, None, :])
        B = tl.where(chosen[:, :, None], b[:, None, :], B - along[:, :, None] * b[:, None, :])
        place = tl.where(chosen, k, place)
    return _times(tl.where(place[:, None, :] == i, 1.0, 0.0), B)


@triton.jit
def _vertical(x_v, inverses):
    """(Λ, −Λᵀ), Λ = ½(v_HᵀH (HᵀH)⁻¹ − (GᵀG)⁻¹Gᵀv_G): x times it makes v horizontal."""
    products = _times(inverses, x_v)
    Λ = (_transposed(_side(products, 1)) - _side(products, 0)) / 2
    return tl.where(tl.arange(0, 2)[:, None, None] == 0, Λ, -_transposed(Λ))


@triton.jit
def _squares(known, t, R: tl.constexpr, RP: tl.constexpr, FLIPPED: tl.constexpr = False):
    """The Grams of x + t d."""
    x_d = _of(known, X_D, R, RP, FLIPPED)
    more = x_d + _transposed(x_d) + t * _of(known, D_D, R, RP, FLIPPED)
    return _of(known, SQUARES, R, RP, FLIPPED) + t * more


@triton.jit
def _seen(known, t, R: tl.constexpr, RP: tl.constexpr, FLIPPED: tl.constexpr = False):
    """What the bases see of x + t d."""
    return _of(known, SEEN, R, RP, FLIPPED) + t * _of(known, AHEAD, R, RP, FLIPPED)


@triton.jit(do_not_specialize=["lines", "others", "high", "middle", "low"])
def advance(
    x, d, out, y, e, other, known, roots, work, lines, others, high, middle, low,
    R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """X + t d on both sides; and in `work` what follows there from what is known of x and d."""
    t = _number(high, middle, low)
    if tl.program_id(0) > 0:
        if tl.program_id(1) == 0:
            _moved(x, d, out, t, lines, R, RP, ROWS)
        else:
            _moved(y, e, other, t, others, R, RP, ROWS)
    elif tl.program_id(1) == 0:
        _foreseen(known, roots, work, t, R, RP)


@triton.jit
def _moved(x, d, out, t, lines, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr):
    row, k = (tl.program_id(0) - 1).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, RP)
    here, place = (row < lines)[:, None] & (k < R)[None, :], row[:, None] * R + k[None, :]
    far = t * tl.load(d + place, mask=here, other=0.0).to(tl.float64)
    tl.store(out + place, tl.load(x + place, mask=here, other=0.0) + far, mask=here)


@triton.jit
def _foreseen(known, roots, work, t, R: tl.constexpr, RP: tl.constexpr):
    n = tl.arange(0, RP)
    scales = tl.load(roots + n, mask=n < R, other=1.0)[None, :, None]
    # Each side is solved for with what the bases see of the other, and measured by the Gram of the other.
    _kept(work, CHANGES, _inverses(_seen(known, t, R, RP, True) / scales, R, RP), R, RP)
    measured = _times(_of(known, INVERSES, R, RP, True), _squares(known, t, R, RP, True))
    _kept(work, MEASURED, measured, R, RP)
    squares, d_d = _squares(known, t, R, RP), _of(known, D_D, R, RP)
    x_d, inverses = _of(known, X_D, R, RP) + t * d_d, _inverses(squares, R, RP)
    inverses = (inverses + _transposed(inverses)) / 2
    _kept(work, CARRIED, _vertical(x_d, inverses), R, RP)
    _kept(work, SQUARES, squares, R, RP)
    _kept(work, INVERSES, inverses, R, RP)
    _kept(work, X_D, x_d, R, RP)
    _kept(work, D_D, d_d, R, RP)
    _kept(work, SEEN, _seen(known, t, R, RP), R, RP)
    _kept(work, AHEAD, _of(known, AHEAD, R, RP), R, RP)


@triton.jit(do_not_specialize=["lines", "others", "chunk"])
def multiply(
    x, f, old, d, u, base, y, g, older, e, v, other_base, out, lines, others, chunk,
    R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """The Grams of the `PAIRS` of one side, then of the other, over chunks of rows."""
    job, part = tl.program_id(0), tl.program_id(1).to(tl.int64)
    if job < _EACH:
        _multiplied(job, x, f, old, d, u, base, lines, chunk, out, job, part, R, RP, ROWS)
    else:
        pair = job - _EACH
        _multiplied(pair, y, g, older, e, v, other_base, others, chunk, out, job, part, R, RP, ROWS)


@triton.jit
def _multiplied(
    pair, x, f, old, d, u, base, rows, chunk, out, job, part,
    R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    A = tl.where(pair == U_U, u, base)
    A = tl.where((pair == OLD_U) | (pair == OLD_X), old, A)
    A = tl.where((pair == F_F) | (pair == F_U), f, A)
    A = tl.where((pair == X_X) | (pair == X_U), x, A)
    A = tl.where((pair == D_F) | (pair == D_U), d, A)
    B = tl.where((pair == X_X) | (pair == OLD_X), x, u)
    B = tl.where((pair == D_F) | (pair == F_F), f, B)
    gram(A, B, rows, chunk, out, job, part, R, RP, ROWS)


@triton.jit
def _gram(grams, first, pair, R: tl.constexpr, RP: tl.constexpr, FLIPPED: tl.constexpr = False):
    """A pair of the Grams that were asked for, which lie side by side from the number `first` on."""
    return _small(grams + first, pair, _EACH, R, RP, FLIPPED)


@triton.jit(do_not_specialize=["first", "place"])
def turn(grams, known, work, home, first, place, R: tl.constexpr, RP: tl.constexpr):
    """What the point that `advance` went to says: TOLD numbers to `home`, the vertical part to `work`.

    Squares: of the gradient's norm in the geometry, of that of g in the metric of directions, of the length
    of d. The products of g with the gradient before, and of d with the gradient. A bound of the condition
    numbers of Grams, squared. And how far factors have turned from the bases: `costs.data_metric.turned`.
    """
    inverses, squares = _of(work, INVERSES, R, RP), _of(work, SQUARES, R, RP)
    vertical = _vertical(_gram(grams, first, X_U, R, RP), inverses)
    _kept(work, VERTICAL, vertical, R, RP)
    overlaps = _gram(grams, first, OLD_U, R, RP) + _times(_gram(grams, first, OLD_X, R, RP), vertical)
    told = home + place
    tl.store(told, _dot(_gram(grams, first, F_F, R, RP, True), inverses))
    tl.store(told + 1, _trace(_gram(grams, first, F_U, R, RP), RP))
    tl.store(told + 2, _dot(_of(known, SQUARES, R, RP, True), _of(known, D_D, R, RP)))
    tl.store(told + 3, _dot(_of(work, MEASURED, R, RP), overlaps))
    tl.store(told + 4, _trace(_gram(grams, first, D_F, R, RP), RP))
    norms = tl.sum(tl.sum(squares * squares, axis=2), axis=1)
    tl.store(told + 5, tl.max(norms * tl.sum(tl.sum(inverses * inverses, axis=2), axis=1), axis=0))
    seen = _of(work, SEEN, R, RP)
    shared = tl.sum(tl.sum(_times(seen, inverses) * seen, axis=2), axis=1)  # Tr(K (YᵀY)⁻¹Kᵀ): Σ cos²
    tl.store(told + 6, 1.0 - tl.min(shared, axis=0) / R)


@triton.jit(do_not_specialize=["first", "lines", "others", "high", "middle", "low"])
def directions(
    u, x, d, out, v, y, e, other, grams, work, known, first, lines, others, high, middle, low,
    R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """−g + β d for g = u + x · vertical and d carried by x · carried; and what is `known` of x and that."""
    beta = _number(high, middle, low)
    if tl.program_id(0) > 0:
        if tl.program_id(1) == 0:
            _directed(u, x, d, out, work, 0, beta, lines, R, RP, ROWS)
        else:
            _directed(v, y, e, other, work, 1, beta, others, R, RP, ROWS)
    elif tl.program_id(1) == 0:
        _followed(grams, work, known, first, beta, R, RP)


@triton.jit
def _directed(
    u, x, d, out, work, side, beta, lines, R: tl.constexpr, RP: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    row, k = (tl.program_id(0) - 1).to(tl.int64) * ROWS + tl.arange(0, ROWS), tl.arange(0, RP)
    here = (row < lines)[:, None] & (k < R)[None, :]
    place = row[:, None] * R + k[None, :]
    total = -tl.load(u + place, mask=here, other=0.0).to(tl.float64)
    total += beta * tl.load(d + place, mask=here, other=0.0).to(tl.float64)
    carried, vertical = work + (2 * CARRIED + side) * R * R, work + (2 * VERTICAL + side) * R * R
    for n in range(R):
        small = beta * tl.load(carried + n * R + k, mask=k < R, other=0.0)
        small -= tl.load(vertical + n * R + k, mask=k < R, other=0.0)
        total += (
            tl.load(x + row * R + n, mask=row < lines, other=0.0).to(tl.float64)[:, None] * small[None, :]
        )
    tl.store(out + place, total, mask=here)


@triton.jit
def _followed(grams, work, known, first, beta, R: tl.constexpr, RP: tl.constexpr):
    squares, sees = _gram(grams, first, X_X, R, RP), _of(work, SEEN, R, RP)
    x_u, d_u, x_d = _gram(grams, first, X_U, R, RP), _gram(grams, first, D_U, R, RP), _of(work, X_D, R, RP)
    small = beta * _of(work, CARRIED, R, RP) - _of(work, VERTICAL, R, RP)
    # Products of u, x, d and the bases with the new direction.
    u_v = _times(_transposed(x_u), small) - _gram(grams, first, U_U, R, RP) + beta * _transposed(d_u)
    x_v = _times(squares, small) - x_u + beta * x_d
    d_v = _times(_transposed(x_d), small) - d_u + beta * _of(work, D_D, R, RP)
    ahead = _times(sees, small) - _gram(grams, first, BASE_U, R, RP) + beta * _of(work, AHEAD, R, RP)
    _kept(known, SQUARES, squares, R, RP)
    _kept(known, INVERSES, _of(work, INVERSES, R, RP), R, RP)
    _kept(known, X_D, x_v, R, RP)
    _kept(known, D_D, _times(_transposed(small), x_v) - u_v + beta * d_v, R, RP)
    _kept(known, SEEN, sees, R, RP)
    _kept(known, AHEAD, ahead, R, RP)


def halves(number: float) -> tuple[int, int, int]:
    """Cut a number into whole ones: as it is, Triton would round it to single precision."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    return bits >> 42, bits >> 21 & 0x1FFFFF, bits & 0x1FFFFF


@functools.cache
def layout(rank: int) -> dict[str, int]:
    """How many columns a program holds, and its warps."""
    columns = padded(rank)
    return {"R": rank, "RP": columns, "num_warps": max(1, columns * columns // 32)}


def multiplying(rank: int, bytes_each: int, longest: int) -> tuple[tuple[int, int], int, dict[str, int]]:
    """The programs of `multiply`, how many rows each takes, and the same."""
    options = dict(multiplying_anything(rank, bytes_each))
    del options["FLOATS"]
    chunk = chunk_of(longest, options["ROWS"])
    return (2 * len(PAIRS), -(-longest // chunk)), chunk, options


@functools.cache
def beside_rows(rank: int) -> dict[str, int]:
    """The same, with the rows of those programs that have tall arrays."""
    return {**layout(rank), "ROWS": _TILE // padded(rank)}
