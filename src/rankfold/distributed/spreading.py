"""Entries on their way to the processes that have their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankfold import kernels
from rankfold.data.triples import Triples
from rankfold.distributed.entries import SpreadEntries
from rankfold.distributed.group import Group
from rankfold.distributed.sharded import Places
from rankfold.distributed.stripes import Stripes, stripes_that_pay
from rankfold.entries.observed import Duplicates, Observed, both_ways
from rankfold.entries.ordering import sorted_entries
from rankfold.entries.sorted_entries import index_type


@dataclass(frozen=True, eq=False)
class SpreadTriples:
    """Entries whose rows are spread over processes, and what their rows and columns are called.

    With `parts`, a model of them has in each process the rows at hand, and in none all of them. `names` are
    what the files call the columns that were read, and `held_out` entries that were set aside, everywhere.
    """

    store: SpreadEntries
    row_labels: NDArray[Any]
    col_labels: NDArray[Any]
    parts: bool = False
    names: tuple[str, ...] | None = None
    held_out: Triples | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.store.shape

    @property
    def group(self) -> Group:
        """The processes."""
        return self.store.group


def row_cuts(counts: NDArray[Any], size: int) -> tuple[int, ...]:
    """Cut rows into ranges of about as many entries each."""
    ends = np.cumsum(counts)
    goals = ends[-1] * np.arange(1, size) / size
    # the row that crosses a goal goes to the side that it is nearer to
    after = np.searchsorted(ends, goals)
    before = np.where(after > 0, ends[np.maximum(after - 1, 0)], 0)
    inner = np.where(goals - before <= ends[after] - goals, after, after + 1)
    return 0, *np.maximum.accumulate(inner).tolist(), len(counts)


def spread_triples(
    rows: ArrayLike,
    cols: ArrayLike,
    values: ArrayLike,
    shape: tuple[int, int],
    weights: ArrayLike | None = None,
    duplicates: Duplicates = "error",
    group: Group | None = None,
    stripes: int | None = None,
    device: str = "cpu",
) -> SpreadEntries:
    """Spread entries that every process has all of, or a part of: each keeps those of its rows.

    Every process gives entries of its own choosing: one that another has given too counts twice. They are
    sent to whoever has their rows, contiguous ranges with about as many entries each. `stripes` is in how
    many parts R is fetched during a pass, the next while one is computed with; None: in as many as pay. With
    "cuda" for `device`, the entries of each process are held on its GPU, and factors that go with them.

    Examples
    --------
    >>> import rankfold as rf
    >>> from rankfold.distributed import spread_triples
    >>> store = spread_triples([0, 0, 1, 2], [0, 1, 1, 0], [1.0, 2.0, 4.0, 2.0], (3, 2))
    >>> cost = rf.Completion.from_observed(store)
    >>> rf.minimize(rf.Problem.of(cost, rank=1)).converged
    True
    """
    group = group or Group()
    own = np.asarray(rows), np.asarray(cols), np.asarray(values)
    dtype = np.dtype(np.float32 if own[2].dtype == np.float32 else np.float64)
    columns = [own[0].astype(np.int64), own[1].astype(np.int64), own[2].astype(dtype)]
    if weights is not None:
        columns.append(np.asarray(weights).astype(dtype))
    # before anything is sent: gloo takes the bytes of one type for those of another, or ends the process
    given = f"shape {tuple(shape)}, values in {dtype}, {'weighted' if weights is not None else 'no weights'}"
    given += f", on {device}" + ("" if stripes is None else f", in {stripes} stripes")
    group.require_equal("entries", given)
    group.together(lambda: _check_rows(own[0], shape), "checking the entries")
    counts = group.sum(np.bincount(columns[0], minlength=shape[0]).astype(np.float64))
    cuts = row_cuts(counts, group.size)
    return store_of(sent_home(columns, cuts, group), cuts, shape[1], duplicates, group, stripes).on(device)


def _check_rows(rows: NDArray[Any], shape: tuple[int, int]) -> None:
    if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= shape[0]):
        raise ValueError(f"rows must be integers from 0 to {shape[0] - 1}")


def sent_home(columns: Sequence[NDArray[Any]], cuts: Sequence[int], group: Group) -> list[NDArray[Any]]:
    """Send entries, of which the first column is the row, to whoever has their rows."""
    owner = np.searchsorted(cuts[1:-1], columns[0], side="right")
    order = np.argsort(owner, kind="stable")
    lengths = np.bincount(owner, minlength=group.size).tolist()
    return [group.exchanged(column[order], lengths) for column in columns]


def store_of(
    columns: list[NDArray[Any]],
    cuts: tuple[int, ...],
    width: int,
    duplicates: Duplicates,
    group: Group,
    stripes: int | None = None,
) -> SpreadEntries:
    """Sort the entries at hand, and join them with everybody's.

    `columns` are rows, columns and values, and weights or not; the list is emptied, for memory's sake.
    """
    places, dtype = Places(group, cuts), columns[2].dtype
    if stripes is None:
        size = int(group.sum(np.array([float(len(columns[0]))]))[0])
        stripes = stripes_that_pay(size, (cuts[-1], width))
    cut = Stripes.of(places.of(width), stripes)
    stores = group.together(lambda: _sorted(columns, places, cut, duplicates), "sorting the entries")
    return SpreadEntries.striped(stores, places, cut, dtype)


def _sorted(
    columns: list[NDArray[Any]], places: Places, stripes: Stripes, duplicates: Duplicates
) -> list[Observed | None]:
    """Sort the entries of each stripe, numbered from the first row at hand and as the stripe has columns."""
    first, last = places.bounds
    if not len(columns[0]):
        columns.clear()
        return [None] * stripes.count
    _check(columns, stripes.places.cuts[-1])
    columns[0] -= columns[0].dtype.type(first)
    found: list[Observed | None] = []
    for s, own in enumerate(_in_stripes(columns, stripes)):
        shape = last - first, len(stripes.columns[s])
        found.append(_settled(own, shape, (first, stripes.columns[s]), duplicates) if len(own[0]) else None)
    return found


def _in_stripes(columns: list[NDArray[Any]], stripes: Stripes) -> Iterator[list[NDArray[Any]]]:
    """Yield the entries of each stripe; those that nobody needs any more go."""
    if stripes.count == 1:
        yield columns
        return
    of_columns = stripes.numbers()
    stripe, columns[1] = (numbers.astype(columns[1].dtype)[columns[1]] for numbers in of_columns)
    for s in range(stripes.count):
        here = stripe == s
        yield [column[here] for column in columns]
    columns.clear()


def _settled(
    columns: list[NDArray[Any]],
    shape: tuple[int, int],
    numbers: tuple[int, NDArray[np.int64]],
    duplicates: Duplicates,
) -> Observed:
    """Sort entries both ways; `numbers` are those of the first row, and of the columns, in the whole."""
    index = index_type(shape)
    # One expression, as in `Observed.from_triples`: each array goes once it has been read.
    block = both_ways(sorted_entries(*_packed(columns, index), shape, index, 1), shape)
    repeated = block.first_repeated
    if repeated < 0:
        return block
    if duplicates == "error":
        line = int(np.searchsorted(block.by_row.indptr, repeated, side="right")) - 1
        pair = line % block.by_row.lines + numbers[0], int(numbers[1][block.by_row.indices[repeated]])
        raise ValueError(f"entry {pair} is given more than once: merge repeated entries, or keep them")
    sides = list(block.sides)
    del block  # one side after the other, for memory's sake
    for k in range(len(sides)):
        data = sides[k].data.copy()
        kernels.sorting.settle_ties(sides[k].indptr, sides[k].across, data)
        sides[k] = replace(sides[k], data=data)
    return Observed(shape, sides[0], sides[1])


def _check(columns: list[NDArray[Any]], width: int) -> None:
    """Raise ValueError where columns, values or weights are none."""
    _, cols, values, *weights = columns
    if cols.min() < 0 or cols.max() >= width:
        raise ValueError(f"cols must be integers from 0 to {width - 1}")
    for name, numbers in (("values", values), *(("weights", each) for each in weights)):
        if not np.isfinite(numbers).all():
            raise ValueError(f"{name} has entries that are NaN or infinite: leave them out")
    if weights and weights[0].min() < 0:
        raise ValueError("weights must be zero or more")


def _packed(columns: list[NDArray[Any]], index: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Rows, columns, and values or values and weights in one, of which nobody else knows."""
    weights = columns.pop() if len(columns) == 4 else None
    packed, cols, rows = columns.pop(), columns.pop(), columns.pop()
    if weights is not None:
        pairs = np.column_stack([packed, weights])
        packed = pairs.view(np.result_type(pairs.dtype, np.complex64))[:, 0]
    return rows.astype(index, copy=False), cols.astype(index, copy=False), packed
