"""A report as one picture: what is drawn where, and that every axis says what it is."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from rankfold.report import Columns, DataSummary, Report
from rankfold.report.figure import draw
from rankfold.run.trace import Trace, TraceRow

REPORT = Report(
    data=DataSummary.of(
        np.arange(4) % 3, np.arange(4), np.arange(4.0), (3, 4), "r.csv", Columns(value="stars")
    ),
    rank=2,
    trace=Trace([TraceRow(0, 4.0, 1.0, 0.0), TraceRow(1, 1.0, 0.5, 0.1), TraceRow(2, 0.01, 0.1, 0.2)]),
    seconds=0.5,
    singular_values=np.array([3.0, 1.0]),
    residuals=np.array([-9.0, *np.linspace(-1, 1, 100), 9.0]),
    errors={"the mean": 1.0, "rankfold": 0.6},
    held_out=40,
    settings={},
    command="",
)


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draw a report, and return the figure's four axes and its title."""

    def of(report):
        kept = []
        monkeypatch.setattr(Figure, "savefig", lambda self, file, **_: (kept.append(self), file.write(b"x")))
        draw(report, tmp_path / "fit.png")
        return kept[0].axes, kept[0].get_suptitle()

    return of


def test_every_axis_says_what_it_is(drawn):
    axes, title = drawn(REPORT)
    assert title == "r.csv, completed at rank 2"
    assert [ax.get_title() for ax in axes] == [
        "how the fit went",
        "error on 40 held-out entries",
        "singular values, offsets not included",
        "residuals of 102 held-out entries",
    ]
    assert [ax.get_xlabel() for ax in axes] == [
        "iteration",
        "root-mean-square error (stars)",
        "k-th largest",
        "stars − prediction",
    ]
    assert [ax.get_ylabel() for ax in axes] == ["cost", "", "singular value", "entries"]


def test_the_panels_show_the_numbers(drawn):
    (cost, errors, spectrum, residuals), _ = drawn(REPORT)
    np.testing.assert_array_equal(cost.lines[0].get_ydata(), [4.0, 1.0, 0.01])
    assert cost.get_yscale() == "log"
    assert [bar.get_width() for bar in errors.patches] == [1.0, 0.6]
    assert [label.get_text() for label in errors.texts] == ["1", "0.6"]
    np.testing.assert_array_equal(spectrum.lines[0].get_ydata(), [3.0, 1.0])
    stems = spectrum.collections[0].get_segments()
    np.testing.assert_array_equal(stems, [[[1, 0], [1, 3]], [[2, 0], [2, 1]]])
    assert sum(bar.get_height() for bar in residuals.patches) == 102  # those beyond are in the end bars
    assert len(residuals.patches) == 41
    reach = 4 * REPORT.residuals.std()
    centres = [bar.get_x() + bar.get_width() / 2 for bar in residuals.patches]
    np.testing.assert_allclose([centres[0], centres[-1]], [-reach * 40 / 41, reach * 40 / 41])


def test_without_held_out_entries_it_shows_where_entries_are(drawn):
    flat = Trace([TraceRow(0, 1.0, 1.0, 0.0), TraceRow(1, 0.9, 0.5, 0.1)])
    unnamed = replace(REPORT.data, columns=None)
    (cost, density, _, residuals), _ = drawn(replace(REPORT, errors={}, held_out=0, trace=flat, data=unnamed))
    assert cost.get_yscale() == "linear"
    assert (density.get_ylabel(), density.get_yscale()) == ("entries", "symlog")
    assert density.get_xlabel() == "part of the rows or columns, fullest first"
    rows, cols = density.lines
    assert rows.get_ydata().tolist() == [2, 1, 1]
    assert cols.get_ydata().tolist() == [1, 1, 1, 1]
    assert residuals.get_title() == "residuals of 102 fitted entries"
    assert residuals.get_xlabel() == "value − prediction"
