import numpy as np
import pandas as pd
import polars
import pytest
from rating_data import everywhere, model, ratings, rmse
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import rankfold as rf
from rankfold.estimators.completion.offsets import RIDGE
from rankfold.estimators.completion.regularization import sample_lines


def test_defaults_beat_offsets_alone_on_ratings():
    X, y, truth = ratings()
    fitted = model().fit(X, y)
    alone = model(regularization=1e6).fit(X, y)  # so much that W is next to 0
    assert rmse(everywhere(fitted), truth) < 0.5 * rmse(everywhere(alone), truth)
    assert fitted.regularization_ in dict(fitted.regularization_path_)
    assert fitted.converged_
    assert fitted.n_iter_ == len(fitted.trace_) - 1


def test_the_regularisation_is_the_best_of_those_tried():
    X, y, _ = ratings()
    path = model().fit(X, y).regularization_path_
    assert len(path) >= 3
    assert min(path, key=lambda pair: pair[1])[0] == model().fit(X, y).regularization_


def test_predictions_are_the_factors_and_offsets():
    X, y, _ = ratings()
    fitted = model().fit(X, y)
    (L, R), (mean, b, c) = fitted.factors_, fitted.biases_
    np.testing.assert_allclose(everywhere(fitted), L @ R.T + mean + b[:, None] + c, rtol=1e-12)


def test_plain_completion_is_exact():
    data = rf.data.random_completion((80, 60), rank=3, oversampling=5, seed=0)
    fitted = model(rank=3, bias=False, regularization=0.0).fit(data)
    assert fitted.regularization_ == 0
    L, R = fitted.factors_
    np.testing.assert_allclose(L @ R.T, data.L @ data.R.T, atol=1e-6)


def test_the_minimum_is_that_of_the_ridge_on_factors():
    """The gradient of Σ (y - p)² + λ (Σ √n ‖L‖² + Σ √m ‖R‖²) vanishes at `factors_`."""
    X, y, _ = ratings()
    weight = 0.7
    fitted = model(regularization=weight, tolerance=1e-12).fit(X, y)
    (L, R), (rows, cols) = fitted.factors_, X.T
    error = fitted.predict(X) - y
    f_L = np.zeros_like(L)
    np.add.at(f_L, rows, error[:, None] * R[cols])
    f_L += weight * np.sqrt(np.bincount(rows, minlength=60))[:, None] * L
    assert np.abs(f_L).max() < 1e-4 * np.abs(error).sum()


def test_offsets_solve_the_ridge_problem():
    X, y, _ = ratings()
    fitted = model(regularization=1.0).fit(X, y)
    design = np.zeros((len(y), 101))
    design[np.arange(len(y)), X[:, 0]] = design[np.arange(len(y)), 60 + X[:, 1]] = design[:, 100] = 1
    ridge = np.diag(np.append(np.full(100, RIDGE), 0))
    beta = np.linalg.solve(design.T @ design + ridge, design.T @ y)
    np.testing.assert_allclose(
        np.concatenate([fitted.biases_.rows, fitted.biases_.cols]), beta[:100], atol=1e-5
    )
    assert fitted.biases_.mean == pytest.approx(beta[100], abs=1e-5)


def test_labels_give_what_positions_give():
    X, y, _ = ratings()
    names = np.array([f"row{i:02}" for i in range(60)]), np.array([f"col{j:02}" for j in range(40)])
    labelled = np.stack([names[0][X[:, 0]], names[1][X[:, 1]]], axis=1)
    by_position, by_label = model().fit(X, y), model().fit(labelled, y)
    np.testing.assert_array_equal(by_label.row_labels_, names[0])
    np.testing.assert_array_equal(by_label.predict(labelled), by_position.predict(X))
    assert by_position.row_labels_ is None
    frame = pd.DataFrame(labelled, columns=["who", "what"])
    framed = model().fit(frame, y)
    np.testing.assert_array_equal(framed.predict(frame), by_position.predict(X))
    assert framed.feature_names_in_.tolist() == ["who", "what"]
    pairs = [tuple(pair) for pair in labelled.tolist()]
    np.testing.assert_array_equal(model().fit(pairs, y).predict(pairs), by_position.predict(X))


