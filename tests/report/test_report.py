"""The report: self-contained, well formed, and its numbers are those of the data."""

import re
import xml.etree.ElementTree as ET
from base64 import b64decode
from dataclasses import replace
from html.parser import HTMLParser

import matplotlib.image
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.report import (
    Columns,
    DataSummary,
    Picture,
    Report,
    Tried,
    charts,
    render,
    singular_values,
    write_report,
)
from rankfold.report.axis import ChartAxis, tick_text
from rankfold.report.png import png
from rankfold.run.trace import Trace, TraceRow
from rankfold.selection.rank import RankPath

VOID = {"meta", "link", "br", "img"}


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
        ranks=Tried.of_losses((1, 2, 3), (0.81, 0.49, 0.64), (0.18, 0.07, 0.16), 2, square=True),
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
    assert "no entries were held out" in render(report(errors={}, held_out=0, ranks=None))


def test_what_intervals_promise_and_hold_is_said():
    page = render(report(coverage=((0.5, 0.52), (0.9, 0.87), (0.95, 0.96))))
    assert "Intervals that are to hold 90% of the entries hold 87% of these." in " ".join(parsed(page).text)
    assert page.count("<svg") == render(report()).count("<svg") + 1
    assert "Intervals that are to hold" not in render(report())


def test_without_held_out_entries_those_of_the_fit_tell_how_sure_it_was():
    page = render(report(errors={}, held_out=0, coverage=((0.5, 0.52), (0.9, 0.87)), calibrated=2177))
    text = " ".join(parsed(page).text)
    assert "Of 2,177 entries that the fit held out" in text
    assert "intervals that are to hold 90% held 87%" in text
    assert "by what they promise, before they were put right" in text
    assert "Intervals that are to hold" not in text
    assert page.count("<svg") == render(report(errors={}, held_out=0)).count("<svg") + 1


def drawn_in(page):
    return re.findall(r"<svg.*?</svg>", page, re.DOTALL)


def test_charts_are_valid_svg():
    weights = Tried.of_losses((2.0, 0.2, 0.0), (0.5, 0.3, 0.4), (0.1, 0.1, 0.1), 0.2, square=False)
    whole = report(values=report().residuals + 3, weights=weights, coverage=((0.5, 0.4), (0.9, 0.95)))
    drawn = drawn_in(render(whole))
    assert len(drawn) == 10
    for chart in drawn:
        for element in ET.fromstring(chart).iter():
            for name in ("x", "y", "width", "height", "cx", "cy"):
                assert np.isfinite(float(element.get(name, 0)))
                assert float(element.get(name, 0)) >= 0


def numbers_of(chart, kind, name):
    elements = ET.fromstring(chart).iter()
    return [float(element.get(name)) for element in elements if element.get("class") == kind]


def test_a_choice_has_points_bars_and_its_candidate_marked():
    choice = Tried.of_losses((1, 2, 4), (0.81, 0.49, 0.64), (0.18, 0.07, 0.0), 2, square=True)
    assert choice.errors == pytest.approx((0.9, 0.7, 0.8))
    assert choice.bars == pytest.approx((0.1, 0.05, 0.0))
    chart = charts.tried(choice, "rank", choice.unit)
    across, down = numbers_of(chart, "dot", "cx"), numbers_of(chart, "dot", "cy")
    assert across[1] - across[0] == pytest.approx((across[2] - across[0]) / 3, abs=0.2)
    assert down[1] > down[2] > down[0]  # downwards: the smaller the error
    assert numbers_of(chart, "ring", "cx") == across[1:2]
    assert numbers_of(chart, "ring", "cy") == down[1:2]
    assert chart.count("whisker") == 2
    assert "root-mean-square error" in chart
    whisker = re.search(r'class="whisker" d="M[\d.]+ ([\d.]+)V([\d.]+)"', chart)
    per_unit = (down[1] - down[0]) / 0.2
    assert float(whisker[1]) - float(whisker[2]) == pytest.approx(0.2 * per_unit, abs=0.3)


def test_a_choice_of_weights_has_a_place_for_0_left_of_all_others():
    choice = Tried.of_losses((1.0, 0.01, 0.0), (3.0, 2.0, 4.0), (), 0.01, square=False)
    chart = charts.tried(choice, "weight", choice.unit, log=True)
    assert (choice.errors, choice.unit) == ((3.0, 2.0, 4.0), "mean loss")
    assert numbers_of(chart, "dot", "cx") == sorted(numbers_of(chart, "dot", "cx"))
    zero = next(e for e in ET.fromstring(chart).iter() if e.text == "0" and e.get("text-anchor") == "middle")
    assert float(zero.get("x")) == numbers_of(chart, "dot", "cx")[0] == charts.LEFT
    assert "whisker" not in chart


