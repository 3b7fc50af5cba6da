"""Entries as users have them, and what the model predicts for them."""

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.exceptions import NotFittedError

import rankfold as rf
from estimators.completion.rating_data import fitted_once, model, ratings


def test_labels_give_what_positions_give():
    X, y, _ = ratings()
    names = np.array([f"row{i:02}" for i in range(60)]), np.array([f"col{j:02}" for j in range(40)])
    labelled = np.stack([names[0][X[:, 0]], names[1][X[:, 1]]], axis=1)
    quick = {"regularization": 1.0, "bias": False}
    by_position, by_label = model(shape=(60, 40), **quick).fit(X, y), model(**quick).fit(labelled, y)
    np.testing.assert_array_equal(by_label.row_labels_, names[0])
    np.testing.assert_array_equal(by_label.predict(labelled), by_position.predict(X))
    assert by_position.row_labels_ is None
    np.testing.assert_array_equal(model(**quick).fit(X, y).predict(X), by_position.predict(X))
    frame = pd.DataFrame(labelled, columns=["who", "what"])
    framed = model(**quick).fit(frame, y)
    np.testing.assert_array_equal(framed.predict(frame), by_position.predict(X))
    assert framed.feature_names_in_.tolist() == ["who", "what"]
    with pytest.raises(ValueError, match="feature names should match"):
        framed.predict(frame[["what", "who"]])
    pairs = [tuple(pair) for pair in labelled.tolist()]
    np.testing.assert_array_equal(model(**quick).fit(pairs, y).predict(pairs), by_position.predict(X))


def test_three_lines_from_a_file_to_predictions(tmp_path):
    X, y, _ = ratings()
    lines = [f"user{i},film{j},{value}" for (i, j), value in zip(X, y, strict=True)]
    (tmp_path / "ratings.csv").write_text("who,what,stars\n" + "\n".join(lines))

    data = rf.data.read_triples(tmp_path / "ratings.csv")
    fitted = rf.MatrixCompletion(rank=2, random_state=0).fit(data)
    predicted = fitted.predict([("user3", "film7"), ("user5", "film1")])

    np.testing.assert_allclose(predicted, fitted_once().predict([(3, 7), (5, 1)]), atol=0.05)


def test_what_was_never_seen_is_predicted_by_offsets():
    X, y, _ = ratings()
    fitted = model().fit(X, y)
    mean, b, c = fitted.biases_
    unseen = fitted.predict([(60, 3), (4, 40), (999, 999)])
    np.testing.assert_allclose(unseen, [mean + c[3], mean + b[4], mean])
    assert model(bias=False).fit(X, y).predict([(60, 3)]) == [0.0]


def test_mixed_labels_keep_their_types():
    fitted = model(rank=1, regularization=1.0).fit([("a", 7), ("b", 9), ("a", 9)], [1.0, 2.0, 3.0])
    assert fitted.col_labels_.tolist() == [7, 9]
    mean, b, c = fitted.biases_
    expected = [mean + b[0] + c[0] + fitted.factors_[0][0] @ fitted.factors_[1][0], mean]
    np.testing.assert_allclose(fitted.predict([("a", 7), ("c", 8)]), expected)
    with pytest.raises(TypeError, match="the row labels of this model are like 'a'; got 3"):
        fitted.predict([(3, 7)])
    positions = model(rank=1, shape=(2, 2)).fit([(0, 0), (1, 1), (0, 1)] * 10, np.arange(30.0))
    with pytest.raises(TypeError, match="knows rows by position; got the label 'a'"):
        positions.predict([("a", 7)])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "two-dimensional"),
        (np.zeros((3, 3), int), "two columns"),
        ([(0, 1), (2,), (1, 1)], r"X\[1\] must be a pair"),
        ([("a", 1), ("b", 1), (1, 1)], r"X\[2, 0\] is 1"),
        ([(0, 1), (2**64, 1), (1, 1)], r"X\[1, 0\] is 18446744073709551616: .*give larger ones as strings"),
        ([(0, 1), (2**63, 1), (-1, 1)], r"X\[1, 0\] is 9223372036854775808: .*64 bits, all of them signed"),
        (np.array([(0, 1), (2.0**54, 1), (1, 1)]), r"X\[1, 0\] is .*1.8.*e\+16.*: float64 holds"),
        (np.array([(0, 1), (2.0**25, 1), (1, 1)], np.float32), r"X\[1, 0\] is .*: float32 holds"),
        ([("a", "b"), ("c", float("nan")), ("d", "e")], r"X\[1, 1\] is nan"),
        (np.array([("2020-01-01", "NaT")] * 3, "M8[D]"), r"X\[0, 1\] is .*NaT"),
        ([(0, 1), (2, 0.5), (1, 1)], r"X\[1, 1\] is .*0.5"),
        ([(0, 1), (2, np.nan), (1, 1)], r"X\[1, 1\] is .*nan"),
        ([("a", "b"), ("c", None), ("d", "e")], r"X\[1, 1\] is None"),
        (np.array([(1, "a"), (2, "b"), (2.5, "c")], object), r"X\[2, 0\] is 2.5"),
        (np.array([(1, "a"), (True, "b"), (3, "c")], object), r"X\[1, 0\] is True"),
        (np.array([("a", 1), ("b", 2), (3, 3)], object), r"X\[2, 0\] is 3"),
        (pd.DataFrame({"a": [1, 2, 3]}), "two columns"),
    ],
)
def test_bad_pairs_are_named(X, message):
    with pytest.raises(ValueError, match=message):
        model().fit(X, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, [1.0, np.nan, 2.0], r"y\[1\] is nan"),
        ({}, [1.0, 2.0], "X has 3 pairs and y has 2 values"),
        ({}, None, "requires y to be passed"),
        ({"rank": 0}, [1.0, 2.0, 3.0], "rank must be 'auto' or an integer from 1 to 2"),
        ({"rank": 1.5}, [1.0, 2.0, 3.0], "rank must be"),
        ({"rank": "best"}, [1.0, 2.0, 3.0], "rank must be"),
        ({"regularization": -1}, [1.0, 2.0, 3.0], "regularization must be"),
        ({"regularization": "best"}, [1.0, 2.0, 3.0], "regularization must be"),
        ({"dtype": "int8"}, [1.0, 2.0, 3.0], "dtype must be"),
        ({"loss": "cubic"}, [1.0, 2.0, 3.0], "loss must be one of"),
        ({"geometry": "flat"}, [1.0, 2.0, 3.0], "geometry must be one of"),
    ],
)
def test_bad_settings_and_values_are_named(options, y, message):
    with pytest.raises(ValueError, match=message):
        model(**{"rank": 1, "regularization": 1.0} | options).fit([(0, 1), (1, 1), (1, 0)], y)


