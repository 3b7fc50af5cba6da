"""What is believed of lines: priors, inverses and triangles, in any unit and in single precision."""

import numpy as np
import pytest

import rankfold as rf
from rankfold import kernels
from rankfold.estimators.completion.bayes import variational
from rankfold.estimators.completion.bayes.beliefs import (
    Beliefs,
    Prior,
    fewest,
    in_blocks,
    inverses,
    most_likely,
    prior_of,
    square,
    triangle,
    variances,
)
from rankfold.estimators.completion.bayes.variational import State, Variational, products
from rankfold.estimators.completion.side.expecting import Expecting, Ridges

MATRICES = np.array(
    [[[4.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 2.0]], [[9.0, 2.0, 0], [2, 1, 0], [0, 0, 0.1]]]
)


@pytest.mark.parametrize("unit", [1e-20, 1.0, 1e20])
def test_inverses_are_found_in_any_unit(unit):
    found = inverses(unit * MATRICES)
    np.testing.assert_allclose(unit * found, np.linalg.inv(MATRICES), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(inverses(unit * MATRICES[0]), found[0])
    units = np.array([1.0, unit, 1.0])  # of one unknown alone
    found = inverses(units[:, None] * MATRICES[0] * units)
    np.testing.assert_allclose(units[:, None] * found * units, np.linalg.inv(MATRICES[0]), rtol=1e-9)


def test_an_unknown_without_variance_has_a_precision_that_is_finite():
    found = inverses(np.diag([0.0, 2.0]))
    np.testing.assert_allclose(found, np.diag([1e108, 0.5]), rtol=1e-9)


def test_triangles_are_lower_ones_by_row():
    lower = triangle(MATRICES)
    np.testing.assert_array_equal(lower, [[4, 1, 3, 0.5, -1, 2], [9, 2, 1, 0, 0, 0.1]])
    np.testing.assert_array_equal(triangle(MATRICES[0]), lower[0])
    np.testing.assert_array_equal(square(lower, 3), MATRICES)
    np.testing.assert_array_equal(square(lower[1], 3), MATRICES[1])
    np.testing.assert_array_equal(square(np.stack([lower, 2 * lower]), 3), np.stack([MATRICES, 2 * MATRICES]))
    assert square(lower.astype(np.float32), 3).dtype == np.float32


@pytest.mark.parametrize(
    ("logs", "due"),
    [([0.0, 2.0, 0.7], 0.7), ([3.0, 2.0], 2.0), ([0.0, 0.7], 0.7), ([0.0, 0.0], 0.0), ([], 0.0)],
)
def test_lines_without_entries_are_not_those_with_the_fewest(logs, due):
    assert fewest(np.array(logs)) == due


def test_lines_with_fewer_entries_are_expected_to_be_as_those_with_the_fewest():
    prior = Prior(np.array([1.0, -1.0]), np.array([2.0, 0.5]), np.eye(2), 0.7)
    np.testing.assert_allclose(prior.means(np.array([0.0, 0.7, 1.7])), [[1, -1], [1, -1], [3, -0.5]])
    assert Prior(np.zeros(2), np.zeros(2), np.eye(2)).least == 0.0


def test_a_prior_is_moved_with_its_slope():
    A = np.array([[1.0, 0.0], [0.5, 2.0]])
    prior = Prior(np.array([1.0, -1.0]), np.array([2.0, 0.5]), MATRICES[0, :2, :2], 0.7)
    found = prior.moved(A)
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_allclose(found.slope, A @ prior.slope)
    np.testing.assert_allclose(found.covariance, A @ prior.covariance @ A.T)
    assert found.least == 0.7


def test_variances_of_nothing_become_the_least_one():
    line, covariance = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.diag([0.5, 0.0, 4.0])
    found = prior_of(line, covariance, 0.7, 0.25)
    np.testing.assert_array_equal(found.mean, line[0])
    np.testing.assert_array_equal(found.slope, line[1])
    np.testing.assert_allclose(
        np.diag(found.covariance), [0.5 * (1 + 1e-8), 0.25, 4 * (1 + 1e-8)], rtol=1e-14
    )
    assert found.least == 0.7


def test_sums_of_single_precision_are_made_in_double():
    covariances = np.full((3000, 1), 0.1, np.float32)
    covariances[0] = 1e6
    means = np.random.default_rng(0).standard_normal((3000, 1)).astype(np.float32)
    prior = most_likely(Beliefs(means, covariances), np.zeros(3000), False, 0.0)
    due = np.mean(means.astype(float) ** 2) + covariances.mean(dtype=float)
    np.testing.assert_allclose(prior.covariance, [[due * (1 + 1e-8)]], rtol=1e-10)
    model = Variational.of(observed(), False)
    squares = model._squares_about(np.full((3000, 1), 0.5), Beliefs(means, covariances))
    due = np.sum((means.astype(float) - 0.5) ** 2) + covariances.sum(dtype=float)
    np.testing.assert_allclose(squares, [[due]], rtol=1e-12)
    x, z = np.float32([[1e4, 1.0, 0.1]]), np.float32([[1.0, 1e-4, 0.1]])
    assert products(x, z, False)[0] == float(x[0].astype(float) @ z[0].astype(float))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("d", [1, 3, 4, 7, 8, 9])
def test_kernels_get_blocks_of_what_is_believed(bias, d):
    rng = np.random.default_rng(d)
    size, (block, wide) = d * (d + 1) // 2, (kernels.posteriors.BLOCK, kernels.posteriors.WIDE_BLOCK)
    lines = Beliefs(rng.standard_normal((5, d)), rng.standard_normal((5, size)))
    F, C = in_blocks(lines, bias, np.float32)
    assert (F.shape[1], C.shape[1]) == (block, wide)
    F, C = F.reshape(5, -1), C.reshape(5, -1)
    assert F.shape[1] == int(np.ceil((d + 1) / block)) * block
    assert C.shape[1] == int(np.ceil(size / wide)) * wide
    last = [np.ones(5), lines.means[:, -1]] if bias else [lines.means[:, -1], np.zeros(5)]
    np.testing.assert_array_equal(F[:, : d + 1], np.column_stack([lines.means[:, :-1], *last]))
    np.testing.assert_array_equal(C[:, :size], lines.covariances.astype(np.float32))
    assert not F[:, d + 1 :].any()
    assert not C[:, size:].any()
    assert (F.dtype, C.dtype) == (np.float64, np.float32)


@pytest.mark.parametrize("bias", [True, False])
def test_variances_are_small_where_little_is_unsure(bias):
    rng = np.random.default_rng(0)
    rows, cols = (Beliefs(rng.standard_normal((2, 4)), 1e-6 * triangle(np.stack([np.diag(d), np.eye(4)])))
                  for d in ([1.0, 2, 3, 4], [4.0, 1, 2, 5]))  # fmt: skip
    found = variances(rows, cols, bias)
    for p in range(2):
        u, v = rows.means[p].copy(), cols.means[p].copy()
        C, D = (np.diag(square(side.covariances[p], 4)) for side in (rows, cols))
        if bias:
            u[-1] = v[-1] = 1.0
        known = C * v**2 + D * u**2 + C * D * ([1, 1, 1, 0] if bias else [1, 1, 1, 1])
        assert found[p] == pytest.approx(known.sum(), rel=1e-9)
    less = rows._replace(covariances=-rows.covariances), cols._replace(covariances=-cols.covariances)
    np.testing.assert_array_equal(variances(*less, bias), 0.0)  # rounding is no variance below 0


def a_state(*, rows=0.0, cols=0.0, error=0.0):
    sides = Beliefs(np.ones((3, 2)), np.zeros((3, 3))), Beliefs(np.ones((2, 2)), np.zeros((2, 3)))
    sides[0].covariances[1, 2], sides[1].covariances[0, 1] = rows, cols
    return State(sides, (None, None), 1.0, error, (0.0, 0.0))


def test_a_state_with_any_variance_was_swept():
    assert not a_state().swept
    assert a_state(rows=0.1).swept
    assert a_state().coefficients == (None, None)


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({}, True),
        ({"error": np.nan}, False),
        ({"error": np.inf}, False),
        ({"rows": np.nan}, False),
        ({"cols": np.inf}, False),
    ],
)
def test_a_state_is_finite_where_all_of_it_is(changes, due):
    assert a_state(**changes).finite is due
    broken = a_state()
    broken.sides[1].means[0, 1] = np.nan
    assert not broken.finite


