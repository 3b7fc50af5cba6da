import numpy as np
import pytest

import rankfold as rf
from rankfold.run.stopping import StopKind
from rankfold.selection import rank as selection


def cost_of(rank, seed, noise, shape=(250, 200), oversampling=4.0):
    data = rf.data.random_completion(shape, rank, oversampling, seed, noise=noise, min_per_line=True)
    return rf.Completion(data.rows, data.cols, data.values, data.shape)


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


@pytest.fixture
def runs(monkeypatch):
    """The results of the runs of a choice."""
    results, honest = [], selection.minimize

    def minimize(*arguments, **options):
        results.append(honest(*arguments, **options))
        return results[-1]

    monkeypatch.setattr(selection, "minimize", minimize)
    return results


def test_the_last_rank_is_solved_no_further_than_the_others(runs):
    path = rf.choose_rank(cost_of(4, seed=0, noise=0.1), max_rank=2)
    assert path.ranks == (1, 2)
    (result,) = runs
    assert result.stop.kind is StopKind.CALLBACK
    assert (result.state.rank, result.state.slow, result.state.stalled) == (2, True, "")


def test_an_exact_fit_ends_the_path(runs):
    path = rf.choose_rank(cost_of(3, seed=0, noise=0.0))
    assert runs[0].converged
    assert path.ranks == (1, 2, 3)
    assert path.fits[-1] == runs[0].trace[-1].value


def test_a_path_that_is_cut_short_judges_the_rank_where_it_stands(runs, monkeypatch):
    monkeypatch.setattr(selection, "_MAX_ITERATIONS", 1)
    path = rf.choose_rank(cost_of(3, seed=0, noise=0.1), max_rank=3)
    assert runs[0].iterations == 3
    assert path.ranks == tuple(range(1, runs[0].state.rank + 1))
    assert path.fits[-1] == runs[0].trace[-1].value


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_ends_the_path_badly_is_raised(monkeypatch, error):
    honest, steps = rf.RankContinuation.step, []

    def step(self, problem, state):
        steps.append(state.rank)
        if len(steps) == 9:
            raise error
        return honest(self, problem, state)

    monkeypatch.setattr(rf.RankContinuation, "step", step)
    with pytest.raises(error):
        rf.choose_rank(cost_of(3, seed=0, noise=0.1))
    assert steps[-1] > 1, "after a rank that was judged"


def test_held_out_is_checked():
    cost = cost_of(2, seed=0, noise=0.0)
    with pytest.raises(ValueError, match="held_out"):
        rf.choose_rank(cost, held_out=1.0)
    with pytest.raises(ValueError, match="at least 2"):
        rf.choose_rank(cost, held_out=1e-6)


@pytest.mark.parametrize("max_rank", [0, 201])
def test_the_largest_rank_is_checked(max_rank):
    with pytest.raises(ValueError, match=f"max_rank must be from 1 to 200, not {max_rank}"):
        rf.choose_rank(cost_of(2, seed=0, noise=0.0), max_rank=max_rank)
