"""What the rows or the columns of a matrix are called, and where they stand."""

from __future__ import annotations

import difflib
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[Any]
Positions = NDArray[np.integer]
# "007" is not 7: its zeros would be lost, so it stays a string
CANONICAL_INTEGER = r"^-?(0|[1-9][0-9]*)$"
UNKNOWN = -1  # the position of what is not there
_COMPARED = 10_000  # labels before and after an unknown one, in sorted order, that it is compared with


class UnknownLabelError(KeyError):
    """A row or column that a model has never seen, where there is nothing to fall back on."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it in quotes


class LabelIndex:
    """Finds the `size` rows (or columns: `kind`, for messages) of a matrix by their labels.

    `labels` are integers or strings, no two of them equal; None where a row is called by its position,
    counted from 0.

    Examples
    --------
    >>> rows = LabelIndex(2, np.array(["ann", "bob"]))
    >>> rows.find(np.array(["bob", "eve"])).tolist()
    [1, -1]
    >>> LabelIndex(3).find_text("2"), LabelIndex(3).find_text("02")
    (2, -1)
    """

    def __init__(self, size: int, labels: Labels | None = None, kind: str = "row"):
        self.size, self.labels, self.kind = size, labels, kind
        self._order: Positions | None = None

    @property
    def integers(self) -> bool:
        """Whether a row is called by an integer."""
        return self.labels is None or self.labels.dtype.kind in "iu"

    def find(self, names: NDArray[Any], where: str = "names[{}]") -> Positions:
        """Return the position of each name, -1 for one that is not there; `where` names one in errors."""
        self._check_type(names)
        if self.labels is None:
            inside = check_positions(names, where) < self.size
            return np.where(inside, np.where(inside, names, 0).astype(np.int64), UNKNOWN)
        found = self._sorted()[np.minimum(self._place(names), self.size - 1)]
        return np.where(self.labels[found] == names, found, UNKNOWN)

    def require(self, names: NDArray[Any], where: str = "names[{}]") -> Positions:
        """Return the position of each name, or raise an error with the nearest spelling of one not there."""
        found = self.find(names, where)
        if (found < 0).any():
            raise UnknownLabelError(self._unknown(names[int(np.argmax(found < 0))].item()))
        return found

    def find_text(self, text: str) -> int:
        """Return the position of `text`, -1 if not there; an integer is written as Python writes integers."""
        if self.integers and not re.fullmatch(CANONICAL_INTEGER, text):
            return UNKNOWN
        wanted = int(text) if self.integers else text
        if self.labels is None:
            return int(wanted) if 0 <= int(wanted) < self.size else UNKNOWN
        found = np.flatnonzero(self.labels == wanted)
        return int(found[0]) if found.size else UNKNOWN

    def require_text(self, text: str) -> int:
        """Return the position of what `text` stands for, or raise an error with the nearest spelling."""
        found = self.find_text(text)
        if found < 0:
            raise UnknownLabelError(self._unknown(text))
        return found

    def find_arrow(self, names: Any) -> NDArray[np.int64]:
        """Return the position of each of `names`, a pyarrow array, by the rule of `find_text`."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.integers and not pa.types.is_integer(names.type):
            plain = pc.match_substring_regex(names, CANONICAL_INTEGER)
            names = pc.if_else(plain, names, None).cast("int64")
        elif not self.integers and pa.types.is_integer(names.type):
            names = names.cast("string")
        if self.labels is None:
            found = np.asarray(names.fill_null(UNKNOWN).to_numpy(zero_copy_only=False), dtype=np.int64)
            return np.where((found >= 0) & (found < self.size), found, UNKNOWN)
        known = pa.array(self.labels).cast(names.type)
        return np.asarray(pc.index_in(names, known).fill_null(UNKNOWN).to_numpy(), dtype=np.int64)

    def numbered(self, names: NDArray[Any], where: str) -> tuple[Labels | None, Positions]:
        """Return the distinct names in order, and the number of each; positions are their own numbers."""
        self._check_type(names)
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
        """Return what stands at positions."""
        return positions if self.labels is None else self.labels[positions]

    def _sorted(self) -> Positions:
        if self._order is None:
            self._order = np.argsort(self.labels, kind="stable")  # type: ignore[arg-type]
        return self._order

    def _place(self, names: Any) -> Any:
        return np.searchsorted(self.labels, names, sorter=self._sorted())  # type: ignore[arg-type]

    def _check_type(self, names: NDArray[Any]) -> None:
        """Raise TypeError if names are strings and the labels are not, or the other way round."""
        if not names.size or is_text(names) == (self.labels is not None and is_text(self.labels)):
            return
        first = names[0].item()
        if self.labels is None:
            raise TypeError(f"this model knows {self.kind}s by position; got the label {first!r}")
        like = self.labels[0].item()
        raise TypeError(f"the {self.kind} labels of this model are like {like!r}; got {first!r}")

    def _unknown(self, name: int | str) -> str:
        if self.labels is None:
            return f"{self.kind} {name} is not in this model, which has {self.kind}s 0 to {self.size - 1}"
        comparable = isinstance(name, str) == is_text(self.labels)
        place = int(self._place(name)) if comparable else 0
        near = self.labels[self._sorted()[max(0, place - _COMPARED) : place + _COMPARED]]
        match = difflib.get_close_matches(str(name), map(str, near.tolist()), n=1, cutoff=0.5)
        hint = f": did you mean {match[0]!r}?" if match else f", which knows {self.size} others"
        return f"the {self.kind} label {name!r} is not in this model{hint}"


def is_text(names: NDArray[Any]) -> bool:
    """Whether names are strings."""
    return names.dtype.kind == "U"


def check_positions(names: NDArray[Any], where: str) -> Positions:
    """Return integers of which none is negative; `where` names one of them in an error."""
    if names.size and names.min() < 0:
        at = int(np.argmax(names < 0))
        raise ValueError(
            f"{where.format(at)} is {names[at].item()!r}: positions are counted from 0 and never negative"
        )
    return names
