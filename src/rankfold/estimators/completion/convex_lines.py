"""The factor of one side when that of the other is given, for any convex loss: Newton, line by line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.losses import Loss
from rankfold.entries.lines import solve_lines
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.remembered import remembered

Floats = NDArray[Any]
_BLOCK = 1 << 18  # entries looked at together
# A loss that is nearly straight, or bends the other way, is taken to curve by this part of the mean of its
# line: a Newton step could go anywhere. A line counts as curved by at least a part of the mean of all.
_LEAST_CURVATURE, _LEAST_LINE = 0.03, 1e-3
HALVINGS = 40  # where every loss of a line is straight, a step may be much too long
ROUNDS = 200
HIDDEN = 1e-14  # a change of a line's cost by this part of its terms' sizes is rounding


class _Part(NamedTuple):
    """A block of entries: which, of which lines, what is predicted for them, their values and weights."""

    where: slice
    lines: NDArray[Any]
    predicted: Floats
    values: Floats
    weights: Any


@dataclass(frozen=True, eq=False)
class ConvexLines:
    """Σ w ℓ(given + x_i·B_j, y) + ridges_i·x_i² − 2 pull_i·x_i over the entries of each line i.

    If B has a column more than `ridges`, the coefficient of that last one is 1 and not an unknown. `given` is
    what the entries have beside, one number for each.
    """

    side: SortedEntries
    loss: Loss
    B: Floats
    ridges: Floats
    pull: Floats | None = None
    given: Floats | None = None

    def minimised(self) -> Floats:
        """Return the best x_i, by Newton steps from 0 until they change a line's cost by rounding alone."""
        x = np.zeros(self.ridges.shape, self.side.data.dtype)
        for _ in range(ROUNDS):
            x, moved = self._stepped(x)
            if not moved.any():
                break
        return x

    def stepped(self, x: Floats) -> Floats:
        """Return lines on the way from x to the minimum of their quadratic models, none of them worse."""
        return self._stepped(x)[0]

    def model(self, x: Floats) -> SortedEntries:
        """Return entries (z, h) for which Σ h (x_i·B_j − z)² slopes and curves as the losses do at x."""
        return self._modelled(x)[0]

    def _stepped(self, x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """The lines after a step, halved until it is none for the worse; which of them gained anything.

        Far from its minimum a loss may be nothing like its second derivative, as exp(w) − yw for a large y.
        """
        model, before, sizes = self._modelled(x)
        way = solve_lines(model, self.B, self.ridges, self.pull) - x
        steps, hidden = np.ones((len(x), 1), x.dtype), HIDDEN * sizes
        for _ in range(HALVINGS):
            z = x + steps * way
            costs = self._costs(z)
            worse = ~(costs <= before + hidden)
            if not worse.any():
                return z, before - costs > hidden
            steps[worse] /= 2
        steps[worse] = 0
        return x + steps * way, (before - costs > hidden) & ~worse

    def _modelled(self, x: Floats) -> tuple[SortedEntries, Floats, Floats]:
        """The quadratic model, each line's cost at x, and the sizes of its terms, for rounding's sake."""
        data = np.empty((self.side.size, 2), self.side.data.dtype)
        slopes = np.empty(len(data))
        costs = self._penalties(x)
        sizes, weighted = np.abs(costs), self.side.data.shape[1] == 2
        for part in self._parts(x):
            values, first, second = self.loss(part.predicted, part.values)
            here = part.where
            data[here, 0], data[here, 1], slopes[here] = part.predicted, second / 2, first / 2
            costs += np.bincount(part.lines, part.weights * values, len(x))
            sizes += np.bincount(part.lines, part.weights * np.abs(values), len(x))
        data[:, 1] = np.maximum(data[:, 1], self._least(data[:, 1]))
        data[:, 0] -= slopes / data[:, 1]
        if self.given is not None:
            data[:, 0] -= self.given
        if weighted:
            data[:, 1] *= self.side.data[:, 1]
        return replace(self.side, data=data), costs, sizes

    @remembered
    def _keys(self) -> NDArray[np.int64]:
        """The line of each entry."""
        return self.side.keys.astype(np.int64)

    def _least(self, curvatures: Floats) -> Floats:
        """The least curvature that is believed of each entry."""
        curved, lines, count = np.maximum(curvatures, 0.0), self._keys, self.side.lines
        means = np.bincount(lines, curved, count) / np.maximum(np.bincount(lines, minlength=count), 1)
        overall = float(curved.mean()) if curved.size else 0.0
        least: Floats = least_curvature(means, overall, np)
        return np.where(least > 0, least, 1.0)[lines]

    def _costs(self, x: Floats) -> Floats:
        """What each line is to make small; infinite, or not a number, too far away."""
        total = self._penalties(x)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self._parts(x):
                values = self.loss(part.predicted, part.values)[0]
                total += np.bincount(part.lines, part.weights * values, len(x))
        return total

    def _penalties(self, x: Floats) -> Floats:
        total = np.einsum("ik,ik->i", self.ridges * x, x, dtype=np.float64)
        if self.pull is not None:
            total -= 2 * np.einsum("ik,ik->i", self.pull, x, dtype=np.float64)
        return np.asarray(total)

    def _parts(self, x: Floats) -> Iterator[_Part]:
        side, B, columns = self.side, self.B, self.side.indices
        A = np.hstack([x, np.ones((len(x), 1), x.dtype)]) if B.shape[1] > x.shape[1] else x
        for first in range(0, self._keys.size, _BLOCK):
            where = slice(first, first + _BLOCK)
            lines, data = self._keys[where], side.data[where].astype(np.float64, copy=False)
            predicted = np.einsum("pk,pk->p", A[lines], B[columns[where]], dtype=np.float64)
            if self.given is not None:
                predicted += self.given[where]
            yield _Part(where, lines, predicted, data[:, 0], data[:, 1] if data.shape[1] == 2 else 1.0)


def least_curvature(means: Any, overall: float, library: Any) -> Any:
    """Return the least curvature believed of a line's entries, given its mean and that of all."""
    return _LEAST_CURVATURE * library.clip(means, _LEAST_LINE * overall, None)
