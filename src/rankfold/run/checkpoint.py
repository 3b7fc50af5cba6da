"""Runs in files: written whole or not at all, and read back to step on to the same numbers."""

from __future__ import annotations

import io
import json
import os
import warnings
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankfold._version import __version__
from rankfold.atomic import replacing
from rankfold.problem import Problem
from rankfold.run.records import Packer, Unpacker, declared_classes, describe
from rankfold.run.result import Best, Progress
from rankfold.run.trace import Trace

FORMAT = 1


class CheckpointError(ValueError):
    """A file that is no checkpoint, is damaged, or belongs to another run."""


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run: every so many iterations or seconds, whichever comes first.

    The start and the end of a run, also an interrupted one, are saved in any case.

    Examples
    --------
    >>> from rankfold.run.checkpoint import Checkpoint
    >>> Checkpoint("run.ckpt", every=10)
    Checkpoint(path='run.ckpt', every=10, seconds=60.0)
    """

    path: str | os.PathLike[str]
    every: int | None = None
    seconds: float | None = 60.0

    def __post_init__(self) -> None:
        if self.every is not None and self.every < 1:
            raise ValueError(f"every must be at least 1 iteration, not {self.every!r}")
        if self.seconds is not None and not self.seconds >= 0:
            raise ValueError(f"seconds must be at least 0, not {self.seconds!r}")
        if not Path(self.path).absolute().parent.is_dir():
            raise ValueError(f"path is {os.fspath(self.path)!r}, whose folder does not exist: make it first")


class Writer:
    """Saves one run as its `Checkpoint` asks."""

    def __init__(self, checkpoint: Checkpoint, method: Any, problem: Problem) -> None:
        self._checkpoint, self._method, self._problem = checkpoint, method, problem
        self._saved: Progress | None = None

    def offer(self, progress: Progress) -> None:
        """Save `progress` if it is time to."""
        every, seconds = self._checkpoint.every, self._checkpoint.seconds
        if self._saved is None:
            # The first time everything may fail: a wrong path is noticed before there is work to lose.
            save(self._checkpoint.path, progress, self._method, self._problem)
            self._saved = progress
        elif (every is not None and progress.iteration - self._saved.iteration >= every) or (
            seconds is not None and progress.seconds - self._saved.seconds >= seconds
        ):
            self._try_to_save(progress)

    def finish(self, progress: Progress) -> None:
        """Save the end of a run."""
        if self._saved is None or progress.iteration != self._saved.iteration:
            self._try_to_save(progress)

    def _try_to_save(self, progress: Progress) -> None:
        try:
            save(self._checkpoint.path, progress, self._method, self._problem)
        except OSError as error:
            # A full disk is no reason to lose the run; the previous file is still whole.
            path = os.fspath(self._checkpoint.path)
            message = f"iteration {progress.iteration} was not saved to {path!r}: {error}"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
        self._saved = progress  # also if it failed: not to try again at every iteration


def _identity(method: Any, problem: Problem) -> dict[str, str]:
    """Return what must agree for a run to be continued, by the name that an error gives it."""
    geometry = problem.geometry
    return {
        "shape": f"{tuple(map(int, geometry.shape))}",
        "rank": f"{int(geometry.rank)}",
        "geometry": describe(geometry),
        "solver": describe(method),
        "cost": type(problem.cost).__qualname__,
    }


def save(path: str | os.PathLike[str], progress: Progress, method: Any, problem: Problem) -> None:
    """Write a run to the file `path`, which holds the old content until all of the new is on disk."""
    packer = Packer(declared_classes(method, problem.geometry), problem.cost)
    run = (progress.state, tuple(progress.best), np.asarray(progress.trace))
    meta = {
        "format": FORMAT,
        "rankfold": __version__,
        "iteration": progress.iteration,
        "seconds": progress.seconds,
        "value_at_zero": float(problem.cost.value_at_zero),
        "identity": _identity(method, problem),
        "run": [packer.pack(part) for part in run],
    }
    text = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    contents: dict[str, Any] = {"meta": text, **packer.arrays}
    with replacing(path) as file:
        np.savez(file, **contents)


def load(path: str | os.PathLike[str], method: Any, problem: Problem) -> Progress:
    """Read a run back from `path`, to go on with the same method on the same problem.

    Raises CheckpointError if the file is damaged, is newer than this library, or belongs to another run.
    """
    name = os.fspath(path)
    content = Path(path).read_bytes()
    try:
        meta, arrays = _decode(content)
    except Exception as error:  # a damaged archive fails in more ways than zipfile and NumPy name
        raise CheckpointError(f"{name!r} is no checkpoint, or damaged: {error}") from error
    if meta["format"] > FORMAT:
        raise CheckpointError(
            f"{name!r} was written by rankfold {meta['rankfold']}, which is newer than this one "
            f"({__version__}): upgrade rankfold to resume it"
        )
    _check_identity(name, meta, method, problem)
    unpacker = Unpacker(declared_classes(method, problem.geometry), arrays, problem)
    try:
        state, best, rows = (unpacker.unpack(tree) for tree in meta["run"])
        return Progress(state, Best(*best), Trace.from_array(rows))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{name!r} does not fit rankfold {__version__}: {error}") from error


def _decode(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    # Every array is read here, which compares its checksum.
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    meta = json.loads(arrays.pop("meta").tobytes())
    if not {"format", "rankfold", "identity", "value_at_zero", "run"} <= meta.keys():
        raise ValueError("it lacks what every checkpoint has")
    return meta, arrays


def _check_identity(name: str, meta: dict[str, Any], method: Any, problem: Problem) -> None:
    for part, ours in _identity(method, problem).items():
        saved = meta["identity"].get(part)
        if saved != ours:
            raise CheckpointError(f"{name!r} is from another run: its {part} is {saved}, here it is {ours}")
    our_zero, saved_zero = float(problem.cost.value_at_zero), meta["value_at_zero"]
    # The sum over all data differs with the number of threads, but only by rounding.
    if not isclose(our_zero, saved_zero, rel_tol=1e-6):
        raise CheckpointError(
            f"{name!r} is from other data: its value at W = 0 is {saved_zero!r}, here it is {our_zero!r}"
        )
