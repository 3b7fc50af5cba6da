import numpy as np
import pytest

import rankfold as rf
from rankfold.selection.identifiability import (
    Identifiability,
    _outside_range,
    identifiability,
    shortages,
)


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


def small_pattern(seed):
    """Two blocks with a few entries between them, or entries at random: often one direction is free."""
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 3))
    if seed % 2:  # an entry between the blocks takes one of rank² free directions away
        half, between = int(rng.integers(5, 9)), rank**2 - int(rng.integers(0, 2))
        known = np.kron(np.eye(2), np.ones((half, half))) > 0
        known[rng.integers(0, half, between), half + rng.integers(0, half, between)] = True
    else:
        known = rng.random((12, 10)) < rng.uniform(0.4, 0.8)
        known[0], known[:, 0] = True, True
    return np.nonzero(known), known.shape, *(rng.standard_normal((d, rank)) for d in known.shape)


def test_two_hundred_small_cases_are_told_as_by_the_dense_rank():
    exact = []
    for seed in range(200):
        (rows, cols), shape, L, R = small_pattern(seed)
        told = identifiability(rf.Completion(rows, cols, np.ones(rows.size), shape), L, R, seed)
        exact.append(jacobian_null(rows, cols, L, R))
        assert told.unique == (exact[-1] == 0), seed
        assert told.free == 0 if exact[-1] == 0 else told.free >= 1
    assert min(exact.count(0), exact.count(1)) > 20


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_probe_ends_at_a_part_of_its_image_whatever_the_scale(scale):
    """Conjugate gradients are done when the image is 1e-10 of what it was, in few iterations."""
    data = rf.data.random_completion((40, 30), 2, 5.0, 0, min_per_line=True)
    cost = rf.Completion(data.rows, data.cols, scale * data.values, data.shape)
    geometry = rf.FullRank(data.shape, 2, metric="preconditioned")
    here = rf.Problem(cost, geometry).at(geometry.from_factors(scale * data.L, data.R))
    xi = geometry.random_tangent(here.x, 0)
    left = _outside_range(here, xi, floor=0.0)
    iterations = here.problem.counts.hessians - 1
    before, after = (geometry.norm(here.x, here.hessian(z)) for z in (xi, left))
    assert 1e-13 * before < after <= 2e-10 * before
    assert iterations < 60
    coarse = _outside_range(here, xi, floor=1e-4 * before**2)
    assert geometry.norm(here.x, here.hessian(coarse)) > 1e-4 * before
