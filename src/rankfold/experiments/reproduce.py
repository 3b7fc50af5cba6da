"""`rankfold reproduce`: run figures; leave plots, traces and claims behind, and the report of all."""

from __future__ import annotations

import csv
import io
import json
import os
import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from rankfold.atomic import replace_text
from rankfold.experiments.curves import OVERSAMPLING, RANK, SCALES, Curves, Figure
from rankfold.experiments.figures import FIGURES
from rankfold.experiments.plots import draw
from rankfold.experiments.report import write_report
from rankfold.experiments.running import Plan, Setting, run_figures

_COLUMNS = ("iteration", "value", "seconds", "inner_iterations", "backtracks")
_VERDICT = {True: "reproduced", False: "not reproduced", None: "for the record"}


def reproduce(
    name: str,
    scale: str,
    out: Path,
    *,
    seed: int = 0,
    seeds: int | None = None,
    jobs: int = 1,
    setting: Setting | None = None,
    show: Callable[[str], None] = lambda line: None,
) -> Path:
    """Run the figure `name`, or "all"; write plots, traces and claims into `out`; return the report's path.

    `seeds` is the number of instances, `jobs` that of processes. The report holds every figure that `out`
    has, from every setting, so that figures can also be run one by one.
    """
    chosen = [figure for figure in FIGURES if name in (figure.name, "all")]
    if not chosen:
        names = ", ".join(figure.name for figure in FIGURES)
        raise ValueError(f"figure must be one of {names} or all, not {name!r}")
    if scale not in SCALES:
        raise ValueError(f"scale must be one of {', '.join(SCALES)}, not {scale!r}")
    size = SCALES[scale] if seeds is None else replace(SCALES[scale], instances=seeds)
    if size.instances < 1 or jobs < 1:
        raise ValueError(f"seeds and jobs must be at least 1, not {seeds} and {jobs}")
    plan = Plan(size, setting or Setting(), seed, jobs)
    out.mkdir(parents=True, exist_ok=True)
    runs = run_figures(chosen, plan, show)
    for figure in chosen:
        curves, seconds = runs[figure.name]
        write_figure(figure, curves, plan, seconds, out)
        for claim in figure.claims(curves):
            show(f"{figure.name}  {_VERDICT[claim.holds]}: {claim.says} {claim.measured}")
    return write_report(FIGURES, out)


def write_figure(figure: Figure, curves: Curves, plan: Plan, seconds: float, out: Path) -> None:
    """Write `<name>.png`, `<name>.csv` and `<name>.json` into `out`; names say other settings than ours."""
    stem, side, scale = f"{figure.name}{plan.setting.suffix}", figure.side(plan.scale), plan.scale
    seeds = f"seeds {plan.seed} to {plan.seed + scale.instances - 1}"
    instances = f"{side} × {side}, rank {RANK}, oversampling {OVERSAMPLING}, {seeds}"
    draw(figure, curves, f"{instances}; {plan.setting}", out / f"{stem}.png")
    _write_traces(curves, out / f"{stem}.csv")
    record = {
        "title": figure.title,
        "instances": instances,
        "scale": scale.name,
        "seed": plan.seed,
        "seeds": scale.instances,
        "setting": asdict(plan.setting),
        "jobs": plan.jobs,
        "seconds": round(seconds, 1),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "claims": [asdict(claim) for claim in figure.claims(curves)],
    }
    replace_text(out / f"{stem}.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")


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
