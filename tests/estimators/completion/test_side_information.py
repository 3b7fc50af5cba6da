"""Features of rows and columns: what they make one expect, against dense regressions; how they are given."""

import functools
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import rankfold as rf
from estimators.completion.rating_data import rmse
from rankfold.estimators.completion.bayes.beliefs import Beliefs, square, triangle
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.entries import completion_of, training_triples
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.side import deciding
from rankfold.estimators.completion.side.expecting import Expecting, Ridges, geometric_mean
from rankfold.estimators.completion.side.implicit import NAMES
from rankfold.estimators.completion.side.learnt import LearntFeatures
from rankfold.estimators.completion.side.regressed import Regressed
from rankfold.estimators.completion.side.regression import NONE, Squares, most_likely_ridge
from rankfold.estimators.completion.side.tables import Encoding, given_table
from rankfold.estimators.completion.side.traits import MOST, Traits
from rankfold.estimators.completion.trials import Fold

SHAPE = (60, 50)  # the last ten columns have no entries
RNG = np.random.default_rng(0)
F = RNG.standard_normal((SHAPE[1], 3))
W = RNG.standard_normal((60, 1)) @ RNG.standard_normal((1, 50)) + F @ [1.0, 0.5, 0.0] + 3
I, J = np.nonzero(RNG.random(SHAPE) < 0.15)
I, J = I[J < 40], J[J < 40]
X, Y = np.column_stack([I, J]), W[I, J] + 0.3 * RNG.standard_normal(len(I))
COLD = np.array([(i, j) for i in range(60) for j in range(40, 50)])


def model(**options):
    return rf.MatrixCompletion(**{"rank": 1, "random_state": 0, "shape": SHAPE} | options)


@functools.cache
def fitted(featured=False, **options):
    """A model of the entries alone, or with features of the columns, which tests look at and none changes."""
    return model(**options).fit(X, Y, col_features=F if featured else None)


QUICK = {"regularization": 1.0, "bayesian": False}


def expecting(seed=0, n=12, k=3):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, n).astype(float)
    counts[:2] = 0.0, 3.0
    return Expecting(rng.standard_normal((n, k)), counts, Ridges(0.7, 0.4)), rng.standard_normal((n, 3))


def test_coefficients_are_those_of_two_ridge_regressions():
    traits, lines = expecting()
    here = traits.counts > 0
    Z, w, x = traits.Z[here], np.sqrt(traits.counts[here]), lines[here]
    A = np.linalg.solve(Z.T @ (w[:, None] * Z) + 0.7 * w.mean() * np.eye(3), Z.T @ (w[:, None] * x[:, :2]))
    found = traits.coefficients(lines, True)
    np.testing.assert_allclose(found[1:, :2], A)
    assert not found[0, :2].any()
    # with a constant that is not charged, as a column more
    design = np.column_stack([np.ones(len(Z)), Z])
    a = np.linalg.solve(design.T @ design + 0.4 * np.diag([0, 1, 1, 1]), design.T @ x[:, 2])
    np.testing.assert_allclose(found[:, 2], a)
    np.testing.assert_allclose(traits.expected(lines, True), np.column_stack([np.ones(12), traits.Z]) @ found)
    without = traits.with_ridges(Ridges()).coefficients(lines, True)
    assert without[0, 2] == pytest.approx(x[:, 2].mean())
    assert np.count_nonzero(without) == 1
    assert traits.with_ridges(Ridges()).idle
    assert not traits.idle
    np.testing.assert_allclose(traits.coefficients(lines[:, :2], False)[1:], A)


def joint_of(bias=True):
    cost = completion_of(training_triples(X, Y, SHAPE), None, "square", "float64")
    joint = Joint.of(cost, 1.3, Shrinkage(2.0, 0.7) if bias else None)
    counts = [np.bincount(side, minlength=d).astype(float) for side, d in zip((I, J), SHAPE, strict=True)]
    rng = np.random.default_rng(1)
    rows = Expecting(rng.standard_normal((60, 2)), counts[0], Ridges(0.5, 0.2))
    cols = Expecting(F, counts[1], Ridges(0.3, 0.1))
    return Joint(joint.completion, joint.roots, joint.weight, joint.shrinkage, (rows, cols)), (rows, cols)


