"""Which metric a solver measures gradients in: that of the geometry, or that of the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from rankfold.costs.data_metric import DataMetric
from rankfold.geometry.base import Tangent
from rankfold.linalg import Array
from rankfold.linalg.tall import reals
from rankfold.problem import Here, Problem

CHOICES = ("auto", "data", "geometry")
# The blocks are formed anew once the factors have turned so far (mean sin² of the angles): twice to four
# times in a run on P1, P3 and 4000², r = 10, ρ = 3, at most two iterations more than with 0.01.
_TURNED = 0.05
# That is a mean, in which a few lines are lost. But (a + b)² ≤ 2a² + 2b² for a = dL Rᵀ, b = L dRᵀ: near a
# solution no curvature is more than twice that of blocks that fit, so that no exact step is shorter than half
# a unit. Those of P1, P2, P3, P5 and 4000², r = 10, ρ = 3, are 0.57 and more, save for P3 with seed 3 (76
# iterations; 51 with blocks formed anew). At 833,333², r = 10, ρ = 6, blocks of three lines that are far off
# where they are formed are 7 to 13 times too small, and steps down to 0.07 units (57 iterations; 29).
_SHORTEST = 0.5
# Where ℓ″ is no constant, it moves with W itself: so many iterations, at most, with the same blocks.
_LIFETIME = 8
# From a start that is good already, the first steps turn the factors so far that blocks formed there would be
# formed anew: it is as good to wait for two steps in the geometry's metric. P1, P2, P5 and 300 × 200 (ρ = 6)
# take as many iterations with one forming as with two, and three more if that is after one step. Their starts
# leave 0.26 to 0.49 of the value at W = 0. Where those leave 0.56 (1000 × 10000, r = 5, ρ = 6), some runs
# take five to ten iterations more; where they leave 1.4 (r = 10, ρ = 3) or 43 (P3), twice as many, or never
# arrive. A point that leaves much less was fitted before: blocks formed there fit.
_WAIT, _FITTED, _GOOD = 2, 0.01, 0.5
# Forming takes n r² multiply-adds where an evaluation takes 4 n r: up to this rank the iterations that are
# saved pay for it (docs/how-to-choose.md).
_LARGEST_RANK = 20


def check_metric(choice: str) -> None:
    """Raise ValueError unless there is such a metric."""
    if choice not in CHOICES:
        raise ValueError(f"metric must be one of {', '.join(map(repr, CHOICES))}, not {choice!r}")


@dataclass(frozen=True)
class Metric:
    """The metric of the data as `formed` knows it, `age` iterations ago; that of the geometry without it.

    Where it has to `wait`, for so many iterations, it will be formed then; or formed anew.

    It acts as a preconditioner P on horizontal vectors: `Geometry.lowered` makes a derivative of the vector,
    the blocks make a change of the factors of that, and `Geometry.lift` a horizontal vector. As `lowered` is
    the adjoint of `lift`, P is symmetric and positive definite in the geometry's metric.
    """

    formed: Here | None = None
    age: int = 0
    wait: int = 0

    @classmethod
    def chosen(cls, choice: str, here: Here, patient: bool = False) -> Self:
        """Return the metric to start with at a point; one that is `patient` may be formed later."""
        problem = here.problem
        can = problem.cost.has_line_blocks and problem.geometry.has_lift
        if choice == "data" and not can:
            raise TypeError(
                f"{type(problem.cost).__name__} on {problem.geometry!r} has no metric of the data: "
                "choose metric='auto' or 'geometry'"
            )
        pays = choice == "data" or (choice == "auto" and problem.geometry.rank <= _LARGEST_RANK)
        if not (can and pays):
            return cls()
        patient = patient and choice == "auto" and problem.cost.quadratic
        zero = problem.cost.value_at_zero if patient else 0.0
        return cls(wait=_WAIT) if _FITTED * zero < here.value < _GOOD * zero else cls.of(here)

    @classmethod
    def of(cls, here: Here) -> Self:
        """Return the metric of the data with blocks formed here; without any curvature, the geometry's."""
        return cls(here if here.data_metric is not None else None)

    def moved(self, here: Here, turned: Callable[[], float] | None = None) -> Self:
        """Return the metric for the next point: with new blocks, if the old ones no longer fit.

        Who knows how far the factors have turned says so.
        """
        data = self.data
        own = turned or (lambda: data.turned(*here.lazy_factors) if data else 0.0)
        return self.kept(here.problem, own) or type(self).of(here)

    def kept(self, problem: Problem, turned: Callable[[], float]) -> Self | None:
        """Return the metric for the next point; None if its blocks are to be formed there."""
        if self.wait:
            return type(self)(wait=self.wait - 1) if self.wait > 1 else None
        if self.formed is None:
            return self
        age = self.age + 1
        if self.data is None or (not problem.cost.quadratic and age >= _LIFETIME):
            return None
        # It is the first steps that go far: to look at each would cost more Grams than it saves blocks.
        if age & (age - 1) == 0 and turned() > _TURNED:
            return None
        return type(self)(self.formed, age)

    def tried(self, here: Here, t: float) -> Self:
        """Return the same after an exact step t: to be formed anew where blocks that fit allow of no such."""
        data = self.data
        if data is None or not self.age or not here.problem.cost.quadratic or t >= _SHORTEST * data.unit:
            return self
        return type(self)(self.formed, self.age, wait=1)

    def gradient(self, here: Here) -> Tangent:
        """Return the gradient in this metric."""
        return here.gradient if self.data is None else here.made(self.lazy_gradient(here))

    def lazy_gradient(self, here: Here, before: Here | None = None) -> Tangent:
        """Return the gradient, lazy, whose products with that `before` will be asked for."""
        if self.data is None:
            return here.lazy_gradient
        change = self.data.solve(*here.lazy_factors, *here.partials)
        return here.lazily_lifted(*change, before)

    @property
    def bases(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """What the metric of the data compares the factors L and R with, if there is one."""
        if self.data is None:
            return (), ()
        return (self.data.cols.basis,), (self.data.rows.basis,)

    def solved(self, seen: NDArray[Any] | None, partials: Sequence[Array]) -> Sequence[Array]:
        """Return what the blocks make of partial derivatives where the factors were `seen`; else these."""
        return partials if self.data is None or seen is None else self.data.solved(seen, *partials)

    def pairs(self, here: Here, before: Here) -> list[tuple[Any, Any]]:
        """What will be multiplied with what for a gradient here, and for its product with that before."""
        other = (here.tall, self.data.bases) if self.data else (here.lazy_partials, before.lazy_partials)
        return [(here.tall, before.lazy_partials), other]

    @property
    def data(self) -> DataMetric | None:
        """The metric of the data, if it is that."""
        return None if self.formed is None else self.formed.data_metric

    def preconditioned(self, here: Here, xi: Tangent) -> Tangent:
        """Return P ξ."""
        if self.data is None:
            return xi
        lowered = reals(here.problem.geometry.lowered(here.tall, here.lazily(xi)))
        return here.lifted(*self.data.solve(*here.lazy_factors, *lowered))
