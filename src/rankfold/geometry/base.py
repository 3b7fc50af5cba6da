"""What a search space is to the rest of the library."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, Self

import numpy as np

from rankfold.geometry.spaces import PositiveVector, Space, Stiefel
from rankfold.linalg import Array, asarray_like, gram, namespace, normal_like, on_gpu, svd_of_product
from rankfold.linalg.primitives import on_host
from rankfold.linalg.rows import is_spread
from rankfold.linalg.tall import Tall

Point = Any  # a named tuple of arrays
Tangent = Any  # a named tuple of arrays, linear in its fields
POINTS, TANGENTS = 1, 2  # streams of random numbers
LineCoefficients = tuple[Sequence[Array], Sequence[Array]]


def lincomb(a: float, xi: Tangent, b: float, eta: Tangent) -> Tangent:
    """Return a ξ + b η."""
    pairs = zip(xi, eta, strict=True)
    if a == 1.0:  # the common cases, without a copy of each factor
        return type(xi)(*(u - v if b == -1.0 else u + b * v for u, v in pairs))
    return type(xi)(*(a * u + b * v for u, v in pairs))


def scale(a: float, xi: Tangent) -> Tangent:
    """Return a ξ."""
    return type(xi)(*(-u if a == -1.0 else a * u for u in xi))


class Geometry(ABC):
    """A Riemannian manifold of d1×d2 matrices of rank r, as solvers and costs see it.

    A point x stands for the matrix W = L Rᵀ with (L, R) = `factors(x)`. Where several points stand for one
    W (a quotient), tangent vectors are horizontal lifts, and every operation gives the same W whichever of
    these points it starts from.

    Parameters
    ----------
    shape
        (d1, d2), the shape of W.
    rank
        r, between 1 and min(d1, d2).
    """

    point_type: ClassVar[type]
    tangent_type: ClassVar[type]
    #: the fields of points and tangents that are not tall; None unless all formulas consist of arithmetic and
    #: functions of `rankfold.linalg`, so that they can be given sums yet to be made (`geometry.lazily`).
    #: Not inherited: a subclass may have formulas of its own
    small_fields: ClassVar[tuple[str, ...] | None] = None
    #: whether `retract(x, t ξ)` has exactly the factors of `line(x, ξ)`, so that line searches can be exact
    straight: bool = False
    #: whether t ↦ `retract(x, t ξ)` has no covariant acceleration at 0
    second_order: bool = False
    #: whether all W are symmetric, with L = R: only the symmetric part of a cost's gradient then counts
    symmetric: bool = False
    #: whether points are L and R themselves, up to rotations of both: costs may then depend on the factors
    has_factors: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.small_fields = vars(cls).get("small_fields")

    def __init__(self, shape: tuple[int, int], rank: int) -> None:
        self.shape, self.rank = _checked(shape, rank)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape}, rank={self.rank})"

    @property
    def dimension(self) -> int:
        """The dimension of the manifold."""
        return (sum(self.shape) - self.rank) * self.rank

    def with_rank(self, rank: int) -> Self:
        """Return the same geometry of matrices of another rank."""
        other = copy(self)
        other.shape, other.rank = _checked(self.shape, rank)
        return other

    # The matrix that a point stands for ---------------------------------------------------------------

    @abstractmethod
    def factors(self, x: Point) -> tuple[Array, Array]:
        """Return (L, R) with W = L Rᵀ."""

    @abstractmethod
    def tangent_factors(self, x: Point, xi: Tangent) -> tuple[Array, Array]:
        """Return (dL, dR), the change of the factors along ξ: Ẇ = dL Rᵀ + L dRᵀ."""

    @abstractmethod
    def line(self, x: Point, xi: Tangent) -> LineCoefficients:
        """Return the coefficients (Ls, Rs) of the linearised curve x + tξ: factors Σ Ls[i] tⁱ, Σ Rs[j] tʲ."""

    @abstractmethod
    def from_svd(self, U: Array, s: Array, V: Array) -> Point:
        """Return the point of W = U diag(s) Vᵀ, from a singular value decomposition of rank r."""

    def nearest(self, U: Array, s: Array, V: Array) -> Point:
        """Return the point nearest to W = U diag(s) Vᵀ: its own, unless not every W has one."""
        return self.from_svd(U, s, V)

    def from_factors(self, L: Array, R: Array) -> Point:
        """Return a point of W = L Rᵀ, from any two factors with r columns."""
        return self.from_svd(*svd_of_product(L, R))

    def convert(self, x: Point, source: Geometry) -> Point:
        """Return the point of this geometry that stands for the same W as `x` of the geometry `source`."""
        return self.from_factors(*source.factors(x))

    def random_point(self, seed: int | None = None, like: Array | None = None) -> Point:
        """Return the point of a random W = A Bᵀ with Gaussian A, B (section 6.1), in the dtype of `like`."""
        rng = own_stream(seed, POINTS)
        return self.from_factors(*(normal(rng, (d, self.rank), like) for d in self.shape))

    # The tangent space ----------------------------------------------------------------------------------

    @abstractmethod
    def inner(self, x: Point, xi: Tangent, eta: Tangent) -> float:
        """Return the Riemannian metric g_x(ξ, η)."""

    def norm(self, x: Point, xi: Tangent) -> float:
        """Return the length of ξ."""
        return float(np.sqrt(max(self.inner(x, xi, xi), 0.0)))

    @abstractmethod
    def to_tangent(self, x: Point, z: Tangent) -> Tangent:
        """Ψ: project ambient matrices onto the tangent space of the total space."""

    @abstractmethod
    def to_horizontal(self, x: Point, eta: Tangent) -> Tangent:
        """Π: project a tangent vector onto the horizontal space."""

    def is_horizontal(self, x: Point, xi: Tangent, tolerance: float = 1e-8) -> bool:
        """Say whether the vertical part of ξ is negligible."""
        vertical = lincomb(1.0, xi, -1.0, self.to_horizontal(x, xi))
        return self.norm(x, vertical) <= tolerance * self.norm(x, xi)

    def is_vertical(self, x: Point, xi: Tangent, tolerance: float = 1e-8) -> bool:
        """Say whether the horizontal part of ξ is negligible: moving along ξ does not change W."""
        return self.norm(x, self.to_horizontal(x, xi)) <= tolerance * self.norm(x, xi)

    def random_tangent(self, x: Point, seed: int | None = None) -> Tangent:
        """Return a random horizontal vector of unit length."""
        rng = own_stream(seed, TANGENTS)
        z = self._ambient(x, lambda y: normal(rng, y.shape, y))
        xi = self.to_horizontal(x, self.to_tangent(x, z))
        return scale(1.0 / self.norm(x, xi), xi)

    def zero(self, x: Point) -> Tangent:
        """Return the zero vector."""
        return self._ambient(x, lambda y: 0 * y)

    def _ambient(self, x: Point, entries: Any) -> Tangent:
        """Build a tangent field by field; its fields are shaped like the point's, unless overridden."""
        return self.tangent_type(*(entries(y) for y in x))

    # Moving ---------------------------------------------------------------------------------------------

    @abstractmethod
    def retract(self, x: Point, xi: Tangent) -> Point:
        """Return the point reached from x along ξ."""

    def transport(self, x: Point, xi: Tangent, y: Point) -> Tangent:
        """Carry ξ from x to the horizontal space at y, by projection."""
        return self.to_horizontal(y, self.to_tangent(y, xi))

    def transported_inner(self, x: Point, xi: Tangent, y: Point, eta: Tangent) -> float:
        """Return ⟨T ξ, η⟩ at y, for ξ carried there from x and a horizontal η."""
        return self.inner(y, self.transport(x, xi, y), eta)

    # Derivatives of a cost ------------------------------------------------------------------------------

    @abstractmethod
    def gradient(self, x: Point, f_L: Array, f_R: Array) -> Tangent:
        """Return the Riemannian gradient from the partial derivatives f_L = S R and f_R = Sᵀ L."""

    @abstractmethod
    def hessian(self, x: Point, xi: Tangent, f_L: Array, f_R: Array, df_L: Array, df_R: Array) -> Tangent:
        """Return the horizontal lift of the Riemannian Hessian along the horizontal vector ξ."""

    # The other way round: tangents as changes of the factors, and as derivatives of a cost -------------

    #: whether `lift` and `lowered` are there: not where different tangents stand for the same Ẇ
    has_lift: bool = True

    @abstractmethod
    def lift(self, x: Point, dL: Array, dR: Array) -> Tangent:
        """Return the horizontal vector ξ of Ẇ = dL Rᵀ + L dRᵀ."""

    @abstractmethod
    def lowered(self, x: Point, xi: Tangent) -> tuple[Array, Array]:
        """Return the (f_L, f_R) of which the horizontal ξ is the gradient: the adjoint of `lift`."""

    # The symmetry that makes it a quotient --------------------------------------------------------------

    @abstractmethod
    def act(self, z: Point | Tangent, M: Array) -> Point | Tangent:
        """Move along the fibre: let the r×r matrix M of the symmetry group act on a point or a tangent."""

    @abstractmethod
    def random_symmetry(self, seed: int | None = None) -> np.ndarray[Any, Any]:
        """Return a random element of the symmetry group."""

    # What users hand in ---------------------------------------------------------------------------------

    @abstractmethod
    def spaces(self) -> tuple[Space, ...]:
        """Return the space in which each field of a point lives."""

    def validate(self, x: Point) -> Point:
        """Return `x` as a point of this geometry, or say which part is wrong and what would be right."""
        names = self.point_type._fields  # type: ignore[attr-defined]
        if len(x) != len(names):
            raise ValueError(f"a point of {self!r} has the fields {names}, not {len(x)} of them")
        for name, y, shape, space in zip(names, x, self._shapes(), self.spaces(), strict=True):
            _check_field(name, y, shape, space)
        return self.point_type(*x)

    @abstractmethod
    def _shapes(self) -> tuple[tuple[int, ...], ...]:
        """Return the shape of each field of a point."""

    def _check_svd(self, U: Array, s: Array, V: Array) -> None:
        _check_field("U", U, (self.shape[0], self.rank), Stiefel())
        _check_field("s", s, (self.rank,), PositiveVector())
        _check_field("V", V, (self.shape[1], self.rank), Stiefel())


