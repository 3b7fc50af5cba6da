"""The passes over the observed set for a GPU, in Triton; on the CPU under its interpreter, for tests.

A side of Ω is cut into pieces: a line of at most `PIECE` entries is one, a longer one is several. A program
takes some pieces at once, so that short lines fill it and no line holds it up. The first piece of a line
writes to the line's place; the others to places behind the last line, and `join` adds them up in order. No
sum depends on which program came first: bits repeat.

Dot products are in the precision of the factors, sums over entries in float64. Constants come as two numbers
in memory, the loss's parameter and a scale: as arguments, Triton would round them to float32.
"""

from __future__ import annotations

import functools

import triton
import triton.language as tl

PIECE = 2048  # entries that one program passes over, at most, for a line
_TILE = 256  # numbers of a factor that one program holds at a time, about
_FEWEST = 8  # entries that it reads at a time, at least


@triton.jit
def _losses(w, y, parameter, LOSS: tl.constexpr):
    """ℓ, ℓ' and ℓ'' of a built-in loss: `rankfold.kernels.formulas`, by the same numbers."""
    zero = 0.0 * w
    if LOSS == 0:  # square
        e = w - y
        value, slope, bend = e * e, 2.0 * e, zero + 2.0
    elif LOSS == 1:  # logistic
        tail = tl.exp(-tl.abs(w))  # no overflow for any w
        above = 1.0 + tail
        # log(1 + tail) to all digits: what rounding took from 1 + tail is made up for.
        rest = tl.where(
            above == 1.0, tail, tl.log(above) * tail / tl.where(above == 1.0, zero + 1.0, above - 1.0)
        )
        p = tl.where(w >= 0, zero + 1.0, tail) / above
        value, slope, bend = tl.maximum(w, 0.0) + rest - y * w, p - y, tail / (above * above)
    elif LOSS == 2:  # huber
        e = w - y
        c = tl.minimum(tl.maximum(e, -parameter), parameter)
        value, slope, bend = c * (2.0 * e - c), 2.0 * c, tl.where(tl.abs(e) <= parameter, zero + 2.0, zero)
    elif LOSS == 3:  # poisson
        mean = tl.exp(w)
        value, slope, bend = mean - y * w, mean - y, mean
    else:  # squared hinge
        sign = 2.0 * y - 1.0
        short = tl.maximum(zero, 1.0 - sign * w)
        value, slope, bend = short * short, -2.0 * sign * short, tl.where(short > 0.0, zero + 2.0, zero)
    return value, slope, bend


@triton.jit
def _pieces(start, line, lines, pieces, every, P: tl.constexpr):
    """The pieces of this program: their lines, places, first entries and ends; empty past the last piece."""
    return _pieces_of(tl.program_id(0), start, line, lines, pieces, every, P)


@triton.jit
def _pieces_of(n, start, line, lines, pieces, every, P: tl.constexpr):
    p = (n.to(tl.int64) * P + tl.arange(0, P)) * every
    there = p < pieces
    i = tl.load(line + p, mask=there, other=0).to(tl.int64)
    before = tl.load(line + p - 1, mask=there & (p > 0), other=-1).to(tl.int64)
    place = tl.where(before == i, lines + p - i - 1, i)
    first = tl.load(start + p, mask=there, other=0)
    end = tl.load(start + p + 1, mask=there, other=0)
    return i, place, there, first, end


@triton.jit
def _rows(A, i, there, R: tl.constexpr, RP: tl.constexpr):
    """Rows of a tall array, zero where there is none, with a dimension between for the entries."""
    k = tl.arange(0, RP)
    return tl.load(A + i[:, None] * R + k[None, :], mask=there[:, None] & (k < R)[None, :], other=0.0)[
        :, None, :
    ]


@triton.jit
def _gathered(B, j, here, R: tl.constexpr, RP: tl.constexpr):
    """Rows of a tall array by number, (pieces, entries, columns)."""
    k = tl.arange(0, RP)
    return tl.load(
        B + j[:, :, None] * R + k[None, None, :], mask=here[:, :, None] & (k < R)[None, None, :], other=0.0
    )


@triton.jit
def _store(out, place, there, sums, R: tl.constexpr, RP: tl.constexpr):
    k = tl.arange(0, RP)
    tl.store(out + place[:, None] * R + k[None, :], sums, mask=there[:, None] & (k < R)[None, :])


