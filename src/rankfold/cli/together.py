"""`rankfold complete` in several processes: entries spread by rows, and one model, or a part for each."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from shlex import join
from time import perf_counter
from typing import Any, cast

import typer

import rankfold as rf
from rankfold.cli import completing
from rankfold.cli.completing import Files, Source
from rankfold.cli.console import print_json, say, working
from rankfold.data.io.streams import name_of
from rankfold.distributed.group import Group
from rankfold.distributed.launch import start
from rankfold.distributed.loading import read
from rankfold.distributed.spreading import SpreadTriples
from rankfold.estimators.completion.reporting import Entries
from rankfold.estimators.completion.spread_report import repeats_of
from rankfold.estimators.model_parts import save_part
from rankfold.report import Report
from rankfold.run.parts import MANIFEST

Wanted = dict[str, Path | None]


def is_spread() -> bool:
    """Whether there are other processes."""
    return int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))) > 1


def joined() -> Group:
    """The processes, met."""
    return start(timeout=float(os.environ.get("RANKFOLD_TIMEOUT", "120")))


def complete(
    source: Source,
    model: rf.MatrixCompletion,
    files: Wanted,
    resume: Path | None,
    json: bool,
    parts: bool,
) -> bool:
    """Read, fit and write; the first process speaks for all. Return whether the fit was interrupted."""
    asked = [f"--{name}" for name in ("report", "plot") if files[name] is not None]
    asked += ["--holdout"] if source.held_out else []
    if asked and parts:
        raise typer.BadParameter(f"{asked[0]} needs the model in one piece: leave it out, or --parts")
    if source.row_features or source.col_features or source.spill:
        raise typer.BadParameter("features and --spill are for one process: leave them out")
    group = joined()
    first = group.rank == 0
    began = perf_counter()
    with working(f"reading {source.name}"):
        data = read(
            source.files,
            source.columns,
            group=group,
            delimiter=source.delimiter,
            header=source.header,
            decimal=source.decimal,
            duplicates="error" if source.unique else "keep",
            parts=parts,
            held_out=0.0 if isinstance(source.held_out, str) else source.held_out,
            seed=source.seed,
        )
        apart = _measured(data, source)
    reading, began = perf_counter() - began, perf_counter()
    checkpoint = files["checkpoint"]
    model.fit(data, checkpoint=checkpoint, resume=resume or _after_restart(checkpoint))
    fitting = perf_counter() - began
    written = _written(model, files["output"], group, parts)  # before anything else can fail
    repeated = repeats_of(data)
    made = None
    if asked:  # in every process: it sums up what all of them have
        found = completing.Fit(model, repeated, fitting, data.names)
        made = completing.report_of(data, apart, found, source, join(["rankfold", *sys.argv[1:]]))
        pages, report = (files["report"], files["plot"]), made
        written |= group.together(
            lambda: completing.write_pages(report, *pages) if first else {}, "writing the report"
        )
    seconds = {"read": reading, "fit": fitting}
    if first:
        completing.note_repeated(repeated)
        (_tell_json if json else _tell)(model, data, made, seconds, written)
    group.leave()
    return bool(model.stop_kind_ == "interrupted")


def _measured(data: SpreadTriples, source: Source) -> Entries | None:
    """The entries that the error is measured on, which every process has."""
    if isinstance(source.held_out, str):
        file = source.held_out
        apart = data.group.together(
            lambda: completing.aligned(source.triples(file), data, file), f"reading {name_of(file)}"
        )
        if data.group.rank == 0:
            completing.note_unknown(apart, file)
        return cast(Entries, apart)
    if data.held_out is None:
        return None
    return completing.some(data.held_out, source.held_out, data.store.size)


def _written(model: rf.MatrixCompletion, output: Path | None, group: Group, parts: bool) -> Files:
    """Write the model: each process its part, or the first one all of it."""
    if output is None:
        return {}
    if parts:
        save_part(model, output, group)
    else:
        group.together(lambda: rf.save(model, output) if group.rank == 0 else None, "writing the model")
    return {"model": output}


def _after_restart(checkpoint: Path | None) -> Path | None:
    """The checkpoint, if torchrun has started this process again and there is one."""
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    return checkpoint if again and checkpoint is not None and (checkpoint / MANIFEST).exists() else None


def _tell_json(
    model: Any, data: SpreadTriples, made: Report | None, seconds: dict[str, float], files: Files
) -> None:
    last = model.trace_[-1]
    measured = {} if made is None else {"held_out": made.held_out, "errors": made.errors}
    print_json({
        "columns": data.names, "shape": data.shape, "entries": data.store.size, "processes": data.group.size,
        "rank": model.rank_, "regularization": model.regularization_, "iterations": last.iteration,
        "cost": last.value, "converged": model.converged_, "stop_reason": model.stop_reason_, **measured,
        "seconds": seconds, "files": files,
    })  # fmt: skip


def _tell(
    model: Any, data: SpreadTriples, made: Report | None, seconds: dict[str, float], files: Files
) -> None:
    d1, d2 = data.shape
    say(
        f"{data.store.size:,} entries of a {d1:,} × {d2:,} matrix, completed at rank {model.rank_} by "
        f"{data.group.size} processes in {seconds['fit']:.1f} s ({model.trace_[-1].iteration} iterations; "
        f"{model.stop_reason_})."
    )
    completing.tell_errors(made)
    completing.tell_files(files)