def test_three_lines_from_a_file_to_predictions(tmp_path):
    X, y, _ = ratings()
    lines = [f"user{i},film{j},{value}" for (i, j), value in zip(X, y, strict=True)]
    (tmp_path / "ratings.csv").write_text("who,what,stars\n" + "\n".join(lines))

    data = rf.data.read_triples(tmp_path / "ratings.csv")
    fitted = rf.MatrixCompletion(rank=2, random_state=0).fit(data)
    predicted = fitted.predict([("user3", "film7"), ("user5", "film1")])

    np.testing.assert_allclose(predicted, model().fit(X, y).predict([(3, 7), (5, 1)]), atol=0.05)


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
    assert np.isfinite(fitted.predict([("a", 7), ("c", 8)])).all()
    with pytest.raises(TypeError, match="the row labels of this model are like 'a'; got 3"):
        fitted.predict([(3, 7)])
    with pytest.raises(TypeError, match="knows rows by position; got the label 'a'"):
        model(rank=1).fit([(0, 0), (1, 1), (0, 1)] * 10, np.arange(30.0)).predict([("a", 7)])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), "two-dimensional"),
        (np.zeros((3, 3), int), "two columns"),
        ([(0, 1), (2,), (1, 1)], r"X\[1\] must be a pair"),
        ([(0, 1), (-2, 1), (1, 1)], r"X\[1, 0\] is .*-2.*never negative"),
        ([(0, 1), (2, 0.5), (1, 1)], r"X\[1, 1\] is .*0.5"),
        ([(0, 1), (2, np.nan), (1, 1)], r"X\[1, 1\] is .*nan"),
        ([("a", "b"), ("c", None), ("d", "e")], r"X\[1, 1\] is None"),
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
        ({"rank": 3}, [1.0, 2.0, 3.0], "rank must be"),
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


@pytest.mark.parametrize("loss", ["logistic", "huber", "poisson", rf.Loss.huber(2.0)])
@pytest.mark.parametrize("bias", [True, False])
def test_other_losses(loss, bias):
    X, y, truth = ratings(noise=0.0)
    signal = truth - truth.mean()
    if loss == "logistic":
        y = (y > truth.mean()).astype(float)
    elif loss == "poisson":
        signal = np.exp(signal / 3)
        y = np.random.default_rng(0).poisson(signal[tuple(X.T)]).astype(float)
    fitted = model(loss=loss, bias=bias).fit(X, y)
    predicted = everywhere(fitted)
    assert np.corrcoef(predicted.ravel(), signal.ravel())[0, 1] > 0.6
    if loss == "logistic":
        assert ((predicted > 0) & (predicted < 1)).all()
    if loss == "poisson":
        assert (predicted > 0).all()


def test_weight_two_is_the_entry_given_twice():
    X, y, _ = ratings(entries=500)
    twice = np.arange(0, 500, 3)
    weights = np.ones(500)
    weights[twice] = 2
    options = {"regularization": 1.0, "tolerance": 1e-12}
    weighted = model(**options).fit(X, y, sample_weight=weights)
    repeated = model(**options).fit(np.concatenate([X, X[twice]]), np.concatenate([y, y[twice]]))
    np.testing.assert_allclose(everywhere(weighted), everywhere(repeated), atol=1e-4)
    ignored = model(**options).fit(X, y, sample_weight=(np.arange(500) > 250).astype(float))
    assert np.abs(everywhere(ignored) - everywhere(weighted)).max() > 0.1


def test_float32_stays_float32_and_is_as_good():
    X, y, truth = ratings()
    fitted = model(dtype="float32").fit(X, y)
    assert fitted.factors_[0].dtype == fitted.factors_[1].dtype == np.float32
    assert rmse(everywhere(fitted), truth) == pytest.approx(
        rmse(everywhere(model().fit(X, y)), truth), rel=0.05
    )


def test_the_same_seed_gives_the_same_model_and_the_order_of_entries_does_not_matter():
    X, y, _ = ratings()
    order = np.random.default_rng(1).permutation(len(y))
    first, second = (everywhere(model().fit(X[p], y[p])) for p in (slice(None), order))
    np.testing.assert_allclose(first, second, atol=1e-10)
    assert not np.array_equal(first, everywhere(model(random_state=1).fit(X, y)))


def test_cross_validation_and_grid_search():
    X, y, _ = ratings(noise=0.1)
    assert cross_val_score(model(), X, y, cv=3).mean() > 0.7
    search = GridSearchCV(model(), {"rank": [1, 2], "regularization": [1.0]}, cv=3).fit(X, y)
    assert search.best_params_["rank"] == 2


