import csv
import json
from math import inf, isnan, nan
from typing import get_type_hints

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from run_toys import HeavyBall, make_problem

from rankfold.run.driver import minimize
from rankfold.run.trace import Trace, TraceRow

mpl.use("Agg")


@pytest.fixture(scope="module")
def trace():
    return minimize(make_problem(), HeavyBall(), max_iterations=12, tolerance=0).trace


ODD = Trace(
    [TraceRow(0, 0.1 + 0.2, 1e-320, 0.0), TraceRow(1, -0.0, 5.0, 0.1, radius=inf, rho=-inf, note="a, “b”\n")]
)


def test_one_row_per_iteration_start_and_end_included(trace):
    assert trace["iteration"].tolist() == list(range(13))
    assert (np.diff(trace["seconds"]) >= 0).all()
    assert len(trace) == len(list(trace)) == 13
    assert trace[-1] == trace[12] == list(trace)[-1]


def test_evaluations_are_those_of_the_iteration(trace):
    assert trace["values"].tolist() == [0] + [1] * 12
    assert trace["gradients"].tolist() == [1] * 13
    assert trace["hessians"].sum() == trace["polynomials"].sum() == 0


def test_what_a_method_does_not_report_is_zero_or_unknown():
    row = TraceRow(3, 1.0, 2.0, 0.5)
    assert (row.backtracks, row.inner_iterations, row.note) == (0, 0, "")
    assert (row.values, row.gradients, row.hessians, row.polynomials, row.blocks) == (0,) * 5
    assert all(map(isnan, (row.step, row.radius, row.rho)))


def test_as_arrays(trace):
    whole = np.asarray(trace)
    assert whole.dtype.names == TraceRow._fields
    for name in TraceRow._fields:
        np.testing.assert_array_equal(whole[name], trace[name])
        np.testing.assert_array_equal(getattr(trace.array, name), trace[name])
    assert {trace[name].dtype.kind for name in ("iteration", "backtracks", "values")} == {"i"}
    assert trace["value"].dtype == np.float64
    assert trace["note"].tolist() == [row.note for row in trace]
    assert trace.__array__(object).dtype == object


def test_a_row_counts_nothing_unless_told():
    row = TraceRow(0, 1.0, 2.0, 0.5)
    assert (row.backtracks, row.inner_iterations, *row[9:13], row.note) == (0, 0, 0, 0, 0, 0, "")


@pytest.mark.parametrize("rows", [ODD, Trace([])])
def test_arrays_hold_every_bit(rows):
    again = Trace.from_array(np.asarray(rows))
    assert repr(list(again)) == repr(list(rows))


def test_csv_reads_back_exactly(tmp_path, trace):
    for rows in (trace, ODD):
        rows.to_csv(tmp_path / "t.csv")
        with (tmp_path / "t.csv").open(newline="", encoding="utf-8") as file:
            read = list(csv.DictReader(file))
        assert [float(r["value"]) for r in read] == rows["value"].tolist()
        assert [r["note"] for r in read] == rows["note"].tolist()
    frame = pd.read_csv(tmp_path / "t.csv")
    np.testing.assert_allclose(frame["value"], ODD["value"], rtol=1e-15)
    assert isnan(frame["radius"][0])
    assert frame["radius"][1] == inf


def test_json_reads_back_exactly(tmp_path, trace):
    trace.to_json(tmp_path / "t.json")
    read = json.loads((tmp_path / "t.json").read_text())
    assert [r["value"] for r in read] == trace["value"].tolist()
    ODD.to_json(tmp_path / "odd.json")
    text = (tmp_path / "odd.json").read_text()
    read = json.loads(text, parse_constant=lambda _: pytest.fail("not JSON"))
    assert read[0]["value"] == 0.1 + 0.2
    assert read[1]["radius"] is None
    assert read[1]["note"] == ODD[1].note


def test_pandas(trace):
    frame = trace.to_pandas()
    assert list(frame.columns) == list(TraceRow._fields)
    assert frame["value"].tolist() == trace["value"].tolist()
    assert pd.api.types.is_integer_dtype(frame["gradients"])


@pytest.mark.parametrize("against", ["iteration", "seconds"])
def test_plot_has_a_panel_for_each(trace, against):
    both = upper, lower = trace.plot(against=against)
    assert (upper.get_ylabel(), lower.get_ylabel()) == ("value", "gradient norm")
    assert lower.get_xlabel() == against
    for ax, column in ((upper, "value"), (lower, "gradient_norm")):
        assert ax.get_yscale() == "log"
        (drawn,) = ax.get_lines()
        np.testing.assert_array_equal(drawn.get_xdata(), trace[against])
        np.testing.assert_array_equal(drawn.get_ydata(), trace[column])
    assert trace.plot(both, against=against) == both
    assert [len(ax.get_lines()) for ax in both] == [2, 2]
    upper.figure.savefig("/dev/null", format="png")
    mpl.pyplot.close(upper.figure)


