"""LowRankImputer: scikit-learn's contract, known entries, and the conditional means by dense formulas."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.decomposition import FactorAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankfold as rf
from rankfold.estimators.imputer.factor_model import FLOOR, FactorModel
from rankfold.estimators.rank_errors import _candidates
from rankfold.kernels.conditional import fill

Imputer = rf.LowRankImputer


@parametrize_with_checks([Imputer(), Imputer(rank=1, add_indicator=True, keep_empty_features=True)])
def test_the_contract(estimator, check):
    check(estimator)


def draw(n=300, d=8, rank=2, noise=0.1, missing=0.2, seed=0):
    """A table of low rank in columns of very different scale, with noise and holes; and without holes."""
    rng = np.random.default_rng(seed)
    full = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, d)) + noise * rng.standard_normal(
        (n, d)
    )
    full = 100.0 + full * np.logspace(-2, 2, d)
    holes = rng.uniform(size=(n, d)) < missing
    return np.where(holes, np.nan, full), full


def error(filled, full, table):
    holes = np.isnan(table)
    return np.sqrt(np.mean(((filled - full) / full.std(axis=0))[holes] ** 2))


def test_holes_are_filled_and_known_entries_untouched():
    table, full = draw()
    filled = Imputer(rank=2).fit_transform(table)
    known = ~np.isnan(table)
    assert (filled[known] == table[known]).all()
    assert error(filled, full, table) < 0.3 < 0.9 < error(SimpleImputer().fit_transform(table), full, table)


@settings(max_examples=30, deadline=None)
@given(d=st.integers(2, 9), rank=st.integers(0, 6), missing=st.floats(0.1, 0.9), seed=st.integers(0, 999))
def test_rows_are_filled_by_conditional_means(d, rank, missing, seed):
    """Against Σ_mo Σ_oo⁻¹ (x_o − mean) and Σ_mm − Σ_mo Σ_oo⁻¹ Σ_om, by both routes of the kernel."""
    rng = np.random.default_rng(seed)
    model = FactorModel(rng.standard_normal(d), rng.standard_normal((d, rank)), rng.uniform(0.1, 2, d))
    Z, known = rng.standard_normal((5, d)), rng.uniform(size=(5, d)) >= missing
    sigma = model.L @ model.L.T + np.diag(model.psi)
    expected, spread = Z.copy(), np.zeros((d, d))
    for row, o in zip(expected, known, strict=True):
        m = ~o
        W = sigma[np.ix_(m, o)] @ np.linalg.inv(sigma[np.ix_(o, o)])
        row[m] = model.mean[m] + W @ (row[o] - model.mean[o])
        spread[np.ix_(m, m)] += sigma[np.ix_(m, m)] - W @ sigma[np.ix_(o, m)]
    covariance = np.zeros((d, d))
    assert_allclose(model.filled(Z, known, covariance), expected, atol=1e-8)
    assert_allclose(covariance, spread, atol=1e-8)


def test_tables_of_any_order_share_one_kernel():
    model, Z = FactorModel(np.zeros(4), np.ones((4, 2)), np.ones(4)), np.arange(12.0).reshape(3, 4)
    expected, compiled = model.filled(Z, Z % 5 > 0), len(fill.signatures)
    L, psi = np.asfortranarray(model.L), model.psi.copy()
    psi.flags.writeable = False
    other = FactorModel(model.mean, L, psi)
    assert_array_equal(other.filled(np.asfortranarray(Z), np.asfortranarray(Z % 5 > 0)), expected)
    assert len(fill.signatures) == compiled


def log_likelihood(model, Z, known):
    sigma = model.L @ model.L.T + np.diag(model.psi)
    total = 0.0
    for row, o in zip(Z - model.mean, known, strict=True):
        S = sigma[np.ix_(o, o)]
        total -= np.linalg.slogdet(S)[1] / 2 + row[o] @ np.linalg.solve(S, row[o]) / 2
    return total


def test_each_step_makes_the_known_entries_more_likely():
    table, _ = draw(n=60, d=6)
    known = ~np.isnan(table)
    Z = np.nan_to_num((table - np.nanmean(table, axis=0)) / np.nanstd(table, axis=0))
    model = FactorModel.start(6)
    values = [log_likelihood(model, Z, known)]
    for _ in range(15):
        model, _ = model.improved(Z, known, rank=2)
        values.append(log_likelihood(model, Z, known))
    assert (np.diff(values) > -1e-6).all()
    assert values[-1] > values[0] + 50


def test_rows_never_seen_are_filled_as_if_they_had_been():
    table, full = draw(n=400)
    imputer = Imputer(rank=2).fit(table[:200])
    assert error(imputer.transform(table[200:]), full[200:], table[200:]) < 0.3
    assert_array_equal(imputer.transform(table[:3]), imputer.transform(table[:200])[:3])
    empty = imputer.transform(np.full((1, 8), np.nan))
    assert_allclose(empty[0], imputer.mean_ + imputer.scale_ * imputer.offset_)


def test_a_copy_of_a_column_is_believed():
    """The noise by column: one nearly exact column counts more than many loose ones."""
    table, full = draw(noise=1.0)
    table, full = (np.column_stack([X, X[:, 3]]) for X in (table, full))
    table[:50, 3] = np.nan
    table[:50, 8] = full[:50, 3]
    filled = Imputer(rank=4, max_iter=200, tol=1e-4).fit_transform(table)
    assert_allclose(filled[:50, 3], full[:50, 3], atol=0.05 * full[:, 3].std())


@pytest.mark.parametrize("true", [1, 3])
def test_the_rank_is_chosen(true):
    table, _ = draw(d=12, rank=true, noise=0.3, n=500)
    imputer = Imputer(random_state=0).fit(table)
    assert imputer.rank_ == true
    assert imputer.rank_path_.ranks[:3] == (1, 2, 3)
    assert "<- chosen" in str(imputer.rank_path_)
    assert Imputer(random_state=0).fit(table).rank_path_.errors == imputer.rank_path_.errors


def test_a_rank_is_not_better_for_the_steps_of_those_before_it():
    """With little noise EM is slow: what few steps leave at the true rank, the next ones would take away."""
    for seed in range(3):
        table, _ = draw(d=20, rank=2, noise=1e-3, n=200, seed=seed)
        path = Imputer(random_state=0).fit(table).rank_path_
        assert path.chosen == 2
        assert path.errors[1] < 1e-4 * path.errors[0]
        assert path.ranks == (1, 2, 3, 4)  # two that are no better end it


def test_steps_at_a_rank_end_when_they_gain_nothing(monkeypatch):
    counts, improved = [], FactorModel.improved

    def watched(self, Z, known, rank):
        counts.append(rank)
        return improved(self, Z, known, rank)

    monkeypatch.setattr(FactorModel, "improved", watched)
    table, _ = draw(d=12, rank=1, noise=1.0, n=500)
    imputer = Imputer(random_state=0).fit(table)
    tried = counts[: len(counts) - imputer.n_iter_]
    assert all(3 <= tried.count(rank) <= 6 for rank in imputer.rank_path_.ranks)


def test_sparse_matrices_hold_what_is_stored():
    table, _ = draw()
    table[0, 0] = 0.0
    rows, cols = np.nonzero(~np.isnan(table))
    stored = sparse.coo_array((table[rows, cols], (rows, cols)), table.shape)
    for form in (stored.tocsr(), stored.tocsc(), sparse.csr_matrix(stored)):
        assert_array_equal(Imputer(rank=2).fit_transform(form), Imputer(rank=2).fit_transform(table))


def test_pandas_tables_keep_names_index_and_types():
    table, _ = draw(d=4)
    frame = pd.DataFrame(table, columns=list("abcd"), index=pd.RangeIndex(10, 310))
    frame["whole"] = np.arange(300)
    frame["single"] = frame["a"].astype(np.float32)
    filled = Imputer(rank=2).fit_transform(frame)
    assert isinstance(filled, pd.DataFrame)
    assert list(filled.columns) == ["a", "b", "c", "d", "whole", "single"]
    assert (filled.index == frame.index).all()
    assert filled["whole"].dtype == np.int64
    assert filled["single"].dtype == np.float32
    assert not filled.isna().any().any()
    known = frame["a"].notna()
    assert (filled["a"][known] == frame["a"][known]).all()
    named = Imputer(rank=2, add_indicator=True).set_output(transform="pandas").fit(table)
    assert list(named.transform(table).columns)[-1] == "missingindicator_x3"
    with pytest.raises(ValueError, match="feature names should match"):
        Imputer(rank=2).fit(frame).transform(frame[list("dcba")])


def test_polars_tables_keep_names_and_types():
    pl = pytest.importorskip("polars")
    table, _ = draw(d=3)
    frame = pl.DataFrame({name: table[:, k] for k, name in enumerate("abc")}).with_columns(
        pl.col("b").fill_nan(None), whole=pl.int_range(pl.len())
    )
    filled = Imputer(rank=2).fit_transform(frame)
    assert isinstance(filled, pl.DataFrame)
    assert filled.columns == ["a", "b", "c", "whole"]
    assert filled["whole"].dtype == pl.Int64
    assert_array_equal(filled.to_numpy(), Imputer(rank=2).fit_transform(frame.to_pandas()).to_numpy())


def test_other_marks_of_holes_empty_columns_and_flags():
    table, _ = draw()
    table[:, 2] = np.nan
    marked = np.nan_to_num(table, nan=-999.0)
    with pytest.warns(UserWarning, match="without any known value are left out: 2"):
        dropped = Imputer(rank=2).fit_transform(table)
    with pytest.warns(UserWarning, match="without any known value"):
        assert_array_equal(Imputer(rank=2, missing_values=-999.0).fit_transform(marked), dropped)
    assert dropped.shape == (300, 7)
    kept = Imputer(rank=2, keep_empty_features=True, add_indicator=True).fit(table)
    out = kept.transform(table)
    assert (out[:, 2] == 0).all()
    assert_array_equal(out[:, 8:], np.isnan(table))
    assert kept.get_feature_names_out()[[2, 10]].tolist() == ["x2", "missingindicator_x2"]


def test_in_a_pipeline_with_a_grid_search():
    table, full = draw()
    search = GridSearchCV(make_pipeline(Imputer(), Ridge()), {"lowrankimputer__rank": [1, 2]}, cv=3)
    search.fit(table[:, 1:], full[:, 0])
    assert search.best_params_ == {"lowrankimputer__rank": 2}


def test_constant_columns_and_float32():
    table, _ = draw()
    table[:, 1] = np.where(np.isnan(table[:, 1]), np.nan, 0.1)
    filled = Imputer(rank=2).fit_transform(table.astype(np.float32))
    assert filled.dtype == np.float32
    assert (filled[:, 1] == np.float32(0.1)).all()
    fitted = Imputer(rank=2).fit(table)
    assert (fitted.mean_[1], fitted.scale_[1]) == (0.1, 1.0)  # of 240 terms, whose sum is rounded


def test_a_column_of_zeros_is_one_that_is_constant():
    table, _ = draw()
    table[:, 1] = np.where(np.isnan(table[:, 1]), np.nan, 0.0)
    fitted = Imputer(rank=2).fit(table)
    assert (fitted.mean_[1], fitted.scale_[1]) == (0.0, 1.0)
    np.testing.assert_allclose(fitted.transform(table)[:, 1], 0.0, atol=1e-12)


def test_warm_start_goes_on_from_the_last_fit():
    table, _ = draw()
    settings = {"rank": 2, "tol": 1e-4, "max_iter": 500}
    warm = Imputer(warm_start=True, **settings).fit(table)
    cold = warm.n_iter_
    assert warm.fit(table).n_iter_ < cold / 4
    assert warm.fit(1000.0 * table + 5.0).n_iter_ < cold / 4  # in other units
    fewer = warm.fit(table[:, 1:])  # another number of columns: from the beginning
    assert fewer.n_iter_ == Imputer(**settings).fit(table[:, 1:]).n_iter_


def test_the_trace_tells_how_far_each_step_went():
    table, _ = draw()
    holes = np.isnan(table)
    fitted = Imputer(rank=2).fit(table)
    steps = fitted.trace_["step"]
    assert np.isnan(fitted.trace_["value"]).all()
    assert np.isnan(steps[:2]).all()
    assert steps[-1] <= 0.01 < steps[-2]
    assert fitted.stop_reason_ == f"filled entries and L Lᵀ changed by {steps[-1]:.3g} <= 0.01"
    with pytest.warns(ConvergenceWarning):
        first, second = (Imputer(rank=2, max_iter=k, tol=0.0).fit(table).transform(table) for k in (1, 2))
    change = ((second - first) / fitted.scale_)[holes]
    assert_allclose(steps[3], np.sqrt(np.mean(change**2)))


def test_verbose_tells_of_ranks_and_steps(capsys):
    table, _ = draw()
    imputer = Imputer(random_state=0, verbose=2).fit(table)
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("choosing the rank: ") for line in lines) == len(imputer.rank_path_.ranks)
    assert lines[-1].startswith(f"EM: step {imputer.n_iter_}  change")


def test_errors_name_what_is_wrong():
    table, _ = draw()
    with pytest.raises(ValueError, match=r"rank must be 'auto' or an integer from 1 to 7, .*; got 8"):
        Imputer(rank=8).fit(table)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        Imputer().fit(np.where(table > 101, np.inf, table))
    with pytest.raises(ValueError, match="X has no known entry"):
        Imputer().fit(np.full((4, 3), np.nan))
    with pytest.raises(ValueError, match="X has 7 features, but LowRankImputer is expecting 8"):
        Imputer(rank=2).fit(table).transform(table[:, :7])
    with pytest.raises(ValueError, match=r"use rankfold\.MatrixCompletion"):
        Imputer().fit(np.zeros((2, 8193)))
    with pytest.warns(
        ConvergenceWarning,
        match="stopped after 2 iterations without convergence .*: raise max_iter, or loosen tol",
    ):
        Imputer(rank=2, max_iter=2, tol=1e-9).fit(table)


def test_a_table_may_be_as_wide_as_the_limit(monkeypatch):
    table, _ = draw()
    monkeypatch.setattr("rankfold.estimators.imputer.low_rank_imputer.MAX_FEATURES", 8)
    Imputer(rank=2).fit(table)
    with pytest.raises(ValueError, match="X has 9 features; this model takes 8 at most"):
        Imputer(rank=2).fit(np.column_stack([table, table[:, 0]]))


def test_a_rank_is_below_the_columns_and_no_more_than_the_rows():
    table, _ = draw(n=3, missing=0.0)
    assert Imputer(rank=3).fit(table).factors_.shape == (8, 3)
    with pytest.raises(ValueError, match=r"from 1 to 3, .*; got 4"):
        Imputer(rank=4).fit(table)
    with pytest.raises(ValueError, match=r"from 1 to 1, .*; got 2"):
        Imputer(rank=2).fit(table[:, :1])


def test_nan_is_an_error_where_something_else_stands_for_holes():
    table, _ = draw()
    with pytest.raises(ValueError, match="Input X contains NaN"):
        Imputer(rank=2, missing_values=-999.0).fit(table)


def test_without_holes_nothing_changes_and_two_steps_suffice():
    _, full = draw()
    imputer = Imputer(rank=2).fit(full)
    assert imputer.n_iter_ == 2
    assert_array_equal(imputer.transform(full), full)


def test_the_rank_is_chosen_from_some_rows_of_many(monkeypatch):
    table, _ = draw(n=2000, d=12, rank=3, noise=0.3)
    rows = []
    improved = FactorModel.improved

    def watched(self, Z, known, rank):
        rows.append(len(Z))
        return improved(self, Z, known, rank)

    monkeypatch.setattr(FactorModel, "improved", watched)
    monkeypatch.setattr("rankfold.estimators.imputer.factor_model._PATH_ROWS", 500)
    monkeypatch.setattr("rankfold.estimators.imputer.factor_model._PATH_STEPS", 1)
    imputer = Imputer(random_state=0).fit(table)
    assert rows == [500] * 2 * len(imputer.rank_path_.ranks) + [2000] * imputer.n_iter_


def test_ranks_are_tried_more_sparsely_the_larger_they_are():
    assert _candidates(1) == [1]
    assert _candidates(4) == [1, 2, 3, 4]
    assert _candidates(30) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 30]


def test_noise_has_a_floor_where_columns_are_copies():
    column = np.random.default_rng(0).standard_normal(50)
    model = FactorModel.start(3)
    for _ in range(30):
        model, _ = model.improved(np.column_stack([column] * 3), np.ones((50, 3), bool), rank=1)
    assert (model.psi == FLOOR).all()


def test_a_table_without_holes_gets_the_most_likely_factors():
    """What scikit-learn's factor analysis of the same table, in units of its columns' deviations, finds."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((300, 2)) @ rng.standard_normal((2, 8)) + rng.standard_normal((300, 8))
    model = Imputer(2, tol=1e-7, max_iter=5000).fit(table)
    assert model.converged_
    assert model.n_iter_ > 10
    peer = FactorAnalysis(2, tol=1e-8, max_iter=5000, svd_method="lapack")
    peer.fit((table - table.mean(axis=0)) / table.std(axis=0))
    covariance = model.factors_ @ model.factors_.T + np.diag(model.noise_variance_)
    assert_allclose(covariance, peer.get_covariance(), atol=1e-4)
    loose = Imputer(2, tol=1e-3).fit(table)
    assert 2 <= loose.n_iter_ < model.n_iter_
