"""The losses: derivatives by finite differences, and no overflow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankfold.costs import Loss

NAMES = "square", "logistic", "huber", "poisson", "squared_hinge"
LOSSES = [*map(Loss.named, NAMES), Loss.huber(0.3)]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.formula.__name__}{loss.parameter}")
def test_derivatives(loss):
    w, h = np.linspace(-3, 3, 41) + 0.01, 1e-5
    for y in (0.0, 1.0):
        _, first, second = loss(w, y)
        above, below = loss(w + h, y), loss(w - h, y)
        assert_allclose(first, (above[0] - below[0]) / (2 * h), atol=1e-8)
        assert_allclose(second, (above[1] - below[1]) / (2 * h), atol=1e-8)


def test_logistic_far_out():
    value, first, second = Loss.named("logistic")(np.array([-1e3, 1e3]), np.array([0.0, 1.0]))
    for part in (value, first, second):
        assert_allclose(part, 0, atol=1e-12)


def test_huber_joins_square_and_its_tangent():
    value, first, second = Loss.huber(2.0)(np.array([1.0, 2.0, -2.0, 5.0, -5.0]), 0.0)
    assert_allclose(value, [1, 4, 4, 16, 16])
    assert_allclose(first, [2, 4, -4, 4, -4])
    assert_allclose(second, [2, 2, 2, 0, 0])  # the square's, where they meet


def test_squared_hinge_pays_for_missing_the_margin():
    w, y = np.array([2.0, 0.5, -1.0, 0.5, 1.0]), np.array([1.0, 1.0, 0.0, 0.0, 1.0])
    value, first, second = Loss.named("squared_hinge")(w, y)
    assert_allclose(value, [0, 0.25, 0, 2.25, 0])
    assert_allclose(first, [0, -1, 0, 3, 0])
    assert_allclose(second, [0, 2, 0, 2, 0])


def test_which_losses_may_be_negative():
    assert [name for name in NAMES if not Loss.named(name).nonnegative] == ["poisson"]
    assert not Loss.from_functions(lambda w, y: w, lambda w, y: 1.0, lambda w, y: 0.0).nonnegative
