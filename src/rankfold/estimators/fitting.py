"""How every estimator minimises its cost: names become geometries and solvers, a limit becomes a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Collection
from typing import Any, ParamSpec, TypeVar

from sklearn.exceptions import ConvergenceWarning

from rankfold.costs.base import Cost
from rankfold.costs.start import filled_up_svd
from rankfold.geometry import Embedded, FullRank, Geometry, Polar, SubspaceProjection
from rankfold.interrupts import Scope, keep_until_done
from rankfold.linalg import svd_of_product
from rankfold.problem import Problem
from rankfold.run.driver import minimize
from rankfold.run.result import Result
from rankfold.run.stopping import RelativeChange, Stop, StopKind
from rankfold.run.trace import Trace

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
    """Let a method that raises, at Ctrl-C too, leave its estimator as it was before the call.

    Otherwise a model fitted earlier would go on with labels or scales of the new data beside the old factors.
    Once the last fit has begun (`fit_problem`), there is something to lose, and Ctrl-C no longer raises.
    """

    @functools.wraps(fit)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
        attributes = vars(args[0])
        before = dict(attributes)
        with Scope(unit=True) as scope:
            try:
                fitted = fit(*args, **kwargs)
            except BaseException:
                attributes.clear()
                attributes.update(before)
                raise
            if scope.answer():
                _record_interrupt(args[0])
            return fitted

    return wrapped


def _record_interrupt(model: Any) -> None:
    """Say of a model that Ctrl-C came when its last iteration was over."""
    stop = Stop(f"interrupted after iteration {model.trace_[-1].iteration}", StopKind.INTERRUPTED)
    record_run(model, model.trace_, stop)
    warn_unless_converged(model.trace_, stop)


def problem_of(cost: Cost, rank: int, geometry: str | Geometries = "auto") -> Problem:
    """Return `cost` on the geometry of that name, or on what `geometry(shape, rank)` returns."""
    if isinstance(geometry, str):
        if geometry == "auto":
            return Problem.of(cost, rank)
        if geometry not in GEOMETRIES:
            names = ", ".join(map(repr, ("auto", *GEOMETRIES)))
            raise ValueError(f"geometry must be one of {names}, or a geometry class, not {geometry!r}")
        geometry = GEOMETRIES[geometry]
    return Problem(cost, geometry((cost.shape[0], cost.shape[1]), rank))


def warm_point(problem: Problem, L: Any, R: Any) -> Any:
    """Return the point of `problem` nearest to W = L Rᵀ of an earlier fit; None for another size."""
    rank = problem.geometry.rank
    if (len(L), len(R)) != tuple(problem.cost.shape):
        return None
    U, s, V = (part[..., :rank] for part in svd_of_product(L, R))
    return problem.geometry.nearest(*filled_up_svd(U, s, V, rank, seed=0))


def fit_problem(problem: Problem, accepted: Collection[StopKind] = (), **options: Any) -> Result:
    """`minimize(problem, **options)` with what a scikit-learn user expects: errors raised, limits warned of.

    A stop of a kind in `accepted` is as good as convergence: there is no warning of it. Ctrl-C is no error
    either: the best point so far is the result, and the warning says why the fit ended.
    """
    keep_until_done()
    result = _solved(problem, **options)
    if result.stop.kind not in accepted:
        warn_unless_converged(result.trace, result.stop)
    return result


def try_out(problem: Problem, **options: Any) -> Result:
    """`minimize(problem, **options)` for a comparison: no warning of a limit, and Ctrl-C ends it all."""
    result = _solved(problem, **options)
    if result.stop.kind is StopKind.INTERRUPTED:
        raise KeyboardInterrupt  # there is no model yet
    return result


def _solved(problem: Problem, **options: Any) -> Result:
    result = minimize(problem, **options)
    if result.error is not None:
        raise result.error
    return result


def warn_unless_converged(trace: Trace, stop: Stop) -> None:
    """Warn of a fit that ended before it converged, with the remedy if it lacked iterations."""
    if not stop.converged:
        remedy = ": raise max_iter, or loosen tol" if stop.kind in (StopKind.LIMIT, StopKind.STALLED) else ""
        what = f"stopped after {trace[-1].iteration} iterations without convergence ({stop.reason}){remedy}"
        warnings.warn(what, ConvergenceWarning, stacklevel=4)


def record_run(model: Any, trace: Trace, stop: Stop) -> None:
    """Tell by attributes of `model` how its fit went; scikit-learn expects no count below one."""
    model.n_iter_ = max(trace[-1].iteration, 1)
    model.converged_, model.stop_reason_, model.trace_ = stop.converged, stop.reason, trace
    model.stop_kind_ = stop.kind.value


def fit_model(model: Any, problem: Problem, last: tuple[Any, Any] | None, x0: Any = None) -> Result:
    """Minimise as the settings of `model` say, from the factors `last` if they have the right size."""
    near = None if last is None else warm_point(problem, *last)
    x0 = x0 if near is None else near
    return fit_problem(problem, x0=x0, verbose=model.verbose, **_options(model, model.tol))


def try_model(model: Any, problem: Problem, x0: Any = None, tol: float | None = None) -> Result:
    """Minimise as the settings of `model` say, for a comparison."""
    return try_out(problem, x0=x0, **_options(model, model.tol if tol is None else tol))


def _options(model: Any, tol: float) -> dict[str, Any]:
    """Five iterations that change the value by no more than `tol` of it are the end."""
    stop = RelativeChange(tol, window=5)
    return {"solver": model.solver, "max_iterations": model.max_iter, "tolerance": 0.0, "stop": stop}
