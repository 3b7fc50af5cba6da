"""What entries held out say of the Bayesian finish: how many sweeps are best, and how sure it may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.bayes.beliefs import Beliefs, variances
from rankfold.estimators.completion.bayes.calibration import Calibration
from rankfold.estimators.completion.bayes.variational import State, Variational, products
from rankfold.estimators.completion.trials import Fold
from rankfold.run.display import Tell
from rankfold.selection.holding_out import Triples

Floats = NDArray[Any]
Folds = Sequence[tuple[Fold, FactorPair]]
# Sweeps tried at most, and how many in a row may be no better by a part that no user would notice. The first
# ones may be worse than the fit while the priors, which begin as narrow as the fit, find their size.
MOST, _PATIENCE, _NOTICED, _FEW = 20, 6, 1e-4, 3
# The losses of so many entries leave no doubt which sweep is better: patience is for the first ones alone.
# With as many, a sweep at rank 20 takes a quarter of the fit's time: all is to take three fits or less.
_SURE, _LITTLE_PATIENCE, _MOST_OF_MANY = 30_000, 3, 7
_BLOCK = 1 << 14  # entries whose covariances are gathered at a time


class Verdict(NamedTuple):
    """How many sweeps are best, 0 if the fit alone is; the losses held out; and the calibration.

    `path` has the mean losses after each number of sweeps that was tried.
    """

    sweeps: int
    losses: Floats
    calibration: Calibration | None
    path: tuple[float, ...] = ()


class _Best(NamedTuple):
    """The states after the number of sweeps that is best so far, and the errors that they held out."""

    sweeps: int
    states: list[State]
    errors: Floats
    loss: float


def judged(folds: Folds, least: int, tell: Tell, rival: Verdict | None = None) -> Verdict:
    """Sweep on each fold from its point; `least` is how many sweeps there must be.

    Who is not ahead of a rival after a few sweeps gives up.
    """
    models, states, tests, weights = _begun(folds)
    # With errors below the least noise there is, data are exact: all that sweeps could change is rounding.
    floor = float(np.mean([model.floor for model in models]))
    sure = weights.size >= _SURE
    most, patience = (_MOST_OF_MANY, _LITTLE_PATIENCE) if sure else (MOST, _PATIENCE)
    best: _Best | None = None
    path: list[float] = []
    for sweep in range(most + 1):
        errors = _errors(models, states, tests)
        loss = float(np.mean(weights * errors**2))
        path.append(loss)
        tell(f"sweep {sweep}  held-out loss {loss:.6g}")
        exact = best is not None and best.loss <= floor
        if sweep >= least and (best is None or (loss < (1 - _NOTICED) * best.loss and not exact)):
            best = _Best(sweep, states, errors, loss)
        in_vain = 0 if best is None else sweep - best.sweeps
        if exact or sweep == most or in_vain == patience or _behind(path, rival):
            break
        new = [model.swept(state) for model, state in zip(models, states, strict=True)]
        if not all(state.finite for state in new):
            break
        if best is not None and not sweep:  # the fit as it is, with the covariances that a sweep gives it
            best = best._replace(states=[unswept(*each) for each in zip(states, new, strict=True)])
        states = new
    if best is None or not best.states[0].swept:
        return Verdict(0, np.empty(0), None)
    seen, deviations = weights > 0, _deviations(models, best.states, tests)
    calibration = Calibration.of(best.errors[seen], deviations[seen])
    return Verdict(best.sweeps, weights * best.errors**2, calibration, tuple(path))


def errors_after(folds: Folds, sweeps: int) -> tuple[Floats, Floats]:
    """Return the errors of the entries held out after so many sweeps, and how far off they may be."""
    models, states, tests, weights = _begun(folds)
    for _ in range(max(sweeps, 1)):
        new = [model.swept(state) for model, state in zip(models, states, strict=True)]
        states = new if sweeps else [unswept(*each) for each in zip(states, new, strict=True)]
    seen = weights > 0
    return _errors(models, states, tests)[seen], _deviations(models, states, tests)[seen]


def _begun(folds: Folds) -> tuple[list[Variational], list[State], list[Triples], Floats]:
    """Models of the folds, their states at the points, the entries held out, and what these weigh."""
    joints, tests = [fold.joint for fold, _ in folds], [fold.test for fold, _ in folds]
    models = [Variational.of(each.completion.observed, each.bias, each.expecting) for each in joints]
    states = [model.start(point) for model, (_, point) in zip(models, folds, strict=True)]
    weights = np.concatenate([data[:, 1] if data.shape[1] == 2 else np.ones(len(data)) for *_, data in tests])
    return models, states, tests, weights


def _behind(path: list[float], rival: Verdict | None) -> bool:
    """Whether losses are no less than a rival's after as many sweeps, once these are a few."""
    return rival is not None and len(path) > _FEW and path[-1] >= min(rival.path[: len(path)])


def unswept(before: State, after: State) -> State:
    """Return a state with the means that it had before a sweep, and all else as after it."""
    rows, cols = (Beliefs(a.means, b.covariances) for a, b in zip(before.sides, after.sides, strict=True))
    return after._replace(sides=(rows, cols))


def variances_at(rows: Beliefs, cols: Beliefs, bias: bool, i: Floats, j: Floats) -> Floats:
    """Return the variances of b + c + u·v at positions of two sides."""
    found = np.empty(len(i))
    for first in range(0, len(i), _BLOCK):
        part = slice(first, first + _BLOCK)
        X, Z = Beliefs(*(a[i[part]] for a in rows)), Beliefs(*(a[j[part]] for a in cols))
        found[part] = variances(X, Z, bias)
    return found


def _errors(models: list[Variational], states: list[State], tests: list[Triples]) -> Floats:
    """How far off the entries held out of all folds are."""
    errors = []
    for model, (rows, cols), (i, j, data) in zip(models, (s.sides for s in states), tests, strict=True):
        means = products(rows.means[i], cols.means[j], model.bias)
        errors.append(data[:, 0] - model.centre - means)
    return np.concatenate(errors)


def _deviations(models: list[Variational], states: list[State], tests: list[Triples]) -> Floats:
    """How far off they may be."""
    found = [
        np.sqrt(variances_at(*state.sides, model.bias, i, j) + state.noise)
        for model, state, (i, j, _) in zip(models, states, tests, strict=True)
    ]
    return np.concatenate(found)
