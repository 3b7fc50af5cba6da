"""What the rows or the columns of a matrix are called, and where they stand."""

from __future__ import annotations

import difflib
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.data.numbering import TABLE, Labels, Positions, joined, kind_of, numbered, span

# "007" is not 7: its zeros would be lost, so it stays a string
CANONICAL_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_CANONICAL_POSITION = r"^(0|[1-9][0-9]{0,17})$"  # of 64 bits in any case
UNKNOWN = -1  # the position of what is not there
_COMPARED = 10_000  # labels before and after an unknown one, in sorted order, that it is compared with


class UnknownLabelError(KeyError):
    """A row or column that a model has never seen, where there is nothing to fall back on."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError would show it in quotes


class LabelIndex:
    """Finds the `size` rows (or columns: `kind`, for messages) of a matrix by their labels.

    `labels` are integers, strings or times, no two of them equal; None where a row is called by its position,
    counted from 0: then there is no other name, and one outside the matrix is an error.

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
        self._forget()

    def __getstate__(self) -> dict[str, Any]:
        return {"size": self.size, "labels": self.labels, "kind": self.kind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def _forget(self) -> None:
        """Have nothing that finding is made fast by: it is made when first needed."""
        self._order: Positions | None = None
        self._table: NDArray[np.int64] | None = None
        self._places: dict[str, int] | None = None

    @property
    def integers(self) -> bool:
        """Whether a row is called by an integer."""
        return self.labels is None or kind_of(self.labels) == "integer"

    def find(self, names: Labels, where: str = "names[{}]") -> Positions:
        """Return the position of each name, -1 for a label that is not there; `where` names one in errors."""
        if self.labels is None:
            return self._checked_positions(names, where)
        self._check_kind(self.labels, names)
        if not names.size:
            return np.empty(0, np.int64)
        if kind_of(names) == "string":
            places = self._by_name(self.labels)
            return np.array([places.get(name, UNKNOWN) for name in names.tolist()], dtype=np.int64)
        if names.dtype.kind == "M":
            unit = np.promote_types(names.dtype, self.labels.dtype)
            return self._find_sorted(*(times.astype(unit).view(np.int64) for times in (self.labels, names)))
        if span(self.labels)[1] < max(TABLE, 4 * self.size):
            return self._find_in_table(self.labels, names)
        return self._find_sorted(self.labels, names)

    def require(self, names: Labels, where: str = "names[{}]") -> Positions:
        """Return the position of each name, or raise an error with the nearest spelling of one not there."""
        found = self.find(names, where)
        if (found < 0).any():
            raise UnknownLabelError(self._unknown(names[int(np.argmax(found < 0))]))
        return found

    def find_text(self, text: str) -> int:
        """Return the position of `text`, -1 if not there; an integer is written as Python writes integers."""
        if self.labels is None:
            plain = re.fullmatch(_CANONICAL_POSITION, text)
            return int(text) if plain and int(text) < self.size else UNKNOWN
        if not self.integers:
            return self._by_name(self.labels).get(text, UNKNOWN)
        if not re.fullmatch(CANONICAL_INTEGER, text):
            return UNKNOWN
        return next(iter(np.flatnonzero(self.labels == int(text)).tolist()), UNKNOWN)

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

        if self.labels is None:
            if not pa.types.is_integer(names.type):
                plain = pc.match_substring_regex(names, _CANONICAL_POSITION)
                names = pc.if_else(plain, names, None)
            # Beyond 64 bits signed, a number becomes one below 0.
            found = np.asarray(names.cast("int64", safe=False).fill_null(UNKNOWN).to_numpy())
            return np.where((found >= 0) & (found < self.size), found, UNKNOWN).astype(np.int64)
        if self.integers and names.type == pa.int64() and self.labels.dtype == np.int64:
            known = pa.array(self.labels)
        else:  # one type that holds them all, and "07" is not 7
            known, names = pa.array(_texts(self.labels)), names.cast("string")
        return np.asarray(pc.index_in(names, known).fill_null(UNKNOWN).to_numpy(), dtype=np.int64)

    def numbered(self, names: Labels) -> tuple[Labels, Positions]:
        """Return the labels of new rows in order, and the number of each; of the kind of those known."""
        if self.labels is not None:
            self._check_kind(self.labels, names)
        return numbered(names)

    def enlarged(self, names: Labels, where: str) -> tuple[Labels | None, Positions]:
        """Return the labels with those new among `names` behind them, and the positions of `names`."""
        places = self.find(names, where)
        if self.labels is None:
            return None, places
        new, numbers = numbered(names[places < 0])
        places[places < 0] = self.size + numbers
        return joined(self.labels, new), places

    def names(self, positions: Positions) -> Labels:
        """Return what stands at positions."""
        return positions if self.labels is None else self.labels[positions]

    def _find_in_table(self, labels: Labels, names: Labels) -> Positions:
        """Look integers up that are close together."""
        least, width = span(labels)
        first = labels.dtype.type(least)
        if self._table is None:
            self._table = np.full(width + 1, UNKNOWN, dtype=np.int64)
            self._table[labels - first] = np.arange(self.size)
        inside = (names >= least) & (names <= least + width)
        steps = np.where(inside, names, first).astype(labels.dtype, copy=False) - first
        return np.where(inside, self._table[steps], UNKNOWN)

    def _find_sorted(self, labels: Labels, names: Labels) -> Positions:
        """Look integers up by bisection."""
        order = self._sorted(labels)
        least, largest = labels[order[0]], labels[order[-1]]
        inside = (names >= int(least)) & (names <= int(largest))
        same = np.where(inside, names.astype(labels.dtype, copy=False), least)
        found = order[np.searchsorted(labels, same, sorter=order)]
        return np.where(inside & (labels[found] == same), found, UNKNOWN)

    def _checked_positions(self, names: Labels, where: str) -> Positions:
        """Return integers that are positions in the matrix."""
        if not names.size:
            return np.empty(0, np.int64)
        if kind_of(names) != "integer":
            raise TypeError(f"this model knows {self.kind}s by position; got the label {_plain(names[0])!r}")
        if not 0 <= int(names.min()) <= int(names.max()) < self.size:
            at = int(np.argmax((names < 0) | (names >= self.size)))
            raise ValueError(
                f"{where.format(at)} is {names[at]}: {self.kind}s are positions here, counted from 0 to "
                f"{self.size - 1}; a model of pairs without shape= takes integers for labels, of any size"
            )
        return names

    def _sorted(self, labels: Labels) -> Positions:
        if self._order is None:
            self._order = np.argsort(labels, kind="stable")
        return self._order

    def _by_name(self, labels: Labels) -> dict[str, int]:
        if self._places is None:
            self._places = {name: place for place, name in enumerate(_texts(labels))}
        return self._places

    def _check_kind(self, labels: Labels, names: Labels) -> None:
        """Raise TypeError if names are of another kind than the labels, such as strings and integers."""
        if names.size and kind_of(names) != kind_of(labels):
            like, first = _plain(labels[0]), _plain(names[0])
            raise TypeError(
                f"the {self.kind} labels of this model are like {like!r}; got {first!r}: give such labels"
            )

    def _unknown(self, name: Any) -> str:
        if self.labels is None:
            return f"{self.kind} {name} is not in this model, which has {self.kind}s 0 to {self.size - 1}"
        order, place = self._sorted(self.labels), 0
        if kind_of(self.labels) == kind_of(np.asarray(name)):
            place = int(np.searchsorted(self.labels, name, sorter=order))
        near, name = self.labels[order[max(0, place - _COMPARED) : place + _COMPARED]], _plain(name)
        # Numbers that look alike are other things: only words are misspelt.
        words = isinstance(name, str) and not self.integers
        match = difflib.get_close_matches(name, _texts(near), n=1, cutoff=0.5) if words else []
        others = f", which knows {self.size} others, such as {_plain(self.labels[0])!r}"
        hint = f": did you mean {match[0]!r}?" if match else others
        return f"the {self.kind} label {name!r} is not in this model{hint}"


def _texts(labels: Labels) -> list[str]:
    """Return labels as they are written."""
    return list(map(str, labels.tolist() if kind_of(labels) != "time" else labels))


def _plain(label: Any) -> Any:
    """Return a label as Python writes it; a time as text."""
    if isinstance(label, np.datetime64):
        return str(label)
    return label.item() if isinstance(label, np.generic) else label
