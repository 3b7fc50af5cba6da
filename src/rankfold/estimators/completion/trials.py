"""Fits to folds of the data, with one weight of the penalty after the other, and the losses they held out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.entries.lines import FactorPair
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.estimators.completion.alternating import Alternating, Lines
from rankfold.estimators.completion.convex_lines import ConvexLines
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.shrinkage import estimated, noise_of
from rankfold.estimators.fitting import try_out
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.problem import Problem
from rankfold.run.stopping import RelativeChange
from rankfold.selection.holding_out import Triples, hold_out, losses_of
from rankfold.selection.rank import MAX_FREEDOM

# Candidates are W = 0, then λ_max times the products of these ratios, then 0: closer to each other where the
# best one usually is. The path ends when so many in a row lowered the held-out loss by less than a part of it
# that no user would notice, or when it has risen by more than another part. But W = 0 is left behind for
# longer: next to it a few large counts pull all of W their way, before a W that tells entries apart appears.
RATIOS = (0.7,) * 8 + (0.3,) * 5 + (0.0,)
_PATIENCE, _FIRST_PATIENCE, _NOTICED, _TOO_MUCH = 3, 8, 5e-4, 0.02
_HELD_OUT = 0.1
# Small data are split several times, so that at least so many entries are held out, if there are as many.
_ENOUGH = 300
# Until it is estimated: as if each line had two entries more that deviate by 0.
INITIAL = Shrinkage(2.0, 2.0)
_ROUNDS = 6  # of estimating the shrinkage beside a λ that is given
_NEXT_TO_NONE = 1e-8  # a ridge
# Loose: candidates are compared by an error that no longer changes in its fourth digit. Without a penalty,
# data that can be fitted exactly are, which takes longer.
_LOOSE, _ITERATIONS, _PLAIN_ITERATIONS, _EXACT = 1e-4, 40, 400, 1e-20


class Trial(NamedTuple):
    """A fit to each fold, and the losses of the entries that it held out."""

    weight: float
    shrinkages: list[Shrinkage | None]
    points: list[FactorPair]
    losses: NDArray[np.float64]
    fit: float
    scale: float  # by how much the losses are above the least ones, in which unit they are compared

    @property
    def error(self) -> float:
        """Return the mean loss of the entries held out."""
        return float(self.losses.mean())

    @property
    def standard_error(self) -> float:
        """Return the standard error of that mean."""
        return float(self.losses.std(ddof=1) / np.sqrt(self.losses.size))


class Fold(NamedTuple):
    """What is fitted, the entries held out, and the least losses that they could have."""

    joint: Joint
    test: Triples
    least: NDArray[np.float64]


class Trials:
    """Fits to folds of the data: so many that `enough` entries are held out, from the fold `first` on."""

    def __init__(
        self, completion: Completion, bias: bool, seed: int, enough: int = _ENOUGH, first: int = 0
    ) -> None:
        self.bias, self.seed = bias, seed
        self.folds = _split(completion, bias, seed, enough, first)

    def offsets_alone(self) -> Trial:
        """Fit offsets, and estimate their shrinkage, until the two agree."""
        points = [fold.joint.constant() for fold in self.folds]
        shrinkages = [fold.joint.shrinkage for fold in self.folds]
        trial = self._fitted(np.inf, shrinkages, points)
        for _ in range(_ROUNDS):
            before, trial = trial, self._fitted(np.inf, trial.shrinkages, trial.points)
            if _agree(before.shrinkages, trial.shrinkages):
                break
        return trial

    def started(self, trial: Trial, rank: int) -> tuple[float, Trial]:
        """Return λ_max beside what the trial explains, and the trial with new directions up to the rank."""
        largest, points = [], []
        for fold, (G, H), shrinkage in zip(self.folds, trial.points, trial.shrinkages, strict=True):
            weight = 0.0 if np.isinf(trial.weight) else trial.weight
            joint = fold.joint.at(weight, shrinkage)
            more = rank + int(self.bias) - G.shape[1]
            top, point = joint.started(G, H, more, self.seed)
            largest.append(top)
            points.append(point)
        return float(np.mean(largest)), trial._replace(points=points)

    def shortened(self, trial: Trial, rank: int) -> Trial:
        """Return the trial with the first directions of W alone, up to the rank."""
        pairs = zip(self.folds, trial.points, strict=True)
        return trial._replace(points=[fold.joint.shortened(*x, rank) for fold, x in pairs])

    def walk(self, start: Trial, top: float) -> Iterator[Trial]:
        """Fit with one weight after the other, each fit from where the last one ended."""
        trial, weight, best, in_vain = start, top, start, 0
        for ratio in RATIOS if top else ():
            weight *= ratio
            if not weight and not self._determined(trial):
                return
            points = [fold.joint.lifted(*x) for fold, x in zip(self.folds, trial.points, strict=True)]
            trial = self._fitted(weight, trial.shrinkages, points)
            yield trial
            in_vain = 0 if trial.error < best.error - _NOTICED * best.scale else in_vain + 1
            worse = trial.error > best.error + _TOO_MUCH * best.scale
            if in_vain >= _FIRST_PATIENCE or (np.isfinite(best.weight) and (in_vain >= _PATIENCE or worse)):
                return
            best = min(best, trial, key=lambda each: each.error)

    def _determined(self, trial: Trial) -> bool:
        """Whether entries could determine W without a penalty, so that a fit is worth its many iterations."""
        rank, completion = trial.points[0][0].shape[1] - self.bias, self.folds[0].joint.completion
        return bool(rank * (sum(completion.shape) - rank) <= MAX_FREEDOM * completion.observed.size)

    def settled(self, start: Trial, given: float) -> Iterator[Trial]:
        """Fit with the weight given, until the shrinkage of the offsets no longer changes."""
        trial = start
        for _ in range(_ROUNDS if self.bias else 1):
            before, trial = (
                trial.shrinkages,
                self._fitted(given, trial.shrinkages, trial.points),
            )
            yield trial
            if _agree(before, trial.shrinkages):
                return

    def _fitted(self, weight: float, shrinkages: list[Shrinkage | None], points: list[FactorPair]) -> Trial:
        """Fit to each fold, and estimate the shrinkage anew."""
        found, estimates, losses, fits = [], [], [], []
        for fold, shrinkage, point in zip(self.folds, shrinkages, points, strict=True):
            joint = fold.joint.at(0.0 if np.isinf(weight) else weight, shrinkage)
            x = minimised(joint, point)
            A, B = joint.widened(*x)
            predicted = np.einsum("pk,pk->p", A[fold.test[0]], B[fold.test[1]], dtype=np.float64)
            losses.append(losses_of(joint.completion, fold.test, predicted))
            fits.append(joint.completion.value(A, B) if A.shape[1] else joint.completion.value_at_zero)
            found.append(x)
            estimates.append(shrinkage and estimated(joint, x, noise_of(joint, x, fold.test, predicted)))
        each = np.concatenate(losses)
        scale = float((each - np.concatenate([fold.least for fold in self.folds])).mean())
        return Trial(weight, estimates, found, each, float(np.mean(fits)), scale)


def _split(completion: Completion, bias: bool, seed: int, enough: int, first: int) -> list[Fold]:
    size = completion.observed.size
    folds = min(-(-enough // max(round(_HELD_OUT * size), 1)), round(1 / _HELD_OUT))
    found = []
    for fold in range(first, folds):
        train, test = hold_out(completion, max(_HELD_OUT, 2 / size), seed, fold)
        if len(test[0]):  # few entries are used up before so many folds
            joint = Joint.of(train, 0.0, INITIAL if bias else None)
            found.append(Fold(joint, test, losses_of(train, test, _nearest(train.loss, test[2][:, 0]))))
    return found


def _nearest(loss: Loss, y: NDArray[Any]) -> NDArray[np.float64]:
    """Return the w for which ℓ(w, y) is least, about: it may be at infinity."""
    if loss.is_square:
        return y.astype(np.float64)
    values, places = np.unique(y, return_inverse=True)
    alone = SortedEntries(
        np.arange(values.size + 1, dtype=np.uint64), np.zeros(values.size, np.uint16),
        values.astype(np.float64)[:, None], np.array([0, values.size], dtype=np.uint64), 1,
    )  # fmt: skip
    ridges = np.full((values.size, 1), _NEXT_TO_NONE)
    return np.asarray(ConvexLines(alone, loss, np.ones((1, 1)), ridges).minimised()[places, 0])


def minimised(joint: Joint, x: FactorPair, tol: float = _LOOSE) -> FactorPair:
    """Minimise from x on, until three iterations lower the value by no more than `tol` of it."""
    width = x[0].shape[1]
    if not width:
        return x
    problem = Problem(joint, Lines(joint.shape, width, joint.bias))
    limit = _ITERATIONS if joint.weight else _PLAIN_ITERATIONS
    run: dict[str, Any] = {
        "max_iterations": limit,
        "tolerance": _EXACT,
        "stop": RelativeChange(tol, window=3),
    }
    G, H = try_out(problem, solver=Alternating(), x0=FullRankFactors(*x), **run).x
    return G, H


def _agree(before: list[Shrinkage | None], now: list[Shrinkage | None]) -> bool:
    """Whether no shrinkage changed by more than a tenth (or all are none)."""
    old, new = (np.log([shrinkage for shrinkage in each if shrinkage]) for each in (before, now))
    return np.allclose(old, new, rtol=0.0, atol=0.1)
