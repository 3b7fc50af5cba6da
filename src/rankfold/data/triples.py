"""Known entries of a matrix as three arrays, and their split into a training and a held-out part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rankfold.data.numbering import Labels

KINDS = ("rows", "iu", "integers"), ("cols", "iu", "integers"), ("values", "biuf", "real numbers")
AnyTriples = TypeVar("AnyTriples", bound="Triples")


@dataclass(frozen=True, eq=False, repr=False)
class Triples:
    """The known entries of a matrix, as three arrays: entry k is `values[k]` at (`rows[k]`, `cols[k]`).

    This is how a sparse matrix is given everywhere: `read_triples` makes one from a file of lines such as
    "ann,Heat,5", `rankfold.MatrixCompletion.fit` takes one in place of X and y, `split` makes two of one.

    Attributes
    ----------
    rows, cols : arrays of int32 (int64 where the shape needs it)
        Positions, counted from 0.
    values : array of float64
    shape : (int, int)
        Shape of the whole matrix.
    row_labels, col_labels : array or None
        `row_labels[i]` is what row i is called: an integer, a string or a datetime64. None where rows are
        called by position: Matrix Market files, SciPy's sparse matrices (``Triples(A.row, A.col, A.data,
        A.shape)``) and dense arrays hold such entries.
    names : tuple of str or None
        What the file that they come from calls the columns of row, column and value.

    Examples
    --------
    >>> import numpy as np
    >>> names = np.array(["ann", "bob"])
    >>> triples = Triples(np.array([0, 1]), np.array([1, 0]), np.array([5.0, 3.0]), (2, 2), names)
    >>> len(triples), triples.row_labels[triples.rows].tolist()
    (2, ['ann', 'bob'])
    >>> triples
    <Triples: 2 entries of a 2 × 2 matrix>
    """

    rows: NDArray[np.integer]
    cols: NDArray[np.integer]
    values: NDArray[np.float64]
    shape: tuple[int, int]
    row_labels: Labels | None = None
    col_labels: Labels | None = None
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name, kinds, wanted in KINDS:
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or array.dtype.kind not in kinds:
                found = f"{array.dtype} in {array.ndim} dimensions"
                raise ValueError(f"{name} must be an array of {wanted} in one dimension, got {found}")
        if not len(self.rows) == len(self.cols) == len(self.values):
            sizes = f"{len(self.rows)}, {len(self.cols)} and {len(self.values)}"
            raise ValueError(f"rows, cols and values must be equally long, got {sizes}")
        for name, size in zip(("row_labels", "col_labels"), self.shape, strict=True):
            labels = getattr(self, name)
            if labels is not None and len(labels) != size:
                raise ValueError(f"{name} holds {len(labels)} labels for a side of length {size}")

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        d1, d2 = self.shape
        named = "" if self.names is None else f": {', '.join(map(repr, self.names))}"
        return f"<{type(self).__name__}: {len(self):,} entries of a {d1:,} × {d2:,} matrix{named}>"


def index_dtype(shape: tuple[int, int]) -> type[np.int32] | type[np.int64]:
    """Return the smallest of int32 and int64 that can index both sides."""
    return np.int32 if max(shape) - 1 <= np.iinfo(np.int32).max else np.int64


def held_out_mask(
    count: int, held_out: float = 0.2, seed: int | np.random.Generator = 0
) -> NDArray[np.bool_]:
    """Mark round(held_out·count) of `count` entries, chosen at random, as held out.

    Examples
    --------
    >>> held_out_mask(10, held_out=0.3).sum()
    np.int64(3)
    """
    if not 0 <= held_out <= 1:
        raise ValueError(f"held_out must be a fraction between 0 and 1, got {held_out}")
    mask = np.zeros(count, dtype=bool)
    # the last entries of one permutation are held out: the split that published
    # figures on rating data use, so that they can be compared with
    mask[np.random.default_rng(seed).permutation(count)[count - round(held_out * count) :]] = True
    return mask


def split(
    triples: AnyTriples, held_out: float = 0.2, seed: int | np.random.Generator = 0
) -> tuple[AnyTriples, AnyTriples]:
    """Split by entry into (train, held-out part), the latter with the fraction `held_out` of the entries.

    Shape, labels and the order of the entries are kept.

    Examples
    --------
    >>> from rankfold.data import random_completion, split
    >>> train, rest = split(random_completion((30, 20), 2, 3, seed=0), held_out=0.25)
    >>> len(train), len(rest)
    (216, 72)
    """
    mask = held_out_mask(len(triples), held_out, seed)
    train, rest = (
        replace(triples, rows=triples.rows[part], cols=triples.cols[part], values=triples.values[part])
        for part in (~mask, mask)
    )
    return train, rest
