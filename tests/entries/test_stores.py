"""What every store of entries must pass: each pass against the dense matrix, on entries of every kind."""

from dataclasses import replace
from unittest import mock

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from costs.losses import FORMULAS, named
from entries import dense_entries as dense
from entries.stores import STORES, Entries, draw, factors
from rankfold.entries.store import LineBlockStore, ModelStore
from rankfold.kernels import layout, sweeps

on_gpu = {"gpu": [pytest.mark.gpu]}
every_store = pytest.mark.parametrize(
    "build", [pytest.param(build, marks=on_gpu.get(name, ()), id=name) for name, build in STORES.items()]
)
SQUARE = rf.Loss.named("square")


def loss_of(name):
    loss = named(name)
    return rf.Loss.named(loss) if isinstance(loss, str) else loss


def close(actual, desired, tolerance=1e-11):
    desired = np.asarray(desired)
    assert_allclose(actual, desired, rtol=tolerance, atol=tolerance * max(1e-3, np.abs(desired).max()))


def all_passes(store, loss, L, R, dL, dR):
    """Value, partial derivatives and their change, as `dense.passes` orders them."""
    return *store.evaluate(L, R, loss), *store.derivative(L, R, dL, dR, loss)


def agrees_with_dense(store, entries, loss, points, tolerance=1e-11):
    L, R, dL, dR = points
    truth = dense.passes(entries, loss, *(p.astype(float) for p in points))
    for actual, desired in zip(all_passes(store, loss_of(loss), *points), truth, strict=True):
        close(actual, desired, tolerance)
    close(store.value(L, R, loss_of(loss)), truth[0], tolerance)
    S = store.gradient(L, R, loss_of(loss))
    matrix = dense.gradient(entries, loss, (L @ R.T).astype(float))
    assert S.shape == entries.shape
    close(S @ dR, matrix @ dR, tolerance)
    close(S.transposed_times(dL), matrix.T @ dL, tolerance)
    if isinstance(store, LineBlockStore):
        for actual, desired in zip(
            store.blocks(L, R, loss_of(loss)), dense_blocks(entries, loss, L, R), strict=True
        ):
            close(actual, desired, tolerance)


def dense_blocks(entries, loss, L, R):
    """Σ w ℓ″ R_j R_jᵀ / |Ω| of each row, and the same of each column, entry by entry."""
    L, R = L.astype(float), R.astype(float)
    rows, cols = (np.zeros((*Z.shape, Z.shape[1])) for Z in (L, R))
    w = np.einsum("pk,pk->p", L[entries.rows], R[entries.cols])
    _, _, second = loss_of(loss)(w, entries.values)
    second = second * (1 if entries.weights is None else entries.weights) / len(w)
    for i, j, s in zip(entries.rows, entries.cols, second, strict=True):
        rows[i] += s * np.outer(R[j], R[j])
        cols[j] += s * np.outer(L[i], L[i])
    return rows, cols


# Few ranks, for each compiles its own kernels: 23 has vectors of every width. Kernels of these very ranks
# serve many entries, those of a few widths few. Factors lie side by side in those of `test_many_entries_...`.
RANKS = [(23, True), (1, False)]  # and whether kernels are those of this very rank


# Their indices have 32 bits, and so kernels of their own: those of one width are enough for these.
PASSED_OVER_IN_PARTS = [build for name, build in STORES.items() if name.startswith("disk")]


def widths(own):
    return mock.patch.object(layout, "FEW", 0 if own else layout.FEW)


def drawn(**fixed):
    return st.builds(
        draw,
        seed=st.integers(0, 10**6),
        d1=st.integers(1, 40),
        d2=st.integers(1, 40),
        density=st.floats(0, 1),
        repeat=st.sampled_from([0, 0, 3]),
        **fixed,
    )


@every_store
@settings(max_examples=12, deadline=None)
@given(drawn(), st.sampled_from(RANKS), st.integers(0, 99))
def test_passes_of_any_entries(build, entries, which, seed):
    rank, own = (5, False) if build in PASSED_OVER_IN_PARTS else which
    with widths(own):
        agrees_with_dense(build(entries), entries, "square", factors(entries.shape, rank, seed))


