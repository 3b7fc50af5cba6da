"""Small data are held out in turn, once all is chosen, until enough errors say how wide intervals must be."""

from __future__ import annotations

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.bayes.calibration import ENOUGH
from rankfold.estimators.completion.bayes.judging import Verdict, errors_after
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.trials import Fold, Trials


def recalibrated(verdict: Verdict, choice: Choice, cost: Completion, seed: int) -> Verdict:
    """Return the verdict with errors of more folds, which are fitted and finished as was chosen.

    With features the verdict stays: what these make one expect is a matter of the folds that were judged.
    """
    known, expecting = verdict.calibration, choice.folds[0][0].joint.expecting
    if known is None or known.held_out >= ENOUGH or any(expecting):
        return verdict
    folds = _more_folds(choice, cost, seed)
    if not folds:
        return verdict
    errors, deviations = errors_after(folds, verdict.sweeps)
    if not np.isfinite([errors, deviations]).all():
        return verdict
    return verdict._replace(calibration=known.joined(errors, deviations))


def _more_folds(choice: Choice, cost: Completion, seed: int) -> list[tuple[Fold, FactorPair]]:
    """Folds that the choice did without, and what is found for each with what was chosen."""
    bias = choice.shrinkage is not None
    trials = Trials(cost, bias, seed, ENOUGH, first=len(choice.folds))
    if not trials.folds:
        return []
    trial = trials.offsets_alone()
    if choice.folds[0][1][0].shape[1] > bias:
        _, trial = trials.started(trial, choice.rank)
        *_, trial = trials.settled(trial, choice.weight)
    weight = choice.weight if np.isfinite(choice.weight) else 0.0
    found = zip(trials.folds, trial.shrinkages, trial.points, strict=True)
    return [(fold._replace(joint=fold.joint.at(weight, own)), point) for fold, own, point in found]
