"""Triples in many files: each is read once, by one process, and its entries go to whoever has their rows."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold.data.errors import DataFileError
from rankfold.data.io.chosen import Columns
from rankfold.data.io.files import read_triples
from rankfold.data.numbering import kind_of, string_array
from rankfold.data.triples import Triples
from rankfold.distributed.group import Group
from rankfold.distributed.holding_out import throws
from rankfold.distributed.sharded import Places
from rankfold.distributed.spreading import SpreadTriples, row_cuts, sent_home, store_of
from rankfold.entries.observed import Duplicates

Labels = NDArray[Any]
BLOCK = 1 << 20  # entries that a process sends at a time
MEASURED = 1_000_000  # entries set aside that every process gets, about, at most


def read(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    columns: Columns = (None, None, None),
    *,
    group: Group | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str = ".",
    duplicates: Duplicates = "keep",
    parts: bool = False,
    stripes: int | None = None,
    device: str = "cpu",
    held_out: float = 0.0,
    seed: int = 0,
) -> SpreadTriples:
    r"""Read triples from files, or from all whose names fit a pattern such as ``'shards/*.parquet'``.

    Every process calls it with the same arguments, and sees the same files. A process holds one file at a
    time beside 16 bytes for each entry that it has read, and ends with the entries of its rows: contiguous
    ranges of rows with about as many entries each. Labels are numbered in sorted order, as
    `rankfold.data.read_triples` does, whose other parameters these are. With `parts`, a model that is fitted
    to them has in each process its own rows, and in none all of them: for factors that outgrow a machine.
    `stripes` and `device` are those of `spread_triples`. `held_out` is the part of the entries to set aside,
    at random by `seed`, the same on any number of processes: as `held_out` of the result, a million at most.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from rankfold.distributed import read
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for name, text in (("a.csv", "ann,Dune,5\n"), ("b.csv", "bob,Dune,4\nann,Heat,1\n")):
    ...     _ = (folder / name).write_text(text)
    >>> triples = read(f"{folder}/*.csv")
    >>> triples.shape, triples.row_labels.tolist(), triples.store.size
    ((2, 2), ['ann', 'bob'], 3)
    """
    group = group or Group()
    names = group.together(lambda: _names(files), "looking for files")
    group.require_equal("files", f"{' '.join(names)}, {held_out} held out by seed {seed}")
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out must be a fraction from 0 to below 1, got {held_out}")
    own = _shared_out(names, group.size)[group.rank]
    options: dict[str, Any] = {"delimiter": delimiter, "header": header, "decimal": decimal}

    def loaded() -> _Pool:
        pool = _Pool()
        for name in own:
            pool.add(read_triples(name, columns, **options), name == names[0])
        return pool

    pool = group.together(loaded, "reading the files")
    labels = [_everybodys(side, group) for side in pool.labels()]
    pool.renumber(labels)
    said = group.texts(b"" if pool.called is None else json.dumps(pool.called).encode())
    called = json.loads(b"".join(said) or "null")
    shape = len(labels[0]), len(labels[1])
    apart = _set_aside(pool, held_out, seed, shape, group) if held_out else None
    found = _sent(pool, labels, duplicates, group, stripes)
    store, columns_read = found.store.on(device), called and tuple(called)
    return replace(found, store=store, parts=parts, names=columns_read, held_out=apart)


def _names(files: Any) -> list[str]:
    """The files that were asked for, in the order of their names."""
    asked = [files] if isinstance(files, str | os.PathLike) else list(files)
    found: list[str] = []
    for each in (os.fspath(path) for path in asked):
        matches = [each] if Path(each).exists() else sorted(glob(each))
        if not matches:
            raise DataFileError(f"{each}: there is no such file, and none whose name fits this pattern")
        found += matches
    return sorted(dict.fromkeys(found))


def _shared_out(names: Sequence[str], size: int) -> list[list[str]]:
    """Give each process files of about as many bytes: the largest first, to whoever has least."""
    shares: list[list[str]] = [[] for _ in range(size)]
    given = [0] * size
    sizes = {name: os.stat(name).st_size for name in names}
    for name in sorted(names, key=lambda each: (-sizes[each], each)):
        least = given.index(min(given))
        shares[least].append(name)
        given[least] += max(sizes[name], 1)
    return shares


class _Pool:
    """The entries of this process's files, with labels numbered file by file until all are known."""

    def __init__(self) -> None:
        self.files: list[tuple[NDArray[Any], ...]] = []  # labels of rows and columns, and three columns
        self.called: tuple[str, ...] | None = None  # the columns, in the first file of all

    def add(self, triples: Triples, first: bool) -> None:
        """Keep the entries of a file, in 16 bytes each where positions are below 2³²."""
        sides = []
        for names, height in zip((triples.row_labels, triples.col_labels), triples.shape, strict=True):
            sides.append(np.arange(height, dtype=np.int64) if names is None else np.asarray(names))
        self.files.append((*sides, triples.rows, triples.cols, np.asarray(triples.values)))
        if first:
            self.called = triples.names

    def labels(self) -> list[list[Labels]]:
        """The labels of rows of each file, and those of columns."""
        return [[file[k] for file in self.files] for k in (0, 1)]

    def renumber(self, labels: Sequence[Labels]) -> None:
        """Number rows and columns by their places among all labels."""
        files, self.files = self.files, []
        while files:
            *names, rows, cols, values = files.pop(0)
            places = [
                np.searchsorted(all_, _of_kind(own, all_)) for own, all_ in zip(names, labels, strict=True)
            ]
            index = np.uint32 if max(map(len, labels)) <= 2**32 else np.int64
            numbers = [place.astype(index)[at] for place, at in zip(places, (rows, cols), strict=True)]
            none = np.empty(0)
            self.files.append((none, none, numbers[0], numbers[1], values))

    def blocks(self) -> list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]]:
        """All entries, in parts of at most `BLOCK`; the views hold their files no longer than needed."""
        parts = []
        for _, _, *columns in self.files:
            for top in range(0, len(columns[0]), BLOCK):
                rows, cols, values = (column[top : top + BLOCK] for column in columns)
                parts.append((rows, cols, values))
        self.files = []
        return parts


