"""R that comes stripe by stripe during a pass: the same answers, no more bytes, two stripes in memory."""

from __future__ import annotations

import weakref
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rankfold as rf
from distributed.threads import on_threads
from rankfold.distributed import Group, Places, Sharded, SpreadEntries, SpreadTriples, spread_triples
from rankfold.distributed.collectives import Coming
from rankfold.distributed.stripes import COLUMNS, ENTRIES, Homeward, Stripes, stripes_that_pay
from rankfold.estimators import fitting
from rankfold.estimators.completion import spread_report
from rankfold.estimators.completion.choosing import Choice
from rankfold.estimators.completion.joint import LIFT, Shrinkage
from rankfold.estimators.completion.spread import _Penalised
from rankfold.estimators.completion.spread_entries import _pattern
from rankfold.linalg.primitives import on_host
from rankfold.linalg.rows import is_spread, whole
from rankfold.report import Columns, DataSummary
from rankfold.run.stopping import Stop, StopKind
from rankfold.solvers.growth import dominant_pairs

pytest.importorskip("torch")
SHAPE, RANK = (60, 41), 2


@pytest.fixture(scope="module")
def data():
    return rf.data.random_completion(SHAPE, RANK, 6, seed=1, noise=0.1)


def share(group, data, **options):
    own = np.arange(len(data.values)) % group.size == group.rank
    weights = options.pop("weights", None)
    triples = data.rows[own], data.cols[own], options.pop("values", data.values)[own]
    weights = None if weights is None else weights[own]
    return spread_triples(*triples, data.shape, weights, group=group, **options)


def test_columns_are_cut_so_that_everybody_sends_as_much():
    stripes = Stripes(Places(Group(), (0, 4, 9)), 2)
    assert [columns.tolist() for columns in stripes.columns] == [[0, 1, 4, 5], [2, 3, 6, 7, 8]]
    assert stripes.cuts == [(0, 2, 4), (0, 2, 5)]
    stripe, number = stripes.numbers()
    assert stripe.tolist() == [0, 0, 1, 1, 0, 0, 1, 1, 1]
    assert number.tolist() == [0, 1, 0, 1, 2, 3, 2, 3, 4]


def test_no_stripe_is_empty():
    places = Places(Group(size=3), (0, 2, 4, 7))
    assert Stripes.of(places, 9).count == 2
    assert Stripes.of(places, 2).count == 2
    assert Stripes.of(places, 0).count == 1


@pytest.mark.parametrize(
    ("rows", "entries", "columns", "count"),
    [(10, 10 * ENTRIES * 5, 4 * COLUMNS, 4), (10, 10 * ENTRIES * 3, 4 * COLUMNS, 3),
     (10, 10**9, COLUMNS + 1, 1), (10, 10 * ENTRIES - 1, 9 * COLUMNS, 1)],
)  # fmt: skip
def test_stripes_are_as_many_as_pay(rows, entries, columns, count):
    assert stripes_that_pay(entries, (rows, columns)) == count


def passes(cost, L, R, loss):
    """Everything that is asked of a store."""
    dL, dR = L * np.array([1.0, -2.0]), R * np.array([0.5, 3.0])
    store = cost.store
    value, f_L, f_R = store.evaluate(L, R, loss)
    S, T = store.gradient(L, R, loss), store.targets(loss)
    of_rows, of_cols = store.blocks(L, R, loss)
    found = {
        "value": [np.array([value, store.value(L, R, loss), store.value_at_zero(loss)])],
        "evaluate": [f_L, f_R],
        "derivative": store.derivative(L, R, dL, dR, loss),
        "model": store.gauss_newton(L, R, dL, dR, loss),
        "polynomial": [store.polynomial([L, dL], [R, dR], every) for every in (1, 2)],
        "products": [S @ R, S.transposed_times(L), T @ R, T.transposed_times(L)],
        "blocks": [of_rows.reshape(len(of_rows), -1), of_cols.reshape(len(of_cols), -1)],
        "counts": store.counts,
    }
    return {name: [on_host(whole(each)) for each in arrays] for name, arrays in found.items()}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("loss", ["square", "huber"])
