"""The objective of offsets and factors, and its best lines, against both written densely."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.entries.observed import Observed
from rankfold.estimators.completion.joint import LIFT, Joint, Shrinkage
from rankfold.estimators.completion.side.expecting import Expecting, Ridges

SHAPE, WEIGHT, SHRINKAGE = (7, 5), 0.7, Shrinkage(2.0, 0.6)
RNG = np.random.default_rng(3)
KNOWN = RNG.random(SHAPE) < 0.6
KNOWN[2] = [True, False, False, False, False]  # a row with one entry
KNOWN[4] = False  # and one with none
Y = np.where(KNOWN, 1.0 + 2.0 * RNG.standard_normal(SHAPE), 0.0)
WEIGHTS = np.where(KNOWN, RNG.uniform(0.2, 2.0, SHAPE), 0.0)
SIZE = int(KNOWN.sum())
BOTH = pytest.mark.parametrize("bias", [True, False])


def joint_of(bias, loss="square", dtype=np.float64):
    rows, cols = np.nonzero(KNOWN)
    weights = WEIGHTS[KNOWN].astype(dtype)
    cost = rf.Completion.from_observed(
        Observed.from_triples(rows, cols, Y[KNOWN].astype(dtype), SHAPE, weights, warn_of_empty=False),
        rf.Loss.named(loss),
    )
    return Joint.of(cost, WEIGHT, SHRINKAGE if bias else None)


ROOTS = [np.sqrt(np.maximum(WEIGHTS.sum(axis=k), 1.0)) for k in (1, 0)]


def point(bias, seed=0, rank=2):
    rng = np.random.default_rng(seed)
    return tuple(rng.standard_normal((d, rank + bias)) for d in SHAPE)


def predicted(G, H, bias):
    if not bias:
        return G @ H.T
    return G[:, :-1] @ H[:, :-1].T + G[:, -1:] + H[:, -1]


def charged(G, H, bias):
    rows, cols = ROOTS
    L, R = (G[:, :-1], H[:, :-1]) if bias else (G, H)
    found = WEIGHT * (rows @ (L**2).sum(axis=1) + cols @ (R**2).sum(axis=1))
    if bias:
        found += SHRINKAGE.rows * np.sum((G[:, -1] - G[:, -1].mean()) ** 2)
        found += SHRINKAGE.cols * np.sum(H[:, -1] ** 2)
    return found


def best_lines(side, X, B, given, bias):
    """The best lines of a side, line by line, in the place of X."""
    known, y, w, ridge, rho = side
    found = np.zeros(X.shape)
    for i, here in enumerate(known):
        charges, pull = np.full(X.shape[1], WEIGHT * ridge[i]), np.zeros(X.shape[1])
        if bias:
            charges[-1] = rho
        if bias and len(X) == SHAPE[0]:  # rows are drawn to their mean
            pull[-1] = rho * X[:, -1].mean()
        A = B[here]
        Q = A.T @ (w[i, here, None] * A) + np.diag(charges)
        found[i] = np.linalg.solve(Q, A.T @ (w[i, here] * (y[i, here] - given[here])) + pull)
    return found


def best_rows(G, H, bias):
    side = KNOWN, Y, WEIGHTS, ROOTS[0], SHRINKAGE.rows
    B = np.column_stack([H[:, :-1], np.ones(len(H))]) if bias else H
    return best_lines(side, G, B, H[:, -1] if bias else np.zeros(len(H)), bias)


def best_cols(G, H, bias):
    side = KNOWN.T, Y.T, WEIGHTS.T, ROOTS[1], SHRINKAGE.cols
    B = np.column_stack([G[:, :-1], np.ones(len(G))]) if bias else G
    return best_lines(side, H, B, G[:, -1] if bias else np.zeros(len(G)), bias)


def centred(G, H, bias):
    if bias:
        G, H = G.copy(), H.copy()
        middle = H[:, -1].mean()
        G[:, -1] += middle
        H[:, -1] -= middle
    return G, H


def swept(G, H, bias):
    G = best_rows(G, H, bias)
    return centred(G, best_cols(G, H, bias), bias)


def assert_same(found, due):
    for one, two in zip(found, due, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-10)


@BOTH
@pytest.mark.parametrize("loss", ["square", "huber"])
def test_the_value_is_that_of_the_entries_and_of_what_lines_are_charged(bias, loss):
    joint, (G, H) = joint_of(bias, loss), point(bias)
    losses = rf.Loss.named(loss)(predicted(G, H, bias)[KNOWN], Y[KNOWN])[0]
    worth = WEIGHTS[KNOWN]
    due = (worth @ losses + charged(G, H, bias)) / SIZE
    assert joint.value(G, H) == pytest.approx(due, rel=1e-12)
    assert joint.evaluate(G, H).value == pytest.approx(due, rel=1e-12)
    constant = np.average(Y[KNOWN], weights=worth) if bias and loss == "square" else 0.0
    losses = rf.Loss.named(loss)(np.full(SIZE, constant), Y[KNOWN])[0]
    assert joint.value_at_zero == pytest.approx(worth @ losses / SIZE, rel=1e-12)


def test_nothing_is_charged_where_nothing_is_said():
    cost = joint_of(False).completion
    for joint in (Joint.of(cost), Joint(cost, (np.ones(7), np.ones(5)))):
        assert joint.weight == 0.0
        assert joint.shrinkage is None


@BOTH
def test_a_sweep_finds_the_best_rows_and_then_the_best_columns_for_them(bias):
    joint, (G, H) = joint_of(bias), point(bias)
    assert_same(joint.swept(G, H), swept(G, H, bias))


@BOTH
def test_a_point_of_some_rows_or_some_columns_is_completed_by_the_other_factor(bias):
    joint, (G, H) = joint_of(bias), point(bias, seed=1)
    middle = np.zeros(G.shape)
    if bias:
        middle[:, -1] = G[:3, -1].mean()
    assert_same(joint.completed(G[:3], H), swept(middle, H, bias))
    assert_same(joint.completed(G, H), swept(G, H, bias))
    cols = best_cols(G, np.zeros(H.shape), bias)
    assert_same(joint.completed(G, H[:2]), swept(*centred(G, cols, bias), bias))


@BOTH
def test_a_point_of_another_loss_is_completed_from_where_its_lines_are(bias):
    """Where one Newton step is no minimum, it matters from where."""
    joint, (G, H) = joint_of(bias, loss="huber"), point(bias, seed=2)
    middle = np.zeros(G.shape)
    if bias:
        middle[:, -1] = G[:3, -1].mean()
    assert_same(joint.completed(G[:3], H), joint.swept(middle, H))
    assert_same(joint.completed(G, H), joint.swept(G, H))
    assert not np.allclose(joint.swept(middle, H)[0], joint.swept(G, H)[0], rtol=1e-3)


def test_moving_the_mean_of_columns_to_rows_is_as_exact_in_single_precision():
    joint = joint_of(True, dtype=np.float32)
    assert joint.constant()[0].dtype == np.float32
    G, H = (X.astype(np.float32) for X in point(True))
    H = H.copy()
    H[:, -1] = [2.0**24, 1.0, 1.0, 3.0, -(2.0**24)]
    moved, rest = joint.centred(G, H)
    np.testing.assert_allclose(moved[:, -1], G[:, -1] + 1.0, rtol=1e-6)
    np.testing.assert_array_equal(moved[:, :-1], G[:, :-1])
    assert (moved.dtype, rest.dtype) == (np.float32, np.float32)
    assert (rest[1, -1], H[1, -1]) == (0.0, 1.0)
    (_, _), (mean, b, c) = joint.split(G, H)
    assert (b.dtype, c.dtype) == (np.float64, np.float64)
    assert mean == pytest.approx(G[:, -1].astype(float).mean(), rel=1e-12)
    for found in (*joint._charges((G, H)), *joint.balanced(G, H)):
        assert found.dtype == np.float32


def traits(side, seed=5):
    counts = WEIGHTS.sum(axis=1 - side)
    Z = np.random.default_rng(seed).standard_normal((SHAPE[side], 2))
    return Expecting(Z, counts, Ridges(1.3, 0.4))


@BOTH
@pytest.mark.parametrize("side", [0, 1])
def test_a_side_of_which_something_is_expected_is_charged_for_what_is_off_and_the_other_as_ever(side, bias):
    expecting = tuple(traits(k) if k == side else None for k in (0, 1))
    joint, x = replace(joint_of(bias), expecting=expecting), point(bias)
    own = expecting[side]
    ridges = joint.ridges(side, x[side].shape[1])
    due = np.sum(ridges * own.off(x[side], bias) * x[side])
    there = [X * (k != side) for k, X in enumerate(x)]  # what the other side is charged
    fit = WEIGHTS[KNOWN] @ (predicted(*x, bias) - Y)[KNOWN] ** 2
    assert joint.value(*x) == pytest.approx((fit + due + charged(*there, bias)) / SIZE, rel=1e-10)
    assert joint.balanced(*x)[0] is x[0]
    found = joint.swept(*x)
    assert joint.value(*found) < joint.value(*x)
    if side:  # rows are drawn to their mean as ever
        np.testing.assert_allclose(found[0][:, :-1], best_rows(*x, bias)[:, :-1], rtol=1e-8, atol=1e-10)


@BOTH
@pytest.mark.parametrize("side", [0, 1])
def test_derivatives_beside_what_is_expected_are_those_of_the_values(side, bias):
    expecting = tuple(traits(k) if k == side else None for k in (0, 1))
    joint, x, way = replace(joint_of(bias), expecting=expecting), point(bias), point(bias, seed=7)
    ahead, behind = (joint.value(*(X + t * d for X, d in zip(x, way, strict=True))) for t in (1e-5, -1e-5))
    _, *partials = joint.evaluate(*x)
    slope = sum((f * d).sum() for f, d in zip(partials, way, strict=True))
    assert (ahead - behind) / 2e-5 == pytest.approx(slope, rel=1e-6)


def test_directions_are_charged_least_and_small_ones_lifted_beside_the_largest():
    joint = joint_of(False)
    L, R = point(False)
    L[:, 1] *= 1e-5
    scales = [root**0.5 for root in ROOTS]
    for least in (0.0, LIFT):
        A, B = joint.balanced(L, R, least)
        U, s, Vt = np.linalg.svd(scales[0][:, None] * L @ R.T * scales[1])
        kept = np.maximum(s[:2], least * s[0])
        W = U[:, :2] * kept @ Vt[:2]
        np.testing.assert_allclose(scales[0][:, None] * A @ B.T * scales[1], W, atol=1e-10 * s[0])
        sizes = [root @ X**2 for root, X in zip(ROOTS, (A, B), strict=True)]
        np.testing.assert_allclose(sizes, [kept, kept], rtol=1e-6)


def test_a_start_that_never_fits_better_is_given_up_after_sixty_halvings():
    asked = []
    fit = SimpleNamespace(value=lambda L, R: asked.append(L @ R.T) or np.nan, value_at_zero=0.0)
    joint = joint_of(False)
    object.__setattr__(joint, "completion", fit)
    L, R = point(False)
    none = [np.zeros((d, 0)) for d in SHAPE]
    found = joint._tamed(L, R, *none)
    assert len(asked) == 60
    np.testing.assert_allclose(found[0] @ found[1].T, L @ R.T * 2.0**-60, atol=1e-12 * 2.0**-60)


def test_a_start_without_offsets_shows_the_directions_of_the_values_themselves():
    """Of a loss whose slope at 0 is not a multiple of the values, too."""
    joint, scales = joint_of(False, loss="huber"), [root**0.5 for root in ROOTS]
    slopes = np.where(KNOWN, -rf.Loss.named("huber")(np.zeros(SHAPE), Y)[1] / 2 * WEIGHTS, 0.0)
    U, s, Vt = np.linalg.svd(slopes / np.outer(*scales))
    largest, (L, R) = joint.started(*joint.constant(), 1, 0)
    assert largest == pytest.approx(s[0], rel=1e-8)
    left = max(s[0] - WEIGHT, LIFT * s[0])
    np.testing.assert_allclose(L @ R.T, left * np.outer(U[:, 0], Vt[0]) / np.outer(*scales), atol=1e-7)
