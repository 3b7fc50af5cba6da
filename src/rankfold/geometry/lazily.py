"""Points and tangents whose tall fields are sums yet to be made (`rankfold.linalg.tall`), and back to arrays.

For geometries whose formulas use nothing but `rankfold.linalg` and arithmetic: they say so by `small_fields`.
Those of others get arrays, as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, product, starmap

from rankfold.geometry.base import Geometry, Point, Tangent
from rankfold.linalg import Array, asarray_like
from rankfold.linalg.primitives import on_host
from rankfold.linalg.tall import Leaf, Tall, learn, reals


def lazily(geometry: Geometry, z: Point | Tangent) -> Point | Tangent:
    """Return z with `Tall` fields, and small ones on the host; z itself where formulas want arrays."""
    if geometry.small_fields is None or any(isinstance(y, Tall) for y in z):
        return z
    fields = zip(type(z)._fields, z, strict=True)
    return type(z)(*(on_host(y) if name in geometry.small_fields else Tall.of(y) for name, y in fields))


def made(z: Point | Tangent, example: Array) -> Point | Tangent:
    """Return z with arrays of the library, and in the place, of `example`."""
    if not any(isinstance(y, Tall) for y in z):
        return z
    whole = zip(z, reals(z), strict=True)
    return type(z)(*(y if isinstance(old, Tall) else asarray_like(y, example) for old, y in whole))


def introduce(*pairs: tuple[Iterable[Array], Iterable[Array]]) -> None:
    """Have the Grams of these pairs of vectors known, side by side, after one pass over each side."""
    learn(*(chain.from_iterable(by_pair) for by_pair in zip(*starmap(_met, pairs), strict=False)))


def _met(first: Iterable[Array], second: Iterable[Array]) -> list[list[tuple[Leaf, Leaf]]]:
    """The pairs of leaves of the left side of two vectors, and those of the right; none of arrays."""
    tall = zip(*([y.terms for y in z if isinstance(y, Tall)] for z in (first, second)), strict=False)
    return [list(product(*both)) for both in tall]
