"""What `rankfold complete` does: `read` entries, `fit` a model, make a `report_of` both, `write`, `tell`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

import rankfold as rf
from rankfold.cli import spilling
from rankfold.cli.console import note, print_json, print_table, say, working
from rankfold.cli.features import with_features
from rankfold.cli.labels import visible
from rankfold.cli.repeated import names_of, refuse_repeated
from rankfold.cli.taken_columns import hints, refuse_wide, tell_taken
from rankfold.data import LabelIndex, SortedFolder, Triples, read_triples, split
from rankfold.data.io.streams import name_of
from rankfold.estimators.completion import reporting
from rankfold.estimators.completion.reporting import Entries
from rankfold.report import Report, write_report
from rankfold.report.figure import draw
from rankfold.run.driver import Callback

Files = dict[str, Path]
_NO_MODEL = (
    "interrupted before there was a model: it is kept from the last fit only, after rank and regularization "
    "are chosen, unless both are given (--rank N --regularization X)"
)


@dataclass(frozen=True)
class Source:
    """Where the entries come from: files, and how they are read; `held_out` is a part of them, or a file.

    With `spill`, a folder, they are sorted into it, within `memory`.
    """

    files: tuple[str, ...]
    columns: tuple[str | int | None, str | int | None, str | int | None]
    delimiter: str | None
    header: bool | None
    held_out: float | str
    unique: bool  # pairs that come twice are refused
    seed: int
    decimal: str
    spill: Path | None = None
    memory: str = "1GB"
    row_features: str | None = None  # files
    col_features: str | None = None

    @property
    def name(self) -> str:
        """What the files are called."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return name_of(self.files[0]) + more

    def triples(self, *files: str) -> Triples:
        """Read files of entries together."""
        with working(f"reading {', '.join(map(name_of, files))}"), hints(self.columns):
            given = files[0] if len(files) == 1 else list(files)
            triples = read_triples(
                given, self.columns, delimiter=self.delimiter, header=self.header, decimal=self.decimal
            )
            refuse_wide(triples, name_of(files[0]), self.columns)
            return triples


@dataclass(frozen=True)
class Data:
    """The entries to fit to, and those that the error is measured on."""

    train: Triples | SortedFolder
    held_out: Entries | None
    seconds: float
    features: dict[str, Any]  # as `fit` takes them


@dataclass(frozen=True)
class Fit:
    """A fitted model, and how many entries of its data repeat the pair of another one."""

    model: Any
    repeated: int
    seconds: float
    names: tuple[str, ...] | None  # of the columns that the entries are from


def read(source: Source) -> Data:
    """Read the entries, and set those aside that the error is measured on."""
    began = perf_counter()
    train, held_out, features = (_sorted if source.spill else _whole)(source)
    if isinstance(source.held_out, str):
        held_out = aligned(source.triples(source.held_out), train, source.held_out)
        note_unknown(held_out, source.held_out)
    return Data(train, held_out, perf_counter() - began, features)


def _whole(source: Source) -> tuple[Triples, Entries | None, dict[str, Any]]:
    """The entries in memory, those set aside, and features."""
    train = source.triples(*source.files)
    tell_taken(train.names, source.name)
    if source.unique:
        refuse_repeated(train, source)
    train, features = with_features(train, source.row_features, source.col_features)
    if isinstance(source.held_out, str) or not source.held_out:
        return train, None, features
    known = len(train)
    train, apart = split(train, source.held_out, source.seed)
    return train, some(apart, source.held_out, known), features


def _sorted(source: Source) -> tuple[SortedFolder, Entries | None, dict[str, Any]]:
    """The entries sorted on disk, and those set aside."""
    if source.row_features or source.col_features:
        raise ValueError("features need the entries in memory: leave out --spill, or the features")
    part = 0.0 if isinstance(source.held_out, str) else source.held_out
    options = source.columns, source.delimiter, source.header, source.decimal
    folder = spilling.sorted_into(
        source.spill or Path(), source.files, *options, source.memory, source.unique, part, source.seed
    )
    tell_taken(folder.names, source.name)
    return folder, spilling.measured(folder, source.seed) if part else None, {}


def fit(
    data: Data, model: rf.MatrixCompletion, checkpoint: Path | None, resume: Path | None, callback: Callback
) -> Fit:
    """Fit the model; Ctrl-C during the last fit leaves the best one so far."""
    began, largest = perf_counter(), min(data.train.shape)
    if model.rank != "auto" and model.rank > largest:
        d1, d2 = data.train.shape
        note(f"rankfold: a {d1:,} × {d2:,} matrix has no higher rank than {largest:,}: that is taken")
    try:
        model.fit(data.train, **data.features, callback=callback, checkpoint=checkpoint, resume=resume)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_NO_MODEL) from None
    if isinstance(data.train, SortedFolder):
        repeated, first = data.train.repeated, ""
        spilling.note_what_is_left_out(model, data.train)
    else:
        repeated, pair = model.observed_.repeats()
        first = f", first {names_of(data.train, *pair)}"
    note_repeated(repeated, first)
    return Fit(model, repeated, perf_counter() - began, data.train.names)


