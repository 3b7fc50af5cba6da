"""Ridges that lines themselves make most likely, by brute force, and what is expected with them."""

from dataclasses import replace

import numpy as np
import pytest

from estimators.completion.small_fits import a_choice, entries
from rankfold.estimators.completion.bayes.beliefs import Beliefs, square, triangle
from rankfold.estimators.completion.side import deciding, expecting
from rankfold.estimators.completion.side.expecting import Expecting, Ridges, _effective, geometric_mean
from rankfold.estimators.completion.side.regressed import Regressed
from rankfold.estimators.completion.side.regression import NONE, Squares, most_likely_ridge
from rankfold.estimators.completion.trials import minimised


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def brute_force(Z, weights, T, lines):
    """The best of 61 ridges, or none, for lines with values T."""
    W, g = np.diag(weights), T.shape[1]
    S, right, second = Z.T @ W @ Z, Z.T @ W @ T, T.T @ W @ T
    top = np.linalg.eigvalsh(S)[-1]
    costs = {}
    for ridge in top * 10.0 ** np.linspace(-6, 4, 61):
        left = second - right.T @ np.linalg.solve(S + ridge * np.eye(len(S)), right)
        prior = np.linalg.slogdet(np.eye(len(S)) + S / ridge)[1]
        costs[ridge] = lines * np.linalg.slogdet(left)[1] + g * prior
    best = min(costs, key=costs.get)
    without = lines * np.linalg.slogdet(second)[1]
    return best if costs[best] < without - np.log(lines) else NONE


@pytest.mark.parametrize("values", [1, 2])
@pytest.mark.parametrize("signal", [0.15, 0.25, 0.4, 3.0, 1e4])
def test_the_ridge_is_the_best_of_many_or_none(values, signal):
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        Z, weights = rng.standard_normal((30, 3)) * [1.0, 2.0, 0.5], rng.uniform(0.5, 2.0, 30)
        T = signal * Z @ rng.standard_normal((3, values)) + rng.standard_normal((30, values))
        W = weights[:, None]
        given = Squares.of(Z, weights), Z.T @ (W * T), T.T @ (W * T)
        due = brute_force(Z, weights, T, 25.0)
        assert most_likely_ridge(*given, 25.0) == (NONE if due == NONE else pytest.approx(due))
        scaled = given[0], 1e8 * given[1], 1e16 * given[2]
        assert most_likely_ridge(*scaled, 25.0) == most_likely_ridge(*given, 25.0)  # in any unit
        found.append(due)
    assert np.isfinite(found).all() or signal < 1.0


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_what_no_line_tells_is_nothing(ridge):
    Z = numbers(6, 2) @ np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 1.0]])  # two directions of three
    weights, right = np.arange(1.0, 7.0), Z.T @ numbers(6, 2, seed=1)
    found = Squares.of(Z, weights).solved(right, ridge)
    S = Z.T @ np.diag(weights) @ Z + ridge * np.eye(3)
    np.testing.assert_allclose(found, np.linalg.pinv(S, rcond=1e-10) @ right, atol=1e-10)
    none = Squares.of(np.zeros((6, 3)), weights)
    np.testing.assert_array_equal(none.solved(right, 0.0), 0.0)
    np.testing.assert_allclose(none.solved(right, 0.5), right / 0.5)
    assert most_likely_ridge(none, 0 * right, np.eye(2), 6) == NONE
    tiny = Squares.of(1e-9 * Z, weights)  # in another unit
    np.testing.assert_allclose(tiny.solved(right, 0.0), 1e18 * Squares.of(Z, weights).solved(right, 0.0))


def test_few_large_squares_are_few_lines():
    assert _effective(np.array([2.0, 1.0])) == pytest.approx(9 / 5)
    assert _effective(np.ones(4)) == 4.0
    assert _effective(np.array([1e-3, 0.0])) == 1.0
    assert _effective(np.zeros(3)) == 1.0


