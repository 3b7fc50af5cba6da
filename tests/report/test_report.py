"""The report: self-contained, well formed, and its numbers are those of the data."""

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankfold.report import DataSummary, Report, charts, render, singular_values, write_report
from rankfold.report.axis import ChartAxis, tick_text
from rankfold.run.trace import Trace, TraceRow

VOID = {"meta", "link", "br"}


class Balanced(HTMLParser):
    """Raises where tags do not match; collects all text."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    parser = Balanced()
    parser.feed(page)
    assert parser.open == []
    return parser


def report(**changes):
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 30, 400), rng.integers(0, 20, 400)
    values = rng.standard_normal(400)
    whole = Report(
        data=DataSummary.of(rows, cols, values, (31, 20), "ratings.csv"),
        rank=2,
        trace=Trace([TraceRow(0, 4.0, 1.0, 0.0), TraceRow(1, 1.0, 0.5, 0.1), TraceRow(2, 0.01, 0.1, 0.2)]),
        seconds=0.5,
        singular_values=np.array([3.0, 1.0]),
        residuals=values,
        errors={"the mean": 1.0, "offsets alone": 0.8, "rankfold": 0.6},
        held_out=40,
        settings={"rank": "2"},
        command="rankfold complete ratings.csv",
        ranks=((1, 0.9), (2, 0.7), (3, 0.8)),
    )
    return replace(whole, **changes)


def test_says_what_it_should():
    text = " ".join(parsed(render(report())).text)
    for part in (
        "31 × 20",
        "400 (65%)",
        "1 have none",
        "2 iterations",
        "25% below offsets alone",
        "40 entries",
    ):
        assert part in text
    assert "rankfold complete ratings.csv" in text


def test_fetches_nothing_and_runs_nothing():
    page = render(report())
    assert not re.search(r"https?:|//|@import|url\(|src=", page)
    assert "default-src 'none'" in page  # and browsers are told to fetch nothing
    assert "script" not in parsed(page).tags
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page


def test_labels_are_text_not_markup():
    name = '<script>alert("1")</script>&amp;.csv'
    summary = replace(report().data, source=name)
    page = render(report(data=summary, command=name, settings={name: name}, errors={name: 1.0, "ours": 0.5}))
    assert "script" not in parsed(page).tags
    assert name in "".join(parsed(page).text)


def test_worse_than_a_baseline_is_said():
    text = " ".join(parsed(render(report(errors={"the mean": 1.0, "rankfold": 1.5}))).text)
    assert re.search(r"50%\s+above\s+the mean", text)


def test_without_held_out_entries_it_says_so():
    assert "no entries were held out" in render(report(errors={}, held_out=0, ranks=()))


def test_what_intervals_promise_and_hold_is_said():
    page = render(report(coverage=((0.5, 0.52), (0.9, 0.87), (0.95, 0.96))))
    assert "Intervals that are to hold 90% of the entries hold 87% of these." in " ".join(parsed(page).text)
    assert page.count("<svg") == render(report()).count("<svg") + 1
    assert "Intervals that are to hold" not in render(report())


def test_charts_are_valid_svg():
    page = render(report())
    drawn = re.findall(r"<svg.*?</svg>", page, re.S)
    assert len(drawn) == 7
    for chart in drawn:
        for element in ET.fromstring(chart).iter():
            for name in ("x", "y", "width", "height", "cx", "cy"):
                assert np.isfinite(float(element.get(name, 0)))
                assert float(element.get(name, 0)) >= 0


def test_extreme_data_can_be_drawn():
    one = Trace([TraceRow(0, 0.0, 0.0, 0.0)])
    parsed(render(report(trace=one, singular_values=np.zeros(1), residuals=np.zeros(3), ranks=((1, 0.5),))))
    single = DataSummary.of(np.array([0]), np.array([0]), np.array([2.0]), (1, 1), "one")
    parsed(render(report(data=single, errors={"the mean": 0.0, "rankfold": 0.0})))


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=50))
def test_every_row_is_in_one_bar(counts):
    edges, heights, log = charts.bins(counts)
    assert heights.sum() == len(counts)
    assert (np.diff(edges) > 0).all()
    assert not log or edges[0] > 0


@given(st.floats(1e-9, 1e9), st.floats(1.05, 1e9), st.booleans())
def test_ticks_are_few_round_and_on_the_axis(low, factor, log):
    axis = ChartAxis(low, low * factor, log)
    ticks = axis.ticks()
    assert len(ticks) <= 8
    assert all(-1e-6 <= axis(tick) <= 1 + 1e-6 for tick in ticks)
    assert len({tick_text(tick) for tick in ticks}) == len(ticks)


def test_singular_values_are_those_of_the_product():
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    np.testing.assert_allclose(singular_values(L, R), np.linalg.svd(L @ R.T)[1][:3], rtol=1e-12)


def test_a_report_replaces_the_old_one_only_when_complete(tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    write_report(report(), path)
    old = path.read_bytes()

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr("rankfold.run.checkpoint.os.fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_report(report(rank=3), path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
