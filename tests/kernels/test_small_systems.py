"""The small systems of lines, by the kernels that solve them, beside NumPy's solution of each."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from rankfold.entries.ordering import sorted_entries
from rankfold.estimators.completion.bayes import variational
from rankfold.estimators.completion.bayes.beliefs import Beliefs
from rankfold.kernels import least_squares
from rankfold.kernels.pool import run

BOUNDS = np.array([0, 1, 1, 4], np.uint64)  # chunks of one line, of none, and of three


def of_chunks(kernel, *arguments):
    run(kernel, 3, 1.0, (BOUNDS, *arguments))


def test_cholesky_factors_and_what_they_solve():
    rng = np.random.default_rng(0)
    half, x = rng.standard_normal((4, 3, 5)), rng.standard_normal((4, 3))
    Q = half @ half.transpose(0, 2, 1)
    whole, solution = Q + 0.3 * np.eye(3), x.copy()
    of_chunks(least_squares.factorise, Q, 0.3)
    assert_allclose(np.tril(Q), np.linalg.cholesky(whole), rtol=1e-12)
    of_chunks(least_squares.substitute, Q, solution)
    assert_allclose(solution, np.linalg.solve(whole, x[..., None])[..., 0], rtol=1e-10)


def test_an_unknown_that_nothing_determines_is_zero():
    """A pivot that is rounding of its diagonal entry is none; a small one is."""
    Q = np.array([[[4.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1e-20]]] * 4)
    Q[1, 1, 1] += 4e-14
    Q[2] = 0.0
    x = np.array([[8.0, 5.0, 3e-20]] * 4)
    of_chunks(least_squares.factorise, Q, 0.0)
    of_chunks(least_squares.substitute, Q, x)
    assert_allclose(x[0], [2.0, 0.0, 3.0])
    assert_allclose(Q[1, 1, 1] ** 2, 4e-14, rtol=0.02)
    assert_array_equal(x[2], 0.0)


@pytest.mark.parametrize("more", [0.0, 4e-14])
def test_posteriors_of_what_neither_prior_nor_entries_determine(more):
    """Of two lines one has an entry, beside a row (1, 1) that is certain but for a variance of the second."""
    entries = sorted_entries(*np.zeros((2, 1), int), np.array([3.0]), (2, 1), np.uint32, 1)
    other = Beliefs(np.ones((1, 2)), np.array([[0.0, 0.0, more]]))
    flat = SimpleNamespace(mean=np.zeros(2), precision=np.zeros((2, 2)))
    found, error, logdet = variational.posteriors(entries, 0.5, other, False, 0.5, flat, np.zeros((2, 2)))
    if more:
        assert_allclose(found.covariances[0, 2], 0.5 / more, rtol=0.02)
        assert_allclose(logdet, -np.log(4 * more), rtol=1e-3)
    else:
        assert_allclose(found.means, [[2.5, 0.0], [0.0, 0.0]])
        assert_allclose(found.covariances, [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])
        assert_allclose([error, logdet], [0.5, -np.log(2)])
