"""A tall matrix whose rows live on several processes, as an array of the Python array API.

Row-wise work is done on the rows at hand. AᵀB of two such matrices is the sum of everybody's AᵀB, a plain
small matrix that all processes hold; QR is of the tall-skinny kind (Demmel et al. 2012). So `linalg`, the
geometries and the solvers run on these arrays as they are, and what cannot be done with them raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, mul, sub, truediv
from typing import Any
from weakref import ref

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from rankfold.distributed.group import Group
from rankfold.distributed.namespace import SpreadNamespace
from rankfold.linalg import primitives
from rankfold.linalg.rows import normal_in_blocks

Array = Any  # an array of any array-API namespace


def even_cuts(rows: int, size: int) -> tuple[int, ...]:
    """Return where each of `size` parts of so many rows begins, and the end."""
    return tuple(rows * k // size for k in range(size + 1))


@dataclass(frozen=True, eq=False)
class Places:
    """Which process has which rows: number k those from `cuts[k]` to `cuts[k + 1]`."""

    group: Group
    cuts: tuple[int, ...]

    @property
    def bounds(self) -> tuple[int, int]:
        """The first row at hand, and the one after the last."""
        return self.cuts[self.group.rank], self.cuts[self.group.rank + 1]

    @property
    def own(self) -> slice:
        """The rows at hand."""
        return slice(*self.bounds)

    def sum(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Return the sum of everybody's numbers."""
        return self.group.sum(numbers)

    def array(self, block: Array) -> Sharded:
        """Return the matrix with these rows at hand."""
        return Sharded(block, self)

    def of(self, rows: int) -> Places:
        """Return the places of a matrix with so many rows: these, if it has as many, else even ones."""
        same = rows == self.cuts[-1]
        return self if same else Places(self.group, even_cuts(rows, self.group.size))