def passes_agree(build, loss, weighted, shape=(30, 40)):
    if build is STORES.get("gpu") and loss == "own":
        pytest.skip("Triton compiles the built-in losses alone; test_gpu.py has the refusal")
    entries = draw(1, *shape, weighted=weighted, loss=loss)
    store, points = build(entries), factors(entries.shape, 3)
    agrees_with_dense(store, entries, loss, points)
    assert isinstance(store, ModelStore)
    model = dense.model(entries, loss, *points)
    for actual, desired in zip(store.gauss_newton(*points, loss_of(loss)), model, strict=True):
        close(actual, desired)
    zero = dense.mean_loss(entries, loss, torch.zeros(entries.shape, dtype=torch.float64)).item()
    close(store.value_at_zero(loss_of(loss)), zero)
    operator, matrix = store.targets(loss_of(loss)), dense.targets(entries, loss)
    X, Y = factors(entries.shape, 3, seed=2, count=1)[::-1]
    close(operator @ X, matrix @ X)
    close(operator.transposed_times(Y), matrix.T @ Y)


@every_store
# Weights multiply whatever a loss says: one of constant curvature and that of a user are enough with them.
@pytest.mark.parametrize(
    ("loss", "weighted"), [*((loss, False) for loss in FORMULAS if loss != "own"), ("square", True)]
)
def test_passes_of_every_loss(build, loss, weighted):
    passes_agree(build, loss, weighted)


# It is compiled in each process, for each type of index: `costs.catalogue` has more of it.
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(
            build, marks=pytest.mark.soak if build in PASSED_OVER_IN_PARTS else on_gpu.get(name, ()), id=name
        )
        for name, build in STORES.items()
    ],
)
def test_passes_of_a_loss_of_one_s_own(build):
    passes_agree(build, "own", weighted=True)


