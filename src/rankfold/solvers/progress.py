"""Whether a method still gets anywhere: what hands a run over to another method, or another metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

# Stagnation: over a window of iterations, neither did the value halve nor the gradient norm fall to a fifth.
# A run that converges, to zero or to noise, mostly does one or the other well within 20.
_VALUE, _GRADIENT = 0.5, 0.2


@dataclass(frozen=True)
class Progress:
    """The values and the gradient norms of the last iterations, a window of them and the one before."""

    window: int = 20
    values: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()

    def then(self, value: float, norm: float) -> Self:
        """Return the same after one more iteration."""
        values, norms = self.values[-self.window :], self.norms[-self.window :]
        return type(self)(self.window, (*values, float(value)), (*norms, float(norm)))

    @property
    def stagnates(self) -> bool:
        """Whether the last iterations brought next to nothing."""
        return self.slower(self.window, _VALUE)

    def slower(self, window: int, part: float) -> bool:
        """Whether so many iterations left more than this part of the value, and a fifth of the gradient."""
        before = -1 - window
        return len(self.values) > window and not (
            self.values[-1] < part * self.values[before] or self.norms[-1] < _GRADIENT * self.norms[before]
        )
