"""How far growth goes along a new direction, where the cost is not quadratic."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.problem import Counts
from rankfold.solvers import growth


class OnALine:
    """A cost along one direction, where L is the step: lower up to 0.3, with so much curvature."""

    quadratic = False

    def __init__(self, bend, lowest=0.3):
        self.bend, self.lowest = bend, lowest

    def value(self, L, R):
        return -1.0 if float(L[0, 0]) <= self.lowest else np.inf

    def derivative(self, L, R, dL, dR):
        return self.bend * dL, dR


@pytest.mark.parametrize(
    ("bend", "lowest", "step", "values"),
    [(0.0, 0.3, 0.2, 3), (4.0, 0.3, 0.2, 2), (4.0, 0.4, 0.4, 1), (-4.0, 0.4, 0.4, 2), (0.0, -1.0, 0.0, 30)],
)
def test_growth_halves_newton_s_step_until_the_value_falls(bend, lowest, step, values):
    counts = Counts()
    here = SimpleNamespace(
        problem=SimpleNamespace(cost=OnALine(bend, lowest), counts=counts), value=0.0, noise=0.0
    )
    one, zero = np.ones((1, 1)), np.zeros((1, 1))
    assert growth._lower(here, zero, one, one, 2.0, 0.8) == pytest.approx(step)
    assert (counts.hessians, counts.values) == (1, values if step else growth._HALVINGS)


def test_products_with_the_symmetric_part_are_the_same_from_either_side():
    S, X, Y = (np.random.default_rng(k).standard_normal((5, d)) for k, d in enumerate((5, 2, 3)))
    cost = SimpleNamespace(gradient_products=lambda L, R: lambda X, Y: (S @ X, S.T @ Y))
    for found, Z in zip(growth._products(cost, X, X, symmetric=True)(X, Y), (X, Y), strict=True):
        assert_allclose(found, (S + S.T) @ Z / 2, atol=1e-14)


def test_without_a_lower_value_there_is_no_growth(monkeypatch):
    data = rf.data.random_completion((30, 20), 3, 3.0, seed=0)
    problem = rf.Problem.of(rf.Completion.from_triples(data), 1)
    assert growth.grown(problem, problem.start()) is not None
    monkeypatch.setattr(growth, "_lower", lambda *_: 0.0)
    assert growth.grown(problem, problem.start()) is None
