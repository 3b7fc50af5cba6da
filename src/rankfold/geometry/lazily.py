"""Points and tangents whose tall fields are sums yet to be made (`rankfold.linalg.tall`), and back to arrays.

For geometries whose formulas use nothing but `rankfold.linalg` and arithmetic: they say so by `small_fields`.
Those of others get arrays, as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from rankfold.geometry.base import Geometry, Point, Tangent
from rankfold.linalg import Array, asarray_like
from rankfold.linalg.primitives import on_host
from rankfold.linalg.tall import Leaf, Tall, learn, reals


def takes_sums(geometry: Geometry) -> bool:
    """Whether formulas of a geometry, which may be any object like one, take sums that are yet to be made."""
    return getattr(geometry, "small_fields", None) is not None


def lazily(geometry: Geometry, z: Point | Tangent) -> Point | Tangent:
    """Return z with `Tall` fields, and small ones on the host; z itself where formulas want arrays."""
    if not takes_sums(geometry) or Tall in map(type, z):
        return z
    small = geometry.small_fields
    if not small:
        return type(z)(*map(Tall.of, z))
    fields = zip(type(z)._fields, z, strict=True)
    return type(z)(*(on_host(y) if name in small else Tall.of(y) for name, y in fields))


def made(z: Point | Tangent, example: Array) -> Point | Tangent:
    """Return z with arrays of the library, and in the place, of `example`."""
    if Tall not in map(type, z):
        return z
    whole = zip(z, reals(z), strict=True)
    return type(z)(*(y if isinstance(old, Tall) else asarray_like(y, example) for old, y in whole))


def introduce(*pairs: tuple[Iterable[Array], Iterable[Array]]) -> None:
    """Have the Grams of these pairs of vectors known, after one pass over each side; nothing for arrays."""
    met: tuple[list[tuple[Leaf, Leaf]], ...] = [], []
    for first, second in pairs:
        both = zip(met, _tall(first), _tall(second), strict=False)  # the left side, and the right
        for side, A, B in both:
            side.extend(product(A.terms, B.terms))
    learn(*met)


def _tall(z: Iterable[Array]) -> list[Tall]:
    return [y for y in z if type(y) is Tall]
