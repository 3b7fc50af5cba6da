"""Rows, columns and entries that come after the fit."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import minimize

import rankfold as rf
from estimators.completion.rating_data import everywhere, model, ratings, rmse
from rankfold.entries.ordering import sorted_entries
from rankfold.estimators.completion.convex_lines import ConvexLines

WEIGHT = 0.7
X, Y, TRUTH = ratings(entries=1600)
OLD = X[:, 0] < 50  # rows 50 to 59 are new


def trained(**options):
    return model(regularization=WEIGHT, tol=1e-12, **options).fit(X[OLD], Y[OLD])


def new_rows():
    pairs = X[~OLD] - np.array([50, 0])
    return pairs, Y[~OLD]


def row_by_hand(fitted, cols, values, bias=True):
    """Offset and factor of a row with these entries, by the normal equations."""
    R, c = fitted.factors_[1], fitted.biases_.mean + fitted.biases_.cols
    ridges = np.full(R.shape[1], WEIGHT * np.sqrt(len(cols)))
    if not bias:
        return 0.0, np.linalg.solve(R[cols].T @ R[cols] + np.diag(ridges), R[cols].T @ (values - c[cols]))
    B = np.column_stack([R, np.ones(len(R))])[cols]
    ridges = np.append(ridges, fitted.shrinkage_.rows)
    x = np.linalg.solve(B.T @ B + np.diag(ridges), B.T @ (values - c[cols]))
    return x[-1], x[:-1]


@pytest.mark.parametrize("bias", [True, False])
def test_folded_rows_solve_their_ridge_problems(bias):
    fitted = trained(bias=bias)
    pairs, y = new_rows()
    folded = fitted.fold_in(pairs, y)
    assert folded.shape_ == (10, 40)
    for i in range(10):
        mine = pairs[:, 0] == i
        b, factor = row_by_hand(fitted, pairs[mine, 1], y[mine], bias)
        np.testing.assert_allclose(folded.factors_[0][i], factor, atol=1e-10)
        assert folded.biases_.rows[i] == pytest.approx(b)
    assert folded.factors_[1] is fitted.factors_[1]
    np.testing.assert_array_equal(everywhere(fitted, (50, 40)), everywhere(trained(bias=bias), (50, 40)))


def test_folded_rows_are_predicted_nearly_as_by_a_refit():
    pairs, y = new_rows()
    folded = model().fit(X[OLD], Y[OLD]).fold_in(pairs, y)
    refitted = model().fit(X, Y)
    assert rmse(everywhere(folded, (10, 40)), TRUTH[50:]) < 1.2 * rmse(everywhere(refitted)[50:], TRUTH[50:])


@pytest.mark.parametrize("side", ["row", "column"])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("loss", ["square", "huber"])
def test_what_is_folded_in_with_its_own_entries_gets_what_the_fit_gave_it(loss, bias, side):
    """The two minimise one objective: charges of factors and offsets, weights and the mean included."""
    weights = np.random.default_rng(0).uniform(0.2, 3.0, len(Y))
    fitted = model(regularization=WEIGHT, tol=1e-12, bias=bias, loss=loss).fit(X, Y, weights)
    folded, k = fitted.fold_in(X, Y, weights, side=side), ["row", "column"].index(side)
    size = np.abs(fitted.factors_[k]).max()
    np.testing.assert_allclose(folded.factors_[k], fitted.factors_[k], atol=1e-6 * size)
    np.testing.assert_allclose(folded.biases_[1 + k], fitted.biases_[1 + k], atol=1e-6)


def test_columns_fold_in_like_rows():
    fitted = trained()
    flipped = model(regularization=WEIGHT, tol=1e-12).fit(X[OLD][:, ::-1], Y[OLD])
    pairs, y = new_rows()
    rows, columns = fitted.fold_in(pairs, y), flipped.fold_in(pairs[:, ::-1], y, side="column")
    np.testing.assert_allclose(everywhere(columns, (40, 10)).T, everywhere(rows, (10, 40)), atol=1e-3)
    seen = columns.observed_
    keys = np.repeat(np.arange(40), seen.counts)
    assert set(zip(keys, seen.indices.tolist(), strict=True)) == set(map(tuple, pairs[:, ::-1].tolist()))


def test_weights_count_entries():
    pairs, y = new_rows()
    weighted = trained().fold_in(pairs, y, sample_weight=np.full(len(y), 2.0))
    twice = trained().fold_in(np.repeat(pairs, 2, axis=0), np.repeat(y, 2))
    np.testing.assert_allclose(weighted.factors_[0], twice.factors_[0], atol=1e-10)


def test_other_losses_fold_in_to_their_minimum():
    y = (TRUTH.mean() < Y).astype(float)
    fitted = model(regularization=0.3, loss="logistic").fit(X[OLD], y[OLD])
    pairs = X[~OLD] - np.array([50, 0])
    folded = fitted.fold_in(pairs, y[~OLD])
    predicted = folded.predict(pairs)
    slope = np.zeros_like(folded.factors_[0])
    np.add.at(slope, pairs[:, 0], (predicted - y[~OLD])[:, None] * fitted.factors_[1][pairs[:, 1]])
    slope += 2 * 0.3 * np.sqrt(np.bincount(pairs[:, 0]))[:, None] * folded.factors_[0]
    assert np.abs(slope).max() < 1e-6
    assert np.mean((predicted > 0.5) == y[~OLD]) > 0.8
    with pytest.raises(ValueError, match="partial_fit takes the square loss"):
        fitted.partial_fit(pairs, y[~OLD])


def test_labels_of_new_rows_are_theirs_and_those_of_columns_must_be_known():
    names = [(f"u{i}", f"film{j}") for i, j in X[OLD]]
    fitted = model(regularization=WEIGHT).fit(names, Y[OLD])
    folded = fitted.fold_in([("new", "film3"), ("late", "film3")], [4.0, 1.0])
    assert folded.row_labels_.tolist() == ["late", "new"]
    assert folded.predict([("new", "film3")]) > folded.predict([("late", "film3")])
    with pytest.raises(KeyError, match="the column label 'fim3' is not in this model: did you mean 'film3"):
        fitted.fold_in([("new", "fim3")], [4.0])
    with pytest.raises(TypeError, match="the row labels of this model are like 'u"):
        fitted.fold_in([(3, "film3")], [4.0])
    with pytest.raises(ValueError, match="side must be 'row' or 'column', not 'both'"):
        fitted.fold_in([("new", "film3")], [4.0], side="both")
    with pytest.raises(KeyError, match="the column label 40 is not in this model"):
        trained().fold_in([(0, 40)], [4.0])
    with pytest.raises(
        ValueError, match=r"X\[0, 1\] is 40: columns are positions here, counted from 0 to 39"
    ):
        trained(shape=(50, 40)).fold_in([(0, 40)], [4.0])


def test_triples_fold_in_by_label():
    data = rf.data.Triples(X[:, 0], X[:, 1], Y, (60, 40), np.array([f"u{i:02}" for i in range(60)]), None)
    fitted = model(regularization=WEIGHT).fit(data)
    new = rf.data.Triples(np.array([0]), np.array([3]), np.array([9.0]), (1, 40), np.array(["z"]), None)
    assert fitted.fold_in(new).row_labels_.tolist() == ["z"]


def test_partial_fit_of_new_rows_is_fold_in():
    fitted, folded = trained(), trained().fold_in(*new_rows())
    fitted.partial_fit(X[~OLD], Y[~OLD])
    assert fitted.shape_ == (60, 40)
    np.testing.assert_allclose(fitted.factors_[0][50:], folded.factors_[0])
    np.testing.assert_allclose(fitted.biases_.rows[50:], folded.biases_.rows)
    whole = model(regularization=WEIGHT).fit(X, Y)
    for mine, theirs in zip(fitted.observed_, whole.observed_, strict=True):
        assert sorted(mine) == sorted(theirs)
    assert rmse(everywhere(fitted), TRUTH) < 1.1 * rmse(everywhere(whole), TRUTH)


def test_partial_fit_remembers_what_earlier_entries_said():
    """A row that is told its entries in two parts has the factor that all of them at once give."""
    fitted = trained()
    pairs, y = new_rows()
    mine = pairs[:, 0] == 0
    cols, values = pairs[mine, 1], y[mine]
    half = len(cols) // 2
    R, c = fitted.factors_[1].copy(), fitted.biases_.cols.copy()
    b, factor = row_by_hand(fitted, cols, values)
    fitted.partial_fit([(50, j) for j in cols[:half]], values[:half])
    fitted.factors_, fitted.biases_ = (fitted.factors_[0], R), fitted.biases_._replace(cols=c)
    fitted.partial_fit([(50, j) for j in cols[half:]], values[half:])
    assert fitted.biases_.rows[50] == pytest.approx(b)
    np.testing.assert_allclose(fitted.factors_[0][50], factor, atol=1e-10)


def test_partial_fit_takes_new_labels_on_both_sides():
    names = [(f"u{i}", f"film{j}") for i, j in X[OLD]]
    fitted = model(regularization=WEIGHT).fit(names, Y[OLD])
    before = fitted.predict([("u7", "film1")])
    users = ["u1", "u2", "u3", "new user"]
    fitted.partial_fit([(u, film) for u in users for film in ("good", "bad")], [9.0, -3.0] * 4)
    assert fitted.shape_ == (51, 42)
    assert fitted.row_labels_[-1] == "new user"
    assert fitted.col_labels_[-2:].tolist() == ["bad", "good"]
    for user in (*users, "u4", "stranger"):
        assert fitted.predict([(user, "good")]) > fitted.predict([(user, "bad")]) + 1
    assert fitted.predict([("u7", "film1")]) == before  # neither has a new entry
    assert not {"good", "bad"} & set(fitted.recommend("u1", n=42).cols)


def test_partial_fit_without_a_fit_takes_features_and_weights_as_a_fit_does():
    rng = np.random.default_rng(5)
    given = {
        "sample_weight": rng.uniform(0.5, 2.0, len(Y)),
        "row_features": rng.standard_normal((60, 2)),
        "col_features": rng.standard_normal((40, 1)),
    }
    found, due = (
        getattr(model(regularization=WEIGHT, bayesian=False), method)(X, Y, **given)
        for method in ("partial_fit", "fit")
    )
    assert found.data_fingerprint_ == due.data_fingerprint_
    for mine, theirs in zip(found.features_, due.features_, strict=True):
        np.testing.assert_array_equal(mine.expected, theirs.expected)
    np.testing.assert_array_equal(everywhere(found), everywhere(due))


def test_partial_fit_without_a_fit_is_a_fit():
    np.testing.assert_array_equal(
        everywhere(model(regularization=WEIGHT).partial_fit(X, Y)),
        everywhere(model(regularization=WEIGHT).fit(X, Y)),
    )


@pytest.mark.parametrize("exclude", [True, False])
def test_recommendations_are_the_largest_predictions(exclude):
    fitted = trained()
    W = everywhere(fitted, (50, 40))
    if exclude:
        W[tuple(X[OLD].T)] = -np.inf
    rows = [7, 3, 7]
    found = fitted.recommend(rows, n=5, exclude_seen=exclude)
    best = np.argsort(-W[rows], axis=1)[:, :5]
    np.testing.assert_array_equal(found.cols.reshape(3, 5), best)
    np.testing.assert_array_equal(found.rows, np.repeat(rows, 5))
    np.testing.assert_allclose(found.scores.reshape(3, 5), np.take_along_axis(W[rows], best, axis=1))


def test_what_has_no_entry_is_never_recommended_and_like_nothing():
    pairs = [
        (0, 0),
        (0, 1),
        (1, 0),
        (2, 1),
        (2, 3),
    ]  # none in columns 2 and 4, which are predicted by the mean
    fitted = model(rank=1, regularization=0.1, shape=(4, 5)).fit(pairs, [-5.0, -1.0, -4.0, -2.0, -3.0])
    found = fitted.recommend([0, 1, 3], n=5, exclude_seen=False)
    assert [set(found.cols[found.rows == i].tolist()) for i in (0, 1, 3)] == [{0, 1, 3}] * 3
    assert fitted.recommend(0, n=5).cols.tolist() == [3]
    assert set(fitted.similar(0, n=5).neighbours.tolist()) == {1, 3}
    assert set(fitted.similar(0, n=5, side="row").neighbours.tolist()) == {1, 2}


def test_a_row_that_has_everything_gets_no_recommendation():
    pairs = [(0, j) for j in range(6)] + [(i, (i + j) % 6) for i in range(1, 6) for j in range(3)]
    fitted = model(regularization=1.0).fit(pairs, np.arange(21.0))
    found = fitted.recommend([0, 1], n=10)
    assert found.rows.tolist() == [1, 1, 1]


def test_neighbours_have_the_largest_cosines_of_w():
    fitted = trained()
    L, R = fitted.factors_
    for side, W in (("row", L @ R.T), ("column", R @ L.T)):
        unit = W / np.linalg.norm(W, axis=1, keepdims=True)
        cosines = unit @ unit.T
        np.fill_diagonal(cosines, -np.inf)
        found = fitted.similar([4, 9], n=3, side=side)
        best = np.argsort(-cosines[[4, 9]], axis=1)[:, :3]
        np.testing.assert_array_equal(found.neighbours.reshape(2, 3), best)
        np.testing.assert_allclose(
            found.cosines.reshape(2, 3), np.take_along_axis(cosines[[4, 9]], best, axis=1), atol=1e-10
        )


def test_unknown_names_are_named_with_the_nearest():
    names = [(f"user{i}", f"film{j}") for i, j in X]
    fitted = model(regularization=1.0).fit(names, Y)
    with pytest.raises(KeyError, match="the row label 'usr7' is not in this model: did you mean 'user7'"):
        fitted.recommend(["user3", "usr7"])
    with pytest.raises(KeyError, match=r"the column label 'film99' .* did you mean 'film9'"):
        fitted.similar("film99")
    with pytest.raises(KeyError, match=r"the row label '\?' is not in this model, which knows 60 others"):
        fitted.recommend("?")
    with pytest.raises(KeyError, match="the row label 60 is not in this model, which knows 60 others"):
        model(regularization=1.0).fit(X, Y).recommend(60)
    with pytest.raises(ValueError, match="n must be at least 1"):
        fitted.recommend("user3", n=0)


def total(loss, x, given, B, y, weights, ridge):
    return np.sum(weights * loss(given + B @ x, y)[0]) + ridge * x @ x


@pytest.mark.filterwarnings("ignore:1 of 4 rows have no observed entry")
@pytest.mark.parametrize("ridge", [0.05, 2.0])
@pytest.mark.parametrize("size", [0.3, 3.0])
@pytest.mark.parametrize("name", ["poisson", "logistic", "huber", "squared_hinge"])
def test_each_new_line_gets_to_the_minimum_of_what_it_pays(name, size, ridge):
    """The minimum is SciPy's, with gradients of its own by differences."""
    rng, loss = np.random.default_rng(3), rf.Loss.named(name)
    B, given, weights = size * rng.standard_normal((30, 3)), rng.standard_normal(30), rng.uniform(0, 2, 30)
    values = {"poisson": rng.poisson(5.0, 30), "huber": 4 * rng.standard_normal(30)}
    y = values.get(name, rng.integers(0, 2, 30)).astype(float)
    lines = np.repeat([0, 1, 2], 10)
    cost = rf.Completion(lines, np.arange(30), y, (4, 30), weights=weights, loss=name)
    side = cost.observed.by_row
    x = ConvexLines(side, loss, B, np.full((4, B.shape[1]), ridge), given=given[side.indices]).minimised()
    for i in range(3):
        mine = lines == i
        pays = partial(
            total, loss, given=given[mine], B=B[mine], y=y[mine], weights=weights[mine], ridge=ridge
        )
        best = min(minimize(pays, start, tol=1e-12).fun for start in (np.zeros(3), x[i]))
        assert pays(x[i]) <= best + 1e-9 * (1 + abs(best))
    assert not x[3].any()  # no entry


