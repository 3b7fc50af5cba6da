"""Polynomials of short curves, and which rows a sample of them takes."""

import numpy as np
import pytest

from entries import test_stores as every_store
from entries.stores import Entries, draw, factors, in_memory
from rankfold.entries.curves import Curve


@pytest.mark.parametrize("terms", [(1, 3), (3, 1), (2, 1)])
def test_curves_of_a_factor_that_stays_where_it_is(terms):
    entries, points = draw(1, 12, 9, 0.6, weighted=True), factors((12, 9), 5, count=3)
    Ls, Rs = points[::2][: terms[0]], points[1::2][: terms[1]]
    times = np.linspace(-1, 1, 5)
    found = np.polynomial.polynomial.polyval(times, in_memory(entries).polynomial(Ls, Rs))
    every_store.close(found, every_store.dense.curve_values(entries, Ls, Rs, times))


@pytest.mark.parametrize(("every", "first"), [(1, 3), (2, 0), (4, 0), (4, 5), (3, 8), (3, 27)])
def test_a_sample_takes_one_in_so_many_runs_of_eight_rows_of_the_whole(every, first):
    A, B = np.ones((45, 8)), np.ones((3, 8))
    rows, cols = np.nonzero(np.arange(3) <= np.arange(45)[:, None] % 3)  # one to three in a row
    side = in_memory(Entries(rows, cols, np.zeros(rows.size), (45, 3))).by_row
    sums = Curve.of((A, A), (B, B), 2, False, True).sums(side, every=every, first=first)
    taken = (first + rows) // 8 % every == 0
    assert sums[..., -1].sum() == taken.sum()
    np.testing.assert_allclose(sums[..., 0].sum(), 64.0 * taken.sum())  # (Σ 1·1)² of each entry
