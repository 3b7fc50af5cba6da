"""What `rankfold complete` does: `read` entries, `fit` a model, make a `report_of` both, `write`, `tell`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import rankfold as rf
from rankfold.cli import spilling
from rankfold.cli.console import note, print_json, print_table, say, working
from rankfold.cli.labels import visible
from rankfold.cli.repeated import names_of, refuse_repeated, repeats
from rankfold.data import LabelIndex, SortedFolder, Triples, read_triples, split
from rankfold.data.io.streams import name_of
from rankfold.estimators.completion.choosing import fit_offsets
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.matrix_completion import MAX_ENTRIES
from rankfold.estimators.completion.offsets import predictions
from rankfold.report import DataSummary, Report, singular_values, write_report
from rankfold.report.content import SAMPLE
from rankfold.report.figure import draw
from rankfold.run.driver import Callback
from rankfold.selection.sampling import sample_lines

Floats = NDArray[np.float64]
Entries = tuple[NDArray[np.integer], NDArray[np.integer], Floats]
Files = dict[str, Path]
SETTINGS = ("rank", "bias", "loss", "regularization", "bayesian", "max_iter", "tol")
PROMISED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # parts of entries that intervals are to hold
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
    columns: tuple[str | int, str | int, str | int]
    delimiter: str | None
    header: bool | None
    held_out: float | str
    unique: bool  # pairs that come twice are refused
    seed: int
    spill: Path | None = None
    memory: str = "1GB"

    @property
    def name(self) -> str:
        """What the files are called."""
        more = f" and {len(self.files) - 1} more" if len(self.files) > 1 else ""
        return name_of(self.files[0]) + more

    def triples(self, *files: str) -> Triples:
        """Read files of entries together."""
        with working(f"reading {', '.join(map(name_of, files))}"):
            given = files[0] if len(files) == 1 else list(files)
            return read_triples(given, self.columns, delimiter=self.delimiter, header=self.header)


@dataclass(frozen=True)
class Data:
    """The entries to fit to, and those that the error is measured on."""

    train: Triples | SortedFolder
    held_out: Entries | None
    seconds: float


@dataclass(frozen=True)
class Fit:
    """A fitted model, and how many entries of its data repeat the pair of another one."""

    model: Any
    repeated: int
    seconds: float


def read(source: Source) -> Data:
    """Read the entries, and set those aside that the error is measured on."""
    began = perf_counter()
    train, held_out = (_sorted if source.spill else _whole)(source)
    if isinstance(source.held_out, str):
        held_out = _aligned(source.triples(source.held_out), train, source.held_out)
    return Data(train, held_out, perf_counter() - began)


def _whole(source: Source) -> tuple[Triples, Entries | None]:
    """The entries in memory, and those set aside."""
    train = source.triples(*source.files)
    if source.unique:
        refuse_repeated(train, source)
    if isinstance(source.held_out, str) or not source.held_out:
        return train, None
    train, apart = split(train, source.held_out, source.seed)
    return train, (apart.rows, apart.cols, apart.values)


def _sorted(source: Source) -> tuple[SortedFolder, Entries | None]:
    """The entries sorted on disk, and those set aside."""
    part = 0.0 if isinstance(source.held_out, str) else source.held_out
    options = source.columns, source.delimiter, source.header
    folder = spilling.sorted_into(
        source.spill or Path(), source.files, *options, source.memory, source.unique, part, source.seed
    )
    return folder, spilling.measured(folder, source.seed) if part else None


def fit(
    data: Data, model: rf.MatrixCompletion, checkpoint: Path | None, resume: Path | None, callback: Callback
) -> Fit:
    """Fit the model; Ctrl-C during the last fit leaves the best one so far."""
    began = perf_counter()
    try:
        model.fit(data.train, callback=callback, checkpoint=checkpoint, resume=resume)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_NO_MODEL) from None
    if isinstance(data.train, SortedFolder):
        repeated, first = data.train.repeated, ""
        spilling.note_what_is_left_out(model, data.train)
    else:
        repeated, pair = repeats(model.observed_)
        first = f", first {names_of(data.train, *pair)}"
    if repeated:
        note(
            f"rankfold: warning: {repeated:,} entries repeat a pair{first}; each counts as an observation "
            "(--duplicates error refuses them)"
        )
    return Fit(model, repeated, perf_counter() - began)


def report_of(data: Data, found: Fit, source: Source, command: str) -> Report:
    """Gather what the report, the plot and the table show."""
    model, train = found.model, data.train
    path = model.rank_path_
    rows, cols, values = _sample(data, source.seed)
    name = visible(source.name, "")
    summary = (
        spilling.summary_of(train, name)
        if isinstance(train, SortedFolder)
        else DataSummary.of(train.rows, train.cols, train.values, train.shape, name)
    )
    return Report(
        data=summary,
        rank=model.rank_,
        trace=model.trace_,
        seconds=found.seconds,
        singular_values=singular_values(*model.factors_),
        residuals=values - model.predict_at(rows, cols),
        errors={} if data.held_out is None else _errors(model, train, data.held_out, summary.mean),
        held_out=0 if data.held_out is None else len(data.held_out[2]),
        settings=_shown(model, source),
        command=visible(command, keep=""),
        ranks=() if path is None else tuple(zip(path.ranks, path.errors, strict=True)),
        coverage=() if data.held_out is None or model.posterior_ is None else _coverage(model, data.held_out),
    )


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
        "shape": report.data.shape, "entries": report.data.entries, "held_out": report.held_out,
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
    if report.errors:
        rows = [(name, f"{error:.4g}") for name, error in report.errors.items()]
        print_table((f"{report.held_out:,} held-out entries predicted by", "error (RMSE)"), rows)
    for name, path in files.items():
        say(f"The {name} is in {path}.")
    if not report.errors:
        note("To see how good it is, add --holdout 0.1, or --holdout FILE.")
    if "model" not in files:
        note("The model was not kept: add -o model.rankfold to use it with `rankfold predict`.")


def _shown(model: Any, source: Source) -> dict[str, str]:
    shown = {name: f"{getattr(model, name)}" for name in SETTINGS}
    for name in ("rank", "regularization"):
        if shown[name] == "auto":
            shown[name] = f"{getattr(model, f'{name}_'):.4g}, chosen"
    part = source.held_out
    apart = (
        visible(part, "") if isinstance(part, str) else f"{part:.3g} of the entries" if part else "nothing"
    )
    return {"held out": apart, **shown, "seed": f"{source.seed}", "stopped": model.stop_reason_}


def _sample(data: Data, seed: int) -> Entries:
    """Return at most `SAMPLE` of the held-out entries, or of the fitted ones, for residuals."""
    train = data.train
    if data.held_out is not None:
        whole = data.held_out
    elif isinstance(train, SortedFolder):
        whole = spilling.sample(train, SAMPLE, seed)
    else:
        whole = train.rows, train.cols, train.values
    if len(whole[2]) <= SAMPLE:
        return whole
    chosen = np.sort(np.random.default_rng(seed).integers(0, len(whole[2]), SAMPLE))
    return whole[0][chosen], whole[1][chosen], whole[2][chosen]


def _errors(model: Any, train: Triples | SortedFolder, held_out: Entries, mean: float) -> dict[str, float]:
    """Return the root-mean-square error of each way to predict."""
    rows, cols, values = held_out
    cost = completion_of(train, None, model.loss, float)
    sample = sample_lines(cost, MAX_ENTRIES, 0) if isinstance(train, SortedFolder) else None
    offsets = fit_offsets(cost, sample=sample)  # the model's leave a part to W
    expected = rf.Loss.named(model.loss).expected
    guesses = {
        "the mean": np.full(len(values), mean),
        "offsets of rows and columns": expected(predictions(offsets, rows, cols)),
        f"rankfold, rank {model.rank_}": model.predict_at(rows, cols),
    }
    return {name: float(np.sqrt(np.mean((guess - values) ** 2))) for name, guess in guesses.items()}


def _coverage(model: Any, held_out: Entries) -> tuple[tuple[float, float], ...]:
    """Return which part of the held-out entries lies in intervals that promise a part of them."""
    rows, cols, values = held_out
    off = (values - model.predict_at(rows, cols)) / model.std_at(rows, cols)
    ends = [model.posterior_.ends(part) for part in PROMISED]
    inside = [float(np.mean((low <= off) & (off <= high))) for low, high in ends]
    return tuple(zip(PROMISED, inside, strict=True))


def _aligned(held_out: Triples, train: Triples | SortedFolder, file: str) -> Entries:
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
    new, count = int(np.count_nonzero((sides[0] < 0) | (sides[1] < 0))), len(held_out)
    if new:
        note(f"rankfold: warning: {file}: {new:,} of {count:,} entries are of rows or columns never seen")
    return sides[0], sides[1], held_out.values
