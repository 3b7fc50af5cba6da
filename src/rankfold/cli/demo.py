"""The demonstration: complete a photograph of which only a third of the pixels are known."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import rankfold as rf
from rankfold.atomic import replacing
from rankfold.report import DataSummary, Report, singular_values, write_report

Floats = NDArray[np.float64]

RANK = 16
KNOWN = 0.35


@dataclass(frozen=True)
class Demo:
    """What the demonstration found."""

    picture: Floats
    known: NDArray[np.bool_]
    completed: Floats
    result: rf.Result
    seconds: float

    @property
    def errors(self) -> dict[str, float]:
        """Root-mean-square error on the unknown pixels, in grey levels out of 255, by method."""
        unknown = ~self.known
        guesses = {
            "mean of the known pixels": np.full(self.picture.shape, self.picture[self.known].mean()),
            "row means + column means": _means(self.picture, self.known),
            f"rankfold, rank {RANK}": self.completed,
        }
        return {n: float(np.sqrt(np.mean((g - self.picture)[unknown] ** 2))) for n, g in guesses.items()}


def run(seed: int = 0) -> Demo:
    """Hide pixels of a photograph and complete it."""
    from sklearn.datasets import load_sample_image

    picture = load_sample_image("china.jpg").mean(axis=2)
    known = np.random.default_rng(seed).random(picture.shape) < KNOWN
    began = perf_counter()
    centre = float(picture[known].mean())
    rows, cols = np.nonzero(known)
    cost = rf.Completion(rows, cols, picture[known] - centre, picture.shape)
    problem = rf.Problem.of(cost, RANK)
    # A photograph is not of low rank: what a long fit gains on known pixels it loses on the others.
    result = rf.minimize(problem, max_iterations=40, tolerance=0, stop=rf.stopping.RelativeChange(1e-3))
    if result.stop.kind is rf.stopping.StopKind.INTERRUPTED:
        raise KeyboardInterrupt
    L, R = result.factors
    completed = np.clip(L @ R.T + centre, 0, 255)
    return Demo(picture, known, completed, result, perf_counter() - began)


def write(demo: Demo, picture: Path, command: str) -> tuple[Path, Path, Path]:
    """Write the picture, the report and the known pixels; return where they are."""
    report, data = picture.with_suffix(".html"), picture.with_suffix(".csv")
    plot(demo, picture)
    write_report(_report_of(demo, command), report)
    write_known(demo, data)
    return picture, report, data


def plot(demo: Demo, path: str | Path) -> None:
    """Draw what was known, what was made of it, the truth, and how the cost fell."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    gray = colormaps["gray"].with_extremes(bad="#5b8fd0")
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    axes: Any = figure.subplots(2, 2)
    pictures = {
        f"known: {KNOWN:.0%} of the pixels (the others in blue)": np.where(demo.known, demo.picture, np.nan),
        f"completed at rank {RANK}": demo.completed,
        "the photograph": demo.picture,
    }
    for ax, (title, picture) in zip(axes.flat, pictures.items(), strict=False):
        ax.imshow(picture, cmap=gray, vmin=0, vmax=255)
        ax.set_title(title)
        ax.axis("off")
    ax = axes.flat[3]
    trace = demo.result.trace
    ax.plot(trace["iteration"], np.sqrt(trace["value"]), "o-", markersize=3)
    ax.set_ylim(bottom=0)
    ax.set(xlabel="iteration", ylabel="error on known pixels (grey levels)", title="how the fit went")
    ax.grid(alpha=0.3)
    with replacing(path) as file:
        figure.savefig(file, format=Path(path).suffix.lower().removeprefix("."), dpi=110)


def _report_of(demo: Demo, command: str) -> Report:
    rows, cols = np.nonzero(demo.known)
    unknown = ~demo.known
    return Report(
        data=DataSummary.of(rows, cols, demo.picture[demo.known], demo.picture.shape, "A photograph"),
        rank=RANK,
        trace=demo.result.trace,
        seconds=demo.seconds,
        singular_values=singular_values(*demo.result.factors),
        residuals=(demo.picture - demo.completed)[unknown],
        errors=demo.errors,
        held_out=int(unknown.sum()),
        settings={"rank": f"{RANK}", "known pixels": f"{KNOWN:.0%}", "stopped": demo.result.stop_reason},
        command=command,
    )


def write_known(demo: Demo, path: str | Path) -> None:
    """Write the known pixels as a CSV of row, column and value, to try the other commands on."""
    rows, cols = np.nonzero(demo.known)
    values = demo.picture[demo.known].round(1)
    rf.data.write_triples(path, rf.data.Triples(rows, cols, values, demo.picture.shape))


def _means(picture: Floats, known: NDArray[np.bool_]) -> Floats:
    guess = np.full(picture.shape, picture[known].mean())
    for axis in (1, 0):
        residual = np.where(known, picture - guess, 0.0).sum(axis, keepdims=True)
        guess += residual / np.maximum(known.sum(axis, keepdims=True), 1)
    return guess
