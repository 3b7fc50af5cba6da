"""What rows and columns are called, and where they are."""

from __future__ import annotations

import difflib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.estimators.inputs import Positions, check_positions, is_text

Labels = NDArray[Any]
_COMPARED = 10_000  # labels before and after an unknown one, in sorted order, that it is compared with


class UnknownLabelError(KeyError):
    """A row or column that a model has never seen, where there is nothing to fall back on."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it in quotes


class Lookup:
    """Finds the positions of labels; without labels, a name is a position.

    Examples
    --------
    >>> rows = Lookup(np.array(["ann", "bob"]), 2, "row")
    >>> rows.find(np.array(["bob", "eve"]), "rows[{}]").tolist()
    [1, -1]
    """

    def __init__(self, labels: Labels | None, size: int, side: str):
        self.labels, self.size, self.side = labels, size, side
        self._order: Positions | None = None

    def find(self, wanted: NDArray[Any], where: str) -> Positions:
        """Return the position of each name, -1 where the model does not know it; `where` is for errors."""
        self._check_kind(wanted)
        if self.labels is None:
            return np.where(check_positions(wanted, where) < self.size, wanted, -1)
        found = self._sorted()[np.minimum(self._place(wanted), self.size - 1)]
        return np.where(self.labels[found] == wanted, found, -1)

    def require(self, wanted: NDArray[Any], where: str) -> Positions:
        """Return the position of each name, or raise an error with the nearest spelling of one not known."""
        found = self.find(wanted, where)
        if (found < 0).any():
            raise UnknownLabelError(self._unknown(wanted[int(np.argmax(found < 0))]))
        return found

    def numbered(self, names: NDArray[Any], where: str) -> tuple[Labels | None, Positions]:
        """Return the distinct names in order, and the number of each; positions are their own numbers."""
        self._check_kind(names)
        if self.labels is None:
            return None, check_positions(names, where)
        return np.unique(names, return_inverse=True)

    def enlarged(self, names: NDArray[Any], where: str) -> tuple[Labels | None, Positions]:
        """Return the labels with those new among `names` behind them, and the positions of `names`."""
        if self.labels is None:
            return self.numbered(names, where)
        places = self.find(names, where)
        new, numbers = np.unique(names[places < 0], return_inverse=True)
        places[places < 0] = self.size + numbers
        return np.concatenate([self.labels, new]), places

    def names(self, positions: Positions) -> NDArray[Any]:
        """Return what is at positions called."""
        return positions if self.labels is None else self.labels[positions]

    def _sorted(self) -> Positions:
        if self._order is None:
            self._order = np.argsort(self.labels, kind="stable")  # type: ignore[arg-type]
        return self._order

    def _place(self, wanted: Any) -> Any:
        return np.searchsorted(self.labels, wanted, sorter=self._sorted())  # type: ignore[arg-type]

    def _check_kind(self, names: NDArray[Any]) -> None:
        """Raise TypeError if names are strings and the model's are not, or the other way round."""
        if not names.size or is_text(names) == (self.labels is not None and is_text(self.labels)):
            return
        first = names[0].item()
        if self.labels is None:
            raise TypeError(f"this model knows {self.side}s by position; got the label {first!r}")
        like = self.labels[0].item()
        raise TypeError(f"the {self.side} labels of this model are like {like!r}; got {first!r}")

    def _unknown(self, name: Any) -> str:
        if self.labels is None:
            return f"{self.side} {name} is not in this model, which has {self.side}s 0 to {self.size - 1}"
        place = int(self._place(name))
        near = self._sorted()[max(0, place - _COMPARED) : place + _COMPARED]
        known = map(str, self.labels[near].tolist())
        match = difflib.get_close_matches(str(name), known, n=1, cutoff=0.5)
        hint = f": did you mean {match[0]!r}?" if match else f", which knows {self.size} others"
        return f"the {self.side} label {name.item()!r} is not in this model{hint}"
