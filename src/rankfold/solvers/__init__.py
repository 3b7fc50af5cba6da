"""How we move: methods with `init` and `step`, driven by `rankfold.minimize`."""

from __future__ import annotations

from typing import Any

from rankfold.solvers.auto import Auto
from rankfold.solvers.base import Located, Method, State, StepReport
from rankfold.solvers.conjugate_gradient import ConjugateGradient
from rankfold.solvers.continuation import RankContinuation
from rankfold.solvers.gauss_newton import GaussNewton
from rankfold.solvers.gradient_descent import GradientDescent
from rankfold.solvers.reweighted import ReweightedContinuation
from rankfold.solvers.trimmed import TrimmedContinuation
from rankfold.solvers.trust_region import TrustRegion

__all__ = [
    "Auto",
    "ConjugateGradient",
    "GaussNewton",
    "GradientDescent",
    "Located",
    "Method",
    "RankContinuation",
    "ReweightedContinuation",
    "State",
    "StepReport",
    "TrimmedContinuation",
    "TrustRegion",
    "by_name",
]

_NAMES = {"auto": Auto, "cg": ConjugateGradient, "gd": GradientDescent, "gn": GaussNewton, "tr": TrustRegion}


def by_name(name: str) -> Method[Any]:
    """Return the method of that name, with its defaults.

    Examples
    --------
    >>> by_name("gd")
    GradientDescent(update=None, first_step=None, decrease=0.25, metric='geometry')
    """
    if name not in _NAMES:
        raise ValueError(f"solver must be one of {', '.join(map(repr, _NAMES))} or a method, not {name!r}")
    method: Method[Any] = _NAMES[name]()
    return method
