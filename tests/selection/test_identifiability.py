import numpy as np
import pytest

import rankfold as rf
from rankfold.selection.identifiability import (
    Identifiability,
    _apart,
    _null_dimension,
    _outside_range,
    _Probe,
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
        assert told.known
        assert told.free == 0 if exact[-1] == 0 else told.free >= 1
    assert min(exact.count(0), exact.count(1)) > 20


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_probe_ends_at_a_part_of_its_image_whatever_the_scale(scale):
    """Conjugate gradients are done when the image is 1e-10 of what it was, in few iterations."""
    data = rf.data.random_completion((40, 30), 2, 5.0, 0, min_per_line=True)
    cost = rf.Completion(data.rows, data.cols, 0 * data.values, data.shape)
    probe = _Probe(cost, scale * data.L, data.R)
    u = probe.horizontal(np.random.default_rng(0).standard_normal((70, 2)))
    images = []
    probe.image = lambda z, of=probe.image: images.append(of(z)) or images[-1]
    left = _outside_range(probe, u, floor=0.0)
    assert len(images) < 40
    before, after = (np.linalg.norm(probe.image(z)) for z in (u, left))
    assert 1e-13 * before < after <= 2e-10 * before
    coarse = _outside_range(probe, u, floor=1e-2 * before)
    assert 1e-4 * before < np.linalg.norm(probe.image(coarse)) <= 1e-2 * before


@pytest.mark.parametrize("seed", range(10))
def test_parts_that_no_entry_links_are_counted(seed):
    """Of rank 1 nothing else can be free; of higher rank at least that is."""
    rng = np.random.default_rng(seed)
    known = rng.random((14, 11)) < rng.uniform(0.06, 0.3)
    rows, cols = np.nonzero(known)
    for rank in (1, 2, 3):
        L, R = (rng.standard_normal((d, rank)) for d in known.shape)
        exact, apart = jacobian_null(rows, cols, L, R), _apart(rows, cols, known.shape, rank)
        assert apart <= exact
        if rank == 1:
            assert apart == exact
    two_blocks = np.kron(np.eye(2), np.ones((5, 5)))
    assert _apart(*np.nonzero(two_blocks), two_blocks.shape, 2) == 4


@pytest.mark.parametrize("zero", ["row", "column"])
def test_of_rank_one_a_factor_that_is_zero_leaves_free_what_it_alone_links(zero):
    """The first row is seen in the first column only, where W is 0 whatever that row's factor is."""
    known = np.ones((6, 6), bool)
    known[0, 1:] = False
    L, R = (np.random.default_rng(k).uniform(1, 2, (6, 1)) for k in range(2))
    R[0] = 0.0
    known, L, R = (known, L, R) if zero == "column" else (known.T, R, L)
    rows, cols = np.nonzero(known)
    told = identifiability(rf.Completion(rows, cols, np.ones(rows.size), (6, 6)), L, R)
    assert jacobian_null(rows, cols, L, R) == 1
    assert not told.unique


def test_eighteen_parts_of_a_large_matrix_are_not_determined():
    data = rf.data.random_completion((1000, 1000), 1, 1.5, 0, min_per_line=True)
    told = identifiability(rf.Completion.from_triples(data), data.L, data.R)
    assert told.free == 17
    assert not told.unique
    assert told.known
    assert str(told) == "not unique: about 17 directions are free"


def chain(blocks):
    """Blocks of 3 × 3, each linked to the next by four entries: what is at one end is seen from far away."""
    known = np.kron(np.eye(blocks), np.ones((3, 3)))
    for k in range(blocks - 1):
        known[3 * k + 1 : 3 * k + 3, 3 * k + 3 : 3 * k + 5] = 1
    return np.nonzero(known)


def test_what_takes_too_long_to_tell_is_not_called_determined(monkeypatch):
    rows, cols = chain(60)
    rng = np.random.default_rng(0)
    L, R = rng.standard_normal((2, 180, 2))
    monkeypatch.setattr("rankfold.selection.identifiability._ITERATIONS", 5)
    told = identifiability(rf.Completion(rows, cols, np.ones(rows.size), (180, 180)), L, R)
    assert np.isnan(told.free)
    assert not told.unique
    assert not told.known
    assert str(told).startswith("unknown: whether 776 entries determine the 716 degrees of freedom of rank 2")


def test_lines_that_are_short_are_enough_to_know():
    told = Identifiability(rank=2, dimension=10, entries=9, rows=NONE, cols=NONE, free=np.nan)
    assert told.known
    assert not told.unique
    assert str(told) == "not unique; 9 entries cannot determine 10 degrees of freedom"


class OneFree:
    """A Jacobian that sees all of 50 directions alike but for the first, which it does not see."""

    roots, seen_by = np.ones((50, 1)), np.arange(50.0)[:, None] > 0

    def horizontal(self, u):
        return u

    def image(self, u):
        return self.seen_by * u

    def seen(self, u):
        return float(np.linalg.norm(self.image(u)))


def test_one_free_direction_is_counted_as_one_at_least():
    for seed in range(8):
        u = np.random.default_rng(seed).standard_normal(50)
        free = _null_dimension(OneFree(), 50, seed)
        assert free == pytest.approx(max(50 * u[0] ** 2 / (u @ u), 1.0))