def test_every_pass_is_that_of_one_store(data, size, loss):
    rng, weights = np.random.default_rng(0), np.linspace(0.5, 2, len(data.values))
    loss = rf.Loss.named(loss)
    factors = [rng.standard_normal((d, RANK)) for d in SHAPE]
    alone = rf.Completion(data.rows, data.cols, data.values, SHAPE, weights, loss=loss)
    expected = passes(alone, *factors, loss)

    def work(group):
        store = share(group, data, weights=weights, stripes=3)
        assert len(store.stores) == 3
        L, R = (Sharded(A[place.own], place) for A, place in zip(factors, store.places, strict=True))
        found = passes(rf.Completion.from_observed(store, loss), L, R, loss)
        pairs = zip(store.places, found["blocks"], strict=True)
        return found | {"blocks": [places.array(block).whole() for places, block in pairs]}

    for rank in on_threads(size, work):
        for name, arrays in expected.items():
            for mine, theirs in zip(rank[name], arrays, strict=True):
                limit = 1e-12 * np.abs(theirs).max()
                np.testing.assert_allclose(mine, theirs, rtol=0, atol=limit, err_msg=name)


def run(group, data, stripes, room=1e9, penalty=None):
    group.room = room
    cost = rf.Completion.from_observed(share(group, data, stripes=stripes))
    seen, traffic = [], group.traffic
    result = rf.minimize(
        rf.Problem.of(cost if penalty is None else penalty(cost), RANK),
        rf.ConjugateGradient(metric="geometry"),
        tolerance=0,
        max_iterations=8,
        callback=lambda _: seen.append((traffic.small, traffic.large, traffic.bytes)),
    )
    sent = np.diff(seen, axis=0)[1:].max(axis=0)
    return result.trace["value"], [whole(each) for each in result.factors], sent


def test_a_run_is_the_same_in_stripes_and_takes_no_more_bytes(data):
    values, factors, _ = run(Group(), data, 1)
    matrix = SHAPE[1] * RANK * 8
    # R is made of what is kept; it is all that is kept; or it is sent once more
    for room, times in ((3 * matrix, 2), (matrix, 3), (matrix - 1, 4)):
        ranks = on_threads(2, lambda group, room=room: run(group, data, 4, room))
        for found, (L, R), (small, large, sent) in ranks:
            assert len(found) == len(values)
            np.testing.assert_allclose(found, values, rtol=0, atol=1e-10 * values[0])
            np.testing.assert_allclose(L @ R.T, factors[0] @ factors[1].T, atol=1e-8)
            assert (small, large) == (4, 4 * times)
            assert sent - times * matrix < 1200  # what is small
        np.testing.assert_array_equal(ranks[0][0], ranks[1][0])
        np.testing.assert_array_equal(ranks[0][1][0], ranks[1][1][0])


