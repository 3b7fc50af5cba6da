"""Costs of comparisons: what they are in special cases, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from costs.suite import close, factors

PAIRS = np.array([[0, 0], [0, 1], [1, 2], [1, 0], [2, 1]])


def features(seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((3, 4)), rng.standard_normal((3, 5))


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_comparisons_within_a_row_are_pairs_with_differences_of_features(loss):
    X, Z = features()
    better, worse = np.array([0, 2, 1]), np.array([1, 3, 0])
    cost = rf.RankedPairs(X, Z, PAIRS, better, worse, loss)
    differences = Z[PAIRS[better, 1]] - Z[PAIRS[worse, 1]]
    plain = rf.Pairs(X[PAIRS[better, 0]], differences, np.ones(3), loss)
    arrays = factors(cost.shape, 2)
    close(cost.evaluate(*arrays[:2]).value, plain.evaluate(*arrays[:2]).value)
    for one, two in zip(cost.derivative(*arrays), plain.derivative(*arrays), strict=True):
        close(one, two)


def test_triplets_are_comparisons_in_a_row_and_scores_are_computed_once():
    X, Z = features()
    cost = rf.RankedPairs.from_triplets(
        X, Z, [[0, 0, 1], [0, 0, 2], [1, 2, 0], [0, 0, 1]], weights=[1, 2, 3, 4.0]
    )
    assert cost.pairs_compared == 5
    assert cost.comparisons == 4
    L, R = factors(cost.shape, 2, count=1)
    s = X @ L @ R.T @ Z.T
    short = np.array([s[0, 0] - s[0, 1], s[0, 0] - s[0, 2], s[1, 2] - s[1, 0], s[0, 0] - s[0, 1]])
    close(cost.value(L, R), np.mean([1, 2, 3, 4] * np.logaddexp(0, -short)))
    close(cost.value_at_zero, 2.5 * np.log(2))


def test_a_constant_in_all_scores_is_of_no_matter():
    X, Z = features()
    cost = rf.RankedPairs(X, Z, PAIRS, [0, 2], [1, 4], linear=True)
    L, R = factors(cost.shape, 2, count=1)
    last = np.eye(len(R))[:, -1:]
    S_last, _ = cost.gradient_products(L, R)(last, np.zeros((len(L), 1)))
    assert np.abs(S_last[:-1]).max() > 0.01
    assert_allclose(S_last[-1], 0.0, atol=1e-15)  # ∂f/∂c
    parts = cost.linear_terms(L, R)
    scores = np.einsum("pi,ij,pj->p", X[PAIRS[:, 0]], parts.L @ parts.R.T, Z[PAIRS[:, 1]])
    scores += X[PAIRS[:, 0]] @ parts.a + Z[PAIRS[:, 1]] @ parts.b + parts.c
    expected = np.logaddexp(0, scores[[1, 4]] - scores[[0, 2]]).mean()
    close(cost.value(L, R), expected)


def test_blocks_of_entries_change_nothing(monkeypatch):
    X, Z = features()
    cost = rf.RankedPairs(X, Z, PAIRS, [0, 2], [1, 4])
    L, R = factors(cost.shape, 2, count=1)
    whole = cost.evaluate(L, R)
    monkeypatch.setattr("rankfold.costs.ranking._BLOCK", 2)
    close(cost.evaluate(L, R).f_L, whole.f_L, 1e-14)


def test_fingerprints_tell_comparisons_apart():
    X, Z = features()
    first = rf.RankedPairs(X, Z, PAIRS, [0, 2], [1, 4]).fingerprint()
    others = [
        rf.RankedPairs(X, Z, PAIRS, [1, 2], [0, 4]),
        rf.RankedPairs(X, Z, PAIRS, [0, 2], [1, 4], "squared_hinge"),
        rf.RankedPairs(X, Z, PAIRS, [0, 2], [1, 4], weights=[1.0, 1.0]),
        rf.RankedPairs(X, Z, PAIRS[::-1], [0, 2], [1, 4]),
    ]
    assert first == rf.RankedPairs(X, Z, PAIRS, [0, 2], [1, 4]).fingerprint()
    assert all(other.fingerprint() != first for other in others)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"better": [0, 5]}, r"better\[1\] is 5, out of range: must be from 0 to 4"),
        ({"worse": [-1, 0]}, r"worse\[0\] is -1, out of range"),
        ({"better": [0]}, "better and worse must name two pairs for each comparison.*got 1 and 2"),
        ({"better": [], "worse": []}, "one at least; got 0 and 0"),
        ({"weights": [1.0, -1.0]}, "weights must be 2 numbers of zero or more"),
        ({"weights": [1.0]}, "weights must be 2 numbers"),
        ({"pairs": [[0, 3]] * 5}, r"pairs\[0, 1\] is 3, out of range"),
        ({"loss": "other"}, "loss must be one of"),
    ],
)
def test_errors_name_what_is_wrong(change, message):
    X, Z = features()
    right = {"pairs": PAIRS, "better": [0, 2], "worse": [1, 4]}
    rf.RankedPairs(X, Z, **right)
    with pytest.raises(ValueError, match=message):
        rf.RankedPairs(X, Z, **right | change)


def test_a_comparison_of_no_weight_counts_in_the_mean_only():
    X, Z = features()
    L, R = factors((4, 5), 2, count=1)
    both = rf.RankedPairs(X, Z, PAIRS, [0, 2], [1, 4], weights=[3.0, 0.0])
    close(both.value(L, R), 1.5 * rf.RankedPairs(X, Z, PAIRS, [0], [1]).value(L, R))


@pytest.mark.parametrize("triplets", [[[0, 1]], [0, 1, 2], [[0.0, 1.0, 2.0]]])
def test_triplets_are_three_integers(triplets):
    with pytest.raises(ValueError, match=r"triplets must be integers of shape \(n, 3\)"):
        rf.RankedPairs.from_triplets(*features(), triplets)


@pytest.mark.parametrize("pairs", [[], np.zeros((0, 2), int)])
def test_without_pairs_there_is_nothing_to_compare(pairs):
    with pytest.raises(ValueError, match="pairs is empty: give those that are compared"):
        rf.RankedPairs(*features(), pairs, [], [])


@pytest.mark.parametrize(("loss", "nonnegative"), [("square", True), ("poisson", False), ("logistic", True)])
def test_what_a_cost_of_comparisons_is_known_for(loss, nonnegative):
    cost = rf.RankedPairs(*features(), PAIRS, [0, 2], [1, 4], rf.Loss.named(loss))
    assert (cost.quadratic, cost.nonnegative, cost.has_line_blocks) == (False, nonnegative, False)
    assert cost.core.on("cpu") is cost.core
    assert cost.value_at_zero == rf.Loss.named(loss)(0.0, 1.0)[0]


def test_scores_of_single_precision_are_added_up_in_double():
    L, R = np.float32([[1e8, 1, -1e8]]), np.ones((2, 3), np.float32)
    R[1] = 0
    cost = rf.RankedPairs([[1.0]], np.eye(2), [[0, 0], [0, 1]], [0], [1], "square")
    assert cost.value(L, R) == 0.0  # the scores are 1 and 0
    assert cost.evaluate(L, R).f_L.dtype == np.float32


def test_pairs_in_any_order_and_more_than_once_are_those_of_their_rows():
    """The comparisons name pairs as they were given."""
    X, Z = features()
    where = np.array([[2, 1], [0, 2], [2, 0], [0, 2], [1, 1], [0, 0]])
    better, worse = np.array([0, 3, 5, 1, 4]), np.array([1, 4, 2, 2, 0])
    cost = rf.RankedPairs(X, Z, where, better, worse, "square", [1.0, 2, 3, 4, 5])
    L, R, dL, dR = factors(cost.shape, 2)
    A, B, dA, dB = X @ L, Z @ R, X @ dL, Z @ dR

    def differences(W):
        s = W[tuple(where.T)]
        return s[better] - s[worse]

    weights = np.array([1.0, 2, 3, 4, 5]) / 5
    gap, change = differences(A @ B.T) - 1, differences(dA @ B.T + A @ dB.T)
    close(cost.value(L, R), weights @ gap**2)
    S, dS = np.zeros((2, 3, 3))
    for M, slopes in ((S, 2 * weights * gap), (dS, 2 * weights * change)):
        np.add.at(M, tuple(where[better].T), slopes)
        np.subtract.at(M, tuple(where[worse].T), slopes)
    value, f_L, f_R = cost.evaluate(L, R)
    close(value, weights @ gap**2)
    close(f_L, X.T @ S @ B)
    close(f_R, Z.T @ S.T @ A)
    df_L, df_R = cost.derivative(L, R, dL, dR)
    close(df_L, X.T @ (dS @ B + S @ dB))
    close(df_R, Z.T @ (dS.T @ A + S.T @ dA))
