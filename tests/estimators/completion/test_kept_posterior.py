"""The posterior that a model keeps: deviations, and lines solved with it, by the formulas written out."""

import numpy as np
import pytest

from rankfold.costs.completion import Completion
from rankfold.entries.observed import Observed
from rankfold.estimators.completion.axes import Axis
from rankfold.estimators.completion.bayes.beliefs import Beliefs, Prior, square, triangle
from rankfold.estimators.completion.bayes.calibration import ENOUGH, Calibration, gaussian_ends
from rankfold.estimators.completion.bayes.posterior import Posterior, centred, centred_coefficients
from rankfold.estimators.completion.bayes.variational import State
from rankfold.estimators.completion.folding import Earlier, Lines

LINES, OTHERS, RANK, NOISE, MEAN = 5, 4, 2, 0.3, 0.7


def covariances(n, d, seed, scale=0.2):
    A = np.random.default_rng(seed).standard_normal((n, d, 2 * d))
    return scale * A @ A.transpose(0, 2, 1) / d


def a_prior(d, seed):
    rng = np.random.default_rng(seed)
    return Prior(rng.standard_normal(d), 0.4 * rng.standard_normal(d), covariances(1, d, seed)[0], 0.7)


def a_posterior(bias, calibration=None):
    d = RANK + bias
    sure = [triangle(covariances(n, d, seed)) for n, seed in ((LINES, 1), (OTHERS, 2))]
    return Posterior(*sure, (a_prior(d, 3), a_prior(d, 4)), NOISE, 3, calibration)


def some_lines(n, seed):
    rng = np.random.default_rng(seed)
    return Lines(rng.standard_normal(n), rng.standard_normal((n, RANK)), None)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("scale", [None, 1.7])
def test_deviations_are_those_of_the_formula_for_lines_known_and_unknown(bias, scale):
    calibration = None if scale is None else Calibration(scale, np.zeros(3), 3)
    sure, d = a_posterior(bias, calibration), RANK + bias
    rng = np.random.default_rng(5)
    factors = rng.standard_normal((LINES, RANK)), rng.standard_normal((OTHERS, RANK))
    i, j = np.array([0, 3, -1, 0, -1, 1, 3]), np.array([2, -1, 0, 1, -1, 2, 0])
    found = sure.deviations(factors, i, j)
    for p in range(7):
        C, D = (
            prior.covariance if at < 0 else square(own[at], d)
            for prior, own, at in zip(sure.priors, sure.covariances, (i[p], j[p]), strict=True)
        )
        u, v = (np.zeros(RANK) if at < 0 else X[at] for X, at in zip(factors, (i[p], j[p]), strict=True))
        f, g = (np.append(v, 1.0), np.append(u, 1.0)) if bias else (v, u)
        variance = f @ C @ f + g @ D @ g + np.sum(C[:RANK, :RANK] * D[:RANK, :RANK]) + NOISE
        assert found[p] == pytest.approx((scale or 1.0) * np.sqrt(variance))
    before = [part.copy() for part in (*factors, *sure.covariances)]
    sure.deviations(factors, i, j)
    for part, was in zip((*factors, *sure.covariances), before, strict=True):
        np.testing.assert_array_equal(part, was)


def test_intervals_are_those_of_errors_held_out_where_there_are_any():
    calibration = Calibration(1.0, np.linspace(-1.0, 4.0, 99), 99)
    assert a_posterior(True).ends(0.8) == gaussian_ends(0.8)
    assert a_posterior(True, calibration).ends(0.8) == calibration.ends(0.8)
    assert a_posterior(True, calibration).ends(0.8) != gaussian_ends(0.8)
    for sure in (a_posterior(True), a_posterior(True, calibration)):
        for coverage in (0.0, 1.0, 1.5, -0.5):
            with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
                sure.ends(coverage)


def a_cost(counts, seed, weighted=False):
    """Lines with so many entries."""
    rng = np.random.default_rng(seed)
    i = np.repeat(np.arange(len(counts)), counts)
    j = np.concatenate([rng.permutation(OTHERS)[:n] for n in counts])
    weights = rng.integers(1, 4, i.size) / 2 if weighted else None
    given = Observed.from_triples(
        i, j, rng.standard_normal(i.size), (len(counts), OTHERS), weights=weights, warn_of_empty=False
    )
    return Completion.from_observed(given)


