"""One r×r block for each line of Ω, for a GPU, in Triton: formed, inverted and applied (`line_blocks`)."""

from __future__ import annotations

import functools

import triton
import triton.language as tl

from rankfold.kernels.gpu import _gathered, _losses, _pieces, _rows
from rankfold.kernels.gpu import columns as padded

_TILE = 1024  # numbers of blocks that a program holds at a time


@triton.jit(do_not_specialize=["lines", "pieces"])
def blocks(
    start, line, index, value, weight, A, B, out, constants, lines, pieces,
    R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr, E: tl.constexpr,
    LOSS: tl.constexpr, WEIGHTED: tl.constexpr,
):  # fmt: skip
    """`scale` Σ w ℓ″ b bᵀ of each line, ℓ″ at A Bᵀ."""
    i, place, there, first, end = _pieces(start, line, lines, pieces, 1, P)
    a = _rows(A, i, there, R, RP)
    parameter, scale = tl.load(constants).to(a.dtype), tl.load(constants + 1)
    k = tl.arange(0, RP)
    sums = tl.zeros((P, RP, RP), tl.float64)
    for step in range(0, tl.max(end - first), E):
        q = first[:, None] + step + tl.arange(0, E)[None, :]
        here = q < end[:, None]
        j = tl.load(index + q, mask=here, other=0).to(tl.int64)
        b = _gathered(B, j, here, R, RP)
        y = tl.load(value + q, mask=here, other=0.0).to(a.dtype)
        loss, slope, bend = _losses(tl.sum(a * b, axis=2), y, parameter, LOSS)
        if WEIGHTED:
            bend *= tl.load(weight + q, mask=here, other=0.0).to(a.dtype)
        b = b.to(tl.float64)
        c = b * tl.where(here, bend, 0.0).to(tl.float64)[:, :, None]
        sums += tl.sum(c[:, :, :, None] * b[:, :, None, :], axis=1)
    inside = there[:, None, None] & (k < R)[None, :, None] & (k < R)[None, None, :]
    at = out + (place[:, None, None] * R + k[None, :, None]) * R + k[None, None, :]
    tl.store(at, sums * scale, mask=inside)


@triton.jit(do_not_specialize=["lines"])
def invert(Q, numbers, out, lines, R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr):
    """Rows u_k with (scale Q_i + diag(ridge))⁻¹ = Σ u_k u_kᵀ, for `numbers` = [scale, lost, ridge...].

    Gaussian elimination as in `line_blocks.invert`: left of the pivot a row holds the inverse so far.
    """
    i = tl.program_id(0).to(tl.int64) * P + tl.arange(0, P)
    n = tl.arange(0, RP)
    inside = (i < lines)[:, None, None] & (n < R)[None, :, None] & (n < R)[None, None, :]
    place = (i[:, None, None] * R + n[None, :, None]) * R + n[None, None, :]
    on_diagonal = n[None, :, None] == n[None, None, :]
    ridge = tl.load(numbers + 2 + n, mask=n < R, other=1.0)
    q = tl.load(Q + place, mask=inside, other=0.0).to(tl.float64) * tl.load(numbers)
    q += tl.where(on_diagonal, ridge[None, None, :], 0.0)
    least = tl.load(numbers + 1) * tl.sum(tl.where(on_diagonal, q, 0.0), axis=2)
    roots = tl.zeros((P, RP), tl.float64)
    for k in range(R):
        row = tl.sum(tl.where(n[None, :, None] == k, q, 0.0), axis=1)
        column = tl.sum(tl.where(n[None, None, :] == k, q, 0.0), axis=2)
        pivot = tl.sum(tl.where(n[None, :] == k, row, 0.0), axis=1)
        kept = pivot > tl.sum(tl.where(n[None, :] == k, least, 0.0), axis=1)
        inverse = tl.where(kept, 1.0 / tl.where(kept, pivot, 1.0), 0.0)
        factor = tl.where(n[None, :] > k, column * inverse[:, None], 0.0)
        q -= factor[:, :, None] * row[:, None, :]
        q = tl.where((n[None, :, None] > k) & (n[None, None, :] == k), -factor[:, :, None], q)
        roots = tl.where(n[None, :] == k, tl.sqrt(inverse)[:, None], roots)
    u = tl.where(on_diagonal, 1.0, tl.where(n[None, None, :] < n[None, :, None], q, 0.0)) * roots[:, :, None]
    tl.store(out + place, u, mask=inside)


@triton.jit(do_not_specialize=["lines", "others"])
def solve(
    U, x, out, V, y, other, N, lines, others, R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr
):  # fmt: skip
    """N (Σ u_k u_kᵀ) Nᵀ x_i, with the rows u_k of `invert`; and the same for V and y, of the next N."""
    if tl.program_id(1) == 0:
        _solved(U, N, x, out, lines, R, RP, P)
    else:
        _solved(V, N + R * R, y, other, others, R, RP, P)


@triton.jit
def _solved(U, N, x, out, lines, R: tl.constexpr, RP: tl.constexpr, P: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * P + tl.arange(0, P)
    k = tl.arange(0, RP)
    here = (i < lines)[:, None] & (k < R)[None, :]
    inside = (i < lines)[:, None, None] & (k < R)[None, :, None] & (k < R)[None, None, :]
    u = tl.load(U + (i[:, None, None] * R + k[None, :, None]) * R + k[None, None, :], mask=inside, other=0.0)
    u = u.to(tl.float64)
    n = tl.load(N + k[:, None] * R + k[None, :], mask=(k < R)[:, None] & (k < R)[None, :], other=0.0)
    given = tl.load(x + i[:, None] * R + k[None, :], mask=here, other=0.0).to(tl.float64)
    turned = tl.sum(given[:, :, None] * n[None, :, :], axis=1)
    along = tl.sum(u * turned[:, None, :], axis=2)
    total = tl.sum(u * along[:, :, None], axis=1)
    back = tl.sum(n[None, :, :] * total[:, None, :], axis=2)
    tl.store(out + i[:, None] * R + k[None, :], back, mask=here)


@functools.cache
def layout(rank: int) -> dict[str, int]:
    """How many columns and lines a program holds at a time, and its warps."""
    columns = padded(rank)
    warps = max(1, min(16, columns * columns // _TILE))
    return {"R": rank, "RP": columns, "P": max(1, _TILE // columns**2), "num_warps": warps}


@functools.cache
def forming(rank: int) -> dict[str, int]:
    """The same, for `blocks`: one line, and so many of its entries."""
    shape = layout(rank)
    return {**shape, "P": 1, "E": shape["P"]}