def test_calibration_is_drawn_beside_the_line_of_what_is_promised():
    chart = charts.calibration((0.5, 0.9), (0.4, 0.9), "promised", "held")
    (x1, x2), (y1, y2) = numbers_of(chart, "dot", "cx"), numbers_of(chart, "dot", "cy")
    wide, high = charts.WIDTH - charts.LEFT - charts.RIGHT, charts.HEIGHT - charts.TOP - charts.BOTTOM
    along = [(x - charts.LEFT) / wide for x in (x1, x2)]
    up = [(charts.HEIGHT - charts.BOTTOM - y) / high for y in (y1, y2)]
    # both axes go from 0.35, a little below all that is drawn, to 1
    assert along == pytest.approx([0.15 / 0.65, 0.55 / 0.65], abs=2e-3)
    assert up == pytest.approx([0.05 / 0.65, 0.55 / 0.65], abs=2e-3)
    corners = f"M{charts.LEFT} {charts.HEIGHT - charts.BOTTOM}L{charts.WIDTH - charts.RIGHT} {charts.TOP}"
    assert f'class="even" d="{corners}"' in chart


def test_many_points_are_a_line_with_its_end_marked():
    few, many = np.arange(40), np.arange(41)
    assert len(numbers_of(charts.line(few, few, "x", "y"), "dot", "cx")) == 40
    (end,) = numbers_of(charts.line(many, many, "x", "y"), "dot", "cx")
    assert end == charts.WIDTH - charts.RIGHT


def test_a_fit_without_error_has_no_bar():
    assert Tried.of_losses((1, 2), (1.0, 0.0), (0.5, 0.5), 2, square=True).bars == (0.25, 0.0)


def test_a_choice_is_taken_from_the_path_of_a_model():
    ranks = RankPath((1, 2), (0.25, 0.0625), (0.5, 0.25), (0.1, 0.1), 2)
    assert Tried.of_path(ranks, True) == Tried((1, 2), (0.5, 0.25), (0.5, 0.5), 2)
    weights = RegularizationPath((2.0, 0.0), (3.0, 1.0), 0.0, (0.5, 0.25))
    assert Tried.of_path(weights, False) == Tried((2.0, 0.0), (3.0, 1.0), (0.5, 0.25), 0.0, False)
    assert Tried.of_path(None, True) is None


def test_every_chart_names_both_axes():
    for chart in drawn_in(render(report(values=report().residuals, coverage=((0.5, 0.4), (0.9, 0.9))))):
        label = ET.fromstring(chart).get("aria-label")
        titles = [e.text for e in ET.fromstring(chart).iter() if e.tag == "text" and e.get("class") is None]
        assert label == "error by method" or label == f"{titles[0]} over {titles[-1]}"


def test_predictions_are_drawn_against_the_truth():
    truth = np.repeat([1.0, 2.0, 3.0, 4.0], 100)
    chart = charts.density(truth, truth, "true stars", "predicted stars")
    (path,) = re.findall(r'class="cell" opacity="1.00" d="([^"]+)"', chart)
    cells = [tuple(map(float, cell)) for cell in re.findall(r"M([\d.]+) ([\d.]+)h", path)]
    assert path.count("h8.2v4.7h-8.2z") == 4  # a 36th of the width and of the height
    assert len(cells) == 4  # on the line where both are equal, from the lower left to the upper right
    assert cells == sorted(cells)
    assert [y for _, y in cells] == sorted((y for _, y in cells), reverse=True)
    page = render(report(values=report().residuals + 3, data=replace(report().data, columns=STARS)))
    assert "true stars" in page
    assert "predicted stars" in page
    assert "stars − prediction" in page


STARS = Columns("user", "film", "stars")


def odd_data(columns=STARS):
    """One pair twice, a row and two columns of one value each, a value far out, an empty row."""
    rows = np.repeat(np.arange(8), 6)
    cols = np.tile(np.arange(6), 8)
    values = np.sin(np.arange(48.0))
    values[rows == 3] = 0.5
    values[(cols == 1) | (cols == 2)] = 0.5
    values[0] = 99.0
    again = [np.append(rows, 7), np.append(cols, 5), np.append(values, 0.0)]
    return DataSummary.of(*again, (10, 6), "odd.csv", columns)


def test_what_is_odd_about_the_data_is_found():
    data = odd_data()
    assert (data.repeated, data.constant_rows, data.constant_cols, data.outliers) == (1, 1, 2, 1)
    assert data.fences[0] < -1 < 1 < data.fences[1] < 99
    assert DataSummary.of(*np.zeros((2, 3), int), np.ones(3), (1, 1), "x").repeated == 2
    assert DataSummary.of(*np.zeros((2, 3), int), np.ones(3), (1, 1), "x", repeated=0).repeated == 0
    four = DataSummary.of(np.zeros(4, int), np.arange(4), np.ones(4), (1, 4), "x")
    assert (four.constant_rows, four.outliers, four.fences) == (0, 0, (-np.inf, np.inf))
    five = DataSummary.of(np.zeros(5, int), np.arange(5), np.ones(5), (1, 5), "x")
    assert (five.constant_rows, five.constant_cols) == (1, 0)
    column = DataSummary.of(np.arange(5), np.zeros(5, int), np.ones(5), (5, 1), "x")
    assert (column.constant_rows, column.constant_cols) == (0, 1)


