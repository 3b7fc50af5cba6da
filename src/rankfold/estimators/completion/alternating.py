"""The method that minimises by lines: alternating least squares, accelerated by conjugate gradients."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import nan
from typing import Any, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.lines import FactorPair
from rankfold.geometry.base import lincomb
from rankfold.geometry.full_rank import FullRank, FullRankFactors
from rankfold.geometry.spaces import EuclideanFullColumnRank, FactorSpace
from rankfold.problem import Problem
from rankfold.solvers.base import StepReport

# A fall of the value by less than so many rounding errors is none.
_ROUNDING = 4.0
_CANCELLED = 1e-8  # of a polynomial's value at 0
_LONGEST = 4.0  # sweeps in one step; with more, exact data are followed along valleys without a floor


@runtime_checkable
class CostByLines(Protocol):
    """A cost over (G, H) of which one factor is found, line by line, when the other is given: `Joint`."""

    quadratic: bool
    roots: tuple[Any, Any]  # what lines count in the inner product of steps

    def value(self, L: Any, R: Any) -> float:
        """Value at G and H."""

    def swept(self, G: Any, H: Any) -> FactorPair:
        """Return the best rows for the columns, then the best columns for these rows."""

    def centred(self, G: Any, H: Any) -> FactorPair:
        """Return a point like this one, of no other value, that the next sweep begins from."""


class Lines(FullRank):
    """The points (G, H) of such a cost: no rank is asked of them, for the objective is smooth where it falls.

    `factors` are L and R, the columns of G and H without those of the offsets.
    """

    def __init__(self, shape: tuple[int, int], columns: int, bias: bool) -> None:
        # Offsets alone have no factors: one of rank 1 stands for them.
        super().__init__(shape, max(columns - bias, 1), metric="euclidean")
        self.columns = columns

    def __repr__(self) -> str:
        return f"Lines({self.shape}, columns={self.columns}, rank={self.rank})"

    def factors(self, x: FullRankFactors) -> tuple[Any, Any]:
        """Return L and R."""
        return x.G[:, : self.rank], x.H[:, : self.rank]

    def spaces(self) -> tuple[FactorSpace, ...]:
        """Return spaces without a condition."""
        return _AllMatrices(), _AllMatrices()

    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple((d, self.columns) for d in self.shape)


class _AllMatrices(EuclideanFullColumnRank):
    """Matrices of any rank."""

    def flaw(self, Y: Any) -> str:
        """Return nothing: there is none."""
        return ""


class Found(NamedTuple):
    """A step: how far, in which direction, and the value it leads to."""

    step: float
    direction: FullRankFactors
    value: float


@dataclass(frozen=True, kw_only=True)
class AlternatingState:
    """The point, the last direction, and the last way from the point before to its sweep."""

    x: FullRankFactors
    value: float
    direction: FullRankFactors | None = None
    sweep: FullRankFactors | None = None
    report: StepReport = field(default_factory=StepReport)
    stalled: str = ""
    stationary: bool = False
    gradient_norm: float = nan
    gradient_free: ClassVar[bool] = True


@dataclass(frozen=True)
class Alternating:
    """Nonlinear conjugate gradients with a sweep of alternating least squares as the preconditioner.

    A sweep solves a small ridge problem for each row, then for each column, and so does not mind lines with
    few entries or a W of lower rank than its factors. The way from a point to its sweep takes the place of
    the gradient in the formula of Polak and Ribière (De Sterck and Winlaw 2015); steps are exact for the
    square loss. For other losses a step that does not gain more than the sweep alone is given up for it.
    """

    state_types: ClassVar[tuple[type, ...]] = (AlternatingState, FullRankFactors)

    def init(self, problem: Problem, x0: FullRankFactors) -> AlternatingState:
        """Start at x0."""
        return AlternatingState(x=x0, value=_by_lines(problem).value(*x0))

    def step(self, problem: Problem, state: AlternatingState) -> AlternatingState:
        """Sweep, and go on in a direction conjugate to the last one."""
        cost = cast(CostByLines, problem.cost)  # as `init` has seen: to look at all of a protocol takes long
        problem.counts.gradients += 1
        swept = FullRankFactors(*cost.swept(*state.x))
        sweep = lincomb(1.0, swept, -1.0, state.x)
        direction = _conjugate(cost, sweep, state)
        search = _exact if cost.quadratic else _whole
        found = search(problem, state, sweep, direction)
        if found is None:
            stuck = "a sweep does not lower the value: rounding is left"
            return replace(state, stalled=stuck, stationary=True, report=StepReport(step=0.0))
        step, direction, value = found
        x = FullRankFactors(*cost.centred(*lincomb(1.0, state.x, step, direction)))
        report = StepReport(step=step * float(np.sqrt(_inner(cost, direction, direction))))
        return AlternatingState(x=x, value=value, direction=direction, sweep=sweep, report=report)


def _by_lines(problem: Problem) -> CostByLines:
    if not isinstance(problem.cost, CostByLines):
        raise TypeError(
            f"Alternating minimises a cost by lines, such as Joint, not {type(problem.cost).__name__}"
        )
    return problem.cost


def _inner(cost: CostByLines, xi: FullRankFactors, eta: FullRankFactors) -> float:
    """Inner product in which lines count as in the penalty."""
    return sum(
        float(root @ np.einsum("ik,ik->i", u, v, dtype=np.float64))
        for root, u, v in zip(cost.roots, xi, eta, strict=True)
    )


def _conjugate(cost: CostByLines, sweep: FullRankFactors, state: AlternatingState) -> FullRankFactors:
    """The sweep plus β times the last direction, β after Polak and Ribière, and no less than 0."""
    if state.direction is None or state.sweep is None:
        return sweep
    before = _inner(cost, state.sweep, state.sweep)
    change = _inner(cost, sweep, sweep) - _inner(cost, sweep, state.sweep)
    beta = max(change / before, 0.0) if before > 0 else 0.0
    return FullRankFactors(*lincomb(1.0, sweep, beta, state.direction)) if beta else sweep


def _exact(
    problem: Problem, state: AlternatingState, sweep: FullRankFactors, direction: FullRankFactors
) -> Found | None:
    """The step along the direction that is best, from the polynomial; along the sweep, if there is none."""
    for along in (direction, sweep):
        problem.counts.polynomials += 1
        coefficients = problem.cost.polynomial(*zip(state.x, along, strict=True))
        found = _least(coefficients)
        if found is not None:
            step, value = found
            if value < _CANCELLED * coefficients[0]:  # what is left of such a sum is its rounding
                problem.counts.values += 1
                value = problem.cost.value(*lincomb(1.0, state.x, step, along))
            return Found(step, along, value)
        if along is sweep:
            break
    return None


def _least(coefficients: NDArray[np.float64]) -> tuple[float, float] | None:
    """The positive t at which a polynomial is least, and its value; None if it is no lower than at 0."""
    slopes = coefficients[1:] * np.arange(1, coefficients.size)
    roots = np.roots(slopes[::-1])
    steps = roots.real[(np.abs(roots.imag) <= 1e-6 * np.abs(roots)) & (roots.real > 0)]
    if not steps.size:
        return None
    values = np.polyval(coefficients[::-1], steps)
    step, value = float(steps[np.argmin(values)]), float(values.min())
    enough = coefficients[0] - _ROUNDING * float(np.finfo(np.float64).eps) * abs(coefficients[0])
    return (step, value) if value < enough else None


def _whole(
    problem: Problem, state: AlternatingState, sweep: FullRankFactors, direction: FullRankFactors
) -> Found | None:
    """The whole direction, or the sweep alone if that gains more; None if neither gains anything.

    What gains most is doubled for as long as that gains more: in a flat valley sweeps creep.
    """
    best = None
    least = state.value - _ROUNDING * float(np.finfo(np.float64).eps) * abs(state.value)

    def tried(step: float, along: FullRankFactors) -> None:
        nonlocal best, least
        problem.counts.values += 1
        with np.errstate(over="ignore", invalid="ignore"):
            value = problem.cost.value(*lincomb(1.0, state.x, step, along))
        if value < least:
            best, least = Found(step, along, value), value

    for along in (sweep,) if direction is sweep else (sweep, direction):
        tried(1.0, along)
    step = 1.0
    while best is not None and best.step == step < _LONGEST:
        step *= 2
        tried(step, best.direction)
    return best
