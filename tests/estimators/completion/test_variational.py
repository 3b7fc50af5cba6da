"""Variational Bayes for lines: each update beside the textbook formula, the bound, floors and invariances.

What multiplies the unknowns x = [u, b] of a line is f = [v, 1], where z = [v, c] belongs to the other side.
All expectations are of polynomials of degree 2 in x and in z, which averages over sigma points have exactly.
"""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rankfold import kernels
from rankfold.entries.observed import Observed
from rankfold.entries.ordering import sorted_entries
from rankfold.estimators.completion.bayes.beliefs import (
    Beliefs,
    Prior,
    most_likely,
    square,
    triangle,
    variances,
)
from rankfold.estimators.completion.bayes.finishing import _widened
from rankfold.estimators.completion.bayes.posterior import centred, centred_coefficients
from rankfold.estimators.completion.bayes.variational import Variational, posteriors, products
from rankfold.estimators.completion.side.expecting import Expecting, Ridges

LINES, LENGTH, RANK, CENTRE, NOISE = 9, 7, 2, 0.4, 0.3


def covariances(n, d, rng, scale=0.3):
    A = rng.standard_normal((n, d, d))
    return scale * A @ A.transpose(0, 2, 1)


def side(n, d, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((n, d))
    return Beliefs(means.astype(dtype), triangle(covariances(n, d, rng)).astype(dtype))


def entries(weighted=False, stripes=1):
    """Lines with 0, 1, 2, ... entries."""
    rng = np.random.default_rng(1)
    keys = np.repeat(np.arange(LINES), np.arange(LINES))
    packed = rng.standard_normal(keys.size)
    if weighted:
        packed = packed + 1j * rng.integers(1, 4, keys.size)
    return sorted_entries(
        keys, rng.integers(0, LENGTH, keys.size), packed, (LINES, LENGTH), np.uint32, stripes
    )


def a_prior(d):
    rng = np.random.default_rng(2)
    return Prior(rng.standard_normal(d), 0.3 * rng.standard_normal(d), covariances(1, d, rng)[0] + np.eye(d))


def sigma_points(mean, covariance):
    """Points whose averages of quadratics are those of the Gaussian."""
    d = len(mean)
    steps = np.sqrt(d) * np.linalg.cholesky(covariance + 1e-300 * np.eye(d)).T
    return np.concatenate([mean + steps, mean - steps])


def entry(x, z, bias):
    return x[:-1] @ z[:-1] + x[-1] + z[-1] if bias else x @ z


def weights_of(side):
    return side.data[:, 1] if side.data.shape[1] == 2 else np.ones(len(side.data))


def dense_posterior(side, i, other, prior, log, bias):
    """Mean and covariance of line i: the quadratic function −2 E log p, put together at sigma points."""
    d = len(prior.mean)
    P = np.linalg.inv(prior.covariance)
    h = P @ (prior.mean + log * prior.slope)
    for p in np.flatnonzero(side.keys == i):
        j = side.indices[p]
        points = sigma_points(other.means[j], square(other.covariances[j], d))
        for z in points:
            f, o = (np.append(z[:-1], 1.0), z[-1]) if bias else (z, 0.0)
            w = weights_of(side)[p] / NOISE / len(points)
            P, h = P + w * np.outer(f, f), h + w * f * (side.data[p, 0] - CENTRE - o)
    return np.linalg.solve(P, h), np.linalg.inv(P)


def expected_squares(side, lines, other, bias):
    """Σ w E[(y − p)²]."""
    d, total = lines.means.shape[1], 0.0
    for p, (i, j) in enumerate(zip(side.keys, side.indices, strict=True)):
        xs = sigma_points(lines.means[i], square(lines.covariances[i], d))
        zs = sigma_points(other.means[j], square(other.covariances[j], d))
        errors = [(side.data[p, 0] - CENTRE - entry(x, z, bias)) ** 2 for x in xs for z in zs]
        total += weights_of(side)[p] * np.mean(errors)
    return total


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
# With ranks 1 and 7, one number more or less of a line takes another block.
@pytest.mark.parametrize(("stripes", "rank"), [(1, RANK), (3, RANK), (1, 1), (1, 7), (1, 9)])
def test_posteriors_are_those_of_the_textbook(bias, weighted, stripes, rank):
    d = rank + bias
    given, other, prior = entries(weighted, stripes), side(LENGTH, d, 3), a_prior(d)
    logs = np.log1p(given.counts)
    found, error, dets = posteriors(given, CENTRE, other, bias, NOISE, prior, prior.means(logs))
    for i in range(LINES):
        mean, covariance = dense_posterior(given, i, other, prior, logs[i], bias)
        np.testing.assert_allclose(found.means[i], mean, rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(square(found.covariances[i], d), covariance, rtol=1e-9, atol=1e-10)
    assert error == pytest.approx(expected_squares(given, found, other, bias), rel=1e-9)
    logdets = np.linalg.slogdet(square(found.covariances, d))[1]
    assert dets == pytest.approx(logdets.sum(), rel=1e-9)


def sums_of(side, other, bias):
    """What the entries of each line sum up to: lower triangle of E[f fᵀ], E[o f], E[o²]; t E[f], t E[o]."""
    d = other.means.shape[1]
    i, j = np.tril_indices(d)
    total = np.zeros((LINES, i.size + 2 * d + 2))
    for p, line in enumerate(side.keys):
        at, t, w = side.indices[p], side.data[p, 0] - CENTRE, weights_of(side)[p]
        z, C = other.means[at], square(other.covariances[at], d)
        f, o, cross, own = z, 0.0, np.zeros(d), 0.0
        if bias:
            f, o, cross, own = np.append(z[:-1], 1.0), z[-1], np.append(C[-1, :-1], 0.0), C[-1, -1]
            C = np.pad(C[:-1, :-1], (0, 1))
        both = (np.outer(f, f) + C)[i, j]
        total[line] += w * np.concatenate([both, o * f + cross, [o * o + own], t * f, [t * o]])
    return total


@pytest.mark.parametrize("bias", [True, False])
def test_entries_may_be_given_by_what_they_sum_up_to(bias):
    d = RANK + bias
    given, other, prior = entries(True), side(LENGTH, d, 3), a_prior(d)
    logs, order = np.log1p(given.counts), np.arange(len(given.data)) % 3 > 0
    parts = []
    for part in (order, ~order):
        packed = given.data[part, 0] + 1j * given.data[part, 1]
        parts.append(
            sorted_entries(given.keys[part], given.indices[part], packed, (LINES, LENGTH), np.uint32, 1)
        )
    whole, _, _ = posteriors(given, CENTRE, other, bias, NOISE, prior, prior.means(logs))
    known = sums_of(parts[0], other, bias)
    rest, _, _ = posteriors(parts[1], CENTRE, other, bias, NOISE, prior, prior.means(logs), known)
    np.testing.assert_allclose(rest.means, whole.means, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(rest.covariances, whole.covariances, rtol=1e-9, atol=1e-10)


def test_covariances_of_many_entries_are_taken_in_single_precision(monkeypatch):
    given, other, prior = entries(), side(LENGTH, RANK, 3), a_prior(RANK)
    asked = given, CENTRE, other, False, NOISE, prior, prior.means(np.zeros(LINES))
    exact, *_ = posteriors(*asked)
    monkeypatch.setattr(kernels.layout, "FEW", 0)
    found, *_ = posteriors(*asked)
    off = np.abs(found.covariances / exact.covariances - 1).max()
    assert 1e-10 < off < 1e-6  # those of the other side alone: what is found is in double precision


@pytest.mark.parametrize("bias", [True, False])
def test_variances_of_predictions(bias):
    d = RANK + bias
    rows, cols = side(4, d, 5), side(4, d, 6)
    found = variances(rows, cols, bias)
    for p in range(4):
        xs, zs = (sigma_points(s.means[p], square(s.covariances[p], d)) for s in (rows, cols))
        values = [entry(x, z, bias) for x in xs for z in zs]
        assert found[p] == pytest.approx(np.var(values), rel=1e-9)
        assert products(rows.means, cols.means, bias)[p] == pytest.approx(np.mean(values))


def test_the_prior_is_the_most_likely_one():
    lines, logs = side(30, 2, 7), np.random.default_rng(8).random(30)
    prior = most_likely(lines, logs, True, 0.0)
    slope, mean = np.polyfit(logs, lines.means, 1)
    assert prior.least == logs.min()
    np.testing.assert_allclose(prior.mean, mean + logs.min() * slope)
    np.testing.assert_allclose(prior.slope, slope)
    np.testing.assert_allclose(prior.means(logs), mean + np.outer(logs, slope))
    np.testing.assert_allclose(prior.means(np.zeros(1)), prior.mean[None])  # as those with the fewest
    with_empty = most_likely(lines, np.append(logs[:-1], 0.0), True, 0.0)
    assert with_empty.least == logs[:-1].min()
    off = lines.means - mean - np.outer(logs, slope)
    spread = np.cov(off.T, bias=True) + square(lines.covariances, 2).mean(axis=0)
    np.testing.assert_allclose(prior.covariance, spread + 1e-8 * np.diag(np.diag(spread)), rtol=1e-12)
    np.testing.assert_allclose(prior.precision @ prior.covariance, np.eye(2), atol=1e-9)
    around_zero = most_likely(lines, logs, False, 0.5)
    assert not around_zero.mean.any()
    assert not around_zero.slope.any()
    second = (lines.means.T @ lines.means) / 30 + square(lines.covariances, 2).mean(axis=0)
    np.testing.assert_allclose(around_zero.covariance, second, rtol=1e-7)
    alike = Beliefs(np.zeros((30, 2)), np.zeros((30, 3)))
    np.testing.assert_allclose(most_likely(alike, logs, True, 0.5).covariance, 0.5 * np.eye(2), atol=1e-20)


def test_a_prior_without_a_direction_has_a_finite_precision():
    flat = Prior(np.zeros(2), np.zeros(2), np.full((2, 2), 4.0))
    np.testing.assert_allclose(flat.precision, (0.5 + np.array([[1, -1], [-1, 1]]) * 1e8) / 8, rtol=1e-6)
    assert np.isfinite(flat._replace(covariance=np.zeros((2, 2))).precision).all()


def truth(rows, cols, seed=0):
    """[L, 2 + b] and [R, 0] of the data below."""
    rng = np.random.default_rng(seed)
    b, L, R = rng.standard_normal((rows, 1)), rng.standard_normal((rows, 2)), rng.standard_normal((2, cols))
    return np.hstack([L, 2.0 + b]), np.hstack([R.T, np.zeros((cols, 1))])


def data(noise=0.3, weighted=False, shape=(30, 20), seed=0, scale=1.0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    G, H = truth(*shape, seed)
    whole = G[:, :-1] @ H[:, :-1].T + G[:, -1:]
    i, j = np.nonzero(rng.random(shape) < 0.4)
    values = scale * (whole[i, j] + noise * rng.standard_normal(len(i)))
    weights = rng.integers(1, 4, len(i)).astype(float) if weighted else None
    return Observed.from_triples(
        i, j, values.astype(dtype), shape,
        weights=None if weights is None else weights.astype(dtype), duplicates="keep",
    )  # fmt: skip


def point(observed, rank=2, bias=True, seed=0):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((d, rank + bias)).astype(observed.dtype) for d in observed.shape)


def swept(observed, bias=True, sweeps=5, start=None):
    model = Variational.of(observed, bias)
    state = model.start(point(observed, bias=bias) if start is None else start)
    for _ in range(sweeps):
        state = model.swept(state)
    return model, state


@pytest.mark.parametrize("bias", [True, False])
def test_the_bound_is_that_of_the_textbook_and_rises(bias):
    observed = data(weighted=True)
    model, state = swept(observed, bias, 1)
    given = observed.by_row
    like, rows, cols = 0.0, *state.sides
    d = RANK + bias
    for p, (i, j) in enumerate(zip(given.keys, given.indices, strict=True)):
        xs, zs = (sigma_points(s.means[k], square(s.covariances[k], d)) for s, k in ((rows, i), (cols, j)))
        errors = given.data[p, 0] - model.centre - np.array([entry(x, z, bias) for x in xs for z in zs])
        like += given.data[p, 1] * stats.norm.logpdf(errors, scale=np.sqrt(state.noise)).mean()
    for lines, prior, logs in zip(state.sides, state.priors, model.logs, strict=True):
        for mean, lower, log in zip(lines.means, lines.covariances, logs, strict=True):
            like -= divergence(mean, square(lower, d), prior.means(np.array([log]))[0], prior.covariance)
    assert model.bound(state) == pytest.approx(like, rel=1e-6)
    bounds = [model.bound(state)]
    for _ in range(25):
        state = model.swept(state)
        bounds.append(model.bound(state))
    assert np.all(np.diff(bounds) > -1e-7 * np.abs(bounds[0]))
    assert bounds[-1] > bounds[0] + 1.0


def divergence(m, C, mean, covariance):
    """KL(N(m, C) ‖ N(mean, covariance))."""
    P, off = np.linalg.inv(covariance), m - mean
    return 0.5 * (np.trace(P @ C) + off @ P @ off - len(m) - np.linalg.slogdet(P @ C)[1])


def test_the_state_before_any_sweep():
    observed = data(weighted=True)
    model, state = swept(observed, sweeps=0)
    given, (G, H) = observed.by_row, point(observed)
    weights = given.data[:, 1]
    assert model.weight == weights.sum()
    assert model.centre == pytest.approx(np.average(given.data[:, 0], weights=weights))
    spread = np.average((given.data[:, 0] - model.centre) ** 2, weights=weights)
    assert model.floor == pytest.approx(np.finfo(np.float64).eps ** (2 / 3) * spread)
    predicted = [entry(G[i], H[j], True) for i, j in zip(given.keys, given.indices, strict=True)]
    assert state.error == pytest.approx(np.sum(weights * (given.data[:, 0] - predicted) ** 2))
    assert state.noise == pytest.approx(state.error / weights.sum())
    sums = np.bincount(given.keys, weights, observed.shape[0])
    np.testing.assert_allclose(model.logs[0], np.log(1 + sums))
    for k, (side, prior) in enumerate(zip(state.sides, state.priors, strict=True)):
        expected = most_likely(side, model.logs[k], True, model.floor)
        for part, due in zip(prior, expected, strict=True):
            np.testing.assert_allclose(part, due, rtol=1e-12, atol=1e-12)
        assert not side.covariances.any()
    assert state.logs == (0.0, 0.0)
    assert state.coefficients == (None, None)
    assert Variational.of(observed, False).centre == 0.0


def test_traits_of_either_side_have_coefficients_of_their_own():
    observed, rng = data(), np.random.default_rng(3)
    start = point(observed)
    traits = [X[:, :k] + 0.1 * rng.standard_normal((len(X), k)) for k, X in zip((2, 1), start, strict=True)]
    both = [
        Expecting(Z, side.counts.astype(float), Ridges(1.0, 1.0))
        for Z, side in zip(traits, observed.sides, strict=True)
    ]
    model = Variational.of(observed, True, tuple(both))
    before = model.start(start)
    after = model.swept(before)
    less = 0.0
    for k, (Z, prior) in enumerate(zip(traits, after.priors, strict=True)):
        A, rest = model.traits[k].explained(before.sides[k])
        assert A.any()
        np.testing.assert_allclose(before.coefficients[k], A, atol=1e-12)
        np.testing.assert_allclose(after.coefficients[k], A, atol=1e-12)  # a sweep begins with them
        expected = most_likely(rest, model.logs[k][both[k].present], True, model.floor)
        np.testing.assert_allclose(prior.covariance, expected.covariance, atol=1e-12)
        plain = after.sides[k].means - prior.means(model.logs[k])
        less += sum(0.5 * (x @ prior.precision @ x - y @ prior.precision @ y)
                    for x, y in zip(plain, plain - Z @ A, strict=True))  # fmt: skip
    without = model.bound(after._replace(coefficients=(None, None)))
    assert model.bound(after) == pytest.approx(without + less, rel=1e-9)


def test_weights_are_repetitions():
    weighted = data(weighted=True)
    given = weighted.by_row
    again = np.repeat(np.arange(len(given.data)), given.data[:, 1].astype(int))
    repeated = Observed.from_triples(
        given.keys[again], given.indices[again], given.data[again, 0], weighted.shape, duplicates="keep"
    )
    (model, one), (_, other) = swept(weighted), swept(repeated)
    assert one.noise == pytest.approx(other.noise, rel=1e-9)
    for a, b in zip(one.sides, other.sides, strict=True):
        np.testing.assert_allclose(a.means, b.means, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(a.covariances, b.covariances, rtol=1e-7, atol=1e-9)
    assert model.bound(one) == pytest.approx(swept(repeated)[0].bound(other), rel=1e-9)


@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_the_unit_of_the_values_does_not_matter(scale):
    start = point(data())
    root = np.sqrt(scale) * np.array([1, 1, np.sqrt(scale)])  # of offsets the unit, of factors its root
    _, one = swept(data(), start=start)
    _, other = swept(data(scale=scale), start=tuple(X * root for X in start))
    assert other.noise == pytest.approx(scale**2 * one.noise, rel=1e-6)
    np.testing.assert_allclose(other.sides[0].means, one.sides[0].means * root, rtol=1e-6, atol=1e-9 * scale)


def test_a_constant_added_to_the_values_changes_the_centre_alone():
    observed = data()
    moved = observed.with_values(lambda i, j, old: old + 100.0)
    start = point(observed)
    shifted = start[0] + np.array([0, 0, 100.0]), start[1]
    (model, one), (there, other) = swept(observed, start=start), swept(moved, start=shifted)
    assert there.centre == pytest.approx(model.centre + 100.0)
    np.testing.assert_allclose(other.sides[1].means, one.sides[1].means, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exact_data_end_at_the_floor_of_the_noise(dtype):
    observed = data(noise=0.0, dtype=dtype)
    model, state = swept(observed, sweeps=60, start=truth(30, 20))
    variance = observed.by_row.data[:, 0].var(dtype=np.float64)
    assert model.floor == pytest.approx(np.finfo(dtype).eps ** (2 / 3) * variance, rel=1e-5)
    assert state.noise == model.floor
    assert state.finite
    assert state.sides[0].means.dtype == dtype


def test_constant_values_and_weights_of_zero_have_a_floor_too():
    observed = data().with_values(lambda i, j, old: 0 * old + 5.0)
    model, state = swept(observed)
    assert 0 < model.floor < 1e-30
    assert state.finite
    none = replace(observed.by_row, data=np.column_stack([observed.by_row.data, 0 * observed.by_row.data]))
    across = replace(
        observed.by_column, data=np.column_stack([observed.by_column.data, 0 * observed.by_column.data])
    )
    model, state = swept(Observed(observed.shape, none, across))
    assert model.weight == 1.0
    assert state.finite


@settings(max_examples=25)
@given(st.data())
def test_never_nan(drawn):
    rows, cols = drawn.draw(st.integers(1, 5)), drawn.draw(st.integers(1, 5))
    count = drawn.draw(st.integers(1, 12))
    numbers = st.integers(-(10**6), 10**6).map(float) | st.sampled_from([0.0, 1.0, 1e-9])
    i = drawn.draw(st.lists(st.integers(0, rows - 1), min_size=count, max_size=count))
    j = drawn.draw(st.lists(st.integers(0, cols - 1), min_size=count, max_size=count))
    y = drawn.draw(st.lists(numbers, min_size=count, max_size=count))
    bias = drawn.draw(st.booleans())
    observed = Observed.from_triples(i, j, np.array(y), (rows, cols), duplicates="keep", warn_of_empty=False)
    _, state = swept(observed, bias, sweeps=8)
    assert state.finite
    assert state.noise > 0
    spread = variances(
        Beliefs(*(a[:1] for a in state.sides[0])), Beliefs(*(a[:1] for a in state.sides[1])), bias
    )
    assert np.isfinite(spread).all()
    assert (spread >= 0).all()


def test_float32_finds_what_float64_does():
    (_, one), (_, other) = swept(data()), swept(data(dtype=np.float32))
    assert other.sides[0].covariances.dtype == np.float32
    assert other.noise == pytest.approx(one.noise, rel=1e-3)
    np.testing.assert_allclose(other.sides[1].means, one.sides[1].means, atol=5e-3)


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    observed = data(shape=(300, 200))
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("RANKFOLD_NUM_THREADS", threads)
        found.append(swept(observed, sweeps=2)[1])
    for other in found[1:]:
        assert other.noise == found[0].noise
        for a, b in zip(found[0].sides, other.sides, strict=True):
            np.testing.assert_array_equal(a.means, b.means)
            np.testing.assert_array_equal(a.covariances, b.covariances)


def test_a_sweep_takes_memory_for_lines_and_not_for_entries():
    rng = np.random.default_rng(0)
    peaks = []
    for count in (2_000, 60_000):
        i, j = rng.integers(0, 60, count), rng.integers(0, 50, count)
        observed = Observed.from_triples(i, j, rng.standard_normal(count), (60, 50), duplicates="keep")
        model = Variational.of(observed, True)
        state = model.swept(model.start(point(observed, rank=6)))
        tracemalloc.start()
        model.swept(state)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 8 * 20_000  # a number for each entry would be three times as much


@pytest.mark.parametrize("bias", [True, False])
def test_centred_beliefs_predict_the_same(bias):
    model, state = swept(data(), bias)
    (L, R), offsets, posterior = centred(state, bias, model.centre, 5, None)
    rows, cols = state.sides
    i, j = np.array([0, 3, 7]), np.array([1, 5, 2])
    before = model.centre + products(rows.means[i], cols.means[j], bias)
    after = offsets.mean + offsets.rows[i] + offsets.cols[j] + np.einsum("pk,pk->p", L[i], R[j])
    np.testing.assert_allclose(after, before, rtol=1e-10)
    spread = variances(Beliefs(*(a[i] for a in rows)), Beliefs(*(a[j] for a in cols)), bias)
    np.testing.assert_allclose(posterior.deviations((L, R), i, j) ** 2, spread + state.noise, rtol=1e-9)
    assert all(not prior.mean.any() for prior in posterior.priors)


@pytest.mark.parametrize("bias", [True, False])
def test_centred_lines_are_expected_of_the_same_traits(bias):
    """Each side is what its own traits make one expect, before and after."""
    model, state = swept(data(), bias)
    rng = np.random.default_rng(5)
    traits = [rng.standard_normal((n, k)) for n, k in zip((30, 20), (2, 3), strict=True)]
    A = [rng.standard_normal((Z.shape[1], RANK + bias)) for Z in traits]
    sides = [
        side._replace(means=prior.mean + Z @ B)
        for side, prior, Z, B in zip(state.sides, state.priors, traits, A, strict=True)
    ]
    state = state._replace(sides=tuple(sides), coefficients=tuple(A))
    factors, offsets, _ = centred(state, bias, model.centre, 5, None)
    found = centred_coefficients(state, bias)
    for X, of_lines, Z, B in zip(factors, offsets[1:], traits, found, strict=True):
        lines = np.column_stack([X, of_lines]) if bias else X
        np.testing.assert_allclose(np.column_stack([np.ones(len(Z)), Z]) @ B, lines, atol=1e-10)
    without = centred_coefficients(state._replace(coefficients=(None, A[1])), bias)
    assert without[0] is None
    np.testing.assert_array_equal(without[1], found[1])


def test_offsets_alone_get_factors_of_nothing():
    observed = data()
    _, state = swept(observed, start=point(observed, rank=0))
    A = np.array([[0.5], [-2.0]])
    state = state._replace(coefficients=(A, None))
    wide = _widened(state, 3)
    assert _widened(state, 1) is state
    np.testing.assert_array_equal(wide.coefficients[0], np.column_stack([np.zeros((2, 2)), A]))
    assert wide.coefficients[1] is None
    last = np.diag([0.0, 0.0, 1.0])
    for k in range(2):
        before, side = state.sides[k], wide.sides[k]
        np.testing.assert_array_equal(side.means, np.pad(before.means, ((0, 0), (2, 0))))
        np.testing.assert_array_equal(square(side.covariances, 3), last * before.covariances[:, :, None])
        for found, was in zip(wide.priors[k][:2], state.priors[k][:2], strict=True):
            np.testing.assert_array_equal(found, [0.0, 0.0, *was])
        np.testing.assert_array_equal(wide.priors[k].covariance, last * state.priors[k].covariance)
        assert wide.priors[k].least == state.priors[k].least


def test_a_line_never_seen_is_drawn_from_the_prior():
    model, state = swept(data())
    factors, offsets, posterior = centred(state, True, model.centre, 5, None)
    rows, cols = state.sides
    d, (prior, _) = rows.means.shape[1], state.priors
    new = Beliefs(prior.mean[None], triangle(prior.covariance)[None])
    known = Beliefs(*(a[4:5] for a in cols))
    expected = model.centre + products(new.means, known.means, True)
    assert offsets.mean + offsets.cols[4] == pytest.approx(float(expected[0]))
    spread = variances(new, known, True) + state.noise
    unseen = posterior.deviations(factors, np.array([-1]), np.array([4]))
    np.testing.assert_allclose(unseen**2, spread, rtol=1e-8)
    assert d == 3
    assert unseen[0] > posterior.deviations(factors, np.array([0]), np.array([4]))[0]
