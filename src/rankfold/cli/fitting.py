"""What `rankfold complete` does, step by step."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from rankfold.cli.console import INTERRUPTED, fail, note, working
from rankfold.data import LabelIndex, Triples, read_triples, split
from rankfold.data.io.files import format_of
from rankfold.data.io.streams import name_of
from rankfold.data.io.text import lines_of_entries
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.offsets import fit_offsets, predictions
from rankfold.report import DataSummary, Report, singular_values
from rankfold.report.content import SAMPLE

Floats = NDArray[np.float64]
Entries = tuple[NDArray[np.integer], NDArray[np.integer], Floats]
_NO_MODEL = (
    "interrupted before there was a model: it is kept from the last fit only, after rank and regularization "
    "are chosen, unless both are given (--rank N --regularization X)"
)


@dataclass
class Job:
    """Data, a model of them, and how long each step took."""

    train: Triples
    test: Entries | None
    summary: DataSummary
    settings: dict[str, str]
    seconds: dict[str, float]
    model: Any = None
    repeated: int = 0
    sample: Entries = field(init=False)

    @classmethod
    def read(
        cls, file: str, options: dict[str, Any], test: str | None, holdout: float, seed: int, unique: bool
    ) -> Job:
        """Read the entries, and set those aside that the error is measured on."""
        began = perf_counter()
        with working(f"reading {name_of(file)}"):
            train = read_triples(file, **options)
        if unique:
            _refuse_repeated(train, file, options)
        settings = {"held out": "nothing"}
        held_out = None
        if test is not None:
            held_out = _aligned(read_triples(test, **options), train, test)
            settings["held out"] = test
        elif holdout:
            train, apart = split(train, holdout, seed)
            held_out = apart.rows, apart.cols, apart.values
            settings["held out"] = f"{holdout:.3g} of the entries, seed {seed}"
        summary = DataSummary.of(train.rows, train.cols, train.values, train.shape, name_of(file))
        return cls(train, held_out, summary, settings, {"read": perf_counter() - began})

    def fit(self, options: dict[str, Any], **run: Any) -> None:
        """Fit the model; Ctrl-C during the last fit leaves the best one so far."""
        began = perf_counter()
        self.model = rf.MatrixCompletion(**options)
        self.sample = self._sample(options["random_state"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # told in words of our own
            try:
                self.model.fit(self.train, **run)
            except KeyboardInterrupt:
                fail(_NO_MODEL, INTERRUPTED)
        if not self.model.converged_ and not self.interrupted:
            note(f"rankfold: warning: not converged ({self.model.stop_reason_}): raise --max-iterations")
        self._count_repeated()
        self.settings |= {name: f"{value}" for name, value in options.items() if name != "verbose"}
        for name in ("rank", "regularization"):
            if options[name] == "auto":
                self.settings[name] = f"{getattr(self.model, f'{name}_'):.4g}, chosen"
        self.seconds["fit"] = perf_counter() - began

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the fit."""
        return bool(self.model.stop_reason_.startswith("interrupted"))

    def save(self, path: Path) -> None:
        """Write the model."""
        rf.save(self.model, path)

    def report(self, command: str) -> Report:
        """Gather what the report, the plot and the table show."""
        model = self.model
        path = model.rank_path_
        rows, cols, values = self.sample
        return Report(
            data=self.summary,
            rank=model.rank_,
            trace=model.trace_,
            seconds=self.seconds["fit"],
            singular_values=singular_values(*model.factors_),
            residuals=values - model.predict_at(rows, cols),
            errors=self._errors(),
            held_out=0 if self.test is None else len(self.test[2]),
            settings=self.settings | {"stopped": model.stop_reason_},
            command=command,
            ranks=() if path is None else tuple(zip(path.ranks, path.errors, strict=True)),
        )

    def _sample(self, seed: int) -> Entries:
        """Return at most `SAMPLE` of the held-out entries, or of the fitted ones, for residuals."""
        whole = self.test or (self.train.rows, self.train.cols, self.train.values)
        if len(whole[2]) <= SAMPLE:
            return whole
        chosen = np.sort(np.random.default_rng(seed).integers(0, len(whole[2]), SAMPLE))
        return whole[0][chosen], whole[1][chosen], whole[2][chosen]

    def _errors(self) -> dict[str, float]:
        if self.test is None:
            return {}
        rows, cols, values = self.test
        model = self.model
        offsets = (
            model.biases_ if model.bias else fit_offsets(completion_of(self.train, None, "square", float))
        )
        expected = rf.Loss.named(model.loss).expected if model.bias else np.asarray
        guesses = {
            "the mean": np.full(len(values), self.summary.mean),
            "offsets of rows and columns": expected(predictions(offsets, rows, cols)),
            f"rankfold, rank {model.rank_}": model.predict_at(rows, cols),
        }
        return {name: float(np.sqrt(np.mean((guess - values) ** 2))) for name, guess in guesses.items()}

    def _count_repeated(self) -> None:
        """Say how many entries come more than once: each counts as an observation of its own."""
        indptr, indices = self.model.observed_
        same = indices[1:] == indices[:-1]
        starts = indptr[1:-1]
        same[starts[(starts > 0) & (starts < len(indices))] - 1] = False  # of two different rows
        self.repeated = int(np.count_nonzero(same))
        if self.repeated:
            at = int(np.argmax(same))
            pair = _names(self.train, int(np.searchsorted(indptr, at, side="right")) - 1, int(indices[at]))
            note(
                f"rankfold: warning: {self.repeated:,} entries repeat a pair, first {pair}; each counts as "
                "an observation (--duplicates error refuses them)"
            )


def _aligned(test: Triples, train: Triples, file: str) -> Entries:
    """Return the test entries with the positions that their labels have in the training data."""
    import pyarrow as pa

    sides = []
    for k in (0, 1):
        positions = (test.rows, test.cols)[k]
        labels, known = (test.row_labels, test.col_labels)[k], (train.row_labels, train.col_labels)[k]
        names = np.arange(test.shape[k]) if labels is None else labels
        sides.append(LabelIndex(train.shape[k], known).find_arrow(pa.array(names))[positions])
    new = int(np.count_nonzero((sides[0] < 0) | (sides[1] < 0)))
    if new:
        note(f"rankfold: warning: {file}: {new:,} of {len(test):,} entries are of rows or columns never seen")
    return sides[0], sides[1], test.values


def _refuse_repeated(triples: Triples, file: str, options: dict[str, Any]) -> None:
    keys = triples.rows.astype(np.int64) * triples.shape[1] + triples.cols
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    if same.size:
        first, second = order[same[0]], order[same[0] + 1]
        pair = _names(triples, int(triples.rows[first]), int(triples.cols[first]))
        where = f"entries {first + 1} and {second + 1}"
        if file != "-" and format_of(file, None) in ("csv", "tsv"):
            lines = lines_of_entries(file, (first, second), **options)
            where = f"lines {lines[0]} and {lines[1]}"
        raise ValueError(
            f"{name_of(file)}: {where} are both of {pair}, and {same.size:,} in all repeat a pair: merge "
            "them, or take each as an observation with --duplicates keep"
        )


def _names(triples: Triples, i: int, j: int) -> str:
    row, col = (
        place if labels is None else labels[place].item()
        for place, labels in ((i, triples.row_labels), (j, triples.col_labels))
    )
    return f"({row!r}, {col!r})"
