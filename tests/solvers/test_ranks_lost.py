"""Which singular values are lost in rounding, and what is taken back of lines that know nothing."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from dense import DenseCost
from rankfold.linalg import gram_factor
from rankfold.solvers import trimming
from rankfold.solvers.growth import collapsed, truncated

EPS = float(np.finfo(np.float64).eps)
COST = DenseCost((9, 7))


def point(geometry, values, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((d, len(values))))[0] for d in geometry.shape)
    return geometry.from_svd(U, np.asarray(values), V)


@pytest.mark.parametrize("geometry", [rf.FullRank, rf.Embedded, rf.SubspaceProjection])
@pytest.mark.parametrize(
    ("parts", "lost"), [((1.0, 0.5, 300 * EPS), 0), ((1.0, 0.5, 30 * EPS), 1), ((1.0, 40 * EPS, 30 * EPS), 2)]
)
def test_a_singular_value_of_less_than_a_hundred_roundings_of_the_largest_is_lost(geometry, parts, lost):
    for unit in (1e-5, 1e5):
        problem = rf.Problem(COST, geometry((9, 7), 3))
        assert collapsed(problem, point(problem.geometry, unit * np.array(parts))) == lost


@pytest.mark.parametrize(("least", "lost"), [(300 * EPS, 0), (30 * EPS, 1)])
@pytest.mark.parametrize("side", [0, 1])
def test_what_is_lost_is_known_of_factors_that_are_too_ill_conditioned_for_one_gram(least, lost, side):
    """Whose columns are all alike long, and nearly of lower rank."""
    rng = np.random.default_rng(0)
    U, V, Q = (np.linalg.qr(rng.standard_normal((d, 3)))[0] for d in (9, 7, 3))
    s = np.array([1.0, 0.5, least])
    factors = (U * s @ Q.T, V @ Q.T) if side == 0 else (U @ Q.T, V * s @ Q.T)
    assert gram_factor(factors[side]).graded
    problem = SimpleNamespace(geometry=SimpleNamespace(factors=lambda x: x))
    assert collapsed(problem, factors) == lost


def test_a_truncation_keeps_the_largest_pairs_in_arrays_of_its_own():
    problem = rf.Problem(COST, rf.Embedded((9, 7), 3))
    x = point(problem.geometry, [5.0, 2.0, 0.5])
    y = truncated(problem, x, 2)
    assert_allclose(y.s, [5.0, 2.0])
    assert_allclose(y.U * y.s @ y.V.T, x.U[:, :2] * x.s[:2] @ x.V[:, :2].T, atol=1e-14)
    assert all(part.base is None or part.flags.c_contiguous for part in y)
    assert [part.shape for part in y] == [(9, 2), (2,), (7, 2)]


@pytest.mark.filterwarnings("ignore:.*no observed entry")
def test_a_row_that_was_seen_only_in_columns_taken_back_after_it_gets_nothing():
    """Rows 0 and 1 have entries in column 0 alone, which is zero while these are taken back."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((8, 2)), rng.standard_normal((6, 2))
    i, j = (index.ravel() for index in np.indices((8, 6)))
    seen = (i > 1) | (j == 0)
    problem = rf.Problem.of(rf.Completion(i[seen], j[seen], (A @ B.T)[i, j][seen], (8, 6)), 2)
    back = trimming.taken_back(problem, problem.geometry.from_factors(A, B), np.array([0, 1]), np.array([0]))
    due = A @ B.T
    due[:2] = 0
    assert_allclose(back.G @ back.H.T, due, atol=1e-10)