@triton.jit(do_not_specialize=["lines", "pieces"])
def value(
    start, line, index, value, weight, A, B, losses, constants, lines, pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
    LOSS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Losses at A Bᵀ summed by program."""
    _evaluated(
        tl.program_id(0), start, line, index, value, weight, A, B, losses, losses, constants, lines, pieces,
        R, RP, P, E, LOSS, WEIGHTED, False,
    )  # fmt: skip


@triton.jit(do_not_specialize=["lines", "pieces"])
def evaluate(
    start, line, index, value, weight, A, B, losses, out, constants, lines, pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
    LOSS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Losses at A Bᵀ summed by program, and S B."""
    _evaluated(
        tl.program_id(0), start, line, index, value, weight, A, B, losses, out, constants, lines, pieces,
        R, RP, P, E, LOSS, WEIGHTED, True,
    )  # fmt: skip


@triton.jit(do_not_specialize=["lines", "pieces", "others", "other_pieces"])
def evaluate_both(
    start, line, index, value, weight, other_start, other_line, other_index, other_value, other_weight,
    A, B, losses, out, other_out, constants, lines, pieces, others, other_pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr, OTHER_P: tl.constexpr,
    OTHER_E: tl.constexpr, LOSS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Losses at A Bᵀ summed by program, and S B; then those of the other side, and SᵀA."""
    n = tl.program_id(0)
    programs = tl.cdiv(pieces, P)
    if n < programs:
        _evaluated(
            n, start, line, index, value, weight, A, B, losses, out, constants, lines, pieces,
            R, RP, P, E, LOSS, WEIGHTED, True,
        )  # fmt: skip
    else:
        _evaluated(
            n - programs, other_start, other_line, other_index, other_value, other_weight, B, A,
            losses + programs, other_out, constants, others, other_pieces,
            R, RP, OTHER_P, OTHER_E, LOSS, WEIGHTED, True,
        )  # fmt: skip


@triton.jit
def _evaluated(
    n, start, line, index, value, weight, A, B, losses, out, constants, lines, pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
    LOSS: tl.constexpr, WEIGHTED: tl.constexpr, PARTIALS: tl.constexpr,
):  # fmt: skip
    i, place, there, first, end = _pieces_of(n, start, line, lines, pieces, 1, P)
    a = _rows(A, i, there, R, RP)
    parameter, scale = tl.load(constants).to(a.dtype), tl.load(constants + 1)
    sums, total = tl.zeros((P, RP), tl.float64), tl.zeros((P, E), tl.float64)
    for step in range(0, tl.max(end - first), E):
        q = first[:, None] + step + tl.arange(0, E)[None, :]
        here = q < end[:, None]
        j = tl.load(index + q, mask=here, other=0).to(tl.int64)
        y = tl.load(value + q, mask=here, other=0.0).to(a.dtype)
        b = _gathered(B, j, here, R, RP)
        loss, slope, bend = _losses(tl.sum(a * b, axis=2), y, parameter, LOSS)
        if WEIGHTED:
            w = tl.load(weight + q, mask=here, other=0.0).to(a.dtype)
            loss, slope = loss * w, slope * w
        total += tl.where(here, loss, 0.0).to(tl.float64)
        if PARTIALS:
            sums += tl.sum(b * tl.where(here, slope, 0.0)[:, :, None], axis=1).to(tl.float64)
    tl.store(losses + n, tl.sum(tl.sum(total, axis=1), axis=0))
    if PARTIALS:
        _store(out, place, there, sums * scale, R, RP)


@triton.jit(do_not_specialize=["lines", "pieces"])
def derivative(
    start, line, index, value, weight, A, B, dA, dB, out, constants, lines, pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
    LOSS: tl.constexpr, WEIGHTED: tl.constexpr, MODEL: tl.constexpr,
):  # fmt: skip
    """Ṡ B + S dB along (dA, dB); of a Gauss–Newton model Ṡ B alone, for positive ℓ″."""
    i, place, there, first, end = _pieces(start, line, lines, pieces, 1, P)
    a, da = _rows(A, i, there, R, RP), _rows(dA, i, there, R, RP)
    parameter, scale = tl.load(constants).to(a.dtype), tl.load(constants + 1)
    sums = tl.zeros((P, RP), tl.float64)
    for step in range(0, tl.max(end - first), E):
        q = first[:, None] + step + tl.arange(0, E)[None, :]
        here = q < end[:, None]
        j = tl.load(index + q, mask=here, other=0).to(tl.int64)
        y = tl.load(value + q, mask=here, other=0.0).to(a.dtype)
        b, db = _gathered(B, j, here, R, RP), _gathered(dB, j, here, R, RP)
        loss, slope, bend = _losses(tl.sum(a * b, axis=2), y, parameter, LOSS)
        if MODEL:
            slope, bend = slope * 0.0, tl.maximum(bend, 0.0)
        turn = bend * tl.sum(da * b + a * db, axis=2)
        if WEIGHTED:
            w = tl.load(weight + q, mask=here, other=0.0).to(a.dtype)
            slope, turn = slope * w, turn * w
        slope, turn = tl.where(here, slope, 0.0), tl.where(here, turn, 0.0)
        sums += tl.sum(b * turn[:, :, None] + db * slope[:, :, None], axis=1).to(tl.float64)
    _store(out, place, there, sums * scale, R, RP)


@triton.jit(do_not_specialize=["lines", "pieces", "every"])
def polynomial(
    start, line, index, value, weight, A0, A1, A2, B0, B1, B2, out, lines, pieces, every,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """Coefficients of t ↦ Σ ((Σ Aᵢ tⁱ)(Σ Bⱼ tʲ)ᵀ − y)², and the count behind them, a row of sums each."""
    i, place, there, first, end = _pieces(start, line, lines, pieces, every, P)
    a0 = _rows(A0, i, there, R, RP)
    a1 = _rows(A1, i, there, R, RP)
    a2 = _rows(A2, i, there, R, RP)
    q0 = tl.zeros((P, E), tl.float64)
    q1, q2, q3, q4, q5, q6, q7, q8 = q0, q0, q0, q0, q0, q0, q0, q0
    for step in range(0, tl.max(end - first), E):
        q = first[:, None] + step + tl.arange(0, E)[None, :]
        here = q < end[:, None]
        j = tl.load(index + q, mask=here, other=0).to(tl.int64)
        y = tl.load(value + q, mask=here, other=0.0).to(a0.dtype)
        b0 = _gathered(B0, j, here, R, RP)
        c0 = tl.where(here, tl.sum(a0 * b0, axis=2) - y, 0.0).to(tl.float64)
        c1, c2, c3, c4 = 0.0 * c0, 0.0 * c0, 0.0 * c0, 0.0 * c0
        if M > 1:
            c1 += tl.sum(a1 * b0, axis=2).to(tl.float64)
        if M > 2:
            c2 += tl.sum(a2 * b0, axis=2).to(tl.float64)
        if N > 1:
            b1 = _gathered(B1, j, here, R, RP)
            c1 += tl.sum(a0 * b1, axis=2).to(tl.float64)
            if M > 1:
                c2 += tl.sum(a1 * b1, axis=2).to(tl.float64)
            if M > 2:
                c3 += tl.sum(a2 * b1, axis=2).to(tl.float64)
        if N > 2:
            b2 = _gathered(B2, j, here, R, RP)
            c2 += tl.sum(a0 * b2, axis=2).to(tl.float64)
            if M > 1:
                c3 += tl.sum(a1 * b2, axis=2).to(tl.float64)
            if M > 2:
                c4 += tl.sum(a2 * b2, axis=2).to(tl.float64)
        w = 0.0 * c0 + 1.0
        if WEIGHTED:
            w = tl.load(weight + q, mask=here, other=0.0).to(tl.float64)
        q0 += w * c0 * c0
        q1 += w * 2 * c0 * c1
        q2 += w * (2 * c0 * c2 + c1 * c1)
        q3 += w * 2 * c1 * c2
        q4 += w * c2 * c2
        if M + N > 4:  # a line of products of straight factors has no more
            q3 += w * 2 * c0 * c3
            q4 += w * 2 * (c0 * c4 + c1 * c3)
            q5 += w * 2 * (c1 * c4 + c2 * c3)
            q6 += w * (2 * c2 * c4 + c3 * c3)
            q7 += w * 2 * c3 * c4
            q8 += w * c4 * c4
    sums, apart = out + tl.program_id(0), tl.num_programs(0)
    tl.store(sums, tl.sum(tl.sum(q0, axis=1), axis=0))
    if M + N > 2:
        tl.store(sums + apart, tl.sum(tl.sum(q1, axis=1), axis=0))
        tl.store(sums + 2 * apart, tl.sum(tl.sum(q2, axis=1), axis=0))
    if M + N > 3:
        tl.store(sums + 3 * apart, tl.sum(tl.sum(q3, axis=1), axis=0))
        tl.store(sums + 4 * apart, tl.sum(tl.sum(q4, axis=1), axis=0))
    if M + N > 4:
        tl.store(sums + 5 * apart, tl.sum(tl.sum(q5, axis=1), axis=0))
        tl.store(sums + 6 * apart, tl.sum(tl.sum(q6, axis=1), axis=0))
    if M + N > 5:
        tl.store(sums + 7 * apart, tl.sum(tl.sum(q7, axis=1), axis=0))
        tl.store(sums + 8 * apart, tl.sum(tl.sum(q8, axis=1), axis=0))
    tl.store(sums + (2 * (M + N) - 3) * apart, tl.sum(end - first, axis=0).to(tl.float64))


@triton.jit(do_not_specialize=["lines", "pieces"])
def slopes(
    start, line, index, value, weight, A, B, out, constants, lines, pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
    LOSS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """`scale` times the (weighted) ℓ' at A Bᵀ, entry by entry."""
    i, place, there, first, end = _pieces(start, line, lines, pieces, 1, P)
    a = _rows(A, i, there, R, RP)
    parameter, scale = tl.load(constants).to(a.dtype), tl.load(constants + 1)
    for step in range(0, tl.max(end - first), E):
        q = first[:, None] + step + tl.arange(0, E)[None, :]
        here = q < end[:, None]
        j = tl.load(index + q, mask=here, other=0).to(tl.int64)
        y = tl.load(value + q, mask=here, other=0.0).to(a.dtype)
        loss, slope, bend = _losses(tl.sum(a * _gathered(B, j, here, R, RP), axis=2), y, parameter, LOSS)
        if WEIGHTED:
            slope *= tl.load(weight + q, mask=here, other=0.0).to(a.dtype)
        tl.store(out + q, scale * slope, mask=here)


@triton.jit(do_not_specialize=["lines", "pieces"])
def product(
    start, line, index, value, weight, B, out, lines, pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
):  # fmt: skip
    """S B, for the matrix S of these values."""
    i, place, there, first, end = _pieces(start, line, lines, pieces, 1, P)
    sums = tl.zeros((P, RP), tl.float64)
    for step in range(0, tl.max(end - first), E):
        q = first[:, None] + step + tl.arange(0, E)[None, :]
        here = q < end[:, None]
        j = tl.load(index + q, mask=here, other=0).to(tl.int64)
        s = tl.load(value + q, mask=here, other=0.0)
        sums += tl.sum(_gathered(B, j, here, R, RP) * s[:, :, None], axis=1).to(tl.float64)
    _store(out, place, there, sums, R, RP)


@triton.jit(do_not_specialize=["lines"])
def join(cut, after, out, lines, R: tl.constexpr, RP: tl.constexpr):
    """Add to each of the lines that were cut what its other pieces found, in their order."""
    n = tl.program_id(0).to(tl.int64)
    k = tl.arange(0, RP)
    i = tl.load(cut + n).to(tl.int64)
    sums = tl.load(out + i * R + k, mask=k < R, other=0.0).to(tl.float64)
    for p in range(tl.load(after + n), tl.load(after + n + 1)):
        sums += tl.load(out + (lines + p) * R + k, mask=k < R, other=0.0).to(tl.float64)
    tl.store(out + i * R + k, sums, mask=k < R)


def columns(width: int) -> int:
    """How many columns a program holds for so many: a power of two."""
    return max(2, int(triton.next_power_of_2(width)))


@functools.lru_cache(maxsize=256)
def layout(rank: int, bytes_each: int, mean_length: float) -> dict[str, int]:
    """How many columns, pieces and entries a program holds at a time, and its warps.

    Of 128 to 2048 numbers at a time, in any shape, these were the fastest on an H200 at ranks 5, 10, 32 and
    64: single precision waits for gathers, which several lines at once overlap; the widest rows in double
    precision want two warps.
    """
    width = columns(rank)
    room, single = max(_FEWEST, _TILE // max(width, 16)), bytes_each == 4
    one = width <= 32 or single
    pieces = room // 4 if width <= 16 and single else 1 if one else 2
    entries = min(room // pieces, triton.next_power_of_2(int(mean_length) or 1))
    warps = max(1 if one else 2, width * room // 512)
    return {"R": rank, "RP": width, "P": room // entries, "E": entries, "num_warps": warps}
