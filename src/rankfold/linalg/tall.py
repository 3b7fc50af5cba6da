"""Tall arrays that are not there yet: sums of tall arrays, each times a small matrix.

Geometry code does arithmetic on them as on arrays, but only the small matrices are computed. A Gram of two
such sums is made of Grams of the arrays in them, which are remembered; and an array is made of one, in one
pass, where somebody wants it. So an iteration reads its tall arrays two or three times, however many formulas
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

import array_api_compat.numpy as host
import numpy as np
from numpy.typing import NDArray

from rankfold.linalg import primitives
from rankfold.linalg.primitives import Array, Small

_serials = count()


class Leaf:
    """An array that is there, and nobody will change, with what is known of it.

    Each Gram is kept by the younger of its two leaves, so that one that lives long does not gather those of
    all it ever met.
    """

    __slots__ = ("array", "grams", "known", "serial")

    def __init__(self, array: Array) -> None:
        self.array, self.serial = array, next(_serials)
        self.grams: dict[int, NDArray[Any]] = {}  # products of an older leaf's transpose with it, by serial
        self.known: dict[Any, Any] = {}  # what functions of it alone have made of it

    def gram(self, other: Leaf) -> NDArray[Any]:
        """Return the product of the transpose of this array with the other."""
        if self.serial > other.serial:
            return other.gram(self).T
        known = other.grams.get(self.serial)
        if known is None:
            learn([(self, other)])
            known = other.grams[self.serial]
        return known


def learn(*sides: Iterable[tuple[Leaf, Leaf]]) -> None:
    """Compute the Grams of pairs of leaves, in one pass over each side, as far as they are not known."""
    wanted = []
    for pairs in sides:
        missing = {}
        for old, young in pairs:
            if old.serial > young.serial:
                old, young = young, old
            if old.serial not in young.grams:
                missing[old.serial, young.serial] = old, young
        if missing:
            wanted.append(list(missing.values()))
    if not wanted:
        return
    found = primitives.grams(*([(old.array, young.array) for old, young in pairs] for pairs in wanted))
    for pairs, products in zip(wanted, found, strict=True):
        for (old, young), product in zip(pairs, products, strict=True):
            young.grams[old.serial] = product


class Tall:
    """Σ A_k S_k, for leaves A_k and small matrices S_k (or numbers, for multiples of the identity)."""

    __slots__ = ("shape", "terms")
    __array_ufunc__ = None  # NumPy's numbers and arrays leave products with a `Tall` to it

    def __init__(self, terms: dict[Leaf, Small], shape: tuple[int, int]) -> None:
        self.terms, self.shape = terms, shape

    @classmethod
    def of(cls, array: Array) -> Tall:
        """Wrap an array, which nobody may change any more."""
        return cls({Leaf(array): 1.0}, tuple(array.shape))

    @property
    def leaf(self) -> Leaf | None:
        """The leaf that it is, with nothing to be computed; None if it is a sum."""
        if len(self.terms) == 1:
            ((leaf, S),) = self.terms.items()
            if type(S) is float and S == 1.0:
                return leaf
        return None

    @property
    def array(self) -> Array:
        """One of its arrays, as an example of their library and place."""
        return next(iter(self.terms)).array

    @property
    def dtype(self) -> Any:
        """The type of its small matrices, NumPy's."""
        dtype = self.array.dtype
        return dtype if isinstance(dtype, np.dtype) else np.dtype(str(dtype).rpartition(".")[2])

    @property
    def device(self) -> str:
        """Where its small matrices are: on the host."""
        return "cpu"

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """Return NumPy: the library of the small matrices that are made of it."""
        return host

    def __matmul__(self, S: NDArray[Any]) -> Tall:
        terms: dict[Leaf, Small] = {leaf: _times(A, S) for leaf, A in self.terms.items()}
        return Tall(terms, (self.shape[0], S.shape[1]))

    def __add__(self, other: Tall) -> Tall:
        terms = dict(self.terms)
        for leaf, S in other.terms.items():
            terms[leaf] = _added(terms[leaf], S) if leaf in terms else S
        return Tall(terms, self.shape)

    def __neg__(self) -> Tall:
        return Tall({leaf: -S for leaf, S in self.terms.items()}, self.shape)

    def __sub__(self, other: Tall) -> Tall:
        return self + -other

    def __mul__(self, factor: Any) -> Tall:
        """Multiply by a number, or each column by one of a vector's."""
        if getattr(factor, "ndim", 0):
            return self @ np.diag(factor)
        number = float(factor)
        return Tall({leaf: number * S for leaf, S in self.terms.items()}, self.shape)

    __rmul__ = __mul__

    def __truediv__(self, divisor: Any) -> Tall:
        return self.__mul__(1.0 / divisor)


def _times(S: Small, T: NDArray[Any]) -> NDArray[Any]:
    """S T. `dot` takes half as long for small matrices as the operator."""
    if isinstance(S, float):
        return T if S == 1.0 else S * T
    product: NDArray[Any] = S.dot(T)
    return product


def _added(S: Small, T: Small) -> Small:
    if isinstance(S, float):
        return S + T if isinstance(T, float) else _added(T, S)
    return S + (T * np.eye(len(S), dtype=S.dtype) if isinstance(T, float) else T)


def lazy_gram(A: Tall, B: Tall) -> NDArray[Any]:
    """Return AᵀB, from the Grams of the leaves."""
    total: Any = None
    for a, S in A.terms.items():
        row: Any = None  # AᵀB, of this term of A
        for b, T in B.terms.items():
            M = a.gram(b)
            if type(T) is not float:
                M = M.dot(T)
            elif T != 1.0:
                M = M * T
            row = M if row is None else row + M
        row = _times(S if isinstance(S, float) else S.T, row)
        total = row if total is None else total + row
    result: NDArray[Any] = total
    return result


def real(A: Array) -> Array:
    """Return the array that A is: itself, if it is one already."""
    return reals([A])[0]


def reals(arrays: Sequence[Array]) -> list[Array]:
    """Return the arrays that these are, made in one pass."""
    missing = [A for A in arrays if isinstance(A, Tall) and A.leaf is None]
    made = primitives.sums(*([(a.array, S) for a, S in A.terms.items()] for A in missing)) if missing else []
    rest = iter(made)
    return [A if not isinstance(A, Tall) else next(rest) if A.leaf is None else A.array for A in arrays]