def dense_objective(joint, both, G, H, A):
    """Over lines and coefficients, written out; A has [m, a; 0, A] of either side."""
    bias = joint.bias
    predicted = np.einsum("pk,pk->p", *(M[at] for M, at in zip(joint.widened(G, H), (I, J), strict=True)))
    total = np.sum((predicted - Y) ** 2)
    for k, (M, traits, C) in enumerate(zip((G, H), both, A, strict=True)):
        off = M - C[0] - traits.Z @ C[1:]
        here, roots = traits.counts > 0, np.sqrt(np.maximum(traits.counts, 1.0))
        r = M.shape[1] - bias
        total += joint.weight * np.sum(roots[here, None] * off[here, :r] ** 2)
        total += joint.weight * traits.ridges.factors * roots[here].mean() * np.sum(C[1:, :r] ** 2)
        if bias:
            total += joint.shrinkage[k] * np.sum(off[here, -1] ** 2)
            total += joint.shrinkage[k] * traits.ridges.offset * np.sum(C[1:, -1] ** 2)
    return total


@pytest.mark.parametrize("bias", [True, False])
def test_the_objective_is_the_dense_one_with_its_best_coefficients(bias):
    joint, both = joint_of(bias)
    rng = np.random.default_rng(2)
    G, H = (rng.standard_normal((d, 2 + bias)) for d in SHAPE)
    best = [traits.coefficients(M, bias) for traits, M in zip(both, (G, H), strict=True)]
    value = joint.value(G, H) * len(Y)
    assert value == pytest.approx(dense_objective(joint, both, G, H, best), rel=1e-12)
    for scale in (1e-3, -1e-3):  # no others are better
        worse = [C + scale * rng.standard_normal(C.shape) for C in best]
        if not bias:
            worse = [np.vstack([0 * C[:1], C[1:]]) for C in worse]
        else:
            for C in worse:
                C[0, :-1] = 0
        assert dense_objective(joint, both, G, H, worse) > value
    dG, dH = (rng.standard_normal(M.shape) for M in (G, H))
    coefficients = joint.polynomial([G, dG], [H, dH])
    for t in (0.5, -1.0):
        along = joint.value(G + t * dG, H + t * dH)
        assert np.polyval(coefficients[::-1], t) == pytest.approx(along, rel=1e-10)
    _, f_G, f_H = joint.evaluate(G, H)
    assert coefficients[1] == pytest.approx(np.sum(f_G * dG) + np.sum(f_H * dH), rel=1e-9)


@pytest.mark.parametrize("bias", [True, False])
def test_sweeps_end_at_the_minimum_of_the_dense_objective(bias):
    joint, _ = joint_of(bias)
    rng = np.random.default_rng(3)
    x = tuple(rng.standard_normal((d, 2 + bias)) for d in SHAPE)
    values = [joint.value(*x)]
    for _ in range(400):
        x = joint.swept(*x)
        values.append(joint.value(*x))
    assert np.all(np.diff(values) <= 1e-12)
    _, f_G, f_H = joint.evaluate(*x)
    assert max(np.abs(f_G).max(), np.abs(f_H).max()) < 1e-5


