"""A step of conjugate gradients and the `Turn` after it, in `FullRank`'s preconditioned metric.

Formulas ask for more Grams than an iteration needs, and Python takes as long to ask the geometry formula by
formula as a GPU, or few entries, take for all the rest. So the formulas are written out here, in small
matrices of both sides at once, without what vanishes in them, and with traces where these will do; and all
Grams are asked for together, so that a GPU is waited for twice an iteration: for the line and for the rest.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.data_metric import turned
from rankfold.entries.arrays import near
from rankfold.geometry.base import Tangent
from rankfold.geometry.full_rank import FullRank, FullRankFactors
from rankfold.linalg import gram, inverse_gram, on_gpu, primitives, quick_inverse
from rankfold.problem import Here
from rankfold.solvers.base import StepReport
from rankfold.solvers.line_search import change_along, minimiser
from rankfold.solvers.metric import Metric
from rankfold.solvers.turn import Turn

Smalls = NDArray[Any]  # two r×r matrices, of the left side and of the right
_TRACES = 2, 4  # of `_pairs`: those of which the trace is all that is asked for


class Known(NamedTuple):
    """Small matrices of a point x: its Grams, their inverses, and the products of a metric's bases with x."""

    squares: Smalls
    inverses: Smalls
    seen: Smalls | None


class _Line(NamedTuple):
    """A point, what is known of it, a direction d, and the Grams xᵀd, dᵀd and those of the bases with d."""

    here: Here
    known: Known
    metric: Metric
    d: Tangent
    x_d: Smalls
    d_d: Smalls
    seen: Smalls | None = None


def fits(here: Here, direction: Tangent) -> bool:
    """Whether a step from here is for `turned_in_grams`."""
    geometry = here.problem.geometry
    if (
        type(geometry) is not FullRank
        or geometry.metric != "preconditioned"
        or not here.problem.cost.quadratic
    ):
        return False
    arrays = *here.x, *direction
    if all(type(A) is np.ndarray for A in arrays):
        return all(A.dtype == np.float64 for A in arrays)
    return on_gpu.taken(arrays)


def turned_in_grams(
    here: Here, direction: Tangent, metric: Metric, calibration: float, known: Known | None
) -> Turn | None:
    """Take the step that a sample of the data asks for, times `calibration`; or the exact one, if it lowers.

    None where rounding would hide how far that lowers the value.
    """
    known = known or _known(here, metric)
    sides = zip(here.x, direction, metric.bases, strict=True)
    coming = primitives.coming([[(x, d), (d, d), *((B, d) for B in bases)] for x, d, bases in sides])
    sampled = here.sampled_polynomial(direction) if calibration else None
    coefficients = here.polynomial(direction) if sampled is None else sampled
    line = _Line(here, known, metric, direction, *coming())
    t = minimiser(coefficients)
    if sampled is None:
        return _turned(line, t) if change_along(coefficients, t) < -here.noise else None
    turn = _turned(line, calibration * t)
    return turn if turn.here.value < here.value else turned_in_grams(here, direction, metric, 0.0, known)


def _turned(line: _Line, t: float) -> Turn:
    """Go to x + t d, and ask for all that is wanted there before any of it has come."""
    before, d = line.here, line.d
    terms = [[(x, 1.0), (v, t)] for x, v in zip(before.x, d, strict=True)]
    here = before.problem.at(FullRankFactors(*primitives.sums(*terms)))
    metric, seen = _metric_at(here, line, t)
    f, old = (near(*there.partials) for there in (here, before))
    u = metric.solved(seen, f)
    sides = zip(here.x, f, old, d, u, strict=True)
    coming = primitives.coming([_pairs(*side) for side in sides], _TRACES)
    squares, f_f, d_f, o_u, *more = coming()
    inverses = _inverses(here, squares)
    across = inverses[::-1]  # each side is measured by the Gram of the other
    norm = float(np.vdot(f_f, across))
    here.told(max(norm, 0.0) ** 0.5)
    lead: Any = across  # the gradient is f times it, or what blocks make of f
    if seen is None:
        squared, vertical, overlaps = norm, 0.0 * squares, o_u @ across
    else:
        f_u, o_x, x_u = more
        vertical = _vertical(x_u, inverses)
        squared, lead, overlaps = _trace(f_u), (1.0, 1.0), o_u + o_x @ vertical
    measured = line.known.inverses[::-1] @ squares[::-1]
    length = max(float(np.vdot(line.known.squares[::-1], line.d_d)), 0.0) ** 0.5
    carried = _vertical(line.x_d + t * line.d_d, inverses)
    return Turn(
        here=here,
        t=t,
        report=StepReport(step=t * length),
        metric=metric,
        squared=squared,
        overlap=float(np.vdot(measured, overlaps)),
        along=_trace(d_f),  # all that carries d elsewhere is vertical: there is no slope along that
        directions=partial(_direction, here.x, u, lead, vertical, d, carried),
        known=Known(squares, inverses, seen),
    )


def _pairs(x: Any, f: Any, old: Any, d: Any, u: Any) -> list[tuple[Any, Any]]:
    """What is multiplied with what on one side, for the gradient u that blocks make of f, or f itself."""
    pairs = [(x, x), (f, f), (d, f), (old, u)]
    return pairs if u is f else [*pairs, (f, u), (old, x), (x, u)]


def _direction(
    x: Tangent, u: Any, lead: Any, vertical: Smalls, d: Tangent, carried: Smalls, beta: float
) -> FullRankFactors:
    """−g + β d at x, with g = u · lead + x · vertical and d carried there by x · carried."""
    small = beta * carried - vertical
    sides = [[(u[k], -lead[k]), (x[k], small[k])] for k in range(2)]
    if beta:
        for terms, v in zip(sides, d, strict=True):
            terms.append((v, beta))
    return FullRankFactors(*primitives.sums(*sides))


def _metric_at(here: Here, line: _Line, t: float) -> tuple[Metric, Smalls | None]:
    """Return the metric for the point x + t d, and what its bases see there."""
    known = line.known
    if known.seen is None or line.seen is None:
        seen, after = None, line.metric.moved(here)
    else:
        seen = sees = known.seen + t * line.seen
        after = line.metric.moved(here, lambda: turned(sees, _squares(line, t)))
    return after, seen if after.formed is line.metric.formed else after.seen(here)


def _squares(line: _Line, t: float) -> Smalls:
    """The Grams of x + t d."""
    return line.known.squares + t * (line.x_d + line.x_d.swapaxes(1, 2) + t * line.d_d)


def _known(here: Here, metric: Metric) -> Known:
    """What a run learns from iteration to iteration, for its first one."""
    squares = np.array([gram(Z, Z) for Z in here.tall], np.float64)
    return Known(squares, _inverses(here, squares), metric.seen(here))


def _inverses(here: Here, squares: Smalls) -> Smalls:
    found = quick_inverse(squares)
    return np.array([inverse_gram(Z) for Z in here.tall], np.float64) if found is None else found


def _vertical(x_v: Smalls, inverses: Smalls) -> Smalls:
    """(Λ, −Λᵀ), Λ = ½(v_HᵀH (HᵀH)⁻¹ − (GᵀG)⁻¹Gᵀv_G): x times it makes v horizontal."""
    Λ = (x_v[1].T.dot(inverses[1]) - inverses[0].dot(x_v[0])) / 2
    return np.array([Λ, -Λ.T])


def _trace(products: Smalls) -> float:
    return float(np.einsum("kii->", products))
