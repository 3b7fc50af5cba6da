"""The demonstration: most pixels of a picture of a cloth are missing, and all of them come back."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

import rankfold as rf
from rankfold.atomic import replacing
from rankfold.cli.cloth import RANK, side_by_side, stacked, tartan
from rankfold.report import Columns, DataSummary, Picture, Report, singular_values, write_report
from rankfold.report.png import png

Floats = NDArray[np.float64]

SIZE = 480, 720
KNOWN = 0.2
EXACT = 1e-12  # of the square of the data: no eye sees a difference
_GAP = 12  # white pixels between pictures
_WHITE = 255.0


@dataclass(frozen=True)
class Demo:
    """What the demonstration found; pictures are height × width × 3, from 0 to 255."""

    picture: Floats
    known: NDArray[np.bool_]
    completed: Floats
    result: rf.Result
    seconds: float

    @property
    def errors(self) -> dict[str, float]:
        """Root-mean-square error on the unknown pixels, in levels of colour out of 255, by method."""
        matrix, known = side_by_side(self.picture), np.tile(self.known, 3)
        guesses = {
            "the mean of the known pixels": np.full(matrix.shape, matrix[known].mean()),
            "means of rows and columns": _means(matrix, known),
            f"rankfold, rank {RANK}": side_by_side(self.completed),
        }
        return {n: float(np.sqrt(np.mean((g - matrix)[~known] ** 2))) for n, g in guesses.items()}


def run(seed: int = 0) -> Demo:
    """Hide most pixels of the cloth, and complete it."""
    picture = tartan(*SIZE)
    known = np.random.default_rng(seed).random(SIZE) < KNOWN
    began = perf_counter()
    matrix, given = side_by_side(picture), np.tile(known, 3)
    rows, cols = np.nonzero(given)
    cost = rf.Completion(rows, cols, matrix[given], matrix.shape)
    result = rf.minimize(rf.Problem.of(cost, RANK), max_iterations=300, tolerance=EXACT)
    if result.stop.kind is rf.stopping.StopKind.INTERRUPTED:
        raise KeyboardInterrupt
    L, R = result.factors
    completed = np.clip(stacked(L @ R.T), 0, 255)
    return Demo(picture, known, completed, result, perf_counter() - began)


def write(demo: Demo, picture: Path, command: str) -> tuple[Path, Path, Path]:
    """Write the picture, the report and the known pixels; return where they are."""
    report, data = picture.with_suffix(".html"), picture.with_suffix(".csv")
    draw(demo, picture)
    write_report(_report_of(demo, command), report)
    write_known(demo, data)
    return picture, report, data


def check_format(path: str | Path) -> None:
    """Refuse a picture of another format: before the work, not after it."""
    if Path(path).suffix.lower() != ".png":
        raise ValueError(f"{path}: the demonstration's picture is a PNG file: name it .png")


def draw(demo: Demo, path: str | Path) -> None:
    """Write what was known, and what was made of it, beside each other, as a PNG file."""
    gap = np.full((len(demo.picture), _GAP, 3), _WHITE)
    with replacing(path) as file:
        file.write(png(np.concatenate([_visible(demo), gap, demo.completed], axis=1)))


def _visible(demo: Demo) -> Floats:
    return np.where(demo.known[:, :, None], demo.picture, _WHITE)


def _report_of(demo: Demo, command: str) -> Report:
    matrix, known = side_by_side(demo.picture), np.tile(demo.known, 3)
    rows, cols = np.nonzero(known)
    names = Columns("line", "place in the line, for each colour", "level of 255")
    values, completed = matrix[~known], side_by_side(demo.completed)[~known]
    return Report(
        data=DataSummary.of(rows, cols, matrix[known], matrix.shape, "A tartan", names),
        rank=RANK,
        trace=demo.result.trace,
        seconds=demo.seconds,
        singular_values=singular_values(*demo.result.factors),
        residuals=values - completed,
        errors=demo.errors,
        held_out=len(values),
        settings={"rank": f"{RANK}", "known pixels": f"{KNOWN:.0%}", "stopped": demo.result.stop_reason},
        command=command,
        values=values,
        pictures=(
            Picture(f"What was known: {KNOWN:.0%} of the pixels", png(_visible(demo))),
            Picture(f"Completed at rank {RANK}", png(demo.completed)),
            Picture("The picture as it was", png(demo.picture)),
        ),
    )


def write_known(demo: Demo, path: str | Path) -> None:
    """Write the known levels as a CSV of row, column and value, to try the other commands on."""
    matrix, known = side_by_side(demo.picture), np.tile(demo.known, 3)
    rows, cols = np.nonzero(known)
    rf.data.write_triples(path, rf.data.Triples(rows, cols, matrix[known].round(2), matrix.shape))


def _means(matrix: Floats, known: NDArray[np.bool_]) -> Floats:
    guess = np.full(matrix.shape, matrix[known].mean())
    for axis in (1, 0):
        residual = np.where(known, matrix - guess, 0.0).sum(axis, keepdims=True)
        guess += residual / np.maximum(known.sum(axis, keepdims=True), 1)
    return guess