class Sharded:
    """The rows at hand of a d×r matrix; `shape` is that of the whole.

    Parameters
    ----------
    block
        The rows at hand: a NumPy array or a torch tensor.
    spread
        Which process has which rows.

    Examples
    --------
    >>> import numpy as np
    >>> from rankfold.distributed import Places, Sharded, start
    >>> A = Sharded(np.ones((4, 2)), Places(start(), (0, 4)))
    >>> A.shape, A.T @ A
    ((4, 2), array([[4., 4.],
           [4., 4.]]))
    """

    __slots__ = ("__weakref__", "block", "spread", "terms")
    __array_ufunc__ = None  # NumPy leaves operators to us
    ndim = 2

    def __init__(self, block: Array, spread: Places) -> None:
        first, last = spread.bounds
        if len(block.shape) != 2 or block.shape[0] != last - first:
            raise ValueError(
                f"block must have the {last - first} rows from {first} to {last} of {spread.cuts[-1]}; "
                f"got shape {tuple(block.shape)}"
            )
        self.block, self.spread = block, spread
        self.terms: tuple[tuple[ref[Sharded], float], ...] = ()  # what it is a sum of, and how often

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the whole matrix."""
        return self.spread.cuts[-1], int(self.block.shape[1])

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.block.dtype

    @property
    def device(self) -> Any:
        """Where the rows are, and small matrices that go with them."""
        return device(self.block)

    @property
    def T(self) -> _Transposed:
        """Its transpose, good for products only."""
        return _Transposed(self)

    def __repr__(self) -> str:
        first, last = self.spread.bounds
        return f"Sharded(rows {first} to {last} of {self.shape[0]}, {self.shape[1]} columns)"

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        raise TypeError("rows of this matrix are elsewhere: `whole()` fetches them")

    def __array_namespace__(self, api_version: str | None = None) -> SpreadNamespace:
        return SpreadNamespace(array_namespace(self.block))

    def like(self, block: Array) -> Sharded:
        """Return other rows in the same places."""
        return Sharded(block, self.spread)

    def placed(self, numbers: Array) -> Sharded:
        """Return a matrix that everybody holds whole, with its rows spread; as here, if it has as many."""
        spread = self.spread.of(int(numbers.shape[0]))
        xp = array_namespace(self.block)
        return Sharded(xp.asarray(numbers[spread.own], dtype=self.dtype, device=self.device), spread)

    def drawn(self, rng: np.random.Generator, shape: tuple[int, int]) -> Sharded:
        """Return standard normal numbers, the same however they are spread."""
        spread = self.spread.of(shape[0])
        numbers = normal_in_blocks(rng, shape, spread.bounds)
        xp = array_namespace(self.block)
        return Sharded(xp.asarray(numbers, dtype=self.dtype, device=self.device), spread)

    def whole(self, exact: bool = False) -> Array:
        """Return all rows, rounded as the wire asks unless `exact`; the last few are kept."""
        group = self.spread.group
        if exact or group.alone:
            return group.gathered(self.block, self.spread.cuts, exact)
        known = group.kept(self)
        if known is None:
            parts = self.kept_terms()
            known = self.of_terms(parts) if parts else group.gathered(self.block, self.spread.cuts)
            group.keep(self, known)
        return known

    def kept_terms(self, order: Any = None) -> list[tuple[Array, float]]:
        """Return all rows of what this is a sum of, in an order of theirs, and their factors.

        Nothing where some are not kept, or are rounded: the sum is to have the bits of the rows at hand.
        """
        group = self.spread.group
        found = [(group.kept(A(), order), factor) for A, factor in self.terms]
        return [] if group.wire is not None or any(rows is None for rows, _ in found) else found

    def of_terms(self, rows: Sequence[tuple[Array, float]]) -> Array:
        """Return rows of this sum from those of its terms, wherever they are at home."""
        return primitives.multiples(rows, self.shape[0] * self.shape[1])

    def __getitem__(self, key: Any) -> Sharded:
        match key:
            case (slice(start=None, stop=None, step=None), slice() as columns):
                return self.like(self.block[:, columns])
        raise IndexError("of a matrix whose rows are spread, [:, a:b] can be taken and nothing else")

    def __matmul__(self, small: Array) -> Sharded:
        return self.like(self.block @ small)

    def __neg__(self) -> Sharded:
        return self.like(-self.block)

    def __iadd__(self, other: Any) -> Sharded:
        self.block += self.rows_of(other)
        self.terms = ()
        return self

    def rows_of(self, other: Any) -> Any:
        """Return what of an operand meets the rows at hand: of one that has all rows, these."""
        if isinstance(other, Sharded):
            if other.spread.cuts != self.spread.cuts:
                raise ValueError(f"rows are cut at {self.spread.cuts} and at {other.spread.cuts}")
            return other.block
        if getattr(other, "ndim", 0) == 2 and other.shape[0] == self.shape[0] != 1:
            other = other[self.spread.own]
        if type(other) is np.ndarray and type(self.block) is not np.ndarray:  # to where the rows are
            other = array_namespace(self.block).asarray(other, dtype=self.dtype, device=self.device)
        return other

    def __add__(self, other: Any) -> Sharded:
        return self.like(add(self.block, self.rows_of(other)))

    def __sub__(self, other: Any) -> Sharded:
        return self.like(sub(self.block, self.rows_of(other)))

    def __mul__(self, other: Any) -> Sharded:
        return self.like(mul(self.block, self.rows_of(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Sharded:
        return self.like(truediv(self.block, self.rows_of(other)))

    @staticmethod
    def grams(sides: Sequence[Sequence[tuple[Sharded, Sharded]]]) -> list[list[NDArray[Any]]]:
        """Return AᵀB for the pairs of each side: one sum over the processes for all of them."""
        parts = primitives.grams(*([(A.block, B.block) for A, B in pairs] for pairs in sides))
        flat = np.concatenate([M.reshape(-1) for found in parts for M in found])
        numbers = sides[0][0][0].spread.sum(flat)
        summed: list[list[NDArray[Any]]] = []
        for found in parts:
            summed.append([])
            for M in found:
                summed[-1].append(numbers[: M.size].reshape(M.shape))
                numbers = numbers[M.size :]
        return summed

    @staticmethod
    def sums(sides: Sequence[Sequence[tuple[Sharded, Any]]]) -> list[Sharded]:
        """Return Σ A_k S_k for the terms of each side.

        Multiples are added so that each process can do so with all rows, if it has them already: those of a
        step R + t dR, which is asked for whole right after R and dR were.
        """
        rest = [terms for terms in sides if not _numbers_only(terms)]
        made = iter(primitives.sums(*([(A.block, S) for A, S in terms] for terms in rest)) if rest else ())
        return [
            _sum_of_multiples(terms) if _numbers_only(terms) else terms[0][0].like(next(made))
            for terms in sides
        ]


def _numbers_only(terms: Sequence[tuple[Sharded, Any]]) -> bool:
    """Whether a sum is one of multiples of arrays in memory, not of products with small matrices."""
    return all(isinstance(S, float) and type(A.block) is np.ndarray for A, S in terms)


def _sum_of_multiples(terms: Sequence[tuple[Sharded, float]]) -> Sharded:
    first = terms[0][0]
    total = first.like(first.of_terms([(A.block, factor) for A, factor in terms]))
    total.terms = tuple((ref(A), factor) for A, factor in terms)
    return total


class _Transposed:
    """The transpose of a matrix whose rows are spread."""

    def __init__(self, matrix: Sharded) -> None:
        self.matrix = matrix

    def __matmul__(self, other: Sharded) -> Array:
        """AᵀB: everybody's part, summed up."""
        ((product,),) = Sharded.grams([[(self.matrix, other)]])
        block = self.matrix.block
        return array_namespace(block).asarray(product, dtype=block.dtype, device=device(block))
