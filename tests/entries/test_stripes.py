"""Entries sorted by stripes, as those of very long sides are, against the same entries without stripes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.baselines import LMaFit
from rankfold.entries import sorted_entries
from rankfold.kernels import pool
from rankfold.selection.identifiability import identifiability

DATA = rf.data.random_completion((60, 90), rank=3, oversampling=8, seed=0)


def build(**options):
    return rf.Completion.from_triples(DATA, **options)


@pytest.fixture
def striped(monkeypatch):
    """Build costs in stripes of at least 11 lines."""
    monkeypatch.setattr(sorted_entries, "STRIPES", ((11, 2), (50, 1)))
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
    monkeypatch.setattr(sorted_entries, "STRIPES", ((10, 4), (100, 2)))
    for entries, lines, length, stripes in (
        (39, 10, 1000, 1),  # lines would be left with less than four entries, or two
        (80, 10, 1000, 4),  # wide stripes, with two entries of each line
        (400, 10, 1000, 10),
        (400, 10, 35, 3),  # narrow ones
        (400, 10, 9, 1),
    ):
        assert sorted_entries.stripes_that_pay(entries, lines, length) == stripes


@pytest.mark.parametrize(
    "counts", [[[3, 0, 4, 1, 0, 8, 2, 2]], [[3, 0, 4], [0, 7, 1], [2, 2, 0]], [[0, 0]], [[5]]]
)
@pytest.mark.parametrize("chunks", [1, 2, 3, 5])
def test_chunks_are_runs_of_lines_with_about_as_many_entries_each(counts, chunks):
    """Of all stripes together; a chunk ends at the first line before which its share has come."""
    indptr = np.append(0, np.cumsum(counts)).astype(np.uint64)
    totals = np.sum(counts, axis=0).tolist()
    lines, every = len(totals), sum(totals)
    due = [
        next(k for k in range(lines + 1) if sum(totals[:k]) >= every * c / chunks) for c in range(1, chunks)
    ]
    found = sorted_entries.even_cuts(indptr, lines, chunks)
    assert found.tolist() == [0, *due, lines]
    assert found.dtype == np.uint64


@pytest.mark.parametrize(
    ("entries", "stripes", "chunks"),
    [(0, 1, 1), (2047, 1, 1), (2048, 1, 2), (4096, 1, 3), (4096, 2, 2), (4096, 3, 1), (10**6, 1, 128)],
)
def test_the_number_of_chunks_depends_on_the_data_alone(entries, stripes, chunks):
    lines = 200
    indptr = np.linspace(0, entries, stripes * lines + 1).astype(np.uint64)
    bounds = sorted_entries.chunk_bounds(indptr, lines)
    assert len(bounds) == chunks + 1
    assert (bounds[0], bounds[-1]) == (0, lines)


def test_plain_has_none(striped):
    weights = np.random.default_rng(0).uniform(1, 2, len(DATA))
    plain = striped(weights=weights).observed.plain
    sides = (plain.by_row, DATA.rows, DATA.cols), (plain.by_column, DATA.cols, DATA.rows)
    for side, lines, others in sides:
        order = np.lexsort((others, lines))
        assert side.stripes == 1
        assert_array_equal(side.indices, others[order])
        assert_array_equal(side.data, np.stack([DATA.values, weights], axis=1)[order])
    assert plain.plain is plain


@pytest.mark.parametrize("looks", [0, 60_000], ids=["impatient", "patient"])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_same_bits_for_any_number_of_threads(striped, threads, looks, monkeypatch):
    """Also if threads leave, rather than wait for each other at the end of a stripe."""
    monkeypatch.setattr(pool, "WORTH_A_HELPER", 1)
    monkeypatch.setattr(pool, "MIN_PATIENCE", looks)
    monkeypatch.setattr(pool, "PATIENCE_PER_WORK", 0.0)
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


@pytest.mark.parametrize("order", ["by row", "by row alone", "by column", "none"])
def test_sides_do_not_depend_on_the_order_of_the_triples(order):
    """Those that come in order are not sorted again."""
    rng, whole = np.random.default_rng(0), np.lexsort((DATA.cols, DATA.rows))
    some = {
        "by row": whole,
        "by row alone": np.lexsort((-DATA.cols, DATA.rows)),
        "by column": np.lexsort((DATA.rows, DATA.cols)),
        "none": rng.permutation(whole.size),
    }[order]
    given = rf.Completion(DATA.rows[some], DATA.cols[some], DATA.values[some], DATA.shape)
    for found, due in zip(given.observed.sides, build().observed.sides, strict=True):
        for name in ("indptr", "indices", "data", "bounds"):
            assert_array_equal(getattr(found, name), getattr(due, name))
