"""Every cost through one suite and on every geometry; and wrong costs through the same suite."""

from __future__ import annotations

import numpy as np
import pytest

import rankfold as rf
from costs import suite
from costs.catalogue import COSTS, SHAPE, case, mean_square, plain
from geometry.variants import VARIANTS
from rankfold.costs.base import ANY_SHAPE, Evaluation

every = pytest.mark.parametrize("name", COSTS)


@every
@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
def test_suite(check, name):
    check(case(name))


# Every cost on a fifth of the geometries, and every geometry with a fifth of the costs: what can be wrong is
# a cost's derivatives or a geometry's, and neither knows the other.
MEETINGS = [
    (variant, name) for k, variant in enumerate(VARIANTS) for m, name in enumerate(COSTS) if (k + m) % 5 == 0
]


@pytest.mark.parametrize(("variant", "name"), MEETINGS)
def test_gradient_and_hessian_on_every_geometry(variant, name):
    here = case(name)
    cost = here.cost if here.cost.shape != ANY_SHAPE else here.cost + 0.0 * plain()
    suite.derivatives_are_right_on(variant, cost, here.rank, here.seed)


class Right(rf.Completion):
    """A cost that passes; `WRONG` changes one method of it."""


def wrong(**methods):
    cost = type("Wrong", (Right,), methods).from_observed(plain().observed)
    return suite.Case(cost, mean_square)


def off(number):
    return lambda self, L, R, *more: number


def other_value(self, L, R):
    value, f_L, f_R = rf.Completion.evaluate(self, L, R)
    return Evaluation(value + 1e-6, f_L, f_R)


def other_partials(self, L, R):
    value, f_L, f_R = rf.Completion.evaluate(self, L, R)
    return Evaluation(value, f_L, 1.01 * f_R)


def in_float64(self, L, R):
    return rf.Completion.evaluate(self, *(np.asarray(A, dtype=np.float64) for A in (L, R)))


def not_of_w(self, L, R):
    value, f_L, f_R = rf.Completion.evaluate(self, L, R)
    return Evaluation(value + 1e-3 * float((L**2).sum()), f_L + 2e-3 * L, f_R)


def other_derivative(self, L, R, dL, dR):
    df_L, df_R = rf.Completion.derivative(self, L, R, dL, dR)
    return df_L, (1 + 1e-6) * df_R


def far_derivative(self, L, R, dL, dR):
    df_L, df_R = rf.Completion.derivative(self, L, R, dL, dR)
    return 1.02 * df_L, 1.02 * df_R


def other_coefficients(self, Ls, Rs):
    return rf.Completion.polynomial(self, Ls, Rs) * (1 + 1e-6)


def swapped(self, L, R):
    products = rf.Completion.gradient_products(self, L, R)
    return lambda X, Y: tuple(-part for part in products(X, Y))


def uphill(self, rank, seed=0):
    U, s, V = rf.Completion.start(self, rank, seed)
    return -U, s, V


WRONG = [
    (suite.derivatives_agree, {"evaluate": other_value}),
    (suite.derivatives_agree, {"evaluate": other_partials}),
    (suite.derivatives_agree, {"value": off(0.0)}),
    (suite.derivatives_agree, {"derivative": other_derivative}),
    (suite.polynomial_agrees, {"polynomial": other_coefficients}),
    (suite.products_agree, {"gradient_products": swapped}),
    (suite.zero_agrees, {"value_at_zero": 0.0}),
    (suite.start_goes_downhill, {"start": uphill}),
    (suite.factorisation_does_not_matter, {"evaluate": not_of_w}),
    (suite.results_come_back_in_kind, {"evaluate": in_float64}),
]


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("methods", [{"evaluate": other_partials}, {"derivative": far_derivative}])
def test_slopes_find_what_is_wrong(variant, methods):
    with pytest.raises(AssertionError, match="WRONG"):
        suite.derivatives_are_right_on(variant, wrong(**methods).cost, 2)


@pytest.mark.parametrize(("check", "methods"), WRONG, ids=lambda x: getattr(x, "__name__", ""))
def test_the_suite_finds_what_is_wrong(check, methods):
    check(wrong())
    with pytest.raises(AssertionError):
        check(wrong(**methods))


def test_every_public_cost_is_in_the_list():
    tested = {type(part) for name in COSTS for part in parts(case(name).cost)}
    public = {kind for kind in vars(rf).values() if isinstance(kind, type) and issubclass(kind, rf.Cost)}
    assert public - {rf.Cost, rf.FactorPenalty} <= tested  # that one is no function of W


def parts(cost):
    return [cost, *(term for _, term in getattr(cost, "terms", ()))]


def test_shapes_are_alike():
    assert {case(name).shape for name in COSTS} <= {SHAPE, (7, 6), (4, 5), (6, 6)}


class Tuples(rf.Cost):
    """A user's cost that returns plain tuples, or what it should not."""

    shape, value_at_zero = (3, 2), 0.0

    def __init__(self, result=None):
        self.result = result

    def evaluate(self, L, R):
        W = L @ R.T
        return self.result or (float((W**2).sum()), 2 * W @ R, 2 * W.T @ L)

    def derivative(self, L, R, dL, dR):
        W, dW = L @ R.T, dL @ R.T + L @ dR.T
        return 2 * (dW @ R + W @ dR), 2 * (dW.T @ L + W.T @ dL)


def test_a_tuple_will_do_for_an_evaluation():
    for cost in (Tuples(), Tuples() + 0.5 * Tuples()):
        problem = rf.Problem(cost, rf.Polar((3, 2), 1))
        assert rf.check_gradient(problem).ok
        assert rf.check_hessian(problem).ok


@pytest.mark.parametrize(("result", "words"), [(3.0, "got float"), ((1.0, 2.0), "got tuple of length 2")])
def test_what_else_evaluate_returns_is_refused(result, words):
    problem = rf.Problem(Tuples(result), rf.Polar((3, 2), 1))
    with pytest.raises(TypeError, match=rf"evaluate must return the tuple \(value, f_L, f_R\).*{words}"):
        rf.check_gradient(problem)


def test_a_value_that_is_not_a_number_is_wrong():
    class Broken(Tuples):
        def value(self, L, R):
            return float("nan")

    check = rf.check_gradient(rf.Problem(Broken(), rf.Polar((3, 2), 1)))
    assert not check.ok