@pytest.mark.parametrize("columns", [41, 9001])  # added by NumPy, and by kernels
@pytest.mark.parametrize("count", [1, 3])
def test_a_sum_of_what_is_kept_is_made_of_it_to_the_bits_of_its_owners(count, columns):
    A, B = np.random.default_rng(0).standard_normal((2, columns, RANK))

    def work(group):
        stripes, seen = Stripes(Places(group, (0, 3, columns)), count), []
        R, dR = (stripes.places.array(each[stripes.places.own]) for each in (A, B))

        def asked(matrix):
            before, rows = group.traffic.large, []
            stripes.each([matrix], lambda s, piece: rows.append(piece))
            seen.append((group.traffic.large - before) // count)
            return rows

        def step(factor):
            return Sharded.sums([[(R, 1.0), (dR, factor)]])[0]

        def begun():
            group.recent.clear()
            asked(R)
            asked(dR)

        asked(R)
        asked(step(0.3))  # dR is not there
        begun()
        there = step(0.3)
        rows = asked(there)
        truth = there.whole(exact=True)
        for mine, theirs in zip(rows, stripes.columns, strict=True):
            np.testing.assert_array_equal(mine, truth[theirs])
        asked(there)
        begun()
        changed = step(0.5)
        changed += dR
        asked(changed)
        begun()
        group.wire = np.dtype(np.float32)
        asked(step(0.5))
        return seen

    for seen in on_threads(2, work):
        assert seen == [1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1]


def test_a_sum_does_not_hold_its_terms():
    R = Sharded(np.ones((4, 1)), Places(Group(), (0, 4)))
    (there,) = Sharded.sums([[(R, 2.0)]])
    held = weakref.ref(R)
    del R
    assert held() is None
    assert there.kept_terms() == []


def test_sums_of_products_and_of_multiples_come_in_the_order_of_their_sides():
    R = Sharded(np.arange(8.0).reshape(4, 2), Places(Group(), (0, 4)))
    S = np.array([[1.0, 2.0], [0.0, 3.0]])
    found = Sharded.sums([[(R, S)], [(R, 2.0)], [(R, 1.0), (R, -S)]])
    for each, truth in zip(found, (R.block @ S, 2 * R.block, R.block - R.block @ S), strict=True):
        np.testing.assert_array_equal(each.block, truth)
    assert [len(each.terms) for each in found] == [0, 1, 0]


def test_no_more_is_kept_than_there_is_room_for():
    group = Group(room=2 * 4 * 8)  # two matrices
    stripes, seen = Stripes(Places(group, (0, 4)), 2), []
    R, dR, other = (Sharded(np.full((4, 1), float(k)), stripes.places) for k in range(3))

    def kept():
        return [
            next(k for k, each in enumerate((R, dR, other)) if each is matrix) for matrix, *_ in group.recent
        ]

    for matrices in ([R], [R, dR], [other, dR], [dR, R]):
        stripes.each(matrices, lambda s, *rows: seen.append(kept()))
        seen.append(kept())
    # while they come, and then: the first of those asked for, beside another of them, or the one before
    assert seen == [[], [], [0], [0], [0], [0], [0], [0], [0, 2], [0], [0], [0, 1]]
    group.room = 3 * 4 * 8
    group.recent.clear()
    stripes.each([R, dR], lambda s, *rows: None)
    assert kept() == [0, 1]


def test_offsets_and_their_penalty_are_the_same_in_stripes(data):
    def offsets(cost):
        return rf.WithOffsets(cost)

    values, factors, _ = run(Group(), data, 1, penalty=offsets)
    for found, (L, R), _ in on_threads(2, lambda group: run(group, data, 3, penalty=offsets)):
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-10 * values[0])
        np.testing.assert_allclose(L @ R.T, factors[0] @ factors[1].T, atol=1e-8)


