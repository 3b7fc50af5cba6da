"""The observed set Ω: positions and data, held once by rows and once by columns, and checked when built."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from rankfold.kernels.pool import run
from rankfold.remembered import remembered

Duplicates = Literal["error", "keep"]
NewValues = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], NDArray[Any]]
# Chunks are what threads share out. They depend on the data alone, so that no result depends on the threads.
MAX_CHUNKS, CHUNK_ENTRIES = 128, 2048
# A stripe is at least so many lines of the other side, and leaves each line of its own so many entries.
# Narrow stripes let a core gather from its own cache, where lines have entries enough (32000², 400 per line,
# rank 50: half the time), wide ones from the shared one (10⁸ entries of 2·10⁶ rows, rank 10: half as well).
# Of narrow ones, 1000 lines measure as 2000 in an evaluation, and a fifth faster in a derivative at rank 20.
STRIPES = (1 << 10, 12), (1 << 17, 8)


@dataclass(frozen=True, eq=False)
class Side:
    """Entries sorted by row and, within a row, by column (or the other way round).

    Row i has the entries p from `indptr[i]` to `indptr[i + 1]`, at columns `indices[p]`, with `data[p]` the
    value, or value and weight. `bounds` cuts the rows into chunks of about as many entries each.

    Where columns are many they are cut into stripes, and entries are sorted by stripe first: then `indptr`
    and `bounds` have all rows once per stripe. Kernels take stripe after stripe.
    """

    indptr: NDArray[np.uint64]
    indices: NDArray[np.unsignedinteger[Any]]
    data: NDArray[Any]
    bounds: NDArray[np.uint64]

    def __post_init__(self) -> None:
        for array in (self.indptr, self.indices, self.data, self.bounds):
            array.setflags(
                write=False
            )  # kernels trust these, and costs remember what they computed from them

    @property
    def lines(self) -> int:
        """Number of rows."""
        return int(self.bounds[0, -1])

    @property
    def stripes(self) -> int:
        """Number of stripes of the columns."""
        return len(self.bounds)

    @property
    def chunks(self) -> tuple[int, int]:
        """Numbers of stripes and of chunks in each."""
        return self.stripes, self.bounds.shape[1] - 1

    @property
    def entries(self) -> tuple[Any, ...]:
        """All stripes as kernels take them, data flat."""
        return self.bounds, self.indptr, self.indices, self.data.reshape(-1)

    def stripe(self, s: int) -> tuple[Any, ...]:
        """(bounds, indptr, indices, data) of stripe s, data flat."""
        indptr = self.indptr[s * self.lines : (s + 1) * self.lines + 1]
        return self.bounds[s], indptr, self.indices, self.data.reshape(-1)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of entries of each row."""
        return np.asarray(self._lengths.reshape(self.stripes, -1).sum(axis=0))

    @property
    def keys(self) -> NDArray[np.unsignedinteger[Any]]:
        """Row of each entry."""
        rows = np.tile(np.arange(self.lines, dtype=self.indices.dtype), self.stripes)
        return np.repeat(rows, self._lengths)

    @property
    def _lengths(self) -> NDArray[np.int64]:
        return (self.indptr[1:] - self.indptr[:-1]).view(np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in (self.bounds, self.indptr, self.indices, self.data))


