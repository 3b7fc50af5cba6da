"""`rankfold reproduce`: run figures, and write what they show."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from rankfold.experiments.curves import SCALES, Known
from rankfold.experiments.figures import FIGURES
from rankfold.experiments.report import write_figure, write_report


def reproduce(
    name: str, scale: str, out: Path, seed: int = 0, show: Callable[[str], None] = lambda line: None
) -> Path:
    """Run the figure `name`, or "all"; write plots, traces and claims into `out`; return the report's path.

    The report holds every figure that `out` has, so that figures can also be run one by one.
    """
    chosen = [figure for figure in FIGURES if name in (figure.name, "all")]
    if not chosen:
        names = ", ".join(figure.name for figure in FIGURES)
        raise ValueError(f"figure must be one of {names} or all, not {name!r}")
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, not {scale!r}")
    out.mkdir(parents=True, exist_ok=True)
    known: Known = {}
    for figure in chosen:
        began = perf_counter()
        curves = figure.run(SCALES[scale], seed, known, show)
        write_figure(figure, curves, SCALES[scale], seed, perf_counter() - began, out)
        for claim in figure.claims(curves):
            verdict = {True: "reproduced", False: "not reproduced", None: "for the record"}[claim.holds]
            show(f"{figure.name}  {verdict}: {claim.says} {claim.measured}")
    return write_report(FIGURES, out)
