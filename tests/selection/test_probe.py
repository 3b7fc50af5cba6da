"""The probe behind `identifiability`, beside the dense matrices that it stands for."""

import numpy as np
import pytest
from scipy.linalg import block_diag

import rankfold as rf
from rankfold.selection.identifiability import (
    _apart,
    _null_dimension,
    _outside_range,
    _Probe,
    identifiability,
    shortages,
)

KNOWN = np.random.default_rng(5).random((7, 5)) < 0.75
KNOWN[2] = [True, False, False, False, False]  # a row that sees one direction alone
KNOWN[4] = False
ROWS, COLS = np.nonzero(KNOWN)


def cost_of(rows=ROWS, cols=COLS, shape=(7, 5), **options):
    return rf.Completion(rows, cols, np.zeros(len(rows)), shape, **options)


def factors(seed=0, shape=(7, 5), rank=2):
    rng = np.random.default_rng(seed)
    return [10 ** rng.uniform(-1, 1, (d, 1)) * rng.standard_normal((d, rank)) for d in shape]


def jacobian(L, R):
    """The change of each entry with the factors, row by row of L and then of R."""
    (d1, r), J = L.shape, np.zeros((ROWS.size, (len(L) + len(R)) * L.shape[1]))
    for p, (i, j) in enumerate(zip(ROWS, COLS, strict=True)):
        J[p, i * r : (i + 1) * r], J[p, (d1 + j) * r : (d1 + j + 1) * r] = R[j], L[i]
    return J


@pytest.mark.filterwarnings("ignore:.*have no observed entry")
def test_the_probe_is_the_dense_product_in_units_of_each_line():
    L, R = factors()
    J, probe = jacobian(L, R), _Probe(cost_of(), L, R)
    M, roots = J.T @ J, []
    for k in range(12):
        values, turns = np.linalg.eigh(M[2 * k : 2 * k + 2, 2 * k : 2 * k + 2])
        inverse = np.where(values > 1e-12 * values.max(), 1 / np.sqrt(np.maximum(values, 1e-300)), 0.0)
        roots.append(turns * inverse @ turns.T)
    D = block_diag(*roots)
    K = np.column_stack([probe.image(e.reshape(12, 2)).ravel() for e in np.eye(24)])
    np.testing.assert_allclose(K, D @ M @ D, atol=1e-12)
    for seed in range(2):
        u = np.random.default_rng(seed).standard_normal((12, 2))
        assert probe.seen(u) == pytest.approx(np.linalg.norm(J @ D @ u.ravel()) / 2**0.5, rel=1e-9)


@pytest.mark.filterwarnings("ignore:.*have no observed entry")
def test_what_leaves_the_matrix_as_it_is_is_taken_off():
    L, R = factors()
    probe = _Probe(cost_of(), L, R)
    u = np.random.default_rng(0).standard_normal((12, 2))
    left = probe.horizontal(u)
    for A in np.eye(4).reshape(4, 2, 2):
        vertical = probe._scaled(np.vstack([L @ A, -R @ A.T]), probe.roots)
        assert abs(np.vdot(vertical, left)) <= 1e-12 * np.linalg.norm(vertical)
        assert np.linalg.norm(probe.horizontal(vertical)) <= 1e-12 * np.linalg.norm(vertical)
    np.testing.assert_allclose(probe.horizontal(left), left, atol=1e-13)
    np.testing.assert_allclose(probe.image(left), probe.image(u), atol=1e-12)


class Scripted:
    """A probe that sees nothing by its image, halves what it is given, and answers what it is told to."""

    roots = np.ones((6, 2))

    def __init__(self, *seen):
        self.answers = iter(seen)

    def horizontal(self, u):
        return u / 2

    def image(self, u):
        return 0 * u

    def seen(self, u):
        assert np.linalg.norm(u) == pytest.approx(1.0)
        return next(self.answers)