def _set_aside(pool: _Pool, part: float, seed: int, shape: tuple[int, int], group: Group) -> Triples:
    """Take a part of the entries from everybody's pool; of more than `MEASURED`, those with least throws."""
    tables = [np.zeros((0, 4))]
    for k, (*names, rows, cols, values) in enumerate(pool.files):
        numbers = throws(rows, cols, seed)
        apart = numbers < part
        tables.append(np.column_stack([rows[apart], cols[apart], values[apart], numbers[apart]]))
        pool.files[k] = *names, rows[~apart], cols[~apart], values[~apart]
    table = np.concatenate(tables)
    count = float(group.sum(np.array([float(len(table))]))[0])
    table = group.joined(table[table[:, 3] < part * min(1.0, MEASURED / max(count, 1.0))])
    rows, cols, values, _ = table[np.lexsort(table.T)].T
    return Triples(rows.astype(np.int64), cols.astype(np.int64), values.copy(), shape)


def _everybodys(own: Sequence[Labels], group: Group) -> Labels:
    """The labels of all files of all processes, sorted."""
    text = any(kind_of(labels) == "string" for labels in own if len(labels))
    as_text = group.most(float(text)) > 0
    mine = _united([_texts(labels) if as_text else labels for labels in own], as_text)
    lengths = group.stacked(np.array([len(mine)], dtype=np.int64))[:, 0]
    if not lengths.sum():
        raise DataFileError("there is no entry in any file")
    return _united(
        _gathered_text(mine, group) if as_text else _gathered_integers(mine, lengths, group), as_text
    )


def _texts(labels: Labels) -> Labels:
    return labels if kind_of(labels) == "string" else labels.astype(np.str_)


def _of_kind(labels: Labels, like: Labels) -> Labels:
    return _texts(labels) if kind_of(like) == "string" else labels.astype(like.dtype)


def _united(parts: Sequence[Labels], as_text: bool) -> Labels:
    """Distinct labels, in order."""
    if as_text:
        return string_array(sorted({name for part in parts for name in part.tolist()}))
    filled = [part for part in parts if len(part)]
    return np.unique(np.concatenate(filled)) if filled else np.empty(0, np.int64)


def _gathered_text(mine: Labels, group: Group) -> list[Labels]:
    separated = "\0".join(mine.tolist()).encode("utf-8", "surrogatepass")
    if any("\0" in name for name in mine.tolist()):
        raise DataFileError("a label has the letter NUL in it: rename it")
    texts = [text.decode("utf-8", "surrogatepass") for text in group.texts(separated)]
    return [string_array(text.split("\0")) for text in texts if text]


def _gathered_integers(mine: Labels, lengths: NDArray[Any], group: Group) -> list[Labels]:
    """Everybody's integers: unsigned, where one of them does not fit int64."""
    large = len(mine) > 0 and mine.dtype == np.uint64
    kind = np.uint64 if group.most(float(large)) else np.int64
    if group.most(float(kind is np.uint64 and len(mine) > 0 and int(mine.min()) < 0)):
        raise DataFileError("labels of one side do not fit one integer type: write them as strings")
    own = mine.astype(kind).view(np.int64)
    return [part.view(kind) for part in _in_turn(own, lengths, group)]


def _in_turn(own: NDArray[np.int64], lengths: NDArray[Any], group: Group) -> list[NDArray[np.int64]]:
    """Everybody's numbers, of which there may be more here than there."""
    padded = np.zeros(int(lengths.max()), np.int64)
    padded[: len(own)] = own
    rows = group.stacked(padded)
    return [rows[k, :length] for k, length in enumerate(lengths)]


def _sent(
    pool: _Pool, labels: Sequence[Labels], duplicates: Duplicates, group: Group, stripes: int | None
) -> SpreadTriples:
    """Cut the rows, and send all entries to whoever has their rows, block by block."""
    height, width = (len(each) for each in labels)
    blocks = pool.blocks()
    counts = np.zeros(height)
    for rows, _, _ in blocks:
        counts += np.bincount(rows, minlength=height)
    counts = group.sum(counts)
    cuts = row_cuts(counts, group.size)
    expected = int(counts[Places(group, cuts).own].sum())
    index = blocks[0][0].dtype if blocks else np.dtype(np.uint32 if max(height, width) <= 2**32 else np.int64)
    rows, cols = np.empty(expected, index), np.empty(expected, index)
    values, filled = np.empty(expected), 0
    blocks.reverse()
    for _ in range(int(group.most(len(blocks)))):
        nothing = np.empty(0, index), np.empty(0, index), np.empty(0)
        arrived = sent_home(blocks.pop() if blocks else nothing, cuts, group)
        end = filled + len(arrived[2])
        for column, part in zip((rows, cols, values), arrived, strict=True):
            column[filled:end] = part
        filled = end
    columns = [rows, cols, values]
    del rows, cols, values, column  # so that the list alone knows them
    store = store_of(columns, cuts, width, duplicates, group, stripes)
    return SpreadTriples(store, labels[0], labels[1])
