"""rankfold: optimisation over low-rank matrices.

Names are imported when first used, so that `import rankfold` stays light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankfold.checks import check_geometry, check_gradient, check_hessian, check_retraction
    from rankfold.geometry import Embedded, FullRank, Geometry, Polar, SubspaceProjection
    from rankfold.problem import Problem

__version__ = "0.1.0"

_HOMES = {
    "checks": ("check_geometry", "check_gradient", "check_hessian", "check_retraction"),
    "geometry": ("Embedded", "FullRank", "Geometry", "Polar", "SubspaceProjection"),
    "problem": ("Problem",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Embedded",
    "FullRank",
    "Geometry",
    "Polar",
    "Problem",
    "SubspaceProjection",
    "check_geometry",
    "check_gradient",
    "check_hessian",
    "check_retraction",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rankfold' has no attribute {name!r}")
    value = getattr(import_module(f"rankfold.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME_OF])