def summed(cost, other, bias):
    """Σ w E[f fᵀ] and Σ w (E[f] (y − mean) − E[f o]) of each line, and Σ w."""
    side, d = cost.observed.by_row, RANK + bias
    A, q, n = np.zeros((side.lines, d, d)), np.zeros((side.lines, d)), np.zeros(side.lines)
    for line, j, data in zip(side.keys, side.indices, side.data, strict=True):
        w, C, v = data[1] if data.size == 2 else 1.0, square(other.covariances[j], d), other.factors[j]
        if bias:
            f, o, known = np.append(v, 1.0), other.offsets[j], np.append(C[-1, :-1], 0.0)
            C = np.pad(C[:-1, :-1], (0, 1))
        else:
            f, o, known = v, 0.0, np.zeros(d)
        A[line] += w * (np.outer(f, f) + C)
        q[line] += w * (f * (data[0] - MEAN - o) - known)
        n[line] += w
    return A, q, n


def by_hand(prior, A, q, n, expected):
    """The posterior of lines whose entries sum up to A and q."""
    P = np.linalg.inv(prior.covariance)
    means = prior.mean + np.maximum(np.log1p(n) - prior.least, 0.0)[:, None] * prior.slope + expected
    sure = np.linalg.inv(P + A / NOISE)
    return np.einsum("pkl,pl->pk", sure, means @ P + q / NOISE), sure


