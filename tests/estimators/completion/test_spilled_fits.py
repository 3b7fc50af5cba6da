"""`MatrixCompletion` on a folder of sorted files: the fit in memory, of the same entries."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.data import sort_into
from rankfold.entries.on_disk import OnDisk
from rankfold.estimators.completion import folder_report
from rankfold.report import Columns, DataSummary

DATA = rf.data.random_completion((50, 40), rank=2, oversampling=4, seed=0, noise=0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return sort_into(tmp_path_factory.mktemp("fits") / "s", DATA, shape=DATA.shape)


def in_parts(folder, memory=1e9):
    """The same folder, passed over in several parts."""
    store = OnDisk.opened(
        folder.path, folder.shape, folder.store.dtype, folder.store.weighted, memory, len(folder) // 4
    )
    return replace(folder, store=store)


def model(**settings):
    return rf.MatrixCompletion(**{"rank": 2, "regularization": 1.0, "random_state": 0} | settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"regularization": "auto"},
        {"loss": "huber", "bias": False},
        {"geometry": "full_rank", "bias": False},
        {"dtype": "float32", "bias": False},
    ],
    ids=str,
)
def test_the_fit_is_that_of_memory(folder, tmp_path, settings):
    held = model(**settings).fit(DATA)
    single = settings.get("dtype") == "float32"
    for given, tolerance in ((folder, 0), (in_parts(folder), 1e-4 if single else 1e-9)):
        found = model(**settings).fit(given)
        assert found.n_iter_ == held.n_iter_
        for one, two in zip((*found.factors_, *found.biases_), (*held.factors_, *held.biases_), strict=True):
            assert np.asarray(one).dtype == np.asarray(two).dtype
            assert_allclose(one, two, rtol=0, atol=tolerance * np.abs(held.factors_[0]).max())
        assert found.data_fingerprint_ == held.data_fingerprint_
        assert (found.posterior_ is None) == (held.posterior_ is None)
        for one, two in zip(found.observed_, held.observed_, strict=True):
            assert_array_equal(one, two)
    rf.save(found, tmp_path / "m.rankfold")
    loaded = rf.load(tmp_path / "m.rankfold")
    assert_array_equal(loaded.recommend([3], n=4).cols, found.recommend([3], n=4).cols)


def test_weights_come_from_the_folder(tmp_path):
    weights = np.random.default_rng(0).integers(1, 4, len(DATA)).astype(float)
    given = sort_into(tmp_path / "s", (DATA.rows, DATA.cols, DATA.values, weights), shape=DATA.shape)
    held = model().fit(DATA, sample_weight=weights)
    for each in (given, in_parts(given)):
        found = model().fit(each)
        for one, two in zip(found.factors_, held.factors_, strict=True):
            assert_allclose(one, two, atol=1e-9)


def test_covariances_that_outgrow_memory_are_left_out(folder):
    small = in_parts(folder, memory=1000)
    assert model(regularization="auto").fit(small).posterior_ is None
    with pytest.raises(ValueError, match="do not fit into memory: lower the rank, or set bayesian=False"):
        model(bayesian=True).fit(small)


def test_what_a_folder_has_is_not_given_again(folder, tmp_path):
    for settings, options, message in [
        ({}, {"y": DATA.values}, "a SortedFolder holds its values: leave out y"),
        ({}, {"sample_weight": np.ones(len(DATA))}, "a SortedFolder holds its weights"),
        ({"shape": DATA.shape}, {}, "a SortedFolder has a shape of its own"),
        ({"loss": "logistic"}, {}, r"s: values\[0\] is .*, but the logistic loss wants 0 or 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            model(**settings).fit(folder, **options)
    equal = sort_into(tmp_path / "s", ([1, 1, 2], [1, 2, 1], [4.0, 4.0, 4.0]))
    with pytest.warns(UserWarning, match=r"all 3 values are 4\.0"):
        model(rank=1).fit(equal)


def test_what_is_told_of_entries_on_disk_is_what_memory_tells(folder):
    names = "user", "film", "stars"
    where = DATA.rows, DATA.cols, DATA.values, DATA.shape, "x"
    theirs = DataSummary.of(*where, Columns(*names))
    for given in (folder, in_parts(folder)):
        ours = folder_report.summary_of(replace(given, names=names), "x")
        assert (ours.columns, ours.repeated) == (theirs.columns, theirs.repeated)
        assert not ours.searched
        for name in ("row_counts", "col_counts"):
            assert_array_equal(getattr(ours, name), getattr(theirs, name))
        for name in ("mean", "deviation", "least", "largest"):
            assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12)
    assert folder_report.summary_of(replace(folder, names=None), "x").columns is None
    dense = np.full(DATA.shape, np.nan)
    dense[DATA.rows, DATA.cols] = DATA.values
    size = len(DATA.values)
    for most, count in ((50, 50), (size - 1, size - 1), (size, size), (10_000, size)):
        rows, cols, values = folder_report.sample(folder, most, seed=0)
        assert len(values) == count
        assert_array_equal(dense[rows, cols], values)
        assert (len(set(zip(rows.tolist(), cols.tolist(), strict=True))) == size) == (most >= size)


def test_clicks_and_implicit_features_take_their_entries_in_memory(folder):
    for takes in (rf.ImplicitFeedback(1).fit, rf.implicit_features):
        with pytest.raises(TypeError, match="takes its entries in memory: give pairs, or Triples"):
            takes(folder)


def test_what_is_told_of_weighted_entries_on_disk_is_of_their_values(tmp_path):
    weights = np.linspace(5.0, 9.0, len(DATA))
    given = sort_into(tmp_path / "s", (DATA.rows, DATA.cols, DATA.values, weights), shape=DATA.shape)
    for each in (given, in_parts(given)):
        told = folder_report.summary_of(each, "x")
        found = told.mean, told.deviation, told.least, told.largest
        due = DATA.values.mean(), DATA.values.std(), DATA.values.min(), DATA.values.max()
        assert_allclose(found, due, rtol=1e-9)
        rows, cols, values = folder_report.sample(each, len(DATA), seed=0)
        dense = np.zeros(DATA.shape)
        dense[DATA.rows, DATA.cols] = DATA.values
        assert_array_equal(values, dense[rows, cols])