# Weights are two branches of the same code, which the square loss has in kernels of its own as well.
@pytest.mark.parametrize("weighted", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_many_entries_have_kernels_of_their_loss(weighted):
    entries = draw(1, 30, 40, weighted=weighted, loss="logistic")
    points = factors(entries.shape, 3)
    with widths(True):
        store = STORES["memory"](entries)
        agrees_with_dense(store, entries, "logistic", points)
        model = dense.model(entries, "logistic", *points)
        for actual, desired in zip(store.gauss_newton(*points, loss_of("logistic")), model, strict=True):
            close(actual, desired)


# In registers of any processor there is room for several rows of rank 3, and in none for those of rank 33.
@pytest.mark.parametrize(
    ("where", "rank", "dtype"),
    [("memory", 3, "f8"), ("memory, in stripes", 3, "f8"), ("memory", 3, "f4"), ("memory", 33, "f8")],
)
def test_many_entries_are_taken_several_at_a_time(where, rank, dtype):
    """Lines of 0 to 30 entries; of three stripes, of up to 11 in each."""
    rows, cols = np.tril_indices(31, -1)
    values = np.random.default_rng(0).standard_normal(rows.size)
    entries = Entries(rows, cols, values.astype(dtype), (31, 31))
    points = [point.astype(dtype) for point in factors(entries.shape, rank)]
    truth = dense.passes(entries, "square", *(point.astype(float) for point in points))
    tolerance = 1e-11 if dtype == "f8" else 1e-5
    with widths(True):
        store = STORES[where](entries)
        for found, due in zip(all_passes(store, SQUARE, *points), truth, strict=True):
            close(found, due, tolerance)
        if (where, rank, dtype) == ("memory", 3, "f8"):
            close(store.value(*points[:2], SQUARE), truth[0])
            model = dense.model(entries, "square", *points)
            for found, due in zip(store.gauss_newton(*points, SQUARE), model, strict=True):
                close(found, due)


def test_several_at_a_time_are_entries_without_weights_of_the_square_loss():
    square, other = sweeps.SQUARE, sweeps.SQUARE + 1
    cases = [(3, square, False), (3, square, True), (3, other, False), (3, None, False), (33, square, False)]
    assert [sweeps.by_several(*case) for case in cases] == [True, False, False, False, False]


WAVE = rf.Loss.from_functions(
    lambda w, y: 1 - np.cos(w - y), lambda w, y: np.sin(w - y), lambda w, y: np.cos(w - y)
)


@pytest.mark.parametrize("build", [STORES["memory"], STORES["memory, in stripes"]])
def test_a_model_has_no_negative_curvature(build):
    """1 − cos(w − y) bends down where |w − y| is above π/2: those entries have no part in a model."""
    entries = draw(1, 30, 40)
    L, R, dL, dR = factors(entries.shape, 3)
    i, j = entries.rows, entries.cols
    second = np.cos(np.einsum("pk,pk->p", L[i], R[j]) - entries.values)
    assert 0.05 < np.mean(second < 0) < 0.95
    S = np.zeros(entries.shape)
    np.add.at(S, (i, j), np.maximum(second, 0) * (dL @ R.T + L @ dR.T)[i, j] / len(i))
    for actual, desired in zip(
        build(entries).gauss_newton(L, R, dL, dR, WAVE), (S @ R, S.T @ L), strict=True
    ):
        close(actual, desired)


@every_store
@pytest.mark.parametrize("rank", [200, pytest.param(50, marks=pytest.mark.soak)])
def test_large_ranks(build, rank):
    entries = draw(2, 40, 30, 0.5)
    L, R = factors(entries.shape, rank, count=1)
    truth = dense.passes(entries, "square", L, R, L, R)[:3]
    for actual, desired in zip(build(entries).evaluate(L, R, SQUARE), truth, strict=True):
        close(actual, desired)


# Ranks, terms of either factor, whether kernels are those of this very rank, weights: one compiles for each.
CURVES = [
    (5, (3, 3), True, True), (23, (2, 3), True, False),
    (5, (1, 1), False, True), (5, (3, 2), False, False), (5, (3, 2), False, True),
]  # fmt: skip


@every_store
@settings(max_examples=12, deadline=None)
@given(drawn(weighted=st.just(True)), st.sampled_from(CURVES))
def test_polynomial(build, entries, curve):
    rank, terms, own, weighted = curve
    if build in PASSED_OVER_IN_PARTS:
        rank, terms, own = 5, (3, 2), False
    entries = entries if weighted else replace(entries, weights=None)
    points = factors(entries.shape, rank, count=3)
    Ls, Rs = points[::2][: terms[0]], points[1::2][: terms[1]]
    with widths(own):
        coefficients = build(entries).polynomial(Ls, Rs)
    assert coefficients.shape == (2 * sum(terms) - 3,)
    times = np.linspace(-1, 1, 5)
    found = np.polynomial.polynomial.polyval(times, coefficients)
    close(found, dense.curve_values(entries, Ls, Rs, times))


@every_store
def test_a_sampled_polynomial(build):
    """Of rows that are all alike, any sample has the polynomial of all; of others it has one of its own."""
    L, R, dL, dR = factors((60, 40), 3)
    entries = draw(4, 60, 40, 1.0)
    store = build(entries)
    found = [store.polynomial((L, dL), (R, dR), every) for every in (1, 4, 4)]
    assert_array_equal(found[1], found[2])
    assert np.abs(found[0] - found[1]).max() > 1e-6
    alike = store.with_values(lambda rows, cols, _: np.cos(cols))
    curve = (np.ones((60, 1)) * L[:1], np.ones((60, 1)) * dL[:1]), (R, dR)
    close(alike.polynomial(*curve, 4), alike.polynomial(*curve))


@every_store
def test_what_a_store_knows_of_itself(build):
    entries = draw(3, 20, 30, 0.05, weighted=True)
    store = build(entries)
    assert (store.shape, store.size, store.weighted) == ((20, 30), len(entries.rows), True)
    assert store.dtype == np.float64
    assert not build(draw(3, 20, 30)).weighted
    for found, where, size in zip(store.counts, (entries.rows, entries.cols), (20, 30), strict=True):
        assert_array_equal(found, np.bincount(where, minlength=size))
        assert 0 in found


def zero_weights_count_for_nothing(build):
    entries = draw(1, 5, 4, 0.6)
    weights = np.where(np.arange(len(entries.rows)) % 3 == 1, 0.0, 2.0)
    weighted = replace(entries, weights=weights)
    store, (L, R) = build(weighted), factors((5, 4), 2, count=1)
    truth = dense.passes(entries.take(weights > 0), "square", L, R, L, R)
    for found, due in zip(store.evaluate(L, R, SQUARE), truth, strict=False):
        close(found, due * 2 * np.mean(weights > 0))


@every_store
def test_entries_of_weight_zero(build):
    zero_weights_count_for_nothing(build)


def factors_of_several_types(build):
    entries, (L, R) = draw(1, 5, 4, 0.6), factors((5, 4), 2, count=1)
    store = build(entries)
    types = {}
    for kinds in (("f4", "f4"), ("f4", "f8"), ("f8", "f4"), ("f8", "f8"), ("i4", "f4")):
        points = [X.astype(kind) for X, kind in zip((L, R), kinds, strict=True)]
        value, *partials = store.evaluate(*points, SQUARE)
        types[kinds] = {each.dtype.name for each in partials}
        exact = dense.passes(entries, "square", *(X.astype(float) for X in points * 2))[0]
        close(value, exact, 1e-5 if kinds == ("f4", "f4") else 1e-11)
    assert types.pop(("f4", "f4")) == {"float32"}
    assert set().union(*types.values()) == {"float64"}


@every_store
def test_factors_of_several_types_are_computed_with_in_double_precision(build):
    factors_of_several_types(build)


def refuses_other_shapes(build):
    entries = draw(1, 5, 4, 0.6)
    store, (L, R, dL, dR) = build(entries), factors((5, 4), 2)

    def refused(ask, *points):
        """Each of the factors may be that of another matrix, or of another rank."""
        ask(*points, SQUARE)
        for k, point in enumerate(points):
            for wrong in (point[1:], np.vstack([point, point]), point[:, :1], point[0]):
                given = [*points[:k], wrong, *points[k + 1 :], SQUARE]
                with pytest.raises(ValueError, match=r"must have shape .* for all factors of a 5x4 matrix"):
                    ask(*given)

    for ask in (store.evaluate, store.value, store.gradient, getattr(store, "blocks", store.value)):
        refused(ask, L, R)
    for ask in (store.derivative, store.gauss_newton):
        refused(ask, L, R, dL, dR)
    refused(lambda A, B, dA, dB, _: store.polynomial((A, dA), (B, dB)), L, R, dL, dR)
    for S in (store.gradient(L, R, SQUARE), store.targets(SQUARE)):
        for ask, right in ((S.__matmul__, R), (S.transposed_times, L)):
            ask(right)
            for wrong in (right[1:], np.vstack([right, right]), right[:, 0]):
                with pytest.raises(ValueError, match=f"{len(right)} rows .*got shape"):
                    ask(wrong)


@every_store
def test_factors_of_other_matrices_are_refused(build):
    refuses_other_shapes(build)


@every_store
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (5, 6)])
def test_one_entry(build, shape):
    entries = Entries(np.array([shape[0] - 1]), np.array([0]), np.array([2.0]), shape)
    agrees_with_dense(build(entries), entries, "square", factors(shape, 1))


