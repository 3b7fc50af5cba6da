import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.selection.rank import hold_out, largest_rank, losses_of


def cost_of(rank, seed, noise, shape=(250, 200), oversampling=4.0):
    data = rf.data.random_completion(shape, rank, oversampling, seed, noise=noise, min_per_line=True)
    return rf.Completion.from_triples(data)


# Each rank that is tried compiles kernels of its own.
LARGER = [pytest.param(rank, noise, marks=pytest.mark.soak) for rank, noise in ((7, 1e-1), (10, 1e-3))]


@pytest.mark.parametrize(("rank", "noise"), [(1, 1e-3), (2, 1e-1), (4, 1e-2), *LARGER])
def test_finds_a_planted_rank(rank, noise):
    path = rf.choose_rank(cost_of(rank, seed=rank, noise=noise))
    assert path.chosen == rank
    assert path.ranks[-1] <= rank + 3
    assert path.factors[0].shape == (250, rank)


def test_finds_a_planted_rank_without_noise():
    assert rf.choose_rank(cost_of(3, seed=0, noise=0.0)).chosen == 3


def test_the_least_rank_within_one_standard_error_is_chosen_after_two_that_are_no_better():
    path = rf.choose_rank(cost_of(3, seed=0, noise=0.3))
    best = int(np.argmin(path.errors))
    within = [error <= path.errors[best] + path.standard_errors[best] for error in path.errors]
    assert path.chosen == within.index(True) + 1
    assert path.ranks == tuple(range(1, best + 4))


def test_no_rank_above_the_largest_is_tried():
    path = rf.choose_rank(cost_of(4, seed=0, noise=0.1), max_rank=2)
    assert path.ranks == (1, 2)
    assert path.chosen == 2


@pytest.mark.parametrize(("entries", "rank"), [(20, 1), (133, 1), (134, 2), (196, 2), (197, 3), (960, 21)])
def test_as_many_ranks_as_nine_tenths_of_the_entries_determine(entries, rank):
    """r (30 + 32 − r) degrees of freedom: 61, 120, 177, ..., and never less than rank 1."""
    where = np.random.default_rng(0).permutation(30 * 32)[:entries]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # lines without entries
        cost = rf.Completion(where // 32, where % 32, np.ones(where.size), (30, 32))
    assert largest_rank(cost) == rank


def test_a_rank_with_just_so_many_degrees_of_freedom_is_tried():
    """2 (5 + 6 − 2) = 0.9 · 20; and of many entries in few places no rank is above the smaller side."""
    rows, cols = np.divmod(np.arange(20), 4)
    assert largest_rank(rf.Completion(rows, np.where(cols == 3, rows % 3 + 3, cols), 1.0 + rows, (5, 6))) == 2
    rows, cols = np.divmod(np.arange(12) % 4, 2)
    assert largest_rank(rf.Completion(rows, cols, 1.0 + rows, (2, 2), duplicates="keep")) == 2


def test_the_same_seed_chooses_alike():
    cost = cost_of(3, seed=0, noise=0.05)
    assert rf.choose_rank(cost, seed=1).errors == rf.choose_rank(cost, seed=1).errors


def test_table_and_plot_show_the_choice():
    path = rf.choose_rank(cost_of(2, seed=0, noise=0.05), max_rank=4)
    table = str(path).splitlines()
    assert [line.endswith("<- chosen") for line in table] == [False, False, True, *[False] * (len(table) - 3)]
    ax = path.plot()
    assert ax.get_xlabel() == "rank"
    assert {"o", "s"} <= {line.get_marker() for line in ax.lines}, "a rank that is tried alone is seen"
    assert ax.figure.get_layout_engine() is not None  # labels are not cut off
    import matplotlib.pyplot as plt

    plt.close(ax.figure)


def weighted_labels():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.5)
    values = (rng.random(rows.size) < 0.5).astype(float)
    weights = rng.uniform(0.5, 2.0, rows.size)
    return rf.Completion(rows, cols, values, (60, 50), weights=weights, loss="logistic")