@pytest.mark.parametrize("name", ["huber", "poisson"])
@pytest.mark.parametrize("weighted", [True, False])
def test_the_model_of_a_line_slopes_and_curves_as_its_losses_do_and_by_a_part_of_the_mean_at_least(
    monkeypatch, name, weighted
):
    """Line 0 is straight everywhere, line 1 in part, line 2 hardly curves, and line 3 has no entry."""
    monkeypatch.setattr("rankfold.estimators.completion.convex_lines._BLOCK", 4)
    rng, loss = np.random.default_rng(3), rf.Loss.named(name)
    line, j = np.repeat([0, 1, 2], [3, 6, 2]), np.arange(11) % 5
    y = np.array([50.0, 60, 70, 0.1, 30, 0.2, 40, 0.3, 0.1, 0.2, 0.3])
    w = rng.uniform(0.5, 2.0, 11)
    packed = y + 1j * w if weighted else y
    side = sorted_entries(line, j, packed, (4, 5), np.uint32, 1)
    B, x = rng.standard_normal((5, 3)), rng.standard_normal((4, 2))
    x[2] = 0.0
    B[:, 2] = 0.1 * rng.standard_normal(5)
    given = np.where(line == 2, -20.0, 0.0) if name == "poisson" else 0.1 * rng.standard_normal(11)
    pull, ridges = rng.standard_normal((4, 2)), rng.uniform(0.5, 2.0, (4, 2))
    lines = ConvexLines(side, loss, B, ridges, pull, given)
    predicted = given + np.sum(x[line] * B[j, :2], axis=1) + B[j, 2]
    values, first, second = loss(predicted, y)
    curved = np.maximum(second / 2, 0.0)
    means = np.array([curved[line == i].mean() for i in range(3)])
    least = 0.03 * np.maximum(means, 1e-3 * curved.mean())
    h = np.maximum(second / 2, least[line])
    assert (h > curved).any()
    assert (h == curved).any()
    assert means[2 if name == "poisson" else 0] < 1e-3 * curved.mean()
    worth = w if weighted else np.ones(11)
    found, costs, sizes = lines._modelled(x)
    np.testing.assert_allclose(found.data[:, 0], predicted - first / 2 / h - given, rtol=1e-9)
    np.testing.assert_allclose(found.data[:, 1], worth * h, rtol=1e-12)
    own = np.sum(ridges * x**2 - 2 * pull * x, axis=1)
    np.testing.assert_allclose(costs, own + np.bincount(line, worth * values, 4), rtol=1e-12)
    np.testing.assert_allclose(sizes, np.abs(own) + np.bincount(line, worth * np.abs(values), 4), rtol=1e-12)
    np.testing.assert_allclose(lines._costs(x), costs, rtol=1e-12)
    np.testing.assert_array_equal(lines.model(x).data, found.data)