@pytest.mark.parametrize("values", [[1.0, 0.0], [0.0], [-1.0, -2.0], [1.0]])
def test_plot_of_what_a_logarithm_cannot_show(values):
    upper, _ = Trace([TraceRow(k, value, max(value, 0.0), 0.0) for k, value in enumerate(values)]).plot()
    assert upper.get_yscale() == ("log" if values[0] > 0 else "linear")
    drawn = upper.get_lines()[0].get_ydata()
    np.testing.assert_array_equal(
        drawn, np.where(np.array(values) > 0, values, nan) if values[0] > 0 else values
    )
    upper.figure.savefig("/dev/null", format="png")
    mpl.pyplot.close(upper.figure)


def test_bad_names_say_what_there_is(trace):
    with pytest.raises(KeyError, match="gradient_norm"):
        trace["grad"]
    with pytest.raises(IndexError, match="13 rows"):
        trace[13]
    with pytest.raises(ValueError, match="seconds"):
        trace.plot(against="time")


def test_a_trace_never_changes():
    start = Trace([TraceRow(0, 3.0, 1.0, 0.0)])
    one = start.extended(TraceRow(1, 2.0, 1.0, 0.0))
    other = start.extended(TraceRow(1, 1.0, 1.0, 0.0))
    longer = one.extended(TraceRow(2, 0.5, nan, 0.0))
    assert [len(t) for t in (start, one, other, longer)] == [1, 2, 2, 3]
    assert [t["value"].tolist() for t in (start, one, other, longer)] == [[3], [3, 2], [3, 1], [3, 2, 0.5]]


def test_repr_shows_both_ends(trace):
    lines = repr(trace).splitlines()
    assert lines[0] == "Trace of 13 rows"
    assert lines[1].split()[:3] == ["iteration", "value", "gradient"]
    assert [line.split()[0] for line in lines[2:]] == ["0", "1", "2", "...", "9", "10", "11", "12"]
    assert len(repr(ODD).splitlines()) == 4


def test_eight_rows_are_shown_and_of_more_the_first_three_and_the_last_four():
    rows = [TraceRow(k, 10.0**-k, 3.0, 0.25, note="n" * k) for k in range(9)]
    assert repr(Trace(rows[:2])).splitlines() == [
        "Trace of 2 rows",
        "iteration  value  gradient norm  seconds  step  backtracks  inner iterations  note",
        "        0      1              3     0.25   nan           0                 0",
        "        1    0.1              3     0.25   nan           0                 0     n",
    ]
    for count, shown in ((8, [*"01234567"]), (9, [*"012", "...", *"5678"])):
        lines = repr(Trace(rows[:count])).splitlines()
        assert [line.split()[0] for line in lines[2:]] == shown
        assert len({line.index(line.split()[0]) + len(line.split()[0]) for line in lines[2:]}) == 1
        assert len(lines[1]) == len(lines[-1])


def test_an_array_without_a_column_is_no_trace_but_for_the_counted_blocks():
    whole = np.asarray(Trace([TraceRow(0, 4.0, 2.0, 0.0)]))
    for name in whole.dtype.names:
        rest = whole[[other for other in whole.dtype.names if other != name]]
        if name == "blocks":
            assert Trace.from_array(rest)[0].value == 4.0
        else:
            with pytest.raises(ValueError, match=r"no trace has the shape \(1,\)"):
                Trace.from_array(rest)


def test_columns_have_their_types_whatever_the_rows_hold():
    kinds = {int: "i", float: "f", str: "U"}
    for trace in (Trace([]), Trace([TraceRow(0, 1, 2, 0)])):  # whole numbers, and no numbers at all
        for name, kind in get_type_hints(TraceRow).items():
            assert trace[name].dtype.kind == kinds[kind]


def test_what_is_no_array_of_a_trace_is_refused():
    whole = np.asarray(Trace([TraceRow(k, 4.0, 2.0, 0.0) for k in range(2)]))
    kinds = [(name, whole.dtype[name]) for name in whole.dtype.names]
    others = [
        whole.reshape(1, 2),
        np.zeros(3),
        whole.astype([kinds[1], kinds[0], *kinds[2:]]),
        whole.astype([("iteration", float), *kinds[1:]]),
        whole.astype([*kinds[:-1], ("note", "S3")]),
        np.zeros(2, [*kinds, ("more", int)]),
    ]
    for array in others:
        with pytest.raises(ValueError, match="no trace has the shape"):
            Trace.from_array(array)
    assert repr(list(Trace.from_array(whole[:1]))) == repr([TraceRow(0, 4.0, 2.0, 0.0)])


def test_a_trace_that_another_has_grown_from_has_its_own_rows_alone():
    rows = [TraceRow(k, 3.0 - k, 1.0, 0.5 * k, note="n" * k) for k in range(4)]
    start = Trace(rows[:2])
    longer = start.extended(rows[2]).extended(rows[3])
    assert (start[-1], start[-2], start[1], longer[-1], longer[-4]) == (
        rows[1],
        rows[0],
        rows[1],
        rows[3],
        rows[0],
    )
    assert (list(start), len(longer)) == (rows[:2], 4)
    assert start["value"].tolist() == np.asarray(start)["value"].tolist() == [3.0, 2.0]
    assert np.asarray(start).dtype["note"] == np.dtype("U1")
    assert len(start.to_pandas()) == 2
    for key in (2, -3):
        with pytest.raises(IndexError, match=f"row {key} of a trace of 2 rows"):
            start[key]
