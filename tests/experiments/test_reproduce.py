"""Every figure at the small scale, through the command, and what it leaves behind."""

import csv
import json
import os

import numpy as np
import pytest
from typer.testing import CliRunner

from rankfold.baselines import RTRMC
from rankfold.cli.app import app
from rankfold.experiments import running
from rankfold.experiments.competitors import GH_GD, GH_TR, LMAFIT
from rankfold.experiments.curves import SCALES, Curves, Figure, Run, Scale
from rankfold.experiments.figures import FIGURES
from rankfold.experiments.reproduce import reproduce, write_figure
from rankfold.experiments.running import Plan, Setting, run_figures
from rankfold.experiments.verdicts import RULES
from rankfold.run import stopping
from rankfold.run.trace import Trace, TraceRow
from rankfold.solvers import TrustRegion

TINY = Scale("small", middle=100, large=100, instances=2, repeats=1)
TINIER = Scale("small", middle=100, large=100, instances=1, repeats=1)


def figure_named(name):
    return next(figure for figure in FIGURES if figure.name == name)


def test_every_figure_leaves_plot_traces_claims_and_a_report(tmp_path, monkeypatch):
    monkeypatch.setitem(SCALES, "small", TINIER)
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
        assert {row["instance"] for row in rows} == {str(k) for k in range(TINIER.instances)}
    # What does not depend on the size, nor on the clock.
    assert holds["step-issue"] == [True, True, True]
    assert holds["gh"][2]
    assert holds["polar-vs-svd"][0]
    assert holds["uy-metric"] == [True, True]
    assert all(word in report for word in RULES)


def test_both_settings_stand_on_one_page(tmp_path, monkeypatch):
    monkeypatch.setitem(SCALES, "small", TINY)
    out = tmp_path / "r"
    options = ["reproduce", "uy-metric", "--seeds", "1", "--seed", "3", "-o", str(out)]
    for more in ([], ["--start", "plain", "--armijo", "1e-4"]):
        result = CliRunner().invoke(app, [*options, *more])
        assert result.exit_code == 0, result.output
    ours, plain = (
        json.loads((out / f"uy-metric{suffix}.json").read_text("utf-8")) for suffix in ("", ".plain-0.0001")
    )
    assert ours["setting"] == {"start": "scaled", "armijo": 0.25}
    assert plain["setting"] == {"start": "plain", "armijo": 1e-4}
    assert ours["seeds"] == plain["seeds"] == 1
    assert ours["seed"] == 3
    assert ours["instances"] == "100 × 100, rank 5, oversampling 8, seeds 3 to 3"
    assert ours["claims"][0]["measured"] != plain["claims"][0]["measured"]
    report = (tmp_path / "r.md").read_text("utf-8")
    assert (
        "| figure | the paper says | rule | scaled start, Armijo 0.25 | plain start, Armijo 0.0001 |"
        in report
    )
    says = ours["claims"][1]["says"]
    assert f"| uy-metric | {says} | very different | reproduced | reproduced |" in report
    assert "(r/uy-metric.plain-0.0001.png)" in report
    assert "--scale small --seed 3 --seeds 1 --start plain --armijo 0.0001" in report


def test_the_setting_reaches_the_start_and_the_line_search(monkeypatch):
    seen = []

    def remember(problem, solver, x0, **options):
        seen.append((problem.geometry.from_svd, solver, x0))
        raise InterruptedError

    monkeypatch.setattr(running, "minimize", remember)
    for setting in (Setting(), Setting("plain", 1e-4)):
        cost, start = running._instance(100, 0, setting)
        for competitor in (GH_GD, LMAFIT):
            with pytest.raises(InterruptedError):
                running._trace(competitor, cost, start, setting)
    known = cost.observed.size / 100**2
    (_, ours, scaled), (_, lmafit, _), (_, theirs, plain), (_, same, _) = seen
    assert (ours.decrease, theirs.decrease) == (0.25, 1e-4)
    assert ours.metric == theirs.metric == "geometry"
    assert lmafit == same == LMAFIT.solver
    W = known * (scaled.G @ scaled.H.T)
    np.testing.assert_allclose(plain.G @ plain.H.T, W, rtol=0, atol=1e-12 * np.abs(W).max())


