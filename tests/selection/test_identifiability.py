import numpy as np
import pytest

import rankfold as rf
from rankfold.selection.identifiability import Identifiability, identifiability, shortages


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


NONE = np.array([], dtype=np.int64)


@pytest.mark.parametrize(
    ("entries", "rows", "cols", "free", "unique"),
    [
        (10, NONE, NONE, 0.4, True),
        (9, NONE, NONE, 0.4, False),
        (10, np.array([3]), NONE, 0.4, False),
        (10, NONE, np.array([3]), 0.4, False),
        (10, NONE, NONE, 0.6, False),
    ],
)
def test_a_fit_is_unique_if_entries_suffice_in_all_and_in_every_line_and_no_direction_is_free(
    entries, rows, cols, free, unique
):
    told = Identifiability(rank=2, dimension=10, entries=entries, rows=rows, cols=cols, free=free)
    assert told.unique == unique
    assert str(told).startswith("not unique") != unique


def test_short_lines_are_named_and_the_first_five_shown():
    """Columns 1 to 7 have one entry each, column 0 has the two that rank 2 needs."""
    rows, cols = np.array([0, 1, *[0, 1] * 3, 0]), np.array([0, 0, *range(1, 8)])
    cost = rf.Completion(rows, cols, np.ones(rows.size), (2, 8))
    assert shortages(cost, rank=2) == [
        "7 columns have fewer than 2 entries (the first: [1, 2, 3, 4, 5])",
        "9 entries cannot determine 16 degrees of freedom",
    ]
    assert shortages(cost, rank=1) == []
