"""Whether features are used at all: entries held out must not be predicted worse with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import Joint
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
            return choice, estimated(*plain_fit(choice, cost, seed), traits)
        part: Any = slice(None) if sample is None else sample
        lines = (part, slice(None)) if cost.shape[0] >= cost.shape[1] else (slice(None), part)
        rows, cols = (None if Z is None else Z[some] for Z, some in zip(traits, lines, strict=True))
        tried = tried_out(choice, [(rows, cols)] * len(choice.folds))
    except KeyboardInterrupt:
        return choice._replace(interrupted=True), none
    good = [each for each in tried if each.certainty >= -_DOUBT]
    if not good:
        return choice, none
    return taken(good[0], choice, cost, traits)


def beside(expecting: Pair, more: Pair) -> Pair:
    """Return what is expected by either, of sides of which the other expects nothing."""
    rows, cols = (mine if new is None else new for mine, new in zip(expecting, more, strict=True))
    return rows, cols


class Tried(NamedTuple):
    """Fits to the folds with features of some sides: `gain` is by how much losses fall on average.

    `certainty` is that in standard errors; `sides` says which sides have features.
    """

    sides: tuple[bool, bool]
    found: list[Pair]
    folds: tuple[tuple[Fold, FactorPair], ...]
    gain: float
    certainty: float


def tried_out(choice: Choice, traits: list[TraitPair], apart: bool = False) -> list[Tried]:
    """Fit to the folds with their traits; where losses rise, or if asked (`apart`), with those of a side.

    The best comes first. Traits that say nothing are not tried, which leaves all as it was, to the last bit.
    """
    # From the same point, as far: how tightly a fit has converged matters, too.
    plain = [(fold, minimised(fold.joint, point)) for fold, point in choice.folds]
    found = [estimated(fold.joint, point, own) for (fold, point), own in zip(plain, traits, strict=True)]
    said = any(pair[0] for pair in found), any(pair[1] for pair in found)
    if not any(said):
        return []
    tried = [_tried(choice, plain, found, said)]
    if all(said) and (apart or tried[0].certainty < -_DOUBT):
        tried += [_tried(choice, plain, found, side) for side in ((True, False), (False, True))]
    return sorted(tried, key=lambda each: -each.gain)


def taken(tried: Tried, choice: Choice, cost: Completion, traits: TraitPair) -> tuple[Choice, Pair]:
    """Return the choice with features in its folds and its point, and what they make one expect of lines."""
    rows, cols = (Z if used else None for Z, used in zip(traits, tried.sides, strict=True))
    expecting = _for_all(tried.found, cost, (rows, cols))
    return choice._replace(point=tried.folds[0][1], folds=tried.folds), expecting


def _tried(choice: Choice, plain: Any, found: list[Pair], sides: tuple[bool, bool]) -> Tried:
    used = [(rows if sides[0] else None, cols if sides[1] else None) for rows, cols in found]
    folds = tuple(_refitted(*each, own) for each, own in zip(choice.folds, used, strict=True))
    gains = np.concatenate([_losses(*a) - _losses(*b) for a, b in zip(plain, folds, strict=True)])
    error = float(gains.std() / np.sqrt(gains.size))
    gain = float(gains.mean())
    return Tried(sides, used, folds, gain, gain / error if error else 0.0)


def plain_fit(choice: Choice, cost: Completion, seed: int) -> tuple[Joint, FactorPair]:
    """A fit without features, where nothing was held out."""
    joint = Joint.of(cost, choice.weight, choice.shrinkage)
    if choice.point is not None:
        return joint, joint.completed(*choice.point)
    _, start = joint.started(*minimised(joint, joint.constant()), choice.rank, seed)
    return joint, minimised(joint, start)


def estimated(joint: Joint, point: FactorPair, traits: TraitPair) -> Pair:
    """What traits make one expect, with the ridges that are most likely given a fit without them."""
    found: list[Expecting | None] = []
    for k, (Z, n) in enumerate(zip(traits, counts(joint.completion), strict=True)):
        if Z is None:
            found.append(None)
            continue
        rho = 1.0 if joint.shrinkage is None else joint.shrinkage[k]
        each = Expecting(Z, n)
        each = each.with_ridges(each.estimated(point[k], joint.bias, rho))
        found.append(None if each.idle else each)
    return found[0], found[1]


def _refitted(fold: Fold, point: FactorPair, expecting: Pair) -> tuple[Fold, FactorPair]:
    """Fit to a fold with what is expected, beside what was before."""
    joint = replace(fold.joint, expecting=beside(fold.joint.expecting, expecting))
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
