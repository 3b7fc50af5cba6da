"""Conditional means and covariances of a Gaussian, against the textbook's formula on dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankfold.kernels.conditional import fill

D, R = 7, 2
RNG = np.random.default_rng(0)
L, PSI = RNG.standard_normal((D, R)), RNG.uniform(0.5, 2.0, D)
SIGMA = L @ L.T + np.diag(PSI)
TABLE = RNG.standard_normal((6, D))
# Rows without holes, with fewer than the rank, as many, one more, all but one, and nothing known at all.
KNOWN = np.ones((6, D), dtype=bool)
for row, holes in enumerate([0, 1, 2, 3, 6, 7]):
    KNOWN[row, RNG.permutation(D)[:holes]] = False


def by_the_textbook():
    table, total = TABLE.copy(), np.zeros((D, D))
    for row, known in zip(table, KNOWN, strict=True):
        gain = SIGMA[np.ix_(~known, known)] @ np.linalg.inv(SIGMA[np.ix_(known, known)])
        row[~known] = gain @ row[known]
        left = SIGMA[np.ix_(~known, ~known)] - gain @ SIGMA[np.ix_(known, ~known)]
        total[np.ix_(~known, ~known)] += left
    return table, total


@pytest.mark.parametrize("asked", [True, False])
def test_holes_get_their_conditional_means_and_covariances(asked):
    table, total = by_the_textbook()
    X = np.where(KNOWN, TABLE, 0.0)
    covariance = np.full((D, D), 10.0) if asked else np.empty((0, 0))
    fill(X, KNOWN, L, PSI, np.linalg.inv(SIGMA), covariance)
    assert_allclose(X, table, atol=1e-12)
    if asked:
        assert_allclose(covariance - 10.0, total, atol=1e-12)
