"""Penalties on single factors, for geometries whose points are the factors themselves."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rankfold.costs.base import ANY_SHAPE, Array, Cost, Evaluation, LineBlocks, Products
from rankfold.entries.arrays import near
from rankfold.linalg import gram, identity_like, trace
from rankfold.linalg.rows import at_hand


class FactorPenalty(Cost):
    """λ_L‖L‖² + λ_R‖R‖²: each factor with a weight of its own (maximum-margin factorisation, with two λ).

    Not a function of W: along (L M⁻¹, R Mᵀ) it changes, unless M is orthogonal. So it lives on geometries
    whose points are the factors: `FullRank(metric="euclidean")`, where G and H range over all matrices of
    full column rank and nothing is divided out, so that every vector is horizontal and only rotations (G O,
    H O) leave all numbers the same; and `PositiveSemidefinite`, where L = R = Y and it is (λ_L + λ_R) Tr W.
    A problem on any other geometry is refused: there use `Nuclear`, which is what is left of it at the best
    factors of each W, 2 √(λ_L λ_R) ‖W‖_*.

    Parameters
    ----------
    left, right
        λ_L >= 0 and λ_R >= 0.

    Examples
    --------
    >>> import numpy as np, rankfold as rf
    >>> penalty = rf.FactorPenalty(left=0.5, right=2.0)
    >>> penalty.value(np.array([[3.0], [4.0]]), np.array([[2.0]]))
    20.5
    """

    shape = ANY_SHAPE
    quadratic = True  # along a line, which is what counts: L and R take part apart from each other
    has_start = False
    has_line_blocks = True
    value_at_zero = 0.0
    factored = True

    def __init__(self, left: float, right: float):
        for name, weight in (("left", left), ("right", right)):
            if not (isfinite(weight) and weight >= 0):
                raise ValueError(f"{name} must be finite and zero or more; got {weight!r}")
        self.left, self.right = float(left), float(right)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives: 2λ_L L and 2λ_R R."""
        return Evaluation(self.value(L, R), 2 * self.left * L, 2 * self.right * R)

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        return self.left * trace(gram(L, L)) + self.right * trace(gram(R, R))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of the partial derivatives: 2λ_L dL and 2λ_R dR."""
        return 2 * self.left * dL, 2 * self.right * dR

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return 2λ_L I for every row, 2λ_R I for every column."""
        A, B = near(at_hand(L), at_hand(R))
        identity, xp = identity_like(A, A.shape[1]), array_namespace(A)
        sides = ((self.left, A), (self.right, B))
        return LineBlocks(*(xp.broadcast_to(2 * w * identity, (len(Z), *identity.shape)) for w, Z in sides))

    def gradient_products(self, L: Array, R: Array) -> Products:
        """Raise TypeError: there is no S = ∇f(W)."""
        raise TypeError("FactorPenalty is no function of W, and has no gradient in it")

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, along the curves Σ Ls[i] tⁱ and Σ Rs[j] tʲ."""
        coefficients = np.zeros(2 * (len(Ls) + len(Rs)) - 3)
        for weight, terms in ((self.left, Ls), (self.right, Rs)):
            for i, A in enumerate(terms):
                for j, B in enumerate(terms):
                    coefficients[i + j] += weight * trace(gram(A, B))
        return coefficients
