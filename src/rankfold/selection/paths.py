"""What the paths that a choice was made from have in common: a table, and a plot with the choice marked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rankfold.run.trace import pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def table(header: str, row: str, columns: Iterable[Iterable[Any]], chosen: Any) -> str:
    """Return a line per candidate in the format `row`; the first column holds what is chosen among."""
    lines = [
        row.format(*cells) + (" <- chosen" if cells[0] == chosen else "")
        for cells in zip(*columns, strict=True)
    ]
    return "\n".join([header, *lines])


def axes_or_new(ax: Axes | None) -> Axes:
    """Return the axes given, or those of a new figure."""
    if ax is not None:
        return ax
    new: Axes = pyplot().figure(layout="constrained").add_subplot()
    return new


def marked(ax: Axes, chosen: float, label: str, **settings: Any) -> Axes:
    """Mark the choice in a plot, set what its axes are to be, and put whole numbers under ranks."""
    from matplotlib.ticker import MaxNLocator

    ax.axvline(chosen, color="gray", linewidth=0.8, label=f"chosen: {label}")
    ax.set(**settings)
    if isinstance(chosen, int):
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend()
    return ax