def test_every_method_of_the_figures_moves_in_the_metric_of_its_geometry():
    solvers = {competitor.solver for figure in FIGURES for competitor in figure.competitors}
    metrics = {getattr(solver, "metric", "geometry") for solver in solvers}
    assert metrics == {"geometry"}


def test_runs_end_at_the_paper_s_limits(monkeypatch):
    assert (SCALES["paper"].middle, SCALES["paper"].large, SCALES["paper"].instances) == (4000, 32000, 5)
    regions = (TrustRegion, RTRMC)
    for figure in FIGURES:
        for competitor in figure.competitors:
            region = isinstance(competitor.solver, regions) and getattr(competitor.solver, "order", 2) == 2
            assert competitor.limit == (100 if region else 200), competitor.label
    given = {}

    def remember(problem, solver, **options):
        given.update(options)
        raise InterruptedError

    monkeypatch.setattr(running, "minimize", remember)
    with pytest.raises(InterruptedError):
        running._trace(GH_TR, *running._instance(100, 0, Setting()), Setting())
    assert given["max_iterations"] == 100
    assert given["stop"] == stopping.ValueBelow(1e-20)
    assert given["tolerance"] == 0


def test_processes_find_what_one_process_finds(tmp_path):
    figure = figure_named("uy-metric")
    plans = (Plan(TINY, Setting(), 0, jobs) for jobs in (1, 2))
    alone, together = (run_figures([figure], plan, lambda line: None)["uy-metric"][0] for plan in plans)
    assert [(run.label, run.instance) for run in alone.runs] == [
        (competitor.label, instance) for instance in (0, 1) for competitor in figure.competitors
    ]
    for one, two in zip(alone.runs, together.runs, strict=True):
        assert (one.label, one.instance) == (two.label, two.instance)
        np.testing.assert_array_equal(one.values, two.values)


@pytest.mark.parametrize("before", [None, "3"])
def test_runs_have_one_thread_and_leave_the_environment_as_it_was(before, monkeypatch):
    name = "RANKFOLD_NUM_THREADS"
    monkeypatch.setenv(name, before or "")
    if before is None:
        monkeypatch.delenv(name)
    with running._one_thread():
        assert os.environ[name] == "1"
    assert os.environ.get(name) == before


def test_of_several_runs_of_a_method_the_fastest_counts(monkeypatch):
    ends = iter([9.0, 9.0, 5.0, 1.0, 7.0, 2.0])  # after the two that compile: two methods, in turns

    def fake(competitor, cost, start, setting):
        return Trace([TraceRow(0, 1.0, 1.0, next(ends))])

    monkeypatch.setattr(running, "_trace", fake)
    figure = figure_named("uy-metric")
    plan = Plan(Scale("small", 100, 100, 1, repeats=2), Setting(), 0)
    _, traces, _ = running._done((figure, 100, 0), plan)
    assert [trace[-1].seconds for trace in traces.values()] == [5.0, 1.0]


def test_seconds_are_those_of_the_processor_and_grow():
    cost, start = running._instance(100, 0, Setting())
    with_seconds = running._trace(GH_GD, cost, start, Setting())["seconds"]
    assert with_seconds[0] >= 0
    assert np.all(np.diff(with_seconds) >= 0)


