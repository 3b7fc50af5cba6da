"""Entries that come after the fit, against the same objective with all of them, written out densely."""

import itertools
import pickle

import numpy as np
import pytest

import rankfold as rf
from estimators.completion.rating_data import model, ratings, rmse
from rankfold.estimators.completion import streaming
from rankfold.estimators.completion.bayes.beliefs import Prior, square, triangle
from rankfold.estimators.completion.bayes.posterior import Posterior
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.folding import Earlier, Lines
from rankfold.estimators.completion.pattern import Pattern

X, Y, TRUTH = ratings(entries=1200)
FIRST, MORE = slice(0, 1000), slice(1000, 1200)
WEIGHT = 0.7


def fitted(**options):
    return model(regularization=WEIGHT, tol=1e-12, bayesian=False, **options).fit(X[FIRST], Y[FIRST])


def line_by_hand(found, before, i, cols, y, weights, kept, earlier_weight):
    """Row i of a model, by its objective: entries before, worth `kept` of what they were, and new ones."""
    L, R = before.factors_
    mean, b, c = before.biases_
    design = np.column_stack([R, np.ones(len(R))])
    ridge = lambda n: np.diag([WEIGHT * np.sqrt(max(n, 1.0))] * 2 + [before.shrinkage_.rows])  # noqa: E731
    x = np.append(L[i], b[i])
    old = X[FIRST][X[FIRST][:, 0] == i, 1]
    Q = design[old].T @ design[old]
    q = Q @ x + ridge(earlier_weight) @ x  # which the fit solved
    B = design[cols]
    n = kept * earlier_weight + weights.sum()
    A = kept * Q + B.T @ (weights[:, None] * B) + ridge(n)
    return np.linalg.solve(A, kept * q + B.T @ (weights * (y - mean - c[cols])))


@pytest.mark.parametrize("forget", [0.0, 0.3, 1.0])
def test_rows_solve_the_objective_with_earlier_entries_worth_less(forget):
    before, found = fitted(), fitted()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 200)
    found.partial_fit(X[MORE], Y[MORE], weights, forget=forget)
    counts = np.bincount(X[FIRST][:, 0], minlength=60)
    for i in np.unique(X[MORE][:, 0])[:20]:
        mine = X[MORE][:, 0] == i
        due = line_by_hand(
            found, before, i, X[MORE][mine, 1], Y[MORE][mine], weights[mine], 1 - forget, counts[i]
        )
        np.testing.assert_allclose(np.append(found.factors_[0][i], found.biases_.rows[i]), due, rtol=1e-8)
        assert found.information_.row_weights[i] == pytest.approx(
            (1 - forget) * counts[i] + weights[mine].sum()
        )
    untouched = np.setdiff1d(np.arange(60), X[MORE][:, 0])
    np.testing.assert_array_equal(found.factors_[0][untouched], before.factors_[0][untouched])


def test_what_entries_said_is_kept_as_sums_over_them():
    found = fitted()
    found.partial_fit(X[MORE], Y[MORE])
    L, R = fitted().factors_
    for i in (0, 7):
        B = np.column_stack([R, np.ones(len(R))])[X[X[:, 0] == i, 1]]  # columns as they were
        np.testing.assert_allclose(square(found.information_.rows[i], 3), B.T @ B, rtol=1e-9)
    j = 5
    old, new = X[FIRST][X[FIRST][:, 1] == j, 0], X[MORE][X[MORE][:, 1] == j, 0]
    B = np.column_stack([np.vstack([L[old], found.factors_[0][new]]), np.ones(len(old) + len(new))])
    np.testing.assert_allclose(square(found.information_.cols[j], 3), B.T @ B, rtol=1e-9)
    assert fitted().information_ is None