def test_not_fitted():
    with pytest.raises(NotFittedError):
        model().predict([(0, 0)])


def test_polars_frames_are_tables_too():
    X, y, _ = ratings()
    labelled = polars.DataFrame({"who": [f"u{i:02}" for i in X[:, 0]], "what": X[:, 1]})
    fitted = model(regularization=1.0).fit(labelled, polars.Series(y))
    expected = model(regularization=1.0).fit(X, y).predict(X)
    np.testing.assert_array_equal(fitted.predict(labelled), expected)
    assert fitted.col_labels_.dtype == np.int64


def test_positions_are_predicted_like_labels():
    X, y, _ = ratings()
    labelled = model(regularization=1.0).fit([(f"u{i:02}", f"f{j:02}") for i, j in X], y)
    by_label = labelled.predict(
        [("u03", "f04"), ("nobody", "f04"), ("u03", "nothing"), ("nobody", "nothing")]
    )
    by_position = labelled.predict_at(np.array([3, -1, 3, -1]), np.array([4, 4, -1, -1]))
    np.testing.assert_array_equal(by_position, by_label)


def test_triples_are_predicted_and_scored_by_label():
    X, y, _ = ratings()
    rows, cols = np.array([f"u{i:02}" for i in range(60)]), np.array([f"f{j:02}" for j in range(40)])
    fitted = model(regularization=1.0).fit(rf.data.Triples(*X.T, y, (60, 40), rows, cols))
    expected = fitted.predict_at(*X.T)
    other = rf.data.Triples(59 - X[:, 0], X[:, 1], y, (60, 41), rows[::-1], np.append(cols, "new"))
    np.testing.assert_array_equal(fitted.predict(other), expected)
    assert fitted.score(other) == fitted.score(np.stack([rows[X[:, 0]], cols[X[:, 1]]], axis=1), y)
    stranger = rf.data.Triples(np.array([0]), np.array([3]), np.array([1.0]), (1, 40), np.array(["v"]), cols)
    mean, _, c = fitted.biases_
    np.testing.assert_allclose(fitted.predict(stranger), mean + c[3])
    with pytest.raises(ValueError, match="leave out y"):
        fitted.score(other, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        fitted.score(X)


def test_triples_of_positions_are_predicted_too():
    X, y, _ = ratings()
    triples = rf.data.Triples(*X.T, y, (60, 40))
    fitted = model(regularization=1.0).fit(triples)
    np.testing.assert_array_equal(fitted.predict(triples), fitted.predict(X))
    wider = rf.data.Triples(np.array([4, 60]), np.array([3, 3]), np.ones(2), (61, 40))
    with pytest.raises(ValueError, match=r"X.rows\[1\] is 60: rows are positions here, counted from 0 to 59"):
        fitted.predict(wider)
    with pytest.raises(TypeError, match="positions of rows, and the model knows them by label, like 0: give"):
        model(regularization=1.0).fit(X, y).predict(triples)
    with pytest.raises(TypeError, match="knows rows by position; got the label 'a'"):
        fitted.predict(
            rf.data.Triples(np.zeros(1, int), np.zeros(1, int), np.ones(1), (1, 1), np.array(["a"]))
        )


def test_score_is_the_explained_variance():
    X, y, _ = ratings()
    fitted = model(regularization=1.0).fit(X, y)
    expected = 1 - np.sum((y - fitted.predict(X)) ** 2) / np.sum((y - y.mean()) ** 2)
    assert fitted.score(X, y) == pytest.approx(expected)
