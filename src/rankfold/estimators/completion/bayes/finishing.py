"""The Bayesian finish of a fit: whether there is one, at which rank, for how long, and what it finds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.costs.offsets import Offsets
from rankfold.entries.lines import FactorPair
from rankfold.entries.on_disk import OnDisk
from rankfold.estimators.completion.bayes.beliefs import Beliefs, Prior
from rankfold.estimators.completion.bayes.judging import MOST, Verdict, judged, unswept
from rankfold.estimators.completion.bayes.posterior import Posterior, centred, centred_coefficients
from rankfold.estimators.completion.bayes.variational import State, Variational
from rankfold.estimators.completion.choosing import MANY, USUAL_RANK, Choice
from rankfold.estimators.completion.entries import machine_memory
from rankfold.estimators.completion.joint import Joint
from rankfold.estimators.completion.penalised import Fitted
from rankfold.estimators.completion.trials import Fold, minimised
from rankfold.estimators.fitting import warn_unless_converged
from rankfold.estimators.inputs import is_auto
from rankfold.interrupts import interruptible
from rankfold.run.display import progress
from rankfold.run.stopping import Stop, StopKind
from rankfold.selection.rank import RankPath

_GROWTH = 2  # from the rank of the fit to that which the finish is tried at too
_SETTLED = 1e-6  # with nothing held out, sweeps end when they raise the bound by less than this part of it
_PART = 0.25  # of the machine's memory that covariances may take


def wanted(model: Any, cost: Completion) -> bool:
    """Whether a model is to have a Bayesian finish, if entries held out agree; refuse what has none."""
    setting = model.bayesian
    if not (is_auto(setting) or isinstance(setting, (bool, np.bool_))):
        raise ValueError(f"bayesian must be 'auto', True or False, not {setting!r}")
    if not is_auto(setting) and not setting:
        return False
    rank = USUAL_RANK if is_auto(model.rank) else int(model.rank)
    unknowns = min(rank, *cost.shape) + int(model.bias)
    # Lower triangles of all lines, before and after a sweep.
    numbers = sum(cost.shape) * unknowns * (unknowns + 3)
    memory = cost.observed.memory if isinstance(cost.observed, OnDisk) else _PART * machine_memory()
    room = numbers * cost.observed.dtype.itemsize < memory
    if is_auto(setting):
        return cost.quadratic and is_auto(model.regularization) and room
    if not cost.quadratic:
        raise ValueError("bayesian=True is for the square loss, whose noise is Gaussian: leave it out")
    if not room:
        raise ValueError(
            f"covariances of {sum(cost.shape):,} lines at rank {rank} do not fit into memory: lower the "
            "rank, or set bayesian=False"
        )
    return True


def kept(model: Any, warm: bool) -> Verdict | None:
    """Return the verdict where no entries can be held out: that of the last fit, if this one goes on from it.

    Without one, "auto" leaves the fit as it is, and True sweeps until the bound settles.
    """
    before = getattr(model, "posterior_", None)
    if warm and before is not None:
        return Verdict(before.sweeps, np.empty(0), before.calibration)
    return Verdict(0, np.empty(0), None) if is_auto(model.bayesian) else None


def decided(choice: Choice, least: int, grow: bool, verbose: int, seed: int) -> tuple[Choice, Verdict | None]:
    """Ask the entries held out how many sweeps are best, and, to `grow`, whether a higher rank is better.

    The fit is at its best at a lower rank than the finish, whose prior prunes what is of no use; but with
    many entries the rank says how long all of it takes, and stays. Where nothing was held out there is no
    verdict; nor after Ctrl-C, which ends it all.
    """
    if not choice.folds or choice.interrupted or not choice.folds[0][1][0].shape[1]:
        return choice, None
    tried: list[tuple[Choice, Verdict]] = []
    with progress(verbose, "choosing how to finish") as tell:
        try:
            tried.append((choice, judged(choice.folds, least, tell)))
            higher = min(_GROWTH * choice.rank, *choice.folds[0][0].joint.shape)
            grow = grow and _has_factors(choice) and choice.folds[0][0].joint.completion.observed.size < MANY
            if grow and tried[0][1].sweeps and higher > choice.rank:
                grown = _grown(choice, higher, seed)
                tried.append((grown, judged(grown.folds, least, tell, rival=tried[0][1])))
        except KeyboardInterrupt:
            return choice._replace(interrupted=True), None
    best, verdict = tried[-1] if _better(tried[-1][1], tried[0][1]) else tried[0]
    if choice.rank_path is not None:
        best = best._replace(rank_path=_with_finish(choice.rank_path, tried, best.rank))
    return best, verdict


def finished(
    joint: Joint, fitted: Fitted, sure: bool, verdict: Verdict | None, device: str = "cpu"
) -> tuple[Fitted, Posterior | None]:
    """Finish a fit, on a device, as the verdict says; Ctrl-C, before or now, leaves it as it was."""
    if not sure or fitted.stop.kind is StopKind.INTERRUPTED:
        return fitted, None
    try:
        found = interruptible(_swept, joint, fitted.factors, fitted.offsets, verdict, device)
    except KeyboardInterrupt:
        stop = Stop("interrupted in the Bayesian finish: the fit is as before it", StopKind.INTERRUPTED)
        warn_unless_converged(fitted.trace, stop)
        return fitted._replace(stop=stop), None
    if found is None:
        return fitted, None
    factors, offsets, posterior, coefficients = found
    if not posterior.sweeps:
        return fitted, posterior
    return fitted._replace(factors=factors, offsets=offsets, coefficients=coefficients), posterior


def _swept(
    joint: Joint, factors: FactorPair, offsets: Offsets, verdict: Verdict | None, device: str
) -> tuple[FactorPair, Offsets, Posterior, tuple[Any, Any]] | None:
    """Sweep from a fit as often as the verdict says, without one until the bound settles; None if that fails.

    With 0 sweeps, factors and offsets stay what they are, and one sweep gives their covariances.
    """
    point = _point(factors, offsets, joint.bias)
    if not point[0].shape[1]:
        return None
    model = _model(joint, device)
    state = model.start(point)
    done, most, bound = 0, MOST if verdict is None else verdict.sweeps, -np.inf
    while done < max(most, 1):
        new = model.swept(state)
        if not new.finite:
            break
        state, done = (new if most else unswept(state, new)), done + 1
        if verdict is None:
            before, bound = bound, model.bound(state)
            if bound - before < _SETTLED * abs(bound):
                break
    if not done:
        return None
    calibration = None if verdict is None else verdict.calibration
    state = _widened(model.home(state), factors[0].shape[1] + joint.bias)
    found = centred(state, joint.bias, model.centre, min(done, most), calibration)
    return *found, centred_coefficients(state, joint.bias)


def _model(joint: Joint, device: str) -> Variational:
    model = Variational.of(joint.completion.observed, joint.bias, joint.expecting)
    completion = joint.completion.on(device)
    if completion.device is None:
        return model
    from rankfold.estimators.completion.bayes.on_gpu import GpuVariational

    return GpuVariational.of_entries(model, completion.store)


def _point(factors: FactorPair, offsets: Offsets, bias: bool) -> FactorPair:
    """A fit as a point of `Joint`, without factors where these are 0, which they would stay."""
    L, R = factors if factors[0].any() else (X[:, :0] for X in factors)
    if not bias:
        return L, R
    return np.column_stack([L, offsets.mean + offsets.rows]), np.column_stack([R, offsets.cols])


def _widened(state: State, d: int) -> State:
    """A state with factors of 0 before its unknowns, up to d unknowns."""
    more = d - state.sides[0].means.shape[1]
    if not more:
        return state
    size = d * (d + 1) // 2
    sides, priors = [], []
    for side, prior in zip(state.sides, state.priors, strict=True):
        # An offset alone is the last unknown, and its variance the last number of a triangle.
        means = np.pad(side.means, ((0, 0), (more, 0)))
        sides.append(Beliefs(means, np.pad(side.covariances, ((0, 0), (size - 1, 0)))))
        mean, slope = (np.pad(part, (more, 0)) for part in (prior.mean, prior.slope))
        priors.append(Prior(mean, slope, np.pad(prior.covariance, (more, 0)), prior.least))
    rows, cols = (A if A is None else np.pad(A, ((0, 0), (more, 0))) for A in state.coefficients)
    return state._replace(
        sides=(sides[0], sides[1]), priors=(priors[0], priors[1]), coefficients=(rows, cols)
    )


def _has_factors(choice: Choice) -> bool:
    fold, point = choice.folds[0]
    return bool(point[0].shape[1] > fold.joint.bias)


def _grown(choice: Choice, rank: int, seed: int) -> Choice:
    """Fit to the folds at a higher rank, with the same weights."""
    folds: list[tuple[Fold, FactorPair]] = []
    for fold, (G, H) in choice.folds:
        _, start = fold.joint.started(G, H, rank + fold.joint.bias - G.shape[1], seed)
        folds.append((fold, minimised(fold.joint, start)))
    return choice._replace(rank=rank, point=folds[0][1], folds=tuple(folds))


def _better(new: Verdict, old: Verdict) -> bool:
    """Whether losses fell by more than a standard error of their mean difference, entry by entry."""
    if new.losses.size != old.losses.size or not new.losses.size:
        return False
    gains = old.losses - new.losses
    return bool(gains.mean() > gains.std() / np.sqrt(gains.size))


def _with_finish(path: RankPath, tried: list[tuple[Choice, Verdict]], chosen: int) -> RankPath:
    """The path of ranks, with what the finish makes of those that it was tried at."""
    columns = path.ranks, path.errors, path.standard_errors, path.fits
    lines = {line[0]: line for line in zip(*columns, strict=True)}
    for choice, verdict in tried:
        losses = verdict.losses
        if losses.size:
            deviation = float(losses.std(ddof=1) / np.sqrt(losses.size))
            lines[choice.rank] = choice.rank, float(losses.mean()), deviation, _fit(choice)
    ranks, errors, deviations, fits = zip(*(lines[rank] for rank in sorted(lines)), strict=True)
    return replace(path, ranks=ranks, errors=errors, standard_errors=deviations, fits=fits, chosen=chosen)


def _fit(choice: Choice) -> float:
    """The mean loss of the entries that the folds were fitted to."""
    values = [fold.joint.completion.value(*fold.joint.widened(*point)) for fold, point in choice.folds]
    return float(np.mean(values))
