"""What a run has found: while it lasts (`Progress`), and at its end (`Result`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from rankfold.geometry.base import Geometry, Point
from rankfold.linalg import Array
from rankfold.run.stopping import Stop
from rankfold.run.trace import Trace


class Best(NamedTuple):
    """The point of the lowest value so far."""

    x: Point
    value: float
    gradient_norm: float


@dataclass(frozen=True)
class Progress:
    """Where a run stands: what callbacks see and checkpoints hold.

    `state` is the method's own; `trace` has one row per iteration, the last of which is that of `state`.
    """

    state: Any
    best: Best
    trace: Trace

    @property
    def x(self) -> Point:
        """The current point."""
        return self.state.x

    @property
    def iteration(self) -> int:
        """How many steps were taken."""
        return self.trace[-1].iteration

    @property
    def value(self) -> float:
        """The value at the current point."""
        return self.trace[-1].value

    @property
    def gradient_norm(self) -> float:
        """The gradient norm at the current point."""
        return self.trace[-1].gradient_norm

    @property
    def seconds(self) -> float:
        """The time spent, also before a resume."""
        return self.trace[-1].seconds


@dataclass(frozen=True)
class Result:
    """What `minimize` found.

    Attributes
    ----------
    x, value, gradient_norm
        The final point if the run converged, otherwise the point of the lowest value, with the cost there.
    geometry
        The problem's; of another rank where the method changed it, as a continuation that ended early does.
    stop
        How the run ended: `stop.reason` in words, `stop.kind` for programs.
    trace
        One row per iteration, see `rankfold.run.trace.Trace`.
    state
        The method's last state: `solver.step(problem, state)` goes on from there.
    error
        The exception that ended the run, if one did.
    """

    x: Point
    geometry: Geometry
    value: float
    gradient_norm: float
    stop: Stop
    trace: Trace
    state: Any
    error: Exception | None = None

    @property
    def factors(self) -> tuple[Array, Array]:
        """L and R of the matrix W = L Rᵀ that `x` stands for."""
        return self.geometry.factors(self.x)

    @property
    def converged(self) -> bool:
        """Whether what ended the run means convergence."""
        return self.stop.converged

    @property
    def stop_reason(self) -> str:
        """Why the run ended, with the numbers."""
        return self.stop.reason

    @property
    def iterations(self) -> int:
        """How many steps were taken."""
        return self.trace[-1].iteration

    @property
    def seconds(self) -> float:
        """The time the run took, that before a resume included."""
        return self.trace[-1].seconds

    def __repr__(self) -> str:
        verdict = "converged" if self.converged else "not converged"
        return (
            f"Result({verdict}: {self.stop_reason}; value={self.value:.6g}, "
            f"gradient_norm={self.gradient_norm:.6g}, "
            f"iterations={self.iterations}, seconds={self.seconds:.3g})"
        )
