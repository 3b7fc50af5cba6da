"""`LowRankImputer(order=...)`: rows next to each other are alike."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankfold as rf
from rankfold.estimators.imputer import ordered
from rankfold.estimators.imputer.factor_model import FactorModel


def walks(n=600, seed=0, memory=30.0):
    """Columns that share a factor, each with deviations of its own that last for some rows; gaps of ten."""
    rng = np.random.default_rng(seed)
    rho = math.exp(-1 / memory)
    own = np.zeros((n, 6))
    for t in range(1, n):
        own[t] = rho * own[t - 1] + math.sqrt(1 - rho**2) * rng.standard_normal(6)
    full = rng.standard_normal((n, 1)) + 0.7 * own
    holes = np.repeat(rng.uniform(size=(n // 10, 6)) < 0.15, 10, axis=0)
    return full, np.where(holes, np.nan, full)


def error(filled, full, table):
    return float(np.sqrt(np.mean((np.asarray(filled) - full)[np.isnan(table)] ** 2)))


def model(order="rows", **settings):
    return rf.LowRankImputer(1, order=order, random_state=0, tol=1e-4, **settings)


def test_what_lasts_is_carried_into_gaps():
    full, table = walks()
    plain, smooth = (error(model(order).fit_transform(table), full, table) for order in (None, "rows"))
    assert smooth < 0.75 * plain
    linear = pd.DataFrame(table).interpolate(limit_direction="both").to_numpy()
    assert smooth < 0.6 * error(linear, full, table)
    fitted = model().fit(table)
    times, strengths = fitted.smoothing_
    assert (times >= 8).all()  # gaps are shorter than what they could tell apart from a longer one
    assert ((strengths > 0.5) & (strengths <= 1)).all()
    assert model(None).fit(table).smoothing_ is None


def test_what_does_not_last_is_left_alone():
    rng = np.random.default_rng(1)
    full = rng.standard_normal((600, 1)) + 0.3 * rng.standard_normal((600, 6))
    table = np.where(np.isnan(walks()[1]), np.nan, full)
    plain, smooth = (error(model(order).fit_transform(table), full, table) for order in (None, "rows"))
    assert smooth < 1.02 * plain


def test_known_entries_stay_as_they_are():
    _, table = walks()
    filled = model().fit_transform(table)
    known = ~np.isnan(table)
    np.testing.assert_array_equal(filled[known], table[known])
    assert np.isfinite(filled).all()


def plain_bridge(r1, d1, r2, d2, tau):
    if math.isinf(d2):
        return r1 * math.exp(-d1 / tau)
    if math.isinf(d1):
        return r2 * math.exp(-d2 / tau)
    return (r1 * math.sinh(d2 / tau) + r2 * math.sinh(d1 / tau)) / math.sinh((d1 + d2) / tau)


@pytest.mark.parametrize("tau", [0.5, 3.0, 1e5])
def test_gaps_are_bridged_as_the_formula_says(tau):
    cases = [
        (1.0, 2.0, -3.0, 5.0),
        (2.0, 1.0, 0.0, math.inf),
        (0.0, math.inf, 4.0, 3.0),
        (1.5, 4.0, 1.5, 4.0),
    ]
    before, since, after, until = map(np.array, zip(*cases, strict=True))
    found = ordered.Carried(before, after, since, until).bridged(tau)
    np.testing.assert_allclose(found, [plain_bridge(*case, tau) for case in cases], rtol=1e-6, atol=1e-12)


def test_a_long_time_means_linear_interpolation():
    found = ordered.Carried(np.array([1.0]), np.array([4.0]), np.array([1.0]), np.array([2.0])).bridged(1e6)
    np.testing.assert_allclose(found, [2.0], rtol=1e-6)


def test_deviations_are_from_what_is_said_with_the_holes_of_the_gap():
    """Column by column, with the model asked again at the rows just outside each gap."""
    rng = np.random.default_rng(3)
    L = rng.standard_normal((4, 2))
    factors = FactorModel(rng.standard_normal(4), L, np.array([0.1, 0.2, 0.3, 0.4]))
    Z, index = rng.standard_normal((9, 4)), np.array([0.0, 1, 2, 4, 5, 7, 8, 9, 11])
    known = np.ones((9, 4), dtype=bool)
    known[2:5, :2] = known[4:6, 2] = known[0, 3] = known[8, 3] = False
    smoothing = ordered.Smoothing(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.9, 0.5, 1.0, 0.8]))
    filled = smoothing.filled(factors, Z, known, index)

    def deviation(row, gap, column):
        seen = known[row] & known[gap]
        return Z[row, column] - factors.filled(Z[[row]], seen[None])[0, column]

    expected = factors.filled(Z, known)
    gaps = {0: (1, 2, 4, 5), 1: (1, 2, 4, 5), 2: (3, 4, 5, 6)}
    for column, (before, first, last, after) in gaps.items():
        r1, r2 = deviation(before, first, column), deviation(after, last, column)
        for row in range(first, last + 1):
            d1, d2 = index[row] - index[before], index[after] - index[row]
            tau, kappa = smoothing.times[column], smoothing.strengths[column]
            expected[row, column] += kappa * plain_bridge(r1, d1, r2, d2, tau)
    expected[0, 3] += 0.8 * plain_bridge(0, math.inf, deviation(1, 0, 3), 1.0, 4.0)
    expected[8, 3] += 0.8 * plain_bridge(deviation(7, 8, 3), 2.0, 0, math.inf, 4.0)
    np.testing.assert_allclose(filled, expected, rtol=1e-9)
    mixed = rng.permutation(9)
    np.testing.assert_allclose(
        smoothing.filled(factors, Z[mixed], known[mixed], index[mixed]), expected[mixed]
    )


def test_a_column_without_neighbours_is_filled_by_the_model():
    factors = FactorModel(np.zeros(2), np.array([[1.0], [1.0]]), np.array([0.5, 0.5]))
    known = np.array([[True, False], [True, False]])
    Z = np.array([[1.0, 0.0], [2.0, 0.0]])
    smoothing = ordered.Smoothing(np.ones(2), np.ones(2))
    np.testing.assert_array_equal(
        smoothing.filled(factors, Z, known, np.arange(2.0)), factors.filled(Z, known)
    )


def test_the_index_of_a_table_says_how_far_rows_are_apart():
    full, table = walks()
    times = pd.date_range("2020-01-01", periods=len(table), freq="h")
    frame = pd.DataFrame(table, index=times, columns=list("abcdef"))
    by_time, by_row = model("index").fit(frame), model("rows").fit(table)
    np.testing.assert_allclose(by_time.smoothing_.times, 3600 * by_row.smoothing_.times)
    np.testing.assert_allclose(by_time.transform(frame).to_numpy(), by_row.transform(table), rtol=1e-9)
    mixed = np.random.default_rng(0).permutation(len(frame))
    again = model("index").fit_transform(frame.iloc[mixed])
    pd.testing.assert_frame_equal(again.loc[times], by_time.transform(frame), rtol=1e-6, check_freq=False)
    numbered = frame.set_axis(np.arange(len(frame)) * 2.5)
    np.testing.assert_allclose(model("index").fit(numbered).smoothing_.times, 2.5 * by_row.smoothing_.times)
    assert error(by_time.transform(frame), full, table) == pytest.approx(
        error(by_row.transform(table), full, table)
    )


def test_times_that_are_tried_are_doubled_from_half_a_step_on():
    doubled = 2.0 ** np.arange(-1, 13)  # to 4096 steps
    np.testing.assert_array_equal(ordered._tried(np.arange(9.0)), doubled)
    # the step is the usual one between rows of different times
    np.testing.assert_array_equal(ordered._tried(np.array([0.0, 0, 0, 3, 6, 6, 9, 100])), 3 * doubled)
    np.testing.assert_array_equal(ordered._tried(np.zeros(5)), doubled)


def test_rows_of_one_time_and_tables_without_holes():
    full, table = walks()
    frame = pd.DataFrame(table, index=np.repeat(np.arange(300), 2))
    assert np.isfinite(model("index").fit_transform(frame).to_numpy()).all()
    fitted = model().fit(full)
    assert error(fitted.transform(table), full, table) < 0.75 * error(
        model(None).fit(full).transform(table), full, table
    )


def test_rows_of_one_time_are_in_the_order_of_the_table():
    _, table = walks(200)
    frame = pd.DataFrame(table, index=np.repeat(np.arange(5), 40))
    turned = np.arange(200).reshape(5, 40)[::-1].ravel()  # later times first, and each in its own order
    fitted, other = model("index").fit(frame), model("index").fit(frame.iloc[turned])
    np.testing.assert_allclose(other.smoothing_.strengths, fitted.smoothing_.strengths, rtol=1e-6)
    filled = fitted.transform(frame).to_numpy()
    np.testing.assert_allclose(other.transform(frame.iloc[turned]).to_numpy(), filled[turned], rtol=1e-6)


def test_a_long_table_is_looked_at_in_part(monkeypatch):
    _, table = walks()
    seen = []
    own = ordered._moved
    monkeypatch.setattr(ordered, "_MOST_ROWS", 200)
    monkeypatch.setattr(ordered, "_moved", lambda known, rng: seen.append(len(known)) or own(known, rng))
    assert np.isfinite(model().fit_transform(table)).all()
    assert seen == [200]


def test_orders_that_are_none_are_refused():
    _, table = walks()
    with pytest.raises(ValueError, match="order must be None, 'rows' or 'index', not 'time'"):
        model("time").fit(table)
    for given in (table, pl.DataFrame(table)):
        with pytest.raises(TypeError, match="needs a pandas DataFrame"):
            model("index").fit(given)
    with pytest.raises(ValueError, match="takes times or finite numbers"):
        model("index").fit(pd.DataFrame(table, index=[f"r{k}" for k in range(len(table))]))
    gone = pd.DataFrame(table, index=[pd.NaT, *pd.date_range("2020", periods=len(table) - 1)])
    with pytest.raises(ValueError, match="NaT"):
        model("index").fit(gone)


def test_saved_and_loaded(tmp_path):
    _, table = walks()
    fitted = model().fit(table)
    rf.save(fitted, tmp_path / "imputer")
    loaded = rf.load(tmp_path / "imputer")
    np.testing.assert_array_equal(loaded.transform(table), fitted.transform(table))
    assert loaded.order == "rows"


def test_columns_of_a_table_need_not_have_names():
    _, table = walks()
    filled = model().fit_transform(pd.DataFrame(table))
    assert filled.columns.tolist() == [0, 1, 2, 3, 4, 5]
    np.testing.assert_array_equal(filled.to_numpy(), model().fit_transform(table))


def test_a_table_of_one_row_has_no_neighbours():
    table = np.vstack([np.arange(4.0), np.ones(4)])
    table[1, 2] = np.nan
    fitted = model().fit(table)
    one = ordered.chosen(FactorModel(fitted.offset_, fitted.factors_, fitted.noise_variance_), table[:1],
                         np.ones((1, 4), bool), np.zeros(1), np.random.default_rng(0))  # fmt: skip
    assert not one.strengths.any()
    assert np.isfinite(fitted.transform(table[1:])).all()


def test_a_part_of_a_long_table_is_somewhere_in_it(monkeypatch):
    monkeypatch.setattr(ordered, "_MOST_ROWS", 8)
    monkeypatch.setattr(ordered, "_tried", lambda index: seen.append(index.tolist()) or np.ones(1))
    seen = []
    known = np.ones((10, 4), bool)
    plain = FactorModel(np.zeros(4), np.ones((4, 1)), np.ones(4))
    for seed in range(20):
        ordered.chosen(plain, np.zeros((10, 4)), known, np.arange(10.0), np.random.default_rng(seed))
    assert {tuple(index) for index in seen} == {tuple(range(k, k + 8)) for k in range(3)}