@dataclass(frozen=True, eq=False)
class Observed:
    """Ω with its data, sorted both ways; build it with `Observed.from_triples`."""

    shape: tuple[int, int]
    by_row: Side
    by_column: Side

    @staticmethod
    def from_triples(
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int],
        weights: ArrayLike | None = None,
        duplicates: Duplicates = "error",
        warn_of_empty: bool = True,
    ) -> Observed:
        """Check the triples, and sort them both ways; warn of rows and columns without any, or not."""
        shape = check_shape(shape)
        rows, cols, data = _check_triples(rows, cols, values, weights, shape)
        observed = _with_duplicates(_sort(rows, cols, data, shape), rows, cols, duplicates)
        if warn_of_empty:
            _warn_if_empty(observed)
        return observed

    @property
    def size(self) -> int:
        """|Ω|, the number of observed entries."""
        return self.by_row.indices.size

    @property
    def weighted(self) -> bool:
        """Whether entries carry weights."""
        return bool(self.by_row.data.shape[1] == 2)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values held."""
        return self.by_row.data.dtype

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.by_row.nbytes + self.by_column.nbytes

    @remembered
    def plain(self) -> Observed:
        """The same set without stripes, for who needs each line in one piece: a copy if it has any."""
        if self.by_row.stripes == self.by_column.stripes == 1:
            return self
        side = self.by_row
        return _sort(side.keys, side.indices, _packed(side), self.shape, stripes=1)

    def astype(self, dtype: DTypeLike) -> Observed:
        """Return the same set with values of another type; positions are shared."""
        sides = (side.data.astype(dtype, copy=False) for side in (self.by_row, self.by_column))
        return self.with_data(*sides)

    def with_data(self, by_row: NDArray[Any], by_column: NDArray[Any]) -> Observed:
        """Return the same set with other data, in the order of the sides; positions are shared."""
        return Observed(
            self.shape, replace(self.by_row, data=by_row), replace(self.by_column, data=by_column)
        )

    def with_values(self, values: NewValues) -> Observed:
        """Return the same set with other values; positions are shared, and weights are kept.

        `values(rows, cols, old)` is called block by block, with the positions and the values of a block.
        """
        by_row = _with_values(self.by_row, values)
        by_column = _with_values(self.by_column, lambda cols, rows, old: values(rows, cols, old))
        return Observed(self.shape, by_row, by_column)


def _with_values(side: Side, values: NewValues) -> Side:
    data = side.data.copy()
    for s in range(side.stripes):
        bounds, indptr, indices, _ = side.stripe(s)
        for first, last in pairwise(bounds.tolist()):  # a chunk at a time, for memory's sake
            starts = indptr[first : last + 1].view(np.int64)
            entries = slice(int(starts[0]), int(starts[-1]))
            lines = np.repeat(np.arange(first, last), starts[1:] - starts[:-1])
            data[entries, 0] = values(lines, indices[entries], data[entries, 0])
    return replace(side, data=data)


def check_shape(shape: Any) -> tuple[int, int]:
    """Shape as two positive integers."""
    try:
        d1, d2 = (int(d) for d in shape)
        whole = (d1, d2) == tuple(shape)
    except (TypeError, ValueError):
        whole, d1, d2 = False, 0, 0
    if not whole or min(d1, d2) < 1:
        raise ValueError(f"shape must be two positive integers (rows, columns); got {shape!r}")
    return d1, d2


def _check_triples(
    rows: Any, cols: Any, values: Any, weights: Any, shape: tuple[int, int]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    rows, cols = _check_indices("rows", rows, shape[0]), _check_indices("cols", cols, shape[1])
    values = _check_numbers("values", values)
    dtype = values.dtype
    columns = {"rows": rows, "cols": cols, "values": values}
    if weights is not None:
        columns["weights"] = _check_numbers("weights", weights).astype(dtype, copy=False)
    lengths = {name: column.size for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"rows, cols and values must have one length: {told}")
    if not values.size:
        raise ValueError("values is empty: give at least one observed entry")
    if weights is None:
        return rows, cols, values
    if columns["weights"].min() < 0:
        at = int(np.argmax(columns["weights"] < 0))
        raise ValueError(f"weights[{at}] is {columns['weights'][at]}; weights must be zero or more")
    # value and weight travel through the sort as one number of twice the size
    pairs = np.stack([values, columns["weights"]], axis=1)
    return rows, cols, pairs.view(np.result_type(dtype, np.complex64))[:, 0]


def _check_indices(name: str, indices: Any, size: int) -> NDArray[Any]:
    indices = np.asarray(indices)
    if indices.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {indices.shape}")
    if indices.dtype.kind not in "iu" and indices.size:
        raise TypeError(f"{name} must be integers; got {indices.dtype} (map labels to 0, 1, ... first)")
    if indices.size and (indices.min() < 0 or indices.max() >= size):
        at = int(np.argmax((indices < 0) | (indices >= size)))
        raise ValueError(
            f"{name}[{at}] is {indices[at]}, out of range: must be from 0 to {size - 1} for this shape"
        )
    return np.ascontiguousarray(indices)


def _check_numbers(name: str, numbers: Any) -> NDArray[Any]:
    numbers = np.asarray(numbers)
    if numbers.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional; got shape {numbers.shape}")
    if numbers.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers; got {numbers.dtype}")
    if numbers.dtype != np.float32:
        numbers = numbers.astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        suspicious = not np.isfinite(numbers.sum())  # one pass, no memory; a sum may also overflow
    if suspicious and not np.isfinite(numbers).all():
        at = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(f"{name}[{at}] is {numbers[at]}; all must be finite: leave unknown entries out")
    return np.ascontiguousarray(numbers)


def _sort(
    rows: NDArray[Any], cols: NDArray[Any], data: NDArray[Any], shape: tuple[int, int], stripes: int = 0
) -> Observed:
    """Sort both ways, into as many stripes, or as many as pay."""
    index = np.uint32 if max(shape) <= 2**32 else np.uint64
    turned = shape[::-1]
    side = _sorted_side(rows, cols, data, shape, index, 1)
    of_rows, of_cols = (stripes or _stripes(data.size, *shape), stripes or _stripes(data.size, *turned))
    by_column = _sorted_side(side.indices, side.keys, _packed(side), turned, index, of_cols)
    side = by_column
    by_row = _sorted_side(side.indices, side.keys, _packed(side), shape, index, of_rows)
    return Observed(shape, by_row, by_column)


def _stripes(entries: int, lines: int, length: int) -> int:
    return max(1, *(min(length // width, entries // (each * lines)) for width, each in STRIPES))


def _sorted_side(
    keys: NDArray[Any],
    others: NDArray[Any],
    packed: NDArray[Any],
    shape: tuple[int, int],
    index: Any,
    stripes: int,
) -> Side:
    """Order entries by stripe of `others`, then by key; ties keep their order."""
    from rankfold.kernels.sorting import sort

    lines, length = shape
    if stripes > 1:
        keys = _striped(keys, others, lines, -(-length // stripes))
    indptr, indices, packed = sort(keys, others, packed, stripes * lines, index)
    real = packed.view(packed.real.dtype).reshape(packed.size, -1)
    chunks = min(MAX_CHUNKS, 1 + packed.size // stripes // CHUNK_ENTRIES)
    bounds = [_even_cuts(indptr[s * lines : (s + 1) * lines + 1], chunks) for s in range(stripes)]
    return Side(indptr, indices, real, np.array(bounds, dtype=np.uint64))


def _striped(keys: NDArray[Any], others: NDArray[Any], lines: int, width: int) -> NDArray[Any]:
    """Number the lines anew, all of them once per stripe of `width`; in one array, for memory's sake."""
    numbers: NDArray[Any] = others // width
    np.multiply(numbers, lines, out=numbers)
    np.add(numbers, keys, out=numbers)
    return numbers


