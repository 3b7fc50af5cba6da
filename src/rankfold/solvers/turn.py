"""What conjugate gradients ask of the point that a step led to, on any geometry."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

from rankfold.geometry.base import Tangent, lincomb, scale
from rankfold.geometry.lazily import introduce
from rankfold.problem import Here
from rankfold.solvers.base import StepReport
from rankfold.solvers.line_search import Step
from rankfold.solvers.metric import Metric


class Turn(NamedTuple):
    """Where a step led, and which directions there are from there.

    With the gradient g in the metric of directions, and the last direction d carried there, `directions(β)`
    is −g + β d, and what `turn_in_grams` knows of that. Products with the geometry's gradient are `squared`,
    of g, and `along`, of d; `overlap` is that of g with the geometry's gradient before. `calibration` is that
    of the step.
    """

    here: Here
    t: float
    report: StepReport
    metric: Metric
    squared: float
    overlap: float
    along: float
    directions: Callable[[float], tuple[Tangent, Any]]
    calibration: float = 0.0


def turned(before: Here, direction: Tangent, metric: Metric, taken: Step) -> Turn:
    """Return what the geometry says after a step."""
    geometry, here, xi = before.problem.geometry, taken.here, before.lazily(direction)
    together = combinations_with_replacement((here.tall, here.lazy_partials, xi), 2)
    introduce(*together, *metric.pairs(here, before))
    report = StepReport(step=taken.t * before.length(xi), backtracks=taken.backtracks)
    after = metric.moved(here)
    uphill = after.lazy_gradient(here, before)
    carried = geometry.transport(before.tall, xi, here.tall)
    overlap = geometry.transported_inner(before.tall, before.lazy_gradient, here.tall, uphill)

    def directions(beta: float) -> tuple[Tangent, None]:
        return here.made(lincomb(-1.0, uphill, beta, carried) if beta else scale(-1.0, uphill)), None

    squared, along = here.slope(uphill), here.slope(carried)
    return Turn(here, taken.t, report, after, squared, overlap, along, directions, taken.calibration)
