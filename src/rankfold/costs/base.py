"""The seam between data and geometry: a cost is a smooth function of W = L Rᵀ, seen through L and R."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from math import inf, isfinite
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rankfold.fingerprint import spread
from rankfold.linalg.lines import Blocks

Array = Any  # an array of any array-API namespace
Products = Callable[[Array, Array], tuple[Array, Array]]


class Evaluation(NamedTuple):
    """A cost at W = L Rᵀ, with S = ∇f(W): its value, `f_L` = S R and `f_R` = Sᵀ L."""

    value: float
    f_L: Array
    f_R: Array

    @classmethod
    def of(cls, result: Any) -> Evaluation:
        """Take what a cost's `evaluate` returned, which may be a plain tuple, or say what it should be."""
        if isinstance(result, tuple) and len(result) == 3:
            return cls(*result)
        length = f" of length {len(result)}" if isinstance(result, tuple) else ""
        raise TypeError(
            "evaluate must return the tuple (value, f_L, f_R), where f_L = S R has the shape of L and "
            f"f_R = Sᵀ L that of R; got {type(result).__name__}{length}"
        )


# The numbers by which rows and columns are spread at each fixed point.
_FIXED_POINTS = {"value at a fixed W": (2**0.5, 3**0.5), "value at another fixed W": (5**0.5, 7**0.5)}
# The shape of a regulariser such as λ‖W‖², which takes the shape of the cost that it is added to.
ANY_SHAPE = (0, 0)


class LineBlocks(NamedTuple):
    """An r×r block for each row of W, (d1, r, r), and one for each column, (d2, r, r).

    They are NumPy arrays; tensors on a GPU, where the factors are.

    Those of the rows are second derivatives of the cost in a row of L with R held, or what a Gauss–Newton
    model keeps of them: symmetric and positive semidefinite.
    """

    rows: Array
    cols: Array


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
    #: whether it offers `line_blocks`, the metric of its data
    has_line_blocks: bool = False
    #: whether it depends on how W is factored, up to rotations of both factors; None if that is not known
    factored: bool | None = False

    @property
    def places(self) -> tuple[Any, Any] | None:
        """Which process has which rows of L, and of R (`rankfold.distributed`); None where one has all."""
        return None

    @abstractmethod
    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""

    def evaluate_factored(self, L: Array, R: Array) -> Evaluation:
        """Like `evaluate`, on a geometry whose points are L and R: the value may depend on these."""
        return Evaluation.of(self.evaluate(L, R))

    def evaluate_ahead(self, L: Array, R: Array) -> Evaluation:
        """Like `evaluate`, but the value may be a number that is still computed, and `float` of it waits."""
        return Evaluation.of(self.evaluate(L, R))

    @abstractmethod
    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR): Ṡ R + S dR and Ṡᵀ L + Sᵀ dL."""

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL, the change of `f_L` and `f_R` as a Gauss–Newton model has it: the rest needs S itself.

        For a cost that is convex in W this is a positive semidefinite form of (dL, dR).
        """
        df_L, df_R = self.derivative(L, R, dL, dR)
        S_dR, St_dL = self.gradient_products(L, R)(dR, dL)
        return df_L - S_dR, df_R - St_dL

    def value(self, L: Array, R: Array) -> float:
        """Value alone, for trial points of a line search."""
        return Evaluation.of(self.evaluate(L, R)).value

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
        """That polynomial from a sample of the data; None where a sample would save little or err much."""
        return None

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return the blocks of the second derivative at L Rᵀ that belong to one row of L, or of R, each."""
        raise TypeError(f"{type(self).__name__} knows no blocks of its second derivative")

    def blocks_to_invert(self, L: Array, R: Array) -> tuple[Blocks, Blocks]:
        """Return the same blocks, for who wants no more than inverses: they need not be there all at once."""
        return self.line_blocks(L, R)

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return a start point as a rank-r singular value decomposition (U, s, V)."""
        raise TypeError(
            f"{type(self).__name__} has no start point: give minimize an x0, or add it to a cost that has one"
        )

    @property
    @abstractmethod
    def value_at_zero(self) -> float:
        """Value at W = 0: the scale against which a relative tolerance is measured."""

    def fingerprint(self) -> dict[str, str | float]:
        """Return what tells this cost from others: a checkpoint is resumed only where it agrees.

        Each part has the name that an error gives it. Strings, such as digests of positions, must be equal;
        numbers, of about 1 in size, may differ by rounding. By default, values at two fixed points in units
        of that at W = 0: cheap, and right for every cost, though one datum in a million is not seen.
        """
        zero = abs(float(self.value_at_zero))
        unit = zero if 0 < zero < inf else 1.0
        found = {}
        for name, steps in _FIXED_POINTS.items():
            # Each factor takes a part of the square root of the value, so that W is as large as the data.
            L, R = (unit**0.25 * spread(d, step)[:, None] for d, step in zip(self.shape, steps, strict=True))
            found[name] = float(self.value(self.as_factor(L), self.as_factor(R))) / unit
        return dict(found)

    def as_factor(self, numbers: NDArray[np.float64]) -> Array:
        """Return a factor as the cost can take it, whatever library its data are held in."""
        return numbers

    def __add__(self, other: Any) -> Cost:
        """Return the sum of two costs."""
        return Combination([(1.0, self), (1.0, other)]) if isinstance(other, Cost) else NotImplemented

    def __mul__(self, factor: Any) -> Cost:
        """Return the cost times a number."""
        return Combination([(float(factor), self)]) if isinstance(factor, Real) else NotImplemented

    __rmul__ = __mul__