@pytest.mark.parametrize("bias", [True, False])
def test_values_are_summed_up_by_parts_and_weights(bias, monkeypatch):
    monkeypatch.setattr(variational, "BLOCK", 2)
    y, w = np.array([3.0, -1.0, 4.0, 1.0, 5.0]), np.array([1.0, 2.0, 0.5, 3.0, 0.25])
    centre, scale, weight = variational._spread(np.column_stack([y, w]), bias)
    assert weight == w.sum()
    assert centre == pytest.approx(np.average(y, weights=w) if bias else 0.0, abs=0)
    assert scale == pytest.approx(np.average((y - centre) ** 2, weights=w))
    centre, scale, weight = variational._spread(y[:, None], bias)
    assert weight == 5.0
    assert centre == pytest.approx(y.mean() if bias else 0.0, abs=0)
    assert scale == pytest.approx(np.mean((y - centre) ** 2))
    assert variational._spread(np.column_stack([y, 0 * w]), bias) == (0.0, 1.0, 1.0)
    two = np.array([[1.0, 3.0], [5.0, 1.0]])
    assert variational._spread(two, bias)[2] == 4.0
    assert variational._spread(two[:, :1], bias)[2] == 2.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_values_that_are_alike_vary_by_rounding(dtype, monkeypatch):
    monkeypatch.setattr(variational, "BLOCK", 2)
    eps = float(np.finfo(dtype).eps)
    alike = np.full((5, 1), 64.0, dtype)
    assert variational._spread(alike, True) == (64.0, (64 * eps) ** 2, 5.0)
    assert variational._spread(-alike, True)[1] == (64 * eps) ** 2
    apart = np.array([[-64.0, 1.0], [2.0, 0], [1.0, 0], [1.0, 0], [1.0, 0]], dtype)
    assert variational._spread(apart, True)[1] == (64 * eps) ** 2  # the largest, whatever it weighs
    assert variational._spread(np.zeros((3, 1), dtype), True) == (0.0, np.finfo(np.float64).tiny, 3.0)


