"""One r×r block for each line: inverted, and applied to a row of each, where the blocks are."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.linalg import on_gpu
from rankfold.linalg.exchange import desk
from rankfold.linalg.memory import empty
from rankfold.linalg.primitives import on_host

Array = Any
Blocks = Any  # an array (lines, r, r), or `Unformed`
CHUNKS = 64  # of groups of lines, that threads share out


class Unformed(Protocol):
    """Blocks of one side that are not there: for who wants no more of them than these two answers."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """(lines, r, r)."""

    def diagonal_sums(self) -> NDArray[Any]:
        """Return the sum of the diagonals."""

    def inverted(self, scale: float, ridge: NDArray[Any], lost: float) -> NDArray[Any]:
        """Return what `inverted` does."""


@dataclass(frozen=True)
class Ridged:
    """Blocks A_i + diag(weights)."""

    blocks: Blocks
    weights: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int, int]:
        """(lines, r, r)."""
        lines, r, _ = self.blocks.shape
        return lines, r, r

    def diagonal_sums(self) -> NDArray[Any]:
        """Return the sum of the diagonals."""
        return np.asarray(diagonal_sums(self.blocks) + self.blocks.shape[0] * self.weights)

    def inverted(self, scale: float, ridge: NDArray[Any], lost: float) -> Array:
        """Return what `inverted` does."""
        return inverted(self.blocks, scale, ridge + scale * self.weights, lost)


class Applied(NamedTuple):
    """N A_i⁻¹ Nᵀ x_i of each line i, for inverted blocks and a small N."""

    inverse: Array
    N: NDArray[Any]
    x: Array


def inverted(blocks: Blocks, scale: float, ridge: NDArray[Any], lost: float) -> Array:
    """Return rows u_k, in single precision, with (scale A_i + diag(ridge))⁻¹ = Σ u_k u_kᵀ for each line.

    They lie as kernels want them, and end at the diagonal. A pivot that is `lost` of its diagonal entry, or
    less, is rounding.
    """
    if hasattr(blocks, "inverted"):
        return blocks.inverted(scale, ridge, lost)
    lines, r, _ = blocks.shape
    if on_gpu.holds(blocks):
        import torch

        out = torch.empty(blocks.shape, dtype=torch.float32, device=blocks.device)
        numbers = desk(blocks).send(np.array([scale, lost, *ridge.tolist()]))
        layout = kernels.gpu_lines.layout(r)
        tensors, grid = (blocks.contiguous(), numbers, out), (-(-lines // layout["P"]),)
        kernels.gpu_launch.launch(kernels.gpu_lines.invert, grid, tensors, (lines,), layout)
        return out
    inverse = np.empty(kernels.line_blocks.packed(lines, r), np.float32)
    Q = np.require(blocks, ridge.dtype, ["C", "A", "W"]).reshape(lines * r, r)
    own = groups(len(inverse)), Q, scale, ridge, lost, inverse
    kernels.pool.run(kernels.line_blocks.invert(r), CHUNKS, lines * r**3 / 3, own)
    return inverse


def applied(*sides: Applied) -> list[Array]:
    """Return what each side asks for, in the type of x."""
    if on_gpu.holds(sides[0].inverse):
        return _applied_on_gpu(*sides)
    outs, passes = [empty(x.shape, np.float64) for _, _, x in sides], []
    for (inverse, N, x), out in zip(sides, outs, strict=True):
        own = np.ascontiguousarray(N, np.float64)
        passes.append((groups(len(inverse)), inverse, own, np.ascontiguousarray(own.T), x, out))
    r = outs[0].shape[1]
    work = 3 * r * sum(out.size for out in outs)
    kernels.pool.run(kernels.line_blocks.solve(r), CHUNKS, work, *passes)
    return [out.astype(x.dtype, copy=False) for out, (_, _, x) in zip(outs, sides, strict=True)]


def _applied_on_gpu(*sides: Applied) -> list[Array]:
    smalls = np.concatenate([sides[0].N, sides[-1].N]).astype(np.float64, copy=False)
    return applied_there(desk(sides[0].x).send(smalls), *((inverse, x) for inverse, _, x in sides))


def applied_there(smalls: Array, *sides: tuple[Array, Array]) -> list[Array]:
    """The same on a GPU, of the inverses and x of one or two sides, for small N that are there already."""
    (U, x), (V, y) = sides[0], sides[-1]
    layout = kernels.gpu_lines.layout(x.shape[1])
    outs = [on_gpu.empty_like(x) for _, x in sides]
    lines, others = x.shape[0], y.shape[0]
    tensors = U, x, outs[0], V, y, outs[-1], smalls
    grid = -(-max(lines, others) // layout["P"]), len(sides)
    kernels.gpu_launch.launch(kernels.gpu_lines.solve, grid, tensors, (lines, others), layout)
    return outs


def diagonal_sums(blocks: Blocks) -> NDArray[Any]:
    """Return the sum of the diagonals of the blocks, on the host."""
    if hasattr(blocks, "diagonal_sums"):
        return np.asarray(blocks.diagonal_sums())
    if on_gpu.holds(blocks):
        return on_host(blocks.diagonal(dim1=1, dim2=2).double().sum(0))
    return np.asarray(np.einsum("ikk->k", blocks))


@functools.lru_cache(maxsize=64)
def groups(count: int) -> NDArray[np.uint64]:
    """Bounds of chunks of so many groups of lines."""
    return np.linspace(0, count, min(CHUNKS, count) + 1).astype(np.uint64)