def float32_is_kept(build, weighted, shape=(30, 40)):
    entries = draw(5, *shape, weighted=weighted)
    points = [p.astype(np.float32) for p in factors(entries.shape, 3)]
    store = build(entries).astype(np.float32)
    assert store.dtype == np.float32
    agrees_with_dense(store, entries, "square", points, 1e-5)
    arrays = all_passes(store, SQUARE, *points)[1:]
    S = store.gradient(*points[:2], SQUARE)
    assert S.dtype == store.targets(SQUARE).dtype == np.dtype("float32")
    numbers = store.asarray(np.array([0.1, 2.0]))
    assert numbers.tolist() == np.array([0.1, 2.0], np.float32).tolist()
    assert {array.dtype for array in (*arrays, S @ points[1], S.transposed_times(points[0]))} == {
        np.dtype("float32")
    }
    assert store.polynomial(points[::2], points[1::2]).dtype == np.float64


@every_store
@pytest.mark.parametrize("weighted", [False, True])
def test_float32_in_float32_out(build, weighted):
    float32_is_kept(build, weighted)


def answers_in_kind(build, xp, shape=(30, 40)):
    entries = draw(6, *shape)
    store, plain = build(entries), factors(entries.shape, 3)
    points = [xp.asarray(p) for p in plain]
    S = store.gradient(*points[:2], SQUARE)
    found = *all_passes(store, SQUARE, *points)[1:], S @ points[1], S.transposed_times(points[0])
    T = store.gradient(*plain[:2], SQUARE)
    expected = *all_passes(store, SQUARE, *plain)[1:], T @ plain[1], T.transposed_times(plain[0])
    for one, two in zip(found, expected, strict=True):
        assert type(one) is type(points[0])
        assert_array_equal(np.asarray(one), two)


