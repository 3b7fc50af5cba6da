"""What entries held out are asked: the weight of the penalty, the shrinkage of offsets, the rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankfold.costs.completion import Completion
from rankfold.costs.offsets import Offsets
from rankfold.estimators.completion.alternating import Alternating, Lines
from rankfold.estimators.completion.joint import Joint, Shrinkage
from rankfold.estimators.completion.lines import FactorPair
from rankfold.estimators.completion.shrinkage import estimated, noise_of
from rankfold.estimators.fitting import try_out
from rankfold.geometry.full_rank import FullRankFactors
from rankfold.problem import Problem
from rankfold.run.display import Tell, progress
from rankfold.run.stopping import RelativeChange
from rankfold.selection.holding_out import Triples, hold_out, losses_of
from rankfold.selection.paths import axes_or_new, marked, table
from rankfold.selection.rank import RankPath, largest_rank

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Candidates are W = 0, then λ_max times the products of these ratios, then 0: closer to each other where the
# best one usually is. The path ends when so many in a row lowered the held-out loss by less than a part of it
# that no user would notice, or when it has risen by more than another part.
_RATIOS = (0.7,) * 8 + (0.3,) * 5 + (0.0,)
_PATIENCE, _NOTICED, _TOO_MUCH = 3, 5e-4, 0.02
_HELD_OUT = 0.1
# Small data are split several times, so that at least so many entries are held out, if there are as many.
_ENOUGH = 300
_MIN_ENTRIES = 15  # below it there is too little to hold out: the penalty is this part of λ_max
_DEFAULT_PART = 0.5
# Until it is estimated: as if each line had two entries more that deviate by 0.
INITIAL = Shrinkage(2.0, 2.0)
_ROUNDS = 6  # of estimating the shrinkage beside a λ that is given
# Loose: candidates are compared by an error that no longer changes in its fourth digit. Without a penalty,
# data that can be fitted exactly are, which takes longer.
_LOOSE, _ITERATIONS, _PLAIN_ITERATIONS, _EXACT = 1e-4, 40, 400, 1e-20
_RANK_PATIENCE = 3
_TIGHT = 1e-10


@dataclass(frozen=True)
class RegularizationPath:
    """Held-out error by the weight of the penalty, and the weight chosen from it.

    Attributes
    ----------
    regularizations, errors
        The weights λ tried, from the largest on, and the mean loss of the held-out entries at each. The first
        is the least λ that leaves W = 0: offsets alone.
    chosen
        The λ with the smallest error.

    Examples
    --------
    >>> print(RegularizationPath((2.0, 1.4), (0.5, 0.25), 1.4))
    regularization  held-out error
                 2             0.5
               1.4            0.25 <- chosen
    """

    regularizations: tuple[float, ...]
    errors: tuple[float, ...]
    chosen: float

    def __str__(self) -> str:
        columns = self.regularizations, self.errors
        return table("regularization  held-out error", "{:14.6g}  {:14.6g}", columns, self.chosen)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the errors over the weight, on a logarithmic axis (with a place for 0, if it was tried)."""
        ax = axes_or_new(ax)
        ax.plot(self.regularizations, self.errors, "o-", label="held out")
        marked(ax, self.chosen, f"{self.chosen:.4g}", xlabel="regularization", ylabel="mean loss")
        positive = [weight for weight in self.regularizations if weight > 0]
        if len(positive) == len(self.regularizations):
            ax.set_xscale("log")
        else:
            ax.set_xscale("symlog", linthresh=min(positive, default=1.0))
        return ax


class Choice(NamedTuple):
    """What was chosen, the paths it was chosen from, and the point found with it on a part of the data.

    One factor of the point is that of all rows, or of all columns; the other one may be that of a sample.
    Without a point (or one without factors), W = 0 was best, or there was nothing to choose.
    """

    rank: int
    weight: float
    shrinkage: Shrinkage | None
    point: FactorPair | None = None
    path: RegularizationPath | None = None
    rank_path: RankPath | None = None
    interrupted: bool = False


class _Trial(NamedTuple):
    """A fit to each fold, and the losses of the entries that it held out."""

    weight: float
    shrinkages: list[Shrinkage | None]
    points: list[FactorPair]
    losses: NDArray[np.float64]
    fit: float

    @property
    def error(self) -> float:
        return float(self.losses.mean())


