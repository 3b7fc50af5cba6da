"""The rank by held-out data, for models that are fitted anew at every rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankfold.run.display import progress

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[Any]
_PATIENCE = 2  # the path ends when so many ranks in a row were no better than the best


@dataclass(frozen=True)
class RankErrors:
    """Held-out error by rank, and the rank chosen from it.

    Attributes
    ----------
    ranks, errors, standard_errors
        The ranks tried, the mean loss of what was held out at each, and the standard error of that mean.
    chosen
        The least rank whose excess over the smallest error is within one standard error of that excess.
    """

    ranks: tuple[int, ...]
    errors: tuple[float, ...]
    standard_errors: tuple[float, ...]
    chosen: int

    def __str__(self) -> str:
        lines = ["rank  held-out error  standard error"]
        for rank, error, deviation in zip(self.ranks, self.errors, self.standard_errors, strict=True):
            lines.append(f"{rank:4d}  {error:14.6g}  {deviation:14.3g}{' <- chosen' * (rank == self.chosen)}")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors with their standard errors over the rank."""
        if ax is None:
            import matplotlib.pyplot as plt

            ax = plt.figure(layout="constrained").add_subplot()
        ax.errorbar(self.ranks, self.errors, self.standard_errors, fmt="o-", capsize=3)
        ax.axvline(self.chosen, color="gray", linewidth=0.8, label=f"chosen: {self.chosen}")
        ax.set(xlabel="rank", ylabel="held-out error")
        ax.legend()
        return ax


def choose_rank(largest: int, losses_at: Callable[[int], Floats], verbose: int) -> RankErrors:
    """Choose the rank by `losses_at(rank)`, the losses of what was held out, of ranks up to `largest`.

    The excess of each loss over that at the best rank tells ranks apart that the errors' own deviations do
    not.

    Examples
    --------
    >>> import numpy as np
    >>> choose_rank(40, lambda rank: np.array([3.0, 2.0, 2.5]) + abs(rank - 2), verbose=0).chosen
    2
    """
    tried: dict[int, Floats] = {}
    with progress(verbose, "choosing the rank") as tell:
        for rank in _candidates(largest):
            tried[rank] = losses_at(rank)
            tell(f"rank {rank}  held-out error {tried[rank].mean():.6g}")
            best = min(tried, key=lambda k: float(tried[k].mean()))
            if sum(k > best for k in tried) >= _PATIENCE:
                break
    excesses = {rank: losses - tried[best] for rank, losses in tried.items()}
    chosen = next(rank for rank, more in excesses.items() if more.mean() <= _standard_error(more))
    errors = tuple(float(losses.mean()) for losses in tried.values())
    return RankErrors(tuple(tried), errors, tuple(map(_standard_error, tried.values())), chosen)


def _standard_error(values: Floats) -> float:
    return float(values.std() / np.sqrt(values.size))


def _candidates(largest: int) -> list[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, ... and the largest."""
    doubling = {2**k for k in range(20)} | {3 * 2**k for k in range(20)}
    return sorted({k for k in doubling if k < largest} | {largest})
