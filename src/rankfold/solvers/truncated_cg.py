"""The trust-region subproblem by truncated conjugate gradients (Absil et al. 2008, Algorithm 11)."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from rankfold.geometry.base import Tangent, lincomb, scale
from rankfold.problem import Here

Preconditioner = Callable[[Here, Tangent], Tangent]
SHRINK = 4.0  # the factor by which a rejected step shrinks the radius
_REMEMBERED = 6  # how many shrunk radii a solution is kept for
_ROUNDING = float(np.finfo(np.float64).eps)


class Proposal(NamedTuple):
    """A step for one radius, with the decrease that the model promises."""

    radius: float
    eta: Tangent
    decrease: float
    at_boundary: bool


def truncated_cg(
    here: Here,
    radius: float,
    theta: float,
    kappa: float,
    max_iterations: int,
    preconditioner: Preconditioner | None = None,
) -> tuple[tuple[Proposal, ...], int]:
    """Lower the model ⟨g, η⟩ + ½⟨Hess η, η⟩ over ‖η‖ ≤ Δ; return proposals and the Hessian products spent.

    Steps grow along the path of conjugate gradients, so that the solution for a smaller radius is where the
    path crosses it. Proposals come for Δ, Δ/4, Δ/16, ...: a rejected step needs no product that is known.

    The path ends at the boundary or at negative curvature, at ‖r‖ ≤ ‖r₀‖ min(‖r₀‖^θ, κ) (section 5.2), and
    where a step no longer lowers the model by more than rounding, past which products are wasted.
    """
    geometry, x = here.problem.geometry, here.x
    r = here.gradient
    z = r if preconditioner is None else preconditioner(here, r)
    eta, delta, z_r = geometry.zero(x), scale(-1.0, z), geometry.inner(x, z, r)
    # Inner products of η and δ in the preconditioner's metric, by recurrence (Conn et al. 2000, 7.5.5).
    eta_eta, eta_delta, delta_delta = 0.0, 0.0, z_r
    target = here.gradient_norm * min(here.gradient_norm**theta, kappa)
    radii = [radius / SHRINK**k for k in range(_REMEMBERED)]
    proposals: list[Proposal] = []
    decrease, products = 0.0, 0
    while products < max_iterations:
        H_delta = here.hessian(delta)
        products += 1
        curvature = geometry.inner(x, delta, H_delta)
        alpha = z_r / curvature if curvature > 0 else inf
        length = eta_eta + alpha * (2 * eta_delta + alpha * delta_delta) if alpha < inf else inf
        while radii and length >= radii[-1] ** 2:
            gap = radii[-1] ** 2 - eta_eta
            tau = gap / (eta_delta + sqrt(eta_delta**2 + delta_delta * gap))
            gain = tau * z_r - tau * tau * curvature / 2
            proposals.append(Proposal(radii.pop(), lincomb(1.0, eta, tau, delta), decrease + gain, True))
        if not radii:
            return tuple(reversed(proposals)), products
        eta, r = lincomb(1.0, eta, alpha, delta), lincomb(1.0, r, alpha, H_delta)
        decrease += alpha * z_r / 2
        if alpha * z_r / 2 <= _ROUNDING * decrease or geometry.norm(x, r) <= target:
            break
        z = r if preconditioner is None else preconditioner(here, r)
        z_r, before = geometry.inner(x, z, r), z_r
        beta = z_r / before
        delta = lincomb(-1.0, z, beta, delta)
        eta_eta, eta_delta = length, beta * (eta_delta + alpha * delta_delta)
        delta_delta = z_r + beta * beta * delta_delta
    # All radii not crossed share the end of the path: the largest stands for them.
    return (Proposal(radius, eta, decrease, False), *reversed(proposals)), products
