"""How a choice of the rank is run: by the one driver, each rank as far as the others."""

import pytest

import rankfold as rf
from rankfold.run.stopping import StopKind
from rankfold.selection import rank as selection


def cost_of(rank, noise):
    data = rf.data.random_completion((250, 200), rank, 4.0, seed=0, noise=noise, min_per_line=True)
    return rf.Completion(data.rows, data.cols, data.values, data.shape)


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
    path = rf.choose_rank(cost_of(4, noise=0.1), max_rank=2)
    assert path.ranks == (1, 2)
    (result,) = runs
    assert result.stop.kind is StopKind.CALLBACK
    assert (result.state.rank, result.state.slow, result.state.stalled) == (2, True, "")


def test_an_exact_fit_ends_the_path(runs):
    path = rf.choose_rank(cost_of(3, noise=0.0))
    assert runs[0].converged
    assert path.ranks == (1, 2, 3)
    assert path.fits[-1] == runs[0].trace[-1].value


def test_a_path_that_is_cut_short_judges_the_rank_where_it_stands(runs, monkeypatch):
    monkeypatch.setattr(selection, "_MAX_ITERATIONS", 1)
    path = rf.choose_rank(cost_of(3, noise=0.1), max_rank=3)
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
        rf.choose_rank(cost_of(3, noise=0.1))
    assert steps[-1] > 1, "after a rank that was judged"


@pytest.mark.parametrize("max_rank", [0, 201])
def test_the_largest_rank_is_checked(max_rank):
    with pytest.raises(ValueError, match=f"max_rank must be from 1 to 200, not {max_rank}"):
        rf.choose_rank(cost_of(2, noise=0.0), max_rank=max_rank)
