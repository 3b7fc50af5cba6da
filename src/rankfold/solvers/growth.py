"""Changing the rank of a point: by the gradient's dominant singular pairs, or by leaving out the least."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np
from array_api_compat import array_namespace

from rankfold.costs.base import Array, Cost, Products
from rankfold.geometry.base import Point
from rankfold.linalg import asarray_like, eps, gram, svd_of_product, sym, trace
from rankfold.problem import Problem

# Per growth: products with the gradient on each side, a pair of which counts as a gradient (and costs as
# much, or less for completions), and random directions beyond those asked for. With 6 products a wrong
# direction came up now and then (4000², r = 10, κ = 1e5, ρ = 3), which the solver could not turn; from 10
# on the solver takes as many iterations as with exact singular vectors.
_PRODUCTS, _EXTRA = 10, 1
_HALVINGS = 30
_HALF = 0.5  # of a unit vector: less is left of one that was within the others, but for rounding
# A singular value below this multiple of rounding in the largest is noise, whatever the data.
_COLLAPSED = 100.0


def dominant_pairs(
    cost: Cost, L: Array, R: Array, count: int, symmetric: bool = False
) -> tuple[Array, Array, Array]:
    """Return U, s, V with about the `count` dominant singular pairs of S = ∇f(L Rᵀ), seen through products.

    Only the part of S outside the column and row spaces of W counts, for a direction inside them is no new
    one. Two Krylov sequences at once, from random X and random Y, since an evaluation gives a product on each
    side; then the singular pairs of S Q Qᵀ, with Q a basis of all that X has been. If `symmetric`, those of
    (S + Sᵀ)/2.
    """
    xp = array_namespace(L)
    outside = [_outside(Z) for Z in (L, R)]
    width = max(1, min(count + _EXTRA, min(cost.shape) - L.shape[1]))
    rng = np.random.default_rng(0)
    Y, X = (
        _orthonormal(out(asarray_like(rng.standard_normal((d, width)), L)))
        for d, out in zip(cost.shape, outside, strict=True)
    )
    products = _products(cost, L, R, symmetric)
    Q, SQ = X[:, :0], Y[:, :0]
    for _ in range(max(1, min(_PRODUCTS, (min(cost.shape) - L.shape[1]) // width))):
        S_X, St_Y = products(X, Y)
        S_X, St_Y = outside[0](S_X), outside[1](St_Y)
        Q, SQ = xp.concat([Q, X], axis=1), xp.concat([SQ, S_X], axis=1)
        Z = _orthonormal(St_Y - Q @ gram(Q, St_Y))
        # Twice, so that rounding does not bring back what was projected out (Kahan). Where S has no further
        # direction, Z was nothing else: others are as good.
        Z = outside[1](Z - Q @ gram(Q, Z))
        other = asarray_like(rng.standard_normal((cost.shape[1], width)), L)
        Z = xp.where(xp.linalg.vector_norm(Z, axis=0) > _HALF, Z, outside[1](other - Q @ gram(Q, other)))
        X, Y = _orthonormal(Z), _orthonormal(S_X)
    U, s, V = svd_of_product(SQ, Q)
    return U[:, :count], s[:count], V[:, :count]


def descending_pairs(cost: Cost, L: Array, R: Array, count: int) -> tuple[Array, Array, Array]:
    """Return -U, s, U with the up to `count` least eigenvalues -s < 0 of (S + Sᵀ)/2 outside W, where L = R.

    Adding t U diag(s) Uᵀ keeps a positive semidefinite W so, and is the steepest way down that does. Half of
    the dominant pairs may well belong to positive eigenvalues, hence twice as many.
    """
    xp = array_namespace(L)
    Q, _, _ = dominant_pairs(cost, L, R, 2 * count, symmetric=True)
    S_Q, _ = _products(cost, L, R, symmetric=True)(Q, Q)
    values, E = xp.linalg.eigh(sym(gram(Q, S_Q)))
    negative = min(count, sum(float(value) < 0 for value in values))
    U = Q @ E[:, :negative]
    return -U, -values[:negative], U


def _products(cost: Cost, L: Array, R: Array, symmetric: bool) -> Products:
    """Return (X, Y) ↦ (S X, SᵀY), or the same with the symmetric part of S."""
    products = cost.gradient_products(L, R)
    if not symmetric:
        return products

    def symmetrised(X: Array, Y: Array) -> tuple[Array, Array]:
        (S_X, St_X), (S_Y, St_Y) = products(X, X), products(Y, Y)
        return (S_X + St_X) / 2, (S_Y + St_Y) / 2

    return symmetrised


def _orthonormal(Z: Array) -> Array:
    return array_namespace(Z).linalg.qr(Z)[0]


def _outside(Z: Array) -> Callable[[Array], Array]:
    """Return the projection onto the complement of the columns of Z."""
    if not Z.shape[1]:
        return lambda X: X
    B = _orthonormal(Z)
    return lambda X: X - B @ gram(B, X)


def grown(problem: Problem, x: Point, count: int = 1, threshold: float = 0.0) -> Point | None:
    """Return a point of rank k + `count` with a lower value, from a point of rank k; None if there is none.

    The gradient's dominant singular pairs are appended, with the best common factor t: exact if the cost is
    quadratic in W, else Newton's first step, halved until the value falls. With a `threshold`, pairs whose
    singular value is below it do not count, and t is shortened as a nuclear norm of that weight would.
    """
    cost, (L, R) = problem.cost, problem.geometry.factors(x)
    xp = array_namespace(L)
    find = descending_pairs if problem.geometry.symmetric else dominant_pairs
    U, s, V = find(cost, L, R, count)
    problem.counts.gradients += 2 * _PRODUCTS if problem.geometry.symmetric else _PRODUCTS
    if not (s.shape[0] and float(s[0]) > threshold):
        return None
    left, right = xp.concat([L, xp.zeros_like(U)], axis=1), xp.concat([R, V], axis=1)
    down = xp.concat([xp.zeros_like(L), -U * s], axis=1)
    bend = curvature(cost, left, right, down)
    here = problem.at(x)
    t = (1 - threshold / float(s[0])) * (float(xp.sum(s * s)) / bend if bend > 0 else 1.0)
    problem.counts.hessians += 1
    for _ in range(_HALVINGS):
        value = cost.value(left + t * down, right)
        problem.counts.values += 1
        if isfinite(value) and value < here.value - here.noise:
            return problem.with_rank(L.shape[1] + s.shape[0]).geometry.from_factors(left + t * down, right)
        t /= 2
    return None


def curvature(cost: Cost, L: Array, R: Array, dL: Array) -> float:
    """Return the second derivative of the cost along dL Rᵀ."""
    df_L, _ = cost.derivative(L, R, dL, array_namespace(R).zeros_like(R))
    return trace(gram(df_L, dL))


def collapsed(problem: Problem, x: Point) -> int:
    """Return how many singular values of W are lost in the rounding of the largest."""
    _, s, _ = svd_of_product(*problem.geometry.factors(x))
    return sum(float(value) <= _COLLAPSED * eps(s) * float(s[0]) for value in s)


def truncated(problem: Problem, x: Point, rank: int) -> Point:
    """Return the best approximation of x of a lower rank, as a point of the geometry of that rank."""
    U, s, V = svd_of_product(*problem.geometry.factors(x))
    # Copies, for views with gaps would be multiplied in another order than what a checkpoint gives back.
    parts = (array_namespace(U).asarray(part, copy=True) for part in (U[:, :rank], s[:rank], V[:, :rank]))
    return problem.with_rank(rank).geometry.from_svd(*parts)
