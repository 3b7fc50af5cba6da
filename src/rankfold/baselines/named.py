"""Published methods that are a geometry of ours and a solver of ours: the pair, under the method's name.

Each function returns (geometry, solver), for `rf.minimize(rf.Problem(cost, geometry), solver)`.

Examples
--------
>>> for named in (mmmf, lrgeom, diagonal_polar, euclidean_subspace):
...     print(named((6, 5), 2).geometry)
FullRank((6, 5), rank=2, metric='euclidean')
Embedded((6, 5), rank=2)
Polar((6, 5), rank=2, middle='diagonal')
SubspaceProjection((6, 5), rank=2, metric='euclidean')
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rankfold.geometry import Embedded, FullRank, Geometry, Polar, SubspaceProjection
from rankfold.solvers import ConjugateGradient, GradientDescent, TrustRegion


class Pair(NamedTuple):
    """Where a published method searches, and how it moves there."""

    geometry: Geometry
    solver: GradientDescent | ConjugateGradient | TrustRegion


def mmmf(shape: tuple[int, int], rank: int) -> Pair:
    """Maximum margin matrix factorisation, its gradient-descent version: Euclidean metric on (G, H).

    J. Rennie, N. Srebro, "Fast maximum margin matrix factorization for collaborative prediction", ICML 2005;
    here with the paper's step rule, and the square loss of the cost in place of the hinge.
    """
    return Pair(FullRank(shape, rank, metric="euclidean"), GradientDescent(metric="geometry"))


def lrgeom(shape: tuple[int, int], rank: int, solver: str = "cg") -> Pair:
    """LRGeom: the embedded submanifold, with `"gd"`, `"cg"` or `"tr"`.

    B. Vandereycken, "Low-rank matrix completion by Riemannian optimization", SIAM Journal on Optimization 23
    (2013) 1214-1236. Steps of descent and conjugate gradients (Polak-Ribière, cut at 0) start from the
    minimiser of the linearised search, W + tξ. The trust region's first radius is Manopt's for this manifold:
    an eighth of its dimension.
    """
    geometry = Embedded(shape, rank)
    solvers: dict[str, Any] = {
        "gd": GradientDescent(metric="geometry"),
        "cg": ConjugateGradient(metric="geometry"),
        "tr": TrustRegion(initial_radius=geometry.dimension / 8, metric="geometry"),
    }
    if solver not in solvers:
        raise ValueError(f"solver must be one of {', '.join(map(repr, solvers))}, not {solver!r}")
    return Pair(geometry, solvers[solver])


def diagonal_polar(shape: tuple[int, int], rank: int) -> Pair:
    """Gradient descent on U B Vᵀ with B diagonal, the search space of the SVD (section 6.3)."""
    return Pair(Polar(shape, rank, middle="diagonal"), GradientDescent(metric="geometry"))


def euclidean_subspace(shape: tuple[int, int], rank: int) -> Pair:
    """Gradient descent on U Yᵀ with the Euclidean metric (section 6.4).

    L. Simonsson, L. Eldén, "Grassmann algorithms for low rank approximation of matrices with missing values",
    BIT 50 (2010) 173-191.
    """
    return Pair(SubspaceProjection(shape, rank, metric="euclidean"), GradientDescent(metric="geometry"))
