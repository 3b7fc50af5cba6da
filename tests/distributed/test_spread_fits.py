"""A fit to entries that are spread: what is refused, chosen and minimised, and where its parts are."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import rankfold as rf
from distributed.threads import on_threads
from rankfold.costs.offsets import Offsets
from rankfold.distributed import Group, Sharded, SpreadTriples, spread_triples
from rankfold.estimators.completion import spread, spread_entries, spread_report
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import Shrinkage
from rankfold.estimators.completion.penalised import Fitted
from rankfold.estimators.completion.spread import _Penalised
from rankfold.linalg.rows import whole
from rankfold.run.stopping import Stop, StopKind
from rankfold.run.trace import Trace, TraceRow

pytest.importorskip("torch")
SHAPE = 9, 6
RNG = np.random.default_rng(5)
KNOWN = RNG.random(SHAPE) < 0.6
KNOWN[3] = False  # a row without entries
KNOWN[6] = [False, True, False, False, False, False]  # and one with one
Y, WEIGHTS = RNG.integers(0, 2, SHAPE).astype(float), RNG.uniform(1.5, 3.0, SHAPE)
SQUARE, LOGISTIC = rf.Loss.named("square"), rf.Loss.named("logistic")
DONE = Stop("done", StopKind.CONVERGED)


def store_of(group, values=Y, weights=WEIGHTS):
    own = np.arange(KNOWN.sum()) % group.size == group.rank
    rows, cols = (places[own] for places in np.nonzero(KNOWN))
    return spread_triples(rows, cols, values[KNOWN][own], SHAPE, weights[KNOWN][own], group=group)


def triples_of(group, parts=False, **options):
    return SpreadTriples(store_of(group, **options), *map(np.arange, SHAPE), parts)


def model(**options):
    made = {"rank": 2, "regularization": "auto", "bias": True, "bayesian": "auto", "device": "cpu",
            "warm_start": False, "dtype": "float64", "verbose": 2, "tol": "auto", "solver": "auto",
            "geometry": "auto"}  # fmt: skip
    return SimpleNamespace(**made | options)


@pytest.mark.parametrize(
    ("options", "loss", "message"),
    [
        ({"bayesian": True}, SQUARE, "bayesian=True needs all entries in one process"),
        ({}, LOGISTIC, "are for the square loss: set bias=False"),
        ({"device": "cuda"}, SQUARE, "device='cuda' holds no offsets"),
        ({"warm_start": True}, SQUARE, "warm_start needs all entries in one process"),
        ({}, SQUARE, None),
        ({"bayesian": False}, SQUARE, None),
        ({"bias": False}, LOGISTIC, None),
        ({"bias": False, "device": "cuda"}, SQUARE, None),
    ],
)
def test_what_several_processes_do_not_do_is_named(options, loss, message):
    if message is None:
        spread.refuse(model(**options), loss)
        return
    with pytest.raises(ValueError, match=message):
        spread.refuse(model(**options), loss)


def test_nothing_is_given_beside_entries_that_are_spread():
    spread.refuse_beside({"y": None, "row_features": False})
    for each in (0, True, [1.0]):
        with pytest.raises(ValueError, match="y cannot be given beside entries that are spread"):
            spread.refuse_beside({"shape": None, "y": each})


def test_values_are_checked_and_not_their_weights(monkeypatch):
    asked = []
    monkeypatch.setattr(spread, "refuse_without_room", lambda *given: asked.append(given))
    data = triples_of(Group())
    spread.check(model(dtype="float32"), LOGISTIC, data)
    assert asked == [(SHAPE, 1, np.dtype("float32"))]
    striped = replace(data, store=replace(data.store, stores=(*data.store.stores, None)))
    spread.check(model(rank="auto", regularization=0.5), LOGISTIC, striped)  # a stripe without entries
    with pytest.raises(ValueError, match="the logistic loss wants 0 or 1"):
        spread.check(model(), LOGISTIC, triples_of(Group(), values=Y + 0.5))


@pytest.mark.parametrize(
    ("rank", "regularization", "bias", "asked"),
    [
        ("auto", "auto", True, (None, None)),
        (20, "auto", False, (6, None)),
        ("auto", 0.25, False, (None, 0.25)),
        (3, 0.25, True, (3, 0.25)),
        (3, 0.25, False, None),
    ],
)
@pytest.mark.parametrize("shrunk", [True, False])
def test_what_the_first_process_chose_counts_for_all(monkeypatch, rank, regularization, bias, asked, shrunk):
    """All choose, by the same sample; only the first one tells of it."""
    calls = []

    def choose(sample, bias, rank, weight, seed, verbose):
        calls.append((sample.observed.size, bias, rank, weight, seed, verbose))
        first = bool(verbose)
        shrinkage = Shrinkage(1.5, 2.5) if first else Shrinkage(4.0, 5.0)
        return Choice(2 if first else 3, 0.5 if first else 0.75, shrinkage if shrunk else None)

    monkeypatch.setattr(spread, "choose", choose)
    given = model(rank=rank, regularization=regularization, bias=bias)

    def work(group):
        cost = rf.Completion.from_observed(store_of(group))
        return spread.choice_for(given, cost, 10**6, 7)

    due = Choice(2, 0.5, Shrinkage(1.5, 2.5) if shrunk else None) if asked else Choice(3, 0.25, None)
    assert on_threads(2, work) == [due, due]
    told = sorted(verbose for *_, verbose in calls)
    assert told == ([0, 2] if asked else [])
    assert all(call[:-1] == (KNOWN.sum(), bias, *asked, 7) for call in calls)


@pytest.fixture
def asked(monkeypatch):
    """What is asked of the fit; the answer are factors given, and a stop."""
    told = SimpleNamespace(stop=DONE)

    def fit_problem(problem, accepted, **run):
        told.problem, told.accepted, told.run = problem, accepted, run
        factors = tuple(
            place.array(np.ones((d, 2))[place.own])
            for d, place in zip(SHAPE, problem.cost_store.places, strict=True)
        )
        return SimpleNamespace(factors=factors, trace="trace", stop=told.stop, stop_reason=told.stop.reason)

    def problem_of(cost, rank, geometry):
        return SimpleNamespace(cost=cost, rank=rank, geometry=geometry, cost_store=told.store)

    monkeypatch.setattr(spread, "fit_problem", fit_problem)
    monkeypatch.setattr(spread, "problem_of", problem_of)
    monkeypatch.setattr(_Penalised, "started", lambda self, problem, rank, seed: (0.8, ("x0", rank, seed)))
    return told


@pytest.mark.parametrize(
    ("weight", "solver", "used"),
    [(0.5, "auto", rf.ConjugateGradient()), (0.0, "auto", "auto"), (0.5, "tr", "tr"), (0.0, "tr", "tr")],
)
@pytest.mark.parametrize("resume", [None, "a checkpoint"])
def test_w_is_minimised_from_the_start_until_it_is_slow(asked, weight, solver, used, resume):
    cost = rf.Completion.from_observed(store_of(Group()))
    asked.store = cost.store
    choice, given = Choice(2, weight, None), model(solver=solver, geometry="polar", tol=0.03)
    fitted = spread.fitted_together(given, cost, choice, 7, {"resume": resume, "verbose": 2})
    run, problem = asked.run, asked.problem
    assert (run["solver"], run["tolerance"], run["verbose"], run["resume"]) == (used, 1e-20, 2, resume)
    assert (run["stop"].threshold, run["stop"].window) == (0.03, 3 if weight else 25)
    assert run["x0"] == (None if resume else ("x0", 2, 7))
    assert (problem.rank, problem.geometry) == (2, "polar")
    assert asked.accepted == ((StopKind.STALLED,) if weight else ())
    assert (fitted.trace, fitted.stop) == ("trace", DONE)
    np.testing.assert_allclose(whole(fitted.factors[0]) @ whole(fitted.factors[1]).T, np.full(SHAPE, 2.0))


@pytest.mark.parametrize(("weight", "zero"), [(0.79, False), (0.8, True), (0.81, True)])
def test_from_the_largest_weight_on_w_is_zero(asked, weight, zero):
    cost = rf.Completion.from_observed(store_of(Group()))
    asked.store = cost.store
    fitted = spread.fitted_together(model(), cost, Choice(3, weight, None), 7, {"resume": None})
    assert ("W = 0 is best" in fitted.stop.reason) == zero
    if zero:
        assert [whole(X).shape for X in fitted.factors] == [(9, 3), (6, 3)]


def test_only_the_first_process_tells_of_the_fit(asked, monkeypatch):
    seen = {}

    def fit_problem(problem, accepted, **run):
        seen[run.pop("callback")] = run["verbose"]
        raise KeyError

    monkeypatch.setattr(spread, "fit_problem", fit_problem)

    def work(group):
        cost = rf.Completion.from_observed(store_of(group))
        asked.store = None
        run = {"resume": None, "verbose": 2, "callback": group.rank}
        with pytest.raises(KeyError):
            spread.fitted_together(model(), cost, Choice(2, 0.5, None), 7, run)

    on_threads(2, work)
    assert seen == {0: 2, 1: 0}


@pytest.mark.parametrize("bias", [True, False])
def test_the_cost_of_spread_entries_is_that_of_w_with_its_offsets_and_its_penalty(bias):
    weight, rng = 0.7, np.random.default_rng(1)
    L, R = (rng.standard_normal((d, 2)) for d in SHAPE)
    roots = [np.maximum(KNOWN.sum(axis=k), 1) ** 0.25 for k in (1, 0)]
    W = L @ R.T

    def work(group):
        cost = rf.Completion.from_observed(store_of(group))
        fit = _Penalised.of(cost, Choice(2, weight, Shrinkage(2.0, 0.6) if bias else None))
        factors = [place.array(X[place.own]) for X, place in zip((L, R), cost.store.places, strict=True)]
        zero = fit.zero(2, DONE)
        balanced = [whole(X) for X in fit.balanced(*factors)]
        shapes = [whole(X).shape for X in zero.factors]
        return fit.cost.value(*factors), fit.offsets(*factors), balanced, shapes, zero.trace, zero.offsets

    for value, (mean, b, c), balanced, shapes, trace, at_zero in on_threads(2, work):
        predicted, charged = W, 0.0
        if bias:
            predicted, charged = W + mean + b[:, None] + c, 2.0 * b @ b + 0.6 * c @ c
            errors = np.where(KNOWN, WEIGHTS * (predicted - Y), 0.0)
            slopes = errors.sum(), *(errors.sum(axis=1) + 2.0 * b), *(errors.sum(axis=0) + 0.6 * c)
            np.testing.assert_allclose(slopes, 0, atol=1e-8)
        else:
            assert (mean, b.tolist(), c.tolist()) == (0.0, [0.0] * 9, [0.0] * 6)
        fit = np.sum((WEIGHTS * (predicted - Y) ** 2)[KNOWN]) + charged
        nuclear = np.linalg.norm(roots[0][:, None] * W * roots[1], "nuc")
        assert value == pytest.approx((fit + 2 * weight * nuclear) / KNOWN.sum(), rel=1e-9)
        np.testing.assert_allclose(balanced[0] @ balanced[1].T, W, atol=1e-9)
        sizes = [np.sum((root[:, None] * X) ** 2) for root, X in zip(roots, balanced, strict=True)]
        np.testing.assert_allclose(sizes, nuclear, rtol=1e-9)  # both are charged alike
        (row,) = trace
        assert (row.iteration, row.gradient_norm, row.seconds) == (0, 0.0, 0.0)
        mean, b, c = at_zero
        errors = np.where(KNOWN, mean + b[:, None] + c - Y, 0.0)
        due = np.sum(WEIGHTS * errors**2) + (2.0 * b @ b + 0.6 * c @ c)
        assert row.value == pytest.approx(due / KNOWN.sum(), rel=1e-8)
        assert shapes == [(9, 2), (6, 2)]


def test_without_a_weight_or_for_another_loss_there_is_no_largest_one():
    cost = rf.Completion.from_observed(store_of(Group()))
    assert _Penalised.of(cost, Choice(2, 0.0, None)).started(None, 2, 0) == (np.inf, None)
    robust = rf.Completion.from_observed(store_of(Group()), rf.Loss.named("huber"))
    assert _Penalised.of(robust, Choice(2, 0.5, None)).started(None, 2, 0) == (np.inf, None)


@pytest.mark.parametrize("parts", [True, False])
def test_a_model_has_its_factors_exactly_though_less_is_sent_in_a_run(monkeypatch, parts):
    rng = np.random.default_rng(8)
    L, R = (rng.standard_normal((d, 2)) for d in SHAPE)
    b, c = rng.standard_normal(9), rng.standard_normal(6)

    def fitted_together(model, cost, choice, seed, run):
        factors = (Sharded(X[place.own], place) for X, place in zip((L, R), cost.store.places, strict=True))
        return Fitted(tuple(factors), Offsets(0.5, b, c), Trace([TraceRow(0, 1.0, 0.0, 0.0)]), DONE)

    monkeypatch.setattr(spread, "fitted_together", fitted_together)

    def work(group):
        group.wire = np.dtype(np.float32)
        data = triples_of(group, parts)
        found = rf.MatrixCompletion(2, regularization=0.5, bias=False).fit(data)
        return found, data.store.rows.own if parts else slice(None)

    for found, own in on_threads(2, work):
        np.testing.assert_array_equal(found.factors_[0], L[own])
        np.testing.assert_array_equal(found.factors_[1], R)
        np.testing.assert_array_equal(found.biases_.rows, b[own])
        np.testing.assert_array_equal(found.biases_.cols, c)
        assert (found.biases_.mean, found.rank_, found.regularization_) == (0.5, 2, 0.5)
        assert (found.posterior_, found.converged_) == (None, True)
        here = KNOWN[own]
        assert (found.shape_, found.row_labels_.tolist()) == (here.shape, np.arange(9)[own].tolist())
        assert found.counts_[0].tolist() == here.sum(axis=1).tolist()
        assert found.counts_[1].tolist() == KNOWN.sum(axis=0).tolist()
        assert found.observed_.indptr.tolist() == [0, *np.cumsum(here.sum(axis=1))]
        assert found.observed_.indices.tolist() == np.nonzero(here)[1].tolist()


@pytest.mark.parametrize("size", [1, 3])
def test_entries_of_some_rows_are_everywhere_by_row_with_values_and_weights(size):
    chosen = np.array([0, 1, 2, 4, 5, 6, 8])

    def work(group):
        store = store_of(group)
        assert spread_entries.sample_of(store, 10**6, 0).shape == SHAPE
        return spread_entries.entries_of(store, chosen)

    rows, cols = np.nonzero(KNOWN)
    here = np.isin(rows, chosen)
    for found in on_threads(size, work):
        assert (found[0].tolist(), found[1].tolist()) == (rows[here].tolist(), cols[here].tolist())
        np.testing.assert_array_equal(found[2], np.column_stack([Y[KNOWN], WEIGHTS[KNOWN]])[here])


def test_what_is_told_of_weighted_entries_is_of_their_values():
    due = Y[KNOWN]
    for found, told in on_threads(2, lambda group: (
        spread_report.sample(triples_of(group), 10**6, 0),
        spread_report.summary_of(triples_of(group), (0.0, 1.0), "x"),
    )):  # fmt: skip
        assert [each.tolist() for each in found] == [each.tolist() for each in (*np.nonzero(KNOWN), due)]
        assert (told.mean, told.deviation) == pytest.approx((due.mean(), due.std()), rel=1e-12)


def test_offsets_beside_a_report_are_the_best_ones_of_their_shrinkage(monkeypatch):
    asked, loss = [], rf.Loss.named("square")
    monkeypatch.setattr(
        spread_report, "shrinkage_alone", lambda part: asked.append(part.observed.size) or Shrinkage(2.0, 0.6)
    )

    def work(group):
        data = triples_of(group)
        return spread_report.offsets_of(data, rf.Completion.from_observed(data.store, loss), 10**6)

    for mean, b, c in on_threads(2, work):
        errors = np.where(KNOWN, WEIGHTS * (mean + b[:, None] + c - Y), 0.0)
        slopes = errors.sum(), *(errors.sum(axis=1) + 2.0 * b), *(errors.sum(axis=0) + 0.6 * c)
        np.testing.assert_allclose(slopes, 0, atol=1e-8)
    assert asked == [KNOWN.sum()] * 2
    alone = triples_of(Group())
    robust = rf.Completion.from_observed(alone.store, rf.Loss.named("huber"))
    assert spread_report.offsets_of(alone, robust, 10**6) is None