def test_the_ridge_is_the_most_likely_one():
    rng = np.random.default_rng(4)
    Z, weights = rng.standard_normal((40, 3)), rng.uniform(0.5, 2.0, 40)
    T = Z @ rng.standard_normal((3, 1)) + rng.standard_normal((40, 1)) / np.sqrt(weights)[:, None]

    def unlikely(ridge):  # with the best variance, of the lines themselves, coefficients integrated out
        shape = np.diag(1 / weights) + (Z @ Z.T / ridge if np.isfinite(ridge) else 0)
        variance = T[:, 0] @ np.linalg.solve(shape, T[:, 0]) / 40
        return -stats.multivariate_normal(np.zeros(40), variance * shape).logpdf(T[:, 0])

    squares = Squares.of(Z, weights)
    found = most_likely_ridge(squares, Z.T @ (weights[:, None] * T), T.T @ (weights[:, None] * T), 40)
    assert unlikely(found) <= min(unlikely(found * step) for step in (0.6, 1.6))
    assert unlikely(found) < unlikely(NONE)
    noise = rng.standard_normal((40, 1)) / np.sqrt(weights)[:, None]
    ridge = most_likely_ridge(
        squares, Z.T @ (weights[:, None] * noise), noise.T @ (weights[:, None] * noise), 40
    )
    assert unlikely(1e6) == pytest.approx(unlikely(NONE), abs=0.1)
    assert ridge > 10 * found
    assert most_likely_ridge(squares, np.zeros((3, 1)), np.eye(1), 40) == NONE
    assert most_likely_ridge(squares, np.zeros((3, 1)), np.zeros((1, 1)), 40) == NONE


def test_ridges_are_estimated_from_what_shrank():
    rng = np.random.default_rng(5)
    counts = rng.integers(1, 30, 400).astype(float)
    Z = rng.standard_normal((400, 4))
    b = Z @ [0.5, 0.2, 0, 0] + 0.1 * rng.standard_normal(400)
    seen = b + 0.3 * rng.standard_normal(400) / np.sqrt(counts)
    rho = 0.09 / np.var(b)
    shrunk = seen * counts / (counts + rho)
    found = Expecting(Z, counts).estimated(
        np.column_stack([rng.standard_normal((400, 2)), shrunk]), True, rho
    )
    assert found.factors > 1000
    assert found.offset < 5
    traits = Expecting(Z, counts).with_ridges(found)
    start = traits.started(np.column_stack([np.zeros(400), shrunk]), True, rho)
    np.testing.assert_allclose(traits.coefficients(start, True)[1:, 1], [0.5, 0.2, 0, 0], atol=0.06)
    assert traits.with_ridges(Ridges()).started(start, True, rho) is start


def test_ridges_are_of_what_there_is():
    traits, lines = expecting(n=40)
    lines[:, :2] += 3 * traits.Z[:, :2]
    lines[:, 2] += 3 * traits.Z[:, 2]
    both = traits.estimated(lines, True, 2.0)
    assert np.isfinite(both).all()
    assert traits.estimated(lines[:, 2:], True, 2.0) == Ridges(NONE, both.offset)
    assert traits.estimated(lines[:, :2], False, 2.0) == Ridges(both.factors, NONE)
    assert Expecting(traits.Z, np.zeros(40)).estimated(lines, True, 2.0) == Ridges(NONE, NONE)


def test_a_start_leans_on_what_is_expected_of_offsets():
    traits, lines = expecting()
    given = lines.copy()
    found = traits.started(lines, True, 2.0)
    np.testing.assert_array_equal(lines, given)
    np.testing.assert_array_equal(found[:, :2], given[:, :2])
    s, here = traits.counts / (traits.counts + 2.0), traits.counts > 0
    b = np.zeros(len(s))
    b[here] = (given[here, 2] - given[here, 2].mean()) / s[here]
    Z = traits.Z - s @ traits.Z / s.sum()
    a = np.linalg.solve(Z.T @ (s[:, None] * Z) + 0.4 * np.eye(3), Z.T @ (s * b))
    np.testing.assert_allclose(found[:, 2], given[:, 2] + (1 - s) * (Z @ a), atol=1e-10)
    assert traits.started(lines.astype(np.float32), True, 2.0).dtype == np.float32
    assert traits.started(lines, False, 2.0) is lines


