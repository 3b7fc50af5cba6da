"""What a report of a completed matrix shows, gathered from a fitted model and the entries at hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.triples import Triples
from rankfold.distributed.spreading import SpreadTriples
from rankfold.estimators.completion import folder_report, spread_report
from rankfold.estimators.completion.choosing import fit_offsets
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.offsets import predictions
from rankfold.report import Columns, DataSummary, Report, Tried, singular_values
from rankfold.report.content import SAMPLE
from rankfold.selection.sampling import sample_lines

Floats = NDArray[np.float64]
SETTINGS = ("rank", "bias", "loss", "regularization", "bayesian", "clip", "max_iter", "tol")
PROMISED = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # parts of entries that intervals are to hold
FITTED = 1_000_000  # entries on disk that offsets are fitted to, to compare with, about
KEPT = 1_000_000  # entries that a model keeps, while it lives, to report on


class Entries(NamedTuple):
    """Entries of a matrix by position; -1 is a row or column that the model does not know."""

    rows: NDArray[np.integer]
    cols: NDArray[np.integer]
    values: Floats


class Making(NamedTuple):
    """How a model was made: of which data, in how many seconds, and what to type to get the report again."""

    source: str
    seconds: float
    command: str
    settings: dict[str, str]
    seed: int = 0


Data = Triples | SortedFolder | SpreadTriples


def report_of(model: Any, train: Data | None, held_out: Entries | None, making: Making) -> Report:
    """Gather what a report shows of a fitted `MatrixCompletion`; without entries held out, no errors.

    Without `train`, the entries that it was fitted to, the report shows what the model itself knows of them.
    """
    rows, cols, values = _sample(train, held_out, making.seed)
    summary = _summary(model, train, making.source)
    square = _loss_of(model).is_square
    swept = model.posterior_ is not None and model.posterior_.sweeps
    calibration = None if model.posterior_ is None else model.posterior_.calibration
    return Report(
        data=summary,
        rank=model.rank_,
        trace=model.trace_,
        seconds=making.seconds,
        singular_values=singular_values(*model.factors_),
        residuals=values - model.predict_at(rows, cols),
        errors={} if held_out is None else _errors(model, train, held_out, summary.mean),
        held_out=0 if held_out is None else len(held_out.values),
        settings=making.settings,
        command=making.command,
        ranks=Tried.of_path(model.rank_path_, square, finished=bool(swept)),
        weights=Tried.of_path(model.regularization_path_, square),
        coverage=_coverage(model, held_out),
        calibrated=0 if calibration is None else calibration.held_out,
        values=values,
    )


def _summary(model: Any, train: Data | None, source: str) -> DataSummary:
    if isinstance(train, SortedFolder):
        return folder_report.summary_of(train, source)
    if isinstance(train, SpreadTriples):
        return spread_report.summary_of(train, model.value_range_, source)
    repeated, _ = model.observed_.repeats()
    if train is None:
        names = getattr(model, "feature_names_in_", None)
        columns = None if names is None else Columns(str(names[0]), str(names[1]))
        least, largest = getattr(model, "value_range_", None) or (np.nan, np.nan)
        rows, cols = model.counts_
        about = np.nan, np.nan, least, largest, columns, repeated
        return DataSummary(source, model.shape_, rows, cols, *about, searched=False)
    columns = Columns(*train.names) if train.names and len(train.names) == 3 else None
    made = DataSummary.of(train.rows, train.cols, train.values, train.shape, source, columns, repeated)
    rows, cols = model.counts_  # `train` may be a part of the entries
    return replace(made, row_counts=rows, col_counts=cols)


def _loss_of(model: Any) -> Loss:
    return Loss.named(model.loss) if isinstance(model.loss, str) else model.loss


def shown_settings(model: Any) -> dict[str, str]:
    """Return the settings of a model as a report shows them, with what was chosen where they say "auto"."""
    shown = {name: f"{getattr(model, name)}" for name in SETTINGS}
    for name in ("rank", "regularization"):
        if shown[name] == "auto":
            shown[name] = f"{getattr(model, f'{name}_'):.4g}, chosen"
    return shown


def kept_entries(data: Triples, more: Triples | None = None) -> Triples:
    """Return entries, and `more` of them, to report on later: all, or a part that takes little memory."""
    if more is not None:
        rows, cols = np.concatenate([data.rows, more.rows]), np.concatenate([data.cols, more.cols])
        values = np.concatenate([data.values, more.values])
        data = Triples(rows, cols, values, more.shape, names=data.names)
    if len(data) <= KEPT:
        return data
    some = np.sort(np.random.default_rng(0).choice(len(data), KEPT, replace=False))
    return Triples(data.rows[some], data.cols[some], data.values[some], data.shape, names=data.names)


def _sample(train: Data | None, held_out: Entries | None, seed: int) -> Entries:
    """Return at most `SAMPLE` of the held-out entries, or of the fitted ones, for residuals."""
    if held_out is not None:
        whole = held_out
    elif train is None:
        return Entries(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    elif isinstance(train, SortedFolder):
        return Entries(*folder_report.sample(train, SAMPLE, seed))
    elif isinstance(train, SpreadTriples):
        return Entries(*spread_report.sample(train, SAMPLE, seed))
    else:
        whole = Entries(train.rows, train.cols, train.values)
    if len(whole.values) <= SAMPLE:
        return whole
    chosen = np.sort(np.random.default_rng(seed).integers(0, len(whole.values), SAMPLE))
    return Entries(whole.rows[chosen], whole.cols[chosen], whole.values[chosen])


def _errors(model: Any, train: Data | None, held_out: Entries, mean: float) -> dict[str, float]:
    """Return the root-mean-square error of each way to predict; others than the model's need `train`."""
    rows, cols, values = held_out
    guesses = {}
    if train is not None:
        guesses["the mean"] = np.full(len(values), mean)
    offsets = _offsets_of(train, _loss_of(model))
    if offsets is not None:
        expected = _loss_of(model).expected(predictions(offsets, rows, cols))
        guesses["offsets of rows and columns"] = expected
    guesses[f"rankfold, rank {model.rank_}"] = model.predict_at(rows, cols)
    return {name: float(np.sqrt(np.mean((guess - values) ** 2))) for name, guess in guesses.items()}


def _offsets_of(train: Data | None, loss: Loss) -> Offsets | None:
    """Offsets alone: those of a model leave a part to W."""
    if isinstance(train, SpreadTriples):
        return spread_report.offsets_of(train, Completion.from_observed(train.store, loss), FITTED)
    if train is None:
        return None
    cost = completion_of(train, None, loss, float)
    some = sample_lines(cost, FITTED, 0) if isinstance(train, SortedFolder) else None
    return fit_offsets(cost, sample=some)


def _coverage(model: Any, held_out: Entries | None) -> tuple[tuple[float, float], ...]:
    """Return which part of the held-out entries lies in intervals that promise a part of them.

    Without such entries, of those that the fit held out itself, in the intervals that it has put right since.
    """
    if model.posterior_ is None:
        return ()
    if held_out is None:
        known = model.posterior_.calibration
        return () if known is None else tuple((part, known.own(part)) for part in PROMISED)
    rows, cols, values = held_out
    off = (values - model.expected_at(rows, cols)) / model.std_at(rows, cols)
    ends = [model.posterior_.ends(part) for part in PROMISED]
    inside = [float(np.mean((low <= off) & (off <= high))) for low, high in ends]
    return tuple(zip(PROMISED, inside, strict=True))
