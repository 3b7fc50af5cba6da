"""A run in several processes: all do the same steps, and agree after each whether there is another.

Clock, callback, Ctrl-C and exceptions are each process's own. Were one of them to end a loop that the others
go on with, these would wait for ever: so nothing ends it but what all have heard of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from rankfold.interrupts import interruptible
from rankfold.problem import Problem
from rankfold.run.result import Progress
from rankfold.run.trace import Trace


@dataclass(frozen=True)
class Team:
    """The processes of a run (`rankfold.distributed.Group`); None for one alone."""

    group: Any = None

    @classmethod
    def of(cls, problem: Problem) -> Team:
        """Return those over which the rows of a problem are spread."""
        places = getattr(problem.cost, "places", None)
        return cls(places[0].group if places and places[0].group.size > 1 else None)

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.group is not None

    def interruptible(self, call: Callable[..., Any], *args: Any) -> Any:
        """Return what `call` returns; alone, Ctrl-C may end it. Together it is heard of after the step."""
        return call(*args) if self.several else interruptible(call, *args)

    def failed(self, error: Exception) -> None:
        """Raise the error, unless there are no others or it is everybody's: then the run ends by it."""
        if self.several and not self.group.failed_alike(error):
            raise error

    def called(self, callback: Callable[[Progress], object], progress: Progress) -> object:
        """Return what a callback returns; where it raises, do not let the others wait."""
        try:
            return callback(progress)
        except Exception as error:
            self.group.failed_alike(error)
            raise

    def require_equal(self, text: str) -> None:
        """Raise an error, everywhere, unless all processes were given the same."""
        if self.several:
            self.group.require_equal("arguments", text)

    def agreed(self, progress: Progress, asked: bool, interrupted: bool) -> tuple[Progress, bool, bool]:
        """Return the progress by the first one's clock, and whether anybody is to stop, or interrupted."""
        row = progress.trace[-1]
        must_be_equal = f"iteration {row._replace(seconds=0.0)!r}, stalled: {progress.state.stalled}"
        seconds, asked, interrupted = self.group.agree(row.seconds, asked, interrupted, must_be_equal)
        rows = [*list(progress.trace)[:-1], row._replace(seconds=seconds)]
        return replace(progress, trace=Trace(rows)), asked, interrupted
