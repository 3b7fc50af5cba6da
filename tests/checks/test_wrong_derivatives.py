"""Checks never pass a wrong derivative, never fail a right one, and say where they cannot tell."""

from __future__ import annotations

import numpy as np
import pytest

import rankfold as rf
from checks.wrong_derivatives import cases, judged
from rankfold.checks.curves import measured


@pytest.mark.parametrize("seed", range(24))
def test_wrong_derivatives_are_caught_and_right_ones_pass(seed):
    """What is right, and some of what is wrong, of each instance; `checks.wrong_derivatives` does all."""
    listed = list(cases(seed))
    some = [case for k, case in enumerate(listed) if case[1] or k % 8 == seed % 8]
    assert len(some) > 3
    for what, right, check in some:
        assert judged(check()) == ("right" if right else "WRONG"), what


def truth(seed, geometry):
    """A completion problem, and the point of the very matrix that its data are from."""
    data = rf.data.random_completion(geometry.shape, geometry.rank, 2.0, seed)
    return rf.Problem(rf.Completion.from_triples(data), geometry), geometry.from_factors(data.L, data.R)


@pytest.mark.parametrize("kind", [rf.FullRank, rf.Embedded, rf.Polar, rf.SubspaceProjection])
def test_random_points_are_not_the_truth_of_data_from_the_same_seed(kind):
    problem, x = truth(3, kind((12, 9), 2))
    assert problem.value(x) < 1e-25
    assert problem.value(problem.geometry.random_point(3)) > 0.1


def test_random_directions_are_not_those_of_points_or_data_from_the_same_seed():
    geometry = rf.FullRank((12, 9), 2, metric="euclidean")
    data = rf.data.random_completion((12, 9), 2, 2.0, seed=3)
    x = geometry.random_point(3)
    xi = geometry.random_tangent(x, 3)
    for other in (data.L, np.linalg.qr(data.L)[0]):
        assert abs(np.sum(xi.G * other)) < 0.6 * np.linalg.norm(xi.G) * np.linalg.norm(other)


@pytest.mark.parametrize("kind", [rf.FullRank, rf.Embedded, rf.Polar, rf.SubspaceProjection])
def test_at_a_critical_point_the_gradient_check_is_inconclusive(kind):
    problem, x = truth(0, kind((12, 9), 2))
    check = rf.check_gradient(problem, x)
    assert check.verdict == "inconclusive"
    assert not check.ok
    assert str(check).endswith("inconclusive; check at another point, or with another seed")
    assert rf.check_hessian(problem, x).ok


def test_a_check_says_what_it_found():
    problem, _ = truth(0, rf.FullRank((12, 9), 2))
    check = rf.check_gradient(problem)
    assert str(check) == "gradient: slope 2.000, expected 2: right"
    assert check.claimed == pytest.approx(check.found, rel=1e-9)
    assert check.uncertainty <= 1e-6 * abs(check.found)
    assert check.errors.shape == check.steps.shape


@pytest.mark.parametrize(("size", "values"), [(1e-6, 1.0), (1e6, 1.0), (1.0, 1e-9), (1.0, 1e9)])
@pytest.mark.parametrize("metric", ["invariant", "preconditioned", "euclidean"])
def test_neither_the_size_of_points_nor_of_values_matters(metric, size, values):
    geometry = rf.FullRank((8, 7), 2, metric=metric)
    data = rf.data.random_completion((8, 7), 2, 1.5, seed=0)
    problem = rf.Problem(values * rf.Completion.from_triples(data), geometry)
    x = type(geometry.random_point(1))(*(size * part for part in geometry.random_point(1)))
    assert rf.check_gradient(problem, x).ok
    assert rf.check_hessian(problem, x).ok


class Constant(rf.Cost):
    """The same value everywhere, and derivatives that say so, or not."""

    shape, value_at_zero = (5, 4), 1.0

    def __init__(self, slope):
        self.slope = slope

    def evaluate(self, L, R):
        return 1.0, self.slope * np.ones_like(L), self.slope * np.ones_like(R)

    def derivative(self, L, R, dL, dR):
        return 0 * L, 0 * R


def test_of_a_constant_nothing_can_be_proven_but_that_a_slope_is_wrong():
    geometry = rf.FullRank((5, 4), 2, metric="euclidean")
    assert rf.check_gradient(rf.Problem(Constant(0.0), geometry)).verdict == "inconclusive"
    check = rf.check_gradient(rf.Problem(Constant(0.1), geometry))
    assert check.verdict == "WRONG"
    assert "by differences: WRONG" in str(check)


def test_a_gradient_beside_the_horizontal_space_is_wrong():
    class Unprojected(rf.SubspaceProjection):
        def gradient(self, x, f_L, f_R):
            gradient = super().gradient(x, f_L, f_R)
            return gradient._replace(U=gradient.U + 0.5 * x.U)

    check = rf.check_gradient(truth(0, Unprojected((12, 9), 2))[0])
    assert check.verdict == "WRONG"
    assert "is not in the horizontal space: WRONG" in str(check)


def test_an_asymmetric_hessian_is_wrong():
    problem, _ = truth(0, rf.FullRank((12, 9), 2, metric="euclidean"))

    class Turned(rf.FullRank):
        def hessian(self, x, xi, *f):
            H = super().hessian(x, xi, *f)
            turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
            return H._replace(G=H.G + xi.G @ turn * self.norm(x, H))

    check = rf.check_hessian(rf.Problem(problem.cost, Turned((12, 9), 2, metric="euclidean")))
    assert check.taylor.ok
    assert check.verdict == "WRONG"
    assert str(check).endswith(": WRONG")


@pytest.mark.parametrize(
    ("curve", "first", "second"),
    [
        (np.exp, 1.0, 1.0),
        (lambda t: np.sin(3 * t + 1), 3 * np.cos(1), -9 * np.sin(1)),
        (lambda t: 1e6 + np.sin(t), 1.0, 0.0),
        (lambda t: abs(t + 1e-3) ** 3, 3e-6, 6e-3),  # no third derivative nearby
        (lambda t: np.exp(800 * t), 800.0, 640_000.0),  # overflows within reach
    ],
)
def test_derivatives_are_measured_with_their_error(curve, first, second):
    for order, truth in ((1, first), (2, second)):
        seen = measured(lambda t: float(curve(t)), order, 1.0)
        assert abs(seen.derivative - truth) <= 10 * seen.error
        assert seen.error <= 1e-4 * max(1.0, abs(truth))


def test_rounding_is_measured():
    rng = np.random.default_rng(0)
    seen = measured(lambda t: np.sin(t + 1) + 1e-6 * rng.standard_normal(), 1, 1.0)
    assert 1e-7 < seen.noise.min() < 1e-5
    assert abs(seen.derivative - np.cos(1)) <= 10 * seen.error < 1e-3