def _even_cuts(indptr: NDArray[np.uint64], chunks: int) -> list[int]:
    """Cut lines into `chunks` of about as many entries each."""
    cuts = np.searchsorted(indptr, np.linspace(int(indptr[0]), int(indptr[-1]), chunks + 1)[1:-1])
    return [0, *cuts.tolist(), indptr.size - 1]


def _packed(side: Side) -> NDArray[Any]:
    """One number per entry: the value, or value and weight as a complex number."""
    data = side.data
    return data[:, 0] if data.shape[1] == 1 else data.view(np.result_type(data.dtype, np.complex64))[:, 0]


def sweep(kernel: Callable[..., None], work: float, *passes: tuple[Side, tuple[Any, ...]]) -> None:
    """Run `kernel` over sides, each with its arguments; `work` is that of all passes, in multiply-adds."""
    chunks = max(side.chunks[1] for side, _ in passes)
    run(kernel, chunks, work, *((*side.entries, *arguments) for side, arguments in passes))


def _with_duplicates(observed: Observed, rows: Any, cols: Any, duplicates: Duplicates) -> Observed:
    """Return the set with repeated entries in an order that depends on their data alone, or refuse them."""
    from rankfold.kernels.sorting import first_tie, settle_ties

    if duplicates not in ("error", "keep"):
        raise ValueError(f"duplicates must be 'error' or 'keep'; got {duplicates!r}")
    side = observed.by_row
    ties = (first_tie(*side.stripe(s)[:3]) for s in range(side.stripes))
    tie = next((tie for tie in ties if tie >= 0), None)
    if tie is None:
        return observed
    if duplicates == "keep":
        by_row, by_column = observed.by_row.data.copy(), observed.by_column.data.copy()
        settle_ties(observed.by_row.indptr, observed.by_row.indices, by_row)
        settle_ties(observed.by_column.indptr, observed.by_column.indices, by_column)
        return observed.with_data(by_row, by_column)
    line = int(np.searchsorted(side.indptr, tie, side="right")) - 1
    i, j = line % side.lines, int(side.indices[tie])
    first, second = np.flatnonzero((rows == i) & (cols == j))[:2]
    raise ValueError(
        f"entry ({i}, {j}) is given more than once, at positions {first} and {second} of rows and cols: "
        "merge repeated entries, or pass duplicates='keep' to count each as an observation of its own"
    )


def _warn_if_empty(observed: Observed) -> None:
    for name, side in (("row", observed.by_row), ("column", observed.by_column)):
        empty = int(np.count_nonzero(side.counts == 0))
        if empty:
            warnings.warn(
                f"{empty} of {side.lines} {name}s have no observed entry: nothing determines them",
                UserWarning,
                stacklevel=4,
            )