@pytest.mark.parametrize(
    ("seen", "free"),
    [
        ([3.0, 3e-8], 1000 / 4),
        ([3.0, 3.1e-8, 0.0], 1000 / 16),
        ([3.0, 1.0, 1.0, 0.0], 1000 / 64),
        ([3.0, 1.0, 1.0, 1.0, 0.0], np.nan),
    ],
)
def test_three_rounds_ask_whether_what_is_left_is_seen(seen, free):
    found = _null_dimension(Scripted(*seen), 1000, 0)
    assert found == pytest.approx(free, nan_ok=True)


def test_nothing_is_free_where_next_to_nothing_is_left():
    probe = Scripted(3.0, 1.0)
    lengths = iter([0.5, 0.9e-9])
    probe.horizontal = lambda u: u * next(lengths) / np.linalg.norm(u)
    assert _null_dimension(probe, 1000, 0) == 0.0
    probe = Scripted(3.0, 0.0)
    lengths = iter([0.5, 2e-9])
    probe.horizontal = lambda u: u * next(lengths) / np.linalg.norm(u)
    assert _null_dimension(probe, 1000, 0) == 1.0


def test_where_nothing_is_seen_all_is_left():
    u = np.arange(12.0).reshape(6, 2)
    assert (_outside_range(Scripted(), u, 0.0) == u).all()


@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 5), (4, 3)])
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_one_part_turns_in_no_way_of_its_own(shape, rank):
    assert _apart(*np.nonzero(np.ones(shape)), shape, rank) == 0


def test_parts_of_few_lines_turn_in_fewer_ways():
    """rank² for each, less (rank − n)(rank − m), and one turn of them all together."""
    assert _apart(*np.nonzero(np.eye(2)), (2, 2), 1) == 1
    assert _apart(*np.nonzero(np.eye(2)), (2, 2), 3) == 2 * (9 - 4) - 9 + 1
    assert _apart(*np.nonzero(np.eye(3)), (3, 3), 2) == 3 * (4 - 1) - 4
    uneven = block_diag(np.ones((1, 4)), np.ones((5, 2)))
    assert _apart(*np.nonzero(uneven), (6, 6), 3) == (9 - 0) + (9 - 0) - 9
    assert _apart(*np.nonzero(uneven[:, :-1]), (6, 5), 3) == 9
    assert _apart(*np.nonzero(uneven[:, 2:]), (6, 4), 3) == (9 - 2 * 1) + (9 - 0) - 9
    assert _apart(*np.nonzero(uneven[:, 2:].T), (4, 6), 3) == 7


def test_as_many_entries_as_degrees_of_freedom_are_enough_in_all():
    rows, cols = np.array([0, 0, 1]), np.array([0, 1, 1])
    assert shortages(cost_of(rows, cols, (2, 2)), 1) == []
    assert identifiability(cost_of(rows, cols, (2, 2)), np.ones((2, 1)), np.ones((2, 1))).unique
    assert shortages(cost_of(rows[:2], cols[:2], (1, 2)), 1) == []
    assert shortages(cost_of(rows, cols, (2, 2)), 2) == [
        "1 rows have fewer than 2 entries (the first: [1])",
        "1 columns have fewer than 2 entries (the first: [0])",
        "3 entries cannot determine 4 degrees of freedom",
    ]


def test_what_is_told_does_not_depend_on_what_holds_the_factors_nor_on_entries_that_come_twice():
    rng = np.random.default_rng(0)
    known = rng.random((9, 8)) < 0.55
    known[0], known[:, 0] = True, True
    rows, cols = np.nonzero(known)
    L, R = (rng.standard_normal((d, 2)).astype(np.float32) for d in known.shape)
    cost = cost_of(rows, cols, known.shape)
    told = identifiability(cost, L.astype(float), R.astype(float), 3)
    assert told.dimension == 2 * (17 - 2)
    for other in ((L, R), (L.tolist(), R.tolist())):
        assert identifiability(cost, *other, 3).free == told.free
    twice = cost_of(np.append(rows, rows[:5]), np.append(cols, cols[:5]), known.shape, duplicates="keep")
    again = identifiability(twice, L, R, 3)
    assert (again.unique, again.entries) == (told.unique, told.entries + 5)
