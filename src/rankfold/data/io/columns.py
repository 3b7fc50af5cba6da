"""The three columns of a file, gathered batch by batch into the arrays of a `Triples`.

Each column takes pyarrow arrays as they come and keeps what the result needs of them: codes and distinct
labels, positions, or values. Memory stays near the size of the result however large the file.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankfold.data.io.limits import LONGEST_SIDE
from rankfold.data.labels import CANONICAL_INTEGER
from rankfold.data.numbering import Labels, numbered, string_array

MERGE = 1 << 18  # labels kept apart per batch before they are merged
BATCH = 1 << 18  # rows decoded, or written, at a time


class BadEntryError(ValueError):
    """Entry `position` (from 0, of this column) cannot be used; `problem` completes 'column x ...'."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(f"entry {position} {problem}")
        self.position, self.problem = position, problem


class GrowingArray:
    """An array that is appended to in place: there is never a second copy of it."""

    def __init__(self, dtype: type[Any]) -> None:
        self.array = np.empty(0, dtype)
        self.count = 0

    def append(self, part: NDArray[Any]) -> None:
        """Add the elements of `part` at the end."""
        end = self.count + len(part)
        if end > len(self.array):
            self.array.resize(end + end // 8, refcheck=False)
        self.array[self.count : end] = part
        self.count = end

    def finish(self) -> NDArray[Any]:
        """Return the elements, without room for more."""
        self.array.resize(self.count, refcheck=False)
        return self.array


class GrowingIntegers(GrowingArray):
    """Integers, of 64 bits once one needs them, which know their bounds."""

    def __init__(self) -> None:
        super().__init__(np.int32)
        self.least, self.largest = 0, -1

    def append(self, part: NDArray[np.integer]) -> None:
        """Add integers at the end."""
        if not part.size:
            return
        bounds = (part.min(), part.max(), *((self.least, self.largest) if self.count else ()))
        self.least, self.largest = int(min(bounds)), int(max(bounds))
        limits = np.iinfo(self.array.dtype)
        if not limits.min <= self.least <= self.largest <= limits.max:
            self.array = self.array.astype(np.int64)
        super().append(part)

    @property
    def close(self) -> bool:
        """Whether a table from the least to the largest, which numbers faster than a dictionary, is small."""
        return self.largest - self.least < max(MERGE, self.count)

    def numbered(self) -> tuple[NDArray[np.integer], Labels]:
        """Return which of the different integers each one is, and these in order; for close ones."""
        values = self.finish()
        found = np.zeros(self.largest - self.least + 1, dtype=bool)
        for part in _parts(values):
            found[part - self.least] = True
        number = np.cumsum(found, dtype=np.int32) - np.int32(1)
        for part in _parts(values):
            part[:] = number[part - self.least]
        return values, np.flatnonzero(found) + self.least


class ValueColumn:
    """Numbers, all finite."""

    def __init__(self) -> None:
        self.values = GrowingArray(np.float64)

    @property
    def count(self) -> int:
        """How many entries were taken."""
        return self.values.count

    def add(self, batch: Any) -> None:
        """Take a pyarrow array of numbers."""
        part = batch.cast("float64", safe=False).to_numpy(zero_copy_only=False)  # null becomes NaN
        _refuse(self.values.count, ~np.isfinite(part), "is empty, NaN or infinite")
        self.values.append(part)

    def finish(self) -> NDArray[np.float64]:
        """Return all values."""
        return self.values.finish()


class IndexColumn:
    """Positions, counted from `base`; `size` is the length of that side where it is known."""

    def __init__(self, size: int | None, base: int = 0) -> None:
        self.size, self.base = size, base
        self.positions = GrowingIntegers()

    @property
    def count(self) -> int:
        """How many entries were taken."""
        return self.positions.count

    def add(self, batch: Any) -> None:
        """Take a pyarrow array of integers."""
        _refuse_nulls(self.positions.count, batch)
        part = batch.cast("int64").to_numpy() - self.base
        _refuse(self.positions.count, ~self.holds(part), self.out_of_range)
        self.positions.append(part)

    def holds(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Tell which positions, counted from 0, the side has, as far as its length is known."""
        return (positions >= 0) & (positions < (LONGEST_SIDE if self.size is None else self.size))

    @property
    def out_of_range(self) -> str:
        """The problem of an index that is no position, as the file counts."""
        last = (LONGEST_SIDE if self.size is None else self.size) - 1 + self.base
        return f"is not between {self.base} and {last}"

    def finish(self) -> tuple[NDArray[np.integer], int, None]:
        """Return the positions counted from 0, the length of the side, and no labels."""
        size = self.positions.largest + 1 if self.size is None else self.size
        return self.positions.finish(), size, None


class LabelColumn:
    """Labels, numbered in sorted order, so that the result does not depend on the order of the lines.

    `file` is what errors call the file that they come from.
    """

    def __init__(self, text: bool) -> None:
        self.text = text  # from a text file: trim blanks, and take integers where all labels are integers
        self.integers: GrowingIntegers | None = (
            GrowingIntegers()
        )  # all labels, as long as all are plain integers
        self.codes = GrowingArray(np.int32)  # places in `labels`
        self.labels: Any = None  # all labels of `codes`, in order of appearance
        self.pending: list[Any] = []  # batches whose labels are not in `labels` yet
        self.strings = False  # whether `labels` must be strings: integers so far can become strings

    @property
    def count(self) -> int:
        """How many entries were taken."""
        integers = 0 if self.integers is None else self.integers.count
        return integers + self.codes.count + sum(map(len, self.pending))

    def add(self, batch: Any) -> None:
        """Take a pyarrow array of integers or strings, or of either dictionary-encoded."""
        batch = self._within_64_bits(batch)
        if self.integers is not None and pa.types.is_integer(batch.type):
            _refuse_nulls(self.integers.count, batch)
            self.integers.append(batch.cast("int64").to_numpy())
            return
        self._become_dictionary()
        batch = batch.dictionary_encode()  # itself, if it is one
        if self.text and not pa.types.is_integer(batch.dictionary.type):
            self._become_strings()
            trimmed = pc.utf8_trim_whitespace(batch.dictionary)
            batch = pa.DictionaryArray.from_arrays(batch.indices, trimmed)
        before = self.codes.count + sum(map(len, self.pending))
        _refuse_nulls(before, batch)
        batch = _used(batch)
        if not pa.types.is_integer(batch.dictionary.type):
            self._check_strings(before, batch)
        self._add_dictionary(batch)

    def _within_64_bits(self, batch: Any) -> Any:
        """Return unsigned integers that int64 cannot hold, and all that follow, as strings."""
        encoded = pa.types.is_dictionary(batch.type)
        values = batch.dictionary if encoded else batch
        if not pa.types.is_uint64(values.type):
            return batch
        if not self.strings:
            largest = pc.max(values).as_py()
            if largest is None or largest <= np.iinfo(np.int64).max:
                return batch
            self._become_dictionary()
            self._become_strings()
        values = values.cast("string")
        return pa.DictionaryArray.from_arrays(batch.indices, values) if encoded else values

    def _check_strings(self, before: int, batch: Any) -> None:
        empty = pc.equal(batch.dictionary, "")
        if pc.any(empty).as_py():
            of_labels = empty.to_numpy(zero_copy_only=False).astype(bool)
            _refuse(before, of_labels[batch.indices.to_numpy()], "is empty")

    def _become_dictionary(self) -> None:
        if self.integers is not None:
            values, self.integers = self.integers.finish(), None
            for part in _parts(values):
                self._add_dictionary(pa.array(part, pa.int64()).dictionary_encode())

    def _add_dictionary(self, batch: Any) -> None:
        self.pending.append(batch)
        # as many new labels as known ones: merging costs a constant per label in all
        if sum(len(part.dictionary) for part in self.pending) > max(MERGE, len(self.labels or ())):
            self._merge()

    def _become_strings(self) -> None:
        if self.pending and not self.strings:
            self._merge()
        if self.labels is not None:
            self.labels = self.labels.cast("string")
        self.strings = True

    def _merge(self) -> None:
        if self.labels is not None:  # first, so that the codes given so far stay valid
            no_codes = pa.array([], self.pending[0].indices.type)
            self.pending.insert(0, pa.DictionaryArray.from_arrays(no_codes, self.labels))
        merged = pa.chunked_array(self.pending).unify_dictionaries()
        self.pending.clear()
        self.labels = merged.chunk(0).dictionary
        for part in merged.chunks:
            self.codes.append(part.indices.to_numpy())

    def finish(self) -> tuple[NDArray[np.integer], int, Labels]:
        """Return the number of each entry's label, how many labels there are, and the labels."""
        if self.integers is not None and self.integers.close:
            codes, labels = self.integers.numbered()
            return codes, len(labels), labels
        self._become_dictionary()
        if self.pending:
            self._merge()
        codes = self.codes.finish()
        found = np.zeros(len(self.labels), dtype=bool)  # categories of a data frame may have no entry
        for part in _parts(codes):
            found[part] = True
        # trimmed labels may occur twice
        labels, numbers = numbered(_label_array(self.labels.filter(pa.array(found)), self.strings))
        number = np.zeros(len(found), dtype=np.int32)
        number[found] = numbers
        for part in _parts(codes):
            part[:] = number[part]
        return codes, len(labels), labels


def _parts(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield views of a long array, as indexing with all of it would copy it."""
    return (array[start : start + MERGE] for start in range(0, len(array), MERGE))


# the columns of row, column and, but for pairs, value, into which a file is read batch by batch
Gather = Sequence[LabelColumn | IndexColumn | ValueColumn]


def _used(batch: Any) -> Any:
    """Return a batch with no more labels than entries: those of a whole file may come with each batch."""
    if len(batch.dictionary) <= len(batch):
        return batch
    used, numbers = np.unique(batch.indices.to_numpy(), return_inverse=True)
    indices = pa.array(numbers.astype(np.int32))
    return pa.DictionaryArray.from_arrays(indices, batch.dictionary.take(pa.array(used)))


def _label_array(labels: Any, from_text: bool) -> Labels:
    """Return the labels as a NumPy array of int64 or of str."""
    if from_text and pc.all(pc.match_substring_regex(labels, CANONICAL_INTEGER)).as_py():
        with contextlib.suppress(pa.ArrowInvalid):  # beyond 64 bits: they stay strings
            labels = labels.cast("int64")
    if pa.types.is_integer(labels.type):
        return np.asarray(labels.cast("int64").to_numpy())
    return string_array(labels.to_pylist())


def _refuse_nulls(count: int, batch: Any) -> None:
    _refuse(count, batch.is_null().to_numpy(zero_copy_only=False), "is empty")


def _refuse(count: int, bad: NDArray[np.bool_], problem: str) -> None:
    """Raise for the first bad entry of a batch that follows `count` entries, if there is one."""
    if bad.any():
        raise BadEntryError(count + int(bad.argmax()), problem)
