"""What a figure is made of: the methods it draws, their runs, and what these are asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.experiments.verdicts import Claim, Measured, Numbers
from rankfold.geometry import Geometry
from rankfold.run.trace import Trace

RANK, OVERSAMPLING, TARGET = 5, 8, 1e-20  # section 6.1
GD_LIMIT, TR_LIMIT = 200, 100
Floats = NDArray[np.float64]
LATE = 1e-5  # a mean square below which the fast phase of every method has begun


@dataclass(frozen=True)
class Scale:
    """Sizes of the two kinds of instance, how many are drawn, and how often each method runs on one."""

    name: str
    middle: int
    large: int
    instances: int
    repeats: int


SCALES = {"paper": Scale("paper", 4000, 32000, 5, 2), "small": Scale("small", 300, 600, 5, 3)}


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
    """One run: which method, on which instance, and its trace, with CPU seconds."""

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

    def backtracks(self) -> float:
        """The mean number of refused trials of an iteration."""
        return float(self.trace["backtracks"].sum()) / max(self.iterations(), 1)

    def first(self, column: str, level: float = TARGET) -> float:
        """Iteration, or seconds, at which the cost is first at most `level`; infinite if never."""
        reached = np.flatnonzero(self.values <= level)
        return float(self.trace[column][reached[0]]) if reached.size else inf

    def early(self, column: str) -> float:
        """Iterations, or seconds, to a thousandth of the first cost; infinite if never."""
        return self.first(column, 1e-3 * float(self.values[0]))

    def late(self, column: str) -> float:
        """Iterations, or seconds, from `LATE` to the target, the asymptotic phase; infinite if never."""
        end = self.first(column)
        return end - self.first(column, LATE) if end < inf else inf

    def early_products(self) -> float:
        """Hessian products to a thousandth of the first cost, for trust regions."""
        early = self.trace["iteration"] <= self.early("iteration")
        return float(self.trace["inner_iterations"][early].sum())

    def late_products(self) -> float:
        """Hessian products from `LATE` on, for trust regions."""
        late = self.trace["iteration"] > self.first("iteration", LATE)
        return float(self.trace["inner_iterations"][late].sum())


@dataclass(frozen=True)
class Curves:
    """The runs of a figure, by method."""

    runs: tuple[Run, ...]

    def of(self, method: Competitor) -> list[Run]:
        """Return the runs of one method, instance by instance."""
        return [run for run in self.runs if run.label == method.label]

    def by_instance(self, measure: Callable[..., float], *given: Any, **methods: Competitor) -> Numbers:
        """Return `measure(run, *given)` of several methods, an instance each, by the names given here."""
        return {name: [measure(run, *given) for run in self.of(method)] for name, method in methods.items()}

    def iterations(self, **methods: Competitor) -> Measured:
        """Iterations to the target."""
        return Measured("iterations to 1e-20", self.by_instance(Run.first, "iteration", **methods))

    def seconds(self, **methods: Competitor) -> Measured:
        """Seconds to the target."""
        return Measured("seconds to 1e-20", self.by_instance(Run.first, "seconds", **methods))

    def early_seconds(self, **methods: Competitor) -> Measured:
        """Seconds of the first phase."""
        return Measured(
            "seconds to 1e-3 of the first cost", self.by_instance(Run.early, "seconds", **methods)
        )

    def early_products(self, **methods: Competitor) -> Measured:
        """Hessian products of the first phase."""
        return Measured("Hessian products until then", self.by_instance(Run.early_products, **methods))

    def late_iterations(self, **methods: Competitor) -> Measured:
        """Iterations of the last phase."""
        return Measured("iterations from 1e-5 to 1e-20", self.by_instance(Run.late, "iteration", **methods))

    def late_seconds(self, **methods: Competitor) -> Measured:
        """Seconds of the last phase."""
        return Measured("seconds from 1e-5 to 1e-20", self.by_instance(Run.late, "seconds", **methods))

    def late_products(self, **methods: Competitor) -> Measured:
        """Hessian products of the last phase."""
        return Measured("Hessian products there", self.by_instance(Run.late_products, **methods))


@dataclass(frozen=True)
class Figure:
    """A figure of section 6: what is run, and what the paper says about it."""

    name: str
    title: str
    size: str  # "middle" or "large", of `Scale`
    competitors: tuple[Competitor, ...]
    claims: Callable[[Curves], list[Claim]]

    def side(self, scale: Scale) -> int:
        """Return the number of rows, and of columns, of its matrices."""
        return int(getattr(scale, self.size))