def note_repeated(repeated: int, first: str = "") -> None:
    """Say how many entries repeat a pair, if there are any."""
    if repeated:
        note(
            f"rankfold: warning: {repeated:,} entries repeat a pair{first}; each counts as an observation "
            "(--duplicates error refuses them)"
        )


def report_of(
    train: reporting.Data, held_out: Entries | None, found: Fit, source: Source, command: str
) -> Report:
    """Gather what the report, the plot and the table show."""
    part = source.held_out
    apart = (
        visible(part, "") if isinstance(part, str) else f"{part:.3g} of the entries" if part else "nothing"
    )
    files = {"row features": source.row_features, "column features": source.col_features}
    given = {name: visible(file, "") for name, file in files.items() if file is not None}
    last = given | {"seed": f"{source.seed}", "stopped": found.model.stop_reason_}
    making = reporting.Making(
        visible(source.name, ""),
        found.seconds,
        visible(command, keep=""),
        {"held out": apart, **reporting.shown_settings(found.model), **last},
        source.seed,
    )
    return reporting.report_of(found.model, train, held_out, making)


def write_model(found: Fit, output: Path | None) -> Files:
    """Write the model if that was asked for, and return what was written by name."""
    if output is None:
        return {}
    rf.save(found.model, output)
    return {"model": output}


def write_pages(made: Report, report: Path | None, plot: Path | None) -> Files:
    """Write report and plot as asked for, and return them by name."""
    files = {}
    if report is not None:
        write_report(made, report)
        files["report"] = report
    if plot is not None:
        draw(made, plot)
        files["plot"] = plot
    return files


def tell_json(found: Fit, report: Report, seconds: dict[str, float], files: Files) -> None:
    """Say how it went to machines."""
    model, last = found.model, report.trace[-1]
    print_json({
        "columns": found.names, "shape": report.data.shape, "entries": report.data.entries,
        "held_out": report.held_out,
        "rank": model.rank_, "regularization": model.regularization_, "iterations": last.iteration,
        "converged": model.converged_, "stop_reason": model.stop_reason_, "cost": last.value,
        "errors": report.errors, "coverage": report.coverage, "duplicates": found.repeated,
        "seconds": seconds, "files": files,
    })  # fmt: skip


def tell(found: Fit, report: Report, seconds: dict[str, float], files: Files) -> None:
    """Say how it went to people."""
    d1, d2 = report.data.shape
    say(
        f"{report.data.entries:,} entries of a {d1:,} × {d2:,} matrix, completed at rank {report.rank} in "
        f"{seconds['fit']:.1f} s ({report.trace[-1].iteration} iterations; {found.model.stop_reason_})."
    )
    if report.coverage:
        held = dict(report.coverage)[0.9]
        say(f"Intervals for 90% of the entries hold {held:.1%} of those held out.")
    tell_errors(report)
    tell_files(files)


def tell_errors(report: Report | None) -> None:
    """Say what the error on held-out entries is, if there are any."""
    if report is not None and report.errors:
        rows = [(name, f"{error:.4g}") for name, error in report.errors.items()]
        print_table((f"{report.held_out:,} held-out entries predicted by", "error (RMSE)"), rows)
    else:
        note("To see how good it is, add --holdout 0.1, or --holdout FILE.")


def tell_files(files: Files) -> None:
    """Say what was written."""
    for name, path in files.items():
        say(f"The {name} is in {path}.")
    if "model" not in files:
        note("The model was not kept: add -o model.rankfold to use it with `rankfold predict`.")


def some(apart: Triples, part: float, known: int) -> Entries:
    """Return the entries that were set aside, unless they are none."""
    if not len(apart):
        raise ValueError(
            f"--holdout {part:g} of {known:,} entries is none: hold out a larger part, or nothing"
        )
    return Entries(apart.rows, apart.cols, apart.values)


def aligned(held_out: Triples, train: reporting.Data, file: str) -> Entries:
    """Return entries of another file with the positions that their labels have in the training data."""
    sides = []
    for k in (0, 1):
        positions = (held_out.rows, held_out.cols)[k]
        labels, known = (held_out.row_labels, held_out.col_labels)[k], (train.row_labels, train.col_labels)[k]
        if labels is None and known is not None:
            raise ValueError(
                f"{file}: it holds positions, and the entries to fit have labels: hold out labels"
            )
        names = np.arange(held_out.shape[k]) if labels is None else labels
        sides.append(LabelIndex(train.shape[k], known).find_arrow(pa.array(names))[positions])
    return Entries(sides[0], sides[1], held_out.values)


def note_unknown(held_out: Entries, file: str) -> None:
    """Say how many entries of a file are of rows or columns that the fit does not know."""
    new, count = int(np.count_nonzero((held_out.rows < 0) | (held_out.cols < 0))), len(held_out.values)
    if new:
        note(f"rankfold: warning: {file}: {new:,} of {count:,} entries are of rows or columns never seen")
