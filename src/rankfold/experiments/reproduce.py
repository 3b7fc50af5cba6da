"""`rankfold reproduce`: run figures; leave plots, traces and claims behind, and the report of all."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import Any

from rankfold.atomic import replace_text
from rankfold.experiments.curves import SCALES, Claim, Curves, Figure, Known, Scale
from rankfold.experiments.figures import FIGURES
from rankfold.experiments.plots import draw

_COLUMNS = ("iteration", "value", "seconds", "inner_iterations", "backtracks")
_VERDICT = {True: "reproduced", False: "**not reproduced**", None: "–"}


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


def write_figure(figure: Figure, curves: Curves, scale: Scale, seed: int, seconds: float, out: Path) -> None:
    """Write `<name>.png`, `<name>.csv` and `<name>.json` into `out`."""
    draw(figure, curves, out / f"{figure.name}.png")
    _write_traces(curves, out / f"{figure.name}.csv")
    side = getattr(scale, figure.size)
    record = {
        "title": figure.title,
        "instances": f"{scale.instances} of {side} × {side}",
        "scale": scale.name,
        "seed": seed,
        "seconds": round(seconds, 1),
        "machine": _machine(),
        "claims": [asdict(claim) for claim in figure.claims(curves)],
    }
    replace_text(out / f"{figure.name}.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def _machine() -> str:
    # The load tells whether seconds can be trusted: above the number of cores, other work ran beside.
    load = f", 5-minute load average {os.getloadavg()[1]:.1f}" if hasattr(os, "getloadavg") else ""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}{load}"


def _write_traces(curves: Curves, path: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("method", "instance", *_COLUMNS))
    for run in curves.runs:
        for row in run.trace:
            cells = (getattr(row, column) for column in _COLUMNS)
            numbers = (f"{cell:.6g}" if isinstance(cell, float) else cell for cell in cells)
            writer.writerow((run.label, run.instance, *numbers))
    replace_text(path, text.getvalue())


def write_report(figures: tuple[Figure, ...], out: Path) -> Path:
    """Write the report of all figures found in `out` beside it, as `<out>.md`, and return its path."""
    path = out.with_name(out.name + ".md")
    parts = [_INTRODUCTION]
    for figure in figures:
        source = out / f"{figure.name}.json"
        if source.exists():
            parts.append(_section(figure.name, json.loads(source.read_text("utf-8")), out.name))
    replace_text(path, "\n".join(parts))
    return path


_INTRODUCTION = """# The paper's figures, reproduced

Made by `rankfold reproduce all`, or figure by figure by the commands below, claims and verdicts included.
Every method starts at the rank-5 dominant SVD of the zero-filled data and runs until f ≤ 1e-20, at most 200
iterations (trust regions: 100, of at most 100 inner ones). Seconds exclude the common start. Numbers are
medians over the instances. With a load average above the number of cores other work ran beside: then compare
seconds within a figure only, and with care. A thin line is an instance, a thick one that of median length.
"""


def _section(name: str, record: dict[str, Any], folder: str) -> str:
    command = f"rankfold reproduce {name} --scale {record['scale']} --seed {record['seed']}"
    lines = [
        f"## {record['title']}",
        "",
        f"![{record['title']}]({folder}/{name}.png)",
        "",
        f"`{command}`: {record['instances']}, rank 5, oversampling 8; {record['seconds']:g} s on "
        f"{record['machine']}. Traces: [{name}.csv]({folder}/{name}.csv).",
        "",
        "| the paper says | measured | |",
        "|---|---|---|",
        *(_line(Claim(**claim)) for claim in record["claims"]),
        "",
        # Written into the record by hand, where a run needs a word more than its numbers.
        *([record["note"], ""] if "note" in record else []),
    ]
    return "\n".join(lines)


def _line(claim: Claim) -> str:
    why = f" ({claim.why})" if claim.why and not claim.holds else ""
    return f"| {claim.says} | {claim.measured} | {_VERDICT[claim.holds]}{why} |"
