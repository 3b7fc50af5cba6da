"""What every method is: `init` and `step` over an immutable state. The driver is `rankfold.minimize`."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import Any, ClassVar, Protocol, TypeVar

from rankfold.geometry.base import Point
from rankfold.problem import Here, Problem


@dataclass(frozen=True)
class StepReport:
    """What one step did, for the trace; a field that does not apply keeps its default.

    `step` is the length of the step taken, 0 if none was (a rejected trial): stopping rules read it so.
    """

    step: float = nan
    backtracks: int = 0
    inner_iterations: int = 0
    radius: float = nan
    rho: float = nan
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Located:
    """The part of a state that every solver has: where it is, how it came there, and why it cannot go on."""

    here: Here
    report: StepReport = StepReport()
    stalled: str = ""
    stationary: bool = False

    @property
    def x(self) -> Point:
        """The point."""
        return self.here.x

    @property
    def value(self) -> float:
        """The cost at the point."""
        return self.here.value

    @property
    def gradient_norm(self) -> float:
        """The norm of the gradient there."""
        return self.here.gradient_norm


@dataclass(frozen=True, kw_only=True)
class Nested:
    """The part that states of methods share which let another one do the work: they are where that one is."""

    inner: Any
    report: StepReport = StepReport()

    @property
    def x(self) -> Point:
        """The point."""
        return self.inner.x

    @property
    def value(self) -> float:
        """The cost at the point."""
        return float(self.inner.value)

    @property
    def gradient_norm(self) -> float:
        """The norm of the gradient there, at the inner method's rank and of its cost."""
        return float(self.inner.gradient_norm)


class State(Protocol):
    """What the driver reads of a method's state; the rest of it is the method's own.

    A state is a frozen dataclass of floats, ints, strings, arrays, points, tangents, nested such
    dataclasses and `Here` objects (saved as their point, evaluated anew on loading), so that it can be
    written to a file and stepped on later. All these dataclasses are in the method's `state_types`.
    """

    @property
    def x(self) -> Point:
        """The point."""

    @property
    def value(self) -> float:
        """The cost at the point."""

    @property
    def gradient_norm(self) -> float:
        """The norm of the gradient there; NaN where a method has none, which is then `gradient_free`."""

    @property
    def report(self) -> StepReport:
        """What the last step did."""

    @property
    def stalled(self) -> str:
        """Why the method cannot go on from here (its noise floor, say); empty while it can."""

    # A state may also have `stationary: bool`: whether `stalled` means that only rounding stops the method,
    # so that the run has converged as far as the arithmetic can tell. Without it, a stalled run has not.
    # And it may have `gradient_free = True`: the method computes no gradient, and its norm is NaN. Without
    # it, a NaN there is an overflow, which ends the run.


S = TypeVar("S", bound=Any)


class Method(Protocol[S]):
    """A solver or a baseline.

    `state_types` lists the dataclasses and named tuples that its states are made of, the geometry's points
    and tangents and the states of methods among its options excepted. Checkpoints hold and read no others.
    """

    state_types: ClassVar[tuple[type, ...]]

    def init(self, problem: Problem, x0: Point) -> S:
        """Return the state before the first step."""

    def step(self, problem: Problem, state: S) -> S:
        """Return the state after one more step."""