def test_a_plot_names_the_problem_and_its_last_line(tmp_path, monkeypatch):
    from matplotlib.figure import Figure as Canvas

    drawn = []
    monkeypatch.setattr(Canvas, "savefig", lambda canvas, *rest, **options: drawn.append(canvas))
    figure = figure_named("uy-metric")
    trace = Trace([TraceRow(0, 1.0, 1.0, 0.0), TraceRow(1, 1e-21, 1.0, 1.0)])
    curves = Curves(tuple(Run(c.label, 0, trace) for c in figure.competitors))
    plan = Plan(Scale("paper", 4000, 32000, 5, 1), Setting(), 0)
    write_figure(figure, curves, plan, 1.0, tmp_path)
    (canvas,) = drawn
    size = "4000 × 4000, rank 5, oversampling 8, seeds 0 to 4; scaled start, Armijo 0.25"
    assert canvas.get_suptitle() == f"{figure.title}\n{size}"
    for axes in canvas.axes:
        assert [text.get_text() for text in axes.texts] == ["1e-20: runs end here"]
        assert axes.texts[0].xy == (1.0, 1e-20)


def test_measures_of_a_run_that_never_gets_there():
    rows = [
        TraceRow(0, 1.0, 1.0, 0.0, backtracks=0),
        TraceRow(1, 1e-6, 1.0, 0.5, backtracks=2, inner_iterations=4),
        TraceRow(2, 1e-7, 1.0, 2.0, backtracks=1, inner_iterations=7),
    ]
    run = Run(GH_GD.label, 0, Trace(rows))
    assert run.first("iteration", 1e-5) == 1
    assert run.first("seconds", 1e-5) == run.early("seconds") == 0.5
    assert run.first("iteration") == run.late("seconds") == float("inf")
    assert run.per_iteration() == 1.0
    assert run.backtracks() == 1.5
    assert (run.early_products(), run.late_products()) == (4, 7)
    assert run.final() == 1e-7
    measured = Curves((run, run)).early_seconds(GD=GH_GD)
    assert measured.numbers == {"GD": [0.5, 0.5]}
    assert str(measured) == "seconds to 1e-3 of the first cost: GD 0.5"


def test_late_phase_is_from_1e_5_to_the_end():
    values = (1.0, 1e-5, 1e-9, 1e-20)
    run = Run("x", 0, Trace([TraceRow(k, value, 1.0, k / 4) for k, value in enumerate(values)]))
    assert (run.late("iteration"), run.late("seconds")) == (2, 0.5)


def test_large_matrices_with_many_methods_come_first(monkeypatch):
    order = []

    def fake(job, plan):
        order.append((job[0].name, job[2]))
        return job, {}, 1.0

    monkeypatch.setattr(running, "_done", fake)
    figures = [Figure(n, n, s, (GH_GD,) * k, lambda c: []) for n, s, k in
               (("a", "middle", 3), ("b", "large", 2), ("c", "large", 4))]  # fmt: skip
    took = run_figures(figures, Plan(TINY, Setting(), 5), lambda line: None)
    assert order == [("c", 5), ("c", 6), ("a", 5), ("a", 6), ("b", 5), ("b", 6)]
    assert [seconds for _, seconds in took.values()] == [2.0, 2.0, 2.0]


def test_what_there_is_none_of(tmp_path):
    with pytest.raises(ValueError, match="figure must be one of step-issue"):
        reproduce("nothing", "small", tmp_path)
    with pytest.raises(ValueError, match="scale must be one of paper, small"):
        reproduce("gh", "huge", tmp_path)
    with pytest.raises(ValueError, match="seeds and jobs must be at least 1, not 0 and 1"):
        reproduce("gh", "small", tmp_path, seeds=0)
    with pytest.raises(ValueError, match="seeds and jobs must be at least 1, not None and 0"):
        reproduce("gh", "small", tmp_path, jobs=0)
    with pytest.raises(ValueError, match="start must be one of scaled, plain, not 'random'"):
        Setting("random")
    for wrong in (0.0, 1.0):
        with pytest.raises(ValueError, match="armijo must be between 0 and 1"):
            Setting(armijo=wrong)
    assert CliRunner().invoke(app, ["reproduce", "nothing"]).exit_code == 2
    assert CliRunner().invoke(app, ["reproduce", "gh", "--start", "random"]).exit_code == 2