def test_what_lines_pay_is_summed_as_exactly_in_single_precision():
    rng, loss = np.random.default_rng(4), rf.Loss.named("poisson")
    line, j, y = np.repeat([0, 1], 20), np.arange(40), rng.poisson(3.0, 40).astype(np.float32)
    side = sorted_entries(line, j, y, (2, 40), np.uint32, 1)
    B, x, pull = (rng.standard_normal(size).astype(np.float32) for size in ((40, 9), (2, 9), (2, 9)))
    lines = ConvexLines(side, loss, B, np.ones((2, 9), np.float32), pull)
    assert side.data.dtype == np.float32
    B, x64, pull = (part.astype(float) for part in (B, x, pull))
    values = loss(np.sum(x64[line] * B[j], axis=1), y.astype(float))[0]
    due = np.bincount(line, values) - 2 * np.sum(pull * x64, axis=1) + np.sum(x64 * x64, axis=1)
    np.testing.assert_allclose(lines._costs(x), due, rtol=1e-12)


def test_a_line_finds_its_minimum_from_where_all_its_losses_are_straight():
    """Beside lines whose losses curve: what is believed of a straight one makes a first step far too long."""
    side = sorted_entries(np.arange(3), np.zeros(3, int), np.array([0.1, 3.0, -700.0]), (3, 1), np.uint32, 1)
    lines = ConvexLines(side, rf.Loss.named("huber"), np.ones((1, 1)), np.full((3, 1), 1e-8))
    np.testing.assert_allclose(lines.minimised()[:, 0], [0.1, 3.0, -700.0], rtol=1e-6)


