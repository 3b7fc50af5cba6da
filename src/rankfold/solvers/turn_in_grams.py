"""A step of conjugate gradients and the `Turn` after it, in `FullRank`'s preconditioned metric.

Formulas ask for more Grams than an iteration needs, and where entries are few Python takes longer to ask the
geometry formula by formula than all else takes. So the formulas are written out here, in small matrices of
both sides at once, without what vanishes in them, and with traces where these are enough; and all Grams are
asked for together: arrays are read once for them, and a GPU is waited for twice an iteration, for the line
and for all the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from rankfold.costs.data_metric import turned
from rankfold.costs.factor_ridge import FactorRidge
from rankfold.entries.arrays import near
from rankfold.geometry.base import Tangent
from rankfold.geometry.full_rank import FullRank, FullRankFactors
from rankfold.linalg import inverse_gram, on_gpu, primitives, quick_inverse
from rankfold.linalg.rows import at_hand, is_spread
from rankfold.problem import Here
from rankfold.solvers.base import StepReport
from rankfold.solvers.known import Known, Smalls
from rankfold.solvers.line_search import change_along, minimiser, recalibrated
from rankfold.solvers.metric import Metric
from rankfold.solvers.turn import Turn
from rankfold.solvers.turn_on_gpu import KnownThere, turned_on_gpu

_TRACES = 0, 4  # of `_pairs`: those of which the traces are enough


class _Line(NamedTuple):
    """A point, a direction d, the metric of both, and what is known of them."""

    here: Here
    d: Tangent
    metric: Metric
    known: Known


class _Ahead(NamedTuple):
    """Directions −g + β d at x, with g = u · lead + x · vertical, and d carried there by x · carried.

    `with_u` are the products of u · lead, x, d and the bases, transposed, with u · lead, one after the other.
    """

    x: Tangent
    u: Any
    lead: Any
    vertical: Smalls
    d: Tangent
    carried: Smalls
    inverses: Smalls
    with_u: Any
    with_x: Any
    with_d: Any

    def direction(self, beta: float) -> tuple[FullRankFactors, Known]:
        """Return one of them, and what is known of it."""
        small = beta * self.carried - self.vertical
        products = self.with_x @ small - self.with_u + beta * self.with_d
        d_d = small.swapaxes(1, 2) @ products[1] - products[0] + beta * products[2]
        seen, ahead = (self.with_x[3], products[3]) if len(products) > 3 else (None, None)
        sides = [[(self.u[k], -self.lead[k]), (self.x[k], small[k])] for k in range(2)]
        if beta:
            for terms, v in zip(sides, self.d, strict=True):
                terms.append((v, beta))
        known = Known(self.with_x[1], self.inverses, products[1], d_d, seen, ahead)
        return FullRankFactors(*primitives.sums(*sides)), known


def fits(here: Here, direction: Tangent) -> bool:
    """Whether a step from here is for `turned_in_grams`."""
    geometry = here.problem.geometry
    preconditioned = type(geometry) is FullRank and geometry.metric == "preconditioned"
    cost = here.problem.cost
    of_factors = cost.factored is not False or isinstance(cost, FactorRidge)  # these have slopes along fibres
    if of_factors or not (preconditioned and cost.quadratic):
        return False
    arrays = [at_hand(A) for A in (*here.x, *direction)]
    if all(type(A) is np.ndarray for A in arrays):
        return all(A.dtype == np.float64 for A in arrays)
    return on_gpu.taken(arrays) and not is_spread(here.x[0])


def turned_in_grams(
    here: Here, direction: Tangent, metric: Metric, calibration: float, known: Known | KnownThere | None
) -> Turn | None:
    """Take the step that a sample of the data asks for, times `calibration`; or the exact one, if it lowers.

    None where rounding would hide how far that lowers the value.
    """
    sampled = here.sampled_polynomial(direction) if calibration else None
    coefficients = here.polynomial(direction) if sampled is None else sampled
    t = minimiser(coefficients)
    if sampled is None and not change_along(coefficients, t) < -here.noise:
        return None
    if sampled is None:
        calibration = recalibrated(here, direction, t)
    else:
        t *= calibration
    there, turn = turned_on_gpu(here, direction, metric, known, t) if known else (None, None)
    if turn is None:
        at_home = known.fetched() if isinstance(known, KnownThere) else known
        line = _Line(here, direction, metric, at_home or _known(here, direction, metric))
        turn = _turned(line, t, there or _moved(line, t))
    misled = sampled is not None and not turn.here.value < here.value
    if misled:
        return turned_in_grams(here, direction, metric, 0.0, known)
    return turn._replace(calibration=calibration)


def _moved(line: _Line, t: float) -> Here:
    """Go to x + t d."""
    terms = ([(x, 1.0), (v, t)] for x, v in zip(line.here.x, line.d, strict=True))
    return line.here.problem.at(FullRankFactors(*primitives.sums(*terms)))


def _turned(line: _Line, t: float, here: Here) -> Turn:
    """Ask for all that is wanted at x + t d before any of it has come."""
    before, d, known = line.here, line.d, line.known
    metric, seen, ahead = _metric_at(here, line, t)
    f, old = (_at_home(there.partials) for there in (here, before))
    u = metric.solved(seen, f)
    sides = zip(here.x, f, old, d, u, metric.bases, strict=True)
    coming = primitives.coming([_pairs(*side) for side in sides], _TRACES[: 1 if seen is None else 2])
    # Meanwhile, what follows from what is known of the point before.
    squares, x_d = known.squares_at(t), known.x_d + t * known.d_d
    inverses = _inverses(here, squares)
    across = inverses[::-1]  # each side is measured by the Gram of the other
    carried, measured = _vertical(x_d, inverses), known.inverses[::-1] @ squares[::-1]
    length = max(float(np.vdot(known.squares[::-1], known.d_d)), 0.0) ** 0.5
    found = coming()
    n = 4 if seen is None else 6
    (d_f, squares, f_f, o_u, *more), with_u = found[:n], found[n:]
    norm = float(np.vdot(f_f, across))
    here.told(max(norm, 0.0) ** 0.5)
    lead: Any = across  # the gradient is f times it, or what blocks make of f
    if seen is None:
        squared, vertical, overlaps = norm, 0.0 * squares, o_u @ across
        with_u = with_u @ across
        with_u[0] = across @ with_u[0]
    else:
        f_u, o_x = more
        vertical = _vertical(with_u[1], inverses)
        squared, lead, overlaps = _trace(f_u), (1.0, 1.0), o_u + o_x @ vertical
    u_x, d_x, u_d = (Z.swapaxes(1, 2) for Z in (with_u[1], x_d, with_u[2]))
    with_x = np.array([u_x, squares, d_x] + ([] if seen is None else [seen]))
    with_d = np.array([u_d, x_d, known.d_d] + ([] if ahead is None else [ahead]))
    return Turn(
        here=here,
        t=t,
        report=StepReport(step=t * length),
        metric=metric,
        squared=squared,
        overlap=float(np.vdot(measured, overlaps)),
        along=_trace(d_f),  # all that carries d elsewhere is vertical: there is no slope along that
        directions=_Ahead(here.x, u, lead, vertical, d, carried, inverses, with_u, with_x, with_d).direction,
    )


def _pairs(x: Any, f: Any, old: Any, d: Any, u: Any, bases: tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """What is multiplied with what on one side, for the gradient u that blocks make of f, or f itself."""
    found = [(d, f), (x, x), (f, f), (old, u)]
    if bases:
        found += (f, u), (old, x)
    return found + [(A, u) for A in (u, x, d, *bases)]


def _at_home(partials: tuple[Any, Any]) -> Sequence[Any]:
    """Partial derivatives in arrays like those of the point."""
    return partials if is_spread(partials[0]) else near(*partials)


def _metric_at(here: Here, line: _Line, t: float) -> tuple[Metric, Smalls | None, Smalls | None]:
    """Return the metric for the point x + t d, and what its bases see of that and of d."""
    known, seen = line.known, line.known.seen_at(t)
    after = line.metric.moved(here, None if seen is None else lambda: turned(seen, known.squares_at(t)))
    return after, *((seen, known.ahead) if after.formed is line.metric.formed else _seen(here, line.d, after))


def _known(here: Here, d: Tangent, metric: Metric) -> Known:
    """What an iteration learns from the one before, for the first one."""
    squares, x_d, d_d = primitives.coming(
        [[(x, x), (x, v), (v, v)] for x, v in zip(here.x, d, strict=True)]
    )()
    return Known(squares, _inverses(here, squares), x_d, d_d, *_seen(here, d, metric))


def _seen(here: Here, d: Tangent, metric: Metric) -> tuple[Smalls | None, Smalls | None]:
    """Return the products of a metric's bases with a point and a direction."""
    sides = [
        [(B, v) for B in bases for v in both] for *both, bases in zip(here.x, d, metric.bases, strict=True)
    ]
    if not sides[0]:
        return None, None
    seen, ahead = primitives.coming(sides)()
    return seen, ahead


def _inverses(here: Here, squares: Smalls) -> Smalls:
    found = quick_inverse(squares)
    return np.array([inverse_gram(Z) for Z in here.tall], np.float64) if found is None else found


def _vertical(x_v: Smalls, inverses: Smalls) -> Smalls:
    """(Λ, −Λᵀ), Λ = ½(v_HᵀH (HᵀH)⁻¹ − (GᵀG)⁻¹Gᵀv_G): x times it makes v horizontal."""
    Λ = (x_v[1].T.dot(inverses[1]) - inverses[0].dot(x_v[0])) / 2
    return np.array([Λ, -Λ.T])


def _trace(products: Smalls) -> float:
    return float(np.einsum("kii->", products))