def observed(dtype=np.float64):
    i, j = np.nonzero(np.arange(20).reshape(5, 4) % 3)
    return rf.Completion(i, j, (1.0 + i * j).astype(dtype), (5, 4)).observed


def test_a_sweep_begins_with_noise_and_a_point_of_its_precision():
    model = Variational.of(observed(np.float32), True)
    G, H = np.column_stack([np.arange(5.0), np.ones(5)]), np.column_stack([np.arange(4.0), np.zeros(4)])
    state = model.start((G, H))  # which is exact
    assert state.noise == model.floor
    assert state.error == pytest.approx(0.0, abs=1e-9)
    assert {part.dtype for side in state.sides for part in side} == {np.dtype(np.float32)}
    np.testing.assert_allclose(state.sides[0].means, G - [0.0, model.centre], rtol=1e-6)
    np.testing.assert_array_equal(G[:, 1], 1.0)  # what was given stays
    assert model.home(state) is state


def test_features_that_say_nothing_are_none():
    Z, counts = np.ones((5, 1)), np.ones(5)
    none, some = Expecting(Z, counts), Expecting(Z, counts, Ridges(1.0))
    assert Variational.of(observed(), True, (none, None)).traits == (None, None)
    assert Variational.of(observed(), True, (some, None)).traits[1] is None
    found = Variational.of(observed(), True, (some, None)).traits[0]
    assert found.Z is Z
    assert found.bias
    assert found.present.all()


def test_a_start_without_offsets_is_judged_by_its_factors_alone():
    rng = np.random.default_rng(0)
    given = observed()
    model, (G, H) = Variational.of(given, False), (rng.standard_normal((5, 2)), rng.standard_normal((4, 2)))
    i, j, y = given.by_row.keys, given.by_row.indices, given.by_row.data[:, 0]
    assert model.start((G, H)).error == pytest.approx(np.sum((y - np.sum(G[i] * H[j], axis=1)) ** 2))


def test_each_sweep_begins_with_the_priors_of_what_is_believed_by_then():
    rng = np.random.default_rng(0)
    model = Variational.of(observed(), True)
    state = model.swept(model.start((rng.standard_normal((5, 2)), rng.standard_normal((4, 2)))))
    for k, (prior, side) in enumerate(zip(model.swept(state).priors, state.sides, strict=True)):
        due = most_likely(side, model.logs[k], True, model.floor)
        for part, other in zip(prior, due, strict=True):
            np.testing.assert_allclose(part, other, rtol=1e-12)
