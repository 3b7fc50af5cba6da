"""Entries held out of spread ones, and the rank chosen by them: the same on any number of processes."""

from __future__ import annotations

import numpy as np
import pytest

import rankfold as rf
from distributed.tasks import Tasks
from distributed.threads import on_threads
from rankfold.distributed import Group, spread_triples
from rankfold.distributed.holding_out import hold_out, throws

pytest.importorskip("torch")


def test_throws_are_like_random_ones():
    rows, cols = (each.reshape(-1) for each in np.indices((300, 200)))
    found = throws(rows, cols, 7)
    table = found.reshape(300, 200)
    assert abs(found.mean() - 0.5) < 4 / np.sqrt(12 * found.size)
    for line in (table.mean(axis=0), table.mean(axis=1)):
        assert abs(line.std() * np.sqrt(12 * found.size / line.size) - 1) < 0.2
    assert abs(np.corrcoef(table[:, 0], table[:, 1])[0, 1]) < 0.25
    assert abs(np.corrcoef(found, throws(rows, cols, 8))[0, 1]) < 0.02
    assert 0 <= found.min() < 1e-3
    assert 1 - 1e-3 < found.max() < 1


@pytest.mark.parametrize("stripes", [1, 3])
def test_each_entry_is_kept_or_held_out_wherever_it_is(stripes):
    data = rf.data.random_completion((60, 41), 2, 6, seed=1)
    weights = np.linspace(1, 2, len(data.values))
    expected = throws(data.rows, data.cols, 5) < 0.3

    def work(group):
        own = np.arange(len(data.values)) % group.size == group.rank
        triples = data.rows[own], data.cols[own], data.values[own]
        store = spread_triples(*triples, data.shape, weights[own], group=group, stripes=stripes)
        kept, (i, j, numbers) = hold_out(store, 0.3, 5)
        seen = []
        kept.with_values(lambda i, j, y: seen.extend(zip(i, j, strict=True)) or y)
        return kept.size, set(seen), np.column_stack([i + store.rows.bounds[0], j, numbers])

    parts = on_threads(2, work)
    apart = np.concatenate([table for *_, table in parts])
    truth = np.column_stack([data.rows, data.cols, data.values, weights])
    by_place = [table[np.lexsort((table[:, 1], table[:, 0]))] for table in (apart, truth[expected])]
    np.testing.assert_array_equal(*by_place)
    assert parts[0][0] == np.count_nonzero(~expected)
    left = set(zip(data.rows[~expected].tolist(), data.cols[~expected].tolist(), strict=True))
    assert set.union(*(seen for _, seen, _ in parts)) == left


@pytest.mark.parametrize(("size", "stripes"), [(2, 1), (3, 2)])
def test_the_rank_is_that_of_one_process(size, stripes, tmp_path):
    chosen, numbers = Tasks(Group(), tmp_path).ranks_tried()
    assert chosen == 3
    for found, mine in on_threads(size, lambda group: Tasks(group, tmp_path).ranks_tried(stripes)):
        assert found == chosen
        np.testing.assert_allclose(mine, numbers, rtol=1e-6)
