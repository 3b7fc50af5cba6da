"""A path of ranks: how each is judged, when it ends, what is chosen, and how it is shown."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.selection import rank as selection
from rankfold.selection.rank import RankPath, _Judge

PATH = RankPath((1, 2, 3), (0.5, 0.25, 0.2), (0.01, 0.06, 0.1), (0.4, 0.2, 0.125), 2)
SMALL = rf.Completion([0, 0, 1, 1], [0, 1, 0, 1], [3.0, 1.0, 4.0, 1.5], (2, 2))


def test_a_path_is_a_table_with_the_choice_marked_and_without_its_factors():
    assert str(PATH).splitlines() == [
        "rank   held-out loss  standard error           fit",
        "   1             0.5            0.01           0.4",
        "   2            0.25            0.06           0.2 <- chosen",
        "   3             0.2             0.1         0.125",
    ]
    assert PATH.factors is None
    assert "factors" not in repr(RankPath((1,), (0.5,), (0.1,), (0.4,), 1, (np.ones(3), np.ones(2))))


def test_a_path_is_drawn_with_its_choice():
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, own = plt.subplots()
    assert PATH.plot(own) is own
    assert (own.get_xlabel(), own.get_ylabel(), own.get_yscale()) == ("rank", "mean loss", "log")
    texts = {text.get_text() for text in own.get_legend().get_texts()}
    assert texts == {"held out", "fit", "chosen: 2"}
    (fit,) = (line for line in own.lines if line.get_label() == "fit")
    assert (fit.get_xdata().tolist(), fit.get_ydata().tolist()) == ([1, 2, 3], [0.4, 0.2, 0.125])
    (chosen,) = (line for line in own.lines if line.get_label() == "chosen: 2")
    assert chosen.get_xdata() == [2, 2]
    assert all(tick == round(tick) for tick in own.xaxis.get_major_locator().tick_values(0.9, 3.1))
    plt.close(figure)


def judge(weights=None, told=None):
    """A judge of the entries (0, 1), (1, 0) and (1, 1) of a 2 × 2 matrix."""
    data = np.array([[3.0], [4.0], [1.5]])
    test = np.array([0, 1, 1]), np.array([1, 0, 1]), data if weights is None else np.c_[data, weights]
    problem = SimpleNamespace(geometry=SimpleNamespace(factors=lambda x: x))
    return _Judge(SMALL, test, problem, (lambda text: None) if told is None else told.append)


def at(rank, slow=True, ripe=False, stalled="", limit=9, error=0.0, value=1.0):
    """Where a run is; `error` is how far each entry held out is missed by, at least."""
    L, R = np.array([[1.0], [2.0]]), np.array([[2.0 + error / 2], [3.0 + error]])
    state = SimpleNamespace(
        rank=rank, slow=slow, ripe=ripe, stalled=stalled, limit=limit, value=value, x=(L, R)
    )
    return SimpleNamespace(state=state)


@pytest.mark.parametrize("weights", [None, [1.0, 0.5, 3.0]])
def test_a_rank_is_judged_by_the_mean_loss_held_out_and_its_standard_error(weights):
    told = []
    one = judge(weights, told)
    assert not one(at(1, value=0.75))
    predicted = np.array([3.0, 4.0, 6.0])
    losses = SMALL.loss(predicted, np.array([3.0, 4.0, 1.5]))[0] * (1.0 if weights is None else weights)
    (found,) = one.judged
    assert found.error == pytest.approx(losses.mean())
    assert found.standard_error == pytest.approx(losses.std(ddof=1) / 3**0.5)
    assert (found.fit, found.factors[1].tolist()) == (0.75, [[2.0], [3.0]])
    assert told == [f"rank 1  held-out loss {losses.mean():.6g}"]


@pytest.mark.parametrize(
    ("said", "judged"),
    [({}, 0), ({"slow": True}, 1), ({"ripe": True}, 1), ({"stalled": "rounding"}, 1)],
)
def test_a_rank_is_judged_once_it_is_solved_and_once_only(said, judged):
    one = judge()
    for _ in range(2):
        assert not one(at(1, **({"slow": False} | said)))
        assert len(one.judged) == judged


@pytest.mark.parametrize(
    ("errors", "limit", "ends"),
    [
        ([3.0, 2.0, 1.0, 0.5], 9, None),
        ([3.0, 2.0, 1.0, 0.5], 4, 4),
        ([1.0, 2.0, 3.0], 9, 3),
        ([2.0, 1.0, 3.0, 0.5, 4.0, 0.75], 9, 6),
        ([2.0, 2.0, 2.0], 9, 3),
        ([2.0], 1, 1),
    ],
)
def test_a_path_ends_at_the_largest_rank_or_after_two_that_are_no_better(errors, limit, ends):
    one = judge()
    stopped = [one(at(k + 1, limit=limit, error=error)) for k, error in enumerate(errors)]
    assert (stopped.index(True) + 1 if True in stopped else None) == ends


def test_a_path_ends_where_the_rank_falls():
    one = judge()
    assert not one(at(1, error=2.0))
    assert not one(at(2, error=1.0))
    assert not one(at(2, slow=False))
    assert one(at(1, slow=False))
    assert len(one.judged) == 2


@pytest.mark.parametrize(
    ("errors", "deviations", "chosen"),
    [
        ([4.0, 2.0, 1.0], [9.0, 9.0, 1.0], 2),
        ([4.0, 2.5, 1.0], [9.0, 9.0, 1.0], 3),
        ([1.0, 2.0, 3.0], [0.0, 9.0, 9.0], 1),
        ([2.0, 1.0, 1.5], [0.0, 0.0, 5.0], 2),
    ],
)
def test_the_least_rank_within_a_standard_error_of_the_best_is_chosen(errors, deviations, chosen):
    one = judge()
    for k, (error, deviation) in enumerate(zip(errors, deviations, strict=True)):
        one.judged.append(selection._Judged(error, deviation, 10.0 - k, (f"L{k}", f"R{k}")))
    path = one.path()
    assert (path.ranks, path.errors, path.standard_errors) == ((1, 2, 3), tuple(errors), tuple(deviations))
    assert (path.chosen, path.fits) == (chosen, (10.0, 9.0, 8.0))
    assert path.factors == (f"L{chosen - 1}", f"R{chosen - 1}")


@pytest.mark.parametrize("held_out", [0, 1.0, -0.1, 1.5])
def test_the_part_held_out_is_one(held_out):
    with pytest.raises(ValueError, match=f"held_out must be between 0 and 1, not {held_out}"):
        rf.choose_rank(SMALL, held_out=held_out)


@pytest.mark.parametrize(("rank", "verbose"), [(0, 2), (1, 0)])
def test_of_several_processes_the_first_alone_shows_how_it_goes(monkeypatch, rank, verbose):
    asked = []

    def progress(*arguments):
        asked.append(arguments)
        raise ZeroDivisionError

    store = type(SMALL.store)
    monkeypatch.setattr(selection, "progress", progress)
    monkeypatch.setattr(selection, "SpreadEntries", store)
    monkeypatch.setattr(selection, "hold_out", lambda cost, held_out, seed: (cost, None))
    monkeypatch.setattr(store, "group", SimpleNamespace(rank=rank), raising=False)
    with pytest.raises(ZeroDivisionError):
        rf.choose_rank(SMALL, verbose=2)
    assert asked == [(verbose, "choosing the rank")]


def test_a_line_per_rank_is_shown_where_it_is_asked_for(capsys):
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(np.arange(56), 8)
    cost = rf.Completion(rows, cols, rng.standard_normal(56), (7, 8))
    path = rf.choose_rank(cost, max_rank=1, verbose=2)
    assert path.ranks == (1,)
    assert capsys.readouterr().err == f"choosing the rank: rank 1  held-out loss {path.errors[0]:.6g}\n"
