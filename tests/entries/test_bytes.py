"""How few bytes an entry takes: 16 bits for its column, and a value in float32, computed with in float64."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from entries.stores import Entries, draw, factors, in_memory, in_stripes, on_disk
from rankfold.costs.without_lines import WithoutLines
from rankfold.entries.lines import normal_equations, solve_lines
from rankfold.entries.observed import Observed
from rankfold.kernels import pool
from rankfold.selection.holding_out import hold_out
from rankfold.selection.sampling import sample_lines

SQUARE = rf.Loss.named("square")


def passes(store, loss, seed=0):
    """What each pass answers at some factors."""
    L, R, dL, dR = factors(store.shape, 3, seed)
    S = store.gradient(L, R, loss)
    found = [*store.evaluate(L, R, loss), store.value(L, R, loss), *store.derivative(L, R, dL, dR, loss)]
    found += [*store.gauss_newton(L, R, dL, dR, loss), *store.blocks(L, R, loss)]
    found += [S @ dR, S.transposed_times(dL), store.value_at_zero(loss), store.mean_value]
    found += [store.targets(loss) @ dR, store.largest_curvature(loss)]
    return [*found, store.polynomial([L, dL], [R, dR]), store.polynomial([L], [R, dR], every=2)]


def same_bits(found, due):
    for one, two in zip(found, due, strict=True):
        assert np.asarray(one).dtype == np.asarray(two).dtype
        assert_array_equal(one, two)


def held_wide(store):
    """The same entries with columns in 32 bits, as they are, stripe by stripe."""
    return replace(
        store, **{n: replace(s, across=s.indices) for n, s in zip(SIDES, store.sides, strict=True)}
    )


SIDES = "by_row", "by_column"


@pytest.mark.parametrize("build", [in_memory, in_stripes])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_16_bits_give_the_same_bits_as_32(build, threads, monkeypatch):
    monkeypatch.setattr(pool, "WORTH_A_HELPER", 1)
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", threads)
    store = build(draw(0, 40, 50, weighted=True))
    assert all(side.across.dtype == np.uint16 for side in store.sides)
    wide = held_wide(store)
    assert all(side.across.dtype == np.uint32 for side in wide.sides)
    assert [side.step for side in wide.sides] == [0, 0]
    same_bits(passes(store, SQUARE), passes(wide, SQUARE))
    B = factors((50, 40), 3)[0]
    for solve in (
        lambda side: solve_lines(side, B, np.ones((40, 3))),
        lambda side: normal_equations(side, B, 3, 30)[0],
    ):
        assert_array_equal(solve(store.by_row), solve(wide.by_row))


@pytest.mark.parametrize(
    ("length", "entries", "index", "stripes"),
    [
        (65_536, 300, np.uint16, 1),  # the last number is 65,535
        (65_537, 300, np.uint32, 1),  # a stripe does not pay
        (70_000, 850, np.uint16, 2),
        (131_073, 850, np.uint32, 2),  # two that are too wide
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_long_sides_have_16_bits_in_stripes_that_are_narrow_enough(length, entries, index, stripes, turned):
    rng = np.random.default_rng(0)
    ends = [0, 1, length // 2 - 1, length // 2, 65_535, min(65_536, length - 1), length - 1]
    far = np.append(np.unique(ends), rng.choice(length - 10, entries, replace=False) + 5)
    far, near = np.unique(far), rng.integers(0, 20, np.unique(far).size)
    values = rng.standard_normal(far.size)
    given, shape = ((near, far), (20, length)) if turned else ((far, near), (length, 20))
    store = in_memory(Entries(*given, values, shape))
    long, short = store.sides if turned else store.sides[::-1]
    assert (long.across.dtype, long.stripes) == (index, stripes)
    assert (short.across.dtype, short.stripes) == (np.uint16, 1)
    order = np.lexsort((far, near, far // -(-length // stripes)))
    assert long.indices.dtype == np.uint32
    assert_array_equal(long.indices, far[order])
    assert_array_equal(long.columns(np.arange(far.size)[::-3]), far[order][::-3])
    L, R = factors(shape, 2, count=1)
    e = np.einsum("pk,pk->p", L[given[0]], R[given[1]]) - values
    value, f_L, f_R = store.evaluate(L, R, SQUARE)
    assert value == pytest.approx(e @ e / e.size)
    for found, own, other, Z in ((f_L, *given, R), (f_R, *given[::-1], L)):
        due = np.zeros_like(found)
        np.add.at(due, own, (2 / e.size * e)[:, None] * Z[other])
        assert_allclose(found, due, atol=1e-15)
    again = pickle.loads(pickle.dumps(store))
    same_bits(again.evaluate(L, R, SQUARE), (value, f_L, f_R))
    assert_array_equal(store.with_values(lambda i, j, y: 1000.0 * j + i).by_row.data[:, 0], positions(store))
    assert_array_equal(np.sort(store.plain.by_row.indices), np.sort(given[1]))


def positions(store):
    side = store.by_row
    return 1000.0 * side.indices + side.keys


def test_a_column_beyond_the_last_is_refused_in_every_stripe():
    side = in_stripes(draw(0, 9, 7)).by_row  # columns 0 to 2, 3 to 5, and 6
    assert (side.stripes, int(side.step)) == (3, 3)
    assert side.across[-1] == 0
    for place, wrong in ((-1, 1), (0, 7)):
        across = side.across.copy()
        across[place] = wrong
        with pytest.raises(ValueError, match="an index is 7, and there are 7 columns"):
            replace(side, across=across)


def representable(weighted=True, loss="square"):
    """Entries whose values and weights float32 has."""
    entries = draw(1, 30, 40, loss=loss)
    rng = np.random.default_rng(2)
    weights = rng.integers(1, 9, len(entries.rows)) / 4 if weighted else None
    return replace(entries, values=np.round(4 * entries.values) / 4, weights=weights)


def stored(entries, storage, **options):
    given = entries.rows, entries.cols, entries.values, entries.shape, entries.weights
    return Observed.from_triples(*given, warn_of_empty=False, storage=storage, **options)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["square", "logistic", "huber", "poisson", "squared_hinge"])
def test_values_that_float32_has_lose_nothing_in_it(loss, weighted):
    entries = representable(weighted, loss)
    single, double = stored(entries, "float32"), stored(entries, None)
    assert single.by_row.data.dtype == single.storage == np.float32
    assert single.dtype == single.plain.dtype == np.float64
    assert double.storage is None
    assert single.astype(np.float32).dtype == np.float32
    loss = rf.Loss.named(loss)
    due = passes(double, loss)
    for store in (single, pickle.loads(pickle.dumps(single)), single.with_values(lambda i, j, y: y)):
        same_bits(passes(store, loss), due)
    same_bits(passes(on_disk(entries, lambda entries: stored(entries, None), part=10**6), loss), due)


def test_other_values_are_rounded_and_computed_with_in_float64():
    entries = draw(3, 30, 40)
    rounded = replace(entries, values=entries.values.astype(np.float32).astype(np.float64))
    same_bits(passes(stored(entries, "float32"), SQUARE), passes(stored(rounded, None), SQUARE))
    # float32 values, that are computed with in float32 unless it is said how to hold them
    single = replace(entries, values=entries.values.astype(np.float32))
    assert stored(single, None).dtype == np.float32
    for storage in ("float32", np.float64):
        assert stored(single, storage).by_row.data.dtype == storage
        same_bits(passes(stored(single, storage), SQUARE), passes(stored(rounded, None), SQUARE))


def test_bytes_of_an_entry():
    entries = draw(4, 100, 100, density=0.9)
    pointers = 2 * 8 * (101 + len(in_memory(entries).by_row.bounds))
    for storage, each in ((None, 20), ("float64", 20), ("float32", 12)):
        store = stored(entries, storage)
        assert store.nbytes == each * store.size + pointers


def test_repeated_entries_keep_how_they_are_held():
    entries = draw(5, 9, 7, repeat=3)
    assert stored(entries, "float32", duplicates="keep").storage == np.float32


def test_what_takes_a_part_of_the_entries_holds_it_alike():
    entries = representable()
    options = {"weights": entries.weights}
    triples = entries.rows, entries.cols, entries.values, entries.shape
    single, double = (rf.Completion(*triples, storage=s, **options) for s in ("float32", None))
    some = np.array([2, 3])
    for part in (
        lambda cost: hold_out(cost, 0.2, 0)[0],
        lambda cost: sample_lines(cost, 100, 0),
        lambda cost: WithoutLines(cost, some, some)._rest,
    ):
        assert part(single).observed.storage == np.float32
        assert part(double).observed.storage is None
        same_bits(passes(part(single).observed, SQUARE), passes(part(double).observed, SQUARE))


def test_a_fit_has_the_same_bits_too():
    data = rf.data.random_completion((30, 40), 2, 5, seed=0)
    values = data.values.astype(np.float32)
    costs = [
        rf.Completion(data.rows, data.cols, values.astype(np.float64), data.shape),
        rf.Completion(data.rows, data.cols, values, data.shape, storage="float32"),
    ]
    found = [rf.minimize(rf.Problem(cost, rf.FullRank(data.shape, 2)), max_iterations=5).x for cost in costs]
    same_bits(found[1], found[0])
    assert found[1][0].dtype == np.float64


@pytest.mark.parametrize("storage", ["float16", "int32", "half a float", 7])
def test_a_storage_that_is_none_is_named(storage):
    with pytest.raises(ValueError, match="storage must be 'float32' or 'float64'"):
        rf.Completion([0], [0], [1.0], (1, 1), storage=storage)


def test_on_a_gpu_values_are_held_as_they_are_computed_with():
    with pytest.raises(ValueError, match="storage is for entries in memory: leave it out with device='cuda'"):
        rf.Completion([0], [0], [1.0], (1, 1), storage="float32", device="cuda")


def test_what_goes_to_a_gpu_is_of_the_type_that_is_computed_in(monkeypatch):
    entries, given = representable(), []
    triples = entries.rows, entries.cols, entries.values, entries.shape
    cost = rf.Completion(*triples, weights=entries.weights, storage="float32")

    class Store:
        @staticmethod
        def from_triples(*arguments):
            given.extend(arguments)
            return cost.observed

    for place in ("costs.completion", "entries.devices"):
        monkeypatch.setattr(f"rankfold.{place}.gpu_store", lambda *arguments: Store)
    cost.on("cuda")
    rows, cols, values, _, weights, *_ = given
    assert values.dtype == weights.dtype == np.float64
    order = np.lexsort((entries.cols, entries.rows))
    for found, due in zip((rows, cols, values, weights), (*triples[:3], entries.weights), strict=True):
        assert_array_equal(found, due[order])