@pytest.mark.parametrize("bias", [True, False])
def test_what_entries_said_is_the_same_by_blocks_of_lines(bias, monkeypatch):
    rng, known = np.random.default_rng(6), np.random.default_rng(7).random((11, 7)) < 0.4
    factors = rng.standard_normal((11, 2)), rng.standard_normal((7, 2))
    pattern = Pattern(np.append(0, np.cumsum(known.sum(axis=1))), np.nonzero(known)[1].astype(np.uint32))
    monkeypatch.setattr(streaming, "_BLOCK", 4)
    found = streaming.information_of(pattern, factors, bias)
    for triangles, weights, there, B in (
        (found.rows, found.row_weights, known, factors[1]),
        (found.cols, found.col_weights, known.T, factors[0]),
    ):
        B = np.column_stack([B, np.ones(len(B))]) if bias else B
        np.testing.assert_array_equal(weights, there.sum(axis=1))
        for own, line in zip(triangles, there, strict=True):
            np.testing.assert_allclose(square(own, B.shape[1]), B[line].T @ B[line], atol=1e-12)


def posterior(d=3, seed=1):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    prior = Prior(np.zeros(d), 0.2 * rng.standard_normal(d), root @ root.T + np.eye(d), np.log(2))
    sure = np.repeat(triangle(0.1 * np.eye(d))[None], 12, axis=0)
    return Posterior(sure, sure, (prior, prior), 0.3, 4, None), rng


@pytest.mark.parametrize("kept", [1.0, 0.6])
def test_posteriors_of_two_parts_are_those_of_all_entries(kept):
    """Given the columns: told in two parts or at once, with the first part weighing less."""
    sure, rng = posterior()
    cols = Lines(rng.standard_normal(12), rng.standard_normal((12, 2)), sure.cols)
    j, y = np.arange(12), rng.standard_normal(12)

    def cost(part, weights=None):
        count = len(y[part])
        values = y[part], (1, 12)
        return rf.Completion(np.zeros(count, int), j[part], *values, weights=weights)

    first, second = slice(0, 7), slice(7, 12)
    with pytest.warns(UserWarning, match="columns have no observed entry"):
        one, two = cost(first), cost(second)
    before = sure.solved(rf_row(), one, 0.0, cols)
    found = sure.solved(rf_row(), two, 0.0, cols, Earlier(before, np.array([7]), kept=kept))
    weights = np.where(np.arange(12) < 7, kept, 1.0)
    # the prior of a row depends on how many entries it has, forgotten or not
    prior = sure.priors[0]
    moved = prior._replace(mean=prior.means(np.log1p(np.array([12.0])))[0], slope=0 * prior.slope)
    whole = sure._replace(priors=(moved, prior)).solved(rf_row(), cost(slice(0, 12), weights), 0.0, cols)
    np.testing.assert_allclose(found.factors, whole.factors, rtol=1e-8)
    np.testing.assert_allclose(found.offsets, whole.offsets, rtol=1e-8)
    np.testing.assert_allclose(found.covariances, whole.covariances, rtol=1e-7)


def test_what_one_entry_said_is_known_of_a_line_and_nothing_of_one_without_any():
    """Of rows that had 0, 1 and 3 entries: as many sums and products as their posteriors tell."""
    sure, rng = posterior()
    i, j, y = np.array([1, 2, 2, 2]), np.array([4, 0, 4, 7]), rng.standard_normal(4)
    cols = Lines(rng.standard_normal(12), rng.standard_normal((12, 2)), sure.cols)
    prior, counts = sure.priors[0], np.array([0, 1, 3])
    with pytest.warns(UserWarning, match="have no observed entry"):
        before = sure.solved(rf_row(), rf.Completion(i, j, y, (3, 12)), 0.0, cols)
    known = sure._known(prior, Earlier(before, counts, kept=0.5), prior.means(np.log1p(counts)))
    for row in range(3):
        A, q = np.zeros((3, 3)), np.zeros(3)
        for at, value in zip(j[i == row], y[i == row], strict=True):
            f, o = np.append(cols.factors[at], 1.0), cols.offsets[at]
            spread = square(sure.cols[at][None], 3)[0]
            A += np.outer(f, f) + np.pad(spread[:2, :2], (0, 1))
            q += (value - o) * f - np.append(spread[2, :2], 0.0)
        np.testing.assert_allclose(known[row, :6], 0.5 * triangle(A[None])[0], atol=1e-9)
        np.testing.assert_allclose(known[row, -4:-1], 0.5 * q, atol=1e-9)
        assert not known[row, 6:-4].any()
        assert known[row, -1] == 0


