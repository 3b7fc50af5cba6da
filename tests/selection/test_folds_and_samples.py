"""Entries held out in folds, samples of square matrices, and perturbed starts, beside their formulas."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.entries.observed import Observed
from rankfold.linalg import svd_of_product
from rankfold.selection.holding_out import hold_out
from rankfold.selection.retrying import judged, perturbed
from rankfold.selection.sampling import sample_lines, sampled


def of_storage(storage=None, weights=None):
    rows, cols = np.divmod(np.arange(60), 6)
    values = np.sin(1.0 + np.arange(60) ** 1.5)
    return rf.Completion.from_observed(
        Observed.from_triples(rows, cols, values, (10, 6), weights, storage=storage), rf.Loss.huber(0.7)
    )


def positions(rows, cols):
    return (6 * np.asarray(rows) + cols).tolist()


def test_folds_of_one_seed_hold_out_each_entry_once():
    cost, seen = of_storage(), []
    for fold in range(5):
        train, (rows, cols, data) = hold_out(cost, 0.2, 3, fold)
        assert (data[:, 0] == np.sin(1.0 + np.array(positions(rows, cols)) ** 1.5)).all()
        side = train.observed.by_row
        assert sorted(positions(side.keys, side.indices) + positions(rows, cols)) == list(range(60))
        seen += positions(rows, cols)
    assert sorted(seen) == list(range(60))
    first = hold_out(cost, 0.2, 3)[1]
    assert positions(*first[:2]) == seen[:12]


@pytest.mark.parametrize("storage", [None, np.float32])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 60)])
def test_what_is_kept_is_held_as_all_entries_are_and_silent_of_lines_left_empty(storage, weights):
    cost = of_storage(storage, weights)
    train, (rows, cols, data) = hold_out(cost, 0.9, 0)
    assert not all(counts.all() for counts in train.observed.counts)
    assert (train.observed.storage, train.loss) == (cost.observed.storage, cost.loss)
    if weights is not None:
        assert np.allclose(data[:, 1], weights[positions(rows, cols)], rtol=1e-6)
        side = train.observed.by_row
        assert np.allclose(side.data[:, 1], weights[positions(side.keys, side.indices)], rtol=1e-6)


def test_entries_that_come_twice_are_held_out_and_kept_one_by_one():
    cost = rf.Completion([0] * 10, [0] * 10, np.arange(10.0), (1, 1), duplicates="keep")
    train, (_, _, data) = hold_out(cost, 0.3, 0)
    assert sorted([*data[:, 0], *train.observed.by_row.data[:, 0]]) == list(range(10))


def test_a_sample_of_a_square_matrix_is_of_its_rows():
    rows, cols = np.divmod(np.arange(0, 120 * 120, 7), 120)
    cost = rf.Completion(rows, cols, rows + cols / 1000, (120, 120))
    part, chosen = sample_lines(cost, 300, seed=1), sampled(cost, 300, seed=1)
    side = part.observed.by_row
    assert part.shape == (100, 120)
    assert (side.data[:, 0] == chosen[side.keys] + side.indices / 1000).all()
    assert part.observed.size == np.isin(rows, chosen).sum()


def test_a_sample_has_entries_that_come_twice_twice():
    rows = np.repeat(np.arange(300), 2)
    cost = rf.Completion(rows, np.zeros(600, int), np.arange(600.0), (300, 1), duplicates="keep")
    part, chosen = sample_lines(cost, 300, seed=0), sampled(cost, 300, seed=0)
    assert sorted(part.observed.by_row.data[:, 0]) == sorted([*(2 * chosen), *(2 * chosen + 1)])


def test_a_column_that_ran_away_is_counted_as_a_row_is():
    data = rf.data.random_completion((60, 50), 2, 2.5, 0, condition=10, min_per_line=True)
    cost, R = rf.Completion.from_triples(data), data.R.copy()
    R[3] *= 1e3
    assert judged(cost, data.L, R).lines == 1
    verdict = judged(cost, data.L * 1.6, data.R)
    assert (verdict.kind, verdict.lines) == ("a wrong minimum", 0)
    assert verdict.misfit == pytest.approx(0.36)
    assert str(verdict).startswith("a wrong minimum, at a misfit of 0.4; ")


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_start_is_perturbed_by_a_part_of_each_singular_pair(rank):
    """Of a point of lower rank, the pairs that it lacks are drawn as large as the least that it has."""
    data = rf.data.random_completion((12, 9), 3, 1.5, 0, condition=3)
    problem = rf.Problem.of(rf.Completion.from_triples(data), 3)
    geometry = problem.with_rank(rank).geometry
    x = geometry.from_factors(data.L[:, :rank], data.R[:, :rank])
    L, R = problem.geometry.factors(perturbed(problem, x, np.random.default_rng(7)))
    U, s, V = map(np.asarray, svd_of_product(*geometry.factors(x)))
    s, rng = np.append(s, [s[-1]] * (3 - rank)), np.random.default_rng(7)
    due = []
    for Q, d in ((U, 12), (V, 9)):
        whole = np.zeros((d, 3))
        whole[:, :rank] = Q
        due.append((whole + 0.3 / np.sqrt(d) * rng.standard_normal((d, 3))) * np.sqrt(s))
    np.testing.assert_allclose(L @ R.T, due[0] @ due[1].T, atol=1e-12 * s[0])
