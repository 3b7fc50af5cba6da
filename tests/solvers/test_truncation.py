"""Truncated conjugate gradients beside the textbook's, for one radius at a time, and rounding in models."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import rankfold as rf
from rankfold.solvers import trimming
from rankfold.solvers.damped_model import DampedModel
from rankfold.solvers.truncated_cg import truncated_cg


class Vector(NamedTuple):
    v: np.ndarray


def place(A, g):
    """A quadratic model of numbers, in the inner product of these."""
    geometry = SimpleNamespace(
        inner=lambda x, xi, eta: float(xi.v @ eta.v),
        norm=lambda x, xi: float(np.linalg.norm(xi.v)),
        zero=lambda x: Vector(0 * g),
    )
    return SimpleNamespace(
        problem=SimpleNamespace(geometry=geometry), x=None, gradient=Vector(g),
        gradient_norm=float(np.linalg.norm(g)), hessian=lambda xi: Vector(A @ xi.v),
    )  # fmt: skip


def steihaug(A, g, P, radius, target, most):
    """Steihaug's algorithm, in the norm of P⁻¹: the step, how it ended, and its products."""
    M = np.linalg.inv(P)
    eta, r, products = 0 * g, g.copy(), 0
    d = -P @ r
    while products < most:
        products += 1
        bend = d @ A @ d
        t = (r @ P @ r) / bend if bend > 0 else np.inf
        if bend <= 0 or (eta + t * d) @ M @ (eta + t * d) >= radius**2:
            a, b, c = d @ M @ d, 2 * eta @ M @ d, eta @ M @ eta - radius**2
            return eta + (-b + np.sqrt(b * b - 4 * a * c)) / (2 * a) * d, True, products
        before = r @ P @ r
        eta, r = eta + t * d, r + t * A @ d
        if np.linalg.norm(r) <= target:
            break
        d = -P @ r + (r @ P @ r) / before * d
    return eta, False, products


def models():
    rng = np.random.default_rng(0)
    Q, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    g = rng.standard_normal(6)
    convex, bent = (Q * values @ Q.T for values in ([9.0, 5, 3, 1, 0.4, 0.1], [9.0, 5, 3, 1, 0.4, -0.5]))
    P = np.diag([0.3, 1.0, 2.0, 0.5, 1.5, 0.7])
    return [(convex, g, np.eye(6)), (convex, g, P), (bent, g, np.eye(6)), (bent, g, P), (convex, 1e-6 * g, P)]


@pytest.mark.parametrize("model", range(5))
@pytest.mark.parametrize("radius", [0.3, 4.0, 300.0])
@pytest.mark.parametrize(("theta", "kappa", "most"), [(1.0, 1e-3, 50), (0.5, 0.3, 50), (0.0, 1e-9, 2)])
def test_proposals_are_the_textbook_s_for_each_radius(model, radius, theta, kappa, most):
    A, g, P = models()[model]
    preconditioner = None if model in (0, 2) else lambda here, xi: Vector(P @ xi.v)
    here = place(A, g)
    size = here.gradient_norm
    radius = radius * size
    found, products = truncated_cg(here, radius, theta, kappa, most, preconditioner)
    target = size * min(size**theta, kappa)
    fresh = [steihaug(A, g, P, radius / 4**k, target, most) for k in range(6)]
    crossed = [k for k in range(6) if fresh[k][1]]
    assert products == fresh[0][2]
    ks = sorted({0, *crossed})
    assert len(found) == len(ks)
    for proposal, k in zip(found, ks, strict=True):
        eta, at_boundary, _ = fresh[k]
        assert proposal.radius == radius / 4**k
        assert proposal.at_boundary == at_boundary
        assert_allclose(proposal.eta.v, eta, atol=1e-9 * np.linalg.norm(eta))
        assert proposal.decrease == pytest.approx(-(g @ eta) - eta @ A @ eta / 2, rel=1e-9, abs=0)


def test_products_end_where_a_step_gains_no_more_than_rounding():
    """Of a gradient whose parts are 1 and 1e-9, the second one gains 1e-18 of what the first did."""
    here = place(np.diag([1.0, 2.0, 3.0]), np.array([1.0, 1e-9, 1e-9]))
    (proposal,), products = truncated_cg(here, 1e9, 0.0, 0.0, 50)
    assert products == 2
    assert not proposal.at_boundary
    here = place(np.diag([1.0, 2.0, 3.0]), np.array([1.0, 1e-3, 1e-3]))
    assert truncated_cg(here, 1e9, 0.0, 0.0, 50)[1] >= 3


def test_a_model_of_a_gradient_that_is_zero_has_nothing_to_minimise():
    cost = rf.Completion([0, 1, 0], [0, 1, 1], [1.0, 6.0, 3.0], (2, 2))
    problem = rf.Problem(cost, rf.FullRank((2, 2), 1))
    x = type(problem.geometry.random_point(0))(np.array([[1.0], [2.0]]), np.array([[1.0], [3.0]]))
    here = problem.at(x)
    assert here.value == 0.0
    found = DampedModel.at(here).minimised(1.0, 0.1, 9)
    assert (found.decrease, found.products) == (0.0, 0)
    assert not np.any(found.dL)
    assert not np.any(found.dR)


@pytest.mark.parametrize(
    ("limit", "rows", "cols"),
    [(5.0, [2], [1]), (4.9, [0, 2], [0, 1]), (7.0, [2], []), (6.9, [2], [1]), (99.0, [2], [])],
)
def test_lines_beyond_the_limit_are_far_and_if_none_is_the_farthest(monkeypatch, limit, rows, cols):
    given = np.array([5.0, 4.0, 9.0]), np.array([4.95, 7.0])
    monkeypatch.setattr(trimming, "leverages", lambda problem, x: given)
    found = trimming.farthest(None, None, limit)
    assert [lines.tolist() for lines in found[:2]] == [rows, cols]
    assert found[2] == 9.0


def test_of_two_lines_that_are_as_far_both_are_the_farthest(monkeypatch):
    monkeypatch.setattr(trimming, "leverages", lambda problem, x: (np.array([3.0, 9.0]), np.array([9.0])))
    rows, cols, _ = trimming.farthest(None, None, 10.0)
    assert (rows.tolist(), cols.tolist()) == ([1], [0])
