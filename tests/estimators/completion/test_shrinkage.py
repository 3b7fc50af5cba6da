"""The shrinkage of offsets is that of the variance that the data say they have."""

import numpy as np
import pytest
from scipy.stats import norm

import rankfold as rf
from rankfold.estimators.completion import shrinkage
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.shrinkage import _estimates, _variance, dispersion, estimated, noise_of

RNG = np.random.default_rng(0)
INFORMATION = np.append(RNG.integers(1, 30, 60), 0).astype(float)  # the last line has no entries
DRAWN = RNG.standard_normal(61)


@pytest.mark.parametrize("true", [0.3, 1.0, 40.0])
def test_the_variance_of_offsets_is_the_most_likely_one(true):
    noise = 2.0
    found = DRAWN * np.sqrt(true + noise / np.maximum(INFORMATION, 1))

    def unlikely(variance):
        each = variance + noise / INFORMATION[:-1]
        return np.sum(np.log(each) + found[:-1] ** 2 / each)

    best = _variance(found, INFORMATION, noise)
    assert unlikely(best) <= min(unlikely(best * by) for by in np.geomspace(0.01, 100, 2001)) + 1e-4
    assert 0.4 * true < best < 2.5 * true


def test_offsets_that_are_no_larger_than_their_errors_have_no_variance():
    little = 0.3 * DRAWN / np.sqrt(np.maximum(INFORMATION, 1))
    assert _variance(little, INFORMATION, 1.0) == 0.0
    assert _variance(0 * little, INFORMATION, 1.0) == 0.0
    assert _variance(little, 0 * INFORMATION, 1.0) == 0.0


def test_without_noise_the_variance_is_that_of_the_offsets():
    known = DRAWN[:-1]
    assert _variance(DRAWN, INFORMATION, 0.0) == pytest.approx(np.mean(known**2), rel=1e-2)
    alike = np.where(INFORMATION > 0, 3.0, 0.0)  # no more than the largest square
    assert _variance(alike, INFORMATION, 0.0) == pytest.approx(9.0, rel=1e-2)


def ratings_of(loss="square", weights=None):
    rng = np.random.default_rng(1)
    i, j = np.divmod(np.flatnonzero(rng.uniform(size=30 * 20) < 0.4), 20)
    y = 2.0 * rng.standard_normal(30)[i] + rng.standard_normal(i.size)
    weights = None if weights is None else rng.uniform(0.5, 2, i.size)
    cost = rf.Completion(i, j, (y > 0).astype(float) if loss == "logistic" else y, (30, 20), weights, loss)
    G, H = rng.standard_normal((30, 3)), rng.standard_normal((20, 3))
    return Joint.of(cost, 0.7, Shrinkage(2.0, 2.0)), (G, H), (i, j, y)


@pytest.mark.parametrize("k", [0, 1])
def test_offsets_are_estimated_beside_factors_without_being_shrunk(k):
    joint, point, (i, j, y) = ratings_of()
    found, information = _estimates(joint, k, point[k], point[1 - k])
    own, other = (i, j) if k == 0 else (j, i)
    for line in (0, 7, 19):
        here = own == line
        B = np.column_stack([point[1 - k][other[here], :2], np.ones(here.sum())])
        Q = B.T @ B + 0.7 * np.sqrt(here.sum()) * np.diag([1.0, 1.0, 0.0])
        x = np.linalg.solve(Q, B.T @ (y[here] - point[1 - k][other[here], 2]))
        assert found[line] == pytest.approx(x[2] - (point[0][:, 2].mean() if k == 0 else 0.0))
        assert information[line] == pytest.approx(1 / np.linalg.inv(Q)[2, 2])


def test_the_shrinkage_is_the_noise_over_the_variance_within_limits(monkeypatch):
    joint, point, _ = ratings_of()
    variances = iter([0.5, 4.0, 0.0, 1e-30, 1e30, 1.0])
    monkeypatch.setattr(shrinkage, "_variance", lambda *_: next(variances))
    assert estimated(joint, point, 2.0) == (4.0, 0.5)
    assert estimated(joint, point, 2.0) == (1e9, 1e9)
    assert estimated(joint, point, 2.0) == (1e-8, 2.0)


def test_the_dispersion_is_half_for_a_true_likelihood_and_the_mean_square_for_the_square():
    rng = np.random.default_rng(2)
    w = rng.standard_normal(200_000)
    labels = (rng.uniform(size=w.size) < 1 / (1 + np.exp(-w))).astype(float)[:, None]
    empty = [0], [0], [1.0], (1, 1)
    assert dispersion(rf.Completion(*empty, loss="logistic"), labels, w) == pytest.approx(0.5, rel=0.02)
    data = np.column_stack([rng.standard_normal(9), rng.uniform(0.5, 2, 9)])
    mean = np.average((data[:, 0] - w[:9]) ** 2, weights=data[:, 1])
    assert dispersion(rf.Completion(*empty), data, w[:9]) == pytest.approx(mean)
    hinge = rf.Completion(*empty, loss="squared_hinge")
    assert dispersion(hinge, np.ones((3, 1)), np.full(3, 5.0)) == 0.0  # no label is on the wrong side


@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize("weighted", [None, True])
def test_the_noise_is_between_what_was_fitted_and_what_was_held_out(loss, weighted):
    joint, (G, H), (i, j, _) = ratings_of(loss, weighted)
    side = joint.completion.observed.by_row
    predicted = np.sum(G[i, :2] * H[j, :2], axis=1) + G[i, 2] + H[j, 2]
    seen = dispersion(joint.completion, side.data, predicted)
    test = i[:5], j[:5], side.data[:5]
    unseen = dispersion(joint.completion, test[2], np.zeros(5))
    assert noise_of(joint, (G, H), test, np.zeros(5)) == pytest.approx(np.sqrt(seen * unseen))


def test_a_variance_that_is_a_small_part_of_the_errors_is_found_among_many_lines():
    drawn = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    found = _variance(drawn * np.sqrt(1.03), np.ones(drawn.size), 1.0)
    assert found == pytest.approx(0.03, rel=0.05)
    assert _variance(drawn * np.sqrt(0.99), np.ones(drawn.size), 1.0) == 0.0
