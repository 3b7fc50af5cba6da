"""The rank by held-out data, for models that are fitted anew at every rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankfold.run.display import progress
from rankfold.selection.paths import axes_or_new, marked, table

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
        columns = self.ranks, self.errors, self.standard_errors
        header = "rank   held-out loss  standard error"
        return table(header, "{:4d}  {:14.6g}  {:14.3g}", columns, self.chosen)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors with their standard errors over the rank."""
        ax = axes_or_new(ax)
        ax.errorbar(self.ranks, self.errors, self.standard_errors, fmt="o-", capsize=3)
        return marked(ax, self.chosen, str(self.chosen), xlabel="rank", ylabel="mean loss")


def choose_rank(largest: int, losses_at: Callable[[int], Floats], verbose: int) -> RankErrors:
    """Choose the rank by `losses_at(rank)`, the losses of what was held out, of ranks up to `largest`.

    The excess of each loss over that at the best rank tells ranks apart that the errors themselves do not.
    """
    tried: dict[int, Floats] = {}
    with progress(verbose, "choosing the rank") as tell:
        for rank in _candidates(largest):
            tried[rank] = losses_at(rank)
            tell(f"rank {rank}  held-out loss {tried[rank].mean():.6g}")
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
