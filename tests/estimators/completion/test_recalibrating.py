"""Small data are held out in turn: which of them, how they are fitted, and what their errors change."""

import numpy as np
import pytest

from estimators.completion.small_fits import a_choice, entries
from rankfold.estimators.completion.bayes import recalibrating
from rankfold.estimators.completion.bayes.calibration import ENOUGH, Calibration
from rankfold.estimators.completion.bayes.judging import Verdict
from rankfold.estimators.completion.bayes.recalibrating import recalibrated
from rankfold.estimators.completion.side.expecting import Expecting
from rankfold.estimators.completion.trials import Trials

KNOWN = Calibration.of(np.array([0.5, -1.0, 2.0]), np.ones(3))
MORE = np.array([1.0, -0.5]), np.array([2.0, 1.0])


@pytest.fixture
def asked(monkeypatch):
    """Let more folds be some, and what they say be known; tell what was asked."""
    calls = []
    monkeypatch.setattr(recalibrating, "_more_folds", lambda *given: calls.append(given) or ["folds"])
    monkeypatch.setattr(recalibrating, "errors_after", lambda *given: calls.append(given) or MORE)
    return calls


def verdict(calibration):
    return Verdict(4, np.ones(3), calibration)


def test_errors_of_more_folds_join_those_that_were_known(asked):
    choice, given = a_choice(), verdict(KNOWN)
    found = recalibrated(given, choice._replace(folds=choice.folds[:1]), "cost", 7)
    due = KNOWN.joined(*MORE)
    assert found.calibration.held_out == 5
    np.testing.assert_array_equal(found.calibration.scores, due.scores)
    assert (found.sweeps, found.losses) == (4, given.losses)
    assert asked[0][1:] == ("cost", 7)
    assert asked[1] == (["folds"], 4)


@pytest.mark.parametrize(("held_out", "more"), [(ENOUGH - 1, True), (ENOUGH, False)])
def test_of_enough_errors_no_more_are_made(asked, held_out, more):
    given = verdict(KNOWN._replace(held_out=held_out))
    assert (recalibrated(given, a_choice(), "cost", 7) is not given) == more
    assert bool(asked) == more


def test_without_errors_held_out_or_with_features_a_verdict_stays(asked):
    choice, given = a_choice(), verdict(None)
    assert recalibrated(given, choice, "cost", 7) is given
    some = Expecting(np.ones((9, 1)), np.ones(9))
    for expecting in ((some, None), (None, some)):
        folds = tuple((fold._replace(joint=entries(expecting=expecting)), x) for fold, x in choice.folds)
        given = verdict(KNOWN)
        assert recalibrated(given, choice._replace(folds=folds), "cost", 7) is given
    assert not asked


@pytest.mark.parametrize("bad", [0, 1])
def test_a_verdict_stays_where_there_are_no_more_folds_or_they_fail(asked, monkeypatch, bad):
    given, wrong = verdict(KNOWN), [part.copy() for part in MORE]
    wrong[bad][1] = np.nan
    monkeypatch.setattr(recalibrating, "errors_after", lambda *_: tuple(wrong))
    assert recalibrated(given, a_choice(), "cost", 7) is given
    monkeypatch.setattr(recalibrating, "_more_folds", lambda *_: [])
    monkeypatch.setattr(recalibrating, "errors_after", None)
    assert recalibrated(given, a_choice(), "cost", 7) is given


@pytest.mark.parametrize(("bias", "factors", "weight"), [(True, 1, 0.3), (False, 2, 0.3), (True, 0, np.inf)])
def test_more_folds_are_fitted_as_was_chosen(bias, factors, weight):
    cost, choice = entries(bias=bias).completion, a_choice(bias=bias, factors=factors, weight=weight, rank=2)
    found = recalibrating._more_folds(choice, cost, 3)
    trials = Trials(cost, bias, 3, ENOUGH, first=2)
    trial = trials.offsets_alone()
    if factors:
        _, trial = trials.started(trial, 2)
        *_, trial = trials.settled(trial, 0.3)
    assert len(found) == len(trials.folds) == 8
    assert trial.shrinkages != [fold.joint.shrinkage for fold in trials.folds] or not bias
    parts = zip(found, trials.folds, trial.shrinkages, trial.points, strict=True)
    for (fold, point), due, shrinkage, own in parts:
        np.testing.assert_array_equal(fold.test[2], due.test[2])
        assert (fold.joint.weight, fold.joint.shrinkage) == (0.3 if factors else 0.0, shrinkage)
        for X, Y in zip(point, own, strict=True):
            np.testing.assert_array_equal(X, Y)


def test_folds_that_were_judged_are_not_held_out_again():
    cost, choice = entries().completion, a_choice(factors=0)
    trials = Trials(cost, True, 3, ENOUGH, first=1)
    one = recalibrating._more_folds(choice._replace(folds=choice.folds[:1]), cost, 3)
    assert len(one) == 9
    for (fold, _), due in zip(one, trials.folds, strict=True):
        np.testing.assert_array_equal(fold.test[0], due.test[0])
    assert recalibrating._more_folds(choice._replace(folds=choice.folds * 5), cost, 3) == []
