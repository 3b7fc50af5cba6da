"""rankfold: optimisation over low-rank matrices.

Names are imported when first used, so that `import rankfold` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankfold import data, stopping
    from rankfold.checkpoint import Checkpoint, CheckpointError
    from rankfold.checks import check_geometry, check_gradient, check_hessian, check_retraction
    from rankfold.costs import (
        Biased,
        Combination,
        Completion,
        Cost,
        Custom,
        Frobenius,
        Loss,
        Nuclear,
        Pairs,
        Regression,
        Unobserved,
    )
    from rankfold.driver import minimize
    from rankfold.estimators.completion import MatrixCompletion
    from rankfold.estimators.imputer import LowRankImputer
    from rankfold.estimators.pairs import PairClassifier, PairRegressor
    from rankfold.estimators.reduced_rank import ReducedRankRegression
    from rankfold.files import ModelFileError, load, save
    from rankfold.geometry import Embedded, FullRank, Geometry, Polar, SubspaceProjection
    from rankfold.problem import Problem
    from rankfold.rank import RankPath, choose_rank
    from rankfold.result import Progress, Result
    from rankfold.solvers import (
        ConjugateGradient,
        GradientDescent,
        RankContinuation,
        ReweightedContinuation,
        TrustRegion,
    )

__version__ = "0.1.0"

_HOMES = {
    "checkpoint": ("Checkpoint", "CheckpointError"),
    "checks": ("check_geometry", "check_gradient", "check_hessian", "check_retraction"),
    "costs": (
        "Biased",
        "Combination",
        "Completion",
        "Cost",
        "Custom",
        "Frobenius",
        "Loss",
        "Nuclear",
        "Pairs",
        "Regression",
        "Unobserved",
    ),
    "driver": ("minimize",),
    "estimators.completion": ("MatrixCompletion",),
    "files": ("ModelFileError", "load", "save"),
    "estimators.imputer": ("LowRankImputer",),
    "estimators.pairs": ("PairClassifier", "PairRegressor"),
    "estimators.reduced_rank": ("ReducedRankRegression",),
    "geometry": ("Embedded", "FullRank", "Geometry", "Polar", "SubspaceProjection"),
    "problem": ("Problem",),
    "rank": ("RankPath", "choose_rank"),
    "result": ("Progress", "Result"),
    "solvers": (
        "ConjugateGradient",
        "GradientDescent",
        "RankContinuation",
        "ReweightedContinuation",
        "TrustRegion",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("data", "stopping")

__all__ = [
    "Biased",
    "Checkpoint",
    "CheckpointError",
    "Combination",
    "Completion",
    "ConjugateGradient",
    "Cost",
    "Custom",
    "Embedded",
    "Frobenius",
    "FullRank",
    "Geometry",
    "GradientDescent",
    "Loss",
    "LowRankImputer",
    "MatrixCompletion",
    "ModelFileError",
    "Nuclear",
    "PairClassifier",
    "PairRegressor",
    "Pairs",
    "Polar",
    "Problem",
    "Progress",
    "RankContinuation",
    "RankPath",
    "ReducedRankRegression",
    "Regression",
    "Result",
    "ReweightedContinuation",
    "SubspaceProjection",
    "TrustRegion",
    "Unobserved",
    "check_geometry",
    "check_gradient",
    "check_hessian",
    "check_retraction",
    "choose_rank",
    "data",
    "load",
    "minimize",
    "save",
    "stopping",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"rankfold.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rankfold' has no attribute {name!r}")
    value = getattr(import_module(f"rankfold.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF, *_MODULES])
