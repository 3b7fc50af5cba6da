"""When to stop: rules over a run's trace, joined with `|` (any of them) and `&` (all of them).

A rule reads the trace and nothing else, so a run that was saved and resumed stops where the uninterrupted
one does. Each says why it stopped, in a sentence with the numbers, and whether that means convergence.

Examples
--------
>>> from rankfold import stopping
>>> from rankfold.run.trace import TraceRow, Trace
>>> rule = stopping.GradientNorm(relative=1e-6) | stopping.Seconds(60) & stopping.ValueBelow(1e-3)
>>> rule(Trace([TraceRow(0, 4.0, 2.0, 0.0), TraceRow(1, 0.5, 1e-7, 0.1)]))
Stop(reason='gradient norm 1e-07 <= 2e-06', kind=<StopKind.CONVERGED: 'converged'>)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from math import isinf
from typing import ClassVar

from rankfold.run.trace import Trace


class StopKind(Enum):
    """How a run ended."""

    CONVERGED = "converged"  # a rule found what it was after
    STATIONARY = "stationary"  # the method cannot go on, for rounding hides what is left: at a minimum
    STALLED = "stalled"  # the method cannot go on, for another reason
    LIMIT = "limit"  # iterations or time are used up
    CALLBACK = "callback"
    INTERRUPTED = "interrupted"  # by Ctrl-C
    FAILED = "failed"  # a step raised an exception, or led to where the cost is not finite


@dataclass(frozen=True)
class Stop:
    """The end of a run: why, in words and numbers, and of which kind."""

    reason: str
    kind: StopKind = StopKind.LIMIT

    @property
    def converged(self) -> bool:
        """Whether the run found what it was after."""
        return self.kind in (StopKind.CONVERGED, StopKind.STATIONARY)


class Rule(ABC):
    """A condition on a trace; `a | b` holds when either does, `a & b` when both do at once."""

    _bounds: ClassVar[tuple[str, ...]] = ()  # the fields that are finite numbers of at least 0

    def __post_init__(self) -> None:
        for name in self._bounds:
            number = getattr(self, name)
            if not number >= 0 or isinf(number):  # written so that a NaN fails too
                raise ValueError(f"{name} must be a finite number of at least 0, not {number!r}")

    @abstractmethod
    def __call__(self, trace: Trace) -> Stop | None:
        """Return why the run ends with the last row of `trace`, or None if it goes on."""

    def __or__(self, other: Rule) -> Rule:
        return AnyOf((self, other)) if isinstance(other, Rule) else NotImplemented

    def __and__(self, other: Rule) -> Rule:
        return AllOf((self, other)) if isinstance(other, Rule) else NotImplemented


@dataclass(frozen=True)
class AnyOf(Rule):
    """Stops when at least one of `rules` does; converged if one of those that stopped is."""

    rules: tuple[Rule, ...]

    def __call__(self, trace: Trace) -> Stop | None:
        """Join the reasons of the rules that stop."""
        stops = [stop for rule in self.rules if (stop := rule(trace))]
        if not stops:
            return None
        leading = next((stop for stop in stops if stop.converged), stops[0])
        return Stop(" and ".join(stop.reason for stop in stops), leading.kind)


@dataclass(frozen=True)
class AllOf(Rule):
    """Stops when all of `rules` do; converged if one of them is."""

    rules: tuple[Rule, ...]

    def __call__(self, trace: Trace) -> Stop | None:
        """Join the reasons, once there is one of every rule."""
        return AnyOf(self.rules)(trace) if all(rule(trace) for rule in self.rules) else None


@dataclass(frozen=True)
class ValueBelow(Rule):
    """Converged: the value is at most `threshold` times `scale`."""

    threshold: float
    scale: float = 1.0

    def __call__(self, trace: Trace) -> Stop | None:
        """Compare the last value."""
        value = trace[-1].value
        if not value <= self.threshold * self.scale:
            return None
        bound = f"{self.threshold:.6g}" + (f" × {self.scale:.6g}" if self.scale != 1.0 else "")
        return Stop(f"value {value:.6g} <= {bound}", StopKind.CONVERGED)


@dataclass(frozen=True)
class GradientNorm(Rule):
    """Converged: the gradient norm is at most `absolute`, or at most `relative` times that of the start."""

    _bounds = ("absolute", "relative")
    absolute: float = 0.0
    relative: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.absolute == self.relative == 0:
            raise ValueError("give absolute= or relative= (or both), above 0")

    def __call__(self, trace: Trace) -> Stop | None:
        """Compare the last gradient norm."""
        norm = trace[-1].gradient_norm
        bound = max(self.absolute, self.relative * trace[0].gradient_norm)
        return Stop(f"gradient norm {norm:.6g} <= {bound:.6g}", StopKind.CONVERGED) if norm <= bound else None


@dataclass(frozen=True)
class StepBelow(Rule):
    """Converged: the last step is no longer than `threshold`; an iteration that took none does not count."""

    _bounds = ("threshold",)
    threshold: float

    def __call__(self, trace: Trace) -> Stop | None:
        """Compare the last step."""
        step = trace[-1].step
        if 0 < step <= self.threshold:
            return Stop(f"step {step:.6g} <= {self.threshold:.6g}", StopKind.CONVERGED)
        return None


@dataclass(frozen=True)
class RelativeChange(Rule):
    """Converged: over the last `window` iterations the value changed by at most `threshold` of itself.

    An iteration that took no step (a trust region's rejected trial) does not stop the run.
    """

    _bounds = ("threshold",)
    threshold: float
    window: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window < 1:
            raise ValueError(f"window must be at least 1 iteration, not {self.window!r}")

    def __call__(self, trace: Trace) -> Stop | None:
        """Compare the last value with that of `window` iterations before."""
        if len(trace) <= self.window or trace[-1].step == 0:
            return None
        before, now = trace[-1 - self.window].value, trace[-1].value
        # The larger of the two, so that a value that falls to zero is a change of 1 and not of infinity.
        change, size = abs(before - now), max(abs(before), abs(now))
        if change > self.threshold * size:
            return None
        over = "one iteration" if self.window == 1 else f"{self.window} iterations"
        relative = change / size if size else 0.0
        reason = f"relative change {relative:.6g} <= {self.threshold:.6g} over {over}"
        return Stop(reason, StopKind.CONVERGED)


@dataclass(frozen=True)
class Iterations(Rule):
    """Not converged: `limit` iterations are done."""

    _bounds = ("limit",)
    limit: int

    def __call__(self, trace: Trace) -> Stop | None:
        """Compare the last iteration's number."""
        done = trace[-1].iteration
        return Stop(f"{done} iterations done, the limit is {self.limit}") if done >= self.limit else None


@dataclass(frozen=True)
class Seconds(Rule):
    """Not converged: the run has taken `limit` seconds, those before a resume included."""

    _bounds = ("limit",)
    limit: float

    def __call__(self, trace: Trace) -> Stop | None:
        """Compare the time of the last iteration."""
        spent = trace[-1].seconds
        return Stop(f"{spent:.3g} s spent, the limit is {self.limit:.3g} s") if spent >= self.limit else None