def test_a_model_of_stripes_is_that_of_one_store(data):
    def model(group, stripes):
        triples = SpreadTriples(share(group, data, stripes=stripes), *map(np.arange, SHAPE))
        return rf.MatrixCompletion(rank=RANK, regularization=1.0, random_state=0, tol=1e-4).fit(triples)

    alone = model(Group(), 1)
    for found in on_threads(2, lambda group: model(group, 4)):
        for mine, theirs in zip(found.observed_, alone.observed_, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert found.value_range_ == alone.value_range_
        W, truth = (L @ R.T for L, R in (found.factors_, alone.factors_))
        np.testing.assert_allclose(W, truth, atol=1e-7)


@pytest.mark.parametrize("bias", [True, False])
def test_more_regularisation_than_the_data_can_bear_leaves_the_offsets(data, bias):
    options = {"rank": RANK, "regularization": 1e4, "bias": bias, "random_state": 0}
    alone = rf.MatrixCompletion(bayesian=False, tol=1e-12, **options).fit(data)
    places = np.argwhere(np.ones(SHAPE))

    def fitted(group):
        triples = SpreadTriples(share(group, data), *map(np.arange, SHAPE))
        return rf.MatrixCompletion(**options).fit(triples)

    for found in on_threads(2, fitted):
        assert [factor.shape for factor in found.factors_] == [(60, RANK), (41, RANK)]
        assert not any(factor.any() for factor in found.factors_)
        assert (found.converged_, found.n_iter_) == (True, 1)
        assert found.stop_reason_ == "with this regularization, W = 0 is best"
        assert found.trace_[-1].value > 0 == found.trace_[-1].seconds
        np.testing.assert_allclose(found.predict(places), alone.predict(places), atol=0.02)


@pytest.mark.parametrize("bias", [True, False])
def test_what_offsets_take_is_left_to_no_factor(data, bias):
    """50 more everywhere is a matter of offsets, if there are any: neither the largest λ nor the start."""
    choice = Choice(RANK, 1.0, Shrinkage(0.5, 2.0) if bias else None)

    def started(values):
        fit = _Penalised.of(rf.Completion.from_observed(share(Group(), data, values=values)), choice)
        problem = rf.Problem(fit.cost, rf.FullRank(SHAPE, RANK))
        largest, x0 = fit.started(problem, RANK, 0)
        L, R = (whole(factor) for factor in problem.geometry.factors(x0))
        return largest, L @ R.T

    (one, W), (two, V) = started(data.values), started(data.values + 50.0)
    assert (two == pytest.approx(one, rel=1e-6)) == bias
    assert np.allclose(W, V, atol=1e-6 * one) == bias


@pytest.mark.filterwarnings("ignore:stopped after 1 iterations")
@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_limit_that_is_reached_is_no_convergence(data, weight):
    triples = SpreadTriples(share(Group(), data), *map(np.arange, SHAPE))
    model = rf.MatrixCompletion(RANK, regularization=weight, bias=False, max_iter=1, random_state=0)
    found = model.fit(triples)
    assert (found.converged_, found.stop_kind_, found.n_iter_) == (False, "limit", 1)


def test_spread_entries_start_at_what_is_above_the_weight(data):
    """Singular values of the data, lines of n entries divided by n^¼; of a part of the largest at least."""
    counts = [
        np.bincount(lines, minlength=size) for lines, size in zip((data.rows, data.cols), SHAPE, strict=True)
    ]
    m, n = (each**0.25 for each in counts)
    filled = np.zeros(SHAPE)
    filled[data.rows, data.cols] = data.values
    s = np.linalg.svd(filled / m[:, None] / n, compute_uv=False)
    for weight in (0.5 * s[1], 0.5 * (s[0] + s[1])):
        fit = _Penalised.of(rf.Completion.from_observed(share(Group(), data)), Choice(RANK, weight, None))
        problem = rf.Problem(fit.cost, rf.FullRank(SHAPE, RANK))
        largest, x0 = fit.started(problem, RANK, 0)
        assert largest == pytest.approx(s[0], rel=1e-3)
        L, R = (whole(factor) for factor in problem.geometry.factors(x0))
        found = np.linalg.svd(m[:, None] * (L @ R.T) * n, compute_uv=False)[:RANK]
        np.testing.assert_allclose(found, np.maximum(s[:RANK] - weight, LIFT * s[0]), rtol=0.05)


def test_a_stall_is_the_end_of_a_fit_with_a_penalty_alone(data, monkeypatch):
    """Beside a penalty that is not smooth, what can be reached may be all there is."""

    def stalled(*args, **options):
        return replace(minimize(*args, **options), stop=Stop("no step", StopKind.STALLED))

    minimize = fitting.minimize
    monkeypatch.setattr(fitting, "minimize", stalled)
    triples = SpreadTriples(share(Group(), data), *map(np.arange, SHAPE))
    options = {"rank": RANK, "bias": False, "max_iter": 2, "random_state": 0}
    found = rf.MatrixCompletion(regularization=1.0, **options).fit(triples)
    assert (found.converged_, found.stop_reason_) == (True, "no step")
    with pytest.warns(ConvergenceWarning, match="no step"):
        found = rf.MatrixCompletion(regularization=0.0, **options).fit(triples)
    assert (found.converged_, found.stop_kind_) == (False, "stalled")


def test_what_is_told_of_spread_entries_is_what_memory_tells(data):
    names = "user", "film", "stars"
    theirs = DataSummary.of(data.rows, data.cols, data.values, SHAPE, "x", Columns(*names))
    value_range = float(data.values.min()), float(data.values.max())

    def told(group):
        triples = SpreadTriples(share(group, data, stripes=2), *map(np.arange, SHAPE), names=names)
        unnamed = SpreadTriples(triples.store, *map(np.arange, SHAPE))
        return [spread_report.summary_of(each, value_range, "x") for each in (triples, unnamed)]

    for ours, unnamed in on_threads(2, told):
        assert (ours.columns, ours.repeated, ours.searched) == (theirs.columns, 0, False)
        assert unnamed.columns is None
        for name in ("row_counts", "col_counts"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        for name in ("mean", "deviation", "least", "largest"):
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12)


def test_positions_of_too_many_entries_are_not_kept(data, monkeypatch):
    monkeypatch.setattr("rankfold.estimators.completion.spread_entries.LISTED", len(data.values))
    whole = _pattern(share(Group(), data))
    assert len(whole.indices) == len(data.values)
    monkeypatch.setattr("rankfold.estimators.completion.spread_entries.LISTED", len(data.values) - 1)
    none = _pattern(share(Group(), data))
    assert none.indptr.tolist() == [0] * 61
    assert (len(none.indices), none.indices.dtype) == (0, whole.indices.dtype)


def test_repeated_entries_are_told_by_their_columns_and_kept_in_order():
    triples = [0, 1, 1, 0], [1, 4, 4, 0], [1.0, 3.0, 2.0, 5.0]
    with pytest.raises(ValueError, match=r"entry \(1, 4\) is given more than once"):
        spread_triples(*triples, (2, 5), stripes=2)
    store = spread_triples(*triples, (2, 5), stripes=2, duplicates="keep")
    assert [each.size for each in store.stores] == [2, 2]
    assert store.stores[1].by_row.data[:, 0].tolist() == [2.0, 3.0]
    assert store.counts[1].tolist() == [1, 1, 0, 0, 2]
    assert store.block.size == 4
    seen = []
    store.with_values(lambda i, j, y: seen.extend(zip(i, j, strict=True)) or y)
    assert set(seen) == {(0, 0), (0, 1), (1, 4)}


def test_directions_from_zero_are_found_by_shares_of_both_sides(data, monkeypatch):
    asked, gradient = [], SpreadEntries.gradient
    monkeypatch.setattr(
        SpreadEntries,
        "gradient",
        lambda store, L, R, loss: asked.append((L, R)) or gradient(store, L, R, loss),
    )
    none = [np.zeros((d, 0)) for d in SHAPE]
    U, s, V = dominant_pairs(rf.Completion.from_triples(data), *none, 1)

    def work(group):
        store = share(group, data)
        L, R = (place.array(Z[place.own]) for Z, place in zip(none, store.places, strict=True))
        found = dominant_pairs(rf.Completion.from_observed(store), L, R, 1)
        return whole(found[0]) @ whole(found[2]).T * found[1]

    for found in on_threads(2, work):
        np.testing.assert_allclose(found, U @ V.T * s, atol=1e-12)
    assert [[each.shape for each in pair] for pair in asked] == [[(60, 1), (41, 1)]] * 2
    assert all(is_spread(each) for pair in asked for each in pair)


def test_rows_of_r_elsewhere_are_refused(data):
    store = share(Group(), data)
    R = Sharded(np.ones((SHAPE[1], 1)), Places(Group(), (0, SHAPE[1])))
    R.spread = Places(Group(), (0, 3, SHAPE[1]))
    with pytest.raises(ValueError, match=r"rows of R are cut at \(0, 3, 41\), those of entries at \(0, 41\)"):
        store.value(np.ones((SHAPE[0], 1)), R, rf.Loss.named("square"))


def test_the_next_stripe_is_asked_for_before_one_is_used_and_no_third_is_held():
    told, rooms = [], []

    class Told(Group):
        def gathering(self, block, cuts, exact=False):
            room = block + 0
            rooms.append(weakref.ref(room))
            told.append(f"ask {int(room[0, 0])}")
            assert sum(each() is not None for each in rooms) <= 2
            return Coming(lambda: room)

        def scattering(self, whole, cuts):
            return Coming(lambda: told.append(f"sum {int(whole[0, 0])}") or whole)

    stripes = Stripes(Places(Told(room=0), (0, 4)), 4)
    home = Homeward(stripes)

    def call(s, rows):
        told.append(f"use {int(rows[0, 0])}")
        home.send(s, rows + 0)

    R = Sharded(np.arange(4.0)[:, None], stripes.places)
    stripes.each([R], call)
    np.testing.assert_array_equal(home.summed().block, R.block)
    assert " ".join(told) == ("ask 0 ask 1 use 0 ask 2 use 1 sum 0 ask 3 use 2 sum 1 use 3 sum 2 sum 3")
