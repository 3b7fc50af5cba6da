"""The seam between data and geometry: a cost is a smooth function of W = L Rᵀ, seen through L and R."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

Array = Any  # an array of any array-API namespace
Products = Callable[[Array, Array], tuple[Array, Array]]


class Evaluation(NamedTuple):
    """A cost at W = L Rᵀ, with S = ∇f(W): its value, `f_L` = S R and `f_R` = Sᵀ L."""

    value: float
    f_L: Array
    f_R: Array


# The shape of a regulariser such as λ‖W‖², which takes the shape of the cost that it is added to.
ANY_SHAPE = (0, 0)


class Cost(ABC):
    """A smooth function of W = L Rᵀ (of W alone: not of how W is factored).

    Subclasses set `shape`, and implement `evaluate` and `derivative`. Those whose value is a quadratic
    function of W set `quadratic` and implement `polynomial`, which gives solvers exact line searches.

    Costs add up and scale: `cost + 0.1 * other` is a cost.
    """

    shape: tuple[int, int]
    quadratic: bool = False
    #: whether it never is negative, so that a value small beside that at W = 0 means convergence
    nonnegative: bool = True
    #: whether it offers a start point
    has_start: bool = True

    @abstractmethod
    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""

    @abstractmethod
    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR): Ṡ R + S dR and Ṡᵀ L + Sᵀ dL."""

    def value(self, L: Array, R: Array) -> float:
        """Value alone, for trial points of a line search."""
        return self.evaluate(L, R).value

    def gradient_products(self, L: Array, R: Array) -> Products:
        """Return the function (X, Y) ↦ (S X, SᵀY) for S = ∇f(L Rᵀ) and X, Y as wide as each other.

        ([L, Y, 0], [R, 0, X]) stands for the same W, and there f_L = S [R, 0, X] and f_R = Sᵀ[L, Y, 0].
        """
        xp, k = array_namespace(L), L.shape[1]

        def products(X: Array, Y: Array) -> tuple[Array, Array]:
            left = xp.concat([L, Y, xp.zeros_like(Y)], axis=1)
            right = xp.concat([R, xp.zeros_like(X), X], axis=1)
            _, f_L, f_R = self.evaluate(left, right)
            return f_L[:, k + X.shape[1] :], f_R[:, k : k + X.shape[1]]

        return products

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ), where f is quadratic in W."""
        raise TypeError(f"{type(self).__name__} is not quadratic in W, so it has no line polynomial")

    def sampled_polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64] | None:
        """The same of a sample of the data; None where that is not much cheaper and nearly as good."""
        return None

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return a start point as a rank-r singular value decomposition (U, s, V)."""
        raise TypeError(
            f"{type(self).__name__} has no start point: give minimize an x0, or add it to a cost that has one"
        )

    @property
    @abstractmethod
    def value_at_zero(self) -> float:
        """Value at W = 0: the scale against which a relative tolerance is measured."""

    def __add__(self, other: Any) -> Cost:
        """Return the sum of two costs."""
        from rankfold.costs.combination import Combination

        return Combination([(1.0, self), (1.0, other)]) if isinstance(other, Cost) else NotImplemented

    def __mul__(self, factor: Any) -> Cost:
        """Return the cost times a number."""
        from rankfold.costs.combination import Combination

        return Combination([(float(factor), self)]) if isinstance(factor, Real) else NotImplemented

    __rmul__ = __mul__