def test_fences_are_three_interquartile_ranges_out():
    values = np.arange(101.0)  # quartiles 25 and 75
    data = DataSummary.of(np.zeros(101, int), np.arange(101), values, (1, 101), "x")
    assert data.fences == (-125.0, 225.0)


def test_what_is_odd_about_the_data_is_said():
    problems = odd_data().problems(rank=7)
    assert problems == [
        "1 entry repeats the row and the column of another one: each counts as an observation.",
        "1 row has one and the same value in all of 5 or more entries.",
        "2 columns have one and the same value in all of 5 or more entries.",
        problems[3],
        "7 of 10 rows have fewer entries than the rank, 7: little is known of them.",
    ]
    assert problems[3].startswith("1 value lies far out, below")
    text = " ".join(parsed(render(report(data=odd_data(), rank=7))).text)
    assert all(problem in text for problem in problems)
    assert "user × film → stars" in text
    fine = replace(odd_data(), repeated=0, constant_rows=0, constant_cols=0, outliers=0)
    assert "None found" in render(report(data=fine))


def test_pictures_are_a_part_of_the_page():
    page = render(report(pictures=(Picture('a "cloth"', png(np.full((2, 3, 3), 300.0))),)))
    (source,) = re.findall(r'<img alt="a &quot;cloth&quot;" src="([^"]+)"', page)
    kind, _, content = source.partition(",")
    assert kind == "data:image/png;base64"
    assert b64decode(content)[:4] == b"\x89PNG"
    assert "<img" not in render(report())


def test_a_png_holds_the_pixels(tmp_path):
    picture = np.arange(24.0).reshape(2, 4, 3) * 10 + 0.4
    (tmp_path / "p.png").write_bytes(png(picture))
    read = matplotlib.image.imread(tmp_path / "p.png")
    np.testing.assert_array_equal(np.rint(read * 255), np.arange(24).reshape(2, 4, 3) * 10)
    (tmp_path / "p.png").write_bytes(png(np.array([[[-3.0, 300.0, 7.6]]])))
    np.testing.assert_array_equal(np.rint(matplotlib.image.imread(tmp_path / "p.png") * 255), [[[0, 255, 8]]])


def test_a_shade_for_each_power_of_the_number_of_points():
    counts = 2 ** np.arange(1, 7) - 1  # log(1 + count) in even steps
    at = np.repeat(np.arange(6.0), counts)
    chart = charts.density(at, at, "x", "y")
    assert re.findall(r'opacity="([\d.]+)"', chart) == ["0.17", "0.33", "0.50", "0.67", "0.83", "1.00"]


@pytest.mark.parametrize(("last", "drawn"), [(1.0, False), (0.99, True)])
def test_a_cost_is_drawn_where_it_falls_by_a_fifth(last, drawn):
    trace = Trace([TraceRow(0, 1.2, 1.0, 0.0), TraceRow(1, last, 0.5, 0.1)])
    assert ("Cost after each iteration" in render(report(trace=trace))) == drawn


def test_a_cost_that_hardly_falls_is_said_in_words():
    flat = Trace([TraceRow(0, 0.2678, 1.0, 0.0), TraceRow(1, 0.2674, 0.5, 0.1)])
    page = render(report(trace=flat))
    assert "its cost went from 0.2678 to 0.2674 in 1 iteration." in page
    assert "Cost after each iteration" not in page
    assert "Cost after each iteration" in render(report())


def test_extreme_data_can_be_drawn():
    one = Trace([TraceRow(0, 0.0, 0.0, 0.0)])
    parsed(render(report(trace=one, singular_values=np.zeros(1), residuals=np.zeros(3), ranks=None)))
    parsed(render(report(values=np.ones(400), residuals=np.zeros(400))))
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


def test_a_short_logarithmic_axis_has_even_ticks():
    assert ChartAxis(1.0, 99.0, log=True).ticks() == [20.0, 40.0, 60.0, 80.0]
    assert ChartAxis(1.0, 100.0, log=True).ticks() == [1.0, 10.0, 100.0]


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


def test_a_choice_says_its_unit_and_what_was_finished():
    tried = Tried.of_losses((1, 2), (0.81, 0.49), (0.18, 0.07), 2, square=True)
    named = replace(report().data, columns=Columns("user", "film", "stars"))
    page = render(report(data=named, ranks=tried))
    assert ">root-mean-square error (stars)</text>" in page
    assert "bars are standard errors<" in page
    page = render(report(ranks=replace(tried, square=False, finished=True)))
    assert ">mean loss</text>" in page
    assert "bars are standard errors; the best were tried with the Bayesian finish too<" in page


def test_a_report_without_values_leaves_out_what_they_tell():
    silent = replace(report().data, mean=np.nan, deviation=np.nan, searched=False)
    page = render(report(data=silent, residuals=np.empty(0), errors={}, values=np.empty(0)))
    assert "Residuals of" not in page
    assert "nan" not in page
    assert "Not looked for: constant rows and columns and values far out." in page