class _Fold(NamedTuple):
    joint: Joint
    test: Triples


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

    def default(self, rank: int | None) -> Choice:
        """Choose for data of which none can be spared."""
        joint = Joint.of(self.completion, 0.0, INITIAL if self.bias else None)
        largest, _ = joint.started(*minimised(joint, joint.constant()), 1, self.seed)
        weight = _DEFAULT_PART * largest if self.given is None else self.given
        return Choice(rank or 1, weight, joint.shrinkage)

    def weight_at(self, rank: int, tell: Tell) -> Choice:
        """Choose λ, unless it is given, and the shrinkage, at a given rank."""
        tried: list[_Trial] = []
        interrupted = False
        try:
            self.split()
            zero = self.offsets_alone()
            largest, start = self._started(zero, rank)
            tried = [zero._replace(weight=largest)]
            walk = self._settled(start) if self.given is not None else self._walk(start, largest)
            tell(_told(tried[0]))
            for trial in walk:
                tried.append(trial)
                tell(_told(trial))
        except KeyboardInterrupt:
            interrupted = True
        return self._chosen(rank, tried, interrupted)

    def rank_and_weight(self, verbose: int) -> Choice:
        """Choose the rank, and λ unless it is given, at each rank from where it was best at the last one."""
        judged: dict[int, list[_Trial]] = {}
        best, interrupted = 0, False
        with progress(verbose, "choosing the rank") as tell:
            try:
                self.split()
                zero = self.offsets_alone()
                for rank in _ranks(largest_rank(self.folds[0].joint.completion)):
                    judged[rank] = self._tried_at(rank, zero, judged)
                    error = _best(judged[rank]).error
                    tell(f"rank {rank}  {_told(_best(judged[rank]))}")
                    if not best or _better(_best(judged[rank]), _best(judged[best])):
                        best = rank
                    worse = sum(later > best for later in judged)
                    if worse >= _RANK_PATIENCE or not error:
                        break
            except KeyboardInterrupt:
                interrupted = True
        chosen = self._chosen(best or 1, judged.get(best, []), interrupted)
        return chosen._replace(rank_path=_rank_path(judged, best) if judged else None)

    def _tried_at(self, rank: int, zero: _Trial, judged: dict[int, list[_Trial]]) -> list[_Trial]:
        """Walk along λ at a rank, from a little above the best λ of the rank before."""
        before = _best(judged[max(judged)]) if judged else zero
        if before.points[0][0].shape[1] == self.bias:  # W = 0 was best
            before = zero
        largest, start = self._started(before, rank)
        if self.given is not None:
            return list(self._settled(start))
        if before is zero:
            return [zero._replace(weight=largest), *self._walk(start, largest)]
        # As the rank grows, the best λ may grow too; from 0, it may not.
        return [before, *self._walk(start, before.weight / _RATIOS[0] ** 2 or _RATIOS[-2] * largest)]

    def split(self) -> None:
        size = self.completion.observed.size
        folds = min(-(-_ENOUGH // max(round(_HELD_OUT * size), 1)), round(1 / _HELD_OUT))
        self.folds = []
        for fold in range(folds):
            train, test = hold_out(self.completion, max(_HELD_OUT, 2 / size), self.seed, fold)
            self.folds.append(_Fold(Joint.of(train, 0.0, INITIAL if self.bias else None), test))

    def offsets_alone(self) -> _Trial:
        """Fit offsets, and estimate their shrinkage, until the two agree."""
        points = [fold.joint.constant() for fold in self.folds]
        shrinkages = [fold.joint.shrinkage for fold in self.folds]
        trial = self._fitted(np.inf, shrinkages, points)
        for _ in range(_ROUNDS if self.bias else 0):
            before, trial = trial, self._fitted(np.inf, trial.shrinkages, trial.points)
            if _agree(before.shrinkages, trial.shrinkages):
                break
        return trial

    def _started(self, trial: _Trial, rank: int) -> tuple[float, _Trial]:
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

    def _walk(self, start: _Trial, top: float) -> Iterator[_Trial]:
        """Fit with one weight after the other, each fit from where the last one ended."""
        trial, weight, least, in_vain = start, top, start.error, 0
        for ratio in _RATIOS if top else ():
            weight *= ratio
            points = [fold.joint.lifted(*x) for fold, x in zip(self.folds, trial.points, strict=True)]
            trial = self._fitted(weight, trial.shrinkages, points)
            yield trial
            in_vain = 0 if trial.error < (1 - _NOTICED) * least else in_vain + 1
            if in_vain == _PATIENCE or trial.error > (1 + _TOO_MUCH) * least:
                return
            least = min(least, trial.error)

    def _settled(self, start: _Trial) -> Iterator[_Trial]:
        """Fit with the weight given, until the shrinkage of the offsets no longer changes."""
        trial = start
        for _ in range(_ROUNDS if self.bias else 1):
            before, trial = (
                trial.shrinkages,
                self._fitted(float(self.given or 0.0), trial.shrinkages, trial.points),
            )
            yield trial
            if _agree(before, trial.shrinkages):
                return

    def _fitted(self, weight: float, shrinkages: list[Shrinkage | None], points: list[FactorPair]) -> _Trial:
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
        return _Trial(weight, estimates, found, np.concatenate(losses), float(np.mean(fits)))

    def _chosen(self, rank: int, tried: list[_Trial], interrupted: bool) -> Choice:
        if not tried:  # interrupted before anything was fitted
            return self.default(rank)._replace(interrupted=True)
        best = tried[-1] if self.given is not None else _best(tried)
        path = None
        if self.given is None:
            weights = {trial.weight: trial.error for trial in tried}
            path = RegularizationPath(tuple(weights), tuple(weights.values()), best.weight)
        weight = best.weight if self.given is None else self.given
        shrinkage = _mean(best.shrinkages)
        return Choice(rank, weight, shrinkage, best.points[0], path, None, interrupted)


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


def fit_offsets(completion: Completion, seed: int = 0) -> Offsets:
    """Fit offsets alone, with a shrinkage that entries held out tell."""
    chooser, shrinkage = _Chooser(completion, bias=True, given=None, seed=seed), INITIAL
    if completion.observed.size >= _MIN_ENTRIES:
        chooser.split()
        shrinkage = _mean(chooser.offsets_alone().shrinkages) or INITIAL
    joint = Joint.of(completion, 0.0, shrinkage)
    return joint.split(*minimised(joint, joint.constant(), _TIGHT))[1]


def _best(tried: list[_Trial]) -> _Trial:
    return min(tried, key=lambda trial: trial.error)


def _better(new: _Trial, old: _Trial) -> bool:
    """Whether the losses fell by more than a standard error of their mean difference, entry by entry."""
    gains = old.losses - new.losses
    return bool(gains.mean() > gains.std() / np.sqrt(gains.size))


def _agree(before: list[Shrinkage | None], now: list[Shrinkage | None]) -> bool:
    """Whether no shrinkage changed by more than a tenth (or all are none)."""
    old, new = (np.log([shrinkage for shrinkage in each if shrinkage]) for each in (before, now))
    return np.allclose(old, new, rtol=0.0, atol=0.1)


def _mean(shrinkages: list[Shrinkage | None]) -> Shrinkage | None:
    """The geometric mean over folds."""
    known = [np.log(shrinkage) for shrinkage in shrinkages if shrinkage is not None]
    return Shrinkage(*(float(rho) for rho in np.exp(np.mean(known, axis=0)))) if known else None


def _ranks(largest: int) -> Iterator[int]:
    """1, 2, 3, 4, 5, and then by a third more each time."""
    rank = 1
    while rank <= largest:
        yield rank
        rank = max(rank + 1, round(1.3 * rank))


def _rank_path(judged: dict[int, list[_Trial]], chosen: int) -> RankPath:
    best = [_best(tried) for tried in judged.values()]
    errors = tuple(trial.error for trial in best)
    deviations = tuple(float(trial.losses.std(ddof=1) / np.sqrt(trial.losses.size)) for trial in best)
    return RankPath(tuple(judged), errors, deviations, tuple(trial.fit for trial in best), chosen)


def _told(trial: _Trial) -> str:
    return f"λ {trial.weight:.4g}  held-out loss {trial.error:.6g}"
