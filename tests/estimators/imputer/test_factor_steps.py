"""A fit of `LowRankImputer` in its parts: units, steps of EM, the path of ranks, its end, its index."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.estimators.imputer import factor_model, tables
from rankfold.estimators.imputer.factor_model import FLOOR, FactorModel
from rankfold.estimators.imputer.low_rank_imputer import _standardised
from rankfold.run.stopping import StopKind


def holed(n=12, d=5, seed=0, missing=0.3):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.uniform(size=(n, d)) >= missing


def test_columns_are_standardised_in_units_of_their_own():
    """By the mean and the deviation of known entries, whatever stands in the holes."""
    Z, known = holed(n=9, d=6)
    known[:, 5] = False
    known[3, :5] = True
    units = np.array([1.0, 1e-300, 1e300, 3.0, 1.0, 1.0])
    table = np.where(known, (Z + np.array([0.0, 1.0, -2.0, 0.5, 0.0, 0.0])) * units, 0.0)
    table[:, 4] = np.where(known[:, 4], 7.0, 0.0)
    mean, scale, found = _standardised(table, known)
    for k in range(4):
        values = table[known[:, k], k] / units[k]
        assert_allclose(mean[k] / units[k], values.mean(), rtol=1e-12)
        assert_allclose(scale[k] / units[k], values.std(), rtol=1e-12)
        assert_allclose(found[known[:, k], k], (values - values.mean()) / values.std(), rtol=1e-9, atol=1e-12)
    assert_array_equal([mean[4], scale[4], mean[5], scale[5]], [7.0, 1.0, 0.0, 1.0])
    assert not found[~known].any()
    assert not found[:, 4:].any()
    assert found.dtype == np.float64


def test_what_rounding_leaves_is_a_constant_and_more_is_not():
    steps = np.tile([1.0, -1.0], 8) * np.finfo(float).eps
    table = 1.0 + np.stack([4 * steps, 40 * steps], axis=1)
    _, scale, Z = _standardised(table, np.ones(table.shape, bool))
    assert scale[0] == 1.0
    assert not Z[:, 0].any()
    assert_allclose(scale[1], 40 * np.finfo(float).eps, rtol=0.02)
    assert_allclose(abs(Z[:, 1]), 1.0, rtol=0.02)


def test_holes_are_no_numbers_of_the_data():
    tiny = np.array([[1e-310, 2e-310], [np.nan, 5e-310], [4e-310, 1e-310]])
    numbers, known = rf.LowRankImputer()._validated(tiny, reset=True)
    assert_array_equal(numbers, [[1e-310, 2e-310], [0.0, 5e-310], [4e-310, 1e-310]])
    assert_array_equal(known, ~np.isnan(tiny))


def test_an_em_step_is_the_one_of_factor_analysis():
    """Expected sums given the model, their covariance, and four alternations between L and ψ."""
    Z, known = holed()
    rng = np.random.default_rng(1)
    model = FactorModel(0.1 * rng.standard_normal(5), rng.standard_normal((5, 2)), rng.uniform(0.3, 2, 5))
    sigma = model.L @ model.L.T + np.diag(model.psi)
    full, added = Z.copy(), np.zeros((5, 5))
    for row, o in zip(full, known, strict=True):
        gain = sigma[np.ix_(~o, o)] @ np.linalg.inv(sigma[np.ix_(o, o)])
        row[~o] = model.mean[~o] + gain @ (row[o] - model.mean[o])
        added[np.ix_(~o, ~o)] += sigma[np.ix_(~o, ~o)] - gain @ sigma[np.ix_(o, ~o)]
    mean = full.mean(axis=0)
    S, psi = (full.T @ full + added) / len(Z) - np.outer(mean, mean), model.psi
    for _ in range(4):
        values, E = np.linalg.eigh(S / np.sqrt(np.outer(psi, psi)))
        L = np.sqrt(psi)[:, None] * E[:, -2:] * np.sqrt(np.maximum(values[-2:] - 1, 0))
        psi = np.maximum(np.diag(S) - (L**2).sum(axis=1), FLOOR)
    new, filled = model.improved(Z, known, 2)
    assert_allclose(filled, full, atol=1e-10)
    assert_allclose(new.mean, mean, atol=1e-10)
    assert_allclose(new.L @ new.L.T, L @ L.T, atol=1e-9)
    assert_allclose(new.psi, psi, rtol=1e-9)


def test_directions_with_less_than_the_noise_are_no_factors():
    L, psi = factor_model._factors_of(np.diag([3.0, 1.0, 0.5, 2.0]), np.array([1.0, 1.2, 0.9, 2.5]), 3)
    assert (np.linalg.norm(L, axis=0) > 0).sum() == 1
    assert_allclose(np.diag(L @ L.T + np.diag(psi)), [3.0, 1.0, 0.5, 2.0])


def test_what_moves_is_measured_in_root_mean_squares():
    rng = np.random.default_rng(0)
    before, after = rng.standard_normal((6, 2)), rng.standard_normal((6, 3))
    moved = after @ after.T - before @ before.T
    assert_allclose(factor_model._moved(before, after), np.sqrt(np.mean(moved**2)))
    assert factor_model._rms(np.array([3.0, -4.0])) == pytest.approx(np.sqrt(12.5))
    assert factor_model._rms(np.zeros(0)) == 0.0


def test_the_fit_goes_on_while_the_covariances_move_though_the_holes_do_not():
    Z, _ = holed(n=40)
    known = np.ones(Z.shape, bool)
    _, trace, stop = factor_model.fit(FactorModel.start(5), Z, known, 2, 500, 1e-3, 0)
    assert stop.kind is StopKind.CONVERGED
    assert len(trace) > 4
    assert trace[-1].step <= 1e-3 < trace[-2].step
    assert [row.iteration for row in trace] == list(range(len(trace)))
    seconds = [row.seconds for row in trace]
    assert seconds[0] == 0.0
    assert sorted(seconds) == seconds
    assert seconds[-1] < 1e5


def test_a_change_of_nothing_converges_whatever_the_tolerance():
    constants = np.tile([3.0, 5.0, 7.0], (6, 1))
    constants[2, 1] = np.nan
    found = rf.LowRankImputer(1, tol=0.0).fit(constants)
    assert found.converged_
    assert_array_equal(found.transform(constants)[2], [3.0, 5.0, 7.0])


def test_at_a_rank_are_no_more_than_twenty_steps_after_the_first(monkeypatch):
    counts, improved = [], FactorModel.improved
    monkeypatch.setattr(factor_model, "_GAIN", -np.inf)  # no step is too small
    monkeypatch.setattr(
        FactorModel, "improved", lambda self, *args: counts.append(args[-1]) or improved(self, *args)
    )
    Z, known = holed(n=30)
    path = factor_model.rank_errors(Z, known, 4, np.random.default_rng(0), 0)
    assert {counts.count(rank) for rank in path.ranks} == {21}


def test_ranks_are_judged_by_the_squares_of_a_tenth_of_the_known_entries(monkeypatch):
    hidden, choose = [], factor_model.choose_rank

    def watched(largest, squares, verbose):
        return choose(largest, lambda rank: hidden.append(squares(rank)) or hidden[-1], verbose)

    monkeypatch.setattr(factor_model, "choose_rank", watched)
    Z, known = holed(n=400)
    path = factor_model.rank_errors(Z, known, 4, np.random.default_rng(0), 0)
    test = known & (np.random.default_rng(0).uniform(size=Z.shape) < 0.1)
    assert {squares.size for squares in hidden} == {test.sum()}
    # Columns have nothing to do with each other: what is expected is about their mean.
    assert_allclose(path.errors[0], np.mean(Z[test] ** 2), rtol=0.1)


def test_with_nothing_to_hold_out_the_smallest_rank_is_taken():
    class Never:
        def uniform(self, size):
            return np.ones(size)

    Z, known = holed(n=6)
    path = factor_model.rank_errors(Z, known, 4, Never(), 0)
    assert (path.chosen, path.errors[0], path.standard_errors[0]) == (1, 0.0, 0.0)


def test_without_a_warm_start_a_second_fit_is_the_first():
    Z, known = holed(n=60)
    table = np.where(known, Z, np.nan)
    model = rf.LowRankImputer(2, tol=1e-3, max_iter=500).fit(table)
    steps = model.trace_["step"]
    assert_array_equal(model.fit(table).trace_["step"], steps)


def test_an_order_asked_for_after_the_fit_changes_nothing():
    Z, known = holed(n=60)
    table = np.where(known, Z, np.nan)
    for fitted, asked in ((None, "rows"), ("rows", None)):
        expected = rf.LowRankImputer(2, tol=0.1).fit_transform(table)
        other = rf.LowRankImputer(2, tol=0.1, order=fitted, random_state=0).fit(table)
        assert_allclose(other.set_params(order=asked).transform(table), expected, rtol=1e-12)


def test_the_digest_of_the_data_knows_their_order():
    Z, known = holed(n=40)
    table = np.where(known, Z, np.nan)
    frames = [pd.DataFrame(table, index=np.arange(40.0) * unit) for unit in (1, 2)]
    settings = {"random_state": 0, "tol": 1.0}
    by_index = [rf.LowRankImputer(1, order="index", **settings).fit(frame) for frame in frames]
    plain = [rf.LowRankImputer(1, **settings).fit(frame) for frame in frames]
    assert by_index[0].data_fingerprint_ != by_index[1].data_fingerprint_
    assert plain[0].data_fingerprint_ == plain[1].data_fingerprint_ != by_index[0].data_fingerprint_


def test_the_column_that_overflows_is_named_though_others_come_after_it():
    column = np.linspace(0.0, 1.0, 40)
    model = rf.LowRankImputer(1, tol=0.1).fit(np.stack([column, column * 1e307, column], axis=1))
    with pytest.raises(ValueError, match=r"what fills X\[:, 1\] overflows float64"):
        model.transform([[0.5, 0.5, 0.5], [1e9, np.nan, 1e9]])


@pytest.mark.parametrize(
    ("index", "seconds"),
    [
        (
            pd.to_datetime(["2024-01-01T00:00:05", "2024-01-01T00:00:00", "2024-01-02T00:00:00"]),
            [5.0, 0.0, 86400.0],
        ),
        (pd.date_range("2024-03-31", periods=3, freq="h", tz="Europe/Berlin"), [0.0, 3600.0, 7200.0]),
        (pd.to_timedelta([90, 30, 60], unit="min"), [3600.0, 0.0, 1800.0]),
        (np.array([3, 1, 2], np.uint8), [3.0, 1.0, 2.0]),
        (np.array([0.5, -1.0, 2.0]), [0.5, -1.0, 2.0]),
    ],
)
def test_an_index_is_numbers_or_seconds(index, seconds):
    found = tables.row_index(pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=index), "index", 3)
    assert found.dtype == np.float64
    assert found.tolist() == seconds


@pytest.mark.parametrize("index", [[0.0, np.inf, 1.0], [np.nan, 1.0, 2.0], [True, False, True], list("abc")])
def test_an_index_that_is_no_place_is_refused(index):
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=index)
    with pytest.raises(ValueError, match="order='index' takes times or finite numbers; the index of X holds"):
        tables.row_index(frame, "index", 3)


def test_tables_are_those_of_pandas_and_polars_alone():
    other = type("DataFrame", (), {})()
    assert tables._library(pd.DataFrame()) == "pandas"
    assert tables._library(pd.Series(dtype=float)) is None
    assert tables._library(other) is tables._library(np.zeros(3)) is None
