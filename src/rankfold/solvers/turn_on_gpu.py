"""A step of `turn_in_grams` whose small matrices stay on a GPU: the host sends t and β and reads six numbers.

With small matrices on the host, and few entries, an iteration takes as long as its Python does.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np

from rankfold import kernels
from rankfold.costs.data_metric import DataMetric, turned
from rankfold.entries.arrays import near
from rankfold.geometry.base import Tangent
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.linalg import largest_condition, on_gpu
from rankfold.linalg.exchange import Coming, desk
from rankfold.linalg.lines import applied_there
from rankfold.linalg.primitives import on_host
from rankfold.problem import Here
from rankfold.solvers.base import StepReport
from rankfold.solvers.known import Known, pairs
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
        sides = [tensor for side in zip(self.u, self.x, self.d, outs, strict=True) for tensor in side]
        smalls = desk(known).added_up(), self.work, known, self.grams.place
        _launch("directions", sides, smalls, self.x, beta)
        return outs, KnownThere(known)


def turned_on_gpu(
    before: Here, d: Tangent, metric: Metric, known: Known | KnownThere, t: float
) -> Turn | None:
    """Go to x + t d; None where the host has to look.

    That is where blocks are to be formed, and where a Gram may be too ill conditioned for what is done here.
    """
    data = metric.data
    if data is None or not on_gpu.holds(data.rows.inverse):
        return None
    after = metric.kept(before.problem.cost.quadratic, lambda: _turned_by(known, t))
    if after is None:
        return None
    there = known.smalls if isinstance(known, KnownThere) else on_gpu.brought(np.array(known), before.x[0])
    work = there.new_empty((len(kernels.gpu_turn.WORK), *there.shape[1:]))
    x = _advanced(before, d, data, there, work, t)
    here = before.problem.at(x)
    f, old = near(*here.partials), near(*before.partials)
    u = applied_there(
        work[kernels.gpu_turn.CHANGES.value], (data.rows.inverse, f[0]), (data.cols.inverse, f[1])
    )
    grams = on_gpu.grams([pairs(*side) for side in zip(x, f, old, d, u, metric.bases, strict=True)])
    norm, squared, length, overlap, along, condition = _told(there, work, grams)
    if not (condition < _MOST and isfinite(squared) and isfinite(overlap)):
        return None
    here.told(max(norm, 0.0) ** 0.5)
    return Turn(
        here=here,
        t=t,
        report=StepReport(step=t * max(length, 0.0) ** 0.5),
        metric=after,
        squared=squared,
        overlap=overlap,
        along=along,
        directions=_Ahead(x, d, u, work, grams).direction,
    )


def _turned_by(known: Known | KnownThere, t: float) -> float:
    """How far the factors of x + t d have turned from where the metric was formed."""
    at_home = known.fetched() if isinstance(known, KnownThere) else known
    seen = at_home.seen_at(t)
    return 1.0 if seen is None else turned(seen, at_home.squares_at(t))


def _advanced(
    before: Here, d: Tangent, data: DataMetric, known: Tensor, work: Tensor, t: float
) -> FullRankFactors:
    """Return x + t d; what follows from what is known goes to `work`."""
    outs = _like(before.x)
    sides = [tensor for side in zip(before.x, d, outs, strict=True) for tensor in side]
    _launch("advance", sides, (known, data.scales, work), outs, t)
    return outs


def _told(known: Tensor, work: Tensor, grams: Coming) -> list[float]:
    """Have `turn` look at the Grams, and wait for what it says."""
    rank, home = work.shape[-1], desk(work)
    sums, coming = home.added_up(), home.expected(kernels.gpu_turn.TOLD)
    arguments = sums, known, work, home.home, grams.place, coming.place
    kernels.gpu_launch.launch(kernels.gpu_turn.turn, (1,), arguments, kernels.gpu_turn.layout(rank))
    told: list[float] = coming.numbers().tolist()
    return told


def _launch(
    name: str, sides: list[Tensor], smalls: tuple[Any, ...], x: FullRankFactors, number: float
) -> None:
    """Run a kernel over the rows of both sides; one program more has the small matrices."""
    rank = x.G.shape[1]
    lines, layout = (x.G.shape[0], x.H.shape[0]), kernels.gpu_turn.beside_rows(rank)
    grid = 1 - -max(lines) // layout["ROWS"], 2
    arguments = *sides, *smalls, *lines, *kernels.gpu_turn.halves(number)
    kernels.gpu_launch.launch(getattr(kernels.gpu_turn, name), grid, arguments, layout)


def _like(x: Any) -> FullRankFactors:
    return FullRankFactors(*map(on_gpu.empty_like, x))
