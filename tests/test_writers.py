"""Whatever writes a file keeps the old one where the new one cannot be finished."""

import errno
import functools
import os

import numpy as np
import pytest

import rankfold as rf
from rankfold.cli import demo
from rankfold.experiments import reproduce as reproduction
from rankfold.experiments.curves import SCALES, Curves, Run
from rankfold.experiments.figures import FIGURES
from rankfold.experiments.running import Plan, Setting
from rankfold.report import DataSummary, Report, figure, write_report


@functools.cache
def result():
    data = rf.data.random_completion((20, 15), 1, 3, seed=0)
    cost = rf.Completion(data.rows, data.cols, data.values, data.shape)
    return rf.minimize(rf.Problem.of(cost, 1), rf.ConjugateGradient(), max_iterations=2)


def report():
    rows = np.arange(4)
    return Report(
        data=DataSummary.of(rows, rows, rows + 1.0, (4, 4), "ratings.csv"),
        rank=1,
        trace=result().trace,
        seconds=1.0,
        singular_values=np.ones(1),
        residuals=np.ones(4),
        errors={},
        held_out=0,
        settings={},
        command="",
    )


def demonstration():
    picture = np.tile(np.eye(4)[:, :, None], 3)
    return demo.Demo(picture, np.eye(4) > 0, picture, result(), 1.0)


def write_figure(path):
    gh, plan = next(figure for figure in FIGURES if figure.name == "gh"), Plan(SCALES["small"], Setting(), 0)
    curves = Curves(tuple(Run(competitor.label, 0, result().trace) for competitor in gh.competitors))
    reproduction.write_figure(gh, curves, plan, 1.0, path.parent)


WRITERS = {
    "trace.csv": lambda path: result().trace.to_csv(path),
    "trace.json": lambda path: result().trace.to_json(path),
    "report.html": lambda path: write_report(report(), path),
    "plot.png": lambda path: figure.draw(report(), path),
    "plot.PDF": lambda path: figure.draw(report(), path),
    "demo.png": lambda path: demo.draw(demonstration(), path),
    "demo.csv": lambda path: demo.write_known(demonstration(), path),
    "gh.png": write_figure,
    "gh.csv": write_figure,
    "gh.json": write_figure,
    "reproduction.md": lambda path: reproduction.write_report((), path.with_suffix("")),
}
KINDS = {".png": b"\x89PNG", ".pdf": b"%PDF", ".html": b"<!DOCTYPE", ".md": b"#"}


@pytest.mark.parametrize("name", WRITERS)
def test_the_old_file_stays_until_the_new_one_is_on_disk(name, tmp_path, monkeypatch):
    replace = os.replace

    def refused(draft, target):
        if target.name == name:
            raise OSError(errno.EPERM, "refused")
        replace(draft, target)

    path = tmp_path / name
    path.write_bytes(b"old")
    with monkeypatch.context() as disk:
        disk.setattr(os, "replace", refused)
        with pytest.raises(OSError, match="refused"):
            WRITERS[name](path)
    assert path.read_bytes() == b"old"
    assert not list(tmp_path.glob(".*"))
    WRITERS[name](path)
    assert path.read_bytes() != b"old"
    assert path.read_bytes().startswith(KINDS.get(path.suffix.lower(), b""))
