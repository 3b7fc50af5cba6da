"""A run takes the same steps in whatever unit the data are, and whatever they weigh."""

import numpy as np
import pytest

import rankfold as rf
from golden.runs import METHODS, TOLD

SHAPE = 20, 15
DATA = rf.data.random_completion(SHAPE, 2, 3.0, 0, noise=0.1)
WEIGHTS = np.random.default_rng(0).uniform(0.5, 2, len(DATA.values))
# A radius that is given is a length.
ALL = {name: method for name, method in (METHODS | TOLD).items() if name not in ("gd, told", "tr, told")}
COUNTS = "values", "gradients", "hessians", "polynomials", "blocks", "inner_iterations", "backtracks"


def trace(method, values, weights=None, loss="square"):
    cost = rf.Completion(DATA.rows, DATA.cols, values, SHAPE, weights, loss)
    problem = rf.Problem(cost, rf.FullRank(SHAPE, 2))
    return rf.minimize(problem, method, max_iterations=6, tolerance=0.0).trace


def same_steps(one, other, unit):
    np.testing.assert_allclose(other["value"], unit * one["value"], rtol=1e-6)
    for name in COUNTS:
        np.testing.assert_array_equal(other[name], one[name], err_msg=name)


@pytest.mark.parametrize("unit", [2.0**-12, 2.0**12])
@pytest.mark.parametrize("name", ALL)
def test_values_in_another_unit(name, unit):
    one, other = (trace(ALL[name], by * DATA.values) for by in (1.0, unit))
    same_steps(one, other, unit**2)


@pytest.mark.parametrize("unit", [2.0**-12, 2.0**12])
def test_values_in_another_unit_without_blocks_of_lines(unit):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((30, 20)), rng.standard_normal((30, 15))

    def of(unit):
        cost = rf.Regression(X, unit * Y)
        assert not cost.has_line_blocks
        problem = rf.Problem(cost, rf.FullRank(cost.shape, 2))
        return rf.minimize(problem, "gn", max_iterations=6, tolerance=0.0).trace

    same_steps(of(1.0), of(unit), unit**2)


@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize("unit", [2.0**-12, 2.0**12])
@pytest.mark.parametrize("name", ["gd", "cg", "tr", "gn"])
def test_weights_in_another_unit(name, unit, loss):
    values = DATA.values if loss == "square" else (DATA.values > 0) * 1.0
    one, other = (trace(ALL[name], values, by * WEIGHTS, loss) for by in (1.0, unit))
    same_steps(one, other, unit)
