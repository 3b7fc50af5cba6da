"""What a figure is made of: the methods it draws, how one is run, and what its runs are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.costs import Completion
from rankfold.data import random_completion
from rankfold.geometry import Geometry
from rankfold.problem import Problem
from rankfold.run import stopping
from rankfold.run.driver import minimize
from rankfold.run.trace import Trace

RANK, OVERSAMPLING, TARGET = 5, 8, 1e-20  # section 6.1
GD_LIMIT, TR_LIMIT = 200, 100
Floats = NDArray[np.float64]
LATE = 1e-5  # a mean square below which the fast phase of every method has begun


@dataclass(frozen=True)
class Scale:
    """Sizes of the two kinds of instance, and how many are drawn."""

    name: str
    middle: int
    large: int
    instances: int


SCALES = {"paper": Scale("paper", 4000, 32000, 5), "small": Scale("small", 300, 600, 2)}


@dataclass(frozen=True)
class Competitor:
    """A method in a figure: where it searches, how it moves, and how its curve looks.

    `imbalance` multiplies ‖R₀‖/‖L₀‖ of a full-rank start, W₀ unchanged.
    """

    label: str
    geometry: Callable[[tuple[int, int], int], Geometry]
    solver: Any
    color: str
    line: str = "-"
    limit: int = GD_LIMIT
    imbalance: float = 1.0


@dataclass(frozen=True)
class Run:
    """One run: which method, on which instance, and its trace."""

    label: str
    instance: int
    trace: Trace

    @property
    def values(self) -> Floats:
        """The cost after each iteration, the start first."""
        return self.trace["value"]

    def iterations(self) -> int:
        """How many iterations it took, or was allowed."""
        return self.trace[-1].iteration

    def per_iteration(self) -> float:
        """Seconds of an iteration."""
        return self.trace[-1].seconds / max(self.iterations(), 1)

    def final(self) -> float:
        """The last cost."""
        return float(self.values[-1])

    def first(self, column: str, level: float = TARGET) -> float:
        """Iteration, or seconds, at which the cost is first at most `level`; infinite if never."""
        reached = np.flatnonzero(self.values <= level)
        return float(self.trace[column][reached[0]]) if reached.size else inf

    def late(self, column: str) -> float:
        """Iterations, or seconds, from `LATE` to the target, the asymptotic phase; infinite if never."""
        end = self.first(column)
        return end - self.first(column, LATE) if end < inf else inf

    def late_products(self) -> float:
        """Hessian products from `LATE` on, for trust regions."""
        late = self.trace["iteration"] > self.first("iteration", LATE)
        return float(self.trace["inner_iterations"][late].sum())


@dataclass(frozen=True)
class Curves:
    """The runs of a figure, by method."""

    runs: tuple[Run, ...]

    @property
    def early(self) -> float:
        """A thousandth of the first method's cost at the start."""
        return 1e-3 * float(self.runs[0].values[0])

    def of(self, method: Competitor) -> list[Run]:
        """Return the runs of one method, instance by instance."""
        return [run for run in self.runs if run.label == method.label]

    def median(self, method: Competitor, measure: Callable[..., float], *given: Any) -> float:
        """Return the median of `measure(run, *given)` over the instances."""
        return float(median(measure(run, *given) for run in self.of(method)))

    def medians(self, measure: Callable[..., float], *given: Any, **methods: Competitor) -> dict[str, float]:
        """Return the medians of several methods, by the names that they have here."""
        return {name: self.median(method, measure, *given) for name, method in methods.items()}


def count(iterations: float) -> str:
    """Return a median count in words: infinite ones are those that most runs do not reach.

    Examples
    --------
    >>> count(88.0), count(float("inf"))
    ('88', 'not reached')
    """
    return f"{iterations:g}" if iterations < inf else "not reached"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper, what was measured, and whether it holds; None where the paper says nothing."""

    says: str
    measured: str
    holds: bool | None
    why: str = ""


Known = dict[tuple[int, int, str], Trace]  # by side, seed of the instance, and label


@dataclass(frozen=True)
class Figure:
    """A figure of section 6: what is run, and what the paper says about it."""

    name: str
    title: str
    size: str  # "middle" or "large", of `Scale`
    competitors: tuple[Competitor, ...]
    claims: Callable[[Curves], list[Claim]]

    def run(self, scale: Scale, seed: int, known: Known, show: Callable[[str], None]) -> Curves:
        """Run every competitor on every instance, all from one start per instance.

        `known` holds the runs of other figures: a competitor runs once per instance, however many figures
        it is in. What is run here is added.
        """
        side = getattr(scale, self.size)
        cost, start = _instance(120, 0)
        for competitor in self.competitors:  # compile, or load, every kernel before the clock runs
            _trace(replace(competitor, limit=3), cost, start)
        runs: list[Run] = []
        for instance in range(scale.instances):
            cost, start = _instance(side, seed + instance)
            for competitor in self.competitors:
                key = side, seed + instance, competitor.label
                if key not in known:
                    known[key] = _trace(competitor, cost, start)
                    last = known[key][-1]
                    show(
                        f"{self.name}  instance {instance}  {competitor.label:<28} "
                        f"{last.iteration:4d} iterations  f = {last.value:.1e}  {last.seconds:.1f} s"
                    )
                runs.append(Run(competitor.label, instance, known[key]))
        return Curves(tuple(runs))


def _instance(side: int, seed: int) -> tuple[Completion, Any]:
    cost = Completion.from_triples(random_completion((side, side), RANK, OVERSAMPLING, seed))
    return cost, cost.start(RANK)


def _trace(competitor: Competitor, cost: Completion, start: Any) -> Trace:
    geometry = competitor.geometry(cost.shape, RANK)
    x0 = geometry.from_svd(*start)
    if competitor.imbalance != 1:
        root = competitor.imbalance**0.5
        x0 = type(x0)(x0[0] / root, x0[1] * root)
    result = minimize(
        Problem(cost, geometry),
        competitor.solver,
        x0=x0,
        max_iterations=competitor.limit,
        tolerance=0,
        stop=stopping.ValueBelow(TARGET),
    )
    if result.error is not None:
        raise result.error
    if result.stop.kind is stopping.StopKind.INTERRUPTED:
        raise KeyboardInterrupt  # a curve that ends early claims what it did not measure
    return result.trace
