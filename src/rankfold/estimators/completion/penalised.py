"""The last fit: `Joint` minimised by sweeps, or as a function of W on a geometry that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from rankfold.costs.base import Cost
from rankfold.costs.completion import Completion
from rankfold.costs.offsets import GivenOffsets, Offsets, WithOffsets
from rankfold.costs.regularisers import Nuclear
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.alternating import Alternating, Lines
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.shrinkage import LEAST
from rankfold.estimators.completion.trials import minimised
from rankfold.estimators.fitting import Geometries, fit_problem, problem_of, warn_unless_converged
from rankfold.estimators.inputs import is_auto
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.linalg.primitives import on_host
from rankfold.problem import Problem
from rankfold.run.stopping import RelativeChange, Stop, StopKind
from rankfold.run.trace import Trace, TraceRow
from rankfold.solvers import ConjugateGradient, Method

# Regularised fits slow down once and for all; without a regulariser a plateau may come before the end, and
# the default solver has to see 20 slow iterations before it tries something else.
WINDOW, PLAIN_WINDOW = 3, 25
# The minimum at a λ that was given is wanted. A λ that was chosen was the best of fits about as loose: on
# ratings, errors on new entries differ by about 0.03% at most from 1e-6, in a fifth to half the sweeps.
_TOL, _LOOSE_TOL = 1e-6, 1e-4
_EXACT = 1e-20  # of the value at W = 0: data that a matrix of this rank fits exactly


class Fitted(NamedTuple):
    """Factors and offsets, and how they were found; what the traits of lines are multiplied by."""

    factors: FactorPair
    offsets: Offsets
    trace: Trace
    stop: Stop
    coefficients: tuple[Any, Any] = (None, None)


def tolerance(tol: float | Literal["auto"], chosen: bool, weight: float) -> float:
    """Return the tolerance of the last fit; `chosen` says that λ was chosen by entries held out."""
    if is_auto(tol):
        return _LOOSE_TOL if chosen and weight > 0 else _TOL
    return float(tol)


def by_sweeps(joint: Joint, start: FactorPair, tol: float, run: dict[str, Any]) -> Fitted:
    """Minimise over factors and offsets together."""
    if joint.shrinkage and not joint.weight and max(joint.shrinkage) < 2 * LEAST:
        # Data that are fitted exactly: next to no charge would be all that is left, and slow to settle.
        joint = joint.at(0.0, Shrinkage(0.0, 0.0))
    problem = Problem(joint, Lines(joint.shape, start[0].shape[1], joint.bias))
    window = WINDOW if joint.weight else PLAIN_WINDOW
    stop = RelativeChange(tol, window)
    x0 = FullRankFactors(*start) if run["resume"] is None else None  # a checkpoint has a point of its own
    result = fit_problem(problem, solver=Alternating(), x0=x0, tolerance=_EXACT, stop=stop, **run)
    (L, R), offsets = joint.split(*result.x)
    factors = joint.balanced(L, R) if L.shape[1] else (L, R)
    return Fitted(factors, offsets, result.trace, result.stop)


def on_geometry(
    joint: Joint, start: FactorPair | None, rank: int, geometry: str | Geometries,
    solver: str | Method[Any], tol: float, run: dict[str, Any], device: str = "cpu",
) -> Fitted:  # fmt: skip
    """Minimise over W, with the penalty as a function of W and the best offsets for it, on a device.

    For losses other than the square no formula gives those offsets: they are the ones of the minimum over
    factors and offsets, which sweeps find first.
    """
    if joint.bias and not joint.quadratic and start is not None:
        start = minimised(joint, start, tol)
    completion = joint.completion.on(device)
    cost, offsets_at = _of_W(joint, completion, start)
    problem = problem_of(cost, rank, geometry)
    # Where W loses rank the penalty has a kink, and at its bottom there is no way down.
    accepted = (StopKind.STALLED,) if joint.weight else ()
    x0 = None
    if start is not None and run["resume"] is None:
        (L, R), _ = joint.split(*joint.lifted(*start))
        x0 = problem.geometry.from_factors(*map(completion.store.asarray, (L, R)))
    result = fit_problem(
        problem, accepted, x0=x0, tolerance=_EXACT,
        solver=ConjugateGradient() if is_auto(solver) and joint.weight else solver,
        stop=RelativeChange(tol, WINDOW if joint.weight else PLAIN_WINDOW), **run,
    )  # fmt: skip
    stop = Stop(result.stop_reason, StopKind.CONVERGED) if result.stop.kind in accepted else result.stop
    L, R = map(on_host, result.factors)
    return Fitted(joint.balanced(L, R), offsets_at(*result.factors), result.trace, stop)


def as_it_is(joint: Joint, x: FactorPair, rank: int, stop: Stop) -> Fitted:
    """Take a point for the model, with W = 0 if it has no factors."""
    (L, R), offsets = joint.split(*x)
    value = joint.value(*x) if x[0].shape[1] else joint.value_at_zero
    trace = Trace([TraceRow(0, value, 0.0, 0.0)])
    warn_unless_converged(trace, stop)
    if L.shape[1]:
        return Fitted(joint.balanced(L, R), offsets, trace, stop)
    L, R = (np.zeros((d, rank), X.dtype) for d, X in zip(joint.shape, x, strict=True))
    return Fitted((L, R), offsets, trace, stop)


def _of_W(
    joint: Joint, completion: Completion, start: FactorPair | None
) -> tuple[Cost, Callable[[Any, Any], Offsets]]:
    """The cost as a function of W, over these entries, and the offsets that go with a W."""
    fit: Cost = completion
    none = joint.at(joint.weight, None).split(*joint.at(0.0, None).constant())[1]
    offsets_at: Callable[[Any, Any], Offsets] = lambda _L, _R: none  # noqa: E731
    if joint.shrinkage is not None and joint.quadratic:
        fit = with_offsets = WithOffsets(completion, 0.0, *joint.shrinkage)
        offsets_at = with_offsets.offsets
    elif joint.bias and start is not None:
        given = joint.split(*start)[1]
        fit, offsets_at = (
            GivenOffsets(completion, given.mean + given.rows, given.cols),
            lambda _L, _R: given,
        )
    if joint.weight:
        fit = fit + Nuclear(2 * joint.weight / completion.store.size, *joint.roots)
    return fit, offsets_at
