"""The store of entries spread by rows: each process has those of its rows, in a store of its own.

L is spread as the entries are, and its rows are at home where their entries are. R is spread too. Where its
rows are many, each process has its entries in stripes of columns, a store for each, and R is fetched stripe
by stripe during a pass; else it is fetched whole. The derivatives in R are summed up where its rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from array_api_compat import device as device_of
from numpy.typing import DTypeLike, NDArray

from rankfold.distributed.fingerprints import fingerprint_of
from rankfold.distributed.group import Group
from rankfold.distributed.launch import own_gpu
from rankfold.distributed.matrix import SpreadMatrix, added
from rankfold.distributed.sharded import Places, Sharded
from rankfold.distributed.stripes import Homeward, Stripes
from rankfold.distributed.wire import the_torch
from rankfold.entries.arrays import check_factors
from rankfold.entries.devices import moved, usable_device
from rankfold.entries.observed import Observed
from rankfold.entries.side_by_side import SideBySide
from rankfold.entries.store import Array, EntryLoss, LineBlockStore, ModelStore, NewValues
from rankfold.linalg.rows import is_spread
from rankfold.remembered import remembered


@dataclass(frozen=True, eq=False)
class SpreadEntries:
    """Entries of a matrix whose rows are spread over processes; build it with `spread_triples`.

    `stores` has the entries of the rows at hand, numbered from 0: a store for each stripe of columns, in the
    order that the stripe has them in, and None where there are none. Each counts its means over the entries
    of all. They are in memory, or on the GPU of this process, `place` for torch.
    """

    shape: tuple[int, int]
    size: int
    stores: tuple[Any, ...]
    rows: Places
    stripes: Stripes
    dtype: np.dtype[Any]
    weighted: bool
    place: Any = None

    @staticmethod
    def striped(
        stores: Sequence[Observed | None], rows: Places, stripes: Stripes, dtype: DTypeLike
    ) -> SpreadEntries:
        """Join everybody's stores, of which each process has one for each stripe.

        `dtype` is that of values, for a process without any.
        """
        group, shape = rows.group, (rows.cuts[-1], stripes.places.cuts[-1])
        there = [store for store in stores if store is not None]
        own = sum(store.size for store in there), any(store.weighted for store in there)
        known = group.stacked(np.array(own, dtype=np.int64))
        size = int(known[:, 0].sum())
        store = SpreadEntries(
            shape=shape,
            size=size,
            stores=tuple(None if each is None else replace(each, among=size) for each in stores),
            rows=rows,
            stripes=stripes,
            dtype=np.dtype(dtype),
            weighted=bool(known[:, 1].any()),
        )
        told = f"{shape} {store.dtype} {rows.cuts}, {stripes.count} stripes, room for {group.room:g} bytes"
        group.require_equal("entries", told)
        if not store.size:
            raise ValueError("there is no entry in any process")
        return store

    @property
    def group(self) -> Group:
        """The processes."""
        return self.rows.group

    @property
    def cols(self) -> Places:
        """Which process has which rows of R."""
        return self.stripes.places

    @property
    def block(self) -> Any:
        """The entries of the rows at hand: one store, or several side by side; None where there are none."""
        if len(self.stores) == 1:
            return self.stores[0]
        lines = self.rows.bounds[1] - self.rows.bounds[0]
        return SideBySide.of((lines, self.shape[1]), self.stores, self.stripes.columns)

    @remembered
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Number of entries of each row, and of each column, everywhere."""
        rows, cols = (np.zeros(d) for d in self.shape)
        for store, columns in zip(self.stores, self.stripes.columns, strict=True):
            if store is not None:
                of_rows, cols[columns] = store.counts
                rows[self.rows.own] += of_rows
        summed = self.group.sum(np.concatenate([rows, cols])).astype(np.int64)
        return summed[: self.shape[0]], summed[self.shape[0] :]

    def asarray(self, numbers: NDArray[Any]) -> Sharded:
        """Numbers of all columns, which everybody holds, with their rows spread."""
        own = np.asarray(numbers[self.cols.own], dtype=self.dtype)
        return Sharded(own if self.place is None else the_torch().from_numpy(own).to(self.place), self.cols)

    def on(self, device: str) -> SpreadEntries:
        """Return the same entries, now in memory, on the GPUs of the processes.

        Those of a machine take its GPUs in turn. With "auto" only if each has one; with "cpu", these entries.
        """
        if device == "cpu":
            return self
        found = self.group.together(lambda: usable_device(device), "looking for a GPU")
        if self.group.most(float(found == "cpu")):
            return self
        place, here = own_gpu(), self.stores
        stores = self.group.together(
            lambda: tuple(None if store is None else moved(store, place) for store in here),
            "bringing entries to the GPU",
        )
        return replace(self, stores=stores, place=place)

    # Passes ---------------------------------------------------------------------------------------------

    def evaluate(self, L: Array, R: Array, loss: EntryLoss) -> tuple[float, Array, Array]:
        """Mean loss at W = L Rᵀ, S R and SᵀL."""
        return self._passed((L,), (R,), lambda block, A, B: block.evaluate(A, B, loss))

    def value(self, L: Array, R: Array, loss: EntryLoss) -> float:
        """Mean loss at L Rᵀ alone."""
        (A,), total = self._at_hand((L,), (R,)), 0.0

        def add(s: int, B: Array) -> None:
            nonlocal total
            if self.stores[s] is not None:
                total += self.stores[s].value(A, B, loss)

        self.stripes.each((R,), add)
        return self._summed(total)

    def derivative(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Change of S R and SᵀL along (dL, dR)."""

        def changes(block: Any, A: Array, dA: Array, B: Array, dB: Array) -> tuple[float, Array, Array]:
            return 0.0, *block.derivative(A, B, dA, dB, loss)

        return self._passed((L, dL), (R, dR), changes)[1:]

    def gauss_newton(self, L: Array, R: Array, dL: Array, dR: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Ṡ R and ṠᵀL along (dL, dR), for positive ℓ″."""

        def changes(block: Any, A: Array, dA: Array, B: Array, dB: Array) -> tuple[float, Array, Array]:
            if isinstance(block, ModelStore):
                return 0.0, *block.gauss_newton(A, B, dA, dB, loss)
            df_L, df_R = block.derivative(A, B, dA, dB, loss)
            S = block.gradient(A, B, loss)
            return 0.0, df_L - S @ dB, df_R - S.transposed_times(dA)

        return self._passed((L, dL), (R, dR), changes)[1:]

    def polynomial(self, Ls: Sequence[Array], Rs: Sequence[Array], every: int = 1) -> NDArray[np.float64]:
        """Coefficients of t ↦ mean of ((Σ Ls[i] tⁱ)(Σ Rs[j] tʲ)ᵀ - W*)², over one in `every` rows.

        The sample is by numbers of rows among all, so that it is the same however they are spread. Blocks of
        a store that has no such samples, as on GPUs, take all rows.
        """
        As = self._at_hand(Ls, Rs)
        totals = np.zeros(2 * (len(Ls) + len(Rs)) - 2)  # and the number of entries

        def add(s: int, *Bs: Array) -> None:
            block = self.stores[s]
            if isinstance(block, Observed):
                sums, entries = block.polynomial_sums(As, Bs, every, self.rows.bounds[0])
                totals[:] += np.append(sums, entries)
            elif block is not None:
                totals[:] += np.append(block.polynomial(As, Bs), 1.0) * block.size

        self.stripes.each(Rs, add)
        *sums, number = self.group.sum(totals)
        return np.array(sums) / (number or 1.0)

    def blocks(self, L: Array, R: Array, loss: EntryLoss) -> tuple[Array, Array]:
        """Blocks of the second derivatives of the rows at hand, and of the columns at home here."""
        r = L.shape[1]

        def flat(store: Any, A: Array, B: Array) -> tuple[float, Array, Array]:
            if not isinstance(store, LineBlockStore):
                raise TypeError(f"{type(store).__name__} knows no blocks of second derivatives")
            of_rows, of_cols = store.blocks(A, B, loss)
            return 0.0, of_rows.reshape(-1, r * r), of_cols.reshape(-1, r * r)

        _, of_rows, of_cols = self._passed((L,), (R,), flat, r * r)
        return of_rows.block.reshape(-1, r, r), of_cols.block.reshape(-1, r, r)

    def gradient(self, L: Array, R: Array, loss: EntryLoss) -> SpreadMatrix:
        """Return S, whose entries outside Ω are zero."""
        (A,), local = self._at_hand((L,), (R,)), list[Any]()

        def note(s: int, B: Array) -> None:
            store = self.stores[s]
            local.append((None if store is None else store.gradient(A, B, loss), 1.0))

        self.stripes.each((R,), note)
        return SpreadMatrix(self.shape, self.dtype, self.rows, self.stripes, local)

    def targets(self, loss: EntryLoss) -> SpreadMatrix:
        """Return the entries of W that the data ask for, seen from W = 0."""
        local = [None if store is None else store.targets(loss) for store in self.stores]
        scales = [1.0] * len(local)
        if not loss.is_square:
            own = [0.0 if store is None else store.largest_curvature(loss) for store in self.stores]
            most = self.group.most(max(own)) or 1.0
            scales = [(each or 1.0) / most for each in own]
        matrices = list(zip(local, scales, strict=True))
        return SpreadMatrix(self.shape, self.dtype, self.rows, self.stripes, matrices)

    def value_at_zero(self, loss: EntryLoss) -> float:
        """Mean loss at W = 0."""
        return self._summed(sum(0.0 if store is None else store.value_at_zero(loss) for store in self.stores))

    def astype(self, dtype: DTypeLike) -> SpreadEntries:
        """Return the same entries with values of another type."""
        stores = (None if store is None else store.astype(dtype) for store in self.stores)
        return replace(self, stores=tuple(stores), dtype=np.dtype(dtype))

    def with_values(self, values: NewValues) -> SpreadEntries:
        """Return the same entries with other values; rows and columns are numbered as in the whole."""
        first, stores = self.rows.bounds[0], list[Any]()
        for store, columns in zip(self.stores, self.stripes.columns, strict=True):

            def of_all(i: Any, j: Any, y: Any, columns: NDArray[np.int64] = columns) -> NDArray[Any]:
                return values(i + first, columns[j], y)

            stores.append(None if store is None else store.with_values(of_all))
        return replace(self, stores=tuple(stores))

    @property
    def places(self) -> tuple[Places, Places]:
        """Which process has which rows of L, and of R."""
        return self.rows, self.cols

    @remembered
    def fingerprint(self) -> dict[str, str | float]:
        """What tells these entries from others, however they are spread."""
        return fingerprint_of(self)

    # What is beneath ------------------------------------------------------------------------------------

    def _passed(
        self, Ls: Sequence[Array], Rs: Sequence[Array], call: Callable[..., Any], width: int = 0
    ) -> tuple[float, Sharded, Sharded]:
        """Sum up, over stripes and processes, what `call(store, *As, *Bs)` says of each store.

        That is its part of a mean, and arrays with so many columns (as L has, if 0) for the rows at hand and
        for the columns of the stripe, all of them our own.
        """
        As, home = self._at_hand(Ls, Rs), Homeward(self.stripes)
        total, left = 0.0, list[Array]()

        def add(s: int, *Bs: Array) -> None:
            nonlocal total
            if self.stores[s] is None:
                value, f_L, f_R = 0.0, *(_zeros(each, width) for each in (As[0], Bs[0]))
            else:
                value, f_L, f_R = call(self.stores[s], *As, *Bs)
            total += value
            added(left, f_L)
            home.send(s, f_R)

        self.stripes.each(Rs, add)
        return self._summed(total), Sharded(left[0], self.rows), home.summed()

    def _summed(self, number: float) -> float:
        return float(self.group.sum(np.array([number]))[0])

    def _at_hand(self, Ls: Sequence[Array], Rs: Sequence[Array]) -> list[Array]:
        """Rows at hand of all L; these, and all R, must be spread as the entries are."""
        check_factors(self.shape, Ls, Rs)
        for name, places, factors in (("L", self.rows, Ls), ("R", self.cols, Rs)):
            for each in factors:
                if is_spread(each) and each.spread.cuts != places.cuts:
                    raise ValueError(
                        f"rows of {name} are cut at {each.spread.cuts}, those of entries at {places.cuts}"
                    )
        return [L.block if is_spread(L) else L[self.rows.own] for L in Ls]


def _zeros(rows: Array, width: int) -> Array:
    """Zeros for each row, as many as it has numbers if `width` is 0."""
    xp, shape = array_namespace(rows), (rows.shape[0], width or rows.shape[1])
    return xp.zeros(shape, dtype=rows.dtype, device=device_of(rows))
