"""A ridge on the factors: the one cost here that depends on how W is factored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rankfold.costs.base import Array, Cost, Evaluation, LineBlocks
from rankfold.linalg import asarray_like, gram
from rankfold.linalg.lines import Ridged


@dataclass(eq=False)
class FactorRidge(Cost):
    """f(L Rᵀ) + ½ Σ_i w_i (‖L_i‖² + ‖R_i‖²), over the columns of the factors.

    Not a function of W, so no cost to give a problem of your own: two points of a geometry that stand for the
    same W may have different values. It is for methods that hold the factors balanced, on geometries whose
    points are L and R themselves (`FullRank`). At the balanced factors of a singular value decomposition it
    is f + Σ w_i σ_i; with equal weights w that is the least over all factors of W, f + w ‖W‖_*.
    """

    cost: Cost
    weights: NDArray[Any]
    shape: tuple[int, int] = field(init=False)
    quadratic: bool = field(init=False)
    nonnegative: bool = field(init=False)
    has_line_blocks: bool = field(init=False)

    def __post_init__(self) -> None:
        self.shape, self.quadratic = self.cost.shape, self.cost.quadratic
        self.nonnegative, self.has_line_blocks = self.cost.nonnegative, self.cost.has_line_blocks

    @property
    def places(self) -> tuple[Any, Any] | None:
        """Those of the cost without the ridge."""
        return self.cost.places

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives."""
        value, f_L, f_R = self.cost.evaluate(L, R)
        w = asarray_like(self.weights, L)
        return Evaluation(value + self.ridge(L, R), f_L + L * w, f_R + R * w)

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        return self.cost.value(L, R) + self.ridge(L, R)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of the partial derivatives."""
        df_L, df_R = self.cost.derivative(L, R, dL, dR)
        return df_L + dL * asarray_like(self.weights, L), df_R + dR * asarray_like(self.weights, L)

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """That of the cost, and the ridge, which is a square itself."""
        df_L, df_R = self.cost.gauss_newton(L, R, dL, dR)
        return df_L + dL * asarray_like(self.weights, L), df_R + dR * asarray_like(self.weights, L)

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return the cost's blocks, with the weights on their diagonals."""
        rows, cols = self.cost.line_blocks(L, R)
        ridge = asarray_like(np.diag(self.weights), rows)
        return LineBlocks(rows + ridge, cols + ridge)

    def blocks_to_invert(self, L: Array, R: Array) -> tuple[Ridged, Ridged]:
        """Return the same, and let the ridge be added when they are inverted."""
        rows, cols = self.cost.blocks_to_invert(L, R)
        return Ridged(rows, self.weights), Ridged(cols, self.weights)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients along a curve: those of the cost, and those of the ridge."""
        coefficients = np.array(self.cost.polynomial(Ls, Rs))
        for terms in (Ls, Rs):
            for i, A in enumerate(terms):
                for j, B in enumerate(terms):
                    coefficients[i + j] += self._inner(A, B) / 2
        return coefficients

    def ridge(self, L: Array, R: Array) -> float:
        """½ Σ_i w_i (‖L_i‖² + ‖R_i‖²)."""
        return (self._inner(L, L) + self._inner(R, R)) / 2

    def _inner(self, A: Array, B: Array) -> float:
        xp = array_namespace(A)
        return float(xp.sum(xp.linalg.diagonal(gram(A, B)) * asarray_like(self.weights, A)))

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start of the cost without the ridge."""
        return self.cost.start(rank, seed)

    def fingerprint(self) -> dict[str, str | float]:
        """That of the cost without the ridge."""
        return self.cost.fingerprint()

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0, where there is no ridge."""
        return self.cost.value_at_zero