@every_store
@pytest.mark.parametrize("xp", [torch, array_api_strict], ids=["torch", "strict"])
def test_answers_in_the_arrays_it_is_asked_in(build, xp):
    answers_in_kind(build, xp)


@every_store
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_entries_does_not_matter(build, weighted):
    entries = draw(7, 50, 60, repeat=5, weighted=weighted)
    points = factors(entries.shape, 5)
    shuffled = entries.take(np.random.default_rng(0).permutation(len(entries.rows)))
    results = [all_passes(build(given), SQUARE, *points) for given in (entries, shuffled)]
    for one, two in zip(*results, strict=True):
        assert_array_equal(one, two)


@every_store
def test_the_same_bits_for_any_number_of_threads(build, monkeypatch):
    in_parts = build in PASSED_OVER_IN_PARTS  # hundreds, of 7 entries each
    entries = draw(8, 50, 40) if in_parts else draw(8, 500, 400)
    store, points = build(entries), factors(entries.shape, 5)
    results = []
    for threads in (1, 2, 3, 7):
        monkeypatch.setenv("RANKFOLD_NUM_THREADS", str(threads))
        polynomial = store.polynomial(points[::2], points[1::2])
        S = store.gradient(*points[:2], SQUARE)
        blocks = store.blocks(*points[:2], SQUARE) if isinstance(store, LineBlockStore) else ()
        results.append((*all_passes(store, SQUARE, *points), polynomial, S @ points[1], *blocks))
    for result in results[1:]:
        for one, two in zip(results[0], result, strict=True):
            assert_array_equal(one, two)


@every_store
@pytest.mark.parametrize("weighted", [False, True])
def test_other_values_make_another_store(build, weighted):
    entries = draw(9, 30, 40, repeat=2, weighted=weighted)
    store, points = build(entries), factors(entries.shape, 3)
    before = all_passes(store, SQUARE, *points)

    def shifted(rows, cols, values):
        return values + rows - 2.0 * cols

    changed = Entries(
        entries.rows,
        entries.cols,
        shifted(entries.rows, entries.cols, entries.values),
        entries.shape,
        entries.weights,
    )
    other = store.with_values(shifted)
    agrees_with_dense(other, changed, "square", points)
    for one, two in zip(before, all_passes(store, SQUARE, *points), strict=True):
        assert_array_equal(one, two)


@every_store
def test_a_matrix_is_found_from_its_entries(build):
    """A cost over the store, a geometry and a solver that know nothing of it."""
    data = rf.data.random_completion((24, 20), rank=2, oversampling=4, seed=0)
    store = build(Entries(data.rows, data.cols, data.values, data.shape))
    problem = rf.Problem(rf.Completion.from_observed(store), rf.FullRank(data.shape, 2))
    found = rf.minimize(problem, rf.ConjugateGradient(), tolerance=1e-20)
    assert data.relative_error(*(torch.as_tensor(x).cpu() for x in found.factors)) < 1e-8
