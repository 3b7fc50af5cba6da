"""The losses: derivatives by finite differences, and no overflow."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from rankfold.costs import Loss

LOSSES = [Loss.named(name) for name in ("square", "logistic", "huber", "poisson")] + [Loss.huber(0.3)]


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
    value, first, _ = Loss.huber(2.0)(np.array([1.0, 5.0, -5.0]), 0.0)
    assert_allclose(value, [1, 16, 16])
    assert_allclose(first, [2, 4, -4])
