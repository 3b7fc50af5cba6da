"""What comes before and after the choice of rank and λ: the last point, the last fit, how it is finished."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from rankfold.costs.completion import Completion
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.triples import Triples
from rankfold.entries.devices import usable_device
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.bayes.finishing import decided, kept, wanted
from rankfold.estimators.completion.bayes.judging import Verdict
from rankfold.estimators.completion.bayes.recalibrating import recalibrated
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import Joint
from rankfold.estimators.completion.penalised import Fitted, as_it_is, by_sweeps, on_geometry, tolerance
from rankfold.estimators.completion.side.learnt import fitted_coefficients
from rankfold.estimators.completion.trials import minimised
from rankfold.estimators.inputs import checked_rank, is_auto
from rankfold.run.stopping import Stop, StopKind

_TIGHT = 1e-10  # offsets alone are fitted until an iteration lowers the value by less than this part


def last_point(model: Any, data: Triples | SortedFolder) -> FactorPair | None:
    """Return what the last fit found, if this one is to start from it and has the same rows and columns.

    What has features and no entries stands behind these.
    """
    if not (model.warm_start and hasattr(model, "factors_")):
        return None
    (mean, *offsets), sides = model.biases_, []
    pairs = (model.row_labels_, data.row_labels), (model.col_labels_, data.col_labels)
    for X, own, (mine, theirs), size in zip(model.factors_, offsets, pairs, data.shape, strict=True):
        labels: Any = mine[:size] if mine is not None else None, theirs
        if len(X) < size or not np.array_equal(*labels) or not X[:size].any():
            return None
        sides.append(np.column_stack([X[:size], own[:size]]) if model.bias else X[:size])
    if model.bias:
        sides[0][:, -1] += mean
    return sides[0], sides[1]


def how_to_finish(model: Any, cost: Completion, choice: Choice, seed: int) -> tuple[Choice, Verdict | None]:
    """Let entries held out decide how to finish; without any, as after the last fit."""
    if not wanted(model, cost):
        return choice, None
    if not choice.folds:
        return choice, kept(model, warm=choice.point is not None)
    least, grow = int(not is_auto(model.bayesian)), is_auto(model.rank)
    choice, verdict = decided(choice, least, grow, model.verbose, seed)
    if verdict is None:
        return choice, None
    try:
        return choice, recalibrated(verdict, choice, cost, seed)
    except KeyboardInterrupt:
        return choice._replace(interrupted=True), None


def checked_rank_of(rank: Any, shape: tuple[int, int]) -> int:
    """Return a rank; no W has a higher one than its lesser side: more than that is taken to mean that."""
    largest = min(shape)
    capped = min(rank, largest) if isinstance(rank, Integral) else rank
    return checked_rank(capped, largest, "the lesser of {} rows and {} columns".format(*shape))


def last_fit(model: Any, joint: Joint, choice: Choice, seed: int, run: dict[str, Any]) -> Fitted:
    """Fit as the settings of a model say; `regularization_` becomes the λ from which on W = 0 is best."""
    found = _fitted(model, joint, choice, seed, run)
    return found._replace(coefficients=fitted_coefficients(joint, found.factors, found.offsets))


def _fitted(model: Any, joint: Joint, choice: Choice, seed: int, run: dict[str, Any]) -> Fitted:
    plain = not (joint.bias or joint.weight)
    tol = tolerance(model.tol, is_auto(model.regularization), joint.weight)
    start = None if plain and choice.point is None else _start(model, joint, choice, seed)
    if start is not None and choice.interrupted:
        stop = Stop("interrupted while rank and regularization were chosen", StopKind.INTERRUPTED)
        return as_it_is(joint, start, model.rank_, stop)
    if start is not None and start[0].shape[1] == joint.bias:
        stop = Stop("with this regularization, W = 0 is best", StopKind.CONVERGED)
        return as_it_is(joint, start, model.rank_, stop)
    device = usable_device(model.device)
    swept = is_auto(model.solver) and is_auto(model.geometry) and device == "cpu"
    if start is not None and not plain and swept:
        return by_sweeps(joint, start, tol, run)
    return on_geometry(joint, start, model.rank_, model.geometry, model.solver, tol, run, device)


def _start(model: Any, joint: Joint, choice: Choice, seed: int) -> FactorPair:
    """Return where to start; a point without factors, if W = 0 is best."""
    chosen = choice.point is not None and choice.point[0].shape[1] > joint.bias
    if choice.point is not None and chosen and is_auto(model.regularization):
        return joint.completed(*choice.point)
    offsets = minimised(joint, joint.constant(), _TIGHT)
    largest, start = joint.started(*offsets, model.rank_, seed)
    if choice.point is not None and not chosen:
        model.regularization_ = max(joint.weight, largest)  # that of a part of the data may be less
    if joint.weight > 0 and (joint.weight >= largest or model.regularization_ > joint.weight):
        return offsets
    return joint.completed(*choice.point) if choice.point is not None and chosen else start
