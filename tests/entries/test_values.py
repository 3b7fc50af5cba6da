"""What values say by themselves, in blocks of any size."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rankfold as rf
from rankfold.entries import values
from rankfold.fingerprint import spread

DATA = np.column_stack([np.random.default_rng(0).uniform(-2, 3, 11), np.arange(11.0)])
blocks = pytest.mark.parametrize("block", [1, 4, 11, 100])
#: of curvature y² everywhere
OWN = rf.Loss(lambda w, y, _: (y * y * w * w / 2 - w + y, y * y * w - 1, y * y + 0 * w))


@blocks
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sums_that_tell_values_apart_are_in_units_of_their_norm(block, kind, monkeypatch):
    monkeypatch.setattr(values, "BLOCK", block)
    y = DATA[:, 0].astype(kind).astype(float)
    found = values.value_sums(DATA.astype(kind))
    assert list(found) == ["sum over the values", "second sum over the values"]
    due = [spread(11, step**0.5) @ y / np.linalg.norm(y) for step in (2, 5)]
    assert_allclose(list(found.values()), due, rtol=1e-12)
    assert list(values.value_sums(0 * DATA).values()) == [0.0, 0.0]


@blocks
def test_the_largest_curvature_is_that_of_all_blocks(block, monkeypatch):
    monkeypatch.setattr(values, "BLOCK", block)
    assert_allclose(values.largest_curvature(DATA, OWN, np.dtype(float)), np.max(DATA[:, 0] ** 2))
    assert values.largest_curvature(DATA[::-1], rf.Loss.named("logistic"), np.dtype("f4")) == 0.25


@blocks
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("loss", [rf.Loss.named("square"), OWN])
def test_losses_at_zero_are_weighted_and_added_up(block, columns, loss, monkeypatch):
    monkeypatch.setattr(values, "BLOCK", block)
    y, weights = DATA[:, 0], DATA[:, 1] if columns == 2 else 1.0
    due = np.sum(weights * (y**2 if loss.is_square else y))
    assert_allclose(values.sum_at_zero(DATA[:, :columns], loss), due, rtol=1e-12)


def test_what_is_asked_for_is_the_values_or_where_a_gradient_step_leads():
    assert_array_equal(values.targets(DATA, rf.Loss.named("square")), DATA[:, 0])
    assert_allclose(values.targets(DATA, OWN), np.ones(11) / np.max(DATA[:, 0] ** 2))
    flat = rf.Loss(lambda w, y, _: (y * w, y, 0 * w))
    assert_allclose(values.targets(DATA, flat), -DATA[:, 0])