def test_a_new_row_of_large_counts_goes_to_no_infinity():
    """Newton's first step from small counts, or a majoriser there, would go to exp(149) and beyond."""
    rng = np.random.default_rng(0)
    pairs = np.argwhere(rng.random((40, 30)) < 0.6)
    fitted = model(loss="poisson", regularization=0.5).fit(pairs, rng.poisson(2.0, len(pairs)))
    entries = [(0, j) for j in range(10)]
    predicted = fitted.fold_in(entries, np.full(10, 300.0)).predict(entries)
    assert predicted.max() < 3000
    assert predicted.mean() > 50


def test_a_line_that_no_halving_makes_better_stays_where_it_is(monkeypatch):
    """Beside lines that get to their minimum."""
    monkeypatch.setattr("rankfold.estimators.completion.convex_lines.HALVINGS", 1)
    side = sorted_entries(np.arange(2), np.zeros(2, int), np.array([300.0, 0.5]), (2, 1), np.uint32, 1)
    lines = ConvexLines(side, rf.Loss.named("poisson"), np.ones((1, 1)), np.full((2, 1), 1e-3))
    x = np.array([[-2.0], [0.1]])
    new, moved = lines._stepped(x)
    assert new[0] == x[0]
    assert new[1] < x[1]
    assert moved.tolist() == [False, True]
