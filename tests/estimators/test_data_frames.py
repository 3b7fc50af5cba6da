"""With pandas: what a newcomer does with a DataFrame works, or says what to do."""

import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import KFold, cross_val_score

import rankfold as rf

RNG = np.random.default_rng(5)
USERS, FILMS = 40, 25
TABLE = pd.DataFrame(
    [(f"u{i:02}", f"f{j:02}", i, j) for i in range(USERS) for j in range(FILMS)],
    columns=["user", "film", "i", "j"],
).sample(frac=0.5, random_state=0)
TASTE, STYLE = RNG.standard_normal((USERS, 1)), RNG.standard_normal((FILMS, 1))
TABLE["stars"] = (3 + (TASTE @ STYLE.T)[TABLE["i"], TABLE["j"]]).clip(1, 5)
PAIRS = TABLE[["user", "film"]]


def fitted(**settings):
    options = {"rank": 1, "regularization": 1.0, "random_state": 0} | settings
    return rf.MatrixCompletion(**options).fit(PAIRS, TABLE["stars"])


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, lambda found: pa.table(found).to_pandas()])
def test_recommendations_make_a_table(table, model):
    found = model.recommend(["u03", "u07"], n=4)
    made = table(found)
    assert list(made.columns) == ["user", "film", "scores"]
    assert made.shape == (8, 3)
    assert list(made["user"]) == ["u03"] * 4 + ["u07"] * 4
    np.testing.assert_array_equal(np.asarray(made["scores"]), found.scores)


@pytest.mark.parametrize("kind", [rf.MatrixCompletion, rf.ImplicitFeedback, rf.CategoricalCompletion])
def test_questions_in_a_table_have_the_names_of_the_fit_and_change_none(kind):
    options = {"rank": 1, "regularization": 1.0, "random_state": 0}
    model = kind(**options).fit(PAIRS, TABLE["stars"].round())
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(PAIRS.rename(columns={"user": "person"}))
    assert model.feature_names_in_.tolist() == ["user", "film"]
    nameless = kind(**options).fit(PAIRS.to_numpy(), TABLE["stars"].round())
    with pytest.warns(UserWarning, match="X has feature names, but"):
        nameless.predict(PAIRS)
    assert not hasattr(nameless, "feature_names_in_")


@pytest.mark.parametrize("names", [None, ("0", "1", "2"), ("film", "scores", "stars")])
def test_columns_without_names_of_use_are_rows_and_cols(names):
    triples = rf.data.Triples(np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1.0, 2.0, 1.0]), (3, 2))
    model = rf.MatrixCompletion(rank=1, regularization=1.0).fit(replace(triples, names=names))
    assert list(model.recommend([0])) == ["rows", "cols", "scores"]


@pytest.mark.parametrize("estimator", [rf.MatrixCompletion, rf.ImplicitFeedback])
def test_a_model_of_triples_knows_the_names_in_their_file(estimator):
    triples = rf.data.Triples(np.array([0, 1, 2]), np.array([0, 1, 1]), np.array([1.0, 2.0, 1.0]), (3, 2))
    named = replace(triples, names=("user", "film", "stars"))
    model = estimator(rank=1, regularization=0.1).fit(named)
    assert model.feature_names_in_.tolist() == ["user", "film"]
    found = model.recommend([0, 2])
    assert list(found) == ["user", "film", "scores"]
    assert found.rows is found["user"]
    assert found.cols is found["film"]
    assert repr(named) == "<Triples: 3 entries of a 3 × 2 matrix: 'user', 'film', 'stars'>"
    assert not hasattr(model.fit(triples), "feature_names_in_")


def test_values_that_are_text_are_named():
    with pytest.raises(
        ValueError, match=r"y must be real numbers, .* it holds 'u\d\d': give the column of val"
    ):
        rf.MatrixCompletion().fit(PAIRS, PAIRS["user"])


def test_a_new_user_is_answered_with_the_way_in(model):
    with pytest.raises(
        KeyError, match=r"'eve' is not in this model, which knows \d+ others, such as 'u00' \(wh"
    ):
        model.recommend("eve")
    with pytest.raises(KeyError, match=r"'g' is not .* by fold_in\(entries, side='column'\)\)"):
        model.similar("g")


def test_plots_say_what_to_install(monkeypatch, model):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'rankfold\[plot\]'"):
        model.trace_.plot()


def test_neighbours_make_a_table(model):
    found = model.similar("f03", n=3)
    made = pd.DataFrame(found)
    assert list(made.columns) == ["given", "neighbours", "cosines"]
    assert list(made["neighbours"]) == found.neighbours.tolist()
    assert list(made["given"]) == found.given.tolist() == ["f03"] * 3
    np.testing.assert_array_equal(made["cosines"], found.cosines)


def test_pairs_in_a_list_need_no_names(model):
    """Warnings are errors here."""
    expected = model.predict(pd.DataFrame({"user": ["u03"], "film": ["f03"]}))
    np.testing.assert_array_equal(model.predict([("u03", "f03")]), expected)
    np.testing.assert_array_equal(model.predict(np.array([["u03", "f03"]])), expected)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(pd.DataFrame({"who": ["u03"], "film": ["f03"]}))
    clicks = rf.ImplicitFeedback(rank=1, regularization=1.0).fit(PAIRS)
    assert clicks.predict([("u03", "f03")]).shape == (1,)
    categories = rf.CategoricalCompletion(rank=1).fit(PAIRS[:60], (TABLE["stars"] > 3)[:60])
    assert categories.predict(PAIRS.to_numpy()[:3].tolist()).shape == (3,)


