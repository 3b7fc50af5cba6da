"""Choosing the rank and the ridge of a regression by cross-validation or an information criterion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
CRITERIA = "cv", "aic", "bic", "gcv"


class SelectionPath(NamedTuple):
    """A criterion for every rank and ridge tried; the least value is the choice.

    Attributes
    ----------
    criterion
        "cv" (mean squared error of held-out responses), "aic", "bic" or "gcv".
    ranks, ridges
        What was tried.
    scores
        The criterion, a row per rank and a column per ridge.
    """

    criterion: str
    ranks: NDArray[np.int64]
    ridges: Floats
    scores: Floats

    @property
    def best(self) -> tuple[int, float]:
        """The rank and the ridge of the least score; of equal ones the least rank."""
        i, j = np.unravel_index(int(np.argmin(self.scores)), self.scores.shape)
        return int(self.ranks[i]), float(self.ridges[j])

    def __str__(self) -> str:
        rank, _ = self.best
        lines = [f"rank  {self.criterion:>12}         ridge"]
        for k, scores in zip(self.ranks, self.scores, strict=True):
            j = int(np.argmin(scores))
            mark = " <- chosen" if k == rank else ""
            lines.append(f"{k:4d}  {scores[j]:12.6g}  {self.ridges[j]:12.4g}{mark}")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the score of each rank with the best ridge for it."""
        from matplotlib.ticker import MaxNLocator

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(layout="constrained").add_subplot()
        rank, ridge = self.best
        ax.plot(self.ranks, self.scores.min(axis=1), "o-")
        ax.axvline(rank, color="gray", linewidth=0.8, label=f"chosen: rank {rank}, ridge {ridge:.3g}")
        ax.set_xlabel("rank")
        ax.set_ylabel(self.criterion)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.legend()
        return ax


def information(criterion: str, squares: float, size: int, freedom: float) -> float:
    """Return the criterion of a fit that leaves the sum of squares `squares` on `size` responses.

    It is infinite for a fit with nothing left over, about which such a criterion knows nothing.

    Examples
    --------
    >>> information("gcv", squares=2.0, size=10, freedom=5.0)
    0.8
    """
    if freedom >= size or squares <= 0:
        return np.inf
    if criterion == "gcv":
        return float(size * squares / (size - freedom) ** 2)
    price = 2.0 if criterion == "aic" else float(np.log(size))
    return float(size * np.log(squares / size) + price * freedom)


def degrees_of_freedom(singular_values: Any, ridge: float, targets: int, rank: int) -> float:
    """Return r (p + k - r) for k responses and p = Σ d² / (d² + ridge), the effective number of predictors.

    It is the dimension of the matrices of rank r between p predictors and k responses; a rank above p has no
    room to unfold.

    Examples
    --------
    >>> degrees_of_freedom([2.0, 1.0, 1.0], ridge=0.0, targets=4, rank=2)
    10.0
    """
    squares = np.asarray(singular_values, dtype=np.float64) ** 2
    squares = squares[squares > 0]
    p = float(np.sum(squares / (squares + ridge)))
    r = min(float(rank), p)
    return r * (p + targets - r)
