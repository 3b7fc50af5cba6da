"""A step of `turn_in_grams` whose small matrices stay on a GPU.

The host sends t and β, and reads seven numbers. With small matrices on the host, and few entries, an
iteration takes as long as its Python does.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from rankfold import kernels
from rankfold.costs.data_metric import DataMetric
from rankfold.entries.arrays import near
from rankfold.geometry.base import Tangent
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.linalg import largest_condition, on_gpu
from rankfold.linalg.exchange import Coming, desk
from rankfold.linalg.lines import applied_there
from rankfold.linalg.primitives import on_host
from rankfold.problem import Here
from rankfold.solvers.base import StepReport
from rankfold.solvers.known import Known
from rankfold.solvers.metric import Metric
from rankfold.solvers.turn import Turn

Tensor = Any
_MOST = largest_condition(np.zeros(0)) ** 2


class KnownThere(NamedTuple):
    """What is `Known`, as one tensor on a GPU."""

    smalls: Tensor

    def fetched(self) -> Known:
        """Return it on the host."""
        return Known(*on_host(self.smalls))


class _Ahead(NamedTuple):
    """Directions −g + β d at x: what they, and what is known of them, are made of."""

    x: FullRankFactors
    d: Tangent
    u: list[Tensor]
    work: Tensor
    grams: Coming

    def direction(self, beta: float) -> tuple[FullRankFactors, KnownThere]:
        """Return one of them, and what is known of it."""
        outs, known = _like(self.x), self.work.new_empty((len(Known._fields), *self.work.shape[1:]))
        sides, smalls = _beside(self.u, self.x, self.d, outs), (desk(known).added_up(), self.work, known)
        _launch("directions", (*sides, *smalls), self.x, beta, self.grams.place)
        return outs, KnownThere(known)


def turned_on_gpu(
    before: Here, d: Tangent, metric: Metric, known: Known | KnownThere, t: float
) -> tuple[Here | None, Turn | None]:
    """Go to x + t d: what is there, and the turn; None where the host has to do it.

    That is where blocks are to be formed, and where a Gram may be too ill conditioned for what is done here.
    """
    data = metric.data
    if data is None or not on_gpu.holds(data.rows.inverse):
        return None, None
    there = known.smalls if isinstance(known, KnownThere) else on_gpu.brought(np.array(known), before.x[0])
    work = there.new_empty((len(kernels.gpu_turn.WORK), *there.shape[1:]))
    x = _advanced(before, d, data, there, work, t)
    here = before.problem.at(x)
    f, old = near(*here.partials), near(*before.partials)
    u = applied_there(
        work[kernels.gpu_turn.CHANGES.value], (data.rows.inverse, f[0]), (data.cols.inverse, f[1])
    )
    grams = _multiplied(*_beside(x, f, old, d, u, *zip(*metric.bases, strict=True)))
    norm, squared, length, overlap, along, condition, turned = _told(there, work, grams)
    after = metric.kept(before.problem, lambda: turned)
    if after is None or not (condition < _MOST and isfinite(squared) and isfinite(overlap)):
        return here, None
    here.told(max(norm, 0.0) ** 0.5)
    return here, Turn(
        here=here,
        t=t,
        report=StepReport(step=t * max(length, 0.0) ** 0.5),
        metric=after,
        squared=squared,
        overlap=overlap,
        along=along,
        directions=_Ahead(x, d, u, work, grams).direction,
    )


def _advanced(
    before: Here, d: Tangent, data: DataMetric, known: Tensor, work: Tensor, t: float
) -> FullRankFactors:
    """Return x + t d; what follows from what is known goes to `work`."""
    outs = _like(before.x)
    _launch("advance", (*_beside(before.x, d, outs), known, data.scales, work), outs, t)
    return outs


def _multiplied(*sides: Tensor) -> Coming:
    """Have the Grams of `gpu_turn.PAIRS` computed, of six arrays of the left side and six of the right."""
    first, half = sides[0], len(sides) // 2
    lines, rank = (first.shape[0], sides[half].shape[0]), first.shape[1]
    grid, chunk, layout = kernels.gpu_turn.multiplying(rank, first.element_size(), max(lines))
    sums, home = grid[0] * rank * rank, desk(first)
    parts = home.scratch(sums * grid[1])
    kernels.gpu_launch.launch(kernels.gpu_turn.multiply, grid, (*sides, parts), (*lines, chunk), layout)
    return home.summed(parts, sums, grid[1])


def _told(known: Tensor, work: Tensor, grams: Coming) -> list[float]:
    """Have `turn` look at the Grams, and wait for what it says."""
    rank, home = work.shape[-1], desk(work)
    sums, coming = home.added_up(), home.expected(kernels.gpu_turn.TOLD)
    tensors, places = (sums, known, work, home.home), (grams.place, coming.place)
    kernels.gpu_launch.launch(kernels.gpu_turn.turn, (1,), tensors, places, kernels.gpu_turn.layout(rank))
    told: list[float] = coming.numbers().tolist()
    return told


def _beside(*pairs: Any) -> list[Tensor]:
    """What pairs of arrays have on the left side, and then on the right."""
    return [pair[0] for pair in pairs] + [pair[1] for pair in pairs]


def _launch(name: str, tensors: tuple[Tensor, ...], x: FullRankFactors, number: float, *places: int) -> None:
    """Run a kernel over the rows of both sides; one program more has the small matrices."""
    rank = x.G.shape[1]
    lines, layout = (x.G.shape[0], x.H.shape[0]), kernels.gpu_turn.beside_rows(rank)
    grid = 1 - -max(lines) // layout["ROWS"], 2
    numbers = *places, *lines, *kernels.gpu_turn.halves(number)
    kernels.gpu_launch.launch(getattr(kernels.gpu_turn, name), grid, tensors, numbers, layout)


def _like(x: Any) -> FullRankFactors:
    return FullRankFactors(*map(on_gpu.empty_like, x))
