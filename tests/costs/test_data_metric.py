"""The metric of the data is formed in single precision: where that reaches, and how near it is."""

from __future__ import annotations

import numpy as np
import pytest

import rankfold as rf
from rankfold.costs import data_metric


@pytest.mark.parametrize(
    ("largest", "least", "single"),
    [(9e14, 2e-15, True), (1e15, 1.0, False), (1.0, 1e-15, False)],
)
def test_factors_are_single_where_scales_are_within_reach(largest, least, single):
    Z = np.ones((3, 2))
    found = data_metric._single(Z, np.array([largest, least]))
    assert (found.dtype == np.float32) == single
    assert single or found is Z


@pytest.mark.parametrize("size", [1.0, 1e-45, 1e45])
def test_inverted_blocks_are_near_those_of_double_precision(monkeypatch, size):
    data = rf.data.random_completion((40, 30), 3, 5, seed=0, condition=1e3)
    cost = rf.Completion(data.rows, data.cols, size * data.values, data.shape)
    factors = rf.Problem.of(cost, 3).start()
    found = data_metric.DataMetric.formed(cost, *factors)
    monkeypatch.setattr(data_metric, "_single", lambda Z, s: Z)
    expected = data_metric.DataMetric.formed(cost, *factors)
    for ours, theirs in ((found.rows, expected.rows), (found.cols, expected.cols)):
        rows, others = (side.inverse.astype(np.float64).reshape(-1, 3, 3) for side in (ours, theirs))
        scales = np.sqrt(np.einsum("ikj,ikj->ij", others, others))[:, None]  # of the unknowns of a line
        np.testing.assert_allclose(rows / scales, others / scales, atol=2e-5)
