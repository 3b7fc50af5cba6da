"""Which features are used: where entries held out say so, of one side or of both."""

import numpy as np
import pytest

import rankfold as rf
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.side import deciding
from rankfold.estimators.completion.side.deciding import expectations, plain_fit, tried_out
from rankfold.estimators.completion.trials import Fold, minimised

SHAPE = 30, 20
RNG = np.random.default_rng(0)
ROWS, COLS = RNG.standard_normal((30, 2)), RNG.standard_normal((20, 3))
I, J = np.nonzero(RNG.uniform(size=SHAPE) < 0.5)
VALUES = 3.0 + 2.0 * ROWS[I, 0] + COLS[J, 1] + 0.1 * RNG.standard_normal(I.size)
COST = rf.Completion(I, J, VALUES, SHAPE)
SHRINKAGE = Shrinkage(2.0, 2.0)


@pytest.fixture(scope="module")
def choice():
    """What was chosen by two folds, each of which was fitted without features."""
    folds = []
    for k in range(2):
        held = np.arange(I.size) % 8 == k
        joint = Joint.of(rf.Completion(I[~held], J[~held], VALUES[~held], SHAPE), 1.0, SHRINKAGE)
        _, start = joint.started(*minimised(joint, joint.constant()), 1, 0)
        test = I[held], J[held], VALUES[held][:, None]
        folds.append((Fold(joint, test, np.zeros(held.sum())), minimised(joint, start)))
    return Choice(1, 1.0, SHRINKAGE, point=folds[0][1], folds=tuple(folds))


def test_a_fit_without_features_goes_on_from_what_there_is(choice):
    joint, point = plain_fit(choice, COST, 0)
    assert (joint.weight, joint.shrinkage) == (1.0, SHRINKAGE)
    for found, due in zip(point, joint.completed(*choice.point), strict=True):
        np.testing.assert_array_equal(found, due)
    _, fitted = plain_fit(choice._replace(point=None), COST, 0)
    assert fitted[0].shape == (30, 2)
    assert joint.value(*fitted) < joint.value(*point)  # to the end, and not one sweep


def test_where_nothing_was_held_out_features_are_used(choice):
    chosen = choice._replace(folds=())
    same, (rows, cols) = expectations(chosen, COST, (ROWS, None), None, 0)
    assert same is chosen
    assert cols is None
    due = deciding.estimated(*plain_fit(chosen, COST, 0), (ROWS, None))[0]
    assert rows.ridges == due.ridges
    assert np.isfinite(rows.ridges.offset)


def test_without_features_or_after_ctrl_c_nothing_is_expected(choice, monkeypatch):
    assert expectations(choice, COST, (None, None), None, 0) == (choice, (None, None))
    stopped = choice._replace(interrupted=True)
    assert expectations(stopped, COST, (ROWS, COLS), None, 0) == (stopped, (None, None))

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(deciding, "tried_out", interrupted)
    found, expecting = expectations(choice, COST, (ROWS, COLS), None, 0)
    assert found.interrupted
    assert expecting == (None, None)


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (20, 20)])
def test_a_sample_has_the_features_of_its_lines_of_the_longer_side(choice, monkeypatch, shape):
    rows, cols, sample = np.eye(shape[0]), np.eye(shape[1]), np.array([3, 1, 4])
    cost, seen = rf.Completion(*np.argwhere(np.ones(shape)).T, np.ones(shape).ravel(), shape), []
    monkeypatch.setattr(deciding, "tried_out", lambda choice, traits: seen.extend(traits) or [])
    assert expectations(choice, cost, (rows, cols), sample, 0) == (choice, (None, None))
    assert len(seen) == 2
    for of_rows, of_cols in seen:
        np.testing.assert_array_equal(of_rows, rows if shape[0] < shape[1] else rows[sample])
        np.testing.assert_array_equal(of_cols, cols[sample] if shape[0] < shape[1] else cols)


def judged(monkeypatch, certainties, gains):
    """Trials of which each says how certain it is, by the sides that have features."""
    tried = []

    def told(choice, plain, found, sides):
        tried.append(sides)
        return deciding.Tried(sides, found, choice.folds, gains.get(sides, 0.0), certainties.get(sides, 0.0))

    monkeypatch.setattr(deciding, "_tried", told)
    return tried


BOTH, FIRST, SECOND = (True, True), (True, False), (False, True)


@pytest.mark.parametrize(
    ("traits", "certainty", "apart", "due"),
    [
        ((ROWS, COLS), 0.0, False, [BOTH]),
        ((ROWS, COLS), -2.0, False, [BOTH]),
        ((ROWS, COLS), -2.01, False, [BOTH, FIRST, SECOND]),
        ((ROWS, COLS), 5.0, True, [BOTH, FIRST, SECOND]),
        ((ROWS, None), -9.0, True, [FIRST]),
        ((None, COLS), -9.0, True, [SECOND]),
        ((None, None), -9.0, True, []),
    ],
)
def test_each_side_is_tried_alone_where_both_are_worse_or_that_is_asked(
    choice, monkeypatch, traits, certainty, apart, due
):
    tried = judged(
        monkeypatch, {BOTH: certainty, FIRST: certainty, SECOND: certainty}, {SECOND: 1.0, BOTH: 0.5}
    )
    found = tried_out(choice, [traits] * 2, apart)
    assert tried == due
    assert [each.sides for each in found] == sorted(due, key=[SECOND, BOTH, FIRST].index)


@pytest.mark.parametrize(
    ("first", "second", "due"),
    [
        ((ROWS, COLS), (ROWS, None), BOTH),
        ((ROWS, COLS), (None, COLS), BOTH),
        ((None, COLS), (ROWS, None), BOTH),
        ((None, COLS), (None, None), SECOND),
        ((None, None), (ROWS, None), FIRST),
    ],
)
def test_a_side_is_tried_where_its_features_say_something_in_any_fold(
    choice, monkeypatch, first, second, due
):
    tried = judged(monkeypatch, {}, {})
    tried_out(choice, [first, second])
    assert tried == [due]


@pytest.mark.parametrize(("certainty", "used"), [(-2.0, True), (-2.01, False)])
def test_what_is_clearly_worse_is_left_out(choice, monkeypatch, certainty, used):
    judged(monkeypatch, {FIRST: certainty}, {})
    found, (rows, cols) = expectations(choice, COST, (ROWS, None), None, 0)
    assert cols is None
    assert (rows is not None) == used
    assert (found is choice) != used


def test_the_gain_is_that_of_the_losses_of_entries_held_out(choice):
    (best,) = tried_out(choice, [(ROWS, COLS)] * 2)
    gains = []
    for (fold, point), (featured, other) in zip(choice.folds, best.folds, strict=True):
        losses = []
        for each, x in ((fold, minimised(fold.joint, point)), (featured, other)):
            G, H = x
            i, j, data = each.test
            predicted = np.sum(G[i, :-1] * H[j, :-1], axis=1) + G[i, -1] + H[j, -1]
            losses.append((predicted - data[:, 0]) ** 2)
        gains.append(losses[0] - losses[1])
    gains = np.concatenate(gains)
    assert best.gain == pytest.approx(gains.mean())
    assert best.certainty == pytest.approx(gains.mean() / (gains.std() / np.sqrt(gains.size)))


def test_no_gain_at_all_is_of_no_certainty(choice, monkeypatch):
    monkeypatch.setattr(deciding, "_losses", lambda fold, point: np.ones(5))
    (found,) = tried_out(choice, [(ROWS, None)] * 2)
    assert (found.gain, found.certainty) == (0.0, 0.0)
