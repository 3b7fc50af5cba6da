"""Whether features are used at all: entries held out must not be predicted worse with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import Joint
from rankfold.estimators.completion.lines import FactorPair
from rankfold.estimators.completion.offsets import counts
from rankfold.estimators.completion.side.expecting import Expecting, Ridges, geometric_mean
from rankfold.estimators.completion.trials import Fold, minimised
from rankfold.selection.holding_out import losses_of

Floats = NDArray[Any]
Pair = tuple[Expecting | None, Expecting | None]
TraitPair = tuple[Floats | None, Floats | None]
# Standard errors by which losses must rise: lines with many entries have nothing to gain from features, and
# those without any, which nothing that is held out tells of, much.
_DOUBT = 2.0


def expectations(
    choice: Choice, cost: Completion, traits: TraitPair, sample: NDArray[Any] | None, seed: int
) -> tuple[Choice, Pair]:
    """Return the choice with features in its folds and its point, and what they make one expect of all lines.

    The fit without features says which ridges are most likely. `sample` says which lines of the longer side
    the folds of the choice have, None if all. Where these predict the entries held out clearly worse with
    features, those of one side alone are tried; where they still do, nothing is expected, and the choice
    stays.
    """
    none: Pair = (None, None)
    if choice.interrupted or all(Z is None for Z in traits):
        return choice, none
    try:
        if not choice.folds:
            return choice, _estimated(*_plain(choice, cost, seed), traits, (slice(None), slice(None)))
        part: Any = slice(None) if sample is None else sample
        lines = (part, slice(None)) if cost.shape[0] >= cost.shape[1] else (slice(None), part)
        # From the same point, as far: how tightly a fit has converged matters, too.
        plain = [(fold, minimised(fold.joint, point)) for fold, point in choice.folds]
        if not any(any(_estimated(fold.joint, point, traits, lines)) for fold, point in plain):
            return choice, none  # features that say nothing leave all as it was, to the last bit
        tried = [_tried(choice, plain, traits, lines)]
        if not tried[0].good and all(Z is not None for Z in traits):
            alone: list[TraitPair] = [(traits[0], None), (None, traits[1])]
            tried = [_tried(choice, plain, one, lines) for one in alone]
    except KeyboardInterrupt:
        return choice._replace(interrupted=True), none
    best = max(tried, key=lambda each: (each.good, each.gain))
    if not best.good:
        return choice, none
    return choice._replace(point=best.folds[0][1], folds=best.folds), _for_all(best.found, cost, best.traits)


class _Tried(NamedTuple):
    """Fits to the folds with some features, by how much they lower losses, and whether that is enough."""

    traits: TraitPair
    found: list[Pair]
    folds: tuple[tuple[Fold, FactorPair], ...]
    gain: float
    good: bool


def _tried(choice: Choice, plain: Any, traits: TraitPair, lines: tuple[Any, Any]) -> _Tried:
    found = [_estimated(fold.joint, point, traits, lines) for fold, point in plain]
    folds = tuple(_refitted(*each, own) for each, own in zip(choice.folds, found, strict=True))
    gains = np.concatenate([_losses(*a) - _losses(*b) for a, b in zip(plain, folds, strict=True)])
    good = bool(gains.mean() >= -_DOUBT * gains.std() / np.sqrt(gains.size))
    return _Tried(traits, found, folds, float(gains.mean()), good)


def _plain(choice: Choice, cost: Completion, seed: int) -> tuple[Joint, FactorPair]:
    """A fit without features, where nothing was held out."""
    joint = Joint.of(cost, choice.weight, choice.shrinkage)
    if choice.point is not None:
        return joint, joint.completed(*choice.point)
    _, start = joint.started(*minimised(joint, joint.constant()), choice.rank, seed)
    return joint, minimised(joint, start)


def _estimated(joint: Joint, point: FactorPair, traits: TraitPair, lines: tuple[Any, Any]) -> Pair:
    """What traits make one expect, with the ridges that are most likely given a fit without them."""
    found: list[Expecting | None] = []
    for k, (Z, n) in enumerate(zip(traits, counts(joint.completion), strict=True)):
        if Z is None:
            found.append(None)
            continue
        rho = 1.0 if joint.shrinkage is None else joint.shrinkage[k]
        each = Expecting(Z[lines[k]], n)
        each = each.with_ridges(each.estimated(point[k], joint.bias, rho))
        found.append(None if each.idle else each)
    return found[0], found[1]


def _refitted(fold: Fold, point: FactorPair, expecting: Pair) -> tuple[Fold, FactorPair]:
    """Fit to a fold with what is expected."""
    joint = replace(fold.joint, expecting=expecting)
    start = [
        X if each is None or joint.shrinkage is None else each.started(X, joint.bias, joint.shrinkage[k])
        for k, (X, each) in enumerate(zip(point, expecting, strict=True))
    ]
    return fold._replace(joint=joint), minimised(joint, (start[0], start[1]))


def _losses(fold: Fold, point: FactorPair) -> Floats:
    A, B = fold.joint.widened(*point)
    predicted = np.einsum("pk,pk->p", A[fold.test[0]], B[fold.test[1]], dtype=np.float64)
    return losses_of(fold.joint.completion, fold.test, predicted)


def _for_all(found: list[Pair], cost: Completion, traits: TraitPair) -> Pair:
    """What is expected of all lines, with the ridges that the folds agree on."""
    sides: list[Expecting | None] = []
    for k, (Z, n) in enumerate(zip(traits, counts(cost), strict=True)):
        ridges = geometric_mean([Ridges() if (each := pair[k]) is None else each.ridges for pair in found])
        whole = None if Z is None else Expecting(Z, n, ridges)
        sides.append(None if whole is None or whole.idle else whole)
    return sides[0], sides[1]
