import numpy as np
import pytest

import rankfold as rf
from rankfold.selection.identifiability import identifiability


def jacobian_null(rows, cols, L, R):
    """The dimension left open, by a dense Jacobian with respect to (L, R), less that of GL(r)."""
    (d1, r), d2 = L.shape, len(R)
    J = np.zeros((len(rows), (d1 + d2) * r))
    for p, (i, j) in enumerate(zip(rows, cols, strict=True)):
        J[p, i * r : (i + 1) * r] = R[j]
        J[p, (d1 + j) * r : (d1 + j + 1) * r] = L[i]
    return J.shape[1] - np.linalg.matrix_rank(J, tol=1e-9) - r * r


def test_a_well_sampled_fit_is_unique():
    data = rf.data.random_completion((80, 70), 3, 4.0, 0, min_per_line=True)
    cost = rf.Completion.from_triples(data)
    told = identifiability(cost, data.L, data.R)
    assert told.unique
    assert "determine" in str(told)


@pytest.mark.parametrize("seed", range(4))
def test_counts_free_directions_about_as_a_dense_jacobian_does(seed):
    data = rf.data.random_completion((40, 30), 2, 1.1, seed, min_per_line=1)
    cost = rf.Completion.from_triples(data)
    told = identifiability(cost, data.L, data.R, seed)
    exact = jacobian_null(data.rows, data.cols, data.L, data.R)
    assert told.unique == (exact == 0)
    assert abs(told.free - exact) <= 4 * np.sqrt(exact + 0.1)


def test_too_few_entries_say_so():
    data = rf.data.random_completion((40, 30), 2, 0.8, 0, min_per_line=1)
    cost = rf.Completion.from_triples(data)
    told = identifiability(cost, data.L, data.R)
    assert not told.unique
    assert "cannot determine" in str(told)
    assert "rows have fewer than 2 entries" in str(told)
