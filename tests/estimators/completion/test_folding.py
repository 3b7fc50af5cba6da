"""Lines that are solved for while the other side stays, against their normal equations."""

from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from estimators.completion.rating_data import model, ratings
from rankfold.costs.offsets import Offsets
from rankfold.entries.observed import Observed
from rankfold.estimators.completion import completed
from rankfold.estimators.completion.bayes.beliefs import triangle
from rankfold.estimators.completion.folding import Earlier, Lines, design, solve
from rankfold.estimators.completion.streamed import Streamed
from rankfold.estimators.completion.streaming import Information

RNG = np.random.default_rng(4)
KNOWN = np.array([[1, 1, 0, 1, 1, 0], [0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 1]], bool)
Y, WEIGHTS = RNG.standard_normal(KNOWN.shape), np.where(KNOWN, RNG.uniform(0.2, 0.9, KNOWN.shape), 0.0)
COLS = Lines(RNG.standard_normal(6), RNG.standard_normal((6, 2)))
LAMBDA, RHO = 0.7, 1.8


def cost(weighted):
    weights = WEIGHTS[KNOWN] if weighted else None
    entries = *np.nonzero(KNOWN), Y[KNOWN], KNOWN.shape, weights
    return rf.Completion.from_observed(Observed.from_triples(*entries, warn_of_empty=False))


def ridges(count, bias):
    return np.array([LAMBDA * np.sqrt(max(count, 1.0))] * 2 + [RHO] * bias)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("expecting", [True, False])
@pytest.mark.parametrize("kept", [None, 1.0, 0.4])
def test_new_entries_of_a_line_join_what_is_remembered_of_earlier_ones(bias, weighted, expecting, kept):
    d = 2 + bias
    B = np.column_stack([COLS.factors, np.ones(6)])[:, :d]
    rng = np.random.default_rng(5)
    expected = rng.standard_normal((4, d)) if expecting else np.zeros((4, d))
    earlier, x = None, np.zeros((4, d))
    before, Q = np.array([3.0, 0.5, 2.0, 0.0]), np.zeros((4, d, d))
    if kept is not None:
        x = rng.standard_normal((4, d))
        roots = rng.standard_normal((3, d, d))
        Q[:3] = roots @ roots.transpose(0, 2, 1)
        lines = Lines(x[:, 2] if bias else np.zeros(4), x[:, :2])
        earlier = Earlier(lines, before, triangle(Q), before, kept)
    many = WEIGHTS if weighted else KNOWN.astype(float)
    due = np.zeros((4, d))
    for i in range(4):
        A, right, count = np.zeros((d, d)), np.zeros(d), many[i].sum()
        if kept is not None:
            count += kept * before[i]
            A = kept * Q[i]
            if before[i]:  # which the line solved
                right = kept * (Q[i] @ x[i] + ridges(before[i], bias) * (x[i] - expected[i]))
        A = A + B.T @ (many[i][:, None] * B) + np.diag(ridges(count, bias))
        right = right + B.T @ (many[i] * (Y[i] - COLS.offsets)) + ridges(count, bias) * expected[i]
        due[i] = np.linalg.solve(A, right)
    found = solve(
        cost(weighted), COLS, LAMBDA, RHO if bias else None, earlier, expected if expecting else None
    )
    np.testing.assert_allclose(found.factors, due[:, :2], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.offsets, due[:, 2] if bias else 0.0, rtol=1e-8, atol=1e-10)
    assert found.covariances is None


def test_lines_beside_factors_in_single_precision_are_solved_for_in_double():
    single = Lines(COLS.offsets, COLS.factors.astype(np.float32))
    exact = single._replace(factors=single.factors.astype(np.float64))
    for bias in (True, False):
        assert design(single.factors, bias).dtype == np.float64
    found, due = (solve(cost(True), each, LAMBDA, RHO) for each in (single, exact))
    np.testing.assert_array_equal(found.factors, due.factors)
    np.testing.assert_array_equal(found.offsets, due.offsets)


def test_lines_are_joined_chosen_and_replaced_in_their_precision():
    one = Lines(np.arange(3, dtype=np.float32), np.ones((3, 2), np.float32), np.ones((3, 6), np.float32))
    more = Lines(np.array([7.0]), np.full((1, 2), 8.0), np.full((1, 6), 9.0))
    whole = one.joined(more)
    assert [part.dtype for part in whole] == [np.float32] * 3
    assert [part[-1].tolist() for part in whole] == [7.0, [8.0] * 2, [9.0] * 6]
    some = whole.some(np.array([3, 1]))
    assert (some.offsets.tolist(), some.covariances[:, 0].tolist()) == ([7.0, 1.0], [9.0, 1.0])
    put = whole.replaced(np.array([1]), more)
    assert (put.offsets.tolist(), whole.offsets.tolist()) == ([0.0, 7.0, 2.0, 7.0], [0.0, 1.0, 2.0, 7.0])
    bare = Lines(one.offsets, one.factors)
    for lines in (bare.joined(more), one.joined(more._replace(covariances=None)), bare.some(np.array([0]))):
        assert lines.covariances is None
    assert bare.replaced(np.array([1]), more).covariances is None


