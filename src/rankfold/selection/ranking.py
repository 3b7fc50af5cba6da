"""How good lists are whose first places count most: the formulas, on positions."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.integer[Any]]


class Judged(NamedTuple):
    """Lists of k places, one per user, beside the best lists there could be.

    `gains[u, p]` is what the item at place p of user u's list is worth, 0 if it is not relevant or the list
    ends before; `ideal` has the gains of the relevant items instead, largest first; `relevant` counts them.
    """

    gains: Floats
    ideal: Floats
    relevant: NDArray[np.int64]

    @property
    def hits(self) -> NDArray[np.bool_]:
        """Which places hold a relevant item."""
        return self.gains > 0


def judged(
    shape: tuple[int, int], relevant: tuple[Places, Places, Floats], listed: tuple[Places, Places], k: int
) -> Judged:
    """Judge lists: `listed` are users and items, best first for each user; `relevant` has gains too.

    An item -1 is relevant to nobody. No pair comes twice.
    """
    (users, items, gains), (who, what) = relevant, listed
    keys, wanted = (u.astype(np.int64) * shape[1] + j for u, j in ((users, items), (who, what)))
    order, best = np.argsort(keys, kind="stable"), np.argsort(-gains)
    worth = np.where(what < 0, 0.0, _looked_up(keys[order], gains[order], wanted))
    lists, ideal = ((who, worth), (users[best], gains[best]))
    size = shape[0], k
    return Judged(_in_places(*lists, size), _in_places(*ideal, size), np.bincount(users, minlength=shape[0]))


def _in_places(owners: Places, numbers: Floats, size: tuple[int, int]) -> Floats:
    """Return the first k numbers of each owner in a row of their own, with 0 behind them."""
    places = _places(owners)
    first = places < size[1]
    rows = np.zeros(size)
    rows[owners[first], places[first]] = numbers[first]
    return rows


def _places(owners: Places) -> Places:
    """Return the place of each element among those of its owner, in the order they stand in."""
    order = np.argsort(owners, kind="stable")
    counts = np.bincount(owners)
    places = np.empty(owners.size, np.int64)
    places[order] = np.arange(owners.size) - np.repeat(np.cumsum(counts) - counts, counts)
    return places


def _looked_up(keys: Places, gains: Floats, wanted: Places) -> Floats:
    """Return the gain of each key that is wanted, 0 for those that are not there."""
    keys, gains = np.append(keys, np.iinfo(np.int64).max), np.append(gains, 0.0)  # so that each is below one
    at = np.searchsorted(keys, wanted)
    return np.where(keys[at] == wanted, gains[at], 0.0)


def recall(lists: Judged) -> Floats:
    """Return, for each user, the part of the relevant items that is in the list."""
    return _ratio(lists.hits.sum(axis=1), lists.relevant)


def precision(lists: Judged) -> Floats:
    """Return, for each user with relevant items, the part of the k places that hold one."""
    return _ratio(lists.hits.sum(axis=1), np.where(lists.relevant > 0, lists.gains.shape[1], 0))


def average_precision(lists: Judged) -> Floats:
    """Return the mean of the precisions at the places of relevant items; one not in the list counts 0."""
    k = lists.gains.shape[1]
    precisions = np.cumsum(lists.hits, axis=1) / np.arange(1, k + 1)
    return _ratio((precisions * lists.hits).sum(axis=1), np.minimum(lists.relevant, k))


def ndcg(lists: Judged) -> Floats:
    """Return the gains, each divided by log₂(1 + its place), over those of the best list."""
    discounts = 1 / np.log2(np.arange(2, lists.gains.shape[1] + 2))
    return _ratio(lists.gains @ discounts, lists.ideal @ discounts)


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Floats:
    """Return part / whole, NaN for a user without relevant items."""
    return np.asarray(np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0))
