"""Folds that candidates are fitted to: how many, of which entries, and how each fit is made."""

from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from rankfold.estimators.completion import choosing, trials
from rankfold.estimators.completion.alternating import Alternating
from rankfold.estimators.completion.choosing import choose, fit_offsets, shrinkage_alone
from rankfold.estimators.completion.entries import completion_of
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.trials import Fold, Trial, Trials


def full(shape, **options):
    values = np.random.default_rng(0).standard_normal(shape[0] * shape[1])
    return rf.Completion(*np.indices(shape).reshape(2, -1), values, shape, **options)


def test_weights_are_tried_from_the_largest_in_steps_that_grow_to_none():
    assert trials.RATIOS == (0.7,) * 8 + (0.3,) * 5 + (0.0,)


@pytest.mark.parametrize(
    ("shape", "enough", "folds", "each"),
    [((20, 20), None, 8, 40), ((4, 3), 300, 6, 2), ((4, 3), 2, 2, 2), ((6, 5), 6, 2, 3), ((6, 5), 7, 3, 3)],
)
def test_folds_are_as_many_as_hold_out_enough_and_none_is_empty(shape, enough, folds, each):
    """Two entries at least, and by default until 300 are held out."""
    options = {} if enough is None else {"enough": enough}
    found = Trials(full(shape), True, 0, **options).folds
    assert [len(fold.test[0]) for fold in found] == [each] * folds
    assert {fold.joint.weight for fold in found} == {0.0}


@pytest.mark.parametrize(("weight", "most"), [(0.5, 40), (0.0, 400)])
@pytest.mark.parametrize("shrinkage", [Shrinkage(2.0, 3.0), None])
def test_candidates_are_fitted_loosely_and_longer_without_a_penalty(monkeypatch, weight, most, shrinkage):
    asked = []

    def try_out(problem, **run):
        asked.append((problem, run))
        return SimpleNamespace(x=("G", "H"))

    monkeypatch.setattr(trials, "try_out", try_out)
    bias = shrinkage is not None
    joint, x = Joint.of(full((5, 4)), weight, shrinkage), (np.ones((5, 2 + bias)), np.ones((4, 2 + bias)))
    assert trials.minimised(joint, x) == ("G", "H")
    ((problem, run),) = asked
    assert problem.cost is joint
    assert (problem.geometry.columns, problem.geometry.rank) == (2 + bias, 2)
    assert (run["max_iterations"], run["tolerance"], type(run["solver"])) == (most, 1e-20, Alternating)
    assert (run["stop"].threshold, run["stop"].window) == (1e-4, 3)
    assert (run["x0"].G is x[0], run["x0"].H is x[1]) == (True, True)
    trials.minimised(joint, x, 0.01)
    assert asked[1][1]["stop"].threshold == 0.01


def test_new_directions_start_above_the_weight_that_was_tried():
    found = Trials(full((6, 5)), True, 3)
    points = [fold.joint.started(*fold.joint.constant(), 1, 0)[1] for fold in found.folds]
    shrinkages = [Shrinkage(1.0 + k, 2.0) for k in range(len(points))]
    before = Trial(0.3, shrinkages, points, np.ones(2), 0.0, 1.0)
    largest, after = found.started(before, 3)
    tops = []
    for fold, own, x, (G, H) in zip(found.folds, shrinkages, points, after.points, strict=True):
        top, (A, B) = fold.joint.at(0.3, own).started(*x, 2, 3)
        tops.append(top)
        np.testing.assert_allclose(G @ H.T, A @ B.T, atol=1e-12)
        assert G.shape == (6, 4)
    assert largest == pytest.approx(np.mean(tops), rel=1e-12)


def test_without_offsets_nothing_is_fitted_beside_w_zero():
    found = Trials(full((6, 5)), False, 0)
    zero = found.offsets_alone()
    assert zero.fit == pytest.approx(np.mean([fold.joint.completion.value_at_zero for fold in found.folds]))
    assert {x[0].shape for x in zero.points} == {(6, 0)}


def test_what_is_predicted_of_entries_held_out_is_summed_in_double_precision(monkeypatch):
    seen = []
    monkeypatch.setattr(trials, "minimised", lambda joint, point: point)
    losses = trials.losses_of
    monkeypatch.setattr(trials, "losses_of", lambda *x: seen.append(x[2].dtype) or losses(*x))
    entries = rf.data.Triples(*np.indices((6, 5)).reshape(2, -1), np.arange(30.0), (6, 5))
    found = Trials(completion_of(entries, None, "square", "float32"), False, 0)
    seen.clear()
    points = [(np.ones((6, 2), np.float32), np.ones((5, 2), np.float32)) for _ in found.folds]
    found._fitted(0.5, [None] * len(points), points)
    assert set(seen) == {np.dtype("float64")}


