"""Rank 1 from line to line: exact on a tree, with a balanced scale in each part."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.solvers.spanned import spanned


def problem_of(rows, cols, values, shape):
    return rf.Problem.of(rf.Completion(rows, cols, values, shape), 1)


def test_a_connected_instance_is_solved():
    data = rf.data.random_completion((60, 80), 1, 2.5, 0, min_per_line=True)
    problem = rf.Problem.of(rf.Completion.from_triples(data), 1)
    L, R = problem.geometry.factors(spanned(problem, problem.start()))
    assert data.relative_error(L, R) < 1e-12


@pytest.mark.filterwarnings("ignore:.*no observed entry")
def test_each_part_has_a_scale_of_its_own():
    """Rows 0, 1 with columns 0, 1; row 2 with column 2; neither row 3 nor column 3 has a number but 0."""
    problem = problem_of([0, 0, 1, 2, 3], [0, 1, 1, 2, 3], [2.0, -6.0, 3.0, 100.0, 0.0], (4, 4))
    L, R = (factor[:, 0] for factor in problem.geometry.factors(spanned(problem, problem.start())))
    W = np.outer(L, R)
    assert_allclose(W[:2, :2], [[2.0, -6.0], [-1.0, 3.0]])
    assert W[2, 2] == pytest.approx(100.0)
    # The geometry gives all rows another scale than all columns, the same in each part.
    assert (L[2] / R[2]) ** 2 == pytest.approx(np.mean(L[:2] ** 2) / np.mean(R[:2] ** 2))
    assert (L[3] / R[3]) ** 2 == pytest.approx((L[2] / R[2]) ** 2)
    assert abs(W[3, 3]) == pytest.approx(1.0)


def test_single_precision_stays():
    data = rf.data.random_completion((30, 40), 1, 3.0, 0, min_per_line=True)
    problem = rf.Problem.of(rf.Completion.from_triples(data).astype(np.float32), 1)
    L, R = problem.geometry.factors(spanned(problem, problem.start()))
    assert L.dtype == R.dtype == np.float32
    assert data.relative_error(L, R) < 1e-4
