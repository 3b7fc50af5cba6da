"""`MatrixCompletion` on entries whose rows are spread over processes (`rankfold.distributed.read`).

The objective is that of one process. It is minimised over W on a geometry, with the best offsets for each W
and the penalty as a function of W, since all of these know how to work on rows that are spread. What is to be
chosen is chosen by a sample of rows that every process gets. There is no posterior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from rankfold.costs.base import Cost
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets, WithOffsets
from rankfold.costs.regularisers import Nuclear
from rankfold.distributed.entries import SpreadEntries
from rankfold.distributed.spreading import SpreadTriples
from rankfold.entries.lanczos import dominant_svd, random_block
from rankfold.entries.observed import Observed
from rankfold.entries.operators import Scaled
from rankfold.entries.sorted_entries import index_type
from rankfold.entries.store import Array
from rankfold.estimators.completion.choosing import Choice, choose
from rankfold.estimators.completion.joint import LIFT, Shrinkage
from rankfold.estimators.completion.pattern import Pattern
from rankfold.estimators.completion.penalised import PLAIN_WINDOW, WINDOW, Fitted, tolerance
from rankfold.estimators.fitting import fit_problem, problem_of, record_run
from rankfold.estimators.inputs import is_auto
from rankfold.fingerprint import fingerprint
from rankfold.linalg import svd_of_product
from rankfold.linalg.primitives import on_host
from rankfold.problem import Problem
from rankfold.run.blas import one_blas_thread
from rankfold.run.stopping import RelativeChange, Stop, StopKind
from rankfold.run.trace import Trace, TraceRow
from rankfold.selection.sampling import MIN_LINES
from rankfold.solvers import ConjugateGradient

_EXACT = 1e-20  # of the value at W = 0: data that a matrix of this rank fits exactly
LISTED = 100_000_000  # entries whose positions a model holds; of more, it does not know which were seen


def fit(model: Any, data: SpreadTriples, limit: int, **run: Any) -> None:
    """Fit a `MatrixCompletion`, in every process to the same; choices look at about `limit` entries."""
    refuse(model)
    validate_data(model, np.empty((0, 2)), skip_check_array=True)
    loss = Loss.named(model.loss) if isinstance(model.loss, str) else model.loss
    cost = Completion.from_observed(data.store.astype(model.dtype), loss)
    note_data(model, data)
    seed = int(check_random_state(model.random_state).randint(2**31 - 1))
    with one_blas_thread():
        choice = choice_for(model, cost, limit, seed)
        model.rank_, model.regularization_, model.shrinkage_ = choice.rank, choice.weight, choice.shrinkage
        model.regularization_path_, model.rank_path_ = choice.path, choice.rank_path
        run |= {"max_iterations": model.max_iter, "verbose": model.verbose}
        there = Completion.from_observed(_store(cost).on(model.device), loss)
        fitted = fitted_together(model, there, choice, seed, run)
    factors: tuple[Any, Any] = fitted.factors
    (L, R), (mean, b, c) = factors, fitted.offsets
    own = data.store.rows.own if data.parts else slice(None)
    model.factors_ = on_host(L.block if data.parts else L.whole(exact=True)), on_host(R.whole(exact=True))
    model.biases_, model.posterior_ = Offsets(mean, b[own], c), None
    record_run(model, fitted.trace, fitted.stop)


def refuse(model: Any) -> None:
    """Raise ValueError where a setting asks for what several processes do not do."""
    loss = Loss.named(model.loss) if isinstance(model.loss, str) else model.loss
    if model.bayesian is True:
        raise ValueError("bayesian=True needs all entries in one process: leave it out, or set it to False")
    if model.bias and not loss.is_square:
        raise ValueError("offsets of entries that are spread are for the square loss: set bias=False")
    if model.bias and model.device != "cpu":
        raise ValueError(
            f"device={model.device!r} holds no offsets of entries that are spread: set bias=False, or leave "
            "device out"
        )
    if model.warm_start:
        raise ValueError("warm_start needs all entries in one process: resume from a checkpoint instead")


def choice_for(model: Any, cost: Completion, limit: int, seed: int) -> Choice:
    """Choose what is to be chosen, by the same sample in every process; what the first chose counts."""
    rank = None if is_auto(model.rank) else min(int(model.rank), *cost.shape)
    weight = None if is_auto(model.regularization) else float(model.regularization)
    if rank is not None and weight is not None and not model.bias:
        return Choice(rank, weight, None)
    group = _store(cost).group
    sample = Completion.from_observed(_sample(_store(cost), limit, seed), cost.loss)
    found: Choice = group.together(
        lambda: choose(sample, model.bias, rank, weight, seed, model.verbose if group.rank == 0 else 0),
        "choosing rank and regularization",
    )
    ridges = found.shrinkage or Shrinkage(0.0, 0.0)
    numbers = group.stacked(np.array([found.rank, found.weight, *ridges], dtype=np.float64))[0]
    shrinkage = Shrinkage(*map(float, numbers[2:])) if found.shrinkage is not None else None
    return found._replace(rank=int(numbers[0]), weight=float(numbers[1]), shrinkage=shrinkage)


def fitted_together(model: Any, cost: Completion, choice: Choice, seed: int, run: dict[str, Any]) -> Fitted:
    """Minimise over W; the factors are spread."""
    store = _store(cost)
    fit = _Penalised.of(cost, choice)
    tol = tolerance(model.tol, is_auto(model.regularization), choice.weight)
    problem = problem_of(fit.cost, choice.rank, model.geometry)
    largest, x0 = fit.started(problem, choice.rank, seed)
    if choice.weight and choice.weight >= largest:
        return fit.zero(choice.rank, Stop("with this regularization, W = 0 is best", StopKind.CONVERGED))
    accepted = (StopKind.STALLED,) if choice.weight else ()
    solver = ConjugateGradient() if is_auto(model.solver) and choice.weight else model.solver
    if store.group.rank:
        run = run | {"verbose": 0}
    result = fit_problem(
        problem, accepted, x0=x0 if run["resume"] is None else None, tolerance=_EXACT, solver=solver,
        stop=RelativeChange(tol, WINDOW if choice.weight else PLAIN_WINDOW), **run,
    )  # fmt: skip
    stop = Stop(result.stop_reason, StopKind.CONVERGED) if result.stop.kind in accepted else result.stop
    return Fitted(fit.balanced(*result.factors), fit.offsets(*result.factors), result.trace, stop)


def note_data(model: Any, data: SpreadTriples) -> None:
    """Say by attributes of the model what it was fitted to."""
    store = data.store
    parts = [f"{name}={part!r}" for name, part in store.fingerprint.items() if isinstance(part, str)]
    model.data_fingerprint_ = fingerprint(data.row_labels, data.col_labels, np.array(parts))
    model.shape_, model.counts_ = store.shape, store.counts
    model.row_labels_, model.col_labels_ = data.row_labels, data.col_labels
    model.value_range_, model.features_, model.information_ = _value_range(store), (None, None), None
    model._entries = None
    if not data.parts:
        model.observed_ = _pattern(store)
        return
    first, last = store.rows.bounds
    rows, cols = store.counts
    model.shape_, model.counts_ = (last - first, store.shape[1]), (rows[first:last], cols)
    model.row_labels_ = data.row_labels[first:last]
    model.observed_ = Pattern(np.concatenate([[0], np.cumsum(rows[first:last])]), _own_positions(store))


def _pattern(store: SpreadEntries) -> Pattern:
    """Return all positions; none, where they are too many."""
    if store.size > LISTED:
        return Pattern(np.zeros(store.shape[0] + 1, np.int64), np.zeros(0, index_type(store.shape)))
    own = _own_positions(store)
    signed = own.view(f"i{own.itemsize}")  # torch knows few others
    indptr = np.concatenate([[0], np.cumsum(store.counts[0])])
    cols = store.group.gathered(signed[:, None], indptr[list(store.rows.cuts)].tolist(), exact=True)
    return Pattern(indptr, np.ascontiguousarray(cols[:, 0]).view(own.dtype))


def _value_range(store: SpreadEntries) -> tuple[float, float]:
    """Return the least and the largest value in any process."""
    least, most = np.inf, -np.inf
    for own in (each for each in store.stores if each is not None):
        values = own.by_row.data[:, 0]
        least, most = min(least, float(values.min())), max(most, float(values.max()))
    return -store.group.most(-least), store.group.most(most)


def _own_positions(store: SpreadEntries) -> NDArray[Any]:
    """Return the columns of the entries at hand, row by row."""
    kind = index_type(store.shape)
    if len(store.stores) == 1 and store.block is not None:
        return np.asarray(store.block.by_row.pattern()[1], dtype=kind)
    first, last = store.rows.bounds
    return _at_hand(store, np.arange(last - first))[1].astype(kind)


def _at_hand(
    store: SpreadEntries, chosen: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
    """Return rows, columns and data of the entries of some of the rows at hand, row by row."""
    first, last = store.rows.bounds
    wanted = np.zeros(last - first, bool)
    wanted[chosen] = True
    none = np.zeros(0, np.int64)
    found: list[tuple[Any, ...]] = [(none, none, np.zeros((0, 1 + store.weighted), store.dtype))]
    for own, columns in zip(store.stores, store.stripes.columns, strict=True):
        if own is not None:
            side = own.by_row
            keys = side.keys
            at = wanted[keys]
            found.append((keys[at].astype(np.int64) + first, columns[side.indices[at]], side.data[at]))
    rows, cols, data = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((cols, rows))  # which keeps the order of entries at one place
    return rows[order], cols[order], data[order]


@dataclass(frozen=True)
class _Penalised:
    """The cost as a function of W, and what belongs to it."""

    completion: Completion
    cost: Cost
    with_offsets: WithOffsets | None
    roots: tuple[NDArray[Any], NDArray[Any]]  # √n_i and √m_j
    weight: float

    @staticmethod
    def of(completion: Completion, choice: Choice) -> _Penalised:
        rows, cols = (np.sqrt(np.maximum(n, 1.0)) for n in completion.store.counts)
        cost: Cost = completion
        with_offsets = None
        if choice.shrinkage is not None:
            cost = with_offsets = WithOffsets(completion, 0.0, *choice.shrinkage)
        if choice.weight:
            cost = cost + Nuclear(2 * choice.weight / completion.store.size, rows, cols)
        return _Penalised(completion, cost, with_offsets, (rows, cols), choice.weight)

    def started(self, problem: Problem, rank: int, seed: int) -> tuple[float, Any]:
        """Return λ_max, from which on W = 0 is best, and a start: that of the cost, without a penalty."""
        if not self.weight:
            return np.inf, None
        store = _store(self.completion)
        if self.with_offsets is not None:
            mean, b, c = self.offsets(*(np.zeros((d, 1)) for d in store.shape))
            store = store.with_values(lambda i, j, y: y - (mean + b[i] + c[j]))
        scales = [1 / np.sqrt(root)[:, None] for root in self.roots]
        S = Scaled(store.targets(self.completion.loss), *scales)
        first = store.asarray(random_block(store.shape, rank, seed))
        U, s, V = dominant_svd(S, rank, first=first)
        if not self.completion.quadratic:
            return np.inf, None
        s = on_host(s)
        kept = np.sqrt(np.maximum(s - self.weight, LIFT * s[0]))
        x0 = problem.geometry.from_factors(scales[0] * (U * kept), scales[1] * (V * kept))
        return float(s[0]), x0

    def offsets(self, L: Array, R: Array) -> Offsets:
        """Return the offsets that go with a W."""
        if self.with_offsets is None:
            return Offsets(0.0, *(np.zeros(d) for d in self.completion.shape))
        return self.with_offsets.offsets(L, R)

    def balanced(self, L: Array, R: Array) -> tuple[Array, Array]:
        """Return the factors of the same W that the penalty is least for."""
        rows, cols = (np.sqrt(root)[:, None] for root in self.roots)
        U, s, V = svd_of_product(rows * L, cols * R)
        roots = np.sqrt(on_host(s))
        return U * roots / rows, V * roots / cols

    def zero(self, rank: int, stop: Stop) -> Fitted:
        """W = 0, with its offsets."""
        places = _store(self.completion).places
        factors: list[Array] = [
            each.array(np.zeros((each.bounds[1] - each.bounds[0], rank))) for each in places
        ]
        trace = Trace([TraceRow(0, self.cost.value_at_zero, 0.0, 0.0)])
        return Fitted((factors[0], factors[1]), self.offsets(*factors), trace, stop)


def _store(cost: Completion) -> SpreadEntries:
    assert isinstance(cost.store, SpreadEntries)
    return cost.store


def _sample(store: SpreadEntries, limit: int, seed: int) -> Observed:
    """Return the entries of some rows, about `limit` of them, in every process; all, if they are no more."""
    counts = store.counts[0]
    chosen = np.arange(store.shape[0])
    if store.size > limit:
        order = np.random.default_rng(seed).permutation(store.shape[0])
        count = int(np.searchsorted(np.cumsum(counts[order]), limit, side="right"))
        chosen = np.sort(order[: max(count, min(MIN_LINES, len(order)))])
    rows, cols, data = _entries(store, chosen)
    shape = len(chosen), store.shape[1]
    weights = data[:, 1] if store.weighted else None
    numbers = np.searchsorted(chosen, rows)
    return Observed.from_triples(numbers, cols, data[:, 0], shape, weights, "keep", warn_of_empty=False)


def _entries(store: SpreadEntries, chosen: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return rows, columns and data of the entries of some rows, by row, in every process."""
    group, (first, last) = store.group, store.rows.bounds
    rows, cols, data = _at_hand(store, chosen[(chosen >= first) & (chosen < last)] - first)
    sizes = group.stacked(np.array([len(rows)], dtype=np.int64))[:, 0]
    cuts = (0, *np.cumsum(sizes).tolist())
    parts = [rows[:, None].astype(np.float64), cols[:, None].astype(np.float64), data.astype(np.float64)]
    table = group.gathered(np.hstack(parts), cuts, exact=True)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2:].astype(store.dtype)
