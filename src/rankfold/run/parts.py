"""Checkpoints of several processes: a folder with a file for each, and a manifest that names the whole ones.

Each process writes its file; once all are on disk, the first one writes the manifest, and then removes what
it no longer names. Whoever is killed, at whatever moment, the manifest names files that are there.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from rankfold._version import __version__
from rankfold.atomic import replace_text, replacing
from rankfold.distributed.group import Group
from rankfold.distributed.sharded import Places
from rankfold.run.container import Arrays, Container

MANIFEST = "manifest.json"
_FORMAT = 1
_MOST = 1 << 20  # bytes of a manifest, and processes of a run


def write_parts(folder: Path, iteration: int, group: Group, write: Callable[[IO[bytes]], None]) -> None:
    """Let every process write its file to the folder, and the first one say so; else OSError everywhere."""
    generation = f"iteration-{iteration:08d}"

    def own() -> None:
        (folder / generation).mkdir(parents=True, exist_ok=True)
        with replacing(folder / generation / _part(group.rank, group.size)) as file:
            write(file)

    def manifest() -> None:
        if group.rank == 0:
            named = {"format": _FORMAT, "rankfold": __version__, "files": generation, "processes": group.size}
            replace_text(folder / MANIFEST, json.dumps(named) + "\n")

    _everywhere(group, own)
    _everywhere(group, manifest)
    if group.rank == 0:
        for old in folder.glob("iteration-*"):
            if old.name != generation:
                shutil.rmtree(old, ignore_errors=True)


def _everywhere(group: Group, call: Callable[[], None]) -> None:
    """Do it in every process, or raise OSError in every one."""
    error: OSError | None = None
    try:
        call()
    except OSError as caught:
        error = caught
    failed = group.most(float(error is not None))
    if error is not None:
        raise error
    if failed:
        raise OSError("another process could not write its part")


def _part(rank: int, size: int) -> str:
    return f"part-{rank:05d}-of-{size:05d}"


@dataclass(frozen=True)
class PartFiles:
    """The files that a manifest names."""

    folder: Path
    container: Container
    files: str
    processes: int

    @classmethod
    def of(cls, folder: Path, container: Container) -> PartFiles:
        """Read the manifest of a folder."""
        path = folder / MANIFEST
        try:
            with path.open("rb") as file:
                text = file.read(_MOST + 1)
            named = json.loads(text) if len(text) <= _MOST else None
        except (ValueError, RecursionError):
            named = None
        match named:
            case {"format": int() as number} if number > _FORMAT:
                raise container.error(f"{str(path)!r} is newer than this rankfold {__version__}: upgrade it")
            case {"format": 1, "files": str() as files, "processes": int() as processes} if (
                re.fullmatch(r"iteration-\d{8,12}", files) and 1 <= processes <= _MOST
            ):
                return cls(folder, container, files, processes)
        raise container.error(
            f"{str(path)!r} is no manifest of a checkpoint, or damaged: start the run again"
        )

    def read(self, places: tuple[Places, Places]) -> tuple[dict[str, Any], Arrays]:
        """Return text and arrays, with the rows that these places have at hand, whoever wrote them."""
        rank, size = places[0].group.rank, places[0].group.size
        if size == self.processes:
            meta, arrays = self._part(rank)
            if self._cuts(meta) == [list(each.cuts) for each in places]:
                return meta, arrays
        meta, arrays = self._part(0)
        spread = dict(_spread_arrays(meta.get("run")))
        rows: dict[str, list[NDArray[Any]]] = {name: [] for name in spread}
        for k in range(self.processes):
            meta_k, arrays_k = (meta, arrays) if k == 0 else self._part(k)
            for name, height in spread.items():
                rows[name].append(_overlap(arrays_k[name], self._bounds(meta_k, height, k), places, height))
        return meta, arrays | {name: np.concatenate(parts) for name, parts in rows.items()}

    def _part(self, rank: int) -> tuple[dict[str, Any], Arrays]:
        return self.container.read(self.folder / self.files / _part(rank, self.processes))

    def _cuts(self, meta: dict[str, Any]) -> list[list[int]]:
        match meta.get("cuts"):
            case [list() as rows, list() as cols] if all(
                len(cuts) == self.processes + 1 and all(type(cut) is int for cut in cuts)
                for cuts in (rows, cols)
            ):
                return [rows, cols]
        raise ValueError("it does not say which rows it has")

    def _bounds(self, meta: dict[str, Any], height: int, rank: int) -> tuple[int, int]:
        for cuts in self._cuts(meta):
            if cuts[-1] == height:
                return cuts[rank], cuts[rank + 1]
        raise ValueError(f"it holds a matrix of {height} rows")


def _spread_arrays(tree: Any) -> list[tuple[str, int]]:
    """The names of the arrays in a tree that hold some rows of a matrix, and how many rows that has."""
    match tree:
        case {"rows": {"array": str() as name}, "of": int() as height}:
            return [(name, height)]
        case dict():
            return [found for part in tree.values() for found in _spread_arrays(part)]
        case list():
            return [found for part in tree for found in _spread_arrays(part)]
    return []


def _overlap(
    rows: NDArray[Any], bounds: tuple[int, int], places: tuple[Places, Places], height: int
) -> NDArray[Any]:
    """Of rows that lie between two bounds, those that are at hand now."""
    first, last = next((each.bounds for each in places if each.cuts[-1] == height), (0, 0))
    a, b = max(first, bounds[0]), min(last, bounds[1])
    return rows[a - bounds[0] : max(b, a) - bounds[0]]
