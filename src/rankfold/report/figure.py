"""A report as one picture, by matplotlib."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from rankfold.atomic import replacing
from rankfold.report.content import Report

INK, OTHER = "#2563a8", "#a9b4c2"


def check_format(path: str | os.PathLike[str]) -> None:
    """Refuse a picture that could not be drawn: before the work, not after it."""
    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    if _format(path) not in known:
        raise ValueError(f"{os.fspath(path)}: a picture's name ends in one of {', '.join(sorted(known))}")


def _format(path: str | os.PathLike[str]) -> str:
    return Path(path).suffix.lower().removeprefix(".")


def draw(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the picture to `path`, in the format that its ending stands for."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 7), layout="constrained")
    axes: Any = figure.subplots(2, 2)
    _convergence(axes[0, 0], report)
    (_errors if report.errors else _density)(axes[0, 1], report)
    _spectrum(axes[1, 0], report)
    _residuals(axes[1, 1], report)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{report.data.source}, completed at rank {report.rank}", parse_math=False)
    with replacing(path) as file:
        figure.savefig(file, format=_format(path), dpi=120)


def _convergence(ax: Any, report: Report) -> None:
    value = report.trace["value"]
    ax.plot(report.trace["iteration"], value, color=INK)
    if value.min() > 0 and value.max() > 20 * value.min():
        ax.set_yscale("log")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="iteration", ylabel="cost", title="how the fit went")
    ax.grid(alpha=0.3)


def _errors(ax: Any, report: Report) -> None:
    names, errors = list(report.errors), list(report.errors.values())
    drawn = ax.barh(names, errors, color=[OTHER] * (len(names) - 1) + [INK])
    ax.bar_label(drawn, fmt="%.4g", padding=3)
    ax.invert_yaxis()
    ax.margins(x=0.15)
    unit = f" ({report.data.unit})" if report.data.columns else ""
    ax.set(title=f"error on {report.held_out:,} held-out entries", xlabel=f"root-mean-square error{unit}")


def _density(ax: Any, report: Report) -> None:
    counts = np.sort(report.data.row_counts)[::-1], np.sort(report.data.col_counts)[::-1]
    for name, count, color in zip(("rows", "columns"), counts, (INK, OTHER), strict=True):
        ax.plot(np.linspace(0, 1, len(count)), count, color=color, label=name)
    ax.set(xlabel="part of the rows or columns, fullest first", yscale="symlog")
    ax.set(ylabel="entries", title="entries in each row and column")
    ax.legend(frameon=False)


def _spectrum(ax: Any, report: Report) -> None:
    values = report.singular_values
    ax.vlines(np.arange(1, len(values) + 1), 0, values, color=INK, alpha=0.5)
    ax.plot(np.arange(1, len(values) + 1), values, "o", color=INK)
    ax.set_ylim(bottom=0)
    ax.set_xlim(0.5, len(values) + 0.5)
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set(xlabel="k-th largest", ylabel="singular value", title="singular values, offsets not included")


def _residuals(ax: Any, report: Report) -> None:
    reach = 4 * float(np.std(report.residuals)) or 1.0
    ax.hist(np.clip(report.residuals, -reach, reach), bins=41, range=(-reach, reach), color=INK, rwidth=0.92)
    whose = "held-out" if report.errors else "fitted"
    ax.set(xlabel=f"{report.data.unit} − prediction", ylabel="entries")
    ax.set_title(f"residuals of {len(report.residuals):,} {whose} entries")
