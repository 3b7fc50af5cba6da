"""Learning on pairs: against the dense function of W and against completion, on every geometry."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse

import rankfold as rf
from costs.losses import FORMULAS, named
from costs.suite import agrees_with_dense, close, factors


def draw(loss="square", seed=0, n=40, sizes=(8, 6), entities=(12, 10), density=None, **options):
    """Entities with features, pairs of them with repeats, and the same cost written densely in W."""
    rng = np.random.default_rng(seed)
    X, Z = (rng.standard_normal((e, d)) / d**0.5 for e, d in zip(entities, sizes, strict=True))
    if density is not None:
        X, Z = (A * (rng.uniform(size=A.shape) < density) for A in (X, Z))
    pairs = np.stack([rng.integers(0, e, n) for e in entities], axis=1)
    y = rng.integers(0, 2, n).astype(float)
    weights = rng.uniform(0, 2, n) if options.pop("weighted", False) else None
    forms = (sparse.csr_array(X), sparse.csc_array(Z)) if density is not None else (X, Z)
    cost = rf.Pairs(*forms, y, named(loss), pairs, weights, **options)
    if options.get("linear"):
        X, Z = (np.hstack([A, np.ones((len(A), 1))]) for A in (X, Z))
    x, z, t = torch.from_numpy(X[pairs[:, 0]]), torch.from_numpy(Z[pairs[:, 1]]), torch.from_numpy(y)
    w = torch.ones(n, dtype=torch.float64) if weights is None else torch.from_numpy(weights)
    return cost, lambda W: (w * FORMULAS[loss](torch.einsum("pi,ij,pj->p", x, W, z), t)).mean()


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 30),
    sizes=st.tuples(st.integers(2, 9), st.integers(2, 9)),
    entities=st.tuples(st.integers(1, 12), st.integers(1, 12)),
    density=st.sampled_from([None, 0.5]),
)
def test_any_shape(seed, n, sizes, entities, density):
    agrees_with_dense(*draw("logistic", seed, n, sizes, entities, density), rank=2)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6))
def test_one_hot_features_are_completion(seed):
    rng = np.random.default_rng(seed)
    shape = d1, d2 = tuple(int(d) for d in rng.integers(2, 30, 2))
    where = np.unique(np.concatenate([rng.integers(0, d1 * d2, 40), np.arange(d1) * d2, np.arange(d2)]))
    pairs, y = np.stack([where // d2, where % d2], axis=1), rng.standard_normal(where.size)
    plain = rf.Completion(*pairs.T, y, shape)
    arrays = factors(shape, 2, seed)
    for X, Z in ((np.eye(d1), np.eye(d2)), (sparse.eye_array(d1), sparse.eye_array(d2))):
        cost = rf.Pairs(X, Z, y, pairs=pairs)
        for one, two in zip(
            [*cost.evaluate(*arrays[:2]), *cost.derivative(*arrays), cost.value_at_zero],
            [*plain.evaluate(*arrays[:2]), *plain.derivative(*arrays), plain.value_at_zero],
            strict=True,
        ):
            close(one, two, 1e-12)


def test_rows_meet_rows_without_pairs():
    rng = np.random.default_rng(0)
    X, Z, y = rng.standard_normal((20, 4)), rng.standard_normal((20, 3)), rng.standard_normal(20)
    L, R = factors((4, 3), 2, count=1)
    expected = np.mean((np.einsum("pi,ij,pj->p", X, L @ R.T, Z) - y) ** 2)
    close(rf.Pairs(X, Z, y).value(L, R), expected)


def test_entities_without_a_pair_change_nothing():
    rng = np.random.default_rng(0)
    X, Z, y = rng.standard_normal((9, 4)), rng.standard_normal((8, 3)), rng.standard_normal(3)
    L, R = factors((4, 3), 2, count=1)
    some = rf.Pairs(X, Z, y, pairs=[[8, 1], [3, 1], [8, 7]])
    few = rf.Pairs(X[[3, 8]], Z[[1, 7]], y, pairs=[[1, 0], [0, 0], [1, 1]])
    close(some.evaluate(L, R).f_L, few.evaluate(L, R).f_L)


def test_linear_terms_are_learned():
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((60, 5)), rng.standard_normal((50, 4))
    W = np.outer(rng.standard_normal(5), rng.standard_normal(4))
    a, b, c = rng.standard_normal(5), rng.standard_normal(4), 2.5
    pairs = np.stack([rng.integers(0, 60, 900), rng.integers(0, 50, 900)], axis=1)
    y = ((X @ W @ Z.T) + (X @ a)[:, None] + Z @ b + c)[pairs[:, 0], pairs[:, 1]]
    cost = rf.Pairs(X, Z, y, pairs=pairs, linear=True)
    geometry = rf.FullRank(cost.shape, rank=3)  # that of W, and two more
    result = rf.minimize(rf.Problem(cost, geometry), rf.TrustRegion(), tolerance=1e-20)
    parts = cost.linear_terms(*result.factors)
    for found, true in ((parts.L @ parts.R.T, W), (parts.a, a), (parts.b, b), (parts.c, c)):
        assert_allclose(found, true, atol=1e-7)


def test_errors():
    X, Z, y = np.ones((3, 2)), np.ones((4, 2)), np.ones(3)
    for match, arguments in {
        "X must be a matrix with a row per entity": (np.ones(3), Z, y),
        r"Z must be a matrix with a row per entity and a column per feature; got \(4, 0\)": (X, Z[:, :0], y),
        "Z has entries that are NaN": (X, np.full((4, 2), np.nan), y),
        "X must hold real numbers": (X.astype(complex), Z, y),
        "without pairs, X, Z and y must have one length; got 3, 4 and 3": (X, Z, y),
        r"pairs\[1, 1\] is 4, out of range: must be from 0 to 3, a row of Z": (
            X, Z, y, "square", [[0, 0], [1, 4], [0, 0]],
        ),
        r"pairs must be integers of shape \(3, 2\)": (X, Z, y, "square", [[0, 0]]),
        r"y\[2\] is nan; all must be finite": (X, Z, [1, 2, np.nan], "square", [[0, 0]] * 3),
        "y must be a vector": (X, Z, np.ones((3, 1))),
        "but the logistic loss wants 0 or 1": (X, Z[:3], [0, 1, 2], "logistic"),
    }.items():  # fmt: skip
        with pytest.raises((ValueError, TypeError), match=match):
            rf.Pairs(*arguments)
    cost = rf.Pairs(X, Z[:3], y)
    with pytest.raises(ValueError, match="no linear terms"):
        cost.linear_terms(X, Z)
    with pytest.raises(ValueError, match=r"R must have shape \(2, r\) .* got .*\(3, 1\)"):
        cost.evaluate(np.ones((2, 1)), np.ones((3, 1)))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"y": []}, ValueError, r"y must be a vector of numbers, one per pair; got shape \(0,\)"),
        ({"y": np.ones(2, complex)}, ValueError, "y must be a vector of numbers.* of complex128"),
        ({"y": [1.0, 1e70]}, ValueError, r"y\[1\] is 1e\+70, and in float64"),
        ({"y": [1e-80, 0.0]}, ValueError, "y holds no number beyond 1e-80"),
        ({"y": [-np.inf, 0.0]}, ValueError, r"y\[0\] is -inf; all must be finite: leave unknown pairs out"),
        ({"y": np.ma.MaskedArray([1.0, 2.0], [False, True])}, ValueError, r"y\[1\] is masked"),
        (
            {"pairs": [[0, 0], [-1, 3]]},
            ValueError,
            r"pairs\[1, 0\] is -1, out of range: .* 0 to 2, a row of X",
        ),
        ({"pairs": [[3, 0], [0, 0]]}, ValueError, r"pairs\[0, 0\] is 3, out of range: .* 0 to 2, a row of X"),
        ({"pairs": [[0, 3], [0, 4]]}, ValueError, r"pairs\[1, 1\] is 4, out of range: .* 0 to 3, a row of Z"),
        ({"pairs": [[0.0, 1.0], [0.0, 0.0]]}, ValueError, r"integers of shape \(2, 2\).* of float64"),
        ({"pairs": [[0, 1, 1], [0, 0, 0]]}, ValueError, r"one pair for each outcome; got shape \(2, 3\)"),
        (
            {"pairs": np.ma.MaskedArray([[0, 0]] * 2, [[0, 0], [1, 0]])},
            ValueError,
            r"pairs\[1, 0\] is masked",
        ),
        ({"pairs": None}, ValueError, "must have one length; got 3, 4 and 2 rows"),
        ({"pairs": None, "Z": np.ones((3, 2))}, ValueError, "must have one length; got 3, 3 and 2 rows"),
        ({"weights": [1.0, -1.0]}, ValueError, r"weights\[1\] is -1.0"),
    ],
)
def test_pairs_that_are_refused(change, error, words):
    right = {"X": np.ones((3, 2)), "Z": np.ones((4, 2)), "y": [1, 0], "pairs": np.uint8([[2, 3], [0, 0]])}
    L, R = np.ones((2, 1)), np.array([[1.0], [2.0]])
    close(rf.Pairs(**right).value(L, R), np.mean((6 - np.array([1, 0])) ** 2))
    with pytest.raises(error, match=words):
        rf.Pairs(**right | change)


def test_only_features_of_entities_that_meet_are_held():
    X, Z = np.arange(8.0).reshape(4, 2), np.arange(9.0).reshape(3, 3)
    cost = rf.Pairs(X, Z, [1.0, 2.0, 3.0], pairs=[[3, 0], [1, 2], [3, 0]])
    assert cost.X.matrix.tolist() == X[[1, 3]].tolist()
    assert cost.Z.matrix.tolist() == Z[[0, 2]].tolist()
    assert (cost.core.shape, cost.core.observed.size) == ((2, 2), 3)
    all_met = rf.Pairs(X, Z, [1.0] * 4, pairs=[[0, 0], [1, 1], [2, 2], [3, 0]])
    assert all_met.X.matrix is X
    assert not rf.Pairs(X, Z, [1.0] * 3, pairs=[[3, 0], [1, 2], [3, 0]]).linear


def test_linear_terms_of_given_factors():
    X, Z = np.random.default_rng(0).standard_normal((2, 6, 3))
    cost = rf.Pairs(X, Z, np.ones(6), linear=True)
    L, R = factors(cost.shape, 2, count=1)
    parts, W = cost.linear_terms(L, R), L @ R.T
    assert cost.shape == (4, 4)
    for found, due in (
        (parts.L @ parts.R.T, W[:3, :3]),
        (parts.a, W[:3, 3]),
        (parts.b, W[3, :3]),
        (parts.c, W[3, 3]),
    ):
        close(found, due)
    assert type(parts.c) is float
    predicted = np.einsum("pi,ij,pj->p", X, W[:3, :3], Z) + X @ parts.a + Z @ parts.b + parts.c
    close(cost.value(L, R), np.mean((predicted - 1) ** 2))
