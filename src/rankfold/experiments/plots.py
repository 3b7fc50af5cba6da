"""The figures: cost against iterations and against seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from rankfold.atomic import replacing
from rankfold.experiments.curves import TARGET, Curves, Figure

_STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 11,
    "legend.frameon": False,
}


def draw(figure: Figure, curves: Curves, what: str, path: Path) -> None:
    """Write the figure to `path`, a PNG: a thin line per instance, the instance of median length in full.

    `what` says which problems were solved, and from where.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context(_STYLE):
        canvas = Canvas(figsize=(11, 4.6), layout="constrained")
        left, right = canvas.subplots(1, 2, sharey=True)
        for axes, column in ((left, "iteration"), (right, "seconds")):
            _panel(axes, figure, curves, column)
        left.set_ylabel("cost  f = mean square on Ω")
        canvas.suptitle(f"{figure.title}\n{what}")
        handles, labels = left.get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside right center", handlelength=3)
        with replacing(path) as file:
            canvas.savefig(file, format="png", dpi=130)


def _panel(axes: Any, figure: Figure, curves: Curves, column: str) -> None:
    for competitor in figure.competitors:
        runs = sorted(curves.of(competitor), key=lambda run: float(run.trace[column][-1]))
        for k, run in enumerate(runs):
            full = k == len(runs) // 2
            axes.plot(
                run.trace[column],
                np.maximum(run.values, TARGET / 100),  # a quadratic last step would stretch the axis
                competitor.line,
                color=competitor.color,
                linewidth=2.0 if full else 0.8,
                alpha=1.0 if full else 0.4,
                label=competitor.label if full else None,
            )
    axes.set_yscale("log")
    axes.axhline(TARGET, color="#999999", linewidth=0.8)
    axes.annotate(
        f"{TARGET:g}: runs end here",
        (1.0, TARGET),
        xycoords=("axes fraction", "data"),
        xytext=(-2, -3),
        textcoords="offset points",
        ha="right",
        va="top",
        color="#666666",
        fontsize=9,
    )
    axes.set_xlabel("iterations" if column == "iteration" else "CPU seconds of one thread, after the start")
    axes.set_xlim(left=0)