def test_rank_auto():
    data = rf.data.random_completion((80, 60), rank=2, oversampling=5, seed=0, noise=0.01)
    fitted = model(rank="auto", bias=False).fit(data)
    assert fitted.rank_ == 2 == fitted.rank_path_.chosen
    assert fitted.factors_[0].shape == (80, 2)
    values = data.values.copy()
    assert 1 <= model(rank="auto").fit(data).rank_ <= 4  # offsets are fitted first: they may take some of W
    np.testing.assert_array_equal(data.values, values)
    with pytest.raises(ValueError, match="takes bias=False"):
        model(rank="auto", loss="huber").fit(data)


@pytest.mark.parametrize("geometry", ["polar", "subspace", "embedded", rf.FullRank])
def test_every_geometry_finds_the_same_minimum(geometry):
    X, y, _ = ratings()
    options = {"regularization": 2.0, "tolerance": 1e-10}
    expected = everywhere(model(**options).fit(X, y))
    np.testing.assert_allclose(everywhere(model(geometry=geometry, **options).fit(X, y)), expected, atol=1e-2)


def test_warm_start_goes_on_from_the_last_fit():
    X, y, _ = ratings()
    warm = model(warm_start=True, tolerance=1e-8).fit(X, y)
    weight, iterations = warm.regularization_, warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ < iterations
    assert warm.regularization_ == weight
    warm.fit(X[X[:, 0] < 50], y[X[:, 0] < 50])  # other rows: from the beginning
    assert warm.shape_ == (50, 40)


def test_too_few_iterations_warn():
    X, y, _ = ratings()
    with pytest.warns(ConvergenceWarning, match="raise max_iterations"):
        assert not model(regularization=0.5, max_iterations=1).fit(X, y).converged_


def test_a_fit_can_be_checkpointed_resumed_and_watched(tmp_path):
    X, y, _ = ratings()
    whole = model().fit(X, y)
    path, seen = tmp_path / "fit.ckpt", []

    def stop_early(progress):
        seen.append(progress.iteration)
        return progress.iteration == 2

    with pytest.warns(ConvergenceWarning):
        model().fit(X, y, checkpoint=path, callback=stop_early)
    assert seen == [0, 1, 2]
    resumed = model().fit(X, y, resume=path)
    np.testing.assert_array_equal(everywhere(resumed), everywhere(whole))


def test_the_linear_operator_is_the_completed_matrix():
    X, y, _ = ratings()
    fitted = model().fit(X, y)
    dense, operator = everywhere(fitted), fitted.as_linear_operator()
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(
        operator @ rng.standard_normal((40, 3)), dense @ np.random.default_rng(0).standard_normal((40, 3))
    )
    v = rng.standard_normal(60)
    np.testing.assert_allclose(operator.rmatvec(v), dense.T @ v)
    assert operator.shape == (60, 40)


def test_more_regularisation_than_the_data_can_bear_leaves_the_offsets():
    X, y, _ = ratings()
    fitted = model(regularization=1e6).fit(X, y)
    assert not fitted.factors_[0].any()
    assert not fitted.factors_[1].any()
    assert fitted.converged_
    assert "W = 0 is best" in fitted.stop_reason_
    mean, b, c = fitted.biases_
    np.testing.assert_allclose(everywhere(fitted), mean + b[:, None] + c)


