"""Changing the rank of a point: by the gradient's dominant singular pairs, or by leaving out the least."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np
from array_api_compat import array_namespace

from rankfold.costs.base import Array, Cost, Products
from rankfold.costs.completion import Completion
from rankfold.entries.store import Operator
from rankfold.geometry.base import Point
from rankfold.linalg import (
    column_norms,
    eps,
    gram,
    gram_factor,
    normal_like,
    orthonormal,
    svd_of_product,
    sym,
    thin_svd,
    trace,
)
from rankfold.problem import Counts, Here, Problem
from rankfold.solvers.line_search import change_along, minimiser

# Per growth: at most so many products with the gradient on each side, a pair of which counts as a gradient
# (and costs as much, or less for completions), and random directions beyond those asked for. With 6 a wrong
# direction came up now and then (4000², r = 10, κ = 1e5, ρ = 3), which the solver could not turn; from 10 on
# the solver takes as many iterations as with exact singular vectors. To end as soon as singular values settle
# costs no iterations there, nor on P4 (3 to 5 pairs in turn): values err by the square of what vectors do.
_PRODUCTS, _EXTRA = 10, 1
_STREAM = (0, 1)  # of random numbers: not that of seed 0, which data and points may have been drawn from
_HALVINGS = 30
_HALF = 0.5  # of a unit vector: less is left of one that was within the others, but for rounding
# A singular value below this multiple of rounding in the largest is noise, whatever the data.
_COLLAPSED = 100.0


def dominant_pairs(
    cost: Cost,
    L: Array,
    R: Array,
    count: int,
    symmetric: bool = False,
    settled: float = 0.0,
    counts: Counts | None = None,
) -> tuple[Array, Array, Array]:
    """Return U, s, V with about the `count` dominant singular pairs of S = ∇f(L Rᵀ), seen through products.

    Only the part of S outside the column and row spaces of W counts, for a direction inside them is no new
    one. Krylov sequences from random blocks; then the singular pairs of S Q Qᵀ, with Q a basis of all that X
    has been. If `symmetric`, those of (S + Sᵀ)/2. `settled`: see `RankContinuation`.
    """
    outside = [_outside(Z) for Z in (L, R)]
    width = max(1, min(count + _EXTRA, min(cost.shape) - L.shape[1]))
    most = max(1, min(_PRODUCTS, (min(cost.shape) - L.shape[1]) // width))
    rng = np.random.default_rng(_STREAM)
    if settled and isinstance(cost, Completion) and not symmetric:
        X = orthonormal(outside[1](normal_like(rng, (R.shape[0], width), R)))
        return _settled(cost.gradient_matrix(L, R), X, count, settled, outside, rng, most, counts)
    Y, X = (
        orthonormal(out(normal_like(rng, (Z.shape[0], width), Z)))
        for Z, out in zip((L, R), outside, strict=True)
    )
    products = _products(cost, L, R, symmetric)
    Q, SQ = X[:, :0], Y[:, :0]
    for left in range(most, 0, -1):
        # Each evaluation gives a product on either side: a second sequence, from Y, is free.
        S_X, St_Y = products(X, Y)
        S_X = outside[0](S_X)
        Q, SQ = _joined(Q, X), _joined(SQ, S_X)
        _count(counts, 2 if symmetric else 1)
        if left > 1:
            X, Y = _beside(Q, outside[1](St_Y), outside[1], rng), orthonormal(S_X)
    U, s, Ct = thin_svd(SQ)
    return U[:, :count], s[:count], Q @ Ct.T[:, :count]


def _settled(
    S: Operator,
    X: Array,
    count: int,
    settled: float,
    outside: list[Callable[[Array], Array]],
    rng: np.random.Generator,
    most: int,
    counts: Counts | None,
) -> tuple[Array, Array, Array]:
    """Return the dominant pairs of a matrix at hand: products on one side and then on the other, from X.

    With U the best of what S Q spans, and s its singular values there, one more product would find ‖SᵀU‖² or
    more instead of Σ s². SᵀU is known without it, and nearer to the singular vectors than what Q has.
    """
    xp = array_namespace(X)
    Q, SQ, StSQ = X[:, :0], X[:, :0], X[:, :0]
    for left in range(most, 0, -1):
        S_X = outside[0](S @ X)
        Z = outside[1](S.transposed_times(S_X))
        SQ = _joined(SQ, S_X) if left < most else S_X
        Q, StSQ = _joined(Q, X), _joined(StSQ, Z)
        _count(counts, 1)
        squares, E = xp.linalg.eigh(gram(SQ, SQ))
        E = E[:, -count:]
        more = xp.linalg.diagonal(E.T @ gram(StSQ, StSQ) @ E) / squares[-count:]
        if float(xp.sum(more)) < (1 + settled) * float(xp.sum(squares[-count:])):
            break
        if left > 1:
            X = _beside(Q, Z, outside[1], rng)
    U, s, Ct = thin_svd(SQ)
    C, s = Ct.T[:, :count], s[:count]
    felt = s > _COLLAPSED * eps(s) * s[0]  # SᵀU would be made of rounding for the others
    V, s, Wt = thin_svd(xp.where(felt, (StSQ @ C) / xp.where(felt, s, xp.ones_like(s)), (Q @ C) * s))
    return U[:, :count] @ Wt.T, s, V


def _joined(A: Array, B: Array) -> Array:
    return array_namespace(A).concat([A, B], axis=1)


def _count(counts: Counts | None, gradients: int) -> None:
    if counts is not None:
        counts.gradients += gradients


def _beside(Q: Array, Z: Array, outside: Callable[[Array], Array], rng: np.random.Generator) -> Array:
    """Return an orthonormal basis of what Z has beside Q; of random vectors where that is only rounding."""
    xp = array_namespace(Q)
    # Twice, so that rounding does not bring back what was projected out (Kahan). Where S has no further
    # direction, Z was nothing else: others are as good.
    Z = orthonormal(Z - Q @ gram(Q, Z))
    Z = outside(Z - Q @ gram(Q, Z))
    kept = column_norms(Z) > _HALF
    if not bool(xp.all(kept)):
        other = normal_like(rng, Z.shape, Q)
        Z = xp.where(kept, Z, outside(other - Q @ gram(Q, other)))
    return orthonormal(Z)


def descending_pairs(
    cost: Cost, L: Array, R: Array, count: int, settled: float = 0.0, counts: Counts | None = None
) -> tuple[Array, Array, Array]:
    """Return -U, s, U with the up to `count` least eigenvalues -s < 0 of (S + Sᵀ)/2 outside W, where L = R.

    Adding t U diag(s) Uᵀ keeps a positive semidefinite W so, and is the steepest way down that does. Half of
    the dominant pairs may well belong to positive eigenvalues, hence twice as many.
    """
    xp = array_namespace(L)
    Q, _, _ = dominant_pairs(cost, L, R, 2 * count, True, settled, counts)
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


def _outside(Z: Array) -> Callable[[Array], Array]:
    """Return the projection onto the complement of the columns of Z."""
    if not Z.shape[1]:
        return lambda X: X
    B = orthonormal(Z)
    return lambda X: X - B @ gram(B, X)


def grown(
    problem: Problem,
    x: Point,
    count: int = 1,
    threshold: float = 0.0,
    settled: float = 0.0,
    here: Here | None = None,
) -> Point | None:
    """Return a point of rank k + `count` with a lower value, from a point of rank k; None if there is none.

    The gradient's dominant singular pairs are appended, with the best common factor t: exact if the cost is
    quadratic in W, else Newton's first step, halved until the value falls. With a `threshold`, pairs whose
    singular value is below it do not count, and t is shortened as a nuclear norm of that weight would. `here`
    is the problem at x, where that is known.
    """
    here = here or problem.at(x)
    cost, (L, R) = problem.cost, problem.geometry.factors(x)
    xp = array_namespace(L)
    find = descending_pairs if problem.geometry.symmetric else dominant_pairs
    U, s, V = find(cost, L, R, count, settled=settled, counts=problem.counts)
    if not (s.shape[0] and float(s[0]) > threshold):
        return None
    left, right = xp.concat([L, xp.zeros_like(U)], axis=1), xp.concat([R, V], axis=1)
    down = xp.concat([xp.zeros_like(L), -U * s], axis=1)
    t = _lower(here, left, down, right, float(xp.sum(s * s)), 1 - threshold / float(s[0]))
    if not t:
        return None
    return problem.with_rank(L.shape[1] + s.shape[0]).geometry.from_factors(left + t * down, right)


def _lower(here: Here, L: Array, dL: Array, R: Array, slope: float, part: float) -> float:
    """Return a step along dL Rᵀ, where the value falls by `slope` at first, to a lower value; 0 without one.

    It is this part of the step to the least value on the line, as far as the second derivative knows that.
    """
    cost, counts = here.problem.cost, here.problem.counts
    if cost.quadratic:
        counts.polynomials += 1
        coefficients = cost.polynomial([L, dL], [R])
        t = part * minimiser(coefficients)
        return t if change_along(coefficients, t) < -here.noise else 0.0
    counts.hessians += 1
    bend = curvature(cost, L, R, dL)
    t = part * (slope / bend if bend > 0 else 1.0)
    for _ in range(_HALVINGS):
        value = cost.value(L + t * dL, R)
        counts.values += 1
        if isfinite(value) and value < here.value - here.noise:
            return t
        t /= 2
    return 0.0


def curvature(cost: Cost, L: Array, R: Array, dL: Array) -> float:
    """Return the second derivative of the cost along dL Rᵀ."""
    df_L, _ = cost.derivative(L, R, dL, array_namespace(R).zeros_like(R))
    return trace(gram(df_L, dL))


def collapsed(problem: Problem, x: Point) -> int:
    """Return how many singular values of W are lost in the rounding of the largest."""
    L, R = problem.geometry.factors(x)
    left, right = gram_factor(L), gram_factor(R)
    if left.graded or right.graded:
        _, s, _ = svd_of_product(L, R)
    else:
        s = array_namespace(left.T).linalg.svdvals(left.T @ right.T.T)
    return sum(float(value) <= _COLLAPSED * eps(s) * float(s[0]) for value in s)


def truncated(problem: Problem, x: Point, rank: int) -> Point:
    """Return the best approximation of x of a lower rank, as a point of the geometry of that rank."""
    U, s, V = svd_of_product(*problem.geometry.factors(x))
    # Copies, for views with gaps would be multiplied in another order than what a checkpoint gives back.
    parts = (array_namespace(U).asarray(part, copy=True) for part in (U[:, :rank], s[:rank], V[:, :rank]))
    return problem.with_rank(rank).geometry.from_svd(*parts)
