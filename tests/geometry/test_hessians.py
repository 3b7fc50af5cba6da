"""Second derivatives on every geometry: Hessians, and the accelerations of retractions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import rankfold as rf
from geometry.variants import VARIANTS, every, located, minus, products, seeds, sizes, those, velocity
from rankfold.checks import acceleration
from rankfold.geometry.base import scale

few = settings(max_examples=6, deadline=None)


@every
@settings(max_examples=8)
@given(size=sizes(), seed=seeds)
def test_hessian_is_the_second_derivative_of_the_cost(name, size, seed):
    problem, here = located(name, size, seed)
    check = rf.check_hessian(problem, here.x, seed)
    assert check.ok, check


@every
@few
@given(size=sizes(), seed=seeds)
def test_hessian_is_symmetric_and_horizontal(name, size, seed):
    problem, here = located(name, size, seed)
    geometry = problem.geometry
    xi, eta = geometry.random_tangent(here.x, seed), geometry.random_tangent(here.x, seed + 1)
    H_xi, H_eta = here.hessian(xi), here.hessian(eta)
    size_ = geometry.norm(here.x, H_xi) + geometry.norm(here.x, H_eta) + here.gradient_norm
    assert abs(geometry.inner(here.x, H_xi, eta) - geometry.inner(here.x, xi, H_eta)) <= 1e-10 * size_
    gap = minus(geometry.to_horizontal(here.x, geometry.to_tangent(here.x, H_xi)), H_xi)
    assert geometry.norm(here.x, gap) <= 1e-12 * size_


@products
@few
@given(size=sizes(largest=8), seed=seeds)
def test_hessian_form_is_the_second_derivative_less_what_the_metric_says_of_the_curve(name, size, seed):
    """The truth needs neither connection nor Hessian formula: f, R, and derivatives of the metric itself."""
    problem, here = located(name, size, seed)
    geometry = problem.geometry
    geometry.second_order = False  # take nothing on trust: measure the acceleration of every retraction
    xi = geometry.random_tangent(here.x, seed)
    h = 1e-2
    values = {k: problem.value(geometry.retract(here.x, scale(k * h, xi))) for k in (-3, -2, -1, 0, 1, 2, 3)}
    weights = {-3: 2, -2: -27, -1: 270, 0: -490, 1: 270, 2: -27, 3: 2}  # sixth-order stencil
    second = sum(weights[k] * values[k] for k in values) / (180 * h * h)
    truth = second - acceleration(geometry, here.x, xi, here.gradient)
    form = geometry.inner(here.x, here.hessian(xi), xi)
    assert form == pytest.approx(truth, rel=1e-5, abs=1e-5 * (1 + here.gradient_norm))


@those(lambda variant: variant.is_product and variant.example.second_order)
@few
@given(size=sizes(largest=8), seed=seeds)
def test_retractions_declared_second_order_have_no_acceleration(name, size, seed):
    problem, here = located(name, size, seed)
    geometry = problem.geometry
    geometry.second_order = False
    xi = geometry.random_tangent(here.x, seed)
    assert abs(acceleration(geometry, here.x, xi, here.gradient)) <= 1e-6 * (1 + here.gradient_norm)


@those(lambda variant: not variant.example.second_order)
def test_retractions_not_declared_second_order_have_acceleration(name):
    problem, here = located(name, ((7, 6), 3), 0)
    geometry = problem.geometry
    assert abs(acceleration(geometry, here.x, geometry.random_tangent(here.x, 1), here.gradient)) > 1e-3


def test_which_retractions_are_of_second_order():
    """Those by polar factors, exponential maps and projection; the two tests above hold them to it."""
    found = {name for name, variant in VARIANTS.items() if variant.example.second_order}
    assert found == {"GH-euclidean", "UBV-spd", "UBV-diagonal", "UY-euclidean", "embedded", "YY-euclidean"}


@those(lambda variant: isinstance(variant.example, rf.Embedded))
@few
@given(size=sizes(), seed=seeds)
def test_embedded_hessian_is_the_projected_derivative_of_the_gradient_field(name, size, seed):
    problem, here = located(name, size, seed)
    geometry, x = problem.geometry, here.x
    xi = geometry.random_tangent(x, seed)

    def gradient_matrix(t):
        at = problem.at(geometry.retract(x, scale(t, xi)))
        return velocity(geometry, at.x, at.gradient)

    h = 1e-3
    change = (
        8 * (gradient_matrix(h) - gradient_matrix(-h)) - gradient_matrix(2 * h) + gradient_matrix(-2 * h)
    ) / (12 * h)
    P_U, P_V = x.U @ x.U.T, x.V @ x.V.T
    truth = P_U @ change + change @ P_V - P_U @ change @ P_V
    np.testing.assert_allclose(
        velocity(geometry, x, here.hessian(xi)), truth, atol=1e-7 * (1 + np.abs(truth).max())
    )