def test_what_was_learnt_of_some_lines_goes_on_with_others():
    def traits(width, names=None):
        return SimpleNamespace(basis=np.zeros((7, width)), encoding=SimpleNamespace(names=names))

    A, Z = np.array([[1.0, 2.0, 3.0], [0.5, 0.0, -1.0], [4.0, 5.0, 6.0]]), np.array([[1.0, 2.0], [0.0, -1.0]])
    expected = A[0] + Z @ A[1:]
    mine = LearntFeatures(traits(2), A, expected, np.zeros(3))
    np.testing.assert_array_equal(mine.of(Z), expected)
    np.testing.assert_array_equal(mine.extended(4).expected, [*expected, A[0], A[0]])
    np.testing.assert_array_equal(mine.extended(2).expected, expected)
    assert mine.extended(4).unknown.tolist() == [False, False, True, True]
    lower = mine.lowered(0.5)
    np.testing.assert_array_equal(lower.expected, expected - [0, 0, 0.5])
    np.testing.assert_array_equal(lower.of(Z), expected - [0, 0, 0.5])
    np.testing.assert_array_equal(mine.of(Z), expected)  # as it was
    other = mine.beside(traits(4))
    np.testing.assert_array_equal(other.coefficients, np.vstack([A[:1], np.zeros((4, 3))]))
    np.testing.assert_array_equal(other.expected, expected)
    found = [mine._replace(traits=traits(2, names)).implicit for names in (None, NAMES, [*NAMES, "age"])]
    assert found == [False, True, False]


def test_ridges_of_folds_have_a_mean():
    assert geometric_mean([Ridges(1.0, NONE), Ridges(4.0, 2.0), Ridges(NONE, NONE)]) == Ridges(2.0, NONE)


def test_beliefs_are_regressed_beside_the_prior():
    rng = np.random.default_rng(6)
    Z, counts = rng.standard_normal((200, 2)), rng.integers(0, 9, 200)
    logs, d = np.log1p(counts), 3
    means = rng.standard_normal((200, d)) + np.outer(logs, [0.5, 0, 1]) + 2
    means[:, 2] += Z @ [2.0, -1.0]
    sure = np.repeat(triangle(0.1 * np.eye(d))[None], 200, axis=0)
    here = counts > 0
    A, rest = Regressed(Z, here, logs, True).explained(Beliefs(means, sure))
    design = np.column_stack([np.ones(here.sum()), np.maximum(logs[here] - np.log(2), 0), Z[here]])
    dense = np.linalg.lstsq(design, means[here], rcond=None)[0][2:]
    np.testing.assert_allclose(A[:, 2], dense[:, 2], rtol=0.02)
    assert np.abs(A[:, :2]).max() < 0.1  # noise: shrunk
    np.testing.assert_allclose(rest.means, means[here] - Z[here] @ A)
    assert rest.covariances.shape == (here.sum(), 6)
    assert square(rest.covariances[0], d)[0, 0] == pytest.approx(0.1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"bayesian": True, "regularization": 1.0}, marks=pytest.mark.soak),
        {"bayesian": False, "regularization": 1.0},
        pytest.param({"loss": "huber", "regularization": 1.0}, marks=pytest.mark.soak),
    ],
)
def test_columns_without_entries_are_predicted_by_their_features(options):
    plain, found = fitted(**options), fitted(True, **options)
    truth = W[tuple(COLD.T)]
    assert rmse(found.predict(COLD), truth) < 0.8 * rmse(plain.predict(COLD), truth)
    assert plain.features_ == (None, None)
    known = np.argwhere(np.ones((60, 40)))
    assert rmse(found.predict(known), W[:, :40].ravel()) < 1.02 * rmse(
        plain.predict(known), W[:, :40].ravel()
    )


