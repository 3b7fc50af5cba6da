"""Entries sorted by stripes, as those of very long sides are, against the same entries without stripes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.baselines import LMaFit
from rankfold.entries import observed
from rankfold.selection.identifiability import identifiability

DATA = rf.data.random_completion((60, 90), rank=3, oversampling=8, seed=0)


def build(**options):
    return rf.Completion(DATA.rows, DATA.cols, DATA.values, DATA.shape, **options)


@pytest.fixture
def striped(monkeypatch):
    """Build costs in stripes of at least 11 lines."""
    monkeypatch.setattr(observed, "STRIPES", ((11, 2), (50, 1)))
    return build


def test_entries_are_sorted_by_stripe(striped):
    cost = striped()
    for side, (lines, length) in (
        (cost.observed.by_row, DATA.shape),
        (cost.observed.by_column, DATA.shape[::-1]),
    ):
        assert side.stripes == length // 11
        assert side.lines == lines
        stripe = side.indices // -(-length // side.stripes)
        order = np.lexsort((side.indices, side.keys, stripe))
        assert_array_equal(order, np.arange(cost.observed.size))
    assert_array_equal(cost.observed.by_row.counts, np.bincount(DATA.rows))
    assert_array_equal(cost.observed.by_column.counts, np.bincount(DATA.cols))


def test_there_are_no_more_stripes_than_pay(monkeypatch):
    monkeypatch.setattr(observed, "STRIPES", ((10, 4), (100, 2)))
    for entries, lines, length, stripes in (
        (39, 10, 1000, 1),  # lines would be left with less than four entries, or two
        (80, 10, 1000, 4),  # wide stripes, with two entries of each line
        (400, 10, 1000, 10),
        (400, 10, 35, 3),  # narrow ones
        (400, 10, 9, 1),
    ):
        assert observed._stripes(entries, lines, length) == stripes


@pytest.mark.parametrize("weighted", [False, True])
def test_every_kernel_adds_up_the_stripes(striped, weighted):
    rng = np.random.default_rng(0)
    weights = rng.uniform(1, 2, len(DATA)) if weighted else None
    L, R, dL, dR = (rng.standard_normal((d, 3)) for d in DATA.shape * 2)
    cost = striped(weights=weights)
    plain = rf.Completion.from_observed(cost.observed.plain)
    assert plain.observed.by_row.stripes == plain.observed.by_column.stripes == 1
    for one, two in zip(cost.evaluate(L, R), plain.evaluate(L, R), strict=True):
        assert_allclose(one, two, rtol=1e-12)
    products = cost.gradient_products(L, R)(dR, dL), plain.gradient_products(L, R)(dR, dL)
    for one, two in zip(*products, strict=True):
        assert_allclose(one, two, rtol=1e-12, atol=1e-14)
    assert_allclose(cost.value(L, R), plain.value(L, R), rtol=1e-13)
    for one, two in zip(cost.derivative(L, R, dL, dR), plain.derivative(L, R, dL, dR), strict=True):
        assert_allclose(one, two, rtol=1e-11, atol=1e-13)
    curve = (L, dL), (R, dR)
    assert_allclose(cost.polynomial(*curve), plain.polynomial(*curve), rtol=1e-12)
    assert_allclose(cost.start(3)[1], plain.start(3)[1], rtol=1e-10)


@pytest.mark.parametrize("looks", [0, 60_000], ids=["impatient", "patient"])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_same_bits_for_any_number_of_threads(striped, threads, looks, monkeypatch):
    """Also if threads leave, rather than wait for each other at the end of a stripe."""
    from rankfold.kernels import pool

    monkeypatch.setattr(pool, "SERIAL_WORK", 0)
    monkeypatch.setattr(pool, "MIN_LOOKS", looks)
    monkeypatch.setattr(pool, "LOOKS", 0.0)
    L, R = (np.random.default_rng(1).standard_normal((d, 3)) for d in DATA.shape)
    cost = striped()
    truth = cost.evaluate(L, R)
    monkeypatch.setenv("RANKFOLD_NUM_THREADS", str(threads))
    for _ in range(20):
        assert_array_equal(cost.evaluate(L, R).f_R, truth.f_R)


def test_all_that_looks_at_entries_sees_the_same(striped):
    cost = striped()
    plain = rf.Completion.from_observed(cost.observed.plain)
    for make in (
        lambda cost: rf.WithOffsets(cost, rows=1.0, cols=2.0),
        lambda cost: cost + rf.Nuclear.by_counts(0.1, cost),
        lambda cost: cost + rf.Unobserved(0.1, cost),
    ):
        for one, two in zip(
            make(cost).evaluate(DATA.L, DATA.R), make(plain).evaluate(DATA.L, DATA.R), strict=True
        ):
            assert_allclose(one, two, rtol=1e-9, atol=1e-12)
    assert identifiability(cost, DATA.L, DATA.R).unique
    problem = rf.Problem(cost, rf.FullRank(DATA.shape, 3))
    found = rf.minimize(problem, LMaFit(), tolerance=1e-20)
    assert DATA.relative_error(*found.x) < 1e-8


def test_a_repeated_entry_is_named(striped):
    rows, cols = np.append(DATA.rows, DATA.rows[7]), np.append(DATA.cols, DATA.cols[7])
    where = rf"entry \({DATA.rows[7]}, {DATA.cols[7]}\) .* at positions 7 and {len(DATA)}"
    with pytest.raises(ValueError, match=where):
        rf.Completion(rows, cols, np.append(DATA.values, 1.0), DATA.shape)
    kept = rf.Completion(rows, cols, np.append(DATA.values, 1.0), DATA.shape, duplicates="keep")
    assert kept.observed.size == len(DATA) + 1