class Part:
    """Entries of which a part says where the walk begins."""

    def __init__(self, size, shape=(40, 3)):
        self.observed, self.shape = SimpleNamespace(size=size), shape


def begun(monkeypatch, size, part, weight, best_first=False, bias=True, interrupted=False):
    """The tops of the walks, and what the chooser of the part was asked for."""
    asked, tops = [], []

    def sample_lines(completion, about, seed):
        asked.append((about, seed))
        return Part(part)

    def weight_at(self, rank, tell):
        asked.append((self.completion.observed.size, self.bias, self.given, self.seed, rank))
        return choosing.Choice(rank, weight, None, interrupted=interrupted)

    def walk(start, top):
        tops.append(top)
        losses = (1.0, 2.0) if best_first else (2.0, 1.0)
        return (Trial(top, [], [], np.full(2, loss), 0.0, 1.0) for loss in losses)

    monkeypatch.setattr(choosing, "sample_lines", sample_lines)
    monkeypatch.setattr(choosing, "MANY", 1000)
    chooser = choosing._Chooser(Part(size), bias, None, 7)
    monkeypatch.setattr(choosing._Chooser, "weight_at", weight_at)
    point = np.ones((40, 5)), np.ones((30, 5))
    start = Trial(np.inf, [], [point], np.ones(2), 0.0, 1.0)
    found = list(chooser._walk(SimpleNamespace(walk=walk), start, 100.0))
    assert len(found) == 2 * len(tops)
    return tops, asked


@pytest.mark.parametrize(("weight", "top"), [(4.9, 10.0), (0.0, 30.0), (60.0, 100.0)])
@pytest.mark.parametrize("bias", [True, False])
def test_of_many_entries_the_walk_begins_a_little_above_what_a_part_chose(monkeypatch, weight, top, bias):
    tops, asked = begun(monkeypatch, 1000, 500, weight, bias=bias)
    assert tops == [pytest.approx(top)]
    assert asked == [(200, 7), (500, bias, None, 7, 3)]  # no rank above the lesser side of the part


def test_a_walk_whose_first_weight_is_best_is_begun_again_from_the_largest(monkeypatch):
    assert begun(monkeypatch, 1000, 200, 4.9, best_first=True)[0] == [pytest.approx(10.0), 100.0]
    assert begun(monkeypatch, 1000, 200, 60.0, best_first=True)[0] == [100.0]


def test_few_entries_or_a_part_of_more_than_half_begin_at_the_largest(monkeypatch):
    assert begun(monkeypatch, 999, 200, 4.9) == ([100.0], [])
    assert begun(monkeypatch, 1000, 501, 4.9) == ([100.0], [(200, 7)])


