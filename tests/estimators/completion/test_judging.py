"""What entries held out say of the sweeps: losses by weight, when to stop, and how sure a finish may be."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.estimators.completion.bayes import judging
from rankfold.estimators.completion.bayes.beliefs import Beliefs, square, variances
from rankfold.estimators.completion.bayes.calibration import Calibration
from rankfold.estimators.completion.bayes.judging import Verdict, errors_after, judged, unswept, variances_at
from rankfold.estimators.completion.bayes.variational import State, Variational, products
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.trials import Fold

SHAPE = 9, 7


def a_fold(seed, held, weighted=False, bias=True):
    """Entries at some places of a small matrix, others held out, and a point."""
    rng = np.random.default_rng(seed)
    values = 3.0 + rng.standard_normal((9, 1)) + rng.standard_normal((9, 1)) @ rng.standard_normal((1, 7))
    places = rng.permutation(63)
    i, j = np.unravel_index(places[:45], SHAPE)
    cost = rf.Completion(i, j, values[i, j] + 0.3 * rng.standard_normal(45), SHAPE)
    i, j = np.unravel_index(places[45 : 45 + held], SHAPE)
    data = values[i, j][:, None] + rng.standard_normal((held, 1))
    if weighted:
        data = np.column_stack([data, np.arange(held) % 4 / 2])
    joint = Joint.of(cost, 1.0, Shrinkage(2.0, 2.0) if bias else None)
    point = tuple(0.5 * rng.standard_normal((d, 1 + bias)) for d in SHAPE)
    return Fold(joint, (i, j, data), np.zeros(held)), point


def by_hand(folds, sweeps, weights):
    """Errors and their deviations, of entries that count, after so many sweeps."""
    errors, deviations = [], []
    for fold, point in folds:
        model = Variational.of(fold.joint.completion.observed, fold.joint.bias)
        states = [model.start(point)]
        for _ in range(max(sweeps, 1)):
            states.append(model.swept(states[-1]))
        i, j, data = fold.test
        rows, cols = states[sweeps].sides
        found = model.centre + products(rows.means[i], cols.means[j], model.bias)
        errors.append(data[:, 0] - found)
        sure = [side.covariances for side in states[-1].sides]
        rows, cols = (
            Beliefs(side.means[at], C[at]) for side, C, at in zip((rows, cols), sure, (i, j), strict=True)
        )
        deviations.append(np.sqrt(variances(rows, cols, model.bias) + states[-1].noise))
    here = np.asarray(weights) > 0
    return np.concatenate(errors), np.concatenate(errors)[here], np.concatenate(deviations)[here]


@pytest.mark.parametrize("weighted", [True, False])
def test_each_entry_held_out_counts_by_its_weight(weighted):
    folds = [a_fold(0, 5, weighted), a_fold(1, 8, weighted)]
    weights = np.concatenate([np.arange(n) % 4 / 2 if weighted else np.ones(n) for n in (5, 8)])
    told = []
    verdict = judged(folds, 1, told.append)
    losses = [np.mean(weights * by_hand(folds, sweeps, weights)[0] ** 2) for sweeps in range(4)]
    np.testing.assert_allclose(verdict.path[:4], losses, rtol=1e-10)
    assert told[:2] == [f"sweep {k}  held-out loss {losses[k]:.6g}" for k in (0, 1)]
    assert len(told) == len(verdict.path)
    assert verdict.sweeps >= 1
    errors, counted, deviations = by_hand(folds, verdict.sweeps, weights)
    np.testing.assert_allclose(verdict.losses, weights * errors**2, rtol=1e-9)
    due = Calibration.of(counted, deviations)
    assert (verdict.calibration.held_out, verdict.calibration.scale) == (
        due.held_out,
        pytest.approx(due.scale),
    )
    np.testing.assert_allclose(verdict.calibration.scores, due.scores, rtol=1e-9)


@pytest.mark.parametrize("sweeps", [0, 1, 2])
@pytest.mark.parametrize("bias", [True, False])
def test_errors_after_sweeps_are_those_of_the_same_sweeps(sweeps, bias):
    folds = [a_fold(2, 6, True, bias), a_fold(3, 3, True, bias)]
    found, deviations = errors_after(folds, sweeps)
    weights = np.concatenate([np.arange(n) % 4 / 2 for n in (6, 3)])
    _, errors, due = by_hand(folds, sweeps, weights)
    np.testing.assert_allclose(found, errors, rtol=1e-9)
    np.testing.assert_allclose(deviations, due, rtol=1e-9)
    assert found.dtype == np.float64
    assert len(found) == 6  # those with a weight


def test_errors_of_single_precision_are_compared_in_double():
    fold, point = a_fold(0, 5)
    i, j, data = fold.test
    test = i, j, data.astype(np.float32)
    found, _ = errors_after([(fold._replace(test=test), tuple(X.astype(np.float32) for X in point))], 0)
    assert found.dtype == np.float64


class Played:
    """A model whose state says, in place of the noise, how often it was swept."""

    bias, centre = False, 0.0

    def __init__(self, floor, last):
        self.floor, self.last = floor, last

    def begun(self):
        sides = (Beliefs(np.ones((1, 1)), np.zeros((1, 1))),) * 2
        return State(sides, (None, None), 0.0, 0.0, (0.0, 0.0))

    def swept(self, state):
        sides = tuple(Beliefs(side.means + 1, side.covariances + 1) for side in state.sides)
        error = np.nan if state.noise >= self.last else 0.0
        return state._replace(sides=sides, noise=state.noise + 1, error=error)


@pytest.fixture
def play(monkeypatch):
    """What is judged of sweeps after which each entry held out has these losses."""

    def played(losses, least=0, rival=None, floors=(0.0, 0.0), last=(99, 99), weights=(1.0, 1.0)):
        weights = np.asarray(weights)
        models = [Played(*each) for each in zip(floors, last, strict=True)]
        some = np.zeros(weights.size, int)
        tests = [(some, some, np.zeros((weights.size, 1)))] + [(some[:0], some[:0], np.zeros((0, 1)))] * (
            len(models) - 1
        )
        begun = models, [model.begun() for model in models], tests, weights
        monkeypatch.setattr(judging, "_begun", lambda folds: begun)
        monkeypatch.setattr(
            judging,
            "_errors",
            lambda models, states, tests: np.full(weights.size, np.sqrt(losses[int(states[0].noise)])),
        )
        return judged([], least, lambda _: None, rival)

    return played


@pytest.mark.parametrize(("part", "sweeps"), [(-5e-5, 0), (5e-5, 0), (2e-4, 1)])
def test_a_gain_that_no_user_would_notice_does_not_count(play, part, sweeps):
    assert play([4.0, 4.0 * (1 - part)] + [5.0] * 20).sweeps == sweeps


def test_a_gain_must_be_more_than_what_is_noticed(play, monkeypatch):
    monkeypatch.setattr(judging, "_NOTICED", 0.75)
    assert play([4.0, 1.0] + [5.0] * 20).sweeps == 0
    assert play([4.0, 0.81] + [5.0] * 20).sweeps == 1


@pytest.mark.parametrize(("loss", "sweeps", "looks"), [(0.249, 0, 2), (0.25, 0, 2), (0.251, 1, 3)])
def test_what_is_exact_but_for_rounding_is_left_as_it_is(play, loss, sweeps, looks):
    """Below the mean of the least noises no sweep is better, nor looked at."""
    found = play([loss, 0.0, 0.0, 0.0], floors=(0.1, 0.4))
    assert (found.sweeps, len(found.path)) == (sweeps, looks)


def test_patience_is_counted_from_the_least_sweeps_on(play):
    found = play([1.0, 2.0, 3.0] + [4.0] * 30, least=2)
    assert (found.sweeps, len(found.path)) == (2, 9)


@pytest.mark.parametrize(
    ("last", "least", "sweeps", "looks"),
    [((99, 2), 0, 2, 3), ((2, 99), 0, 2, 3), ((2, 2), 0, 2, 3), ((0, 0), 0, 0, 0), ((0, 99), 1, 0, 0)],
)
def test_sweeps_end_where_those_of_any_fold_are_not_finite(play, last, least, sweeps, looks):
    found = play([9.0, 8.0, 7.0, 6.0, 5.0], least, last=last)
    assert (found.sweeps, len(found.path)) == (sweeps, looks)
    if not looks:  # without covariances nothing is known
        assert found == Verdict(0, found.losses, None)
        assert found.losses.size == 0


def test_the_fit_as_it_is_has_the_covariances_of_the_first_sweep(play):
    one = play([1.0] + [2.0] * 9, floors=(0.0,), last=(99,))
    spread = 1.0 + 1.0 + 1.0  # of means and variances of 1, by the formula of products
    assert one.sweeps == 0
    np.testing.assert_allclose(one.calibration.scale * one.calibration.scores, 1.0 / np.sqrt(spread + 1.0))
    np.testing.assert_array_equal(one.losses, [1.0, 1.0])


def test_entries_without_weight_say_nothing_of_how_sure_it_is(play):
    found = play([1.0] + [2.0] * 9, weights=(0.0, 0.5, 2.0))
    assert found.calibration.held_out == 2
    np.testing.assert_allclose(found.losses, [0.0, 0.5, 2.0])
    assert found.path[0] == pytest.approx(2.5 / 3)


@pytest.mark.parametrize(("entries", "looks"), [(29_999, 7), (30_000, 4)])
def test_so_many_entries_leave_no_doubt(play, entries, looks):
    assert len(play([1.0] + [2.0] * 9, weights=np.ones(entries)).path) == looks


@pytest.mark.parametrize(("entries", "most"), [(2, 20), (30_000, 7)])
def test_so_many_sweeps_are_tried_at_most(play, entries, most):
    found = play([50.0 - sweep for sweep in range(40)], weights=np.ones(entries))
    assert (found.sweeps, len(found.path)) == (most, most + 1)


def test_a_rival_is_asked_for_the_best_that_it_had_by_then(play):
    rival = Verdict(3, np.ones(2), None, (9.0, 4.0, 6.0, 7.0, 1.0))
    assert len(play([8.0, 7.0, 6.5, 5.5, 0.5, 0.4], rival=rival).path) == 4
    assert len(play([8.0, 7.0, 6.5, 4.0, 0.5, 0.4], rival=rival).path) == 4  # no better
    assert len(play([8.0, 7.0, 6.5, 3.9, 3.0, 0.4], rival=rival).path) == 5
    assert len(play([9.0, 7.0, 9.5] + [4.0 - 0.1 * k for k in range(9)] + [5.0] * 9).path) > 6


def test_a_state_as_it_was_with_what_a_sweep_says_of_it():
    fold, point = a_fold(4, 3)
    model = Variational.of(fold.joint.completion.observed, True)
    before = model.start(point)
    after = model.swept(before)
    found = unswept(before, after)
    for side, was, now in zip(found.sides, before.sides, after.sides, strict=True):
        assert side.means is was.means
        assert side.covariances is now.covariances
    assert found[1:] == after[1:]


def test_variances_are_found_for_some_entries_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    rows, cols = (
        Beliefs(rng.standard_normal((n, 2)), np.tile([1.0, 0.2, 0.5], (n, 1)) * (1 + np.arange(n))[:, None])
        for n in (4, 3)
    )
    i, j = np.array([3, 0, 1, 1, 2, 3, 0]), np.array([0, 2, 1, 0, 2, 2, 1])
    monkeypatch.setattr(judging, "_BLOCK", 3)
    found = variances_at(rows, cols, True, i, j)
    for p in range(7):
        C, D = square(rows.covariances[i[p]], 2), square(cols.covariances[j[p]], 2)
        u, v = np.array([rows.means[i[p], 0], 1.0]), np.array([cols.means[j[p], 0], 1.0])
        assert found[p] == pytest.approx(v @ C @ v + u @ D @ u + C[0, 0] * D[0, 0])


def test_a_verdict_has_no_path_but_one_that_is_given():
    assert Verdict(2, np.ones(1), None).path == ()