def rf_row():
    from rankfold.estimators.completion.axes import Axis

    return Axis.ROW


def test_a_stream_ends_near_the_refit():
    found, half = (model(bayesian=True).fit(X[:600], Y[:600]) for _ in range(2))
    for start in range(600, 1200, 100):
        found.partial_fit(X[start : start + 100], Y[start : start + 100])
    whole = model(bayesian=True).fit(X, Y)
    places = np.argwhere(np.ones((60, 40)))
    errors = [rmse(each.predict(places), TRUTH.ravel()) for each in (found, whole, half)]
    assert errors[0] < 1.35 * errors[1]
    assert errors[0] < errors[2]
    for mine, theirs in zip(found.observed_, whole.observed_, strict=True):
        assert sorted(mine) == sorted(theirs)
    np.testing.assert_array_equal(found.counts_[0], whole.counts_[0])


def test_a_world_that_changed_is_followed_by_forgetting():
    rng = np.random.default_rng(3)
    new = TRUTH[:, ::-1]
    errors = {}
    for forget in (0.0, 0.5):
        found = fitted()
        for _ in range(6):
            at = np.argwhere(rng.random((60, 40)) < 0.2)
            found.partial_fit(at, new[tuple(at.T)], forget=forget)
        places = np.argwhere(np.ones((60, 40)))
        errors[forget] = rmse(found.predict(places), new.ravel())
    assert errors[0.5] < 0.7 * errors[0.0]


def test_a_call_looks_at_no_earlier_entry(monkeypatch):
    """Not at the pattern of all entries, but for the first time where nothing is known of what they said."""
    found = fitted().partial_fit(X[1000:1010], Y[1000:1010])

    def refused(*_):
        raise AssertionError("all entries were looked at")

    monkeypatch.setattr("rankfold.estimators.completion.pattern.Pattern.extended", refused)
    monkeypatch.setattr("rankfold.estimators.completion.streamed.information_of", refused)
    found.partial_fit(X[1010:1020], Y[1010:1020])
    assert len(found.recommend(3, n=40).cols) == 40 - len(set(X[:1020][X[:1020, 0] == 3, 1]))
    monkeypatch.undo()
    assert len(found.observed_.indices) == 1020


def test_files_and_pickles_go_on_alike(tmp_path):
    found = fitted().partial_fit(X[1000:1050], Y[1000:1050])
    rf.save(found, tmp_path / "model")
    others = [rf.load(tmp_path / "model"), pickle.loads(pickle.dumps(found))]
    for each in (found, *others):
        each.partial_fit([*X[1050:1060].tolist(), [99, 3]], [*Y[1050:1060], 1.0])
    for one, other in itertools.pairwise((found, *others)):
        np.testing.assert_array_equal(one.factors_[0], other.factors_[0])
        np.testing.assert_array_equal(one.information_.cols, other.information_.cols)
    wrong = found.information_._replace(
        rows=found.information_.rows[:, :-1], cols=found.information_.cols[:, :-1]
    )
    found.information_ = wrong
    with pytest.raises(ValueError, match="triangles of 5 numbers at rank 2"):
        rf.save(found, tmp_path / "model")