def test_a_new_line_with_the_features_of_an_old_one_is_predicted_like_one_given_to_fit():
    options = {"shape": None, "regularization": 1.0, "bayesian": True}
    given = model(**options).fit(X, Y, col_features=F)
    assert given.shape_ == (60, 50)
    later = model(**options).fit(X, Y, col_features=F[:40])
    assert later.shape_ == (60, 40)
    late = later.predict(COLD, col_features=(np.arange(40, 50), F[40:]))
    assert np.corrcoef(late, given.predict(COLD))[0, 1] > 0.999
    assert later.shape_ == (60, 40)
    deviations = later.predict(COLD, return_std=True, col_features=(np.arange(40, 50), F[40:]))[1]
    assert deviations.mean() > 2 * later.predict(X, return_std=True)[1].mean()
    with pytest.raises(ValueError, match="fitted without row_features"):
        later.predict(COLD, row_features=F)
    with pytest.raises(ValueError, match="by position: col_features of all of them belong to fit"):
        fitted(True).predict(COLD, col_features=F)


def test_random_features_change_nothing():
    rng = np.random.default_rng(7)
    plain = fitted()
    rows, cols = rng.standard_normal((60, 5)), rng.standard_normal((50, 30))
    found = model().fit(X, Y, row_features=rows, col_features=cols)
    places = np.argwhere(np.ones(SHAPE))
    truth = W[tuple(places.T)]
    assert rmse(found.predict(places), truth) < 1.01 * rmse(plain.predict(places), truth)


def test_features_that_say_nothing_leave_all_as_it_was():
    rng = np.random.default_rng(1)
    plain = fitted()
    found = model().fit(X, Y, row_features=rng.standard_normal((60, 2)), col_features=np.ones((50, 1)))
    assert not any(each.coefficients.any() for each in found.features_)
    np.testing.assert_array_equal(found.predict(X, return_std=True), plain.predict(X, return_std=True))


def test_features_that_make_predictions_worse_are_left_out(monkeypatch):
    monkeypatch.setattr("rankfold.estimators.completion.side.deciding._DOUBT", -np.inf)
    plain, found = fitted(), model().fit(X, Y, col_features=F)
    np.testing.assert_array_equal(found.predict(COLD), plain.predict(COLD))
    assert not found.features_[1].coefficients.any()
    np.testing.assert_array_equal(found.predict(X, return_std=True)[1], plain.predict(X, return_std=True)[1])


def test_features_of_one_side_are_kept_where_those_of_the_other_are_worse():
    rng = np.random.default_rng(11)

    def tried(choice, plain, found, sides):
        good = not sides[0]
        return deciding.Tried(
            sides, found, (("fold", "other"),), -1.0 if good else 5.0, 0.0 if good else -3.0
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deciding, "_tried", tried)
        patch.setattr(deciding, "minimised", lambda joint, point: point)
        patch.setattr(deciding, "estimated", lambda *_: ("something", "else"))
        patch.setattr(deciding, "_for_all", lambda found, cost, traits: traits)
        cost = completion_of(training_triples(X, Y, SHAPE), None, "square", "float64")
        traits = rng.standard_normal((60, 2)), F
        fold = Fold(Joint.of(cost), None, None)
        choice = Choice(1, 1.0, None, folds=((fold, "point"),))
        found, kept = deciding.expectations(choice, cost, traits, None, 0)
    assert kept[0] is None
    assert kept[1] is F
    assert found.point == "other"


def test_implicit_features_are_leading_directions_of_where_entries_are():
    names = np.array([f"f{j:02}" for j in range(50)])
    pairs = pd.DataFrame({"user": I, "film": names[J]})
    (users, of_rows), (films, of_cols) = rf.implicit_features(pairs, count=3)
    assert users.tolist() == sorted(set(I.tolist()))
    assert films.tolist() == sorted(set(names[J]))
    seen = np.zeros((60, 40))
    seen[I, J] = 1.0
    S = seen / np.sqrt(seen.sum(axis=1, keepdims=True)) / np.sqrt(seen.sum(axis=0))
    U, s, Vt = np.linalg.svd(S)
    due = Vt[:3].T * s[:3]
    due /= np.linalg.norm(due, axis=1, keepdims=True)
    np.testing.assert_allclose(of_cols @ of_cols.T, due @ due.T, atol=5e-3)
    due = U[:, :3] * s[:3]
    due /= np.linalg.norm(due, axis=1, keepdims=True)
    np.testing.assert_allclose(of_rows @ of_rows.T, due @ due.T, atol=5e-3)
    twice = rf.implicit_features(np.vstack([X, X]), SHAPE, count=3)
    assert twice[1][0].tolist() == list(range(50))
    np.testing.assert_allclose(twice[1][1][:40] @ twice[1][1][:40].T, of_cols @ of_cols.T, atol=5e-3)
    assert not twice[1][1][40:].any()
    triples = rf.data.Triples(I, J, Y, SHAPE)
    assert rf.implicit_features(triples, count=99)[0][1].shape == (60, 50)