def test_rows_with_features_are_drawn_to_what_is_expected_of_them_as_more_entries_come():
    X, y, _ = ratings()
    F = np.random.default_rng(6).standard_normal((60, 2))
    y = y + F[X[:, 0]] @ [2.0, -1.0]
    options = {"regularization": LAMBDA, "tol": 1e-12, "bayesian": False}
    before, found = (model(**options).fit(X[:1000], y[:1000], row_features=F) for _ in range(2))
    found.partial_fit(X[1000:], y[1000:])
    expected = before.features_[0].expected
    assert np.abs(expected).max() > 0.5
    R, c = before.factors_[1], before.biases_.mean + before.biases_.cols
    B = np.column_stack([R, np.ones(len(R))])
    rho = before.shrinkage_.rows
    for i in np.unique(X[1000:, 0])[:5]:
        old, new = (X[part][X[part][:, 0] == i, 1] for part in (slice(1000), slice(1000, None)))
        values = y[1000:][X[1000:, 0] == i]
        x = np.append(before.factors_[0][i], before.biases_.rows[i])
        first, last = (np.array([LAMBDA * np.sqrt(n)] * 2 + [rho]) for n in (len(old), len(old) + len(new)))
        Q = B[old].T @ B[old]
        right = Q @ x + first * (x - expected[i]) + B[new].T @ (values - c[new]) + last * expected[i]
        due = np.linalg.solve(Q + B[new].T @ B[new] + np.diag(last), right)
        np.testing.assert_allclose(np.append(found.factors_[0][i], found.biases_.rows[i]), due, rtol=1e-7)


@pytest.mark.parametrize(("sweeps", "swept"), [(None, False), (0, False), (1, True), (4, True)])
def test_one_sweep_makes_factors_those_of_the_posterior(sweeps, swept):
    posterior = None if sweeps is None else SimpleNamespace(sweeps=sweeps)
    assert Streamed._swept.fget(SimpleNamespace(posterior_=posterior)) == swept


def test_what_is_known_of_lines_is_replaced_and_extended_by_their_axis():
    from rankfold.estimators.completion.axes import Axis

    rows, cols = np.arange(6.0).reshape(2, 3), 10 + np.arange(9.0).reshape(3, 3)
    known = Information(rows, cols, np.array([1.0, 2.0]), np.array([3.0, 4.0, 5.0]))
    longer = known.extended(Axis.COLUMN, 5)
    np.testing.assert_array_equal(longer.cols, np.vstack([cols, np.zeros((2, 3))]))
    assert longer.col_weights.tolist() == [3.0, 4.0, 5.0, 0.0, 0.0]
    assert (longer.rows is rows, longer.row_weights is known.row_weights) == (True, True)
    put = known.with_lines(Axis.ROW, np.array([1]), np.full((1, 3), 7.0), np.array([8.0]))
    assert (put.rows.tolist(), put.row_weights.tolist()) == ([[0.0, 1.0, 2.0], [7.0] * 3], [1.0, 8.0])
    assert (known.rows[1, 0], put.cols is cols, put.col_weights is known.col_weights) == (3.0, True, True)
    triangles, weights = known.of(Axis.COLUMN, np.array([2, 0]))
    assert (triangles[:, 0].tolist(), weights.tolist()) == ([16.0, 10.0], [5.0, 3.0])


def test_predictions_are_the_same_made_a_block_at_a_time(monkeypatch):
    rng, b, c = np.random.default_rng(6), np.arange(5.0), 10 * np.arange(4.0)
    L, R = (rng.standard_normal((d, 2)) for d in (5, 4))
    made = rf.MatrixCompletion()
    made.factors_, made.biases_, made.shape_ = (L, R), Offsets(0.5, b, c), (5, 4)
    rows, cols = np.array([0, 4, 2, -1, 3, 1, -1]), np.array([3, 1, -1, 2, 0, 0, -1])
    due = [0.5 + (i >= 0) * b[i] + (j >= 0) * c[j] + (min(i, j) >= 0) * L[i] @ R[j]
           for i, j in zip(rows, cols, strict=True)]  # fmt: skip
    for block in (3, 7, 100):
        monkeypatch.setattr(completed, "_BLOCK", block)
        np.testing.assert_allclose(made.predict_at(rows, cols), due, rtol=1e-12)


def test_the_fingerprint_of_a_stream_is_that_of_all_that_came():
    pairs, values = [(0, 0), (0, 1), (1, 0), (2, 1), (2, 2)], [1.0, 2.0, 3.0, 4.0, 5.0]
    first = rf.MatrixCompletion(1, regularization=1.0, bias=False).fit(pairs, values)
    parts = [([(1, 2)], [3.0]), ([(1, 2)], [4.0]), ([(1, 1)], [3.0]), ([(2, 2)], [3.0])]
    found = [deepcopy(first).partial_fit(*part) for part in parts]
    assert len({each.data_fingerprint_ for each in (first, *found)}) == 5
    assert deepcopy(first).partial_fit(*parts[0]).data_fingerprint_ == found[0].data_fingerprint_
    for each, ((i, j),) in zip(found, (pairs for pairs, _ in parts), strict=True):
        assert each._entries.values.tolist()[:5] == values
        assert (each._entries.rows[-1], each._entries.cols[-1], len(each._entries)) == (i, j, 6)
        assert each.counts_[0].sum() == each.counts_[1].sum() == len(each.observed_.indices) == 6


def test_a_loss_is_named_or_given():
    own = rf.Loss.huber(2.0)
    assert Streamed._loss.fget(SimpleNamespace(loss=own)) is own
    assert Streamed._loss.fget(SimpleNamespace(loss="poisson")) == rf.Loss.named("poisson")
