"""Costs of distances beside n×n matrices: starts by scaling, curves and blocks of one factor or of two."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from costs.suite import close
from rankfold.costs.of_distances import downhill_semidefinite, semidefinite

PAIRS = np.array([[0, 1], [3, 0], [1, 2], [2, 3], [4, 1], [4, 2], [5, 0], [5, 4]])


def drawn(count, shape=(6, 2)):
    return list(np.random.default_rng(0).standard_normal((count, *shape)))


def some_pairs(n, seed=0):
    pairs = np.stack(np.triu_indices(n, 1), axis=1)
    rng = np.random.default_rng(seed)
    return pairs[rng.uniform(size=len(pairs)) < 0.4], rng


@pytest.mark.parametrize("features", [None, np.random.default_rng(1).standard_normal((6, 4))])
def test_curves_that_share_some_terms_are_those_of_copies(features):
    cost = rf.Distances(PAIRS, np.arange(1.0, 9.0), features=features)
    Y, dY, dZ = drawn(3, (cost.shape[0], 2))
    for Ls, Rs in (((Y, dY), (Y, dZ)), ((Y, dY), (dZ, dY)), ((Y,), (Y, dY)), ((Y, dY), (Y,)), ((Y,), (Y,))):
        apart = cost.polynomial([L.copy() for L in Ls], [R.copy() for R in Rs])
        close(cost.polynomial(Ls, Rs), apart)
        for t in (-0.6, 0.8):
            L, R = (sum(A * t**k for k, A in enumerate(As)) for As in (Ls, Rs))
            close(np.polynomial.polynomial.polyval(t, apart), cost.value(L, R))


def test_other_losses_have_no_polynomial_along_curves_of_any_degree():
    cost = rf.Distances(PAIRS, np.arange(1.0, 9.0), loss="huber")
    for terms in (1, 2, 3):
        with pytest.raises(TypeError, match="not quadratic in W"):
            cost.polynomial(drawn(terms), drawn(terms))


def test_blocks_of_one_factor_are_those_of_two_equal_ones():
    Y = drawn(1)[0]
    cost = rf.Distances(PAIRS, np.arange(1.0, 9.0), weights=np.arange(8.0))
    for one, two in zip(cost.line_blocks(Y, Y), cost.line_blocks(Y, Y.copy()), strict=True):
        close(one, two)


@pytest.mark.parametrize(("n", "rank"), [(9, 2), (28, 2), (29, 2), (50, 3)])
def test_a_start_is_classical_scaling_of_what_is_known(n, rank):
    """-½ J D J, of rank r and semidefinite; D is a_i + a_j where nothing is known, and 0 on its diagonal.

    Beyond a_i + a_j, what is known stands for as much of what is not.
    """
    pairs, rng = some_pairs(n)
    y = rng.uniform(0.01, 0.09, len(pairs))
    i, j = pairs.T
    known, where = np.zeros((n, n)), np.zeros((n, n))
    known[i, j] = known[j, i] = y
    where[i, j] = where[j, i] = 1
    a = known.sum(1) / where.sum(1) - y.mean() / 2
    sums = a[:, None] + a
    D = sums + n * (n - 1) / (2 * len(y)) * where * (known - sums)
    np.fill_diagonal(D, 0.0)
    J = np.eye(n) - 1 / n
    values, E = np.linalg.eigh(-J @ D @ J / 2)
    best = (E[:, -rank:] * values[-rank:]) @ E[:, -rank:].T
    weights = rng.uniform(1, 2, len(pairs))  # which count for nothing here
    U, s, V = rf.Distances(pairs, y, size=n, weights=weights).start(rank, seed=4)
    assert U is V
    assert values[-rank] > 0
    # the search for few eigenvectors of a large matrix stops at a residual of 1e-3
    assert_allclose((U * s) @ U.T, best, atol=(1e-10 if n <= 4 * rank + 20 else 1e-2) * values[-1])
    assert_allclose(s, values[::-1][:rank], rtol=1e-5)


def test_what_no_points_explain_is_left_out_of_a_start():
    """Two points as far from each other as 10 cannot be both as near as 1 to a third one."""
    U, s, _ = rf.Distances([[0, 1], [0, 2], [1, 2]], [100.0, 1.0, 1.0]).start(2)
    assert_allclose(s, [50.0, 50.0 * 1e-8], rtol=1e-6)
    assert_allclose(np.abs(U[:, 0]), [0.5**0.5, 0.5**0.5, 0.0], atol=1e-9)


def test_a_start_depends_on_the_seed_alone():
    pairs, rng = some_pairs(60)
    cost = rf.Distances(pairs, rng.uniform(1, 9, len(pairs)), size=60)
    one, again, other = (cost.start(2, seed)[0] for seed in (3, 3, 4))
    assert_array_equal(one, again)
    assert (one != other).any()


def test_the_nearest_semidefinite_matrix_is_that_of_the_symmetric_part():
    L, R = drawn(2, (7, 3))
    values, E = np.linalg.eigh((L @ R.T + R @ L.T) / 2)
    assert np.sum(values > 1e-9) == 3
    U, s, V = semidefinite(L, R, 2, seed=0)
    assert U is V
    close(s, values[::-1][:2])
    close((U * s) @ U.T, (E[:, -2:] * values[-2:]) @ E[:, -2:].T)
    more = semidefinite(L, R, 5, seed=0)[1]
    close(more[:3], values[::-1][:3])
    assert_allclose(more[3:], 1e-8 * values[-1], rtol=1e-6)


def test_a_start_down_the_gradient_is_the_semidefinite_part_of_twice_the_rank():
    """At W = 0 all losses have the slopes of their data, of both signs."""
    n, pairs = 6, PAIRS
    y = np.array([0.0, 3, 5, 0, 1, 4, 0, 2])
    cost = rf.Distances(pairs, y, loss="poisson")
    U, s, V = downhill_semidefinite(cost, 3, seed=1)
    slopes = (1 - y) / len(y)  # of exp(D) − y D at D = 0
    S = np.zeros((n, n))
    for (i, j), slope in zip(pairs, slopes, strict=True):
        x = np.zeros(n)
        x[i], x[j] = 1, -1
        S += slope * np.outer(x, x)
    values, E = np.linalg.eigh(-S)
    assert U is V
    W = (U * s) @ U.T
    close(W / np.linalg.norm(W), _positive(values, E, 3))
    assert_array_equal(cost.start(3, seed=1)[0], U)


def _positive(values, E, rank):
    W = (E[:, -rank:] * np.maximum(values[-rank:], 0)) @ E[:, -rank:].T
    return W / np.linalg.norm(W)