def test_what_is_folded_in_remembers_its_own_entries_alone():
    whole = fitted()
    assert whole.fold_in(X[:30], Y[:30]).information_ is None
    whole.partial_fit(X[MORE], Y[MORE])
    folded = whole.fold_in(X[:30], Y[:30])
    assert folded.information_ is None
    folded.partial_fit(X[30:40], Y[30:40])
    assert folded.information_.rows.shape[0] == folded.shape_[0] < whole.shape_[0]
    assert folded.information_.row_weights.sum() == 40


@pytest.mark.parametrize("forget", [-0.1, 1.1, np.nan, [0.1]])
def test_what_is_forgotten_is_a_part(forget):
    with pytest.raises(ValueError, match="forget"):
        fitted().partial_fit(X[MORE], Y[MORE], forget=forget)


@pytest.mark.parametrize("options", [{"bayesian": False, "regularization": 1.0}, {"bayesian": True}])
def test_new_lines_come_with_their_features(options):
    rng = np.random.default_rng(4)
    F = rng.standard_normal((42, 2))
    y = Y + F[X[:, 1]] @ [2.0, 1.0]
    found = model(**options).fit(X, y, col_features=F[:40])
    found.partial_fit([(0, 41), (7, 40)], [1.0, 2.0], col_features=(np.array([40, 41]), F[40:]))
    assert found.shape_ == (60, 42)
    mine = found.features_[1]
    z = mine.traits.basis.T @ (F[41] - mine.traits.centre)
    np.testing.assert_allclose(mine.expected[41], mine.coefficients[0] + z @ mine.coefficients[1:])
    found.partial_fit([(0, 44)], [1.0])
    np.testing.assert_allclose(found.features_[1].expected[42], mine.coefficients[0])
    assert found.counts_[1][40:].tolist() == [1, 1, 1]


@pytest.mark.parametrize("swept", [True, False])
def test_a_new_row_is_solved_for_as_the_fit_was_and_as_sure_as_its_posterior(swept):
    """By the posterior where there were sweeps, and where the fit was kept, by its own ridges."""
    before = model(bayesian=True, regularization=WEIGHT).fit(X, Y)
    assert before.posterior_.sweeps > 0
    if not swept:
        before.posterior_ = before.posterior_._replace(sweeps=0)
    i, j = np.zeros(2, int), np.array([3, 5])
    new = rf.data.Triples(i, j, np.array([1.0, 2.0]), (1, 40))
    cost = completion_of(new, None, "square", float)
    due = before.posterior_.solved(rf_row(), cost, before.biases_.mean, before._lines(rf_row().other))
    lines = before._solved(rf_row(), i, j, new.values, None)
    np.testing.assert_allclose(lines.covariances, due.covariances, rtol=1e-9)
    if not swept:
        B = np.column_stack([before.factors_[1][j], np.ones(2)])
        ridges = np.diag([WEIGHT * np.sqrt(2), WEIGHT * np.sqrt(2), before.shrinkage_.rows])
        right = B.T @ (new.values - before.biases_.mean - before.biases_.cols[j])
        x = np.linalg.solve(B.T @ B + ridges, right)
        due = due._replace(factors=x[None, :2], offsets=x[2:])
    np.testing.assert_allclose(lines.factors, due.factors, rtol=1e-7)
    np.testing.assert_allclose(lines.offsets, due.offsets, rtol=1e-7)


def test_nothing_is_learnt_of_directions_that_the_prior_does_not_have():
    sure, rng = posterior()
    dead = np.array([1.0, 0.0, 1.0])
    flat = sure.priors[0]._replace(covariance=np.diag(dead), slope=np.zeros(3))
    sure = sure._replace(priors=(flat, flat))
    before = Lines(np.zeros(1), rng.standard_normal((1, 2)) * dead[:2], triangle(np.diag(0.1 * dead)[None]))
    known = sure._known(flat, Earlier(before, np.array([4])), np.zeros((1, 3)))
    np.testing.assert_allclose(known[0, :6], triangle(0.3 * np.diag(9.0 * dead)[None])[0], atol=1e-12)