def test_recommended_are_new_columns_too_if_features_say_something_of_them():
    names = [f"f{j:02}" for j in range(50)]
    pairs = [(int(i), names[j]) for i, j in X]
    best = F.copy()
    best[45] = [30.0, 15.0, 0.0]
    found = model(shape=None, **QUICK).fit(pairs, Y, col_features=pd.DataFrame(best, names))
    assert found.recommend(3, n=1).cols.tolist() == ["f45"]


def frame():
    kinds = np.array(["drama", "comedy", "war"], dtype=object)[np.arange(50) % 3]
    kinds[7] = None
    years = 1990.0 + np.arange(50)
    years[3] = np.nan
    return pd.DataFrame({"kind": kinds, "year": years, "long": np.arange(50) % 2 == 0})


def test_tables_have_categories_and_holes():
    table = given_table(frame(), rf_axis("COLUMN"), X, np.arange(50))
    traits, Z = Traits.of(table, "col_features")
    assert traits.encoding.names == ("kind", "year", "long")
    assert traits.encoding.categories[0].tolist() == ["comedy", "drama", "war"]
    assert traits.encoding.categories[1:] == (None, None)
    numbers = Encoding.of(table).numbers(table, "it")
    assert numbers.shape == (50, 5)
    assert np.isnan(numbers[7, :3]).all()
    assert np.isnan(numbers[3, 3])
    np.testing.assert_allclose(np.nanmean(Z, axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(Z[7, :3], 0.0)  # as on average
    known = np.delete(np.arange(50), 3)
    np.testing.assert_allclose(Z[known, 3].std(), 1.0)
    assert Z[3, 3] == 0.0
    other = pd.DataFrame({"long": [True], "kind": ["western"], "year": [2000.0], "more": [1]}, [99])
    z = traits(given_table(other, rf_axis("COLUMN"), X, np.arange(50)), "it")
    np.testing.assert_allclose(z[0, :3], 0.0)  # a category never seen
    with pytest.raises(ValueError, match="it has no column 'kind'"):
        traits(given_table(other[["year"]], rf_axis("COLUMN"), X, np.arange(50)), "it")
    with pytest.raises(ValueError, match="it has 2 columns, and the model was fitted with 3"):
        traits(given_table(np.ones((50, 2)), rf_axis("COLUMN"), X, np.arange(50)), "it")


def rf_axis(name):
    from rankfold.estimators.completion.axes import Axis

    return Axis[name]


@pytest.mark.parametrize("wide", [False, True])
def test_sparse_features_are_those_of_the_dense_matrix(wide, monkeypatch):
    dense = np.random.default_rng(8).poisson(0.3, (50, 40 if wide else 3)).astype(float)
    if wide:
        monkeypatch.setattr("rankfold.estimators.completion.side.traits.MOST", 12)
    tables = [given_table(each, rf_axis("COLUMN"), X, None) for each in (dense, sparse.csr_matrix(dense))]
    (_, Z), (_, S) = (Traits.of(table, "it") for table in tables)
    np.testing.assert_allclose(Z @ Z.T, S @ S.T, atol=1e-8)
    standard = (dense - dense.mean(axis=0)) / dense.std(axis=0)
    if wide:
        assert Z.shape == (50, 12)
        values = np.linalg.svd(standard, compute_uv=False)
        np.testing.assert_allclose(np.linalg.norm(Z) ** 2, np.sum(values[:12] ** 2), rtol=1e-3)
    else:
        np.testing.assert_allclose(Z, standard)
    assert MOST == 300


def test_few_lines_with_many_features_keep_all_their_directions(monkeypatch):
    monkeypatch.setattr("rankfold.estimators.completion.side.traits.MOST", 20)
    dense = np.random.default_rng(9).standard_normal((8, 40))
    dense[:, 5] = 2.0  # tells nothing
    _, Z = Traits.of(given_table(dense, rf_axis("ROW"), X, None), "it")
    assert Z.shape == (8, 7)
    varying = np.delete(dense, 5, axis=1)
    standard = (varying - varying.mean(axis=0)) / varying.std(axis=0)
    np.testing.assert_allclose(Z @ Z.T, standard @ standard.T, atol=1e-9)


def test_features_are_aligned_by_label_or_position():
    names = np.array([f"f{j:02}" for j in range(50)])
    pairs = pd.DataFrame({"user": I, "film": names[J]})
    order = np.random.default_rng(10).permutation(50)
    by_label = model(shape=None, **QUICK).fit(pairs, Y, col_features=pd.DataFrame(F[order], names[order]))
    by_pair = model(shape=None, **QUICK).fit(pairs, Y, col_features=(names[order], F[order]))
    by_position = fitted(True, **QUICK)
    cold = pd.DataFrame({"user": COLD[:, 0], "film": names[COLD[:, 1]]})
    np.testing.assert_allclose(by_label.predict(cold), by_position.predict(COLD), rtol=2e-3)
    np.testing.assert_allclose(by_pair.predict(cold), by_position.predict(COLD), rtol=2e-3)
    data = rf.data.Triples(I, J, Y, SHAPE, None, names)
    np.testing.assert_allclose(
        model(shape=None, **QUICK).fit(data, col_features=F).predict(data), by_position.predict(X), rtol=2e-3
    )
    as_setting = model(col_features=F, **QUICK).fit(X, Y)
    np.testing.assert_array_equal(as_setting.predict(COLD), by_position.predict(COLD))
    for given, why in (
        (F, "must say which line belongs to which label, like f00"),
        (pd.DataFrame(F[[0, 0]], ["f01", "f01"]), "must differ from each other"),
        ((names[:3], F), "has 50 lines, and there are 3 labels"),
    ):
        with pytest.raises(ValueError, match=why):
            model(shape=None).fit(pairs, Y, col_features=given)
    with pytest.raises(ValueError, match="col_features has 20 lines, and the matrix has 50 columns"):
        model().fit(X, Y, col_features=F[:20])
    with pytest.raises(TypeError, match="the entries hold positions, and col_features has labels like f00"):
        model().fit(X, Y, col_features=(names, F))
    with pytest.raises(ValueError, match="features are finite, or NaN"):
        model().fit(X, Y, col_features=np.full((50, 1), np.inf))
    with pytest.raises(ValueError, match="is sparse, and holds NaN"):
        model().fit(X, Y, col_features=sparse.csr_matrix(np.full((50, 1), np.nan)))
    with pytest.raises(ValueError, match="must have a line for each col"):
        model().fit(X, Y, col_features=np.ones((2, 2, 2)))
    with pytest.raises(ValueError, match="features are for geometry='auto'"):
        model(geometry="polar").fit(X, Y, col_features=F)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_files_and_pickles_keep_what_was_learnt(tmp_path, dtype):
    table = frame().assign(x=F[:, 0])
    found = model(shape=None, dtype=dtype, col_features=table, regularization=1.0, bayesian=True).fit(X, Y)
    rf.save(found, tmp_path / "model")
    for same in (rf.load(tmp_path / "model"), pickle.loads(pickle.dumps(found))):
        np.testing.assert_array_equal(same.predict(COLD), found.predict(COLD))
        new = table.iloc[[4]].set_axis([77])
        asked = [(5, 77)]
        np.testing.assert_array_equal(
            same.predict(asked, col_features=new), found.predict(asked, col_features=new)
        )
        same.partial_fit([(0, 41), (3, 45)], [2.0, 1.0])
    assert rf.load(tmp_path / "model").col_features is None
    assert found.factors_[1].dtype == dtype


def test_files_with_other_numbers_of_features_are_refused(tmp_path):
    found = model(shape=None, **QUICK).fit(X, Y, col_features=frame())
    mine = found.features_[1]
    encoding = mine.traits.encoding
    for wrong, why in (
        (mine._replace(expected=mine.expected[:-1]), "must be 50"),
        (mine._replace(traits=mine.traits._replace(encoding=encoding._replace(width=2))), "2 inputs"),
        (
            mine._replace(traits=mine.traits._replace(encoding=encoding._replace(categories=None))),
            "other numbers of its inputs than 5 features",
        ),
    ):
        found.features_ = None, wrong
        with pytest.raises(ValueError, match=why):
            rf.save(found, tmp_path / "model")


def test_searches_and_clones_take_features_as_settings():
    search = GridSearchCV(
        model(shape=None, col_features=F, bayesian=False, bias=False), {"regularization": [0.3, 3.0]}, cv=2
    )
    search.fit(X, Y)
    assert search.best_estimator_.features_[1] is not None
    assert clone(search.best_estimator_).col_features.shape == F.shape
    given = GridSearchCV(model(shape=None, bayesian=False, bias=False), {"regularization": [0.3]}, cv=2)
    given.fit(X, Y, col_features=F)
    assert given.best_estimator_.shape_ == (60, 50)


def test_new_columns_are_folded_in_with_their_features():
    found = model(shape=None, bayesian=False, regularization=1.0).fit(X, Y, col_features=F[:40])
    entries = [(3, 100), (9, 100), (4, 101)]
    values = [9.0, 8.0, 2.0]
    features = pd.DataFrame(F[40:43], [101, 100, 555])
    folded = found.fold_in(entries, values, side="column", features=features)
    mine, (L, _), (mean, b, _) = found.features_[1], found.factors_, found.biases_
    Z = mine.traits(given_table(features, rf_axis("COLUMN"), X, np.array([100, 101])), "it")
    for label, at, rows, y in ((100, 1, [3, 9], [9.0, 8.0]), (101, 0, [4], [2.0])):
        expected = mine.coefficients[0] + Z[at] @ mine.coefficients[1:]
        B = np.column_stack([L[rows], np.ones(len(rows))])
        ridges = np.diag([1.0 * np.sqrt(len(rows)), found.shrinkage_.cols])
        right = B.T @ (np.array(y) - mean - b[rows]) + ridges @ expected
        x = np.linalg.solve(B.T @ B + ridges, right)
        j = folded.col_labels_.tolist().index(label)
        np.testing.assert_allclose([folded.factors_[1][j, 0], folded.biases_.cols[j]], x, rtol=1e-9)
        np.testing.assert_allclose(folded.features_[1].expected[j], expected)
    assert folded.shape_ == (60, 2)


def test_a_warm_start_begins_where_the_last_fit_with_features_ended():
    found = model(shape=None, warm_start=True, bayesian=False, regularization=1.0, tol=1e-9)
    first = found.fit(X, Y, col_features=F).n_iter_
    assert found.fit(X, Y, col_features=F).n_iter_ < first


def test_lines_with_lower_offsets_are_expected_to_have_such():
    A, expected = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(4, 2)
    mine = LearntFeatures(None, A.copy(), expected.copy(), np.zeros(2))
    lower = mine.lowered(0.5)
    np.testing.assert_array_equal(lower.expected, expected - [0.0, 0.5])
    np.testing.assert_array_equal(lower.coefficients, A - [[0.0, 0.5], [0.0, 0.0], [0.0, 0.0]])
    np.testing.assert_array_equal(mine.coefficients, A)  # the first one stays
    np.testing.assert_array_equal(mine.expected, expected)
