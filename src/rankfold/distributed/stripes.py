"""Columns in stripes: rows of R come one stripe at a time, the next while the last is computed with.

A stripe has a piece of every process's columns, so that all of them send at a time, each as much as another.
What is computed of a stripe is summed up where its columns are at home, while the next one is computed with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from rankfold.distributed.collectives import KEPT, Coming
from rankfold.distributed.sharded import Places, Sharded, even_cuts
from rankfold.entries.store import Array
from rankfold.linalg.rows import is_spread
from rankfold.remembered import remembered

# A stripe is at least so many columns, ten megabytes of R at rank 10, and leaves each row so many entries. To
# pass over the rows of L for fewer costs more than there is to wait for.
COLUMNS, ENTRIES = 1 << 17, 8


def stripes_that_pay(entries: int, shape: tuple[int, int]) -> int:
    """Return into how many stripes to cut the columns of all processes together."""
    return max(1, min(shape[1] // COLUMNS, entries // (ENTRIES * shape[0])))


@dataclass(frozen=True, eq=False)
class Stripes:
    """The columns, spread over processes, in `count` stripes. One stripe is all of them as they are."""

    places: Places
    count: int = 1

    @staticmethod
    def of(places: Places, wanted: int) -> Stripes:
        """Cut into so many stripes; fewer, where one would be empty."""
        return Stripes(places, max(1, min(wanted, places.cuts[-1] // places.group.size)))

    @remembered
    def cuts(self) -> list[tuple[int, ...]]:
        """Of each stripe, where the piece of each process begins, and the end."""
        lengths = np.array([np.diff(even_cuts(n, self.count)) for n in np.diff(self.places.cuts).tolist()])
        return [(0, *np.cumsum(pieces).tolist()) for pieces in lengths.T]

    @remembered
    def columns(self) -> list[NDArray[np.int64]]:
        """Which columns each stripe has, in the order that it has them in."""
        bounds = [np.add(even_cuts(last - first, self.count), first)
                  for first, last in zip(self.places.cuts, self.places.cuts[1:], strict=False)]  # fmt: skip
        return [
            np.concatenate([np.arange(cuts[s], cuts[s + 1]) for cuts in bounds]) for s in range(self.count)
        ]

    def numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the stripe of each column, and its number there."""
        stripe, number = np.empty((2, self.places.cuts[-1]), np.int64)
        for s, columns in enumerate(self.columns):
            stripe[columns], number[columns] = s, np.arange(len(columns))
        return stripe, number

    def each(self, Rs: Sequence[Array], call: Callable[..., None]) -> None:
        """Call `call(s, *rows)` with all rows of matrices in stripe s, for one stripe after the other.

        Not more than two stripes of a matrix are held at a time, unless there is room to keep all of them.
        """
        group, new = self.places.group, self._to_keep(Rs)
        stripes: list[list[Array]] = [[] for _ in Rs]
        coming = [self._asked(R, 0) for R in Rs]
        for s in range(self.count):
            after = [self._asked(R, s + 1) for R in Rs] if s + 1 < self.count else []
            rows = [each.take() for each in coming]
            coming = after  # those that came are held by `rows` alone
            for k in new:
                stripes[k].append(rows[k])
            call(s, *rows)
            del rows
        for k in new:
            group.keep(Rs[k], stripes[k], self)

    def _to_keep(self, Rs: Sequence[Array]) -> list[int]:
        """Say which matrices, that are yet to come, to keep for the next pass, and forget others for them.

        Where there is no room for R, its change and one more: the first, which is R. That is asked for again,
        as soon as a direction is known. One stripe is kept wherever it is asked for.
        """
        group, spread = self.places.group, [k for k, R in enumerate(Rs) if is_spread(R)]
        if self.count == 1 or not spread:
            return []
        size = Rs[spread[0]].shape[0] * Rs[spread[0]].shape[1] * Rs[spread[0]].block.itemsize
        fits = min(KEPT, int(group.room // size))
        wanted = spread if fits == KEPT else spread[: min(fits, 1)]
        new = [k for k in wanted if group.kept(Rs[k], self) is None]
        if new:
            group.keep_of(Rs, fits - len(new))
        return new

    def _asked(self, R: Array, s: int) -> Coming:
        """All rows of a matrix in one stripe, or that they come."""
        group = self.places.group
        if not isinstance(R, Sharded):
            return Coming(lambda: R if self.count == 1 else self._taken(R, s))
        if self.count == 1:
            return Coming(R.whole)
        known = group.kept(R, self)
        if known is not None:
            return Coming(lambda: known[s])
        parts = R.kept_terms(self)
        if parts:
            return Coming(lambda: R.of_terms([(rows[s], factor) for rows, factor in parts]))
        return group.gathering(R.block[self._own(s)], self.cuts[s])

    def _own(self, s: int) -> slice:
        """The piece of stripe s among the rows at hand."""
        first, last = self.places.bounds
        return slice(*even_cuts(last - first, self.count)[s : s + 2])

    def _taken(self, R: Array, s: int) -> Array:
        """The rows of one stripe of a matrix that is whole."""
        columns = self.columns[s]
        if type(R) is np.ndarray:
            return R[columns]
        xp = array_namespace(R)
        return xp.take(R, xp.asarray(columns, device=R.device), axis=0)


class Homeward:
    """Sums over processes, of matrices with a row for each column, which come stripe by stripe."""

    def __init__(self, stripes: Stripes) -> None:
        self._stripes, self._done = stripes, list[Array]()
        self._coming: Coming | None = None

    def send(self, s: int, rows: Array) -> None:
        """Add what this process has for stripe s; the sum of the stripe before must have come by now."""
        coming = self._stripes.places.group.scattering(rows, self._stripes.cuts[s])
        self._take()
        self._coming = coming

    def _take(self) -> None:
        if self._coming is not None:
            self._done.append(self._coming.take())
        self._coming = None

    def summed(self) -> Sharded:
        """Return the sums, each where its column is at home."""
        self._take()
        pieces, places = self._done, self._stripes.places
        whole = pieces[0] if len(pieces) == 1 else array_namespace(pieces[0]).concat(pieces, axis=0)
        return Sharded(whole, places)
