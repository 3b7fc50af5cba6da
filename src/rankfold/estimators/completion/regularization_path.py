"""What entries held out said of each weight of the penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankfold.selection.paths import axes_or_new, marked, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class RegularizationPath:
    """Held-out error by the weight of the penalty, and the weight chosen from it.

    Attributes
    ----------
    regularizations, errors
        The weights λ tried, from the largest on, and the mean loss of the held-out entries at each. The first
        is the least λ that leaves W = 0: offsets alone.
    chosen
        The λ with the smallest error.
    standard_errors
        The standard error of each mean; empty in models that earlier versions saved.

    Examples
    --------
    >>> print(RegularizationPath((2.0, 1.4), (0.5, 0.25), 1.4))
    regularization   held-out loss
                 2             0.5
               1.4            0.25 <- chosen
    """

    regularizations: tuple[float, ...]
    errors: tuple[float, ...]
    chosen: float
    standard_errors: tuple[float, ...] = ()

    def __str__(self) -> str:
        columns = self.regularizations, self.errors
        return table("regularization   held-out loss", "{:14.6g}  {:14.6g}", columns, self.chosen)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors with their standard errors over the weight, on a logarithmic axis."""
        ax = axes_or_new(ax)
        bars = self.standard_errors or None
        ax.errorbar(self.regularizations, self.errors, bars, fmt="o-", capsize=3, label="held out")
        marked(ax, self.chosen, f"{self.chosen:.4g}", xlabel="regularization", ylabel="mean loss")
        positive = [weight for weight in self.regularizations if weight > 0]
        if len(positive) == len(self.regularizations):
            ax.set_xscale("log")
        else:
            ax.set_xscale("symlog", linthresh=min(positive, default=1.0))
        return ax
