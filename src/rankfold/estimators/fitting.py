"""How every estimator minimises its cost: names become geometries and solvers, a limit becomes a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from sklearn.exceptions import ConvergenceWarning

from rankfold.costs.base import Cost
from rankfold.costs.start import filled_up_svd
from rankfold.geometry import Embedded, FullRank, Geometry, Polar, SubspaceProjection
from rankfold.linalg import svd_of_product
from rankfold.problem import Problem
from rankfold.run.driver import minimize
from rankfold.run.result import Result

P = ParamSpec("P")
T = TypeVar("T")
Geometries = Callable[[tuple[int, int], int], Geometry]

_GEOMETRIES: dict[str, Geometries] = {
    "full_rank": FullRank,
    "polar": Polar,
    "subspace": SubspaceProjection,
    "embedded": Embedded,
}


def all_or_nothing(fit: Callable[P, T]) -> Callable[P, T]:
    """Let a method that fails, or is interrupted, leave its estimator as it was before the call.

    Otherwise a model fitted earlier would go on with labels or scales of the new data beside the old factors.
    """

    @functools.wraps(fit)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        held = vars(args[0])
        before = dict(held)
        try:
            return fit(*args, **kwargs)
        except BaseException:
            held.clear()
            held.update(before)
            raise

    return wrapped


def problem_of(cost: Cost, rank: int, geometry: str | Geometries = "auto") -> Problem:
    """Return `cost` on the geometry of that name, or on what `geometry(shape, rank)` returns.

    Examples
    --------
    >>> import rankfold as rf
    >>> problem_of(rf.Completion([0, 1], [1, 0], [1.0, 2.0], (2, 2)), rank=1, geometry="polar").geometry
    Polar((2, 2), rank=1, middle='spd')
    """
    if isinstance(geometry, str):
        if geometry == "auto":
            return Problem.of(cost, rank)
        if geometry not in _GEOMETRIES:
            names = ", ".join(map(repr, ("auto", *_GEOMETRIES)))
            raise ValueError(f"geometry must be one of {names}, or a geometry class, not {geometry!r}")
        geometry = _GEOMETRIES[geometry]
    return Problem(cost, geometry((cost.shape[0], cost.shape[1]), rank))


def warm_point(problem: Problem, L: Any, R: Any) -> Any:
    """Return the point of `problem` nearest to W = L Rᵀ, which an earlier fit found; None for another size.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> problem = problem_of(rf.Completion([0, 1], [1, 0], [1.0, 2.0], (2, 2)), rank=1)
    >>> L, R = problem.geometry.factors(warm_point(problem, np.diag([3.0, 1.0]), np.eye(2)))
    >>> bool(abs(L @ R.T - np.diag([3.0, 0.0])).max() < 1e-12)
    True
    >>> warm_point(problem, np.ones((3, 1)), np.ones((2, 1))) is None
    True
    """
    rank = problem.geometry.rank
    if (len(L), len(R)) != tuple(problem.cost.shape):
        return None
    U, s, V = (part[..., :rank] for part in svd_of_product(L, R))
    return problem.geometry.from_svd(*filled_up_svd(U, s, V, rank, seed=0))


def fit_problem(problem: Problem, **options: Any) -> Result:
    """`minimize(problem, **options)` with what a scikit-learn user expects: errors raised, limits warned of.

    Ctrl-C is no error either: the best point so far is the result, and the warning says why the fit ended.
    """
    result = minimize(problem, **options)
    if result.error is not None:
        raise result.error
    if not result.converged:
        warnings.warn(
            f"stopped after {result.iterations} iterations without convergence ({result.stop_reason}): "
            "raise max_iterations, or loosen tolerance",
            ConvergenceWarning,
            stacklevel=3,
        )
    return result
