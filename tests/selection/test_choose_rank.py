import numpy as np
import pytest

import rankfold as rf


def cost_of(rank, seed, noise, shape=(250, 200), oversampling=4.0):
    data = rf.data.random_completion(shape, rank, oversampling, seed, noise=noise, min_per_line=True)
    return rf.Completion.from_triples(data)


@pytest.mark.parametrize(("rank", "noise"), [(1, 1e-3), (2, 1e-1), (4, 1e-2), (7, 1e-1), (10, 1e-3)])
def test_finds_a_planted_rank(rank, noise):
    path = rf.choose_rank(cost_of(rank, seed=rank, noise=noise))
    assert path.chosen == rank
    assert path.ranks[-1] <= rank + 3
    assert path.factors[0].shape == (250, rank)


def test_finds_a_planted_rank_without_noise():
    assert rf.choose_rank(cost_of(3, seed=0, noise=0.0)).chosen == 3


def test_the_same_seed_chooses_alike():
    cost = cost_of(3, seed=0, noise=0.05)
    assert rf.choose_rank(cost, seed=1).errors == rf.choose_rank(cost, seed=1).errors


def test_table_and_plot_show_the_choice():
    path = rf.choose_rank(cost_of(2, seed=0, noise=0.05), max_rank=4)
    assert str(path).splitlines()[2].endswith("<- chosen")
    ax = path.plot()
    assert ax.get_xlabel() == "rank"
    import matplotlib.pyplot as plt

    plt.close(ax.figure)


def test_weights_and_losses_are_kept():
    rng = np.random.default_rng(0)
    rows, cols = np.nonzero(rng.random((60, 50)) < 0.5)
    values = (rng.random(rows.size) < 0.5).astype(float)
    cost = rf.Completion(rows, cols, values, (60, 50), weights=np.full(rows.size, 2.0), loss="logistic")
    assert rf.choose_rank(cost, max_rank=3).chosen == 1  # there is nothing to find


def test_held_out_is_checked():
    cost = cost_of(2, seed=0, noise=0.0)
    with pytest.raises(ValueError, match="held_out"):
        rf.choose_rank(cost, held_out=1.0)
    with pytest.raises(ValueError, match="at least 2"):
        rf.choose_rank(cost, held_out=1e-6)
