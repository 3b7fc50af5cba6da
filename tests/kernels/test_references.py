"""Kernels leave nothing behind: what a pass was called with goes when its caller lets it go."""

from __future__ import annotations

import sys
import weakref

import numpy as np

import rankfold as rf
from rankfold.kernels import pool
from rankfold.kernels.chunks import new_progress


def test_no_pass_keeps_an_array(monkeypatch):
    made = []

    def noted(*arguments):
        made.append(new_progress(*arguments))
        return made[-1]

    monkeypatch.setattr(pool, "new_progress", noted)
    data = rf.data.random_completion((40, 30), 2, 4, seed=0)
    cost = rf.Completion.from_triples(data)
    L, R = (np.random.default_rng(k).standard_normal((d, 2)) for k, d in enumerate(data.shape))
    held = [
        array for side in cost.observed.sides for array in (side.indptr, side.bounds, side.data, side.across)
    ]
    before = [sys.getrefcount(array) for array in held]
    cost.evaluate(L, R)
    cost.value(L, R)
    cost.derivative(L, R, L, R)
    cost.polynomial((L, L), (R, R))
    cost.line_blocks(L, R)
    (S,) = (cost.store.gradient(L, R, cost.loss),)
    _ = S @ R, S.transposed_times(L)
    del S, _
    assert [sys.getrefcount(array) for array in held] == before
    assert len(made) > 6
    gone = [weakref.ref(made.pop()) for _ in range(len(made))]
    assert not any(reference() is not None for reference in gone)
