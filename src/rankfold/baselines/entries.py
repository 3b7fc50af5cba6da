"""What baselines share: the residual on Ω as a sparse matrix, and the checks of what they are made for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold import kernels
from rankfold.costs import Completion, Loss
from rankfold.entries.observed import Observed
from rankfold.entries.operators import SparseMatrix
from rankfold.entries.sorted_entries import SortedEntries
from rankfold.problem import Problem

Floats = NDArray[np.float64]
_SQUARE = Loss.named("square")


def require_geometry(name: str, problem: Problem, kind: Any) -> None:
    """Raise TypeError unless `problem` is posed on the geometry whose points the method `name` moves."""
    if not isinstance(problem.geometry, kind):
        raise TypeError(f"{name} keeps its points in a {kind.__name__} geometry, not {problem.geometry!r}")


def observed_entries(name: str, problem: Problem, weights: bool = False) -> Observed:
    """Return Ω with its data, or say why the method `name` cannot minimise this cost."""
    cost = problem.cost
    if not (isinstance(cost, Completion) and cost.loss.is_square):
        raise TypeError(f"{name} is made for rankfold.Completion with the square loss, not {cost!r}")
    if cost.observed.weighted and not weights:
        raise TypeError(f"{name} knows no weights: drop them, or use a solver, or RTRMC")
    return cost.observed.plain.astype(np.float64)


def check_arrays(*expected: tuple[str, Any, tuple[int, ...]]) -> None:
    """Raise ValueError unless each of (name, array, shape) is so: a state may come from a file."""
    for name, array, shape in expected:
        if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.float64:
            raise ValueError(f"{name} must be an array of shape {shape} and of float64")


def run_lines(kernel: Any, side: SortedEntries, width: int, *arguments: Any) -> None:
    """Run a kernel over the entries of the lines of `side`, `width` multiply-adds each."""
    kernels.pool.run(kernel, side.chunks[1], side.size * width, (*side.stripe(0), *arguments))


def residual(observed: Observed, L: Floats, R: Floats) -> SparseMatrix:
    """Return P_Ω(L Rᵀ − W*)."""
    L, R = np.asarray(L, np.float64), np.asarray(R, np.float64)
    found = observed.slopes(L, R, _SQUARE, 0.5)  # the slope of the square is twice the residual
    if not isinstance(found, SparseMatrix):
        raise TypeError("baselines need the entries in memory: build the cost by Completion(rows, cols, ...)")
    return found
