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

from rankfold.costs.base import Cost
from rankfold.costs.completion import Completion
from rankfold.costs.losses import Loss
from rankfold.costs.offsets import Offsets, WithOffsets
from rankfold.costs.regularisers import Nuclear
from rankfold.distributed.entries import SpreadEntries
from rankfold.distributed.spreading import SpreadTriples
from rankfold.entries.lanczos import dominant_svd, random_block
from rankfold.entries.on_disk import blocks_of
from rankfold.entries.operators import Scaled
from rankfold.entries.store import Array
from rankfold.estimators.completion.choosing import Choice, choose
from rankfold.estimators.completion.entries import checked_dtype, note_columns, refuse_without_room
from rankfold.estimators.completion.joint import LIFT, Shrinkage
from rankfold.estimators.completion.last_fit import checked_rank_of
from rankfold.estimators.completion.penalised import PLAIN_WINDOW, WINDOW, Fitted, tolerance
from rankfold.estimators.completion.spread_entries import note_data, sample_of
from rankfold.estimators.fitting import fit_problem, problem_of, record_run
from rankfold.estimators.inputs import checked_regularization, is_auto, seed_of
from rankfold.linalg import svd_of_product
from rankfold.linalg.primitives import on_host
from rankfold.problem import Problem
from rankfold.run.blas import one_blas_thread
from rankfold.run.stopping import RelativeChange, Stop, StopKind
from rankfold.run.trace import Trace, TraceRow
from rankfold.solvers import ConjugateGradient

_EXACT = 1e-20  # of the value at W = 0: data that a matrix of this rank fits exactly


def fit(model: Any, data: SpreadTriples, limit: int, **run: Any) -> None:
    """Fit a `MatrixCompletion`, in every process to the same; choices look at about `limit` entries."""
    loss = Loss.named(model.loss) if isinstance(model.loss, str) else model.loss
    refuse(model, loss)
    check(model, loss, data)
    note_columns(model, data)
    cost = Completion.from_observed(data.store.astype(model.dtype), loss)
    note_data(model, data)
    seed = seed_of(model.random_state)
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


def refuse(model: Any, loss: Loss) -> None:
    """Raise ValueError where a setting asks for what several processes do not do."""
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


def refuse_beside(given: dict[str, Any]) -> None:
    """Raise ValueError where more than the entries was given, which are all that several processes have."""
    for name, each in given.items():
        if each is not None and each is not False:
            raise ValueError(f"{name} cannot be given beside entries that are spread: leave it out")


def check(model: Any, loss: Loss, data: SpreadTriples) -> None:
    """Raise ValueError, everywhere, where settings or values are none."""
    if data.store.place is not None:
        raise ValueError(
            "these entries are on GPUs: read them with device='cpu', and give the model device='cuda', which "
            "brings them there for the last fit"
        )
    number = checked_dtype(model.dtype)
    refuse_without_room(data.shape, 1, number)
    if not is_auto(model.regularization):
        checked_regularization(model.regularization, "'auto' or ")
    if not is_auto(model.rank):
        checked_rank_of(model.rank, data.shape)

    def values() -> None:
        for store in data.store.stores:
            for block in () if store is None else blocks_of(store):
                loss.check_values(block[:, 0])

    data.group.together(values, "checking the values")


def choice_for(model: Any, cost: Completion, limit: int, seed: int) -> Choice:
    """Choose what is to be chosen, by the same sample in every process; what the first chose counts."""
    rank = None if is_auto(model.rank) else min(int(model.rank), *cost.shape)
    weight = None if is_auto(model.regularization) else float(model.regularization)
    if rank is not None and weight is not None and not model.bias:
        return Choice(rank, weight, None)
    group = _store(cost).group
    sample = Completion.from_observed(sample_of(_store(cost), limit, seed), cost.loss)
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