class Combination(Cost):
    """Σ a_k f_k(W), written `f + 0.1 * g`.

    Parameters
    ----------
    terms
        Pairs (a_k, f_k). All f_k that have a shape must have the same. The start point is that of the first
        which offers one.

    Examples
    --------
    >>> import rankfold as rf
    >>> cost = rf.Completion([0, 1], [0, 1], [1.0, 2.0], (2, 2)) + 0.1 * rf.Frobenius(1.0)
    >>> cost.quadratic, cost.value_at_zero
    (True, 2.5)
    """

    def __init__(self, terms: Iterable[tuple[float, Cost]]):
        self.terms = tuple(_flat(terms))
        shapes = {term.shape for _, term in self.terms if term.shape != ANY_SHAPE}
        if len(shapes) > 1:
            raise ValueError(f"costs that are added must have one shape; got {sorted(shapes)}")
        self.shape = shapes.pop() if shapes else ANY_SHAPE
        self.quadratic = all(term.quadratic for _, term in self.terms)
        self.nonnegative = all(a >= 0 and term.nonnegative for a, term in self.terms)
        self.has_start = any(term.has_start for _, term in self.terms)
        self.has_line_blocks = all(a >= 0 and term.has_line_blocks for a, term in self.terms)
        known = [term.factored for _, term in self.terms]
        self.factored = True if True in known else (None if None in known else False)

    @property
    def places(self) -> tuple[Any, Any] | None:
        """Those of the first term that is spread over processes."""
        return next((term.places for _, term in self.terms if term.places), None)

    def evaluate(self, L: Array, R: Array) -> Evaluation:
        """Value and partial derivatives at L Rᵀ."""
        return Evaluation(*self._sum([Evaluation.of(term.evaluate(L, R)) for _, term in self.terms]))

    def evaluate_factored(self, L: Array, R: Array) -> Evaluation:
        """Like `evaluate`, where terms may depend on the factors."""
        return Evaluation(*self._sum([term.evaluate_factored(L, R) for _, term in self.terms]))

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Change of `f_L` and `f_R` along (dL, dR)."""
        df_L, df_R = self._sum([term.derivative(L, R, dL, dR) for _, term in self.terms])
        return df_L, df_R

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR)."""
        df_L, df_R = self._sum([term.gauss_newton(L, R, dL, dR) for _, term in self.terms])
        return df_L, df_R

    def gradient_products(self, L: Array, R: Array) -> Products:
        """Return the function (X, Y) ↦ (S X, SᵀY), term by term: some terms know their own better."""
        terms = [term.gradient_products(L, R) for _, term in self.terms]

        def products(X: Array, Y: Array) -> tuple[Array, Array]:
            S_X, St_Y = self._sum([product(X, Y) for product in terms])
            return S_X, St_Y

        return products

    def _sum(self, results: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Σ a_k results[k], part by part."""
        (a, _), *others = self.terms
        parts = [a * part for part in results[0]]
        for (a, _), more in zip(others, results[1:], strict=True):
            parts = [part + a * other for part, other in zip(parts, more, strict=True)]
        return parts

    def line_blocks(self, L: Array, R: Array) -> LineBlocks:
        """Return the sums of the terms' blocks."""
        rows, cols = self._sum([term.line_blocks(L, R) for _, term in self.terms])
        return LineBlocks(rows, cols)

    def value(self, L: Array, R: Array) -> float:
        """Value alone."""
        return sum(a * term.value(L, R) for a, term in self.terms)

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> NDArray[np.float64]:
        """Coefficients, constant first, of t ↦ f((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ), if all terms are quadratic."""
        if not self.quadratic:
            return super().polynomial(Ls, Rs)
        zeros = np.zeros(2 * (len(Ls) + len(Rs)) - 3)
        return sum((a * term.polynomial(Ls, Rs) for a, term in self.terms), start=zeros)

    def as_factor(self, numbers: NDArray[np.float64]) -> Array:
        """Return a factor as the terms can take it."""
        return reduce(lambda found, term: term[1].as_factor(found), self.terms, numbers)

    def start(self, rank: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """Return the start point of the first term that offers one."""
        if not self.has_start:
            return super().start(rank, seed)
        return next(term for _, term in self.terms if term.has_start).start(rank, seed)

    @property
    def value_at_zero(self) -> float:
        """Value at W = 0."""
        return sum(a * term.value_at_zero for a, term in self.terms)

    def fingerprint(self) -> dict[str, str | float]:
        """Values of the sum at fixed points, which depend on all weights, and what terms with data have."""
        known = [
            (k, term.fingerprint()) for k, (_, term) in enumerate(self.terms, 1) if term.shape != ANY_SHAPE
        ]
        parts = {f"{name} (term {k})": part for k, parts in known for name, part in parts.items()}
        return {**parts, **super().fingerprint()}


def _flat(terms: Iterable[tuple[float, Cost]]) -> Iterable[tuple[float, Cost]]:
    """Terms with those of inner combinations in their place, so that a sum of sums is one sum."""
    for a, term in terms:
        if not isfinite(a):
            raise ValueError(f"a cost can be multiplied by finite numbers only; got {a}")
        if type(term) is Combination:  # a subclass knows more of itself than its terms tell
            yield from ((a * b, inner) for b, inner in term.terms)
        else:
            yield a, term
