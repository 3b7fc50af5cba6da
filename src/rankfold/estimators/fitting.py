"""How every estimator minimises its cost: names become geometries and solvers, a limit becomes a warning."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, fields
from typing import Any, ParamSpec, Self, TypedDict, TypeVar, Unpack

from sklearn.exceptions import ConvergenceWarning

from rankfold.costs.base import Cost
from rankfold.costs.start import filled_up_svd
from rankfold.geometry import Embedded, FullRank, Geometry, Polar, SubspaceProjection
from rankfold.linalg import svd_of_product
from rankfold.problem import Problem
from rankfold.run.checkpoint import Checkpoint
from rankfold.run.driver import Callback, minimize
from rankfold.run.result import Result
from rankfold.run.stopping import RelativeChange, Rule, Stop, StopKind
from rankfold.run.trace import Trace
from rankfold.solvers import Method

P = ParamSpec("P")
T = TypeVar("T")
Geometries = Callable[[tuple[int, int], int], Geometry]

GEOMETRIES: dict[str, type[Geometry]] = {
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
        attributes = vars(args[0])
        before = dict(attributes)
        try:
            return fit(*args, **kwargs)
        except BaseException:
            attributes.clear()
            attributes.update(before)
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
        if geometry not in GEOMETRIES:
            names = ", ".join(map(repr, ("auto", *GEOMETRIES)))
            raise ValueError(f"geometry must be one of {names}, or a geometry class, not {geometry!r}")
        geometry = GEOMETRIES[geometry]
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


class MinimizeOptions(TypedDict, total=False):
    """What `rankfold.minimize` takes beside the problem."""

    solver: Method[Any] | str
    x0: Any
    max_iterations: int
    tolerance: float
    stop: Rule | None
    callback: Callback | None
    checkpoint: Checkpoint | str | os.PathLike[str] | None
    resume: str | os.PathLike[str] | None
    verbose: int


def fit_problem(
    problem: Problem, accepted: Collection[StopKind] = (), **options: Unpack[MinimizeOptions]
) -> Result:
    """`minimize(problem, **options)` with what a scikit-learn user expects: errors raised, limits warned of.

    A stop of a kind in `accepted` is as good as convergence: there is no warning of it. Ctrl-C is no error
    either: the best point so far is the result, and the warning says why the fit ended.
    """
    result = minimize(problem, **options)
    if result.error is not None:
        raise result.error
    if result.stop.kind not in accepted:
        warn_of_limit(result.trace, result.stop)
    return result


def warn_of_limit(trace: Trace, stop: Stop) -> None:
    """Warn of a fit that ended before it converged."""
    if not stop.converged:
        warnings.warn(
            f"stopped after {trace[-1].iteration} iterations without convergence ({stop.reason}): "
            "raise max_iter, or loosen tol",
            ConvergenceWarning,
            stacklevel=4,
        )


def record_run(model: Any, trace: Trace, stop: Stop) -> None:
    """Tell by attributes of `model` how its fit went; scikit-learn expects no count below one."""
    model.n_iter_ = max(trace[-1].iteration, 1)
    model.converged_, model.stop_reason_, model.trace_ = stop.converged, stop.reason, trace
    model.stop_kind_ = stop.kind.value


@dataclass(frozen=True)
class Minimisation:
    """Where and how an estimator minimises, as its settings of these names say."""

    geometry: str | Geometries
    solver: Method[Any] | str
    max_iter: int
    tol: float
    verbose: int

    @classmethod
    def of(cls, model: Any) -> Self:
        """Return what the settings of `model` say."""
        return cls(**{field.name: getattr(model, field.name) for field in fields(cls)})

    def problem(self, cost: Cost, rank: int) -> Problem:
        """Return `cost` on the geometry."""
        return problem_of(cost, rank, self.geometry)

    def run(self, problem: Problem, x0: Any = None) -> Result:
        """Minimise until five iterations change the value by no more than `tol` of it."""
        return fit_problem(problem, **self._options(x0, self.tol, self.verbose))

    def try_out(self, problem: Problem, x0: Any = None, tol: float | None = None) -> Result:
        """Minimise for a comparison: a limit is no reason for a warning, Ctrl-C one to end the comparison."""
        result = minimize(problem, **self._options(x0, self.tol if tol is None else tol, verbose=0))
        if result.error is not None:
            raise result.error
        if result.stop.kind is StopKind.INTERRUPTED:
            raise KeyboardInterrupt
        return result

    def _options(self, x0: Any, tol: float, verbose: int) -> MinimizeOptions:
        return {
            "solver": self.solver,
            "x0": x0,
            "max_iterations": self.max_iter,
            "tolerance": 0.0,
            "stop": RelativeChange(tol, window=5),
            "verbose": verbose,
        }
