"""Implicit features that nobody asked for: tried on sides without features, kept where they help.

Which columns a row has entries in at all is known of all data, and says much of ratings, which people choose
to give, and nothing of sensors that fail by chance. So entries held out decide.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from rankfold.costs.completion import Completion
from rankfold.estimators.completion.choosing import MANY, Choice
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.side.deciding import (
    Pair,
    TraitPair,
    beside,
    estimated,
    plain_fit,
    taken,
    tried_out,
)
from rankfold.estimators.completion.side.given import Given, GivenSide
from rankfold.estimators.completion.side.implicit import NAMES, where_entries_are
from rankfold.estimators.completion.side.tables import Encoding
from rankfold.estimators.completion.side.traits import Traits
from rankfold.estimators.inputs import is_auto

Floats = NDArray[Any]
_CERTAIN = 2.0  # standard errors by which losses must fall: what is of no use is not in the model


def may_have(model: Any, cost: Completion) -> bool:
    """Whether implicit features may be tried: where λ is chosen too, for the square loss.

    Of many entries lines know enough of themselves, and all that is chosen must not take long.
    """
    autos = model.geometry, model.solver, model.regularization
    return cost.observed.size < MANY and cost.quadratic and all(is_auto(setting) for setting in autos)


def implicit_where_they_help(
    choice: Choice, cost: Completion, free: tuple[bool, bool], expecting: Pair
) -> tuple[Choice, Pair, Given]:
    """Return the choice and what is expected, with implicit features of free sides where they help.

    Those of a fold know nothing of where the entries are that it holds out.
    """
    try:
        of_folds = [_lines(_sides(fold.joint.completion, free)) for fold, _ in choice.folds]
        tried = tried_out(choice, of_folds, apart=True)
    except KeyboardInterrupt:
        return choice._replace(interrupted=True), expecting, (None, None)
    if not tried or tried[0].certainty <= _CERTAIN:
        return choice, expecting, (None, None)
    sides = _sides(cost, tried[0].sides)
    choice, more = taken(tried[0], choice, cost, _lines(sides))
    return choice, beside(expecting, more), sides


def implicit_again(
    choice: Choice, cost: Completion, used: tuple[bool, bool], expecting: Pair, seed: int
) -> tuple[Pair, Given]:
    """Return what is expected with implicit features of the sides that the last fit used them for."""
    sides = _sides(cost, used)
    if not any(used):
        return expecting, sides
    return beside(expecting, estimated(*plain_fit(choice, cost, seed), _lines(sides))), sides


def _lines(sides: Given) -> TraitPair:
    rows, cols = (None if side is None else side.Z for side in sides)
    return rows, cols


def _sides(cost: Completion, wanted: tuple[bool, bool]) -> Given:
    """Implicit features of the wanted sides, as if they had been given; 0 for a line without entries."""
    if not any(wanted):
        return None, None
    pattern = Pattern.of(cost.observed.by_row)
    ones = np.ones(len(pattern.indices))
    seen = sparse.csr_array((ones, pattern.indices.astype(np.int64), pattern.indptr), shape=cost.shape)
    rows, cols = (
        _standardised(X) if want else None for X, want in zip(where_entries_are(seen), wanted, strict=True)
    )
    return rows, cols


def _standardised(X: Floats) -> GivenSide:
    here: Any = X.any(axis=1)
    centre, deviations = X[here].mean(axis=0), X[here].std(axis=0)
    scale = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=deviations > 0)
    traits = Traits(Encoding(NAMES[: X.shape[1]], None, X.shape[1]), centre, np.diag(scale))
    return GivenSide(traits, np.where(here[:, None], (X - centre) * scale, 0.0), None)
