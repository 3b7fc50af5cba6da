"""What entries held out are asked: the weight of the penalty, the shrinkage of offsets, the rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.costs.offsets import Offsets
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.estimators.completion.trials import INITIAL, RATIOS, Fold, Trial, Trials, minimised
from rankfold.run.display import Tell, progress
from rankfold.selection.rank import RankPath
from rankfold.selection.sampling import sample_lines

_MIN_ENTRIES = 15  # below it there is too little to hold out: the penalty is this part of λ_max
_DEFAULT_PART = 0.5
# The rank that others are compared with, and how many in a row may be no better. With a penalty, ratings lose
# little by a rank that is too high, and much by one that is too low; clean data of lower rank the other way.
USUAL_RANK, _RANK_PATIENCE = 10, 2
# From so many entries on, walks along λ cost seconds: a part of them says where to begin, and ranks below the
# usual one are tried from above, for as long as each is better than the one before.
MANY, _PART = 300_000, 5
_NOTHING = 1e-12  # of the loss of offsets alone: nothing is left to explain
_TIGHT = 1e-10


class Choice(NamedTuple):
    """What was chosen, the paths it was chosen from, and the point found with it on a part of the data.

    One factor of the point is that of all rows, or of all columns; the other one may be that of a sample.
    Without a point (or one without factors), W = 0 was best, or there was nothing to choose. `folds` are the
    parts of the data that were fitted, with what was chosen, and the point found for each.
    """

    rank: int
    weight: float
    shrinkage: Shrinkage | None
    point: FactorPair | None = None
    path: RegularizationPath | None = None
    rank_path: RankPath | None = None
    interrupted: bool = False
    folds: tuple[tuple[Fold, FactorPair], ...] = ()


def choose(
    completion: Completion, bias: bool, rank: int | None, weight: float | None, seed: int, verbose: int
) -> Choice:
    """Choose what is None, and the shrinkage of the offsets, by the loss of entries held out.

    Ctrl-C ends the choice: the best so far is what was chosen.
    """
    chooser = _Chooser(completion, bias, weight, seed)
    if completion.observed.size < _MIN_ENTRIES:
        return chooser.default(rank)
    if rank is None:
        return chooser.rank_and_weight(verbose)
    with progress(verbose, "choosing the regularization") as tell:
        return chooser.weight_at(rank, tell if weight is None else lambda _: None)


class _Chooser:
    """Fits to folds of a sample of the data."""

    def __init__(self, completion: Completion, bias: bool, given: float | None, seed: int):
        self.completion, self.bias, self.given, self.seed = completion, bias, given, seed
        self.judged: dict[int, list[Trial]] = {}
        self.folds: list[Fold] = []

    def default(self, rank: int | None) -> Choice:
        """Choose for data of which none can be spared."""
        joint = Joint.of(self.completion, 0.0, INITIAL if self.bias else None)
        largest, _ = joint.started(*minimised(joint, joint.constant()), 1, self.seed)
        weight = _DEFAULT_PART * largest if self.given is None else self.given
        return Choice(rank or min(USUAL_RANK, *self.completion.shape), weight, joint.shrinkage)

    def weight_at(self, rank: int, tell: Tell) -> Choice:
        """Choose λ, unless it is given, and the shrinkage, at a given rank."""
        tried: list[Trial] = []
        interrupted = False
        try:
            trials = Trials(self.completion, self.bias, self.seed)
            self.folds = trials.folds
            zero = trials.offsets_alone()
            largest, start = trials.started(zero, rank)
            tried = [zero._replace(weight=largest)]
            walk = self._walk(trials, start, largest)
            if self.given is not None:
                walk = trials.settled(start, self.given)
            tell(_told(tried[0]))
            for trial in walk:
                tried.append(trial)
                tell(_told(trial))
        except KeyboardInterrupt:
            interrupted = True
        return self._chosen(rank, tried, interrupted)

    def rank_and_weight(self, verbose: int) -> Choice:
        """Choose the rank, and λ unless it is given: the usual rank, unless another one is better."""
        usual, interrupted = min(USUAL_RANK, *self.completion.shape), False
        best = usual
        with progress(verbose, "choosing the rank") as tell:
            try:
                trials = Trials(self.completion, self.bias, self.seed)
                self.folds = trials.folds
                zero = trials.offsets_alone()
                self._judge(usual, trials, zero, None, tell)
                search = self._falling if self.completion.observed.size >= MANY else self._lower
                lower = search(usual, trials, zero, tell)
                if lower and _better(self._best(lower), self._best(usual)):
                    best = lower
                else:
                    best = self._higher(usual, trials, zero, tell)
            except KeyboardInterrupt:
                interrupted = True
        tried = self.judged.get(best, [])
        chosen = self._chosen(best, tried, interrupted)
        return chosen._replace(rank_path=_rank_path(self.judged, best) if self.judged else None)

    def _lower(self, usual: int, trials: Trials, zero: Trial, tell: Tell) -> int:
        """Return the best rank below the usual one, growing while the losses fall; 0 if there is none."""
        best = before = in_vain = 0
        for rank in _ranks(1, usual - 1):
            self._judge(rank, trials, zero, before or None, tell)
            if not best or _better(self._best(rank), self._best(best)):
                best, in_vain = rank, 0
            else:
                in_vain += 1
            if in_vain == _RANK_PATIENCE or self._best(rank).scale <= _NOTHING * zero.scale:
                break
            before = rank
        return best

    def _falling(self, usual: int, trials: Trials, zero: Trial, tell: Tell) -> int:
        """Return the best rank below the usual one, from above; 0 if the next one is no better."""
        best = usual
        for rank in reversed(list(_ranks(1, usual - 1))):
            if self._is_zero(best):
                break
            self._judge(rank, trials, zero, best, tell)
            if not _better(self._best(rank), self._best(best)):
                break
            best = rank
        return best if best < usual else 0

    def _walk(self, trials: Trials, start: Trial, largest: float) -> Iterator[Trial]:
        """Walk along λ from W = 0 on; of many entries, from a little above what a part of them chooses."""
        top, size = largest, self.completion.observed.size
        part = sample_lines(self.completion, size // _PART, self.seed) if size >= MANY else self.completion
        if part.observed.size <= size // 2:  # lines may be too few for a part of them
            rank = start.points[0][0].shape[1] - self.bias
            chooser = _Chooser(part, self.bias, None, self.seed)
            chosen = chooser.weight_at(min(rank, *part.shape), lambda _: None)
            if chosen.interrupted:
                raise KeyboardInterrupt
            top = min(chosen.weight / RATIOS[0] ** 2 or RATIOS[-2] * largest, largest)
        tried = []
        for trial in trials.walk(start, top):
            tried.append(trial)
            yield trial
        if top < largest and tried and _best(tried) is tried[0]:  # the best may lie above
            yield from trials.walk(start, largest)

    def _higher(self, usual: int, trials: Trials, zero: Trial, tell: Tell) -> int:
        """Return the best rank from the usual one on: the losses fall up to it."""
        best = usual
        for rank in _ranks(usual, min(self.completion.shape)):
            if rank == usual:
                continue
            if self._is_zero(best) or self._best(best).scale <= _NOTHING * zero.scale:
                break
            self._judge(rank, trials, zero, best, tell)
            if not _better(self._best(rank), self._best(best)):
                break
            best = rank
        return best

    def _is_zero(self, rank: int) -> bool:
        """Whether W = 0 was best."""
        return bool(self._best(rank).points[0][0].shape[1] == self.bias)

    def _best(self, rank: int) -> Trial:
        return _best(self.judged[rank])

    def _judge(self, rank: int, trials: Trials, zero: Trial, before: int | None, tell: Tell) -> None:
        """Walk along λ at a rank, from a little above its best at the rank before, less or greater."""
        last = zero if before is None or self._is_zero(before) else self._best(before)
        if before is not None and last is not zero and rank < before:
            largest, start = self.judged[before][0].weight, trials.shortened(last, rank)
        else:
            largest, start = trials.started(last, rank)
        if self.given is not None:
            tried = list(trials.settled(start, self.given))
        elif last is zero:
            tried = [zero._replace(weight=largest), *self._walk(trials, start, largest)]
        else:  # as the rank grows, the best λ may grow too; from 0, it may not
            top = last.weight / RATIOS[0] ** 2 or RATIOS[-2] * largest
            tried = list(trials.walk(start, top))
        self.judged[rank] = tried or [last]
        tell(f"rank {rank}  {_told(self._best(rank))}")

    def _chosen(self, rank: int, tried: list[Trial], interrupted: bool) -> Choice:
        if not tried:  # interrupted before anything was fitted
            return self.default(rank)._replace(interrupted=True)
        best = tried[-1] if self.given is not None else _best(tried)
        path = None
        if self.given is None:
            weights = {trial.weight: trial for trial in sorted(tried, key=lambda each: -each.weight)}
            errors = tuple(trial.error for trial in weights.values())
            deviations = tuple(trial.standard_error for trial in weights.values())
            path = RegularizationPath(tuple(weights), errors, best.weight, deviations)
        weight = best.weight if self.given is None else self.given
        shrinkage = _mean(best.shrinkages)
        folds = tuple(
            (fold._replace(joint=fold.joint.at(weight, own)), point)
            for fold, own, point in zip(self.folds, best.shrinkages, best.points, strict=True)
        )
        return Choice(rank, weight, shrinkage, best.points[0], path, None, interrupted, folds)


def fit_offsets(completion: Completion, seed: int = 0, sample: Completion | None = None) -> Offsets:
    """Fit offsets alone, with a shrinkage that entries held out tell, of a sample if one is given."""
    joint = Joint.of(completion, 0.0, shrinkage_alone(sample or completion, seed))
    return joint.split(*minimised(joint, joint.constant(), _TIGHT))[1]


def shrinkage_alone(completion: Completion, seed: int = 0) -> Shrinkage:
    """Return the shrinkage that entries held out tell of offsets alone."""
    if completion.observed.size < _MIN_ENTRIES:
        return INITIAL
    return _mean(Trials(completion, True, seed).offsets_alone().shrinkages) or INITIAL


def _best(tried: list[Trial]) -> Trial:
    return min(tried, key=lambda trial: trial.error)


def _better(new: Trial, old: Trial) -> bool:
    """Whether the losses fell by more than a standard error of their mean difference, entry by entry."""
    gains = old.losses - new.losses
    return bool(gains.mean() > gains.std() / np.sqrt(gains.size))


def _mean(shrinkages: list[Shrinkage | None]) -> Shrinkage | None:
    """The geometric mean over folds."""
    known = [np.log(shrinkage) for shrinkage in shrinkages if shrinkage is not None]
    return Shrinkage(*(float(rho) for rho in np.exp(np.mean(known, axis=0)))) if known else None


def _ranks(first: int, last: int) -> Iterator[int]:
    """From the first on: the next one, and by a third more where that is more."""
    rank = first
    while rank <= last:
        yield rank
        rank = max(rank + 1, round(1.3 * rank))


def _rank_path(judged: dict[int, list[Trial]], chosen: int) -> RankPath:
    best = {rank: _best(judged[rank]) for rank in sorted(judged)}
    errors = tuple(trial.error for trial in best.values())
    deviations = tuple(trial.standard_error for trial in best.values())
    return RankPath(tuple(best), errors, deviations, tuple(trial.fit for trial in best.values()), chosen)


def _told(trial: Trial) -> str:
    return f"λ {trial.weight:.4g}  held-out loss {trial.error:.6g}"
