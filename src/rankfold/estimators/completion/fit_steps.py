"""The first steps of a fit: what is fitted, what is chosen for it, and what is expected of lines unasked."""

from __future__ import annotations

from typing import Any

from rankfold.costs.completion import Completion
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.triples import Triples
from rankfold.entries.lines import FactorPair
from rankfold.estimators.completion.choosing import Choice, choose
from rankfold.estimators.completion.entries import completion_of, warn_if_all_equal
from rankfold.estimators.completion.last_fit import checked_rank_of
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.reporting import kept_entries
from rankfold.estimators.completion.side.deciding import Pair
from rankfold.estimators.completion.side.given import Given
from rankfold.estimators.completion.side.unasked import implicit_again, implicit_where_they_help, may_have
from rankfold.estimators.fitting import problem_of
from rankfold.estimators.inputs import checked_regularization, is_auto
from rankfold.fingerprint import fingerprint
from rankfold.selection.sampling import sample_lines

MAX_ENTRIES = 500_000  # that the choice of rank and regularisation looks at, about


def begun(model: Any, data: Triples | SortedFolder, sample_weight: Any) -> Completion:
    """Check the settings and the data, note what the data are, and return the cost of fitting them."""
    cost = completion_of(data, sample_weight, model.loss, model.dtype)
    values = cost.observed.by_row.data[:, 0]
    model.value_range_ = float(values.min()), float(values.max())
    warn_if_all_equal(values)
    if not is_auto(model.regularization):
        checked_regularization(model.regularization, "'auto' or ")
    if not is_auto(model.rank):
        checked_rank_of(model.rank, cost.shape)
    if not is_auto(model.geometry):
        problem_of(cost, 1, model.geometry)  # an unknown name is refused before any work
    side = cost.observed.by_row
    labels = data.row_labels, data.col_labels
    model.data_fingerprint_ = fingerprint(*labels, side.indptr, side.indices, side.data)
    model.shape_, model.observed_ = cost.shape, Pattern.of(side)
    model.counts_ = cost.observed.counts
    model._entries = kept_entries(data) if isinstance(data, Triples) else None
    return cost


def chosen(model: Any, cost: Completion, last: FactorPair | None, seed: int) -> Choice:
    """Choose what is to be chosen by a sample of the data. A warm start keeps what the last fit used."""
    rank = None if is_auto(model.rank) else min(int(model.rank), *cost.shape)
    weight = None if is_auto(model.regularization) else float(model.regularization)
    if last is not None and rank in (None, last[0].shape[1] - model.bias):
        kept = model.regularization_ if weight is None else weight
        return Choice(last[0].shape[1] - model.bias, kept, model.shrinkage_, last)
    if rank is not None and weight is not None and not model.bias:
        return Choice(rank, weight, None)
    sample = sample_lines(cost, MAX_ENTRIES, seed)
    return choose(sample, model.bias, rank, weight, seed, model.verbose)


def unasked(
    model: Any, cost: Completion, choice: Choice, free: tuple[bool, bool], expecting: Pair, seed: int
) -> tuple[Choice, Pair, Given]:
    """Take implicit features of sides of which others say nothing, where entries held out agree.

    Where none are held out, those that the last fit took, if this one goes on from it.
    """
    free = free[0] and expecting[0] is None, free[1] and expecting[1] is None
    if choice.interrupted or not (any(free) and choice.weight > 0 and may_have(model, cost)):
        return choice, expecting, (None, None)
    if choice.folds:
        return implicit_where_they_help(choice, cost, free, expecting)
    before = getattr(model, "features_", (None, None)) if choice.point is not None else (None, None)
    rows, cols = (
        able and each is not None and each.implicit for able, each in zip(free, before, strict=True)
    )
    return choice, *implicit_again(choice, cost, (rows, cols), expecting, seed)
