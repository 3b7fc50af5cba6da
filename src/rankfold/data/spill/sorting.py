"""Sorting entries that outgrow memory into a folder: what is asked for, and what of it is done already."""

from __future__ import annotations

import errno
import json
import os
import re
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike

from rankfold.data.io.chosen import Columns
from rankfold.data.spill.folder import SortedFolder
from rankfold.data.spill.manifest import Manifest, locked, prepared
from rankfold.data.spill.sources import Reading, found_files, four_columns, identity, is_files, write_given
from rankfold.data.spill.steps import Options, Sort, Tell
from rankfold.entries.triple_checks import checked_shape

LEAST_MEMORY = 1 << 24
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def sort_into(
    folder: str | os.PathLike[str],
    sources: Any,
    columns: Columns = (None, None, None),
    *,
    delimiter: str | None = None,
    header: bool | None = None,
    decimal: str = ".",
    shape: tuple[int, int] | None = None,
    memory: int | float | str = "1GB",
    dtype: DTypeLike = "float64",
    duplicates: Literal["keep", "error"] = "keep",
    held_out: float = 0.0,
    seed: int = 0,
    tell: Tell | None = None,
) -> SortedFolder:
    """Sort entries that may outgrow memory into a folder, by row and by column, and open it.

    The arrays are those that the entries have when sorted in memory. A sort that was ended, by whatever, goes
    on from its last finished step when it is called again; a finished one is opened, as long as the sources
    have not changed (by size and time; entries given as arrays by content) and the options are the same.
    Else what the folder holds is sorted anew.

    Parameters
    ----------
    folder
        A new folder, an empty one, or one that was sorted into before. While sorting it takes up to 44 bytes
        an entry, 24 in the end (32 and 16 with float32).
    sources
        Names of Parquet, CSV or TSV files, or patterns such as "shards/*.parquet"; or blocks of entries
        (rows, cols, values[, weights]), as a list or anything that yields them, or `rankfold.data.Triples`.
    columns, delimiter, header, decimal
        As for `rankfold.data.read_triples`; a fourth column holds weights.
    shape
        (m, n) says that rows and columns are positions, counted from 0, instead of labels.
    memory
        How many bytes sorting may take, such as "500MB", beside the labels of both sides and about 0.3 GB
        for Python and its libraries.
    dtype
        "float64", or "float32" for values in half the room.
    duplicates
        Pairs that come twice: "keep" counts each as an observation, "error" refuses them.
    held_out, seed
        The part of the entries to set aside, chosen at random; `SortedFolder.held_out` has them.
    tell
        Called with a line of text and whether it is news, such as that nothing is to be done, or progress.

    Raises
    ------
    DataFileError
        As `read_triples` does, with file and line.
    OSError
        A file cannot be read, or the disk is full. What was finished before is kept.

    Examples
    --------
    >>> import tempfile, numpy as np, rankfold as rf
    >>> blocks = ((np.arange(9) % 3, np.arange(9) // 3, np.arange(9.0)) for _ in range(1))
    >>> folder = rf.data.sort_into(tempfile.mkdtemp(), blocks, shape=(3, 3), memory="100MB")
    >>> folder.store.by_row.data[:, 0].tolist()
    [0.0, 3.0, 6.0, 1.0, 4.0, 7.0, 2.0, 5.0, 8.0]
    """
    path, say = Path(folder), tell or (lambda text, news: None)
    shape = None if shape is None else checked_shape(shape)
    reading = Reading(four_columns(columns), delimiter, header, decimal, shape)
    options = _options(dtype, duplicates, held_out, seed, bytes_of(memory))
    try:
        prepared(path)
        with locked(path):
            return _sort(path, sources, reading, options, say)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        remedy = "the disk is full: free some room and sort again, which goes on from where it was"
        raise OSError(errno.ENOSPC, remedy, error.filename or str(path)) from error


def _options(dtype: DTypeLike, duplicates: str, held_out: float, seed: int, memory: int) -> Options:
    kind = np.dtype(dtype)
    if kind not in (np.float32, np.float64):
        raise ValueError(f"dtype must be 'float64' or 'float32', not {dtype!r}")
    if duplicates not in ("keep", "error"):
        raise ValueError(f"duplicates must be 'error' or 'keep'; got {duplicates!r}")
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out must be a fraction from 0 to below 1, got {held_out}")
    return Options(kind.name, duplicates, float(held_out), int(seed), memory)


def bytes_of(memory: int | float | str) -> int:
    """Return a number of bytes, of which "1.5GB" is one.

    Examples
    --------
    >>> bytes_of("1.5GB"), bytes_of("512 MiB")
    (1500000000, 536870912)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([KMGT]?I?B|)\s*", str(memory).upper())
    if not found:
        raise ValueError(f"memory must be a number of bytes, such as '1GB' or 500_000_000; got {memory!r}")
    size = int(float(found[1]) * _UNITS[found[2]])
    if size < LEAST_MEMORY:
        raise ValueError(f"memory must be at least {LEAST_MEMORY >> 20} MiB; got {memory!r}")
    return size


def _sort(path: Path, sources: Any, reading: Reading, options: Options, say: Tell) -> SortedFolder:
    manifest = Manifest.read(path)
    given = path / "given.parquet"
    if is_files(sources):
        files = found_files(sources)
        marks: list[Any] = [identity(file) for file in files]
        names = reading.names(files[0])
    else:
        columns, mark = write_given(given, sources)
        reading = Reading(tuple(range(columns)), shape=reading.shape)
        files, marks, names = [given], [{"given": mark}], None
    task = json.loads(
        json.dumps({"sources": marks, "names": names, "reading": asdict(reading), "options": asdict(options)})
    )
    if _same(manifest, task):
        over, ended = (
            f"{path} is sorted already: its sources have not changed",
            f"going on with the sort in {path}",
        )
        say(over if "finished" in manifest.facts else ended, True)
    else:
        if manifest.facts:
            say(f"{path} was sorted from other sources, or otherwise: sorting anew", True)
        manifest.restart(task)
    if "finished" not in manifest.facts:
        Sort(path, files, reading, options, manifest, say).run()
    given.unlink(missing_ok=True)
    return SortedFolder.open(path, options.memory)


def _same(manifest: Manifest, task: dict[str, Any]) -> bool:
    """Whether a folder has, or is on the way to, what a task asks for; memory matters until it is there."""
    if not manifest.task:
        return False
    known, asked = ({**each, "options": dict(each["options"])} for each in (manifest.task, task))
    if "finished" in manifest.facts:
        for each in (known, asked):
            each["options"].pop("memory")
    return known == asked
