"""What clicks held out are asked, by where they come in the lists: the weight of the penalty, the rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.entries.lines import FactorPair
from rankfold.estimators.clicks.objective import Clicks
from rankfold.estimators.completion.alternating import Alternating, Lines
from rankfold.estimators.completion.neighbours import forget, largest
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.regularization_path import RegularizationPath
from rankfold.estimators.fitting import try_out
from rankfold.estimators.rank_errors import RankErrors
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.problem import Problem
from rankfold.run.display import Tell, progress
from rankfold.run.stopping import RelativeChange
from rankfold.selection.holding_out import hold_out
from rankfold.selection.ranking import judged, ndcg

PLACES = 20  # of a list that count
# With a penalty that is right, more rank does no harm but for the time it takes: the first rank is quick, and
# shows about where that penalty is.
RANKS = 32, 128
_HELD_OUT, _MIN_ENTRIES, _MAX_USERS = 0.1, 20, 4000
# Of λ_max: the first one tried, and the one for data of which none can be spared.
_FIRST_PART, _DEFAULT_PART = 0.35, 0.1
_RATIO = 0.7
# Loose: lists no longer change by what more iterations find.
_TOL, _ITERATIONS = 1e-3, 20


class Trial(NamedTuple):
    """A fit to a part of the clicks, and how good the lists of each user were."""

    weight: float
    point: FactorPair
    qualities: NDArray[np.float64]

    @property
    def error(self) -> float:
        """Return 1 − NDCG."""
        return 1 - float(self.qualities.mean())

    @property
    def standard_error(self) -> float:
        """Return the standard error of that mean."""
        return float(self.qualities.std() / np.sqrt(self.qualities.size))


class Choice(NamedTuple):
    """What was chosen, from which paths, and the point found with it; None if nothing was tried."""

    rank: int
    weight: float
    point: FactorPair | None = None
    path: RegularizationPath | None = None
    rank_path: RankErrors | None = None
    interrupted: bool = False


def list_qualities(
    factors: FactorPair, seen: Pattern, test: tuple[NDArray[Any], NDArray[Any]], places: int = PLACES
) -> NDArray[np.float64]:
    """Return the NDCG of the lists of all users who have pairs in `test`, of items they have not seen.

    An item beyond the factors is one that no list has.
    """
    L, R = factors
    users, numbers = np.unique(test[0], return_inverse=True)

    def scores(part: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = (L[part] @ R.T).astype(np.float64)
        forget(found, part, seen)
        return found

    query, place, _ = largest(users, len(R), places, scores)
    shape = len(users), max(len(R), int(test[1].max()) + 1)
    return ndcg(judged(shape, (numbers, test[1], np.ones(len(numbers))), (query, place), places))


def choose(
    completion: Completion, rank: int | None, weight: float | None, seed: int, verbose: int,
    shape: tuple[int, int],
) -> Choice:  # fmt: skip
    """Choose what is None by a tenth of the clicks, held out; Ctrl-C ends the choice with the best so far.

    The clicks may be those of some lines of a matrix; `shape` is that of all of it, and λ is for all of it.
    """
    chooser = _Chooser(completion, weight, seed, shape)
    if chooser.test is None:
        return chooser.default(rank)
    judged: dict[int, list[Trial]] = {}
    interrupted = False
    with progress(verbose, "choosing the regularization" if rank else "choosing the rank") as tell:
        try:
            chooser.judge((rank,) if rank else _ranks(completion.shape), judged, tell)
        except KeyboardInterrupt:
            interrupted = True
    if not any(judged.values()):
        raise KeyboardInterrupt  # there is no model yet
    return _chosen(judged, rank, weight, interrupted)


class _Chooser:
    """Fits to nine tenths of the clicks."""

    def __init__(
        self, completion: Completion, given: float | None, seed: int, shape: tuple[int, int]
    ) -> None:
        self.completion, self.given, self.seed = completion, given, seed
        self.test: tuple[NDArray[Any], NDArray[Any]] | None = None
        if completion.observed.size >= _MIN_ENTRIES:
            train, (rows, cols, data) = hold_out(completion, _HELD_OUT, seed)
            kept = data[:, 1] > 0  # a pair without a click is no item to find
            kept &= np.isin(rows, np.random.default_rng(seed).permutation(np.unique(rows))[:_MAX_USERS])
            if kept.any():
                self.test = rows[kept], cols[kept]
                self.cost, self.seen = Clicks.of(train), Pattern.of(train.observed.plain.by_row)
                self.share = self.cost.share_of(shape)

    def default(self, rank: int | None) -> Choice:
        """Choose for data of which none can be spared."""
        largest, _ = Clicks.of(self.completion).started(1, self.seed)
        weight = _DEFAULT_PART * largest if self.given is None else self.given
        return Choice(rank or min(RANKS[0], *self.completion.shape), weight)

    def judge(self, ranks: tuple[int, ...], tried: dict[int, list[Trial]], tell: Tell) -> None:
        """Try ranks until one is worse, and λ at each, first from the top, then near the last one."""
        before: Trial | None = None
        for rank in ranks:
            top, point = self.cost.started(rank, self.seed)
            first, patience = _FIRST_PART * top / self.share, 2
            if before is not None:
                first, patience = before.weight / _RATIO**2, 1
            tried[rank] = trials = []
            for trial in self._walk(point, first, patience):
                trials.append(trial)
                tell(f"rank {rank}  λ {trial.weight:.4g}  held-out NDCG@{PLACES} {1 - trial.error:.4f}")
            best = _best(trials)
            if before is not None and _worse(best, before):
                return
            before = best

    def _walk(self, start: FactorPair, first: float, patience: int) -> Iterator[Trial]:
        """Fit with one λ after the other, from where the last one ended: down, and up if that is in vain."""
        if self.given is not None:
            yield self._trial(self.given, start)
            return
        best = trial = top = self._trial(first, start)
        yield trial
        in_vain = 0
        while in_vain < patience:
            trial = self._trial(trial.weight * _RATIO, trial.point)
            yield trial
            best, in_vain = (trial, 0) if trial.error < best.error else (best, in_vain + 1)
        while best is top:
            top = self._trial(top.weight / _RATIO, top.point)
            yield top
            best = _best([best, top])
        for ratio in (_RATIO**0.5, _RATIO**-0.5):  # and half a step to either side
            yield self._trial(best.weight * ratio, best.point)

    def _trial(self, weight: float, point: FactorPair) -> Trial:
        cost = self.cost.at(weight * self.share)
        point = minimised(cost, cost.joint.lifted(*point))
        return Trial(weight, point, self._qualities(point))

    def _qualities(self, point: FactorPair) -> NDArray[np.float64]:
        assert self.test is not None
        return list_qualities(point, self.seen, self.test)


def minimised(cost: Clicks, point: FactorPair) -> FactorPair:
    """Minimise from a point on, as far as lists need it."""
    problem = Problem(cost, Lines(cost.shape, point[0].shape[1], bias=False))
    run: dict[str, Any] = {"max_iterations": _ITERATIONS, "stop": RelativeChange(_TOL, window=3)}
    G, H = try_out(problem, solver=Alternating(), x0=FullRankFactors(*point), tolerance=0.0, **run).x
    return G, H


def _ranks(shape: tuple[int, int]) -> tuple[int, ...]:
    """Return the ranks to try, up to the largest that such a matrix has."""
    return tuple(sorted({min(rank, *shape) for rank in RANKS}))


def _best(trials: list[Trial]) -> Trial:
    return min(trials, key=lambda trial: trial.error)


def _worse(new: Trial, old: Trial) -> bool:
    """Whether lists got worse by more than a standard error of the mean difference, user by user."""
    losses = old.qualities - new.qualities
    return bool(losses.mean() > losses.std() / np.sqrt(losses.size))


def _chosen(
    judged: dict[int, list[Trial]], given: int | None, weight: float | None, interrupted: bool
) -> Choice:
    tried = {rank: trials for rank, trials in judged.items() if trials}
    chosen, *others = tried
    for rank in others:
        if not _worse(_best(tried[rank]), _best(tried[chosen])):
            chosen = rank
    best, path, ranks = _best(tried[chosen]), None, None
    if weight is None:
        weights = {trial.weight: trial for trial in tried[chosen]}
        errors = tuple(trial.error for trial in weights.values())
        spread = tuple(trial.standard_error for trial in weights.values())
        path = RegularizationPath(tuple(weights), errors, best.weight, spread)
    if given is None:
        each = [_best(trials) for trials in tried.values()]
        deviations = tuple(trial.standard_error for trial in each)
        ranks = RankErrors(tuple(tried), tuple(trial.error for trial in each), deviations, chosen)
    return Choice(chosen, best.weight, best.point, path, ranks, interrupted)