def test_constant_values_are_predicted():
    X, _, _ = ratings()
    np.testing.assert_allclose(model().fit(X, np.full(len(X), 4.0)).predict(X), 4.0, atol=1e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("turned", [False, True])
def test_a_large_problem_chooses_its_regularisation_from_a_sample(monkeypatch, turned, weighted):
    X, y, truth = ratings()
    X, truth = (X[:, ::-1], truth.T) if turned else (X, truth)
    monkeypatch.setattr("rankfold.estimators.completion.regularization.MAX_ENTRIES", 700)
    monkeypatch.setattr("rankfold.estimators.completion.regularization._MIN_LINES", 3)
    fitted = model().fit(X, y, sample_weight=np.ones(len(y)) if weighted else None)
    assert rmse(everywhere(fitted, truth.shape), truth) < 0.6


def test_a_sample_is_whole_lines_of_the_longer_side(monkeypatch):
    X, y, _ = ratings()
    assert sample_lines(rf.Completion(*X.T, y, (60, 40)), 700, seed=0).shape == (60, 40)  # few rows: all
    monkeypatch.setattr("rankfold.estimators.completion.regularization._MIN_LINES", 3)
    for pairs in (X, X[:, ::-1]):
        whole = rf.Completion(*pairs.T, y, pairs.max(axis=0) + 1)
        part = sample_lines(whole, 700, seed=0)
        longer = int(np.argmax(whole.shape))
        assert part.shape[1 - longer] == whole.shape[1 - longer]
        assert 600 < part.observed.size <= 700
        sides = [(c.observed.by_row, c.observed.by_column)[longer] for c in (part, whole)]
        assert set(map(tuple, np.split(*_rows(sides[0])))) <= set(map(tuple, np.split(*_rows(sides[1]))))


def _rows(side):
    return side.data[:, 0], side.indptr[1:-1].astype(int)


def test_sides_in_stripes_give_the_same_model(monkeypatch):
    X, y, _ = ratings()
    weights = np.random.default_rng(0).uniform(0.5, 1.5, len(y))
    options = {"regularization": 1.0, "tolerance": 1e-12}
    expected = model(**options).fit(X, y, sample_weight=weights)
    monkeypatch.setattr("rankfold.entries.sorted_entries.STRIPES", ((9, 2), (50, 1)))
    monkeypatch.setattr("rankfold.estimators.completion.lines.BLOCK", 7)
    striped = model(**options).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(everywhere(striped), everywhere(expected), atol=1e-4)
    assert np.isfinite(everywhere(model().fit(X, y))).all()
    for mine, theirs in zip(striped.observed_, expected.observed_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_polars_frames_are_tables_too():
    X, y, _ = ratings()
    labelled = polars.DataFrame({"who": [f"u{i:02}" for i in X[:, 0]], "what": X[:, 1]})
    fitted = model(regularization=1.0).fit(labelled, polars.Series(y))
    expected = model(regularization=1.0).fit(X, y).predict(X)
    np.testing.assert_array_equal(fitted.predict(labelled), expected)
    assert fitted.col_labels_.dtype == np.int64


def test_ctrl_c_leaves_the_best_model_so_far():
    X, y, _ = ratings()

    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="interrupted after iteration 2"):
        fitted = model(tolerance=1e-12).fit(X, y, callback=interrupt)
    assert not fitted.converged_
    assert fitted.score(X, y) > 0.9


def test_ctrl_c_before_there_is_a_model_is_an_interrupt(monkeypatch):
    X, y, _ = ratings()

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankfold.solvers.ConjugateGradient.step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model().fit(X, y)


def test_verbose_tells_of_every_rank_and_weight_tried(capsys):
    X, y, _ = ratings()
    fitted = model(rank="auto", verbose=2).fit(X, y)
    lines = capsys.readouterr().err.splitlines()
    ranks = [line for line in lines if line.startswith("choosing the rank: rank ")]
    weights = [line for line in lines if line.startswith("choosing the regularization: λ ")]
    assert len(ranks) == len(fitted.rank_path_.ranks)
    assert [float(line.split()[4]) for line in weights] == pytest.approx(
        [weight for weight, _ in fitted.regularization_path_], rel=1e-3
    )


def test_positions_are_predicted_like_labels():
    X, y, _ = ratings()
    labelled = model(regularization=1.0).fit([(f"u{i:02}", f"f{j:02}") for i, j in X], y)
    by_label = labelled.predict(
        [("u03", "f04"), ("nobody", "f04"), ("u03", "nothing"), ("nobody", "nothing")]
    )
    by_position = labelled.predict_at(np.array([3, -1, 3, -1]), np.array([4, 4, -1, -1]))
    np.testing.assert_array_equal(by_position, by_label)


def test_score_is_the_explained_variance():
    X, y, _ = ratings()
    fitted = model(regularization=1.0).fit(X, y)
    expected = 1 - np.sum((y - fitted.predict(X)) ** 2) / np.sum((y - y.mean()) ** 2)
    assert fitted.score(X, y) == pytest.approx(expected)


def test_a_fit_that_entries_do_not_determine_says_so():
    data = rf.data.random_completion((40, 30), rank=2, oversampling=0.8, seed=0, min_per_line=1)
    few = int((np.bincount(data.rows, minlength=40) < 2).sum())
    plain = model(rank=2, bias=False, regularization=0.0, tolerance=0.1)
    with pytest.warns(
        UserWarning, match=rf"not unique: {few} rows have fewer than 2 entries \(the first: \["
    ):
        plain.fit(data)
