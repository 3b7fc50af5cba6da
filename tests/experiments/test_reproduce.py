"""Every figure at the small scale, through the command, and what it leaves behind."""

import csv
import json

import pytest
from typer.testing import CliRunner

from rankfold.cli.app import app
from rankfold.experiments.competitors import GH_GD
from rankfold.experiments.curves import SCALES, Curves, Run, Scale
from rankfold.experiments.figures import FIGURES
from rankfold.experiments.reproduce import reproduce
from rankfold.run.trace import Trace, TraceRow


def test_every_figure_leaves_plot_traces_claims_and_a_report(tmp_path, monkeypatch):
    monkeypatch.setitem(SCALES, "small", Scale("small", middle=100, large=150, instances=2))
    out = tmp_path / "reproduction"
    result = CliRunner().invoke(app, ["reproduce", "all", "--scale", "small", "-o", str(out)])
    assert result.exit_code == 0, result.output
    report = (tmp_path / "reproduction.md").read_text("utf-8")
    holds = {}
    for figure in FIGURES:
        record = json.loads((out / f"{figure.name}.json").read_text("utf-8"))
        holds[figure.name] = [claim["holds"] for claim in record["claims"]]
        assert all(claim["measured"] and claim["says"] in report for claim in record["claims"])
        assert (out / f"{figure.name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"(reproduction/{figure.name}.png)" in report
        with (out / f"{figure.name}.csv").open(encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert {row["method"] for row in rows} == {c.label for c in figure.competitors}
        assert {row["instance"] for row in rows} == {str(k) for k in range(SCALES["small"].instances)}
    # What does not depend on the size, nor on the clock.
    assert holds["step-issue"] == [True, True, True]
    assert holds["gh"][1]
    assert holds["polar-vs-svd"][0]
    assert holds["uy-metric"][0]


def test_measures_of_a_run_that_never_gets_there():
    trace = Trace([TraceRow(0, 1.0, 1.0, 0.0), TraceRow(1, 1e-6, 1.0, 0.5), TraceRow(2, 1e-7, 1.0, 2.0)])
    run = Run(GH_GD.label, 0, trace)
    assert run.first("iteration", 1e-5) == 1
    assert run.first("seconds", 1e-5) == 0.5
    assert run.first("iteration") == run.late("seconds") == float("inf")
    assert run.per_iteration() == 1.0
    assert Curves((run, run)).medians(Run.first, "seconds", 1e-5, GD=GH_GD) == {"GD": 0.5}


def test_what_there_is_none_of(tmp_path):
    with pytest.raises(ValueError, match="figure must be one of step-issue"):
        reproduce("nothing", "small", tmp_path)
    with pytest.raises(ValueError, match="scale must be one of paper, small"):
        reproduce("gh", "huge", tmp_path)
    assert CliRunner().invoke(app, ["reproduce", "nothing"]).exit_code == 2
