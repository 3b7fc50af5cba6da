"""`rankfold complete` in several processes: entries spread by rows, and one model, or a part for each."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

import rankfold as rf
from rankfold.cli.completing import Source
from rankfold.cli.console import note, print_json, say, working
from rankfold.distributed.group import Group
from rankfold.distributed.launch import start
from rankfold.distributed.loading import read
from rankfold.distributed.spreading import SpreadTriples
from rankfold.estimators.model_parts import save_part
from rankfold.run.parts import MANIFEST


def is_spread() -> bool:
    """Whether there are other processes."""
    return int(os.environ.get("WORLD_SIZE", os.environ.get("SLURM_NTASKS", "1"))) > 1


def joined() -> Group:
    """The processes, met."""
    return start(timeout=float(os.environ.get("RANKFOLD_TIMEOUT", "120")))


def complete(
    source: Source,
    model: rf.MatrixCompletion,
    files: dict[str, Path | None],
    resume: Path | None,
    json: bool,
    parts: bool,
) -> bool:
    """Read, fit and write; the first process speaks for all. Return whether the fit was interrupted."""
    for name in ("report", "plot"):
        if files[name] is not None:
            raise typer.BadParameter(f"--{name} needs the entries in one process: leave it out")
    if source.row_features or source.col_features or source.spill:
        raise typer.BadParameter("features and --spill are for one process: leave them out")
    if source.held_out:
        raise typer.BadParameter(
            "--holdout needs the entries in one process: leave a file out, and "
            "compare with what `rankfold predict` says of it"
        )
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
        )
    reading, began = perf_counter() - began, perf_counter()
    checkpoint = files["checkpoint"]
    model.fit(data, checkpoint=checkpoint, resume=resume or _after_restart(checkpoint))
    fitting = perf_counter() - began
    output = files["output"]
    if output is not None and parts:
        save_part(model, output, group)
    elif output is not None:
        group.together(lambda: rf.save(model, output) if first else None, "writing the model")
    if first:
        (_tell_json if json else _tell)(model, data, {"read": reading, "fit": fitting}, output)
    group.leave()
    return bool(model.stop_kind_ == "interrupted")


def _after_restart(checkpoint: Path | None) -> Path | None:
    """The checkpoint, if torchrun has started this process again and there is one."""
    again = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") != "0"
    return checkpoint if again and checkpoint is not None and (checkpoint / MANIFEST).exists() else None


def _tell_json(model: Any, data: SpreadTriples, seconds: dict[str, float], output: Path | None) -> None:
    last = model.trace_[-1]
    print_json({
        "shape": data.shape, "entries": data.store.size, "processes": data.group.size, "rank": model.rank_,
        "regularization": model.regularization_, "iterations": last.iteration, "cost": last.value,
        "converged": model.converged_, "stop_reason": model.stop_reason_, "seconds": seconds,
        "files": {} if output is None else {"model": output},
    })  # fmt: skip


def _tell(model: Any, data: SpreadTriples, seconds: dict[str, float], output: Path | None) -> None:
    d1, d2 = data.shape
    say(
        f"{data.store.size:,} entries of a {d1:,} × {d2:,} matrix, completed at rank {model.rank_} by "
        f"{data.group.size} processes in {seconds['fit']:.1f} s ({model.trace_[-1].iteration} iterations; "
        f"{model.stop_reason_})."
    )
    if output is None:
        note("The model was not kept: add -o model.rankfold to use it with `rankfold predict`.")
    else:
        say(f"The model is in {output}.")