def _checked(shape: tuple[int, int], rank: int) -> tuple[tuple[int, int], int]:
    if len(shape) != 2 or any(int(d) != d or d < 1 for d in shape):
        raise ValueError(f"shape must be two positive integers (rows, columns), not {shape}")
    d1, d2 = (int(d) for d in shape)
    if int(rank) != rank or not 1 <= rank <= min(d1, d2):
        raise ValueError(
            f"rank must be an integer between 1 and min(shape) = {min(d1, d2)}, not {rank} "
            f"(shape is {(d1, d2)})"
        )
    return (d1, d2), int(rank)


def _check_field(name: str, y: Array, shape: tuple[int, ...], space: Space) -> None:
    if tuple(y.shape) != shape:
        raise ValueError(f"{name} must have shape {shape}, not {tuple(y.shape)}")
    if on_gpu.holds(y):  # its Gram is fetched once, and tells all
        y = Tall.of(y) if len(shape) == 2 and shape[0] > shape[1] else on_host(y)
    xp, numbers = namespace(y), gram(y, y) if isinstance(y, Tall) else y
    if not bool(xp.all(xp.isfinite(numbers))):
        raise ValueError(f"{name} has entries that are NaN or infinite: every entry must be finite")
    if flaw := space.flaw(y):
        raise ValueError(f"{name} {flaw}")


def own_stream(seed: int | None, stream: int) -> np.random.Generator:
    """Return random numbers that share nothing with data drawn from the same seed, or with other streams.

    A start point that is the truth of synthetic data would make every check and every solver look right.
    """
    return np.random.default_rng(None if seed is None else (seed, stream))


def normal(rng: np.random.Generator, shape: tuple[int, ...], like: Array | None) -> Array:
    """Return standard normal numbers in the namespace, dtype and device of `like` (NumPy float64 if None)."""
    if is_spread(like):
        return normal_like(rng, (shape[0], shape[1]), like)
    z = rng.standard_normal(shape)
    return z if like is None else asarray_like(z, like)