def assert_lines(found, x, sure, bias):
    np.testing.assert_allclose(found.factors, x[:, :RANK], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.offsets, x[:, RANK] if bias else 0.0, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.covariances, triangle(sure), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("axis", list(Axis))
@pytest.mark.parametrize("kept", [1.0, 0.4])
def test_lines_are_solved_from_entries_and_from_what_earlier_ones_said(bias, axis, kept):
    sure, d = a_posterior(bias), RANK + bias
    other = some_lines(OTHERS, 6)._replace(covariances=triangle(covariances(OTHERS, d, 7)))
    prior = sure.priors[axis is Axis.COLUMN]
    expected = np.random.default_rng(8).standard_normal((6, d))
    first = a_cost([3, 0, 1, 2, 1, 0], 9, weighted=not bias)
    before = sure.solved(axis, first, MEAN, other, expected=expected)
    A, q, n = summed(first, other, bias)
    assert_lines(before, *by_hand(prior, A, q, n, expected), bias)
    plain = sure.solved(axis, first, MEAN, other)
    assert_lines(plain, *by_hand(prior, A, q, n, 0.0), bias)
    second = a_cost([1, 2, 2, 0, 1, 0], 10)
    before.offsets[1], before.factors[1], before.covariances[1] = 7.0, -3.0, 0.01  # which no entry said
    found = sure.solved(axis, second, MEAN, other, Earlier(before, n, kept=kept), expected)
    more, right, m = summed(second, other, bias)
    assert_lines(found, *by_hand(prior, kept * A + more, kept * q + right, n + m, expected), bias)


def test_an_unknown_that_never_varies_stays_what_it_is():
    d, free = RANK + 1, [1, 2]
    dead = Prior(np.array([0.0, 0.3, -0.2]), np.zeros(d), np.diag([0.0, 0.5, 0.25]))
    C = covariances(OTHERS, d, 7)
    C[:, 0], C[:, :, 0] = 0.0, 0.0
    other = some_lines(OTHERS, 6)._replace(covariances=triangle(C))
    sure = Posterior(triangle(C), triangle(C), (dead, dead), NOISE, 3, None)
    first, second = a_cost([3, 2], 9), a_cost([2, 1], 10)
    before = sure.solved(Axis.ROW, first, MEAN, other)
    found = sure.solved(Axis.ROW, second, MEAN, other, Earlier(before, np.array([3, 2])))
    A, q, _ = (
        one + two for one, two in zip(summed(first, other, True), summed(second, other, True), strict=True)
    )
    alone = dead._replace(mean=dead.mean[free], slope=np.zeros(2), covariance=np.diag([0.5, 0.25]))
    x, due = by_hand(alone, A[:, 1:, 1:], q[:, 1:], np.zeros(2), 0.0)
    np.testing.assert_allclose(np.column_stack([found.factors[:, 1], found.offsets]), x, rtol=1e-7)
    np.testing.assert_allclose(square(found.covariances, d)[:, 1:, 1:], due, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(found.factors[:, 0], 0.0, atol=1e-12)


def a_state(bias, dtype=np.float64):
    d = RANK + bias
    rng = np.random.default_rng(11)
    sides = [
        Beliefs(rng.standard_normal((n, d)).astype(dtype), triangle(covariances(n, d, n)).astype(dtype))
        for n in (LINES, OTHERS)
    ]
    A = rng.standard_normal((3, d)), rng.standard_normal((1, d))
    return State(tuple(sides), (a_prior(d, 3), a_prior(d, 4)), NOISE, 1.0, (0.0, 0.0), A)


def shear(other):
    """A (u, b) = (u, b + u·m), m the mean factor of the lines across."""
    A = np.eye(len(other))
    A[-1, :-1] = other[:-1]
    return A


@pytest.mark.parametrize("sweeps", [0, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_lines_are_counted_from_their_prior_once_they_were_swept(sweeps, dtype):
    state = a_state(True, dtype)
    (L, R), (mean, b, c), found = centred(state, True, 2.5, sweeps, "known")
    m, k = (prior.mean * (sweeps > 0) for prior in state.priors)
    assert mean == pytest.approx(2.5 + m[:-1] @ k[:-1] + m[-1] + k[-1])
    for own, across, side, prior, X, offsets, sure, moved in (
        (m, k, state.sides[0], state.priors[0], L, b, found.rows, found.priors[0]),
        (k, m, state.sides[1], state.priors[1], R, c, found.cols, found.priors[1]),
    ):
        A = shear(across)
        due = (side.means - own) @ A.T
        np.testing.assert_allclose(
            np.column_stack([X, offsets]), due, rtol=1e-6 if dtype == np.float32 else 1e-12
        )
        covariances = A @ square(side.covariances, RANK + 1) @ A.T
        np.testing.assert_allclose(sure, triangle(covariances), rtol=2e-6, atol=1e-6)
        np.testing.assert_allclose(moved.slope, A @ prior.slope)
        np.testing.assert_allclose(moved.covariance, A @ prior.covariance @ A.T)
        assert not moved.mean.any()
        assert (X.dtype, sure.dtype, offsets.dtype) == (dtype, dtype, np.float64)
        assert X.flags.c_contiguous
    assert (found.noise, found.sweeps, found.calibration) == (NOISE, sweeps, "known")


def test_without_offsets_lines_stay_what_they_are():
    state = a_state(False)
    (L, R), (mean, b, c), found = centred(state, False, 0.0, 4, "known")
    assert (state.sides[0].means, state.sides[1].means) == (L, R)
    assert (found.rows, found.cols) == (state.sides[0].covariances, state.sides[1].covariances)
    assert found[2:] == (state.priors, NOISE, 4, "known")
    assert mean == 0.0
    np.testing.assert_array_equal(b, np.zeros(LINES))
    np.testing.assert_array_equal(c, np.zeros(OTHERS))
    for found, A in zip(centred_coefficients(state, False), state.coefficients, strict=True):
        np.testing.assert_array_equal(found, np.vstack([np.zeros(RANK), A]))


def test_coefficients_are_of_lines_as_they_are_counted():
    state = a_state(True)
    found = centred_coefficients(state, True)
    for of_side, A, other in zip(found, state.coefficients, reversed(state.priors), strict=True):
        np.testing.assert_allclose(of_side, np.vstack([np.zeros(RANK + 1), A @ shear(other.mean).T]))
    rows, cols = centred_coefficients(state._replace(coefficients=(state.coefficients[0], None)), True)
    np.testing.assert_array_equal(rows, found[0])
    assert cols is None


@pytest.mark.parametrize("count", [2001, 2002])
def test_errors_are_kept_as_they_are_or_as_so_many_quantiles(count):
    errors = np.random.default_rng(0).standard_normal(count)
    found = Calibration.of(errors, np.full(count, 0.5))
    scale = np.sqrt((np.sum((2 * errors) ** 2) + 500) / (count + 500))
    assert found.scale == pytest.approx(scale)
    due = np.sort(2 * errors)
    if count > 2001:
        due = np.quantile(due, np.linspace(0, 1, 2001))
    np.testing.assert_allclose(found.scores, due / scale)
    assert found.held_out == count
    assert ENOUGH == 2000


@pytest.mark.parametrize(
    ("n", "coverage", "places"), [(19, 0.9, (0, 18)), (19, 0.8, (1, 17)), (9, 0.5, (1, 7))]
)
def test_an_end_is_the_error_at_its_place_beside_a_gaussians(n, coverage, places):
    scores = np.sort(np.random.default_rng(n).standard_normal(n))
    low, high = Calibration(1.0, scores, n).ends(coverage)
    part, own = n / (n + 500), gaussian_ends(coverage)[1]
    assert low == pytest.approx(part * scores[places[0]] - (1 - part) * own)
    assert high == pytest.approx(part * scores[places[1]] + (1 - part) * own)
    assert Calibration(1.0, scores, n).ends(0.9999) == gaussian_ends(0.9999)