def an_expecting(n=14, k=2):
    counts = np.arange(n) % 5.0
    return Expecting(numbers(n, k), counts), numbers(n, 3, seed=1) + 2 * numbers(n, k)[:, [0, 0, 1]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ridges_are_estimated_by_the_formulas(dtype, monkeypatch):
    asked = []
    monkeypatch.setattr(
        expecting, "most_likely_ridge", lambda *given: asked.append(given) or len(asked) + 4.0
    )
    traits, X = an_expecting()
    X, rho, here = X.astype(dtype), 1.7, traits.counts > 0
    Z, x, n = traits.Z[here], X[here].astype(float), traits.counts[here]
    assert traits.estimated(X, True, rho) == Ridges(5.0, 6.0)
    w = np.sqrt(n) / np.sqrt(n).mean()
    s = n / (n + rho)
    b = (x[:, 2] - x[:, 2].mean()) / s
    b -= np.sum(s * b) / s.sum()
    centred = Z - s @ Z / s.sum()
    for (squares, right, second, lines), traits, weights, values in (
        (asked[0], Z, w, x[:, :2]),
        (asked[1], centred, s, b[:, None]),
    ):
        W, sizes = np.diag(weights), weights * np.sum(values**2, axis=1)
        found = squares.vectors @ np.diag(squares.values) @ squares.vectors.T
        np.testing.assert_allclose(found, traits.T @ W @ traits, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(right, traits.T @ W @ values, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(second, values.T @ W @ values, rtol=1e-9, atol=1e-12)
        assert lines == pytest.approx(sizes.sum() ** 2 / np.sum(sizes**2))


def test_without_traits_of_use_only_the_mean_offset_is_expected():
    traits, X = an_expecting()
    assert traits.idle
    for ridges, idle in ((Ridges(1.0), False), (Ridges(offset=1.0), False), (Ridges(), True)):
        some = traits.with_ridges(ridges)
        assert some.idle is idle
        found = some.coefficients(X, True)
        assert found[1:, :2].any() == np.isfinite(ridges.factors)
        assert found[1:, 2].any() == np.isfinite(ridges.offset)
        off = some.off(X, True)
        np.testing.assert_allclose(off[traits.counts > 0], (X - some.expected(X, True))[traits.counts > 0])
        assert not off[traits.counts == 0].any()
    alone = traits.with_ridges(Ridges(1.0, 1.0))
    np.testing.assert_allclose(alone.coefficients(X[:, 2:], True)[:, 0], alone.coefficients(X, True)[:, 2])


def test_coefficients_of_single_precision_are_found_in_double():
    traits, X = an_expecting()
    some, X = traits.with_ridges(Ridges(1.0, 1.0)), X.astype(np.float32)
    np.testing.assert_array_equal(some.coefficients(X, True), some.coefficients(X.astype(float), True))


@pytest.mark.parametrize(
    ("factors", "due"),
    [([1.0, 4.0], 2.0), ([1.0, NONE], NONE), ([8.0, 1.0, NONE, 1.0], 2.0), ([1.0, NONE, NONE, 4.0], NONE)],
)
def test_most_folds_must_have_a_ridge(factors, due):
    found = geometric_mean([Ridges(each, 3.0) for each in factors])
    assert found == Ridges(pytest.approx(due), pytest.approx(3.0))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_beliefs_of_lines_are_regressed_beside_a_constant_and_counts(bias, dtype):
    Z, counts, d = numbers(20, 2), np.arange(20) % 6, 2 + bias
    here, logs = counts > 0, np.log1p(counts)
    means = (numbers(20, d, seed=1) + 3 * Z[:, [0] * d] + np.outer(logs, np.arange(d)) + 1).astype(dtype)
    sure = np.repeat(triangle(0.1 * np.eye(d) + 0.05)[None], 20, axis=0).astype(dtype)
    sure[3] *= 5
    traits = Regressed(Z, here, logs, bias)
    found, rest = traits.explained(Beliefs(means, sure))
    n, x, apart = here.sum(), means[here].astype(float), Z[here]
    left = x
    if bias:
        design = np.column_stack([np.ones(n), np.maximum(logs[here] - np.log(2), 0.0)])
        apart, left = (M - design @ np.linalg.lstsq(design, M, rcond=None)[0] for M in (apart, x))
    second = left.T @ left + square(sure[here].astype(float), d).sum(axis=0)
    due = np.zeros((2, d))
    for group in ([0, 1], [2])[: 1 + bias]:
        squares, right = Squares.of(apart, np.ones(n)), (apart.T @ left)[:, group]
        ridge = most_likely_ridge(squares, right, second[np.ix_(group, group)], n)
        assert np.isfinite(ridge)
        due[:, group] = np.linalg.solve(apart.T @ apart + ridge * np.eye(2), right)
    np.testing.assert_allclose(found, due, rtol=1e-8)
    np.testing.assert_allclose(rest.means, x - Z[here] @ due, rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(rest.covariances, sure[here])


def test_a_constant_is_all_that_lines_with_alike_counts_have_beside_traits():
    traits = Regressed(numbers(6, 2), np.ones(6, bool), np.full(6, 1.5), True)
    np.testing.assert_allclose(np.abs(traits.beside), np.full((6, 1), 6**-0.5))


def features():
    return np.column_stack([np.arange(9.0) - 4, numbers(9)]), np.column_stack([np.arange(7.0) - 3])


@pytest.mark.parametrize("wanted", [(True, True), (True, False), (False, True)])
def test_a_fold_is_fitted_again_with_what_features_say(wanted):
    (fold, point), *_ = a_choice().folds
    pairs = zip(features(), joint_counts(fold.joint), strict=True)
    both = [Expecting(Z, n, Ridges(0.5, 0.3)) for Z, n in pairs]
    own = tuple(each if want else None for each, want in zip(both, wanted, strict=True))
    found, again = deciding._refitted(fold, point, own)
    assert found.joint.expecting == own
    assert found.test is fold.test
    start = tuple(
        each.started(X, True, rho) if want else X
        for each, X, rho, want in zip(both, point, fold.joint.shrinkage, wanted, strict=True)
    )
    for part, due in zip(again, minimised(found.joint, start), strict=True):
        np.testing.assert_array_equal(part, due)
    first = both[0] if not wanted[0] else None
    before = fold._replace(joint=replace(fold.joint, expecting=(first, None)))
    found, _ = deciding._refitted(before, point, (own[0], None))
    assert found.joint.expecting == (own[0] or first, None)


def joint_counts(joint):
    side = joint.completion.observed
    return [np.asarray(each.counts, float) for each in side.sides]


def test_without_offsets_a_fold_is_fitted_again_from_its_point():
    (fold, point), *_ = a_choice(bias=False).folds
    rows = Expecting(features()[0], joint_counts(fold.joint)[0], Ridges(0.5))
    found, again = deciding._refitted(fold, point, (rows, None))
    for part, due in zip(again, minimised(found.joint, point), strict=True):
        np.testing.assert_array_equal(part, due)


@pytest.mark.parametrize("bias", [True, False])
def test_what_is_expected_is_estimated_with_the_shrinkage_of_its_side(bias):
    joint = entries(bias=bias)
    if bias:
        joint = joint.at(0.1, type(joint.shrinkage)(0.5, 9.0))
    lines = [3 * Z[:, :1] + 0.1 * numbers(len(Z), 1 + bias, seed=3) for Z in features()]
    found = deciding.estimated(joint, tuple(lines), features())
    for k, (each, Z, X, n) in enumerate(zip(found, features(), lines, joint_counts(joint), strict=True)):
        due = Expecting(Z, n).estimated(X, bias, joint.shrinkage[k] if bias else 1.0)
        assert each.ridges == due
        assert np.isfinite(due.factors)
        np.testing.assert_array_equal(each.counts, n)
    assert deciding.estimated(joint, tuple(lines), (None, features()[1]))[0] is None
    assert deciding.estimated(joint, tuple(lines), (np.ones((9, 1)), None)) == (None, None)


def test_all_lines_have_the_ridges_that_folds_agree_on():
    cost, (rows, cols) = entries().completion, features()
    one, two = (Expecting(rows, np.ones(9), Ridges(each, 3.0)) for each in (1.0, 4.0))
    found = deciding._for_all([(one, None), (two, None), (None, None)], cost, (rows, cols))
    assert found[0].ridges == Ridges(pytest.approx(2.0), pytest.approx(3.0))
    assert found[0].Z is rows
    np.testing.assert_array_equal(found[0].counts, joint_counts(entries())[0])
    assert found[1] is None
    assert deciding._for_all([(one, None)], cost, (None, None)) == (None, None)


def test_a_fit_where_nothing_was_held_out_has_what_was_chosen():
    choice, cost = a_choice(), entries().completion
    joint, point = deciding.plain_fit(choice._replace(point=None, rank=2), cost, 3)
    assert (joint.weight, joint.shrinkage) == (choice.weight, choice.shrinkage)
    _, start = joint.started(*minimised(joint, joint.constant()), 2, 3)
    for part, due in zip(point, minimised(joint, start), strict=True):
        np.testing.assert_array_equal(part, due)
