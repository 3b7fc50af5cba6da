"""The damped Gauss–Newton model at a point, minimised by conjugate gradients on line blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from rankfold.costs.base import Array, LineBlocks
from rankfold.entries.arrays import like, near
from rankfold.linalg import gram, inverse_gram, namespace, trace
from rankfold.linalg.lines import Applied, applied, inverted
from rankfold.linalg.primitives import on_host
from rankfold.linalg.rows import added_up, at_hand, in_place_of
from rankfold.problem import Here

_ROUNDING = float(np.finfo(np.float64).eps)
_LOST = 10 * _ROUNDING  # a pivot of a block that is so small beside its diagonal entry is rounding


class Minimiser(NamedTuple):
    """A change of the factors, the decrease that the model promises for it, and the products it took."""

    dL: Array
    dR: Array
    decrease: float
    products: int


@dataclass(frozen=True, eq=False)
class DampedModel:
    """q(η) = ⟨∂f, η⟩ + ½⟨η, B η⟩ + ½ μ c ⟨η, M η⟩ over changes η = (dL, dR) of the factors, dL above dR.

    B is the Gauss–Newton form (`Cost.gauss_newton`), M the metric (dL RᵀR, dR LᵀL), and the `scale` c makes
    c M like B on average, so that μ has no unit. All of them move with the factors along a fibre, so that the
    minimiser is one change of W for all factors of it. B sees no vertical vector: in the metric M, the
    minimiser is horizontal.
    """

    here: Here
    scale: float
    metrics: tuple[Array, Array]  # RᵀR and LᵀL
    blocks: LineBlocks | None  # those of B / c, where the cost has them

    @staticmethod
    def at(here: Here) -> DampedModel:
        """Form the model at a point."""
        L, R = here.factors
        metrics = gram(R, R), gram(L, L)
        if here.problem.cost.has_line_blocks:
            here.problem.counts.blocks += 1
            sides = here.problem.cost.line_blocks(L, R)
            inverses = (inverse_gram(R), inverse_gram(L))
            means = [
                np.sum(added_up(Z, on_host(side.sum(0))) * on_host(inverse)) / Z.shape[0]
                for side, Z, inverse in zip(sides, (L, R), inverses, strict=True)
            ]
            scale = float(np.mean(means)) / L.shape[1]
            if isfinite(scale) and scale > 0:
                return DampedModel(here, scale, metrics, LineBlocks(*(side / scale for side in sides)))
        return DampedModel(here, _curvature_downhill(here), metrics, None)

    def minimised(self, damping: float, tolerance: float, most: int) -> Minimiser:
        """Minimise q by conjugate gradients, until its gradient has fallen to `tolerance` of what it was.

        Norms are those of the preconditioner. It ends also after `most` products, where a step lowers q by no
        more than rounding, and where q bends down, as only for costs that are not convex in W.
        """
        precondition = self._preconditioner(damping)
        r = _stacked(*self.here.partials) / -self.scale
        z = precondition(r)
        x, q, rz = 0 * r, z, self._inner(r, z)
        target, decrease, products = tolerance * tolerance * rz, 0.0, 0
        while products < most and rz > 0:
            Bq = self._product(q, damping)
            products += 1
            bend = self._inner(q, Bq)
            if not bend > 0:
                break
            alpha = rz / bend
            x, r = x + alpha * q, r - alpha * Bq
            gain = alpha * rz / 2
            decrease += gain
            z = precondition(r)
            rz, before = self._inner(r, z), rz
            if gain <= _ROUNDING * decrease or not rz > target:
                break
            q = z + (rz / before) * q
        return Minimiser(*self._parts(x), self.scale * decrease, products)

    def length(self, dL: Array, dR: Array) -> float:
        """Return the length of a change in the metric M."""
        return sqrt(max(_inner(dL @ self.metrics[0], dL) + _inner(dR @ self.metrics[1], dR), 0.0))

    def _parts(self, z: Array) -> tuple[Array, Array]:
        """Take a stack apart."""
        L, R = self.here.factors
        d = at_hand(L).shape[0]
        return in_place_of(L, z[:d, :]), in_place_of(R, z[d:, :])

    def _inner(self, x: Array, y: Array) -> float:
        """The inner product of two stacks."""
        return float(added_up(self.here.factors[0], np.array([_inner(x, y)]))[0])

    def _product(self, z: Array, damping: float) -> Array:
        """(B / c + μ M) z, in one pass over the entries."""
        L, R = self.here.factors
        parts = self._parts(z)
        self.here.problem.counts.hessians += 1
        changes = self.here.problem.cost.gauss_newton(L, R, *parts)
        terms = zip(changes, parts, self.metrics, strict=True)
        return _stacked(*(change / self.scale + part @ (damping * M) for change, part, M in terms))

    def _preconditioner(self, damping: float) -> Callable[[Array], Array]:
        """Return the inverse of the blocks of B / c + μ M, one for each row of L and of R; or of M alone."""
        L, R = self.here.factors
        d, r = at_hand(L).shape
        if self.blocks is None:
            inverses = [inverse_gram(Y) / (1 + damping) for Y in (R, L)]
            return lambda z: _stacked(z[:d, :] @ inverses[0], z[d:, :] @ inverses[1])
        inverses = []
        for blocks, metric in zip(self.blocks, self.metrics, strict=True):
            damped = blocks + _as_double(damping * on_host(metric), blocks)
            inverses.append(inverted(damped, 1.0, np.zeros(r), _LOST))
        eye = np.eye(r)

        def solved(z: Array) -> Array:
            (x,) = near(z)
            parts = applied(Applied(inverses[0], eye, x[:d]), Applied(inverses[1], eye, x[d:]))
            return like(z, _stacked(*parts))

        return solved


def _as_double(M: NDArray[Any], example: Array) -> Array:
    return namespace(example).asarray(M.astype(np.float64), device=device(example))


def _stacked(left: Array, right: Array) -> Array:
    """The rows at hand of one above those of the other."""
    left, right = at_hand(left), at_hand(right)
    return array_namespace(left).concat([left, right], axis=0)


def _inner(x: Array, y: Array) -> float:
    return trace(gram(x, y))


def _curvature_downhill(here: Here) -> float:
    """Return what B is of M along the gradient that the metric M has; 1 where it is nothing."""
    (L, R), (f_L, f_R) = here.factors, here.partials
    dL, dR = f_L @ inverse_gram(R), f_R @ inverse_gram(L)
    here.problem.counts.hessians += 1
    change_L, change_R = here.problem.cost.gauss_newton(L, R, dL, dR)
    bend, squared = _inner(dL, change_L) + _inner(dR, change_R), _inner(dL, f_L) + _inner(dR, f_R)
    return bend / squared if bend > 0 and squared > 0 else 1.0