def entries(cost):
    side = cost.observed.by_row
    return np.column_stack([side.keys, side.indices, side.data])


def test_entries_held_out_and_kept_are_all_entries_with_their_weights():
    cost = weighted_labels()
    train, (rows, cols, data) = hold_out(cost, 0.2, seed=3)
    both = np.vstack([entries(train), np.column_stack([rows, cols, data])])
    assert_array_equal(both[np.lexsort(both.T[1::-1])], entries(cost))
    assert len(rows) == round(0.2 * len(both))
    assert train.loss == cost.loss
    assert not np.array_equal(rows, hold_out(cost, 0.2, seed=4)[1][0])


def test_entries_without_weights_are_kept_without():
    train, (_, _, data) = hold_out(cost_of(2, seed=0, noise=0.1), 0.2, seed=3)
    assert not train.observed.weighted
    assert data.shape[1] == 1


def test_the_losses_of_held_out_entries_are_the_cost_s_own_weighted():
    data = np.array([[1.0, 0.5], [0.0, 3.0]])
    margins = np.array([2.0, 1.0])
    expected = data[:, 1] * np.log1p(np.exp(np.where(data[:, 0] > 0, -margins, margins)))
    test = np.array([0, 1]), np.array([0, 0]), data
    assert_allclose(losses_of(weighted_labels(), test, margins), expected)


def test_errors_are_those_of_the_entries_held_out():
    cost = weighted_labels()
    path = rf.choose_rank(cost, max_rank=2, held_out=0.2, seed=3)
    train, test = hold_out(cost, 0.2, seed=3)
    L, R = path.factors
    losses = losses_of(cost, test, np.sum(L[test[0]] * R[test[1]], axis=1))
    at = path.ranks.index(path.chosen)
    assert path.errors[at] == pytest.approx(losses.mean())
    assert path.standard_errors[at] == pytest.approx(losses.std(ddof=1) / np.sqrt(losses.size))
    assert path.fits[at] == pytest.approx(train.value(L, R))


def test_held_out_is_checked():
    cost = cost_of(2, seed=0, noise=0.0)
    with pytest.raises(ValueError, match="held_out"):
        rf.choose_rank(cost, held_out=1.0)
    with pytest.raises(ValueError, match="at least 2"):
        rf.choose_rank(cost, held_out=1e-6)


def test_two_entries_are_the_least_that_can_be_held_out():
    cost = rf.Completion(np.arange(20), np.arange(20), np.ones(20), (20, 20))
    assert len(hold_out(cost, 0.1, seed=0)[1][0]) == 2
    with pytest.raises(ValueError, match=r"held_out = 0\.05 of 20 entries is 1: there must be at least 2"):
        hold_out(cost, 0.05, seed=0)


def test_not_all_entries_can_be_held_out():
    cost = rf.Completion(np.arange(20), np.arange(20), np.ones(20), (20, 20))
    with pytest.raises(ValueError, match="of 20 entries is 20"):
        hold_out(cost, 1.0, seed=0)


def test_losses_of_held_out_entries_are_in_double_precision():
    cost = rf.Completion([0, 1], [0, 1], np.array([1.0, 2.0], np.float32), (2, 2))
    held_out = np.array([0]), np.array([0]), np.array([[1.0]], np.float32)
    assert losses_of(cost, held_out, np.array([0.5], np.float32)).dtype == np.float64


def test_thelargest_rank_may_be_that_of_the_smaller_side():
    data = rf.data.random_completion((12, 3), rank=1, oversampling=2.2, seed=0, noise=0.1)
    cost = rf.Completion.from_triples(data)
    assert rf.choose_rank(cost, max_rank=3).chosen <= 3
    with pytest.raises(ValueError, match="max_rank must be from 1 to 3, not 4"):
        rf.choose_rank(cost, max_rank=4)