def test_ctrl_c_while_a_part_is_looked_at_is_passed_on(monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        begun(monkeypatch, 1000, 200, 4.9, interrupted=True)


@pytest.mark.parametrize("given", [None, 0.25])
def test_what_was_chosen_is_the_best_trial_or_the_last_of_a_weight_given(given):
    joints = [Joint.of(full((5, 4)), 0.0, Shrinkage(2.0, 2.0)) for _ in range(2)]
    chooser = choosing._Chooser(full((5, 4)), True, given, 0)
    chooser.folds = [Fold(joint, f"test {k}", f"least {k}") for k, joint in enumerate(joints)]

    def trial(weight, *losses):
        point = np.full((5, 2), weight), np.full((4, 2), weight)
        own = [Shrinkage(1.0 * weight, 9.0), Shrinkage(4.0 * weight, 4.0)]
        return Trial(weight, own, [point, (point[0] + 1, point[1])], np.array(losses), 0.1 * weight, 1.0)

    tried = [trial(3.0, 5.0, 7.0), trial(1.0, 1.0, 2.0), trial(2.0, 3.0, 8.0)]
    found = chooser._chosen(6, tried, interrupted=False)
    best, weight = (tried[1], 1.0) if given is None else (tried[2], 0.25)
    assert (found.rank, found.weight, found.interrupted, found.rank_path) == (6, weight, False, None)
    assert found.shrinkage == pytest.approx((2.0 * best.weight, 6.0))
    assert found.point is best.points[0]
    assert [fold.joint.weight for fold, _ in found.folds] == [weight] * 2
    assert [fold.joint.shrinkage for fold, _ in found.folds] == best.shrinkages
    assert [(fold.test, fold.least) for fold, _ in found.folds] == [
        ("test 0", "least 0"),
        ("test 1", "least 1"),
    ]
    assert all(mine is theirs for (_, mine), theirs in zip(found.folds, best.points, strict=True))
    if given is not None:
        assert found.path is None
        return
    assert found.path.regularizations == (3.0, 2.0, 1.0)
    assert found.path.errors == (6.0, 5.5, 1.5)
    assert found.path.standard_errors == pytest.approx((1.0, 2.5, 0.5))
    assert found.path.chosen == 1.0
    judged = {4: tried[:2], 2: tried[::2]}
    path = choosing._rank_path(judged, 4)
    assert (path.ranks, path.errors, path.chosen) == ((2, 4), (5.5, 1.5), 4)
    assert path.standard_errors == pytest.approx((2.5, 0.5))
    assert path.fits == pytest.approx((0.2, 0.1))


@pytest.mark.parametrize("rank", [None, 2])
def test_interrupted_before_any_trial_the_choice_is_that_of_few_entries(rank):
    cost = full((5, 4))
    found = choosing._Chooser(cost, True, None, 0)._chosen(3, [], interrupted=True)
    assert (found.rank, found.interrupted, found.folds) == (3, True, ())
    few = rf.Completion([0, 1, 2, 3], [0, 1, 2, 0], [1.0, 3.0, 2.0, 5.0], (4, 3))
    found = choose(few, True, rank, None, 0, 0)
    assert (found.rank, found.shrinkage, found.path) == (rank or 3, Shrinkage(2.0, 2.0), None)


def test_offsets_alone_are_the_ridge_solution_of_a_shrinkage_of_the_sample(monkeypatch):
    cost, sample, asked = full((12, 9)), full((4, 4)), []
    design = np.zeros((108, 22))
    rows, cols = np.indices((12, 9)).reshape(2, -1)
    design[np.arange(108), rows] = design[np.arange(108), 12 + cols] = design[:, 21] = 1
    ridge = np.diag([1.5] * 12 + [0.4] * 9 + [0.0])
    due = np.linalg.solve(design.T @ design + ridge, design.T @ cost.observed.by_row.data[:, 0])
    rho = Shrinkage(1.5, 0.4)
    monkeypatch.setattr(choosing, "shrinkage_alone", lambda *given: asked.append(given) or rho)
    for some in (None, sample):
        mean, b, c = fit_offsets(cost, 3, some)
        np.testing.assert_allclose([*b, *c, mean], due, atol=1e-6)
    assert asked == [(cost, 3), (sample, 3)]


def test_the_shrinkage_of_offsets_alone_is_that_of_the_folds_if_any_entry_can_be_spared():
    cost = full((5, 3))
    assert shrinkage_alone(full((7, 2))) == trials.INITIAL
    assert shrinkage_alone(cost, 1) == choosing._mean(Trials(cost, True, 1).offsets_alone().shrinkages)


@pytest.mark.parametrize(
    ("many", "below", "above", "due"),
    [
        (1, {"falling": 8}, 13, 8),  # from so many entries on, ranks below are tried from above
        (2, {"lower": 8}, 13, 8),
        (2, {"lower": 6}, 13, 13),  # which is no better than the usual one
        (2, {"lower": 0}, 13, 13),
        (2, {}, 13, 10),  # interrupted
    ],
)
def test_the_rank_is_the_best_below_the_usual_one_or_else_from_there_on(monkeypatch, many, below, above, due):
    losses = {10: 2.0, 8: 1.0, 6: 2.0, 13: 0.5}
    trial = {
        rank: Trial(0.5, [], [(np.ones((40, 2)), np.ones((30, 2)))], np.full(4, loss), loss, 1.0)
        for rank, loss in losses.items()
    }
    zero = trial[10]._replace(weight=np.inf)
    made = SimpleNamespace(folds=["fold"], offsets_alone=lambda: zero)
    monkeypatch.setattr(choosing, "Trials", lambda completion, bias, seed: made)
    monkeypatch.setattr(choosing, "MANY", many)
    one = rf.Completion([0], [0], [1.0], (1, 1))
    object.__setattr__(one, "shape", (40, 30))
    chooser = choosing._Chooser(one, True, 0.5, 0)

    def judge(rank, trials, zero, before, tell):
        assert (rank, trials, before) == (10, made, None)
        chooser.judged |= {rank: [each] for rank, each in trial.items()}

    def search(name):
        def found(usual, trials, zero, tell):
            if name not in below:
                raise KeyboardInterrupt
            return below[name]

        return found

    chooser._judge, chooser._lower, chooser._falling = judge, search("lower"), search("falling")
    chooser._higher = lambda usual, trials, zero, tell: above
    monkeypatch.setattr(chooser, "_chosen", lambda rank, tried, stopped: choosing.Choice(
        rank, 0.5, None, point=tried[0].losses[0], interrupted=stopped), raising=False)  # fmt: skip
    found = chooser.rank_and_weight(0)
    assert (found.rank, found.point, found.interrupted) == (due, losses[due], not below)
    assert (found.rank_path.ranks, found.rank_path.chosen) == ((6, 8, 10, 13), due)
    assert chooser.folds == ["fold"]
