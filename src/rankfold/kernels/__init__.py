"""The inner loops over the observed set, compiled by numba for the CPU, and the threads that run them.

Modules of this package load when first used: `from rankfold import kernels` at the top of a file costs
nothing, and `kernels.sweeps.product(...)` imports numba. So predicting, which needs no kernel, never does.

Comments all over the package name the instances that constants were measured on (`benchmarks/solvers.py`).
They have oversampling × r (d1 + d2 - r) entries of a random matrix of rank r:

- P1: 4000 × 4000, rank 5, oversampling 8
- P2: 32000 × 32000, rank 5, oversampling 8
- P3: 4000 × 4000, rank 5, oversampling 3
- P4: as P1, with condition number 1000
- P5: 10000 × 10000, rank 20, oversampling 4
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankfold.kernels import (
        categories,
        conditional,
        formulas,
        gpu,
        gpu_launch,
        gpu_lines,
        gpu_tall,
        gpu_turn,
        lanes,
        layout,
        least_squares,
        line_blocks,
        polynomial,
        pool,
        posteriors,
        sorting,
        sweeps,
        tall,
    )

__all__ = [
    "categories",
    "conditional",
    "formulas",
    "gpu",
    "gpu_launch",
    "gpu_lines",
    "gpu_tall",
    "gpu_turn",
    "lanes",
    "layout",
    "least_squares",
    "line_blocks",
    "polynomial",
    "pool",
    "posteriors",
    "sorting",
    "sweeps",
    "tall",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rankfold.kernels' has no attribute {name!r}")
    return import_module(f"rankfold.kernels.{name}")