def test_values_in_the_table_of_pairs_are_no_y():
    with pytest.raises(
        ValueError, match=r"fit\(X\[\['user', 'film'\]\], X\['stars'\]\), or rankfold.data.Triples"
    ):
        rf.MatrixCompletion().fit(TABLE[["user", "film", "stars"]])
    with pytest.raises(ValueError, match="give the values of the pairs as y"):
        rf.MatrixCompletion().fit(PAIRS)


@pytest.mark.parametrize("settings", [{}, {"rank": 1}, {"bayesian": True}, {"regularization": 0.5}])
def test_four_ratings_are_enough(settings):
    pairs = [("ann", "Dune"), ("ann", "Heat"), ("bob", "Dune"), ("cyd", "Heat")]
    model = rf.MatrixCompletion(**settings, random_state=0).fit(pairs, [5.0, 1.0, 4.0, 2.0])
    assert np.isfinite(model.predict([("bob", "Heat")])).all()


def test_folds_by_entries_and_folds_by_users():
    """A table sorted by user, cut into folds as it is, holds out whole users: nothing is known of them."""
    table = TABLE.sort_values("user")
    X, y = table[["user", "film"]], table["stars"]
    model = rf.MatrixCompletion(rank=1, regularization=1.0, random_state=0)
    entries = KFold(3, shuffle=True, random_state=0)
    scored = {"scoring": "neg_root_mean_squared_error"}
    by_entries = -cross_val_score(model, X, y, cv=entries, **scored).mean()
    by_users = -cross_val_score(model, X, y, cv=3, **scored).mean()
    assert 2 * by_entries < by_users


def test_clipping_keeps_predictions_and_intervals_in_the_range_of_the_data():
    everything = pd.DataFrame(
        [(f"u{i:02}", f"f{j:02}") for i in range(USERS) for j in range(FILMS)], columns=PAIRS.columns
    )
    plain, clipped = (fitted(clip=clip, bayesian=True) for clip in (False, True))
    assert plain.value_range_ == clipped.value_range_ == (TABLE["stars"].min(), TABLE["stars"].max())
    raw = plain.predict(everything)
    assert raw.max() > 5
    np.testing.assert_array_equal(clipped.predict(everything), raw.clip(*plain.value_range_))
    for end, wide in zip(
        clipped.predict_interval(everything), plain.predict_interval(everything), strict=True
    ):
        np.testing.assert_array_equal(end, wide.clip(*plain.value_range_))
    best = plain.recommend("u03", n=FILMS, exclude_seen=False)
    same = clipped.recommend("u03", n=FILMS, exclude_seen=False)
    np.testing.assert_array_equal(same.cols, best.cols)  # in the order of what was not clipped
    np.testing.assert_array_equal(same.scores, best.scores.clip(*plain.value_range_))


def test_an_earlier_model_knows_no_range(tmp_path):
    model = fitted()
    model.value_range_ = None
    rf.save(model, tmp_path / "m")
    old = rf.load(tmp_path / "m").set_params(clip=True)
    with pytest.raises(ValueError, match="fit it again to clip"):
        old.predict([("u03", "f03")])


MIXED = pd.DataFrame({
    "hour": [1.0, 2.0, 3.0, 4.0], "region": ["south", "north", None, "east"],
    "a": [2.0, np.nan, 6.0, 8.0], "none": [np.nan] * 4,
})  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "remedy"),
    [(rf.LowRankImputer(rank=1), "select_dtypes"), (rf.ReducedRankRegression(rank=1), "OneHotEncoder")],
)
def test_columns_of_text_are_named(estimator, remedy):
    with pytest.raises(
        ValueError, match=rf"column 'region' of X is not numeric, it holds 'south': .*{remedy}"
    ):
        estimator.fit(MIXED[["hour", "region"]], MIXED[["hour"]])
    when = MIXED[["hour"]].assign(day=pd.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="column 'day' of X is not numeric"):
        estimator.fit(when, MIXED[["hour"]])


def test_numbers_as_objects_are_numbers():
    table = MIXED[["hour", "a"]].astype(object)
    full = np.asarray(rf.LowRankImputer(rank=1).fit_transform(table), dtype=float)
    np.testing.assert_allclose(full[:, 0], [1, 2, 3, 4])


def test_columns_without_a_value_are_named():
    with pytest.warns(UserWarning, match="without any known value are left out: 'none'; keep_empty_features"):
        imputer = rf.LowRankImputer(rank=1).fit(MIXED[["hour", "a", "none"]])
    assert imputer.get_feature_names_out().tolist() == ["hour", "a"]
    rf.LowRankImputer(rank=1, keep_empty_features=True).fit(MIXED[["hour", "a", "none"]])


def test_targets_without_a_value_are_named():
    with pytest.raises(ValueError, match="column none of y has no known value"):
        rf.ReducedRankRegression(rank=1).fit(MIXED[["hour"]], MIXED[["a", "none"]])
