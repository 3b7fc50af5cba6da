"""What rank and regularisation of a regression are chosen by: criteria, and the path of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
CRITERIA = "cv", "aic", "bic", "gcv"


@dataclass(frozen=True, eq=False)
class SelectionPath:
    """A criterion for every rank and weight of the penalty tried; the least value is the choice.

    Attributes
    ----------
    criterion
        "cv" (mean squared error of held-out responses), "aic", "bic" or "gcv".
    ranks, regularizations
        What was tried.
    scores
        The criterion, a row per rank and a column per weight of the penalty.
    """

    criterion: str
    ranks: NDArray[np.int64]
    regularizations: Floats
    scores: Floats

    @property
    def best(self) -> tuple[int, float]:
        """The rank and the regularization of the least score; of equal ones the least rank."""
        i, j = np.unravel_index(int(np.argmin(self.scores)), self.scores.shape)
        return int(self.ranks[i]), float(self.regularizations[j])

    def __str__(self) -> str:
        rank, _ = self.best
        lines = [f"rank  {self.criterion:>12}  regularization"]
        for k, scores in zip(self.ranks, self.scores, strict=True):
            j = int(np.argmin(scores))
            mark = " <- chosen" if k == rank else ""
            lines.append(f"{k:4d}  {scores[j]:12.6g}  {self.regularizations[j]:14.4g}{mark}")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the score of each rank with the best regularization for it."""
        from matplotlib.ticker import MaxNLocator

        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(layout="constrained").add_subplot()
        rank, weight = self.best
        ax.plot(self.ranks, self.scores.min(axis=1), "o-")
        ax.axvline(
            rank, color="gray", linewidth=0.8, label=f"chosen: rank {rank}, regularization {weight:.3g}"
        )
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


def degrees_of_freedom(singular_values: Any, regularization: float, targets: int, rank: int) -> float:
    """Return r (p + k - r) for k responses and p = Σ d² / (d² + λ), the effective number of predictors.

    It is the dimension of the matrices of rank r between p predictors and k responses; a rank above p has no
    room to unfold.

    Examples
    --------
    >>> degrees_of_freedom([2.0, 1.0, 1.0], regularization=0.0, targets=4, rank=2)
    10.0
    """
    squares = np.asarray(singular_values, dtype=np.float64) ** 2
    squares = squares[squares > 0]
    p = float(np.sum(squares / (squares + regularization)))
    r = min(float(rank), p)
    return r * (p + targets - r)
