"""Entries on a GPU, sorted by line and cut into the pieces that programs take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from rankfold import kernels
from rankfold.entries.gpu_checks import RepeatedEntryError, Tensor
from rankfold.entries.store import NewValues
from rankfold.linalg.exchange import Coming, desk
from rankfold.remembered import remembered

BLOCK = 1 << 24  # entries whose losses, or new values, are made at a time
# Up to so many entries both passes of an evaluation are one launch, which spares 12 µs of the host's time.
# Compiled together they keep the GPU less busy: 0.22 ms instead of 0.18 on P2, 16.7 instead of 9.6 for
# 1.6·10⁸ entries of rank 10 (one H200).
TOGETHER = 1_000_000


@dataclass(frozen=True, eq=False)
class GpuSide:
    """Entries sorted by line, and the lines cut into pieces: piece p holds those from start[p] on.

    `cut` are the lines of more than one piece, and `after[n]` counts their pieces but the first, up to the
    n-th of them.
    """

    lines: int
    length: int
    start: Tensor
    line: Tensor
    index: Tensor
    value: Tensor
    weight: Tensor | None
    cut: Tensor
    after: Tensor

    @remembered
    def pieces(self) -> int:
        """Number of pieces."""
        return len(self.line)

    @remembered
    def kept(self) -> kernels.gpu_launch.Kept:
        """What every pass reads; the values stand in for weights that there are not."""
        weight = self.value if self.weight is None else self.weight
        return kernels.gpu_launch.Kept(self.start, self.line, self.index, self.value, weight)

    @property
    def counts(self) -> Tensor:
        """Number of entries of each line."""
        sizes = self.start[1:] - self.start[:-1]
        return torch.zeros(self.lines, dtype=torch.int64, device=sizes.device).index_add_(
            0, self.line.long(), sizes
        )

    def positions(self) -> tuple[Tensor, Tensor]:
        """The line of each entry, and its place there."""
        sizes = self.start[1:] - self.start[:-1]
        return torch.repeat_interleave(self.line.long(), sizes), self.index.long()

    def layout(self, A: Tensor) -> dict[str, int]:
        """How a pass with factors like A is laid out over programs."""
        key = A.shape[1], A.element_size()
        if key not in self._layouts:
            self._layouts[key] = kernels.gpu.layout(*key, self.index.shape[0] / self.lines)
        return self._layouts[key]

    @remembered
    def _layouts(self) -> dict[tuple[int, int], dict[str, int]]:
        return {}

    def programs(self, A: Tensor, every: int = 1) -> int:
        """How many programs a pass over one in `every` pieces takes."""
        return -(-self.pieces // (every * self.layout(A)["P"]))

    def swept(self, kernel: Any, tall: Sequence[Tensor], *constants: Tensor, **options: Any) -> Tensor:
        """Run a pass that has a row of results for each line."""
        out = tall[0].new_empty((self.pieces, tall[0].shape[1]))
        self.passed(kernel, tall, out, *constants, **options)
        return self._joined(out)

    def passed(
        self, kernel: Any, tall: Sequence[Tensor], out: Tensor, *constants: Tensor, **options: Any
    ) -> None:
        """Run a pass that writes to `out`."""
        layout = self.layout(tall[0])
        tensors, numbers = (*tall, out, *constants), (self.lines, self.pieces)
        grid = (-(-self.pieces // layout["P"]),)
        kernels.gpu_launch.launch(kernel, grid, tensors, numbers, {**layout, **options}, self.kept)

    def formed(self, A: Tensor, B: Tensor, constants: Tensor, **options: Any) -> Tensor:
        """Return the block of each line, (lines, r, r)."""
        rank, layout = A.shape[1], kernels.gpu_lines.forming(A.shape[1])
        out = A.new_empty((self.pieces, rank * rank))
        tensors, numbers, options = (A, B, out, constants), (self.lines, self.pieces), {**layout, **options}
        kernel, grid = kernels.gpu_lines.blocks, (self.pieces,)
        kernels.gpu_launch.launch(kernel, grid, tensors, numbers, options, self.kept)
        return self._joined(out).reshape(self.lines, rank, rank)

    def _joined(self, out: Tensor) -> Tensor:
        """Add up what the pieces of each line have found."""
        if self.pieces == self.lines:  # each is its line's only one
            return out
        columns = {"R": out.shape[1], "RP": kernels.gpu.columns(out.shape[1])}
        tensors, grid = (self.cut, self.after, out), (self.cut.shape[0],)
        kernels.gpu_launch.launch(kernels.gpu.join, grid, tensors, (self.lines,), columns)
        return out[: self.lines]

    def summed(self, kernel: Any, width: int, tall: Sequence[Tensor], every: int, **options: Any) -> Coming:
        """Run a pass that adds up `width` numbers over one in `every` pieces."""
        layout, programs, home = self.layout(tall[0]), self.programs(tall[0], every), desk(tall[0])
        parts = home.scratch(width * programs)
        tensors, numbers = (*tall, parts), (self.lines, self.pieces, every)
        kernels.gpu_launch.launch(kernel, (programs,), tensors, numbers, {**layout, **options}, self.kept)
        return home.summed(parts, width, programs)

    def astype(self, kind: Any) -> GpuSide:
        """Return the same entries with values and weights of another type."""
        weight = None if self.weight is None else self.weight.to(kind)
        return replace(self, value=self.value.to(kind), weight=weight)

    def with_values(self, values: NewValues) -> GpuSide:
        """Return the same entries with other values, made on the host block by block."""
        other = torch.empty_like(self.value)
        ends = self.start.cpu()
        lines = self.line.cpu()
        for first in range(0, self.value.shape[0], BLOCK):
            block = slice(first, min(first + BLOCK, self.value.shape[0]))
            entries = torch.arange(block.start, block.stop)
            own = lines[torch.searchsorted(ends, entries, right=True) - 1].numpy().astype(np.int64)
            across, old = self.index[block].cpu().numpy().astype(np.int64), self.value[block].cpu().numpy()
            other[block] = torch.as_tensor(np.asarray(values(own, across, old)), dtype=other.dtype)
        return replace(self, value=other)


def evaluated(
    sides: tuple[GpuSide, GpuSide], A: Tensor, B: Tensor, constants: Tensor, options: dict[str, Any]
) -> tuple[Coming, Tensor, Tensor]:
    """Run both passes of an evaluation, in one launch if that pays: the sum of the losses, S B and SᵀA."""
    rows, cols = sides
    programs, others, home = rows.programs(A), cols.programs(A), desk(A)
    losses = home.scratch(programs + others)
    outs = [
        torch.empty_like(Z) if side.pieces == side.lines else Z.new_empty((side.pieces, Z.shape[1]))
        for side, Z in ((rows, A), (cols, B))
    ]
    if rows.index.shape[0] > TOGETHER:  # the losses of the rows, which come last, are those that are read
        cols.passed(kernels.gpu.evaluate, (B, A, losses), outs[1], constants, **options)
        rows.passed(kernels.gpu.evaluate, (A, B, losses), outs[0], constants, **options)
    else:
        counts = rows.lines, rows.pieces, cols.lines, cols.pieces
        tensors, other = (A, B, losses, *outs, constants), cols.layout(A)
        options = {**rows.layout(A), "OTHER_P": other["P"], "OTHER_E": other["E"], **options}
        kernel, grid = kernels.gpu.evaluate_both, (programs + others,)
        kernels.gpu_launch.launch(kernel, grid, tensors, counts, options, rows.kept, cols.kept)
    f_L, f_R = (side._joined(out) for side, out in zip(sides, outs, strict=True))
    return home.summed(losses, 1, programs), f_L, f_R


def sorted_side(
    own: Tensor, across: Tensor, value: Tensor, weight: Tensor | None, shape: tuple[int, int], duplicates: str
) -> GpuSide:
    """Sort by line, then across; of repeated entries by their data, so that no order given matters."""
    lines, length = shape
    key, order = torch.sort(own * length + across, stable=True)
    if bool((key[1:] == key[:-1]).any()):
        if duplicates != "keep":
            at = int((key[1:] == key[:-1]).to(torch.uint8).argmax())
            i, j = divmod(int(key[at]), length)
            raise RepeatedEntryError(i, j, (int(order[at]), int(order[at + 1])))
        order = torch.sort(value, stable=True).indices
        if weight is not None:
            by_weight = torch.sort(weight, stable=True).indices
            order = by_weight[torch.sort(value[by_weight], stable=True).indices]
        order = order[torch.sort((own * length + across)[order], stable=True).indices]
    del key
    counts, across = torch.bincount(own, minlength=lines), across.to(torch.int32)[order]
    return _cut(lines, length, counts, across, value[order], None if weight is None else weight[order])


def _cut(
    lines: int, length: int, counts: Tensor, across: Tensor, value: Tensor, weight: Tensor | None
) -> GpuSide:
    """Cut sorted lines into pieces."""
    longest = kernels.gpu.PIECE
    parts = torch.clamp(-(-counts // longest), min=1)
    line = torch.repeat_interleave(torch.arange(lines, device=counts.device), parts)
    first_piece = torch.cumsum(parts, 0) - parts
    begins = torch.cumsum(counts, 0) - counts
    number = torch.arange(len(line), device=counts.device) - first_piece[line]
    start = torch.empty(len(line) + 1, dtype=torch.int64, device=counts.device)
    start[:-1], start[-1] = begins[line] + longest * number, across.shape[0]
    cut = torch.nonzero(parts > 1).flatten()
    after = torch.zeros(len(cut) + 1, dtype=torch.int64, device=counts.device)
    after[1:] = torch.cumsum(parts[cut] - 1, 0)
    return GpuSide(lines, length, start, line.to(torch.int32), across, value, weight, cut, after)
